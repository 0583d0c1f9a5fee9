//! Where log lines go: to standard error for a server, to a file for `up`.

use std::{
    fs::File,
    io::{self, IsTerminal as _, Write},
    path::{Path, PathBuf},
    sync::Mutex,
};

use anyhow::Context as _;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    EnvFilter, Layer as _, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

use crate::config::{Log, LogFormat};

/// Past this a log file of `up` is put aside, as the one before.
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
    let file = LogFile::open(path, LARGEST)
        .with_context(|| format!("{} cannot be written", path.display()))?;
    let kept = fmt::layer().with_ansi(false).with_writer(Mutex::new(file));
    let urgent = fmt::layer().with_writer(io::stderr).with_ansi(io::stderr().is_terminal());
    tracing_subscriber::registry()
        .with(kept.with_filter(EnvFilter::new("info")))
        .with(urgent.without_time().with_filter(LevelFilter::ERROR))
        .try_init()
        .ok();
    Ok(())
}

/// A file that is put aside as `.1` when it is large, so that two of that size are all there is.
struct LogFile {
    path: PathBuf,
    file: File,
    length: u64,
    largest: u64,
}

impl LogFile {
    fn open(path: &Path, largest: u64) -> io::Result<Self> {
        let file = File::options().create(true).append(true).open(path)?;
        let length = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, length, largest })
    }

    #[expect(clippy::disallowed_methods, reason = "a log that is lost in a crash is no loss")]
    fn put_aside(&mut self) -> io::Result<()> {
        let aside = self.path.with_added_extension("1");
        std::fs::rename(&self.path, &aside)?;
        match Self::open(&self.path, self.largest) {
            Ok(anew) => *self = anew,
            // It goes on where it is, under the name it had.
            Err(_) => std::fs::rename(&aside, &self.path)?,
        }
        Ok(())
    }
}

impl Write for LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // Where it cannot be put aside it begins anew: it is never larger than that.
        if self.length >= self.largest && self.put_aside().is_err() && self.file.set_len(0).is_ok()
        {
            self.length = 0;
        }
        // A full disk costs the line, not the process.
        self.file.write_all(line).ok();
        self.length += u64::try_from(line.len()).unwrap_or(0);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use holdfast_testkit::Scratch;

    use super::*;

    #[test]
    fn a_log_goes_on_and_one_before_it_is_kept() {
        let scratch = Scratch::new().unwrap();
        let path = scratch.path().join("up.log");
        let read = |name: &str| std::fs::read_to_string(scratch.path().join(name)).unwrap();
        for line in ["one\n", "two\n", "three\n", "four\n"] {
            // Each by a start of its own.
            LogFile::open(&path, 8).unwrap().write_all(line.as_bytes()).unwrap();
        }
        assert_eq!(
            (read("up.log.1").as_str(), read("up.log").as_str()),
            ("one\ntwo\n", "three\nfour\n")
        );
        let mut log = LogFile::open(&path, 8).unwrap();
        log.write_all(b"five\n").unwrap();
        assert_eq!(
            (read("up.log.1").as_str(), read("up.log").as_str()),
            ("three\nfour\n", "five\n")
        );
    }

    /// A directory stands where the one before it would be kept.
    #[test]
    fn a_log_that_cannot_be_put_aside_does_not_grow_for_ever() {
        let scratch = Scratch::new().unwrap();
        let path = scratch.path().join("up.log");
        std::fs::create_dir_all(scratch.path().join("up.log.1/full")).unwrap();
        let mut log = LogFile::open(&path, 8).unwrap();
        for line in ["one\n", "two\n", "three\n", "four\n"] {
            log.write_all(line.as_bytes()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "three\nfour\n");
    }
}
