//! `hapax serve`: runs the edge and the admin listener as a configuration says, until the process is asked to end.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args as ClapArgs;
use hapax_exec::Seal;
use hapax_gateway::settings::Auth;
use hapax_store::{Lifecycle as _, Options};

use crate::Store;
use crate::actions;
use crate::admin::{Console, Setup};
use crate::cli::{Failed, say, store};
use crate::config::{self, Config};
use crate::log;
use crate::node::{Classes, Node, Parts};
use crate::operations::{Moment, Operations, Standing, agree, left};
use crate::signals::{Signals, Told};

/// What `hapax serve` can be told.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Args {
    /// The configuration.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Serve the console's files from this folder, read anew each time: for those who work on them.
    #[cfg(debug_assertions)]
    #[arg(long, value_name = "FOLDER")]
    console_dir: Option<PathBuf>,
}

impl Args {
    /// Where the console's files are, if not in the program.
    fn console(&self) -> Option<&PathBuf> {
        #[cfg(debug_assertions)]
        return self.console_dir.as_ref();
        #[cfg(not(debug_assertions))]
        None
    }
}

/// Serves until the process is asked to end; reads the configuration again at SIGHUP. What is running then is waited for, and
/// where it does not come to its end, that is an error.
pub(crate) async fn run(args: Args) -> Result<(), Failed> {
    let mut config = load(&args)?;
    store::keep_private();
    let _writing = log::start(&config.log);
    let mut signals = Signals::listen()?;
    tell(&config.notices);
    if config.seal.is_empty() {
        tracing::warn!("outcomes are kept unencrypted: see [seal]");
    }
    let mut options = Options { term: config.store.lease, ..Options::default() };
    // What a new configuration keeps beyond it, the store is told before that holds.
    options.largest_outcome = config.settings.largest_kept().unwrap_or(options.largest_outcome);
    let opening = store::open(&config.store.url, options);
    let Some(store) = unless_told_to_end(&mut signals, opening).await.transpose()? else { return Ok(()) };
    tracing::info!(store = config.store.shown_url(), "{}", store.notice());
    let (node, standing) =
        match Box::pin(unless_told_to_end(&mut signals, start(&store, &mut config, args.console()))).await {
            Some(Ok(started)) => started,
            not_started => {
                // Nobody is to take this for a process that serves. Told again, it does not wait for a store that is away either.
                tokio::select! {
                    _ = store.close() => {}
                    () = signals.end() => {}
                }
                return not_started.map_or(Ok(()), |failed| failed.map(drop));
            }
        };
    tracing::info!(edge = %node.edge(), admin = %node.admin(), routes = config.settings.routes.len(), "serving");
    say_where(&config, &node);
    while signals.next().await == Told::Reload {
        // To end goes before a store or a service that lets a reload wait.
        tokio::select! {
            () = reload(&args, &store, &node, &standing, &config) => {}
            () = signals.end() => break,
        }
    }
    node.take_nothing_new();
    tracing::info!(within = ?node.drain_timeout(), "finishing what is running; told again, it ends at once");
    let clean = tokio::select! {
        clean = node.drain() => clean?,
        () = signals.end() => return Err(Failed::no("ended at once, as told, with requests still running")),
    };
    if !clean {
        return Err(Failed::no("some requests did not come to their end in time"));
    }
    tracing::info!("everything came to its end");
    Ok(())
}

/// What this comes to; nothing where the process is told to end before.
async fn unless_told_to_end<T>(signals: &mut Signals, doing: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        done = doing => Some(done),
        () = signals.end() => {
            tracing::info!("told to end before it served");
            None
        }
    }
}

async fn start(
    store: &Store,
    config: &mut Config,
    console: Option<&PathBuf>,
) -> Result<(Node, Arc<Standing>), Failed> {
    let operations = Operations::of(config);
    let agreed = agree(store, store, &Moment::Start(store), &operations).await?;
    tell(&agreed.notices);
    tell(left::forsaken(store, store, &operations).await?.as_slice());
    agreed.apply(config);
    let standing = Arc::new(Standing::new(store.clone(), operations, agreed.firsts));
    let node = Node::start(store.clone(), parts(config, standing.clone(), console)?).await?;
    Ok((node, standing))
}

fn load(args: &Args) -> Result<Config, Failed> {
    config::load(&args.config, &|name| std::env::var(name).ok())
        .map_err(|mistakes| Failed::no(mistakes.to_string()))
}

fn tell(notices: &[String]) {
    for notice in notices {
        tracing::warn!("{notice}");
    }
}

