//! The processes that are measured: nginx as a service and as the other proxy, and the hapax program itself.
//!
//! The proxies have one core, the service and the load the other one; or all have all cores. All of them are stopped when they are
//! dropped.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::Failure;

/// The admin token of this benchmark: it listens on this machine only.
const TOKEN: &str = "bench";

/// Where a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// On this core alone, as `taskset` names it, with one worker.
    Core(usize),
    /// Wherever there is room among so many cores, with a worker for each, as both programs are when nobody says anything else.
    Everywhere(usize),
}

impl Place {
    fn workers(self) -> usize {
        match self {
            Place::Core(_) => 1,
            Place::Everywhere(cores) => cores,
        }
    }
}

/// Whether a line is written for each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Log {
    Each,
    None,
}

/// A process that ends with its value.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    /// With which API key it is called.
    pub(crate) api_key: String,
    /// Where operators ask it.
    admin: String,
    end_by: Signal,
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        // nginx has workers of its own to end.
        let _ = rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), self.end_by);
        let _ = self.child.wait();
    }
}

impl Server {
    /// nginx that answers everything with 1 KiB.
    pub(crate) fn service(folder: &Path, place: Place) -> Result<Self, Failure> {
        let location = format!("location / {{ return 200 '{}'; }}", "x".repeat(1_024));
        nginx(&folder.join("service"), place, Log::None, "", &location)
    }

    /// nginx as a proxy; what is under `/kept` it answers itself.
    pub(crate) fn nginx(folder: &Path, place: Place, service: SocketAddr, log: Log) -> Result<Self, Failure> {
        let upstream = format!(
            "upstream service {{ server {service}; keepalive 1024; keepalive_requests 1000000000; }}"
        );
        let locations = format!(
            "location / {{ proxy_pass http://service; proxy_http_version 1.1; proxy_set_header Connection '';\n\
             proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;\n\
             proxy_set_header X-Forwarded-Proto $scheme; }}\n\
             location /kept {{ return 200 '{}'; }}",
            "x".repeat(1_024)
        );
        nginx(&folder.join(format!("nginx-{log:?}")), place, log, &upstream, &locations)
    }

    /// The hapax program as people start it.
    pub(crate) fn hapax(
        folder: &Path,
        place: Place,
        service: SocketAddr,
        store: &str,
        log: Log,
    ) -> Result<Self, Failure> {
        let program = program()?;
        let configuration = configuration(service, store, log, place.workers());
        Server::serve(placed(place, &program), &program, folder, &configuration, Signal::KILL)
    }

    /// The same with webhooks, whose deliveries go to the service as well.
    pub(crate) fn with_webhooks(
        folder: &Path,
        place: Place,
        service: SocketAddr,
        store: &str,
    ) -> Result<Self, Failure> {
        let program = program()?;
        let plain = configuration(service, store, Log::None, place.workers());
        let configuration = format!("{plain}\n[webhooks]\nupstream = \"service\"\npath = \"/charges\"\n");
        Server::serve(placed(place, &program), &program, folder, &configuration, Signal::KILL)
    }

    /// The program in front of a Restate server, on all cores.
    pub(crate) fn delegating(
        folder: &Path,
        ingress: SocketAddr,
        admin: SocketAddr,
        classify: &str,
    ) -> Result<Self, Failure> {
        let (program, place) = (program()?, Place::Everywhere(2));
        let plain = configuration(ingress, "memory:", Log::None, place.workers());
        let before = plain.split("[upstreams.service]").next().unwrap_or_default();
        let configuration = format!(
            "{before}[upstreams.engine]\nkind = \"restate\"\ningress = \"http://{ingress}\"\nadmin = \"http://{admin}\"\n\
             classify = \"{classify}\"\n\
             [[routes]]\nmethod = \"POST\"\npath = \"/charges\"\noperation = \"bench.charge\"\npolicy = \"REQUIRED_A\"\n\
             upstream = \"engine\"\nrestate = {{ service = \"Trouble\", handler = \"echo\" }}\n"
        );
        Server::serve(placed(place, &program), &program, folder, &configuration, Signal::KILL)
    }

