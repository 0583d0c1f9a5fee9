//! What survives a restart: one file of JSON lines, the last line of an id being what it is now.
//!
//! A line is on its way to the file before the answer that tells of it leaves ([`Journal::flushed`]), so a killed
//! process forgets nothing it has said. It is not synced to disk: a power cut may cost a development CA its last
//! second. Opening rewrites the file with the last line of each id. What the rows mean is not known here.
//!
//! What cannot be written, because the disk is full, is kept and tried again with whatever comes next, and meanwhile nothing
//! is told ([`NotKept`]). A line is in the file whole or not at all: what was cut short is cut off.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use holdfast_gateway::files::{self, Access};
use holdfast_gateway::point::Point;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::{mpsc, oneshot};

use crate::Error;

/// How many messages are written in one go.
const BATCH: usize = 1024;

/// One line: what a row is now, or `null` when it is gone.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) kind: String,
    pub(crate) id: String,
    pub(crate) row: Value,
}

/// Where rows are noted; clones share the file. Without a file nothing is kept.
#[derive(Clone)]
pub(crate) struct Journal(Option<mpsc::UnboundedSender<Message>>);

enum Message {
    Line(Vec<u8>),
    Flush(oneshot::Sender<Result<(), NotKept>>),
}

/// The journal could not be written: nothing that it should hold may be told.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the development CA cannot write its journal {} ({why}); make room on its disk", path.display())]
pub(crate) struct NotKept {
    path: PathBuf,
    why: String,
}

impl Journal {
    /// A journal that forgets.
    pub(crate) fn memory() -> Self {
        Self(None)
    }

    /// Reads a journal file, compacts it and goes on with it.
    pub(crate) async fn open(path: &Path) -> Result<(Self, Vec<Line>), Error> {
        let owned = path.to_owned();
        let compacted = tokio::task::spawn_blocking(move || compact(&owned));
        let (lines, length) = compacted.await.map_err(|_| Error::Interrupted)??;
        let mut options = tokio::fs::OpenOptions::new();
        let opened = options.create(true).append(true).mode(0o600).open(path).await;
        let failed = |source| Error::Open { path: path.to_owned(), source };
        let file = opened.map_err(failed)?;
        file.set_len(length).await.map_err(failed)?;
        let (sender, receiver) = mpsc::unbounded_channel();
        let file = JournalFile { file, path: path.to_owned(), length, unwritten: Vec::new() };
        tokio::spawn(file.write(receiver));
        Ok((Self(Some(sender)), lines))
    }

    /// Notes what a row is now.
    pub(crate) fn note(&self, kind: &str, id: &str, row: &impl Serialize) {
        let Some(sender) = &self.0 else { return };
        let line = serde_json::to_value(row)
            .map(|row| Line { kind: kind.to_owned(), id: id.to_owned(), row })
            .and_then(|line| serde_json::to_vec(&line));
        match line {
            Ok(line) => {
                sender.send(Message::Line(line)).ok();
            }
            Err(error) => tracing::error!(kind, id, %error, "development CA: row not journaled"),
        }
    }

    /// Waits until everything noted so far is in the file.
    ///
    /// # Errors
    /// When it cannot be written; it is tried again with whatever comes next.
    pub(crate) async fn flushed(&self) -> Result<(), NotKept> {
        let Some(sender) = &self.0 else { return Ok(()) };
        let (done, written) = oneshot::channel();
        if sender.send(Message::Flush(done)).is_err() {
            return Ok(());
        }
        written.await.unwrap_or(Ok(()))
    }
}

/// The file, and what is not in it yet.
struct JournalFile {
    file: tokio::fs::File,
    path: PathBuf,
    /// Up to here there are whole lines.
    length: u64,
    unwritten: Vec<u8>,
}

