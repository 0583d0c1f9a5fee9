//! Runs the reload command: one for all that changed, not too often, within a time limit. That one is due is kept in a
//! file first, so that a kill between the files and the command loses nothing.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use holdfast_gateway::files::{self, Access};
use holdfast_gateway::point::{Point, around};
use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{FilesConfig, remove};
use crate::turn::Turn;
use crate::{Error, Result};

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
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let ended = tokio::time::timeout(self.limit, child.wait_with_output()).await;
        let ended = ended.map_err(|_| failed(format!("it took longer than {:?}", self.limit)))?;
        let ended = ended.map_err(|error| failed(error.to_string()))?;
        if ended.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&ended.stderr);
        Err(failed(format!("{}: {}", ended.status, said.trim())))
    }
}
