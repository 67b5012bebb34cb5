//! `hapax webhooks`: make, list, rotate and revoke webhooks, and look at their deliveries (W1, W8, M2), through a server.

mod deliveries;

use std::io::Read as _;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args as ClapArgs, Subcommand};
use hapax_api::{
    Algorithm, Dedupe, NewWebhook, Nothing, On4xx, RevokeWebhook, RotateWebhook, Webhooks, WebhooksQuery,
    operations as op,
};

use super::remote::{Remote, Server};
use super::{Failed, say};
use crate::limits;

/// What can be done with webhooks.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a webhook. A secret that is made for it is shown once.
    Create(Box<Create>),
    /// List webhooks; their secrets are not shown.
    List(List),
    /// Give a webhook another secret; the former ones count beside it, so that the sender can change in its own time.
    Rotate(Rotate),
    /// Revoke a webhook: its path is a 404 at once at the server that was asked, and within seconds at every other.
    Revoke(Revoke),
    /// Show a webhook, how many deliveries it has had, and which were refused.
    Show(deliveries::Show),
    /// List the deliveries of a webhook with their answers, newest first.
    Deliveries(deliveries::List),
    /// Set kept refusals of a webhook aside, so that its sender's next tries run. hapax does not send them again by itself.
    Reopen(deliveries::Reopen),
}

/// How the server is asked, and how its answer is shown.
#[derive(Debug, ClapArgs)]
struct Place {
    #[command(flatten)]
    server: Server,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Who decides, for the audit.
#[derive(Debug, ClapArgs)]
struct Who {
    /// Who decides, where that is not the token's own name.
    #[arg(long)]
    by: Option<String>,
    /// Why, for the audit.
    #[arg(long)]
    reason: Option<String>,
}

/// `hapax webhooks create`
#[derive(Debug, ClapArgs)]
pub(crate) struct Create {
    /// Whose deliveries come there.
    #[arg(long)]
    tenant: String,
    /// In which project.
    #[arg(long)]
    project: String,
    /// Who sends them: github, shopify, slack, standard, stripe, twilio, twilio-events, or a declared one.
    #[arg(long)]
    provider: String,
    /// Read the sender's secret from standard input.
    #[arg(long, group = "secret")]
    secret_stdin: bool,
    /// The environment variable of the servers that has the secret.
    #[arg(long, value_name = "NAME", group = "secret")]
    secret_env: Option<String>,
    /// The file of the servers that has the secrets, one a line.
    #[arg(long, value_name = "PATH", group = "secret")]
    secret_file: Option<String>,
    /// The secret is in the KV store, at TENANT:PROJECT:PROVIDER.
    #[arg(long, group = "secret")]
    secret_kv: bool,
    /// What makes two deliveries the same: identifier or content. It cannot be changed later.
    #[arg(long, value_parser = PossibleValuesParser::new(["identifier", "content"]).map(|word| match &*word {
        "content" => Dedupe::Content,
        _ => Dedupe::Identifier,
    }))]
    dedupe: Option<Dedupe>,
    /// What becomes of answers of status 4xx: release (the sender's next try runs) or keep.
    #[arg(long, default_value = "release", value_parser = PossibleValuesParser::new(["release", "keep"]).map(|word| match &*word {
        "keep" => On4xx::Keep,
        _ => On4xx::Release,
    }))]
    on_4xx: On4xx,
    /// Twilio signs these deliveries with SHA-256.
    #[arg(long)]
    sha256: bool,
    /// What it is for.
    #[arg(long)]
    label: Option<String>,
    #[command(flatten)]
    who: Who,
    #[command(flatten)]
    place: Place,
}

