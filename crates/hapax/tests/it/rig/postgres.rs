//! PostgreSQL servers of a test's own: with settings that no other test wants, or to be killed.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hapax_testkit::port::Port;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// A server that goes when the test ends.
pub(crate) struct Server {
    dir: TempDir,
    bin: PathBuf,
    /// Its own while it has fallen, too.
    port: Port,
    account: Option<(u32, u32)>,
    running: Vec<Child>,
}

impl Server {
    pub(crate) fn start(settings: &[&str]) -> Server {
        let bin = std::env::var_os("HAPAX_TEST_PG_BIN").expect(
            "this test needs PostgreSQL's programs: run `cargo xtask test`, or `cargo xtask postgres -- cargo test …`",
        );
        let dir = tempfile::Builder::new().prefix("hapax-doctor-").tempdir_in("/tmp").unwrap();
        let account = account();
        if let Some((uid, gid)) = account {
            chown(dir.path(), Some(uid), Some(gid)).unwrap();
        }
        let port = Port::reserve().unwrap();
        let mut server = Server { dir, bin: bin.into(), port, account, running: Vec::new() };
        let data = server.dir.path().join("data").display().to_string();
        let mut initdb = server.command("initdb");
        initdb.args(["-D", &data, "--username=postgres", "--auth=trust", "--no-sync", "--no-locale"]);
        assert!(initdb.status().unwrap().success());
        server.rise(settings);
        server
    }

    /// Another server of the same programs, which has neither data nor processes yet.
    pub(crate) fn beside(&self) -> Server {
        let dir = tempfile::Builder::new().prefix("hapax-beside-").tempdir_in("/tmp").unwrap();
        if let Some((uid, gid)) = self.account {
            chown(dir.path(), Some(uid), Some(gid)).unwrap();
        }
        let (bin, account) = (self.bin.clone(), self.account);
        Server { dir, bin, port: Port::reserve().unwrap(), account, running: Vec::new() }
    }

    /// A standby of this server, which follows it.
    pub(crate) fn standby(&self) -> Server {
        let mut standby = self.beside();
        let data = standby.dir.path().join("data").display().to_string();
        let from = format!("host=127.0.0.1 port={} user=postgres", self.port.number());
        let mut copying = standby.command("pg_basebackup");
        copying.args(["-d", &from, "-D", &data, "-R", "-X", "stream", "--checkpoint=fast"]);
        assert!(copying.status().unwrap().success());
        standby.rise(&[]);
        standby
    }

    /// Waits until this standby has replayed all that its primary has written.
    pub(crate) fn catch_up(&self, primary: &Server) {
        let told = |server: &Server, sql: &str| {
            let mut psql = server.command("psql");
            let output =
                psql.args(["-AtX", "-d", &server.url(), "-c", sql]).stdout(Stdio::piped()).output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
        let wanted = told(primary, "SELECT pg_current_wal_lsn()");
        let sql = format!("SELECT pg_last_wal_replay_lsn() >= '{wanted}'");
        for _ in 0..600 {
            if told(self, &sql) == "t" {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the standby does not catch up");
    }

    /// Starts the server, again where it has fallen, on what its disk has.
    pub(crate) fn rise(&mut self, settings: &[&str]) {
        let data = self.dir.path().join("data").display().to_string();
        // What a killed server leaves; its postmaster is known to be gone.
        let _ = fs::remove_file(self.dir.path().join("data/postmaster.pid"));
        let mut postgres = self.command("postgres");
        let socket = format!("unix_socket_directories={}", self.dir.path().display());
        let port = self.port.number().to_string();
        postgres.args(["-D", &data, "-p", &port, "-c", "listen_addresses=127.0.0.1", "-c", &socket]);
        postgres.args(settings.iter().flat_map(|setting| ["-c", setting]));
        self.running.push(postgres.spawn().unwrap());
        self.wait_until_ready();
    }

    /// Kills every process of the server at once, as the loss of its machine would, but for the disk.
    pub(crate) fn fall(&mut self) {
        let mut postmaster = self.running.remove(0);
        // Stopped first, so that it starts no process that is not seen here.
        kill_process(Pid::from_child(&postmaster), Signal::STOP).unwrap();
        let children = children_of(postmaster.id());
        postmaster.kill().unwrap();
        for child in children {
            // One that ended by itself cannot be killed any more.
            let _ = kill_process(child, Signal::KILL);
        }
        postmaster.wait().unwrap();
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.bin.join(program));
        command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some((uid, gid)) = self.account {
            command.uid(uid).gid(gid);
        }
        command
    }

    fn wait_until_ready(&self) {
        for _ in 0..600 {
            let state = fs::read_to_string(self.dir.path().join("data/postmaster.pid")).unwrap_or_default();
            if state.lines().nth(7).is_some_and(|line| line.trim() == "ready") {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the server does not start");
    }

    /// Somebody who takes the log, as a standby does.
    pub(crate) fn attach(&mut self, name: &str) {
        let folder = self.dir.path().join(name);
        fs::create_dir(&folder).unwrap();
        if let Some((uid, gid)) = self.account {
            chown(&folder, Some(uid), Some(gid)).unwrap();
        }
        let from =
            format!("host=127.0.0.1 port={} user=postgres application_name={name}", self.port.number());
        let mut taking = self.command("pg_receivewal");
        taking.args(["-d", &from, "-D", &folder.display().to_string()]);
        self.running.push(taking.spawn().unwrap());
    }

    /// A folder of its own, of this name.
    pub(crate) fn folder(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// What `-o` of `pg_ctl` must say for a server here.
    pub(crate) fn options(&self) -> String {
        let (port, socket) = (self.port.number(), self.dir.path().display());
        format!("-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={socket}")
    }

    /// A shell that finds the programs, and runs those that are for the server's account under it.
    pub(crate) fn shell(&self) -> String {
        let path = format!("PATH=\"{}:$PATH\"", self.bin.display());
        let Some((uid, gid)) = self.account else { return path };
        let under = format!("setpriv --reuid={uid} --regid={gid} --clear-groups");
        let programs = ["pg_ctl", "pg_basebackup", "pg_verifybackup", "cp", "touch", "mkdir"];
        programs.iter().fold(path, |shell, name| {
            format!("{shell}\n{name}() {{ (cd / && exec {under} {name} \"$@\"); }}")
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@{}/postgres", self.port.address())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let data = self.dir.path().join("data").display().to_string();
        // What does not stop so is killed.
        let _ = self.command("pg_ctl").args(["stop", "-D", &data, "-m", "immediate", "-w"]).status();
        for child in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// PostgreSQL refuses to run as root.
fn account() -> Option<(u32, u32)> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap();
    if uid.split_whitespace().nth(1) != Some("0") {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let line = users.lines().find(|line| line.starts_with("postgres:")).expect("an account for PostgreSQL");
    let mut numbers = line.split(':').skip(2).map(|number| number.parse().unwrap());
    Some((numbers.next().unwrap(), numbers.next().unwrap()))
}

/// The processes that this one has started: the fourth field of `stat`, behind a name that may hold anything.
fn children_of(parent: u32) -> Vec<Pid> {
    let child = |entry: fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let of: u32 = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
        Pid::from_raw(pid).filter(|_| of == parent)
    };
    fs::read_dir("/proc").unwrap().flatten().filter_map(child).collect()
}
