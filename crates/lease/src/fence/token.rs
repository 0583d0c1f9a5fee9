//! What a write is fenced with.

use serde::{Deserialize, Serialize};

use crate::identity::{Incarnation, Name, Term};

/// The right to write under a lease: whose, and in which term. Hand it to whatever must not happen late.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Token {
    /// The lease.
    pub name: Name,
    /// The term.
    pub term: Term,
    /// The process.
    pub incarnation: Incarnation,
}

/// The highest token a resource has seen: the smallest fence there is, for a resource that keeps it with its data.
///
/// ```
/// use holdfast_lease::fence::{HighWater, Token};
/// use holdfast_lease::{Incarnation, Name, Term};
///
/// let token = |term| -> Result<Token, holdfast_lease::Error> {
///     Ok(Token { name: Name::new("ledger")?, term: Term::new(term), incarnation: Incarnation::random() })
/// };
/// let (ours, next) = (token(3)?, token(4)?);
///
/// // Kept with the data, and written in the same step.
/// let mut fence = HighWater::default();
/// fence.admit(&ours)?;
/// fence.admit(&next)?;
/// assert!(fence.admit(&ours).is_err(), "a write that comes late is refused");
/// # Ok::<(), holdfast_lease::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HighWater {
    seen: Option<(Term, Incarnation)>,
}

impl HighWater {
    /// Lets in a newer term, or the same term of the same process, and remembers it.
    pub fn admit(&mut self, token: &Token) -> Result<(), crate::Error> {
        let admitted = self.seen.is_none_or(|(term, incarnation)| {
            token.term > term || (token.term == term && token.incarnation == incarnation)
        });
        if !admitted {
            return Err(crate::Error::Fenced { name: token.name.clone(), term: token.term });
        }
        self.seen = Some((token.term, token.incarnation));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_term_and_a_stranger_in_the_same_term_are_refused() {
        let name = Name::new("sweep").unwrap();
        let (ann, bob) = (Incarnation::random(), Incarnation::random());
        let token =
            |term, incarnation| Token { name: name.clone(), term: Term::new(term), incarnation };
        let mut fence = HighWater::default();
        fence.admit(&token(3, ann)).unwrap();
        fence.admit(&token(3, ann)).unwrap();
        assert!(fence.admit(&token(3, bob)).is_err());
        fence.admit(&token(4, bob)).unwrap();
        assert!(fence.admit(&token(3, ann)).is_err());
    }
}
