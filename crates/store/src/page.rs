//! Keyset paging: no offset, so the last page costs what the first does.

/// Which part of a list is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// At most this many.
    pub limit: u32,
    /// What came after this; the cursor of the page before.
    pub after: Option<String>,
}

/// A part of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paged<T> {
    /// The items.
    pub items: Vec<T>,
    /// Where the next page begins; none on the last.
    pub next: Option<String>,
}
