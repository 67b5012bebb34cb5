//! A PostgreSQL server that may be killed: the test command's own server is shared and must live.
//!
//! PostgreSQL refuses to run as root, so for root it runs as the user `postgres` or `nobody`. Settings are those of
//! production where it matters here: everything is synced.

use std::fs::{self, File};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use hapax_testkit::port::Port;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

/// Names the directory of the server's programs; the test command sets it.
pub const PROGRAMS_VAR: &str = "HAPAX_TEST_PG_BIN";

const START_BOUND: Duration = Duration::from_secs(60);
const STOP_BOUND: Duration = Duration::from_secs(10);

/// A server and its data; killed and deleted when dropped.
#[derive(Debug)]
pub struct Server {
    postmaster: Option<Child>,
    home: TempDir,
    programs: PathBuf,
    account: Option<(u32, u32)>,
    /// Its own while it has fallen, too.
    port: Port,
}

impl Server {
    /// Creates a cluster and starts a server on it.
    pub fn start() -> Result<Server> {
        let programs = std::env::var_os(PROGRAMS_VAR).with_context(|| {
            format!("{PROGRAMS_VAR} is not set: run this with `cargo xtask test` or `cargo xtask torture`")
        })?;
        let home = tempfile::Builder::new().prefix("hapax-torture-pg-").tempdir()?;
        let account = account()?;
        if let Some((uid, gid)) = account {
            chown(home.path(), Some(uid), Some(gid))?;
        }
        let port = Port::reserve().context("there is no free port on 127.0.0.1")?;
        let mut server = Server { postmaster: None, home, programs: programs.into(), account, port };
        server.create_cluster()?;
        server.rise()?;
        Ok(server)
    }

    /// The server's address.
    pub fn url(&self) -> String {
        format!("postgres://postgres@{}/postgres", self.port.address())
    }

    /// Kills every process of the server at once, as the loss of its machine would, but for the disk.
    pub fn fall(&mut self) -> Result<()> {
        let Some(mut postmaster) = self.postmaster.take() else { return Ok(()) };
        let main = Pid::from_child(&postmaster);
        // Stopped first, so that it starts no process that is not seen here.
        kill_process(main, Signal::STOP)?;
        let children = children_of(postmaster.id())?;
        kill_process(main, Signal::KILL)?;
        for child in children {
            // One that ended by itself cannot be killed any more.
            let _ = kill_process(child, Signal::KILL);
        }
        postmaster.wait()?;
        Ok(())
    }

    /// Starts the server again on what its disk has.
    pub fn rise(&mut self) -> Result<()> {
        let mut command = self.mortal("postgres");
        command.arg("-D").arg(self.data());
        for setting in [
            "listen_addresses=127.0.0.1".to_owned(),
            format!("port={}", self.port.number()),
            "unix_socket_directories=".to_owned(),
            "max_connections=100".to_owned(),
        ] {
            command.arg("-c").arg(setting);
        }
        self.as_server(&mut command)?;
        self.postmaster = Some(command.process_group(0).spawn().context("cannot start `postgres`")?);
        self.wait_until_ready()
    }

    fn data(&self) -> PathBuf {
        self.home.path().join("data")
    }

    fn log(&self) -> PathBuf {
        self.home.path().join("log")
    }

    /// A program that ends with us even if we are killed, where the system offers that.
    fn mortal(&self, program: &str) -> Command {
        let program = self.programs.join(program);
        let mut offered = Command::new("setpriv");
        offered.args(["--pdeathsig", "INT", "true"]).stdout(Stdio::null()).stderr(Stdio::null());
        if !offered.status().is_ok_and(|status| status.success()) {
            return Command::new(program);
        }
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "INT"]).arg(program);
        command
    }

    fn create_cluster(&self) -> Result<()> {
        let mut initdb = Command::new(self.programs.join("initdb"));
        initdb.arg("--pgdata").arg(self.data()).args(["--username=postgres", "--auth=trust", "--no-locale"]);
        initdb.args(["--encoding=UTF8", "--no-sync"]);
        self.as_server(&mut initdb)?;
        let status = initdb.status().context("cannot start `initdb`")?;
        ensure!(status.success(), "`initdb` failed ({status}):\n{}", self.read_log());
        Ok(())
    }

    fn as_server(&self, command: &mut Command) -> Result<()> {
        let log = File::options().create(true).append(true).open(self.log())?;
        command.current_dir("/").stdin(Stdio::null()).stderr(log.try_clone()?).stdout(log);
        if let Some((uid, gid)) = self.account {
            command.uid(uid).gid(gid);
        }
        Ok(())
    }

    /// The eighth line of the server's lock file is its state.
    fn wait_until_ready(&mut self) -> Result<()> {
        let (began, main) = (Instant::now(), self.postmaster.as_ref().map(Child::id));
        while began.elapsed() < START_BOUND {
            if let Some(postmaster) = &mut self.postmaster
                && let Some(status) = postmaster.try_wait()?
            {
                bail!("PostgreSQL did not start ({status}):\n{}", self.read_log());
            }
            let state = fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
            let own = state.lines().next().and_then(|pid| pid.parse().ok()) == main;
            if own && state.lines().nth(7).is_some_and(|state| state.trim() == "ready") {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        bail!("PostgreSQL took no connections within {START_BOUND:?}:\n{}", self.read_log())
    }

    fn read_log(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_else(|error| format!("(no log: {error})"))
    }
}

impl Drop for Server {
    /// Politely first: a server that is killed leaves shared memory behind.
    fn drop(&mut self) {
        if let Some(postmaster) = &mut self.postmaster {
            let asked = kill_process(Pid::from_child(postmaster), Signal::INT);
            let began = Instant::now();
            while asked.is_ok() && began.elapsed() < STOP_BOUND {
                if !matches!(postmaster.try_wait(), Ok(None)) {
                    self.postmaster = None;
                    return;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        // Nothing else can be done about an error here, and the test's own result matters more.
        let _ = self.fall();
    }
}

/// The user that the server runs as when we are root.
fn account() -> Result<Option<(u32, u32)>> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd").context("cannot read the list of users")?;
    let named = |name: &str| {
        users.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let [found, _, uid, gid, ..] = fields[..] else { return None };
            (found == name).then_some((uid.parse().ok()?, gid.parse().ok()?))
        })
    };
    let account = named("postgres").or_else(|| named("nobody"));
    Ok(Some(
        account.context("PostgreSQL refuses to run as root, and there is no user `postgres` or `nobody`")?,
    ))
}

/// The processes that this one has started.
fn children_of(parent: u32) -> Result<Vec<Pid>> {
    let mut children = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        if parent_in(&entry.path()) == Some(parent) {
            children.extend(Pid::from_raw(pid));
        }
    }
    Ok(children)
}

/// The fourth field of `stat`; the second, the name, may hold anything but ends with the last parenthesis.
fn parent_in(process: &Path) -> Option<u32> {
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_found_under_its_parent() {
        let mut child = Command::new("sleep").arg("30").spawn().unwrap();
        let found = children_of(std::process::id()).unwrap();
        let own = Pid::from_child(&child);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.contains(&own), "{found:?}");
    }
}
