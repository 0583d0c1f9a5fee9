//! Signals, logs and ends of a process.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;
use std::time::Duration;

use holdfast_testkit::{Process, eventually};

const SOON: Duration = Duration::from_secs(10);

fn shell(script: &str) -> Process {
    Process::spawn("shell", Command::new("sh").args(["-c", script])).unwrap()
}

#[tokio::test]
async fn both_outputs_are_the_log_and_the_status_is_told() {
    let process = shell("echo out; echo err >&2; exit 7");
    assert_eq!(process.wait(SOON).await.unwrap().code(), Some(7));
    let mut lines: Vec<_> = process.log().lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["err", "out"]);
}

#[tokio::test]
async fn a_line_is_found_before_and_after_it_is_waited_for() {
    let process = shell("echo first; echo second 2; exec sleep 1000");
    assert_eq!(
        process.wait_for_line(SOON, |line| line.starts_with("sec")).await.unwrap(),
        "second 2"
    );
    assert_eq!(process.wait_for_line(SOON, |line| line == "first").await.unwrap(), "first");
}

#[tokio::test]
async fn waiting_for_a_line_ends_with_the_process_and_shows_the_log() {
    let process = shell("echo something else; exit 1");
    let refused = process.wait_for_line(SOON, |line| line == "ready").await.unwrap_err();
    assert!(refused.to_string().contains("something else"), "{refused}");
}

#[tokio::test]
async fn waiting_for_a_line_has_a_limit() {
    let process = shell("exec sleep 1000");
    process.wait_for_line(Duration::from_millis(20), |_| true).await.unwrap_err();
}

#[tokio::test]
async fn killed_and_terminated_are_told_apart() {
    assert_eq!(shell("exec sleep 1000").kill().await.unwrap().signal(), Some(9));
    let process = shell("trap 'exit 3' TERM; echo ready; while :; do sleep 0.01; done");
    process.wait_for_line(SOON, |line| line == "ready").await.unwrap();
    assert_eq!(process.terminate(SOON).await.unwrap().code(), Some(3));
}

#[tokio::test]
async fn a_paused_process_stands_still_until_it_is_resumed() {
    let process = shell("while :; do echo tick; sleep 0.001; done");
    process.wait_for_line(SOON, |line| line == "tick").await.unwrap();
    process.pause().unwrap();
    let before = quiet(&process).await;
    process.resume().unwrap();
    eventually(SOON, "another tick", async || {
        if process.log().len() > before { Ok(()) } else { Err("none yet") }
    })
    .await;
}

/// The length of the log once what was written before the pause has been read.
async fn quiet(process: &Process) -> usize {
    let mut before = 0;
    eventually(SOON, "the log to stand still", async || {
        let now = process.log().len();
        if std::mem::replace(&mut before, now) == now { Ok(now) } else { Err("it grows") }
    })
    .await
}

#[tokio::test]
async fn a_dropped_process_is_gone() {
    let process = shell("exec sleep 1000");
    let path = format!("/proc/{}", process.pid());
    assert!(std::fs::exists(&path).unwrap());
    drop(process);
    assert!(!std::fs::exists(&path).unwrap());
}

#[tokio::test]
async fn a_missing_program_is_an_error() {
    let process = Process::spawn("nothing", &Command::new("/nonexistent/program")).unwrap();
    assert_ne!(process.wait(SOON).await.unwrap().code(), Some(0));
    assert!(process.log().contains("/nonexistent/program"), "{}", process.log());
}
