//! `holdfast up`, as a newcomer meets it.

use std::process::Command;

use holdfast_testkit::{Process, Scratch, SmallDisk, eventually, free_port};

use crate::kit::{Ended, SOON, Up, program, text, word};

fn lines_of(up: &Process) -> (String, String) {
    let log = up.log();
    let line = |word: &str| {
        let line = log.lines().find(|line| line.contains(word));
        line.unwrap_or_else(|| panic!("no {word} in:\n{log}")).trim().to_owned()
    };
    (line("domain add"), line("curl --cacert"))
}

#[tokio::test]
async fn what_it_prints_works_as_printed() {
    let scratch = Scratch::new().unwrap();
    let mut command = program();
    command.current_dir(scratch.path()).arg("up");
    for option in ["--api", "--http", "--https", "--ca", "--dns"] {
        command.arg(option).arg(format!("127.0.0.1:{}", free_port().unwrap()));
    }
    let up = Process::spawn("up", &command).unwrap();
    up.wait_for_line(SOON, |line| line.starts_with("Ctrl-C ends it")).await.unwrap();
    let (add, curl) = lines_of(&up);
    let typed = |line: &str| {
        Ended::of(Command::new("sh").current_dir(scratch.path()).args(["-c", line])).done()
    };
    let added = typed(&add);
    for state in [
        "Initial",
        "DnsVerifying",
        "AcmeOrdering",
        "AcmeChallengeValidating",
        "CertificateDownloading",
        "CertificateDeploying",
        "Active",
    ] {
        assert!(added.stdout.contains(state), "no {state} in:\n{}", added.stdout);
    }
    assert!(typed(&curl).stdout.contains("shop.test"));
    assert!(up.log().contains("for development"), "{}", up.log());
    for file in ["admin.token", "dev-ca.pem", "master.key", "up.json", "up.log"] {
        assert!(scratch.path().join("holdfast-data").join(file).exists(), "{file}");
    }
}

#[tokio::test]
async fn it_goes_on_where_it_was_however_it_ended() {
    let mut up = Up::start().await;
    up.run(["domain", "add", "shop.test", "--wait"]).done();
    up.run(["domain", "add", "blog.test", "--wait"]).done();
    let serial = up.json(["domain", "show", "shop.test"]).pointer("/certificate/serial").cloned();
    up.end().await;
    assert_ne!(up.visit("shop.test").code, 0);
    up.begin().await;
    for name in ["shop.test", "blog.test"] {
        assert!(up.visit(name).done().stdout.contains(name));
    }
    up.kill().await;
    up.begin().await;
    assert!(up.visit("shop.test").done().stdout.contains("shop.test"));
    let domain = up.json(["domain", "show", "shop.test"]);
    assert_eq!(text(&domain, "/state"), "Active");
    assert_eq!(domain.pointer("/certificate/serial").cloned(), serial);
    up.run(["domain", "add", "third.test", "--wait"]).done();
}

#[tokio::test]
async fn a_second_one_on_the_same_data_is_refused_in_a_sentence() {
    let up = Up::start().await;
    let second = Ended::of(&mut up.command());
    let pid = up.process().pid().to_string();
    let second = second.refused(1, &["in use", &pid, "--data"]);
    assert_eq!(second.stderr.lines().count(), 1, "{second:?}");
    up.run(["domain", "list"]).done();
}

#[tokio::test]
async fn a_taken_port_is_told_in_a_sentence() {
    let up = Up::start().await;
    for (option, port) in [
        ("--api", up.ports.api),
        ("--http", up.ports.http),
        ("--https", up.ports.https),
        ("--ca", up.ports.ca),
        ("--dns", up.ports.dns),
    ] {
        let scratch = Scratch::new().unwrap();
        let mut command = program();
        command.current_dir(scratch.path()).arg("up");
        for other in ["--api", "--http", "--https", "--ca", "--dns"] {
            let port = if other == option { port } else { free_port().unwrap() };
            command.arg(other).arg(format!("127.0.0.1:{port}"));
        }
        let ended = Ended::of(&mut command).refused(1, &[&port.to_string()]);
        assert_eq!(ended.stderr.lines().count(), 1, "{option}: {ended:?}");
    }
}

