//! What survives a restart: one file of JSON lines, the last line of an id being what it is now.
//!
//! A line is on its way to the file before the answer that tells of it leaves ([`Journal::flushed`]), so a killed
//! process forgets nothing it has said. It is not synced to disk: a power cut may cost a development CA its last
//! second. Opening rewrites the file with the last line of each id, and so does the writer when the file has grown to several
//! times what it was then: neither the file nor the memory of a start grows with what has been. What the rows mean is not
//! known here.
//!
//! What cannot be written, because the disk is full, is kept and tried again with whatever comes next, and meanwhile nothing
//! is told ([`NotKept`]). A line is in the file whole or not at all: what was cut short is cut off.

mod last;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use holdfast_gateway::files::{self, Access};
use holdfast_gateway::point::Point;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::{mpsc, oneshot};

use self::last::Last;
use crate::Error;

/// How many messages are written in one go.
const BATCH: usize = 1024;

/// The file is compacted when it is so many times as long as it was after the last time,
const GROWTH: u64 = 4;
/// and not before it has so many bytes.
const COMPACT_FROM: u64 = 1024 * 1024;

/// What a row is now. The row stays text until it is asked for, which takes a fraction of the memory of a tree of values.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) kind: String,
    pub(crate) id: String,
    text: Vec<u8>,
}

/// A line as it is written.
#[derive(Serialize)]
struct Written<'a, T> {
    kind: &'a str,
    id: &'a str,
    row: &'a T,
}

impl Line {
    /// The row.
    pub(crate) fn row<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        #[derive(Deserialize)]
        struct Only<T> {
            row: T,
        }
        serde_json::from_slice::<Only<T>>(&self.text).map(|only| only.row)
    }
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
        let failed = |source| Error::Open { path: path.to_owned(), source };
        let file = append_to(path).await.map_err(failed)?;
        file.set_len(length).await.map_err(failed)?;
        let (sender, receiver) = mpsc::unbounded_channel();
        tokio::spawn(JournalFile::new(file, path, length).write(receiver));
        Ok((Self(Some(sender)), lines))
    }

    /// Notes what a row is now.
    pub(crate) fn note(&self, kind: &str, id: &str, row: &impl Serialize) {
        let Some(sender) = &self.0 else { return };
        match serde_json::to_vec(&Written { kind, id, row }) {
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
    /// None once it was compacted, until something is written.
    file: Option<tokio::fs::File>,
    path: PathBuf,
    /// Up to here there are whole lines.
    length: u64,
    /// How long it was when it was compacted last, or when that failed.
    compacted: u64,
    unwritten: Vec<u8>,
}

async fn append_to(path: &Path) -> std::io::Result<tokio::fs::File> {
    let mut options = tokio::fs::OpenOptions::new();
    options.create(true).append(true).mode(0o600).open(path).await
}

impl JournalFile {
    fn new(file: tokio::fs::File, path: &Path, length: u64) -> Self {
        let path = path.to_owned();
        Self { file: Some(file), path, length, compacted: length, unwritten: Vec::new() }
    }

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
            if written.is_ok() && self.length >= COMPACT_FROM.max(GROWTH * self.compacted) {
                self.compact().await;
            }
        }
    }

    /// Leaves in the file what counts. Where that fails it stays as it is, and is looked at again when it has grown further.
    async fn compact(&mut self) {
        let path = self.path.clone();
        let compacted = tokio::task::spawn_blocking(move || compact(&path)).await;
        match compacted.map_err(|_| Error::Interrupted).flatten() {
            Ok((_, length)) => {
                // The old file has no name any more.
                self.file = None;
                self.length = length;
            }
            Err(error) => {
                tracing::warn!(%error, "development CA: the journal could not be compacted");
            }
        }
        self.compacted = self.length;
    }

    async fn append(&mut self) -> Result<(), NotKept> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        let failed =
            |error: std::io::Error| NotKept { path: self.path.clone(), why: error.to_string() };
        let file = match &mut self.file {
            Some(file) => file,
            closed => closed.insert(append_to(&self.path).await.map_err(failed)?),
        };
        let text = &self.unwritten;
        let written = async { file.write_all(text).await.and(file.flush().await) }.await;
        if let Err(error) = written {
            // What was cut short would swallow the line that follows it.
            file.set_len(self.length).await.ok();
            return Err(failed(error));
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
    let lines = lines.in_order();
    if !broken.is_empty()
        && let Err(error) = keep_copy(path)
    {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "development CA: the damaged journal cannot be kept beside; it goes on as it is"
        );
        return Ok((lines, whole));
    }
    let mut text = Vec::with_capacity(lines.iter().map(|line| line.text.len()).sum());
    lines.iter().for_each(|line| text.extend_from_slice(&line.text));
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
    lines: Last,
    /// How long it is up to the end of its last whole line.
    whole: u64,
    /// The numbers of lines that mean nothing, from 1.
    broken: Vec<usize>,
}

