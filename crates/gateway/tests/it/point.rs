//! Processes that die where they are told to. The victim is this test binary, started again.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output};

use holdfast_gateway::files::{self, Access};
use holdfast_gateway::point::{Point, around};

const VICTIM: &str = "HOLDFAST_TEST_VICTIM";

/// Writes `one`, then `two`, then passes a store point; but only in a process started by [`run`].
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "how the test tells its child what to do")]
async fn victim() {
    let Some(directory) = std::env::var_os(VICTIM) else { return };
    for name in ["one", "two"] {
        files::write(Point::FILE_OTHER, &Path::new(&directory).join(name), b"", Access::Public)
            .unwrap();
    }
    around(Point::STORE_CLAIM, async {}).await;
}

fn run(directory: &Path, variable: &str, value: impl AsRef<std::ffi::OsStr>) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["point::victim", "--exact"])
        .env(VICTIM, directory)
        .env(variable, value)
        .output()
        .unwrap()
}

/// Which files exist after the victim was told to crash, and by which signal it ended.
fn crash(order: &str) -> (Vec<&'static str>, Option<i32>) {
    let directory = tempfile::tempdir().unwrap();
    let output = run(directory.path(), "HOLDFAST_CRASH", order);
    let written = ["one", "two"].into_iter().filter(|name| directory.path().join(name).exists());
    (written.collect(), output.status.signal())
}

const ABORTED: Option<i32> = Some(6);

#[test]
fn the_process_aborts_at_the_occurrence_and_side_asked_for() {
    assert_eq!(crash("file.other:1:before"), (vec![], ABORTED));
    assert_eq!(crash("file.other:1:after"), (vec!["one"], ABORTED));
    assert_eq!(crash("file.other:2:before"), (vec!["one"], ABORTED));
    assert_eq!(crash("file.other:2:after"), (vec!["one", "two"], ABORTED));
    assert_eq!(crash("store.claim:1:before"), (vec!["one", "two"], ABORTED));
}

#[test]
fn a_point_not_reached_crashes_nothing() {
    assert_eq!(crash("file.other:3:before"), (vec!["one", "two"], None));
    assert_eq!(crash("acme.finalize:1:after"), (vec!["one", "two"], None));
}

#[test]
fn each_point_reached_is_recorded_once() {
    let directory = tempfile::tempdir().unwrap();
    let record = directory.path().join("record");
    assert!(run(directory.path(), "HOLDFAST_CRASH_RECORD", &record).status.success());
    assert!(run(directory.path(), "HOLDFAST_CRASH_RECORD", &record).status.success());
    let once = "file.other\nfile.other\nstore.claim\n";
    assert_eq!(std::fs::read_to_string(record).unwrap(), once.repeat(2));
}

#[test]
fn an_order_nobody_can_carry_out_ends_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let output = run(directory.path(), "HOLDFAST_CRASH", "store.clam:1:before");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}
