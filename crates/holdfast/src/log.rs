//! Where log lines go: to standard error for a server, to a file for `up`.

use std::{
    fs::File,
    io::{self, IsTerminal as _},
    path::Path,
    sync::Mutex,
};

use anyhow::Context as _;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    EnvFilter, Layer as _, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

use crate::config::{Log, LogFormat};

/// Past this a log file of `up` is begun anew.
const LARGEST: u64 = 16 << 20;

/// A server's log, on standard error.
pub(crate) fn to_stderr(log: &Log) {
    let filter = log.filter().unwrap_or_else(|| EnvFilter::new("info"));
    let lines = fmt::layer().with_writer(io::stderr).with_ansi(io::stderr().is_terminal());
    let lines = match log.format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => fmt::layer().json().flatten_event(true).with_writer(io::stderr).boxed(),
    };
    // Fails only where a subscriber is installed already, which then does as well.
    tracing_subscriber::registry().with(lines.with_filter(filter)).try_init().ok();
}

/// The log of `up`: everything in a file, on the terminal only what cannot wait.
pub(crate) fn to_file(path: &Path) -> anyhow::Result<()> {
    let file = open(path).with_context(|| format!("{} cannot be written", path.display()))?;
    let kept = fmt::layer().with_ansi(false).with_writer(Mutex::new(file));
    let urgent = fmt::layer().with_writer(io::stderr).with_ansi(io::stderr().is_terminal());
    tracing_subscriber::registry()
        .with(kept.with_filter(EnvFilter::new("info")))
        .with(urgent.without_time().with_filter(LevelFilter::ERROR))
        .try_init()
        .ok();
    Ok(())
}

fn open(path: &Path) -> io::Result<File> {
    let file = File::options().create(true).append(true).open(path)?;
    if file.metadata()?.len() > LARGEST {
        file.set_len(0)?;
    }
    Ok(file)
}
