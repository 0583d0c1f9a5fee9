//! A child process: its log, its signals, its end.

use std::collections::VecDeque;
use std::fmt;
use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::watch;

use crate::spawner;

/// How much of a log is kept, in lines.
const KEPT_LINES: usize = 200_000;

/// How much of a log a failing test prints, in lines.
const SHOWN_LINES: usize = 200;

/// A running child process; dropping it kills it.
pub struct Process {
    name: String,
    pid: Pid,
    log: Arc<Mutex<VecDeque<String>>>,
    lines: watch::Receiver<u64>,
    status: watch::Receiver<Option<ExitStatus>>,
}

impl Process {
    /// Starts a command. Its output is kept as its log; its input is empty.
    pub fn spawn(name: &str, command: &Command) -> Result<Self> {
        Self::spawn_as(name, command, "KILL", None)
    }

    pub(crate) fn spawn_as(
        name: &str,
        command: &Command,
        death: &str,
        user: Option<&str>,
    ) -> Result<Self> {
        let mut wrapped = spawner::bound_to_us(command, death, user);
        wrapped.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = spawner::spawn(wrapped).with_context(|| format!("starting {name}"))?;
        let pid =
            i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("no process id")?;
        let log = Arc::new(Mutex::new(VecDeque::new()));
        let (counted, lines) = watch::channel(0);
        let counted = Arc::new(counted);
        let readers = [
            child.stdout.take().map(|pipe| keep(pipe, log.clone(), counted.clone())),
            child.stderr.take().map(|pipe| keep(pipe, log.clone(), counted.clone())),
        ];
        let (ended, status) = watch::channel(None);
        thread::spawn(move || {
            let status = child.wait().unwrap_or_else(|_| ExitStatus::from_raw(-1));
            // Last words first: who sees the end must also see all of the log.
            for reader in readers.into_iter().flatten() {
                reader.join().ok();
            }
            ended.send(Some(status)).ok();
            drop(counted);
        });
        Ok(Self { name: name.to_owned(), pid, log, lines, status })
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// The log so far, standard output and error together.
    pub fn log(&self) -> String {
        self.tail(KEPT_LINES)
    }

    fn tail(&self, lines: usize) -> String {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let from = log.len().saturating_sub(lines);
        log.iter().skip(from).map(|line| format!("{line}\n")).collect()
    }

    /// How it ended, if it has.
    pub fn status(&self) -> Option<ExitStatus> {
        *self.status.borrow()
    }

    /// Waits for a line of the log, also one that is already there, and returns it.
    pub async fn wait_for_line(
        &self,
        within: Duration,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<String> {
        let (mut lines, mut status) = (self.lines.clone(), self.status.clone());
        let search = async {
            loop {
                let ended = status.borrow_and_update().is_some();
                lines.borrow_and_update();
                if let Some(line) = self.find(&wanted) {
                    return Some(line);
                }
                if ended {
                    return None;
                }
                tokio::select! {
                    Ok(()) = lines.changed() => {}
                    Ok(()) = status.changed() => {}
                    else => return self.find(&wanted),
                }
            }
        };
        match tokio::time::timeout(within, search).await {
            Ok(Some(line)) => Ok(line),
            Ok(None) => bail!(
                "{} ended ({:?}) without the line waited for:\n{}",
                self.name,
                self.status(),
                self.tail(SHOWN_LINES)
            ),
            Err(_) => bail!(
                "{} did not log the line waited for within {within:?}:\n{}",
                self.name,
                self.tail(SHOWN_LINES)
            ),
        }
    }

    fn find(&self, wanted: impl Fn(&str) -> bool) -> Option<String> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.iter().find(|line| wanted(line)).cloned()
    }

    /// Waits until it ends by itself.
    pub async fn wait(&self, within: Duration) -> Result<ExitStatus> {
        let mut status = self.status.clone();
        let ended = tokio::time::timeout(within, status.wait_for(Option::is_some)).await;
        match ended {
            Ok(Ok(status)) => status.context("no status"),
            _ => bail!("{} did not end within {within:?}:\n{}", self.name, self.tail(SHOWN_LINES)),
        }
    }

    /// `kill -9`, and waits until it is gone.
    pub async fn kill(&self) -> Result<ExitStatus> {
        self.signal(Signal::KILL)?;
        self.wait(Duration::from_secs(10)).await
    }

    /// Asks it to end (SIGTERM), and waits until it has.
    pub async fn terminate(&self, within: Duration) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        self.wait(within).await
    }

    /// Asks it to end (SIGTERM) and waits for a moment: a server whose children would outlive a kill.
    pub(crate) fn end(&self) {
        self.signal(Signal::TERM).ok();
        for _ in 0..2000 {
            if self.status().is_some() {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Tells it that its terminal is gone (SIGHUP).
    pub fn hang_up(&self) -> Result<()> {
        self.signal(Signal::HUP)
    }

    /// Stops it where it is (SIGSTOP), connections open, clocks running; once this returns it does nothing more.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)?;
        for _ in 0..1000 {
            if self.status().is_some() || self.stands_still() {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(1));
        }
        bail!("{} did not stop", self.name)
    }

    fn stands_still(&self) -> bool {
        let tasks =
            std::fs::read_dir(format!("/proc/{}/task", self.pid())).into_iter().flatten().flatten();
        let mut states =
            tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
        states.all(|state| state.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" T")))
    }

    /// Lets it go on (SIGCONT).
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        if self.status().is_some() {
            return Ok(());
        }
        match kill_process(self.pid, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(refused) => Err(refused).with_context(|| format!("signal to {}", self.name)),
        }
    }
}

/// Reads a pipe to its end, line by line, whatever the bytes are.
fn keep(
    pipe: impl Read + Send + 'static,
    log: Arc<Mutex<VecDeque<String>>>,
    counted: Arc<watch::Sender<u64>>,
) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
            if log.len() == KEPT_LINES {
                log.pop_front();
            }
            log.push_back(line);
            drop(log);
            counted.send_modify(|count| *count += 1);
        }
    })
}

impl Drop for Process {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!(
                "--- log of {} ---\n{}--- end of {} ---",
                self.name,
                self.tail(SHOWN_LINES),
                self.name
            );
        }
        self.signal(Signal::KILL).ok();
        // Ports and files must be free when the next line runs. Killed processes end at once.
        for _ in 0..1000 {
            if self.status().is_some() {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.pid())
    }
}
