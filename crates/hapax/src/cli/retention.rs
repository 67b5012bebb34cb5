//! `hapax retention`: how long outcomes are kept, looked at and changed while servers run (P5).

use clap::{Args as ClapArgs, Subcommand};
use hapax_api::{Nothing, RetentionClass, SetRetention, UnsetRetention, operations as op};

use super::claims::Why;
use super::remote::{Remote, Server};
use super::{Failed, say};

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
        let remote = Remote::new(&self.place.server)?;
        let told = remote.call::<op::ListRetention>("", &Nothing {}, &Nothing {}).await?;
        if self.place.json {
            return say::json(&told);
        }
        if told.classes.is_empty() {
            say::note("this server has no classes of retention");
            return Ok(());
        }
        let rows: Vec<_> = told.classes.iter().map(row).collect();
        say::data(say::table(
            &["CLASS", "KEPT FOR", "CONFIGURED", "SET BY", "SET AT", "ROUTES", "REASON"],
            &rows,
        ))
    }
}

fn row(class: &RetentionClass) -> Vec<String> {
    let set = class.set.as_ref();
    vec![
        class.class.clone(),
        class.retention.clone().unwrap_or_default(),
        class.configured.clone().unwrap_or_default(),
        set.map(|set| set.by.clone()).unwrap_or_default(),
        set.map(|set| set.at.to_string()).unwrap_or_default(),
        class.routes.len().to_string(),
        set.map(|set| set.reason.clone()).unwrap_or_default(),
    ]
}

impl Set {
    async fn run(self) -> Result<(), Failed> {
        let (reason, by) = self.why.into_parts();
        let body = SetRetention { retention: self.retention, reason, by };
        let remote = Remote::new(&self.place.server)?;
        let told = remote.call::<op::SetRetention>(&self.class, &Nothing {}, &body).await?;
        self.place.tell(&told)
    }
}

impl Unset {
    async fn run(self) -> Result<(), Failed> {
        let (reason, by) = self.why.into_parts();
        let query = UnsetRetention { reason, by };
        let remote = Remote::new(&self.place.server)?;
        let told = remote.call::<op::UnsetRetention>(&self.class, &query, &Nothing {}).await?;
        self.place.tell(&told)
    }
}

impl Place {
    fn tell(&self, class: &RetentionClass) -> Result<(), Failed> {
        if self.json {
            return say::json(class);
        }
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let (kept, configured) = (text(&class.retention), text(&class.configured));
        say::data(format!("{}: {kept} (configured: {configured})", class.class))?;
        for service in &class.delegated {
            let (outcomes, journals) =
                (text(&service.idempotency_retention), text(&service.journal_retention));
            let problem = service.problem.as_ref().map(|problem| format!(" – {problem}")).unwrap_or_default();
            say::data(format!(
                "{}/{}: outcomes {outcomes}, journals {journals}{problem}",
                service.upstream, service.service
            ))?;
        }
        say::note(
            "it counts for outcomes recorded from now on; other servers on the store follow within seconds",
        );
        Ok(())
    }
}