fn read(path: &Path) -> Result<Read, Error> {
    let mut read = Read { lines: Last::default(), whole: 0, broken: Vec::new() };
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
            Ok(heading) => read.lines.take(heading, &line),
            Err(_) => read.broken.push(number),
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    async fn noted(path: &Path, notes: &[(&str, Value)]) -> Vec<Line> {
        let (journal, lines) = Journal::open(path).await.unwrap();
        for (id, row) in notes {
            journal.note("thing", id, row);
        }
        journal.flushed().await.unwrap();
        lines
    }

    fn shape(lines: &[Line]) -> Vec<(&str, Value)> {
        lines.iter().map(|line| (line.id.as_str(), line.row().unwrap())).collect()
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
        assert_eq!(shape(&lines), [("a", Value::from(3))]);
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
        assert_eq!(shape(&lines), [("a", Value::from(1)), ("c", Value::from(3))]);
        assert_eq!(std::fs::read(path.with_added_extension("damaged")).unwrap(), torn);
    }

    #[tokio::test]
    async fn of_damaged_journals_the_last_one_alone_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.jsonl");
        for damage in ["first\n", "second\n", "third\n"] {
            files::write(Point::FILE_OTHER, &path, damage.as_bytes(), Access::Private).unwrap();
            assert_eq!(shape(&noted(&path, &[]).await), []);
            let names = std::fs::read_dir(directory.path()).unwrap().flatten();
            let mut names: Vec<_> = names.map(|entry| entry.file_name()).collect();
            names.sort();
            assert_eq!(names, ["journal.jsonl", "journal.jsonl.damaged"]);
            let kept = std::fs::read_to_string(path.with_added_extension("damaged")).unwrap();
            assert_eq!(kept, damage);
        }
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
        assert_eq!(shape(&lines), [("c", Value::from(3))]);
        let text = std::fs::read(&path).unwrap();
        assert!(text.starts_with(torn) && text.ends_with(b"\"row\":4}\n"));
    }

    /// A disk that is full from the first byte.
    #[tokio::test]
    async fn what_cannot_be_written_is_not_told_and_not_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.jsonl");
        let full = tokio::fs::OpenOptions::new().write(true).open("/dev/full").await.unwrap();
        let mut file = JournalFile::new(full, &path, 0);
        file.unwritten = b"{}\n".to_vec();
        for _ in 0..2 {
            let refused = file.append().await.unwrap_err().to_string();
            assert!(
                refused.contains("No space left") && refused.contains("make room"),
                "{refused}"
            );
        }
        file.file = None;
        file.append().await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"{}\n");
    }
    /// As a CA in use does it: rows come, change a few times and go.
    #[tokio::test]
    async fn the_file_and_a_start_grow_with_what_lives_and_not_with_what_was() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.jsonl");
        let (journal, _) = Journal::open(&path).await.unwrap();
        let row = Value::from("x".repeat(1_000));
        let (mut longest, mut written) = (0, 0);
        for n in 0..5_000 {
            for _ in 0..2 {
                journal.note("thing", &n.to_string(), &row);
                written += row.as_str().unwrap().len();
            }
            if n >= 100 {
                journal.note("thing", &(n - 100).to_string(), &Value::Null);
            }
            if n % 100 == 0 {
                journal.flushed().await.unwrap();
                longest = longest.max(std::fs::metadata(&path).unwrap().len());
            }
        }
        journal.flushed().await.unwrap();
        assert!(longest < 2 * COMPACT_FROM, "{longest} bytes of {written}");
        let Read { lines, .. } = read(&path).unwrap();
        assert_eq!(lines.held(), (100, 100));
        let told: Vec<_> = lines.in_order().into_iter().map(|line| line.id).collect();
        assert_eq!(told, (4_900..5_000).map(|n| n.to_string()).collect::<Vec<_>>());
    }

    /// Compacting it takes a second file; where there is no room for one, nothing is lost.
    #[tokio::test]
    async fn what_is_noted_around_a_compaction_is_there_afterwards() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.jsonl");
        let mut file = JournalFile::new(append_to(&path).await.unwrap(), &path, 0);
        let line = |id: &str| format!("{{\"kind\":\"thing\",\"id\":\"{id}\",\"row\":1}}\n");
        for id in ["a", "b", "a", "c"] {
            file.unwritten = line(id).into_bytes();
            file.append().await.unwrap();
            file.compact().await;
            assert_eq!(file.length, std::fs::metadata(&path).unwrap().len());
        }
        let kept = std::fs::read_to_string(&path).unwrap();
        assert_eq!(kept, ["a", "b", "c"].map(line).concat());
    }
}
