//! `hapax keys`: make, list and revoke API keys (A2, M2), through a server or directly in a store that none has open.

use std::sync::Arc;

use clap::{Args as ClapArgs, Subcommand};
use hapax_store::{Lifecycle as _, Store};
use serde_json::{Value, json};

use super::remote::{Remote, Server, encoded};
use super::{Failed, say, store};
use crate::admin::{Asking, KeyDesk, key_json};
use crate::limits;

/// How a store's keys are reached; who keeps keys gives it.
pub(crate) type OpenDesk = fn(Store) -> Arc<dyn KeyDesk>;

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
    #[arg(long, value_parser = ["project", "tenant", "platform"])]
    level: Option<String>,
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
pub(crate) async fn run(command: Command, open: Option<OpenDesk>) -> Result<(), Failed> {
    match command {
        Command::Create(create) => create.run(open).await,
        Command::List(list) => list.run(open).await,
        Command::Revoke(revoke) => revoke.run(open).await,
    }
}

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
enum Desk {
    Server(Remote),
    Store(Store, Arc<dyn KeyDesk>),
}

impl Place {
    async fn open(&self, open: Option<OpenDesk>, access: Access) -> Result<Desk, Failed> {
        let Some(url) = &self.store else { return Remote::new(&self.server).map(Desk::Server) };
        let Some(open) = open else {
            return Err(Failed::misuse("this hapax reaches keys through a server only: leave --store out"));
        };
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
        Ok(Desk::Store(store.clone(), open(store)))
    }
}

impl Desk {
    /// Pages until there are enough keys, or no more. A page may be empty and still have a next one.
    async fn gathered(
        &self,
        mut after: Option<String>,
        limit: usize,
    ) -> Result<(Vec<Value>, Option<String>), Failed> {
        let mut keys = Vec::new();
        for _ in 0..limits::REMOTE_PAGES {
            let (more, next) = self.page(after, limit - keys.len()).await?;
            keys.extend(more);
            after = next;
            if after.is_none() || keys.len() >= limit {
                break;
            }
        }
        Ok((keys, after))
    }

    async fn page(
        &self,
        after: Option<String>,
        limit: usize,
    ) -> Result<(Vec<Value>, Option<String>), Failed> {
        match self {
            Desk::Server(remote) => {
                let mut query = vec![("limit", limit.to_string())];
                query.extend(after.map(|after| ("after", after)));
                let mut page = remote.get("/v1/keys", &query, &["keys", "next"]).await?;
                let next = page["next"].as_str().map(str::to_owned);
                let keys = match page["keys"].take() {
                    Value::Array(keys) => keys,
                    _ => Vec::new(),
                };
                Ok((keys, next))
            }
            Desk::Store(_, keys) => {
                let page = keys.list(after, limit).await?;
                Ok((page.items.iter().map(key_json).collect(), page.next))
            }
        }
    }

    async fn close(self) -> Result<(), Failed> {
        match self {
            Desk::Store(store, _) => Ok(store.close().await?),
            Desk::Server(_) => Ok(()),
        }
    }
}

