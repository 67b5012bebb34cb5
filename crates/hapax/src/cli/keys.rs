//! `hapax keys`: make, list and revoke API keys (A2, M2), through a server or directly in a store that none has open.

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args as ClapArgs, Subcommand};
use hapax_api::{Keys, KeysQuery, Level, NewKey, Nothing, Revoked, operations as op};
use hapax_store::Lifecycle as _;

use super::remote::{Remote, Server};
use super::{Failed, say, store};
use crate::Store;
use crate::admin;
use crate::limits;

/// What can be done with keys.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a key. It is shown once.
    Create(Create),
    /// List keys; the keys themselves are not kept.
    List(List),
    /// Revoke a key.
    Revoke(Revoke),
}

/// Where keys are kept.
#[derive(Debug, ClapArgs)]
struct Place {
    #[command(flatten)]
    server: Server,
    /// Write to this store directly, which no server has open: embedded:PATH; or postgres://…
    #[arg(long, value_name = "URL", conflicts_with = "admin")]
    store: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// `hapax keys create`
#[derive(Debug, ClapArgs)]
pub(crate) struct Create {
    /// Whose key.
    #[arg(long)]
    tenant: String,
    /// In which project; required for the level project.
    #[arg(long)]
    project: Option<String>,
    /// As whom it acts: user:ID, service:ID, tenant_member:ID or client:ID.
    #[arg(long)]
    subject: String,
    /// How far it reaches.
    #[arg(long, value_parser = PossibleValuesParser::new(Level::ALL.iter().map(|level| level.as_str())).try_map(|text| text.parse::<Level>()))]
    level: Option<Level>,
    /// What it is for.
    #[arg(long)]
    label: Option<String>,
    /// When it ends: a span such as 90d, or a time in UTC.
    #[arg(long, value_name = "WHEN")]
    expires: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// `hapax keys list`
#[derive(Debug, ClapArgs)]
pub(crate) struct List {
    /// At most so many keys.
    #[arg(long, default_value_t = limits::PAGE)]
    limit: usize,
    /// Go on where an earlier list ended.
    #[arg(long, value_name = "MARK")]
    after: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// `hapax keys revoke`
#[derive(Debug, ClapArgs)]
pub(crate) struct Revoke {
    /// The key's id, as `hapax keys list` shows it; or the key itself, if that is what leaked.
    id: String,
    #[command(flatten)]
    place: Place,
}

/// Runs `hapax keys`.
pub(crate) async fn run(command: Command) -> Result<(), Failed> {
    match command {
        Command::Create(create) => create.run().await,
        Command::List(list) => list.run().await,
        Command::Revoke(revoke) => revoke.run().await,
    }
}

/// Who the audit names where a store is written directly: no token was shown.
const AT_THE_STORE: &str = "command line";

/// What a command does to the store.
#[derive(Clone, Copy)]
enum Access {
    /// It may be the first to use it.
    Make,
    /// It changes what is there.
    Change,
    /// It only looks.
    Look,
}

/// Where keys are reached.
enum Source {
    Server(Remote),
    Store(Store),
}

impl Place {
    async fn open(&self, access: Access) -> Result<Source, Failed> {
        let Some(url) = &self.store else { return Remote::new(&self.server).map(Source::Server) };
        if url == "memory:" {
            return Err(Failed::misuse("a memory store forgets the key when this command ends: use --admin"));
        }
        let store = match access {
            Access::Look if !url.starts_with("embedded:") => {
                store::read_postgres(url).await.map(Store::Postgres)
            }
            Access::Look | Access::Change => store::open_named(url, false).await,
            Access::Make => store::open_named(url, true).await,
        }?;
        Ok(Source::Store(store))
    }
}

impl Source {
    /// Pages until there are enough keys, or no more. A page may be empty and still have a next one.
    async fn gathered(&self, after: Option<String>, limit: usize) -> Result<Keys, Failed> {
        let mut all = Keys { keys: Vec::new(), next: after };
        for _ in 0..limits::REMOTE_PAGES {
            let query = KeysQuery { limit: Some(limit - all.keys.len()), after: all.next.take() };
            let page = match self {
                Source::Server(remote) => remote.call::<op::ListKeys>("", &query, &Nothing {}).await?,
                Source::Store(store) => admin::keys_page(store, &query).await?,
            };
            all.keys.extend(page.keys);
            all.next = page.next;
            if all.next.is_none() || all.keys.len() >= limit {
                break;
            }
        }
        Ok(all)
    }