/// `hapax webhooks list`
#[derive(Debug, ClapArgs)]
pub(crate) struct List {
    /// At most so many webhooks.
    #[arg(long, default_value_t = limits::PAGE)]
    limit: usize,
    /// Go on where an earlier list ended.
    #[arg(long, value_name = "MARK")]
    after: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// `hapax webhooks rotate`
#[derive(Debug, ClapArgs)]
pub(crate) struct Rotate {
    /// The webhook's id.
    id: String,
    /// Read the new secret from standard input. Without it one is made and shown once, unless --drop-former is given.
    #[arg(long)]
    secret_stdin: bool,
    /// All secrets but the newest stop counting at once. Without --secret-stdin no new one is made: the last that was rotated in stays.
    #[arg(long)]
    drop_former: bool,
    #[command(flatten)]
    who: Who,
    #[command(flatten)]
    place: Place,
}

/// `hapax webhooks revoke`
#[derive(Debug, ClapArgs)]
pub(crate) struct Revoke {
    /// The webhook's id.
    id: String,
    #[command(flatten)]
    who: Who,
    #[command(flatten)]
    place: Place,
}

/// Runs `hapax webhooks`.
pub(crate) async fn run(command: Command) -> Result<(), Failed> {
    match command {
        Command::Create(create) => create.run().await,
        Command::List(list) => list.run().await,
        Command::Rotate(rotate) => rotate.run().await,
        Command::Revoke(revoke) => revoke.run().await,
        Command::Show(show) => show.run().await,
        Command::Deliveries(list) => list.run().await,
        Command::Reopen(reopen) => reopen.run().await,
    }
}

/// The secret on standard input, without the line's end.
fn secret_of_stdin() -> Result<String, Failed> {
    let mut text = String::new();
    let most = limits::SECRET_LENGTH as u64 * 4 + 2;
    std::io::stdin()
        .take(most)
        .read_to_string(&mut text)
        .map_err(|error| Failed::misuse(format!("the secret cannot be read from standard input: {error}")))?;
    let secret = text.trim_end_matches(['\r', '\n']);
    match secret.is_empty() {
        true => Err(Failed::misuse("the secret on standard input is empty")),
        false => Ok(secret.to_owned()),
    }
}

impl Create {
    async fn run(self) -> Result<(), Failed> {
        let asked = NewWebhook {
            secret: self.secret_stdin.then(secret_of_stdin).transpose()?,
            tenant: self.tenant,
            project: self.project,
            provider: self.provider,
            secret_env: self.secret_env,
            secret_file: self.secret_file,
            secret_kv: self.secret_kv,
            dedupe: self.dedupe,
            on_4xx: self.on_4xx,
            algorithm: if self.sha256 { Algorithm::Sha256 } else { Algorithm::Provider },
            label: self.label,
            by: self.who.by,
            reason: self.who.reason,
        };
        let remote = Remote::new(&self.place.server)?;
        let made = remote.call::<op::CreateWebhook>("", &Nothing {}, &asked).await?;
        let id = &made.webhook_id;
        let told = match self.place.json {
            true => say::json(&made),
            false => say::data(made.url.as_ref().unwrap_or(&made.path)),
        };
        told.map_err(|failed| failed.and(format!("the webhook {id} was made")))?;
        if let (Some(secret), false) = (&made.secret, self.place.json) {
            say::note(format!("its secret is {secret}; it is not shown again"));
        }
        Ok(())
    }
}

impl List {
    async fn run(self) -> Result<(), Failed> {
        if !(1..=hapax_core::limits::MAX_PAGE).contains(&self.limit) {
            return Err(Failed::misuse("--limit takes 1 to 1000"));
        }
        let remote = Remote::new(&self.place.server)?;
        let query = WebhooksQuery { limit: Some(self.limit), after: self.after };
        let page = remote.call::<op::ListWebhooks>("", &query, &Nothing {}).await?;
        match self.place.json {
            true => say::json(&page),
            false => tell(&page),
        }
    }
}

fn tell(page: &Webhooks) -> Result<(), Failed> {
    if page.webhooks.is_empty() {
        say::note("no webhooks; `hapax webhooks create --tenant T --project P --provider github` makes one");
        return Ok(());
    }
    let rows = page.webhooks.iter().map(|webhook| {
        vec![
            webhook.webhook_id.clone(),
            webhook.tenant.clone(),
            webhook.project.clone(),
            webhook.provider.clone(),
            webhook.revoked_at.as_ref().map_or_else(|| "in use".into(), |at| format!("revoked {at}")),
            webhook.label.clone().unwrap_or_default(),
        ]
    });
    let rows: Vec<_> = rows.collect();
    say::data(say::table(&["ID", "TENANT", "PROJECT", "PROVIDER", "STATE", "LABEL"], &rows))?;
    if let Some(next) = &page.next {
        say::note(format!("there are more: --after {next}"));
    }
    Ok(())
}

impl Rotate {
    async fn run(self) -> Result<(), Failed> {
        let asked = RotateWebhook {
            secret: self.secret_stdin.then(secret_of_stdin).transpose()?,
            drop_former: self.drop_former,
            by: self.who.by,
            reason: self.who.reason,
        };
        let remote = Remote::new(&self.place.server)?;
        let rotated = remote.call::<op::RotateWebhook>(&self.id, &Nothing {}, &asked).await?;
        let told = match (self.place.json, &rotated.secret) {
            (true, _) => say::json(&rotated),
            (false, Some(secret)) => say::data(secret),
            (false, None) => say::data(format!("{} has {} secrets now", rotated.webhook_id, rotated.secrets)),
        };
        if rotated.dropped > 0 && !self.place.json {
            say::note(format!("former secrets that do not count any more: {}", rotated.dropped));
        }
        told.map_err(|failed| failed.and("the secrets of the webhook were changed"))
    }
}

impl Revoke {
    async fn run(self) -> Result<(), Failed> {
        let remote = Remote::new(&self.place.server)?;
        let query = RevokeWebhook { by: self.who.by, reason: self.who.reason };
        let revoked = remote.call::<op::RevokeWebhook>(&self.id, &query, &Nothing {}).await?;
        let told = match self.place.json {
            true => say::json(&revoked),
            false => say::data(format!("{} revoked", revoked.webhook_id)),
        };
        told.map_err(|failed| failed.and("the webhook is revoked"))
    }
}