impl Create {
    async fn run(self, open: Option<OpenDesk>) -> Result<(), Failed> {
        let Create { tenant, project, subject, level, label, expires, place } = self;
        let asking = Asking { tenant, project, subject, level, label, expires };
        // Before anything is asked: a mistake is told the same way whether or not a server is there.
        let new = asking.clone().checked()?;
        let desk = place.open(open, Access::Make).await?;
        let made = match &desk {
            Desk::Server(remote) => remote.post("/v1/keys", &json!(asking), &["id", "key"]).await?,
            Desk::Store(_, keys) => {
                let made = keys.create(new).await?;
                json!({"id": made.id, "key": made.key})
            }
        };
        desk.close().await?;
        let id = say::text(&made, "id");
        let told = match place.json {
            true => say::json(&made),
            false => say::data(say::text(&made, "key")),
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
    async fn run(self, open: Option<OpenDesk>) -> Result<(), Failed> {
        if !(1..=hapax_core::limits::MAX_PAGE).contains(&self.limit) {
            return Err(Failed::misuse("--limit takes 1 to 1000"));
        }
        let desk = self.place.open(open, Access::Look).await?;
        let (keys, next) = desk.gathered(self.after.clone(), self.limit).await?;
        let page = json!({"keys": keys, "next": next});
        desk.close().await?;
        match self.place.json {
            true => say::json(&page),
            false => tell(&page, self.after.as_deref()),
        }
    }
}

fn tell(page: &Value, after: Option<&str>) -> Result<(), Failed> {
    let names = ["id", "tenant", "project", "subject", "level", "expires_at", "label"];
    let keys = page["keys"].as_array().map(Vec::as_slice).unwrap_or_default();
    if let (true, Some(after)) = (keys.is_empty(), after) {
        say::note(format!("no keys after {}", say::clean(after)));
        return Ok(());
    }
    if keys.is_empty() {
        say::note("no keys yet; `hapax keys create --tenant T --project P --subject service:ci` makes one");
        return Ok(());
    }
    let rows: Vec<_> =
        keys.iter().map(|key| names.iter().map(|name| say::text(key, name)).collect()).collect();
    say::data(say::table(&["ID", "TENANT", "PROJECT", "SUBJECT", "LEVEL", "EXPIRES", "LABEL"], &rows))?;
    if let Some(next) = page["next"].as_str() {
        say::note(format!("there are more: --after {next}"));
    }
    Ok(())
}

/// The id in a whole key: the part before its secret, which is neither sent nor shown. Anything else is as it was.
fn id_of(text: &str) -> &str {
    text.match_indices('_').nth(1).map_or(text, |(end, _)| &text[..end])
}

impl Revoke {
    async fn run(mut self, open: Option<OpenDesk>) -> Result<(), Failed> {
        self.id.truncate(id_of(&self.id).len());
        if self.id.is_empty() {
            return Err(Failed::misuse("name the key by its id, as `hapax keys list` shows it"));
        }
        let desk = self.place.open(open, Access::Change).await?;
        let revoked = match &desk {
            Desk::Server(remote) => {
                remote.delete(&format!("/v1/keys/{}", encoded(&self.id)), &[], &["id", "revoked"]).await?
            }
            Desk::Store(_, keys) => match keys.revoke(self.id.clone()).await? {
                true => json!({"id": self.id, "revoked": true}),
                false => json!({"id": self.id, "revoked": false}),
            },
        };
        desk.close().await?;
        if revoked["revoked"] == false {
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
    use hapax_store::Options;
    use hapax_store::embedded::Embedded;

    use super::*;
    use crate::admin::tests::NoKeys;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(subcommand)]
        command: Command,
    }

    async fn list(store: &str, open: Option<OpenDesk>) -> Result<(), Failed> {
        run(Line::parse_from(["keys", "list", "--store", store]).command, open).await
    }

    fn desk(_: Store) -> Arc<dyn KeyDesk> {
        Arc::new(NoKeys)
    }

    #[tokio::test]
    async fn a_store_that_no_server_has_open_is_used_directly_m2() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("embedded:{}", folder.path().display());
        drop(Embedded::open(folder.path(), Options::default()).unwrap());
        list(&url, Some(desk)).await.unwrap();
        list(&url, Some(desk)).await.unwrap();
    }

    #[tokio::test]
    async fn a_store_that_a_server_has_open_is_left_to_the_server_b8() {
        let folder = tempfile::tempdir().unwrap();
        let _server = Embedded::open(folder.path(), Options::default()).unwrap();
        let failed = list(&format!("embedded:{}", folder.path().display()), Some(desk)).await.unwrap_err();
        assert_eq!(failed.code, 3);
        assert!(
            failed.message.contains("another process") && failed.message.contains("--admin"),
            "{failed:?}"
        );
    }

    #[tokio::test]
    async fn a_store_that_would_forget_the_key_is_refused_b1() {
        assert_eq!(list("memory:", Some(desk)).await.unwrap_err().code, 2);
        assert_eq!(list("sqlite:x", Some(desk)).await.unwrap_err().code, 2);
    }
}