    /// Makes a webhook, and says its path.
    pub(crate) fn webhook(&self, provider: &str, secret: &str) -> Result<String, Failure> {
        let mut command = Command::new(program()?);
        command.args(["webhooks", "create", "--tenant", "acme", "--project", "shop", "--provider", provider]);
        command.args(["--secret-stdin", "--json", "--admin", &format!("http://{}", self.admin)]);
        command.env("HAPAX_ADMIN_TOKEN", TOKEN).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(secret.as_bytes())?;
        }
        let output = child.wait_with_output()?;
        let made: serde_json::Value = serde_json::from_slice(&output.stdout)
            .map_err(|_| format!("no webhook was made: {}", String::from_utf8_lossy(&output.stderr)))?;
        Ok(made["path"].as_str().ok_or("a webhook was made and its path not told")?.to_owned())
    }

    /// The file in a counted server's folder that says how many instructions it took.
    pub(crate) const COUNTS: &str = "callgrind.out";

    /// A hapax program with the memory store, whose instructions are counted until it is told to [end](Server::end).
    pub(crate) fn counted(folder: &Path, program: &Path, service: SocketAddr) -> Result<Self, Failure> {
        let mut command = Command::new("valgrind");
        let mut counts = OsString::from("--callgrind-out-file=");
        counts.push(folder.join(Self::COUNTS));
        command.args(["--quiet", "--tool=callgrind"]).arg(counts).arg(program).stdin(Stdio::null());
        let configuration = configuration(service, "memory:", Log::None, 1);
        Server::serve(command, program, folder, &configuration, Signal::TERM)
    }

    /// Starts a program that is called as `hapax` is, and waits until it listens.
    fn serve(
        mut command: Command,
        program: &Path,
        folder: &Path,
        configuration: &str,
        end_by: Signal,
    ) -> Result<Self, Failure> {
        fs::create_dir_all(folder)?;
        let file = folder.join("hapax.toml");
        fs::write(&file, configuration)?;
        let mut child = command
            .arg("serve")
            .arg("--config")
            .arg(&file)
            .env("HAPAX_ADMIN_TOKEN", TOKEN)
            .env_remove("HAPAX_LOG")
            .env_remove("HAPAX_STORE")
            .stdout(Stdio::piped())
            .stderr(File::create(folder.join("log"))?)
            .spawn()
            .map_err(|error| format!("{} cannot be started: {error}", command.get_program().display()))?;
        let mut told = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut told)?;
        }
        let mut server = Server {
            child,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            api_key: String::new(),
            admin: String::new(),
            end_by,
        };
        let mut urls =
            told.split("http://").skip(1).map(|rest| rest.trim_end_matches(&[' ', '(', ')', '\n', ':'][..]));
        let (Some(edge), Some(admin)) = (urls.next(), urls.next()) else {
            let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
            return Err(format!("hapax did not say where it listens: {told}{log}").into());
        };
        server.address = edge.split(' ').next().unwrap_or_default().parse()?;
        server.api_key = api_key(program, admin)?;
        server.admin = admin.to_owned();
        Ok(server)
    }

    /// Ends it as an operator would, and waits until it has.
    pub(crate) fn end(mut self) -> Result<(), Failure> {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), Signal::TERM)?;
        match self.child.wait()? {
            status if status.success() => Ok(()),
            status => Err(format!("hapax ended with {status}").into()),
        }
    }

    /// Resident memory in MiB.
    pub(crate) fn resident(&self) -> Result<f64, Failure> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib: f64 = line.and_then(|line| line.trim().strip_suffix(" kB")).unwrap_or("0").parse()?;
        Ok(kib / 1_024.0)
    }

    /// Seconds on a core so far.
    pub(crate) fn busy(&self) -> Result<f64, Failure> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
        // User and system time, in hundredths of a second on every Linux.
        Ok((ticks(11) + ticks(12)) / 100.0)
    }
}

