//! Running the program: once for an answer, or for as long as a test lasts.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use holdfast_testkit::{Process, Scratch, free_port};
use serde_json::Value;

/// Longest wait for anything that should happen soon.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// Where the built program is.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_holdfast");

/// The built program, without what this process's environment might tell it.
pub(crate) fn program() -> Command {
    program_at(Path::new(PROGRAM))
}

/// Another build of it, likewise.
pub(crate) fn program_at(path: &Path) -> Command {
    let mut command = Command::new(path);
    for variable in [
        "HOLDFAST_SERVER",
        "HOLDFAST_TOKEN",
        "HOLDFAST_DATA",
        "HOLDFAST_ROOT_CERTIFICATE",
        "POD_NAME",
    ] {
        command.env_remove(variable);
    }
    command
}

/// A server that Debian keeps outside the PATH of ordinary users.
pub(crate) fn program_named(name: &str) -> Command {
    let usual = Path::new("/usr/sbin").join(name);
    if usual.exists() { Command::new(usual) } else { Command::new(name) }
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// Runs a command to its end.
    pub(crate) fn of(command: &mut Command) -> Self {
        let output = command.output().unwrap();
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// It did what it was asked.
    #[track_caller]
    pub(crate) fn done(self) -> Self {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }

    /// It ended with this code and a sentence that holds these words.
    #[track_caller]
    pub(crate) fn refused(self, code: i32, words: &[&str]) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "no `{word}` in: {}", self.stderr);
        }
        self
    }

    /// What it wrote, as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Runs the program with these words.
pub(crate) fn run<const N: usize>(words: [&str; N]) -> Ended {
    Ended::of(program().args(words))
}

/// Where an `up` listens.
pub(crate) struct Ports {
    pub(crate) api: u16,
    pub(crate) http: u16,
    pub(crate) https: u16,
    pub(crate) ca: u16,
    pub(crate) dns: u16,
}

/// A running `holdfast up` with a directory and ports of its own.
pub(crate) struct Up {
    pub(crate) scratch: Scratch,
    pub(crate) ports: Ports,
    process: Option<Process>,
}

impl Up {
    /// One that does not run yet.
    pub(crate) fn prepare() -> Self {
        let port = || free_port().unwrap();
        let ports = Ports { api: port(), http: port(), https: port(), ca: port(), dns: port() };
        Self { scratch: Scratch::new().unwrap(), ports, process: None }
    }

    /// Starts one and waits until it is up.
    pub(crate) async fn start() -> Self {
        let mut up = Self::prepare();
        up.begin().await;
        up
    }

    /// Starts it again where it was.
    pub(crate) async fn begin(&mut self) {
        let process = Process::spawn("up", &self.command()).unwrap();
        process.wait_for_line(SOON, |line| line.starts_with("Ctrl-C ends it")).await.unwrap();
        self.process = Some(process);
    }

    /// The command that starts it.
    pub(crate) fn command(&self) -> Command {
        let mut command = program();
        command.arg("up").arg("--data").arg(self.data());
        let Ports { api, http, https, ca, dns } = self.ports;
        for (option, port) in
            [("--api", api), ("--http", http), ("--https", https), ("--ca", ca), ("--dns", dns)]
        {
            command.arg(option).arg(format!("127.0.0.1:{port}"));
        }
        command
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    pub(crate) fn process(&self) -> &Process {
        self.process.as_ref().unwrap()
    }

    /// Asks it to end, and sees that it ended in order.
    pub(crate) async fn end(&mut self) {
        let status = self.process().terminate(SOON).await.unwrap();
        assert!(status.success(), "{status:?}");
        self.process = None;
    }

    /// `kill -9`.
    pub(crate) async fn kill(&mut self) {
        self.process().kill().await.unwrap();
        self.process = None;
    }

    /// Runs a client command against it.
    pub(crate) fn run<const N: usize>(&self, words: [&str; N]) -> Ended {
        Ended::of(program().args(words).arg("--data").arg(self.data()))
    }

    /// Runs a client command against it and gives its JSON.
    #[track_caller]
    pub(crate) fn json<const N: usize>(&self, words: [&str; N]) -> Value {
        Ended::of(program().args(words).arg("--data").arg(self.data()).args(["--output", "json"]))
            .done()
            .json()
    }

    /// A visitor's look at a name, its certificate verified with the root that `up` wrote.
    pub(crate) fn visit(&self, name: &str) -> Ended {
        let port = self.ports.https;
        Ended::of(
            Command::new("curl")
                .args(["--silent", "--show-error", "--fail", "--max-time", "10", "--cacert"])
                .arg(self.data().join("dev-ca.pem"))
                .args([
                    "--resolve",
                    &format!("{name}:{port}:127.0.0.1"),
                    &format!("https://{name}:{port}/"),
                ]),
        )
    }
}

/// Is this the line by which a replica says that it serves?
pub(crate) fn is_ready(line: &str) -> bool {
    line.contains(": ready ") || line.contains("\"message\":\"ready\"")
}

/// Text at a path of a document.
#[track_caller]
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_else(|| panic!("no {pointer} in {value:#}"))
}

/// Words of a path for a command line.
pub(crate) fn word(path: &Path) -> String {
    path.display().to_string()
}
