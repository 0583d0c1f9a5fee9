//! Query parameters, taken one by one; what is left over is refused, so that a misspelt filter never lists
//! everything.

use axum::extract::{FromRequestParts, Query};
use http::request::Parts;

use crate::{Kind, Problem, field};

/// Longest parameter taken.
const LONGEST: usize = 1024;

/// The parameters of one request.
pub(crate) struct Params(Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Query::try_from_uri(&parts.uri).map(|Query(pairs)| Self(pairs)).map_err(|error| {
            Problem::new(Kind::InvalidParameter, format!("The query cannot be read: {error}."))
        })
    }
}

impl Params {
    /// Takes a text; empty is absent.
    pub(crate) fn text(&mut self, name: &'static str) -> Result<Option<String>, Problem> {
        let Some(at) = self.0.iter().position(|(given, _)| given == name) else { return Ok(None) };
        let (_, value) = self.0.remove(at);
        if self.0.iter().any(|(given, _)| given == name) {
            return Err(invalid(name, format!("`{name}` was given twice; give it once.")));
        }
        if value.len() > LONGEST || value.contains(char::is_control) {
            let detail = format!("`{name}` is too long or has control characters.");
            return Err(invalid(name, detail));
        }
        Ok(Some(value).filter(|value| !value.is_empty()))
    }

    /// Takes `true` or `false`.
    pub(crate) fn flag(&mut self, name: &'static str) -> Result<bool, Problem> {
        match self.text(name)?.as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => {
                let other = field::shown(other);
                Err(invalid(name, format!("`{name}` is true or false, not `{other}`.")))
            }
        }
    }

    /// Ends the taking.
    pub(crate) fn end(self) -> Result<(), Problem> {
        let Some((name, _)) = self.0.into_iter().next() else { return Ok(()) };
        let name = field::shown(&name);
        let detail = format!(
            "`{name}` is not a parameter of this request; /v1/openapi.json lists those it has."
        );
        Err(Problem::new(Kind::UnknownParameter, detail).with("field", name))
    }
}

/// A parameter with a value that cannot be taken.
pub(crate) fn invalid(name: &'static str, detail: impl Into<String>) -> Problem {
    Problem::new(Kind::InvalidParameter, detail).with("field", name)
}
