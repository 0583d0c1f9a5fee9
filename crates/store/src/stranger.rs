//! Strangers: files at an edge that serve certificates and are none of ours; and adoptions: a person's request that the edge
//! take such a file over for a name of ours.
//!
//! A request is delivered with the next answer to the edge, again and again until a report has said how it went.

use async_trait::async_trait;
use holdfast_model::{Hostname, Note};

use crate::{Actor, EdgeId, Page, Paged, Result};

/// How many adoptions of one request get an event each; the rest share one.
pub(crate) const MANY: usize = 100;

/// What an event about an edge's adoptions at large is about.
pub(crate) fn adoption_subject(edge: EdgeId) -> String {
    edge.0.to_string()
}

/// A file at an edge that is none of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stranger {
    /// The file, as the proxy knows it.
    pub file: String,
    /// The names its certificate covers.
    pub names: Vec<String>,
    /// The fingerprint of its certificate.
    pub sha256: Option<String>,
    /// Is it served for a name of ours instead of ours?
    pub shadows: bool,
}

/// A stranger, and what became of the last request to take it over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What the edge found.
    pub stranger: Stranger,
    /// Whether it was asked to take it over.
    pub asked: Option<Asked>,
}

/// What became of a request to take a file over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// The edge has not said yet.
    Waiting,
    /// The edge did not.
    Refused(Note),
}

/// A file to be taken over for a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adoption {
    /// The file, as the proxy knows it.
    pub file: String,
    /// The name of ours whose certificate it shall hold.
    pub name: Hostname,
}

/// How taking a file over went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adopted {
    /// Which file, for which name.
    pub adoption: Adoption,
    /// Why not.
    pub error: Option<Note>,
}

impl Adopted {
    /// As the event log tells it: what kind of event, and its words.
    pub(crate) fn told(&self, edge: &str) -> (&'static str, String) {
        let file = &self.adoption.file;
        match &self.error {
            None => ("edge-adopted", format!("edge `{edge}` took over {file}")),
            Some(note) => {
                let why = &note.detail;
                ("edge-adopt-failed", format!("edge `{edge}` did not take over {file}: {why}"))
            }
        }
    }
}

/// Which files a person wants taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Adopt {
    /// Those that cover this name of ours, for every name of ours that they cover.
    Name(Hostname),
    /// This one, for every name of ours that it covers.
    File(String),
    /// All that cover a name of ours.
    All,
}

impl Adopt {
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name.as_str()),
            Self::File(_) | Self::All => None,
        }
    }

    pub(crate) fn file(&self) -> Option<&str> {
        match self {
            Self::File(file) => Some(file),
            Self::Name(_) | Self::All => None,
        }
    }
}

/// Strangers and adoptions.
#[async_trait]
pub trait Strangers: Send + Sync {
    /// The strangers of an edge, by file.
    async fn strangers(&self, edge: EdgeId, page: &Page) -> Result<Paged<Found>>;

    /// Asks an edge to take files over; gives which files for which names. Wakes whoever waits for deployments.
    async fn adopt(&self, edge: EdgeId, what: &Adopt, actor: &Actor) -> Result<Vec<Adoption>>;

    /// What an edge is to be told to take over now: what it was not told yet, or told a while ago without an answer.
    async fn adoptions(&self, edge: EdgeId) -> Result<Vec<Adoption>>;
}