#[tokio::test]
async fn nothing_secret_is_in_its_log() {
    let up = Up::start().await;
    up.run(["domain", "add", "shop.test", "--wait"]).done();
    let read = |name: &str| std::fs::read_to_string(up.data().join(name)).unwrap();
    let (token, key) = (read("admin.token"), read("master.key"));
    let said = read("up.log") + &up.process().log();
    assert!(!said.contains(token.trim()) && !said.contains(key.trim()));
    assert!(!said.contains("PRIVATE KEY"));
    for file in ["admin.token", "master.key"] {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(up.data().join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{file}");
    }
}

/// Closing the terminal is no reason to lose what is under way; `nohup` has it ignored.
#[tokio::test]
async fn a_closed_terminal_ends_it_in_order_unless_it_is_to_be_ignored() {
    let up = Up::prepare();
    let begin = async |hang_up: &str| {
        // Whoever runs the tests may have it ignored.
        let mut command = Command::new("env");
        command.arg(hang_up).arg(up.command().get_program()).args(up.command().get_args());
        let process = Process::spawn("up", &command).unwrap();
        process.wait_for_line(SOON, is_up).await.unwrap();
        process
    };
    let process = begin("--default-signal=HUP").await;
    up.run(["domain", "add", "shop.test", "--wait"]).done();
    process.hang_up().unwrap();
    let status = process.wait(SOON).await.unwrap();
    assert!(status.success(), "{status:?}");
    let process = begin("--ignore-signal=HUP").await;
    process.hang_up().unwrap();
    assert!(up.visit("shop.test").done().stdout.contains("shop.test"));
    // The first request to end: a second one would end it at once, and with another code.
    assert!(process.terminate(SOON).await.unwrap().success());
}

fn is_up(line: &str) -> bool {
    line.starts_with("Ctrl-C ends it")
}

/// It starts again whenever it ends, as under systemd, on a disk that is there for as long as that goes on.
const AGAIN: &str = r#"while :; do setpriv --pdeathsig KILL -- "$@"; done"#;

#[tokio::test]
async fn a_disk_that_was_full_while_it_ran_and_started_costs_nothing() {
    let up = Up::prepare();
    std::fs::create_dir(up.data()).unwrap();
    let disk = SmallDisk::new(&up.data(), 16 << 10);
    let mut command = Command::new("sh");
    command.args(["-c", AGAIN, "sh"]);
    command.arg(up.command().get_program()).args(up.command().get_args());
    let process = Process::spawn("up", &disk.command(&command)).unwrap();
    process.wait_for_line(SOON, is_up).await.unwrap();
    let data = word(&disk.seen_by(process.pid(), ""));
    let run = |words: &[&str]| Ended::of(program().args(words).args(["--data", &data]));
    run(&["domain", "add", "shop.test", "--wait"]).done();
    let zone = |words: &[&str]| {
        let url = format!("https://127.0.0.1:{}/dev/dns", up.ports.ca);
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--cacert", &format!("{data}/dev-ca.pem"), &url]);
        Ended::of(curl.args(words)).stdout
    };
    let set = |name: &str| {
        let record = format!(r#"{{"name": "{name}", "type": "A", "value": "127.0.0.7"}}"#);
        zone(&["--request", "PUT", "--header", "content-type: application/json", "--data", &record])
    };
    assert_eq!(set("kept.test"), "");
    disk.fill(process.pid()).unwrap();
    // The embedded CA writes beside the database; its last line breaks off where the room ends.
    eventually(SOON, "a record that is refused", async || {
        let answer = set("more.test");
        if answer.contains("cannot write its journal") { Ok(()) } else { Err(answer) }
    })
    .await;
    let mut added = 0..;
    eventually(SOON, "an addition that is refused", async || {
        let name = format!("n{}.test", added.next().unwrap_or(0));
        let ended = run(&["domain", "add", &name]);
        if ended.stderr.contains("its disk is full") { Ok(()) } else { Err(ended.stderr) }
    })
    .await;
    let starts = || process.log().lines().filter(|line| is_up(line)).count();
    let pid = std::fs::read_to_string(disk.seen_by(process.pid(), "up.lock")).unwrap();
    Ended::of(Command::new("kill").args(["-KILL", pid.trim()])).done();
    // On the full disk it runs, or says why it does not.
    eventually(SOON, "another start", async || {
        let log = process.log();
        let tried = starts() > 1 || log.contains("disk is full") || log.contains("No space left");
        if tried { Ok(()) } else { Err(log) }
    })
    .await;
    disk.free(process.pid()).unwrap();
    eventually(SOON * 2, "it goes on", async || {
        let ended = run(&["domain", "add", "next.test", "--wait"]);
        if ended.code == 0 { Ok(()) } else { Err(ended.stderr) }
    })
    .await;
    // The CA has forgotten nothing it told: not the zone, and what it issued can be renewed.
    assert!(zone(&[]).contains("kept.test"), "{}", zone(&[]));
    run(&["domain", "renew", "shop.test"]).done();
    eventually(SOON, "the renewal", async || {
        let history = run(&["domain", "history", "shop.test"]).done().stdout;
        let renewed = history.matches("CertificateDeployed").count() > 2;
        if renewed { Ok(()) } else { Err(history) }
    })
    .await;
}
