//! A cause.

use holdfast_model::Note;
use serde::Serialize;
use utoipa::ToSchema;

/// Why something did not work.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Note)]
pub(crate) struct NoteView {
    /// Stable, for programs.
    code: String,
    /// What was expected, what was seen.
    detail: String,
}

impl From<Note> for NoteView {
    fn from(note: Note) -> Self {
        Self { code: note.code.into_owned(), detail: note.detail }
    }
}