fn parts(config: &Config, standing: Arc<Standing>, console: Option<&PathBuf>) -> Result<Parts, Failed> {
    let seal = match config.seal.is_empty() {
        true => None,
        false => Some(Arc::new(Seal::new(config.seal.iter().map(|key| key.0).collect())?)),
    };
    Ok(Parts {
        spool: config.store.spool(&config.file),
        seal,
        installation: Some(standing),
        settings: config.settings.clone(),
        classes: Classes::from(config),
        schedules: config.schedules.clone(),
        admin: Setup {
            hosts: config.admin.hosts.clone(),
            tls: config.admin.tls.clone(),
            console: match (config.admin.console, console) {
                (false, _) => Console::Off,
                (true, None) => Console::Built,
                (true, Some(folder)) => Console::Folder(folder.clone()),
            },
            name: config.admin.name.clone(),
            label: config.admin.label.clone(),
            links: config.admin.links.clone(),
            shown: config.to_json(),
            ..Setup::new(config.admin.listen, config.admin.tokens()?)
        },
        traces: config.traces.clone(),
        rules: actions::rules(config)?,
        api: config.api.as_ref().map(|api| (api.listen, api.hosts.clone())),
    })
}

/// Reads the configuration again. With any mistake everything stays as it is; what cannot change while the process runs is told
/// (P5).
async fn reload(args: &Args, store: &Store, node: &Node, standing: &Standing, started: &Config) {
    let reading = args.clone();
    // A file may take as long as whoever writes it, or the disk it is on; who is told to end meanwhile hears it.
    let loaded = tokio::task::spawn_blocking(move || load(&reading)).await;
    let mut config = match loaded.unwrap_or_else(|error| Err(Failed::unavailable(error.to_string()))) {
        Ok(config) => config,
        Err(failed) => {
            tracing::error!("the configuration was not reloaded: {}", failed.message);
            return;
        }
    };
    let (operations, served) = (Operations::of(&config), standing.firsts());
    // Before anything is agreed on: what is refused leaves the registry as it was.
    let taken_away = left::taken_away(store, store, &standing.operations(), &operations).await;
    let agreed = match taken_away {
        Ok(()) => agree(store, store, &Moment::<Store>::Reload(&served), &operations).await,
        Err(refused) => Err(refused),
    };
    let agreed = match agreed {
        Ok(agreed) => agreed,
        Err(error) => {
            tracing::error!("the configuration was not reloaded: {error}");
            return;
        }
    };
    agreed.apply(&mut config);
    let renamed = renamed(&node.auth(), &config.settings.auth);
    let reloaded = match (config.admin.tokens(), actions::rules(&config)) {
        (Ok(tokens), Ok(rules)) => {
            let (settings, classes) = (config.settings.clone(), Classes::from(&config));
            node.reload(settings, classes, &config.schedules, rules, &tokens).await
        }
        (Err(error), _) | (_, Err(error)) => Err(error),
    };
    if let Err(error) = reloaded {
        tracing::error!("the configuration was not reloaded: {error:#}");
        return;
    }
    standing.serve(operations, agreed.firsts);
    tell(&config.notices);
    tell(&agreed.notices);
    tell(renamed.as_slice());
    let fixed = config.fixed_since(started);
    node.show(config.to_json(), fixed.clone());
    if !fixed.is_empty() {
        tracing::warn!("{}: the change takes effect after a restart", fixed.join(", "));
    }
    tracing::info!(routes = config.settings.routes.len(), "the configuration was reloaded");
}

/// Callers whom tokens name otherwise are others to hapax, with keys of their own. Which claims are theirs cannot be told.
fn renamed(before: &Auth, now: &Auth) -> Option<String> {
    let named = |auth: &Auth| auth.jwt.as_ref().map(|jwt| (jwt.claims.clone(), jwt.subject_type));
    let is_another = named(before).zip(named(now)).is_some_and(|(before, now)| before != now);
    is_another.then(|| {
        "[auth.jwt] names callers otherwise than before (`claims`, `subject_type`): of a caller that has another name now, a key that was \
         used runs again"
            .to_owned()
    })
}

/// A line for whoever started it, on standard output, when requests can be sent; another one where applications are served.
fn say_where(config: &Config, node: &Node) {
    let scheme = if config.settings.edge.tls.is_some() { "https" } else { "http" };
    let operators = if config.admin.tls.is_some() { "https" } else { "http" };
    let mut told =
        format!("hapax serves on {scheme}://{} (admin: {operators}://{})", node.edge(), node.admin());
    if let Some(api) = node.api() {
        told.push_str(&format!("\nhapax serves applications on http://{api}"));
    }
    if let Err(failed) = say::data(told) {
        // It serves all the same; the log has the addresses, too.
        tracing::warn!("{}", failed.message);
    }
}
