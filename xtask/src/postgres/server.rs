//! A PostgreSQL server of our own: its own data, its own port, gone when the value is dropped.
//!
//! The server keeps what production keeps (fsync, synchronous commit): the tests are about durability. PostgreSQL
//! refuses to run as root, so for root it runs as the user `postgres` (or `nobody`), and its data must lie where
//! that user can reach it.

use std::env;
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{BIN_DIR_VAR, Programs, URL_VAR};
use crate::{process, workspace};

const MAX_CONNECTIONS: u16 = 200;
const PORT_ATTEMPTS: u32 = 5;
const START_BOUND: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
/// How a server is asked to end, ever less politely, and how long each asking may take.
const STOP: [(Signal, Duration); 3] = [
    (Signal::INT, Duration::from_secs(15)),
    (Signal::QUIT, Duration::from_secs(5)),
    (Signal::KILL, Duration::from_secs(5)),
];

const DIR_PREFIX: &str = "hapax-pg-";
/// A directory younger than this is never taken for a leftover: its owner may not have locked it yet.
const LEFTOVER_AGE: Duration = Duration::from_secs(60);
/// Linux bounds the path of a socket to 107 bytes, and `/.s.PGSQL.65535` comes on top of the directory.
const MAX_DIR_BYTES: usize = 107 - "/.s.PGSQL.65535".len();

/// A running private server.
///
/// The fields are dropped in this order: the server ends before its directory is deleted.
#[derive(Debug)]
pub(crate) struct Server {
    _postmaster: Postmaster,
    _home: Home,
    bin_dir: PathBuf,
    port: u16,
}

impl Server {
    /// Creates a cluster and starts a server on it; returns when it takes connections.
    pub(crate) fn start(programs: &Programs) -> Result<Server> {
        let bin_dir = programs.bin_dir().to_owned();
        let home = Home::create()?;
        create_cluster(&bin_dir, &home)?;
        for _ in 0..PORT_ATTEMPTS {
            let port = free_port()?;
            let mut postmaster = Postmaster::spawn(&bin_dir, &home, port)?;
            if postmaster.is_ready_in_time(&home)? {
                return Ok(Server { _postmaster: postmaster, _home: home, bin_dir, port });
            }
        }
        bail!("found no free port on 127.0.0.1 in {PORT_ATTEMPTS} attempts")
    }

    /// The server's address.
    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// The directory of the server's programs.
    pub(crate) fn bin_dir(&self) -> &Path {
        &self.bin_dir
    }

    /// Tells a command where the server and its programs are.
    pub(crate) fn set_env(&self, command: &mut Command) {
        let path = env::var_os("PATH").unwrap_or_default();
        let dirs = [self.bin_dir.clone()].into_iter().chain(env::split_paths(&path));
        command.env(URL_VAR, self.url()).env(BIN_DIR_VAR, &self.bin_dir);
        if let Ok(path) = env::join_paths(dirs) {
            command.env("PATH", path);
        }
    }

    /// Tells `psql` and its like, too.
    pub(crate) fn set_client_env(&self, command: &mut Command) {
        self.set_env(command);
        command.env("PGHOST", "127.0.0.1").env("PGPORT", self.port.to_string());
        command.env("PGUSER", "postgres").env("PGDATABASE", "postgres");
    }
}

/// The user that the server runs as when we are root.
#[derive(Debug, Clone, Copy)]
struct Account {
    uid: u32,
    gid: u32,
}

impl Account {
    /// `None`: run it as ourselves.
    fn of_server() -> Result<Option<Account>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let users = fs::read_to_string("/etc/passwd").context("cannot read the list of users")?;
        let account = ["postgres", "nobody"].iter().find_map(|name| Account::named(name, &users));
        match account {
            Some(account) => Ok(Some(account)),
            None => bail!(
                "PostgreSQL refuses to run as root, and there is no user `postgres` or `nobody`: add one"
            ),
        }
    }

    fn named(name: &str, users: &str) -> Option<Account> {
        users.lines().find_map(|line| {
            let mut fields = line.split(':');
            let found = fields.next() == Some(name);
            let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
            found.then_some(Account { uid, gid })
        })
    }
}

/// The directory that holds a server's data, socket and log; deleted when dropped.
///
/// The lock says that its owner lives. What a killed owner left behind is deleted by the next one.
#[derive(Debug)]
struct Home {
    dir: TempDir,
    account: Option<Account>,
    _lock: File,
}