/// The program beside this one, from the same build.
fn program() -> Result<PathBuf, Failure> {
    let program = std::env::current_exe()?.with_file_name("hapax");
    match program.is_file() {
        true => Ok(program),
        false => Err(format!("{} is missing: run `cargo xtask bench edge`", program.display()).into()),
    }
}

fn placed(place: Place, program: &Path) -> Command {
    let mut command = match place {
        Place::Core(core) => {
            let mut pinned = Command::new("taskset");
            pinned.arg("--cpu-list").arg(core.to_string()).arg(program);
            pinned
        }
        Place::Everywhere(_) => Command::new(program),
    };
    command.stdin(Stdio::null());
    command
}

fn configuration(service: SocketAddr, store: &str, log: Log, threads: usize) -> String {
    let level = if log == Log::Each { "info" } else { "warn" };
    format!(
        r#"
[edge]
listen = "127.0.0.1:0"
threads = {threads}
max_connections = 40000

[admin]
listen = "127.0.0.1:0"
token_env = "HAPAX_ADMIN_TOKEN"

[store]
url = "{store}"

[log]
level = "{level}"

[auth.api_keys]
enabled = true

[upstreams.service]
url = "http://{service}"

[[routes]]
method = "GET"
path = "/items/{{id}}"
policy = "PROHIBITED"
upstream = "service"

[[routes]]
method = "POST"
path = "/items/{{id}}"
policy = "PROHIBITED"
upstream = "service"

[[routes]]
method = "POST"
path = "/charges"
operation = "bench.charge"
policy = "REQUIRED_A"
upstream = "service"
"#
    )
}

fn api_key(program: &Path, admin: &str) -> Result<String, Failure> {
    let output = Command::new(program)
        .args([
            "keys",
            "create",
            "--tenant",
            "acme",
            "--project",
            "shop",
            "--subject",
            "user:bench",
            "--json",
        ])
        .args(["--admin", &format!("http://{admin}")])
        .env("HAPAX_ADMIN_TOKEN", TOKEN)
        .output()?;
    let made: serde_json::Value = serde_json::from_slice(&output.stdout)
        .map_err(|_| format!("no API key was made: {}", String::from_utf8_lossy(&output.stderr)))?;
    Ok(made["key"].as_str().ok_or("an API key was made and not told")?.to_owned())
}

fn nginx(folder: &Path, place: Place, log: Log, before: &str, locations: &str) -> Result<Server, Failure> {
    fs::create_dir_all(folder)?;
    let address = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?;
    let access = if log == Log::Each { "access.log" } else { "off" };
    let workers = match place {
        Place::Core(_) => "master_process off;".to_owned(),
        Place::Everywhere(workers) => format!("worker_processes {workers};"),
    };
    let configuration = format!(
        "daemon off; {workers} pid nginx.pid; error_log error.log;\n\
         worker_rlimit_nofile 16384; events {{ worker_connections 8192; }}\n\
         http {{ access_log {access}; keepalive_requests 1000000000; client_body_temp_path body;\n\
         proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;\n\
         {before}\nserver {{ listen {address} backlog=8192; {locations} }} }}\n"
    );
    let file = folder.join("nginx.conf");
    fs::write(&file, configuration)?;
    let child = placed(place, Path::new("nginx"))
        .arg("-p")
        .arg(fs::canonicalize(folder)?)
        .args(["-e", "error.log", "-c", "nginx.conf"])
        .stderr(File::create(folder.join("stderr"))?)
        .spawn()
        .map_err(|error| format!("nginx cannot be started: {error}"))?;
    let server =
        Server { child, address, api_key: "none".into(), admin: String::new(), end_by: Signal::TERM };
    let began = Instant::now();
    while TcpStream::connect(address).is_err() {
        if began.elapsed() > Duration::from_secs(10) {
            return Err(format!("nginx does not listen; see {}", folder.join("stderr").display()).into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(server)
}
