//! Whom it concerns that the CA makes no order: one name, or everybody. Pure.

use holdfast_model::DomainId;

/// Whom the CA has made no order for since it last made one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Failed {
    #[default]
    Nobody,
    /// One name alone, this many times.
    One(DomainId, u32),
    Several,
}

/// Whom a failure concerns, as far as is known.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Concerns {
    /// Perhaps everybody: the first name that fails since an order was made.
    Unclear,
    /// Perhaps this name alone, which has failed this many times before: no other has, or others got through.
    Name(u32),
    /// More than one name.
    Everybody,
}

impl Failed {
    /// The CA made no order for this name. A suspect failed before, and others got through since.
    pub(crate) fn fails(&mut self, domain: DomainId, is_suspect: bool) -> Concerns {
        let (failed, concerns) = match *self {
            Self::Nobody => (Self::One(domain, 1), Concerns::Unclear),
            Self::One(one, times) if one == domain => {
                (Self::One(one, times.saturating_add(1)), Concerns::Name(times))
            }
            Self::One(..) | Self::Several => (Self::Several, Concerns::Everybody),
        };
        *self = failed;
        match concerns {
            Concerns::Unclear | Concerns::Everybody if is_suspect => Concerns::Name(1),
            concerns => concerns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Concerns::{Everybody, Name, Unclear};

    #[test]
    fn one_name_is_set_aside_until_another_fails_too() {
        let (mut failed, odd, other) = (Failed::default(), DomainId::new(), DomainId::new());
        let mut fails = |domain| failed.fails(domain, false);
        assert_eq!([fails(odd), fails(odd), fails(odd)], [Unclear, Name(1), Name(2)]);
        assert_eq!([fails(other), fails(odd)], [Everybody, Everybody]);
    }

    #[test]
    fn a_suspect_is_set_aside_whoever_else_failed() {
        let (mut failed, odd, other) = (Failed::default(), DomainId::new(), DomainId::new());
        assert_eq!(failed.fails(odd, true), Name(1));
        assert_eq!(failed.fails(other, false), Everybody);
        assert_eq!([failed.fails(odd, true), failed.fails(other, false)], [Name(1), Everybody]);
    }
}