impl JournalFile {
    async fn write(mut self, mut messages: mpsc::UnboundedReceiver<Message>) {
        let mut batch = Vec::with_capacity(BATCH);
        while messages.recv_many(&mut batch, BATCH).await > 0 {
            let mut waiting = Vec::new();
            for message in batch.drain(..) {
                match message {
                    Message::Line(line) => {
                        self.unwritten.extend_from_slice(&line);
                        self.unwritten.push(b'\n');
                    }
                    Message::Flush(done) => waiting.push(done),
                }
            }
            let written = self.append().await;
            if let Err(error) = &written {
                tracing::error!(%error, "development CA: nothing is answered until it can be kept");
            }
            for done in waiting {
                done.send(written.clone()).ok();
            }
        }
    }

    async fn append(&mut self) -> Result<(), NotKept> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        let file = &mut self.file;
        let text = &self.unwritten;
        let written = async { file.write_all(text).await.and(file.flush().await) }.await;
        if let Err(error) = written {
            // What was cut short would swallow the line that follows it.
            self.file.set_len(self.length).await.ok();
            return Err(NotKept { path: self.path.clone(), why: error.to_string() });
        }
        self.length += u64::try_from(self.unwritten.len()).unwrap_or(0);
        self.unwritten.clear();
        Ok(())
    }
}

/// Rewrites the file with what counts; gives that, and how long the file is. Where there is no room to rewrite it, it stays as
/// it is, without what was cut short at its end; so it does where there is none for a copy of a damaged one.
fn compact(path: &Path) -> Result<(Vec<Line>, u64), Error> {
    let Read { lines, whole, broken } = read(path)?;
    if let Some(first) = broken.first() {
        tracing::warn!(path = %path.display(), first, count = broken.len(), "development CA: lines of the journal that cannot be read are left out");
    }
    let lines = last_of_each(lines);
    if !broken.is_empty()
        && let Err(error) = keep_copy(path)
    {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "development CA: the damaged journal cannot be kept beside; it goes on as it is"
        );
        return Ok((lines, whole));
    }
    let mut text = Vec::new();
    for line in &lines {
        serde_json::to_writer(&mut text, line)
            .map_err(|source| Error::JournalLine { path: path.to_owned(), source })?;
        text.push(b'\n');
    }
    match files::write(Point::FILE_OTHER, path, &text, Access::Private) {
        Ok(()) => Ok((lines, u64::try_from(text.len()).unwrap_or(u64::MAX))),
        Err(error) => {
            tracing::warn!(%error, "development CA: the journal goes on as it is");
            Ok((lines, whole))
        }
    }
}

/// A journal that was damaged is kept beside the one that goes on.
fn keep_copy(path: &Path) -> Result<(), Error> {
    let copy = path.with_added_extension("damaged");
    match std::fs::copy(path, &copy) {
        Ok(_) => Ok(()),
        Err(source) => {
            // Part of a copy helps nobody, and takes the room that is missing.
            std::fs::remove_file(&copy).ok();
            Err(Error::Open { path: copy, source })
        }
    }
}

/// What a file holds.
struct Read {
    lines: Vec<Line>,
    /// How long it is up to the end of its last whole line.
    whole: u64,
    /// The numbers of lines that mean nothing, from 1.
    broken: Vec<usize>,
}

fn read(path: &Path) -> Result<Read, Error> {
    let mut read = Read { lines: Vec::new(), whole: 0, broken: Vec::new() };
    let failed = |source| Error::Open { path: path.to_owned(), source };
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(read),
        Err(source) => return Err(failed(source)),
    };
    let (mut file, mut line) = (BufReader::new(file), Vec::new());
    for number in 1.. {
        line.clear();
        let length = file.read_until(b'\n', &mut line).map_err(failed)?;
        if length == 0 {
            break;
        }
        // A line whose writing was cut short: nobody was told of it.
        if line.last() != Some(&b'\n') {
            tracing::warn!(path = %path.display(), line = number, "development CA: the journal ends in the middle of a line, which is left out");
            break;
        }
        read.whole += u64::try_from(length).unwrap_or(0);
        match serde_json::from_slice(&line) {
            Ok(line) => read.lines.push(line),
            Err(_) => read.broken.push(number),
        }
    }
    Ok(read)
}

