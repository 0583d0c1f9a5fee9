//! What an edge found when it compared itself with a restored database.
//!
//! Names that it serves and the database does not know stay served until a person adds them again or takes them away at the edge.
//! Names that it was told to serve and did not any more may have been removed after the backup was made.

use async_trait::async_trait;

use crate::{EdgeId, Result, row::Fields};

/// So many names are kept of each list.
pub const NAMED: usize = 1_000;

/// Some names, and how many there are in all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// How many there are.
    pub count: u64,
    /// The first of them, at most [`NAMED`].
    pub first: Vec<String>,
}

impl Names {
    /// The first of these, in order.
    #[must_use]
    pub fn of(mut names: Vec<String>) -> Self {
        names.sort_unstable();
        let count = u64::try_from(names.len()).unwrap_or(u64::MAX);
        names.truncate(NAMED);
        Self { count, first: names }
    }

    pub(crate) fn as_json(&self) -> String {
        serde_json::json!(self.first).to_string()
    }
}

/// What an edge and the database do not agree on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    /// Served, and not known to the database.
    pub unknown: Names,
    /// To be served, and not served when the edge was told.
    pub absent: Names,
}

impl Difference {
    /// From a row per name that still differs, or one without a name, each with the totals as they were told.
    pub(crate) fn read(rows: &[impl Fields]) -> Result<Self> {
        let mut difference = Self::default();
        for row in rows {
            let names = match row.text("kind")?.as_str() {
                "unknown" => &mut difference.unknown,
                _ => &mut difference.absent,
            };
            // Those that were told and agree by now are not counted any more.
            let beyond = row.number("total")? - row.number("told")?;
            names.first.extend(row.maybe_text("name")?);
            let first = u64::try_from(names.first.len()).unwrap_or(u64::MAX);
            names.count = first + u64::try_from(beyond).unwrap_or_default();
        }
        Ok(difference)
    }
}

/// Differences between edges and the database.
#[async_trait]
pub trait Differences: Send + Sync {
    /// Keeps what an edge found; `absent` stays as it was where nothing is said of it.
    async fn keep_difference(
        &self,
        edge: EdgeId,
        unknown: &Names,
        absent: Option<&Names>,
    ) -> Result<()>;

    /// What differs still.
    async fn difference(&self, edge: EdgeId) -> Result<Difference>;
}
