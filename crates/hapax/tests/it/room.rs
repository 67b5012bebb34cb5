//! A disk that is nearly full, as callers and operators come to know it (B5). Needs the right to mount, which the tests' machine
//! gives.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::doctor;
use crate::rig::process::eventually;
use crate::rig::{Ground, Hapax};

/// A small file system, which goes when the test ends.
struct Disk(TempDir);

impl Disk {
    /// Of so many MiB.
    fn of(size: usize) -> Disk {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={size}m");
        let mut mount = Command::new("mount");
        let mounted = mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(folder.path()).status();
        assert!(mounted.is_ok_and(|status| status.success()), "a small file system can be mounted");
        Disk(folder)
    }

    async fn ground(&self) -> Ground {
        Ground::at(format!("embedded:{}", self.0.path().join("data").display())).await
    }

    /// What somebody else has there.
    fn others(&self) -> PathBuf {
        self.0.path().join("somebody")
    }

    /// Somebody else takes all but so many MiB.
    fn leave(&self, left: u64) {
        let mut file = OpenOptions::new().append(true).create(true).open(self.others()).unwrap();
        let free = || rustix::fs::statvfs(self.0.path()).map(|disk| disk.f_bavail * disk.f_frsize).unwrap();
        while free() > left << 20 && file.write_all(&[1; 4096]).is_ok() {}
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Whoever still has a file there does not keep the test from its end.
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

async fn is_up(edge: &Hapax) -> bool {
    edge.ask("GET /metrics", "").await.text().lines().any(|line| line == "hapax_ledger_up 1")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_no_claim_has_room_any_more_readiness_log_and_doctor_say_so_b5_m2_m6() {
    let disk = Disk::of(120);
    let ground = disk.ground().await;
    let edge = ground.serve().await;
    assert_eq!(edge.post("/charges", "k", "{}", "").await.status, 201);
    // Enough for what is held, and not for the answer of one more.
    disk.leave(33);
    let refused = edge.post("/charges", "new", "{}", "").await;
    assert_eq!(refused.problem(), (503, "ledger-unavailable".into()), "{}", refused.text());
    eventually("it is not ready", async || edge.ask("GET /readyz", "").await.status == 503).await;
    assert!(!is_up(&edge).await);
    edge.tells("the ledger takes no claims").await;
    let told = edge.told();
    let about = |part: &str| told.lines().find(|line| line.contains(part)).unwrap_or_default();
    for line in [about("the ledger takes no claims"), about("event=\"ledger-unavailable\"")] {
        assert!(line.contains("no room") && line.contains("34 MiB"), "{line:?} in {told}");
    }
    let config = ground.write("hapax").display().to_string();
    let examined = ground.run(&["doctor", "--config", &config, "--json"]).await;
    assert_eq!((examined.code, doctor::level(&examined, "free disk space").as_str()), (1, "fail"));
    assert!(edge.post("/charges", "k", "{}", "").await.is_replay(), "what is kept is handed out");
    std::fs::remove_file(disk.others()).unwrap();
    eventually("it is ready", async || edge.ask("GET /readyz", "").await.status == 200).await;
    assert_eq!(edge.post("/charges", "new", "{}", "").await.status, 201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_that_keeps_longer_answers_needs_room_for_them_from_its_first_request_on_b5_p5() {
    let disk = Disk::of(120);
    let mut ground = disk.ground().await;
    let edge = ground.serve().await;
    disk.leave(49);
    assert_eq!(edge.post("/charges", "before", "{}", "").await.status, 201);
    let reload = async |routes: &str, ground: &mut Ground, times: usize| {
        ground.routes = routes.to_owned();
        ground.write("hapax");
        edge.reload();
        let reloaded = "the configuration was reloaded";
        eventually(reloaded, async || edge.told().matches(reloaded).count() == times).await;
    };
    let long = "[[routes]]\nmethod = \"POST\"\npath = \"/reports\"\noperation = \"report\"\npolicy = \"REQUIRED_A\"\n\
                upstream = \"service\"\nmax_kept_response = \"128MiB\"\n";
    reload(long, &mut ground, 1).await;
    let refused = edge.post("/reports", "k", "{}", "").await;
    assert_eq!(refused.problem(), (503, "ledger-unavailable".into()), "{}", refused.text());
    // A call may be under way that was granted before: its room is not taken away.
    reload("", &mut ground, 2).await;
    assert_eq!(edge.post("/charges", "after", "{}", "").await.problem(), (503, "ledger-unavailable".into()));
    assert_eq!(ground.service.count(), 1, "nothing is done whose answer could not be kept");
}
