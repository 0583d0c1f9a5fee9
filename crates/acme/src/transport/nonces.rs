//! Nonces that came with answers, newest first: each saves a request, and old ones are the likeliest to be refused.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::HeaderValue;

/// More than there are requests in flight is of no use.
const KEPT: usize = 64;

#[derive(Default)]
pub(super) struct Nonces(Mutex<VecDeque<String>>);

impl Nonces {
    pub(super) fn take(&self) -> Option<String> {
        self.pool().pop_back()
    }

    pub(super) fn keep(&self, nonce: &HeaderValue) {
        let Some(nonce) = nonce.to_str().ok().filter(|text| is_nonce(text)) else { return };
        let mut pool = self.pool();
        if pool.len() >= KEPT {
            pool.pop_front();
        }
        pool.push_back(nonce.to_owned());
    }

    pub(super) fn clear(&self) {
        self.pool().clear();
    }

    fn pool(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// RFC 8555 §6.5.1: anything but base64url is to be ignored.
fn is_nonce(text: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    !text.is_empty() && text.bytes().all(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_used_first_and_the_oldest_forgotten() {
        let nonces = Nonces::default();
        for number in 0..=KEPT {
            nonces.keep(&HeaderValue::from_str(&format!("n{number}")).unwrap());
        }
        nonces.keep(&HeaderValue::from_static("no nonce!"));
        let kept: Vec<String> = std::iter::from_fn(|| nonces.take()).collect();
        assert_eq!(kept.len(), KEPT);
        assert_eq!((kept[0].as_str(), kept[KEPT - 1].as_str()), ("n64", "n1"));
    }
}
