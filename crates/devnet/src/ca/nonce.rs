//! Nonces: each good once. The oldest are forgotten when too many are out.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use super::id::random_text;

/// How many nonces may be out at once.
const OUTSTANDING: usize = 100_000;

/// The nonces that are out.
#[derive(Default)]
pub(crate) struct Nonces(Mutex<Outstanding>);

#[derive(Default)]
struct Outstanding {
    good: HashSet<String>,
    oldest_first: VecDeque<String>,
}

impl Nonces {
    /// Makes a new one.
    pub(crate) fn mint(&self) -> String {
        let nonce = random_text::<16>();
        let mut outstanding = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        outstanding.good.insert(nonce.clone());
        outstanding.oldest_first.push_back(nonce.clone());
        if outstanding.oldest_first.len() > OUTSTANDING
            && let Some(oldest) = outstanding.oldest_first.pop_front()
        {
            outstanding.good.remove(&oldest);
        }
        nonce
    }

    /// Takes one back; whether it was good.
    pub(crate) fn spend(&self, nonce: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).good.remove(nonce)
    }
}