    async fn close(self) -> Result<(), Failed> {
        match self {
            Source::Store(store) => Ok(store.close().await?),
            Source::Server(_) => Ok(()),
        }
    }
}

impl Create {
    async fn run(self) -> Result<(), Failed> {
        let Create { tenant, project, subject, level, label, expires, place } = self;
        let asked = NewKey { tenant, project, subject, level, label, expires };
        // Before anything is asked: a mistake is told the same way whether or not a server is there.
        let new = admin::checked_key(&asked)?;
        let source = place.open(Access::Make).await?;
        let made = match &source {
            Source::Server(remote) => remote.call::<op::CreateKey>("", &Nothing {}, &asked).await?,
            Source::Store(store) => admin::create_key(store, new, AT_THE_STORE).await?,
        };
        source.close().await?;
        let id = &made.id;
        let told = match place.json {
            true => say::json(&made),
            false => say::data(&made.key),
        };
        told.map_err(|failed| {
            failed
                .and(format!("the key was made and is shown nowhere: `hapax keys revoke {id}` takes it back"))
        })?;
        if !place.json {
            say::note(format!("its id is {id}; the key is not shown again"));
        }
        Ok(())
    }
}

impl List {
    async fn run(self) -> Result<(), Failed> {
        if !(1..=hapax_core::limits::MAX_PAGE).contains(&self.limit) {
            return Err(Failed::misuse("--limit takes 1 to 1000"));
        }
        let source = self.place.open(Access::Look).await?;
        let page = source.gathered(self.after.clone(), self.limit).await?;
        source.close().await?;
        match self.place.json {
            true => say::json(&page),
            false => tell(&page, self.after.as_deref()),
        }
    }
}

fn tell(page: &Keys, after: Option<&str>) -> Result<(), Failed> {
    if let (true, Some(after)) = (page.keys.is_empty(), after) {
        say::note(format!("no keys after {}", say::clean(after)));
        return Ok(());
    }
    if page.keys.is_empty() {
        say::note("no keys yet; `hapax keys create --tenant T --project P --subject service:ci` makes one");
        return Ok(());
    }
    let rows = page.keys.iter().map(|key| {
        vec![
            key.id.clone(),
            key.tenant.clone(),
            key.project.clone().unwrap_or_default(),
            key.subject.clone(),
            key.level.to_string(),
            key.expires_at.as_ref().map(ToString::to_string).unwrap_or_default(),
            key.label.clone().unwrap_or_default(),
        ]
    });
    let rows: Vec<_> = rows.collect();
    say::data(say::table(&["ID", "TENANT", "PROJECT", "SUBJECT", "LEVEL", "EXPIRES", "LABEL"], &rows))?;
    if let Some(next) = &page.next {
        say::note(format!("there are more: --after {next}"));
    }
    Ok(())
}

/// The id in a whole key: the part before its secret, which is neither sent nor shown. Anything else is as it was.
fn id_of(text: &str) -> &str {
    text.match_indices('_').nth(1).map_or(text, |(end, _)| &text[..end])
}

impl Revoke {
    async fn run(mut self) -> Result<(), Failed> {
        self.id.truncate(id_of(&self.id).len());
        if self.id.is_empty() {
            return Err(Failed::misuse("name the key by its id, as `hapax keys list` shows it"));
        }
        let source = self.place.open(Access::Change).await?;
        let revoked = match &source {
            Source::Server(remote) => {
                remote.call::<op::RevokeKey>(&self.id, &Nothing {}, &Nothing {}).await?
            }
            Source::Store(store) => {
                let revoked = admin::revoke_key(store, &self.id, AT_THE_STORE).await?.is_some();
                Revoked { id: self.id.clone(), revoked }
            }
        };
        source.close().await?;
        if !revoked.revoked {
            return Err(Failed::no(format!("there is no key {}", self.id)));
        }
        let told = match self.place.json {
            true => say::json(&revoked),
            false => say::data(format!("{} revoked", self.id)),
        };
        told.map_err(|failed| failed.and("the key is revoked"))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use hapax_sqlite::Embedded;
    use hapax_store::Options;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(subcommand)]
        command: Command,
    }

    async fn list(store: &str) -> Result<(), Failed> {
        run(Line::parse_from(["keys", "list", "--store", store]).command).await
    }

    #[tokio::test]
    async fn a_store_that_no_server_has_open_is_used_directly_m2() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("embedded:{}", folder.path().display());
        drop(Embedded::open(folder.path(), Options::default()).unwrap());
        list(&url).await.unwrap();
        list(&url).await.unwrap();
    }

    #[tokio::test]
    async fn a_store_that_a_server_has_open_is_left_to_the_server_b8() {
        let folder = tempfile::tempdir().unwrap();
        let _server = Embedded::open(folder.path(), Options::default()).unwrap();
        let failed = list(&format!("embedded:{}", folder.path().display())).await.unwrap_err();
        assert_eq!(failed.code, 3);
        assert!(
            failed.message.contains("another process") && failed.message.contains("--admin"),
            "{failed:?}"
        );
    }

    #[tokio::test]
    async fn a_store_that_would_forget_the_key_is_refused_b1() {
        assert_eq!(list("memory:").await.unwrap_err().code, 2);
        assert_eq!(list("sqlite:x").await.unwrap_err().code, 2);
    }
}