/// Keeps the order in which ids first appeared, so that what refers comes after what it refers to.
fn last_of_each(lines: Vec<Line>) -> Vec<Line> {
    let mut places: HashMap<(String, String), usize> = HashMap::new();
    let mut kept: Vec<Line> = Vec::new();
    for line in lines {
        let key = (line.kind.clone(), line.id.clone());
        match places.get(&key).and_then(|place| kept.get_mut(*place)) {
            Some(earlier) => *earlier = line,
            None => {
                places.insert(key, kept.len());
                kept.push(line);
            }
        }
    }
    kept.retain(|line| !line.row.is_null());
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn noted(path: &Path, notes: &[(&str, Value)]) -> Vec<Line> {
        let (journal, lines) = Journal::open(path).await.unwrap();
        for (id, row) in notes {
            journal.note("thing", id, row);
        }
        journal.flushed().await.unwrap();
        lines
    }

    fn shape(lines: &[Line]) -> Vec<(&str, &Value)> {
        lines.iter().map(|line| (line.id.as_str(), &line.row)).collect()
    }

    #[tokio::test]
    async fn the_last_line_of_an_id_counts_and_a_torn_one_does_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.jsonl");
        let notes = [("a", 1.into()), ("b", 2.into()), ("a", 3.into()), ("b", Value::Null)];
        assert_eq!(shape(&noted(&path, &notes).await), []);
        let mut text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 4);
        text.push_str("{\"kind\":\"thing\",\"id\":\"a\",\"ro");
        files::write(Point::FILE_OTHER, &path, text.as_bytes(), Access::Private).unwrap();
        let lines = noted(&path, &[("c", 4.into())]).await;
        assert_eq!(shape(&lines), [("a", &Value::from(3))]);
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 2);
    }

    #[tokio::test]
    async fn lines_that_mean_nothing_are_left_out_and_kept_beside() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.jsonl");
        // As a full disk left it before: a line cut short, and the next one after it.
        let torn = b"{\"kind\":\"thing\",\"id\":\"a\",\"row\":1}\n{\"kind\":\"th{\"kind\":\"thing\",\"id\":\"b\",\"row\":2}\n{\"kind\":\"thing\",\"id\":\"c\",\"row\":3}\n";
        files::write(Point::FILE_OTHER, &path, torn, Access::Private).unwrap();
        let lines = noted(&path, &[]).await;
        assert_eq!(shape(&lines), [("a", &Value::from(1)), ("c", &Value::from(3))]);
        assert_eq!(std::fs::read(path.with_added_extension("damaged")).unwrap(), torn);
    }

    /// On a full disk the copy fails; a directory of its name refuses in the same place.
    #[tokio::test]
    async fn a_damaged_journal_that_cannot_be_kept_beside_goes_on_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.jsonl");
        let torn = b"{\"kind\":\"th{\"kind\":\"thing\",\"id\":\"b\",\"row\":2}\n{\"kind\":\"thing\",\"id\":\"c\",\"row\":3}\n";
        files::write(Point::FILE_OTHER, &path, torn, Access::Private).unwrap();
        std::fs::create_dir(path.with_added_extension("damaged")).unwrap();
        let lines = noted(&path, &[("d", 4.into())]).await;
        assert_eq!(shape(&lines), [("c", &Value::from(3))]);
        let text = std::fs::read(&path).unwrap();
        assert!(text.starts_with(torn) && text.ends_with(b"\"row\":4}\n"));
    }

    /// A disk that is full from the first byte.
    #[tokio::test]
    async fn what_cannot_be_written_is_not_told_and_not_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.jsonl");
        let full = tokio::fs::OpenOptions::new().write(true).open("/dev/full").await.unwrap();
        let mut file =
            JournalFile { file: full, path: path.clone(), length: 0, unwritten: b"{}\n".to_vec() };
        for _ in 0..2 {
            let refused = file.append().await.unwrap_err().to_string();
            assert!(
                refused.contains("No space left") && refused.contains("make room"),
                "{refused}"
            );
        }
        let mut options = tokio::fs::OpenOptions::new();
        file.file = options.create(true).append(true).open(&path).await.unwrap();
        file.append().await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"{}\n");
    }
}
