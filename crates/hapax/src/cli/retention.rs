//! `hapax retention`: how long outcomes are kept, looked at and changed while servers run (P5).

use clap::{Args as ClapArgs, Subcommand};
use serde_json::Value;

use super::claims::Why;
use super::remote::{Remote, Server, encoded};
use super::{Failed, say};

/// What an answer about one class has.
const CLASS: [&str; 3] = ["class", "retention", "configured"];

/// What can be done about retention.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the classes, with what is configured and what was set.
    List(List),
    /// Keep outcomes of a class for so long, in all servers on the store, until it is unset. Those that are kept already stay as
    /// they are.
    Set(Set),
    /// Keep outcomes of a class as configured again.
    Unset(Unset),
}

/// `hapax retention list`
#[derive(Debug, ClapArgs)]
pub(crate) struct List {
    #[command(flatten)]
    place: Place,
}

/// `hapax retention set`
#[derive(Debug, ClapArgs)]
pub(crate) struct Set {
    /// The class, as [retention] in the configuration names it.
    class: String,
    /// How long: 1s to 3650d, such as 48h or 7d; or forever.
    #[arg(value_name = "SPAN")]
    retention: String,
    #[command(flatten)]
    why: Why,
    #[command(flatten)]
    place: Place,
}

/// `hapax retention unset`
#[derive(Debug, ClapArgs)]
pub(crate) struct Unset {
    /// The class.
    class: String,
    #[command(flatten)]
    why: Why,
    #[command(flatten)]
    place: Place,
}

/// Whom to ask, and how to tell.
#[derive(Debug, ClapArgs)]
struct Place {
    #[command(flatten)]
    server: Server,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs `hapax retention`.
pub(crate) async fn run(command: Command) -> Result<(), Failed> {
    match command {
        Command::List(list) => list.run().await,
        Command::Set(set) => set.run().await,
        Command::Unset(unset) => unset.run().await,
    }
}

impl List {
    async fn run(self) -> Result<(), Failed> {
        let told = Remote::new(&self.place.server)?.get("/v1/retention", &[], &["classes"]).await?;
        if self.place.json {
            return say::json(&told);
        }
        let classes = told["classes"].as_array().map(Vec::as_slice).unwrap_or_default();
        if classes.is_empty() {
            say::note("this server has no classes of retention");
            return Ok(());
        }
        let rows: Vec<_> = classes.iter().map(row).collect();
        say::data(say::table(
            &["CLASS", "KEPT FOR", "CONFIGURED", "SET BY", "SET AT", "ROUTES", "REASON"],
            &rows,
        ))
    }
}

fn row(class: &Value) -> Vec<String> {
    let (set, routes) = (&class["set"], class["routes"].as_array().map_or(0, Vec::len));
    vec![
        say::text(class, "class"),
        say::text(class, "retention"),
        say::text(class, "configured"),
        say::text(set, "by"),
        say::text(set, "at"),
        routes.to_string(),
        say::text(set, "reason"),
    ]
}

impl Set {
    async fn run(self) -> Result<(), Failed> {
        let mut body = self.why.into_members();
        body.insert("retention".into(), self.retention.into());
        let path = format!("/v1/retention/{}", encoded(&self.class));
        let told = Remote::new(&self.place.server)?.post(&path, &body.into(), &CLASS).await?;
        self.place.tell(&told)
    }
}

impl Unset {
    async fn run(self) -> Result<(), Failed> {
        let path = format!("/v1/retention/{}", encoded(&self.class));
        let told = Remote::new(&self.place.server)?.delete(&path, &self.why.into_query(), &CLASS).await?;
        self.place.tell(&told)
    }
}

impl Place {
    fn tell(&self, class: &Value) -> Result<(), Failed> {
        if self.json {
            return say::json(class);
        }
        let text = |name| say::text(class, name);
        say::data(format!("{}: {} (configured: {})", text("class"), text("retention"), text("configured")))?;
        say::note(
            "it counts for outcomes recorded from now on; other servers on the store follow within seconds",
        );
        Ok(())
    }
}