impl Home {
    /// A directory in Cargo's target directory, or in the system's where the server's user cannot reach the former.
    fn create() -> Result<Home> {
        let account = Account::of_server()?;
        let parents = [workspace::target_dir().join("xtask"), env::temp_dir(), PathBuf::from("/tmp")];
        for parent in &parents {
            let home = Home::create_in(parent, account)?;
            if home.dir().as_os_str().len() <= MAX_DIR_BYTES && home.is_reachable() {
                return Ok(home);
            }
        }
        bail!(
            "the user that PostgreSQL runs as can write to none of {parents:?}: set TMPDIR to a directory it can"
        )
    }

    fn create_in(parent: &Path, account: Option<Account>) -> Result<Home> {
        let cannot = || format!("cannot create a directory for PostgreSQL in {}", parent.display());
        fs::create_dir_all(parent).with_context(cannot)?;
        delete_leftovers(parent);
        let dir = tempfile::Builder::new().prefix(DIR_PREFIX).tempdir_in(parent).with_context(cannot)?;
        let lock = File::create(dir.path().join("lock")).with_context(cannot)?;
        lock.lock().with_context(cannot)?;
        if let Some(Account { uid, gid }) = account {
            chown(dir.path(), Some(uid), Some(gid)).with_context(cannot)?;
        }
        Ok(Home { dir, account, _lock: lock })
    }

    fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn data(&self) -> PathBuf {
        self.dir().join("data")
    }

    fn log(&self) -> PathBuf {
        self.dir().join("server.log")
    }

