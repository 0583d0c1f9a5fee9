//! What survives a restart: one file of JSON lines, the last line of an id being what it is now.
//!
//! A line is on its way to the file before the answer that tells of it leaves ([`Journal::flushed`]), so a killed
//! process forgets nothing it has said. It is not synced to disk: a power cut may cost a development CA its last
//! second. Opening rewrites the file with the last line of each id. What the rows mean is not known here.

use std::collections::HashMap;
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
    Flush(oneshot::Sender<()>),
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
        let lines = compacted.await.map_err(|_| Error::Interrupted)??;
        let mut options = tokio::fs::OpenOptions::new();
        let opened = options.append(true).open(path).await;
        let file = opened.map_err(|source| Error::Open { path: path.to_owned(), source })?;
        let (sender, receiver) = mpsc::unbounded_channel();
        tokio::spawn(write(file, path.to_owned(), receiver));
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
    pub(crate) async fn flushed(&self) {
        let Some(sender) = &self.0 else { return };
        let (done, written) = oneshot::channel();
        if sender.send(Message::Flush(done)).is_ok() {
            written.await.ok();
        }
    }
}

async fn write(
    mut file: tokio::fs::File,
    path: PathBuf,
    mut messages: mpsc::UnboundedReceiver<Message>,
) {
    let mut batch = Vec::with_capacity(BATCH);
    while messages.recv_many(&mut batch, BATCH).await > 0 {
        let (mut text, mut waiting) = (Vec::new(), Vec::new());
        for message in batch.drain(..) {
            match message {
                Message::Line(line) => {
                    text.extend_from_slice(&line);
                    text.push(b'\n');
                }
                Message::Flush(done) => waiting.push(done),
            }
        }
        let written = async { file.write_all(&text).await.and(file.flush().await) };
        if let Err(error) = written.await {
            tracing::error!(path = %path.display(), %error, "development CA: journal not written");
        }
        for done in waiting {
            done.send(()).ok();
        }
    }
}

fn compact(path: &Path) -> Result<Vec<Line>, Error> {
    let lines = last_of_each(read(path)?);
    let mut text = Vec::new();
    for line in &lines {
        serde_json::to_writer(&mut text, line).map_err(|source| Error::JournalLine {
            path: path.to_owned(),
            line: 0,
            source,
        })?;
        text.push(b'\n');
    }
    files::write(Point::FILE_OTHER, path, &text, Access::Private)?;
    Ok(lines)
}

fn read(path: &Path) -> Result<Vec<Line>, Error> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(source) => return Err(Error::Open { path: path.to_owned(), source }),
    };
    // What follows the last line end is a line whose writing was cut short; nobody was told of it.
    let whole = text.rfind('\n').map_or("", |end| text.get(..end).unwrap_or_default());
    let lines = whole.lines().enumerate().map(|(number, line)| {
        serde_json::from_str(line).map_err(|source| Error::JournalLine {
            path: path.to_owned(),
            line: number + 1,
            source,
        })
    });
    lines.collect()
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
        journal.flushed().await;
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
    async fn a_broken_line_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.jsonl");
        files::write(Point::FILE_OTHER, &path, b"{}\nnot json\n", Access::Private).unwrap();
        let refused = Journal::open(&path).await.err().unwrap().to_string();
        assert!(refused.contains("line 1"), "{refused}");
    }
}
