//! A term in an HTTP header, which only a holder of the cluster's key can make.
//!
//! `Lease-Term: v1;{name};{term};{incarnation};{milliseconds};{mac}`. The receiver checks the MAC and the age, and holds the
//! term against what it knows: the row of the lease, or a [`super::HighWater`].
//!
//! ```
//! use std::time::Duration;
//!
//! use holdfast_lease::fence::{HighWater, Token, header};
//! use holdfast_lease::row::StoreTime;
//! use holdfast_lease::{Incarnation, Name, Term};
//!
//! let key = b"known to every process of the cluster";
//! let now = StoreTime::from_micros(1_700_000_000_000_000);
//! let token = Token { name: Name::new("ledger")?, term: Term::new(7), incarnation: Incarnation::random() };
//!
//! // The holder sends it along…
//! let value = header::sign(key, &token, now);
//!
//! // …and whoever receives it believes the key, not the sender.
//! let mut fence = HighWater::default();
//! fence.admit(&header::verify(key, &value, now, Duration::from_secs(30))?)?;
//! assert!(header::verify(b"another key", &value, now, Duration::from_secs(30)).is_err());
//! # Ok::<(), holdfast_lease::Error>(())
//! ```

use std::time::Duration;

use ring::hmac;

use super::Token;
use crate::error::Error;
use crate::identity::{Incarnation, Name, Term};
use crate::row::StoreTime;

/// The name of the header.
pub const NAME: &str = "lease-term";

/// Makes the value of the header. `at` is the time by a clock that sender and receiver share roughly.
pub fn sign(key: &[u8], token: &Token, at: StoreTime) -> String {
    let Token { name, term, incarnation } = token;
    let text = format!("v1;{name};{term};{incarnation};{}", at.as_micros() / 1_000);
    let mac = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes());
    let digits: String = mac.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{text};{digits}")
}

/// Checks the value of the header, and reads the token in it.
pub fn verify(key: &[u8], value: &str, now: StoreTime, max_age: Duration) -> Result<Token, Error> {
    let (text, digits) = value.rsplit_once(';').ok_or(Error::TermHeader("malformed"))?;
    let mac = bytes(digits).ok_or(Error::TermHeader("malformed"))?;
    hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes(), &mac)
        .map_err(|_| Error::TermHeader("not made with the cluster's key"))?;
    // From the right: a lease name may contain a semicolon.
    let mut fields = text.rsplitn(4, ';');
    let mut field = || fields.next().ok_or(Error::TermHeader("malformed"));
    let (millis, incarnation, term, name) = (field()?, field()?, field()?, field()?);
    let malformed = || Error::TermHeader("malformed");
    let millis: i64 = millis.parse().map_err(|_| malformed())?;
    let at = StoreTime::from_micros(millis.saturating_mul(1_000));
    if now.since(at) > max_age || at.since(now) > max_age {
        return Err(Error::TermHeader("too old"));
    }
    Ok(Token {
        name: Name::new(name.strip_prefix("v1;").ok_or_else(malformed)?)?,
        term: Term::new(term.parse().map_err(|_| malformed())?),
        incarnation: Incarnation::from_uuid(incarnation.parse().map_err(|_| malformed())?),
    })
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = (0..digits.len()).step_by(2);
    pairs.map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> Token {
        let name = Name::new("odd;name").unwrap();
        Token { name, term: Term::new(7), incarnation: Incarnation::random() }
    }

    #[test]
    fn what_is_signed_is_read_back() {
        let (token, now) = (token(), StoreTime::from_micros(5_000_000));
        let value = sign(b"key", &token, now);
        assert_eq!(verify(b"key", &value, now, Duration::from_secs(1)).unwrap(), token);
    }

    #[test]
    fn another_key_another_term_and_an_old_header_are_refused() {
        let (token, now) = (token(), StoreTime::from_micros(5_000_000));
        let value = sign(b"key", &token, now);
        let age = Duration::from_secs(1);
        assert!(verify(b"other", &value, now, age).is_err());
        assert!(verify(b"key", &value.replace(";7;", ";8;"), now, age).is_err());
        assert!(verify(b"key", &value, now.plus(Duration::from_secs(2)), age).is_err());
        for wrong in ["", ";", "v1;a;b", "v1;x;1;2;3;zz"] {
            assert!(verify(b"key", wrong, now, age).is_err(), "{wrong}");
        }
    }
}
