//! Another wall clock for a child process, by libfaketime: a test steps it while the process runs.
//!
//! Only the wall clock is another; the monotonic and the boot clock stay as they are.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::scratch::Scratch;

/// A wall clock that can be stepped.
pub struct Faketime {
    directory: Scratch,
    library: PathBuf,
}

impl Faketime {
    /// A clock that shows the right time.
    pub fn new() -> Result<Self> {
        let clock = Self { directory: Scratch::new()?, library: library()? };
        clock.step(0)?;
        Ok(clock)
    }

    /// Sets it this many seconds ahead of the right time, or behind it. Seen by the processes at their next look at it.
    #[expect(clippy::disallowed_methods, reason = "test data, which needs no crash point")]
    pub fn step(&self, seconds: i64) -> Result<()> {
        let new = self.directory.write("new", format!("{seconds:+}\n"))?;
        // Whole at once: a file read half written would be a third time.
        fs::rename(new, self.file()).context("setting the clock")
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("clock")
    }

    /// A command for a program that lives by this clock, to which arguments can be added.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        by_this_clock(&self.environment(), program.as_ref())
    }

    /// What a process needs in its environment to live by this clock.
    pub(crate) fn environment(&self) -> Vec<OsString> {
        let with = |name: &str, value: &OsStr| {
            let mut setting = OsString::from(name);
            setting.push(value);
            setting
        };
        vec![
            with("LD_PRELOAD=", self.library.as_os_str()),
            with("FAKETIME_TIMESTAMP_FILE=", self.file().as_os_str()),
            "FAKETIME_NO_CACHE=1".into(),
            "FAKETIME_DONT_FAKE_MONOTONIC=1".into(),
            "DONT_FAKE_MONOTONIC=1".into(),
        ]
    }
}

/// Set by `env` for the program alone: whatever runs before it, perhaps as another user, must not load the library.
pub(crate) fn by_this_clock(environment: &[OsString], program: &OsStr) -> Command {
    let mut command = Command::new("env");
    command.args(environment).arg(program);
    command
}

fn library() -> Result<PathBuf> {
    let machines = fs::read_dir("/usr/lib").context("looking for libfaketime")?;
    // Its sibling for threads takes a lock to read the time. PostgreSQL reads it in a signal handler, too, and would wait for
    // itself for ever.
    let file = |entry: fs::DirEntry| entry.path().join("faketime/libfaketime.so.1");
    let found = machines.flatten().map(file).find(|file| file.exists());
    found.context("libfaketime is not installed: run ./dev setup")
}
