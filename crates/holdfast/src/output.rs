//! What people and scripts see on standard output.
//!
//! Colours only on a terminal and without NO_COLOR; tables no wider than the terminal; JSON as the API gave it.

mod style;
mod table;

use std::io::{IsTerminal as _, Write as _};

use serde_json::Value;

pub(crate) use self::{style::Style, table::Table};
use crate::environment::Environment;

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// For scripts.
    Json,
}

/// Standard output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    format: Format,
    style: Style,
    width: Option<usize>,
}

impl Output {
    /// As this terminal, or whatever standard output is, can take it.
    pub(crate) fn new(format: Format, environment: &Environment) -> Self {
        let terminal = std::io::stdout().is_terminal();
        let plain = environment.value("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = environment.value("TERM") == Some("dumb");
        let style = if terminal && !plain && !dumb { Style::Coloured } else { Style::Plain };
        let width = terminal.then(terminal_size::terminal_size).flatten();
        Self { format, style, width: width.map(|(width, _)| usize::from(width.0)) }
    }

    /// Is the result for a script?
    pub(crate) fn is_json(self) -> bool {
        self.format == Format::Json
    }

    /// Can a line be rewritten while something is under way?
    pub(crate) const fn is_live(self) -> bool {
        self.width.is_some()
    }

    /// Its colours.
    pub(crate) const fn style(self) -> Style {
        self.style
    }

    /// Writes a line. A reader that went away is not our concern.
    pub(crate) fn line(self, text: impl AsRef<str>) {
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "{}", text.as_ref()).ok();
    }

    /// What is left of a text that begins at column `at`, where the terminal ends.
    pub(crate) fn cut(self, text: &str, at: usize) -> String {
        self.width
            .map_or_else(|| text.to_owned(), |width| table::cut(text, width.saturating_sub(at)))
    }

    /// Writes over the current line; the next [`line`](Self::line) begins after [`clear`](Self::clear).
    pub(crate) fn rewrite(self, text: &str) {
        let mut stdout = std::io::stdout().lock();
        write!(stdout, "\r\x1b[2K{text}").and_then(|()| stdout.flush()).ok();
    }

    /// Wipes what [`rewrite`](Self::rewrite) wrote.
    pub(crate) fn clear(self) {
        if self.is_live() {
            self.rewrite("");
        }
    }

    /// Writes a document.
    pub(crate) fn json(self, value: &Value) {
        self.line(format!("{value:#}"));
    }

    /// Writes a table.
    pub(crate) fn table(self, table: &Table) {
        for line in table.lines(self.width, self.style) {
            self.line(line);
        }
    }
}