    fn is_reachable(&self) -> bool {
        let mut test = Command::new("sh");
        test.args(["-c", r#"cd "$1" && test -w ."#, "sh"]).arg(self.dir());
        self.as_server_user(&mut test);
        process::succeeds(&mut test)
    }

    fn as_server_user(&self, command: &mut Command) {
        command.current_dir("/");
        if let Some(Account { uid, gid }) = self.account {
            command.uid(uid).gid(gid);
        }
    }

    /// Both streams of the command go to the log.
    fn log_to(&self, command: &mut Command) -> Result<()> {
        let log =
            File::options().create(true).append(true).open(self.log()).context("cannot open the log")?;
        command.stdin(Stdio::null()).stderr(log.try_clone().context("cannot open the log")?).stdout(log);
        Ok(())
    }

    fn read_log(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_else(|error| format!("(no log: {error})"))
    }
}

/// Deletes the directories whose owner was killed. What cannot be deleted stays: it is in nobody's way.
fn delete_leftovers(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(DIR_PREFIX) {
            continue;
        }
        let Ok(lock) = File::open(entry.path().join("lock")) else { continue };
        let age = lock.metadata().and_then(|file| file.modified()).ok().and_then(|time| time.elapsed().ok());
        if age.is_some_and(|age| age > LEFTOVER_AGE) && lock.try_lock().is_ok() {
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}

fn create_cluster(bin_dir: &Path, home: &Home) -> Result<()> {
    let mut initdb = Command::new(bin_dir.join("initdb"));
    initdb.arg("--pgdata").arg(home.data());
    initdb.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-locale"]);
    // Only the empty cluster is not synced; the server itself syncs everything.
    initdb.arg("--no-sync");
    home.as_server_user(&mut initdb);
    home.log_to(&mut initdb)?;
    let status = process::run(&mut initdb)?;
    ensure!(status.success(), "`initdb` failed ({status}):\n{}", home.read_log());
    Ok(())
}

/// A port that was free a moment ago; the caller tries again when it no longer is.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("cannot listen on 127.0.0.1")?;
    Ok(listener.local_addr().context("cannot listen on 127.0.0.1")?.port())
}

/// The server's process; ended when dropped.
#[derive(Debug)]
struct Postmaster(Child);

impl Postmaster {
    fn spawn(bin_dir: &Path, home: &Home, port: u16) -> Result<Postmaster> {
        let program = bin_dir.join("postgres");
        let mut command = Command::new(&program);
        if process::succeeds(Command::new("setpriv").args(["--pdeathsig", "INT", "true"])) {
            // The kernel then ends the server even if we are killed.
            command = Command::new("setpriv");
            command.args(["--pdeathsig", "INT"]).arg(program);
        }
        command.arg("-D").arg(home.data());
        for setting in [
            "listen_addresses=127.0.0.1".to_owned(),
            format!("port={port}"),
            format!("unix_socket_directories=\"{}\"", home.dir().display()),
            format!("max_connections={MAX_CONNECTIONS}"),
            "fsync=on".to_owned(),
        ] {
            command.arg("-c").arg(setting);
        }
        home.as_server_user(&mut command);
        home.log_to(&mut command)?;
        // A group of its own: Ctrl-C at the terminal is for the tests, the server ends after them.
        let child = command.process_group(0).spawn().context("cannot start `postgres`")?;
        Ok(Postmaster(child))
    }

    /// Waits until the server takes connections; `false`: somebody else has taken its port.
    fn is_ready_in_time(&mut self, home: &Home) -> Result<bool> {
        let began = Instant::now();
        while began.elapsed() < START_BOUND {
            if process::interrupted() {
                bail!("interrupted");
            }
            if let Some(status) = self.0.try_wait().context("cannot wait for `postgres`")? {
                let log = home.read_log();
                if log.contains("could not create any TCP/IP sockets") {
                    return Ok(false);
                }
                bail!("PostgreSQL did not start ({status}):\n{log}");
            }
            let state = fs::read_to_string(home.data().join("postmaster.pid")).unwrap_or_default();
            if says_ready(&state) {
                return Ok(true);
            }
            thread::sleep(POLL);
        }
        bail!("PostgreSQL took no connections within {START_BOUND:?}:\n{}", home.read_log())
    }

    fn has_ended_within(&mut self, bound: Duration) -> bool {
        let began = Instant::now();
        while began.elapsed() < bound {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return true;
            }
            thread::sleep(POLL);
        }
        false
    }
}

/// The eighth line of a server's lock file is its state; `pg_ctl` reads it in the same way.
fn says_ready(lock_file: &str) -> bool {
    lock_file.lines().nth(7).is_some_and(|state| state.trim() == "ready")
}

impl Drop for Postmaster {
    fn drop(&mut self) {
        for (signal, bound) in STOP {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            // It can only fail when the process has just ended: the wait below tells.
            let _ = kill_process(Pid::from_child(&self.0), signal);
            if self.has_ended_within(bound) {
                return;
            }
        }
        eprintln!("PostgreSQL (process {}) does not end", self.0.id());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    fn programs() -> Programs {
        assert!(
            env::var_os(BIN_DIR_VAR).is_some(),
            "{BIN_DIR_VAR} is not set: run this with `cargo xtask test` or `cargo xtask postgres -- cargo test …`"
        );
        Programs::find_or_install().unwrap()
    }

    #[test]
    fn a_server_takes_connections_and_leaves_nothing_behind() {
        let server = Server::start(&programs()).unwrap();
        let (port, dir) = (server.port, server._home.dir().to_owned());
        TcpStream::connect(("127.0.0.1", port)).unwrap();
        assert!(dir.is_dir());

        drop(server);
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
        assert!(!dir.exists());
    }

    #[test]
    fn a_panic_stops_the_server() {
        let programs = programs();
        let (sender, seen) = std::sync::mpsc::channel();
        let panicked = thread::spawn(move || {
            let server = Server::start(&programs).unwrap();
            sender.send((server.port, server._home.dir().to_owned())).unwrap();
            panic!("planted");
        });
        assert!(panicked.join().is_err());
        let (port, dir) = seen.recv().unwrap();
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
        assert!(!dir.exists());
    }

    #[test]
    fn only_what_a_dead_owner_left_is_deleted() {
        let parent = tempfile::tempdir().unwrap();
        let old = std::time::SystemTime::now() - 2 * LEFTOVER_AGE;
        let lock_of = |name: &str, modified| {
            let dir = parent.path().join(name);
            fs::create_dir(&dir).unwrap();
            let lock = File::create(dir.join("lock")).unwrap();
            lock.set_modified(modified).unwrap();
            lock
        };
        let alive = lock_of("hapax-pg-alive", old);
        alive.lock().unwrap();
        drop(lock_of("hapax-pg-dead", old));
        drop(lock_of("hapax-pg-young", std::time::SystemTime::now()));
        drop(lock_of("other", old));

        delete_leftovers(parent.path());
        let mut left: Vec<_> =
            fs::read_dir(parent.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["hapax-pg-alive", "hapax-pg-young", "other"]);
    }

    #[test]
    fn an_account_is_read_by_its_whole_name() {
        let users = "root:x:0:0::/:/bin/sh\npostgres2:x:7:7::/:/bin/sh\npostgres:x:101:104:,,,:/:/bin/sh\n";
        let account = Account::named("postgres", users).unwrap();
        assert_eq!((account.uid, account.gid), (101, 104));
        assert!(Account::named("nobody", users).is_none());
    }

    #[test]
    fn a_server_that_is_starting_is_not_ready() {
        let lines = |state| format!("1\ndata\n2\n5432\ndir\n127.0.0.1\n3 4\n{state}\n");
        assert!(says_ready(&lines("ready   ")));
        assert!(!says_ready(&lines("starting")));
        assert!(!says_ready("1\ndata\n"));
    }
}
