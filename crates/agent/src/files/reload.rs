//! Runs the reload command: one for all that changed, not too often, within a time limit. That one is due is kept in a
//! file first, so that a kill between the files and the command loses nothing.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex as SyncMutex, PoisonError};
use std::time::Duration;

use holdfast_gateway::files::{self, Access};
use holdfast_gateway::point::{Point, around};
use tokio::io::AsyncReadExt as _;
use tokio::process::{ChildStderr, Command};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::FilesConfig;
use super::stored::remove;
use crate::turn::Turn;
use crate::{Error, Result};

/// So much is kept of what a command says.
const SAID: usize = 4_096;

/// For so long what a command said is still on its way after its end.
const LAST_WORDS: Duration = Duration::from_millis(200);

pub(super) struct Reload {
    command: Vec<String>,
    limit: Duration,
    rest: Duration,
    marker: PathBuf,
    last: Mutex<Option<Instant>>,
}

impl Reload {
    pub(super) fn new(config: &FilesConfig) -> Self {
        Self {
            command: config.reload.clone(),
            limit: config.reload_limit,
            rest: config.reload_rest,
            marker: config.data.join("reload-due"),
            last: Mutex::new(None),
        }
    }

    /// Files are about to change.
    pub(super) async fn is_due(&self, turn: &Turn) -> Result<()> {
        if self.command.is_empty() || self.marker.exists() {
            return Ok(());
        }
        let marker = self.marker.clone();
        turn.blocking(move || Ok(files::write(Point::FILE_EDGE, &marker, b"", Access::Private)?))
            .await
    }

    /// Files have changed, or had before a restart.
    pub(super) async fn run_if_due(&self, turn: &Turn) -> Result<()> {
        if self.command.is_empty() || !self.marker.exists() {
            return Ok(());
        }
        let mut last = self.last.lock().await;
        if let Some(last) = *last {
            tokio::time::sleep_until(last + self.rest).await;
        }
        let ran = around(Point::EDGE_RELOAD, self.run()).await;
        *last = Some(Instant::now());
        metrics::counter!("holdfast_agent_reloads_total", "ok" => ran.is_ok().to_string())
            .increment(1);
        ran?;
        let marker = self.marker.clone();
        turn.blocking(move || remove(&marker)).await
    }

    async fn run(&self) -> Result<()> {
        let shown = self.command.join(" ");
        let failed = |why: String| Error::Reload { command: shown.clone(), why };
        let Some((program, arguments)) = self.command.split_first() else { return Ok(()) };
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let said = Said::listen(child.stderr.take());
        let ended = tokio::time::timeout(self.limit, child.wait()).await;
        let ended = ended.map_err(|_| failed(format!("it took longer than {:?}", self.limit)))?;
        let status = ended.map_err(|error| failed(error.to_string()))?;
        match status.success() {
            true => Ok(()),
            false => Err(failed(format!("{status}: {}", said.end().await))),
        }
    }
}

/// What a command says on standard error. A server that it started may hold that open for ever, so its end is not waited for.
struct Said {
    text: Arc<SyncMutex<Vec<u8>>>,
    // Dropped, it ends the reading.
    reading: JoinSet<()>,
}

impl Said {
    fn listen(stderr: Option<ChildStderr>) -> Self {
        let text = Arc::<SyncMutex<Vec<u8>>>::default();
        let mut reading = JoinSet::new();
        if let Some(mut stderr) = stderr {
            let text = text.clone();
            reading.spawn(async move {
                let mut buffer = [0; 1024];
                while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
                    let mut text = text.lock().unwrap_or_else(PoisonError::into_inner);
                    let room = SAID.saturating_sub(text.len()).min(read);
                    text.extend_from_slice(buffer.get(..room).unwrap_or_default());
                }
            });
        }
        Self { text, reading }
    }

    /// What was said by the end of the command, and a moment later.
    async fn end(mut self) -> String {
        tokio::time::timeout(LAST_WORDS, self.reading.join_next()).await.ok();
        let text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&text).trim().to_owned()
    }
}
