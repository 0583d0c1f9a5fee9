//! Colours and symbols.

use holdfast_model::State;

/// Are there colours?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Yes.
    Coloured,
    /// No.
    Plain,
}

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        match self {
            Self::Coloured if !text.is_empty() => format!("\x1b[{code}m{text}\x1b[0m"),
            _ => text.to_owned(),
        }
    }

    /// For what is as it should be.
    pub(crate) fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    /// For what is not.
    pub(crate) fn bad(self, text: &str) -> String {
        self.paint("31", text)
    }

    /// For what is on its way, or wants attention.
    pub(crate) fn warn(self, text: &str) -> String {
        self.paint("33", text)
    }

    /// For what matters less.
    pub(crate) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// For what matters most.
    pub(crate) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// A state in its colour.
    pub(crate) fn state(self, text: &str) -> String {
        match text.parse::<State>() {
            Ok(State::Active) => self.good(text),
            Ok(state) if state.is_failure() => self.bad(text),
            Ok(_) => self.warn(text),
            Err(_) => text.to_owned(),
        }
    }
}
