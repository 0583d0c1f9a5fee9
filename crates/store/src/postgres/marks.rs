//! Where looks of this process begin, so that they do not pass what is gone and a long snapshot keeps: by statement, and by what it is
//! about. See [`LowWater`].

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
};

use holdfast_model::Timestamp;
use tokio::time::Instant;
use uuid::Uuid;

use crate::LowWater;

/// The marks of every statement that has any.
#[derive(Default)]
pub(super) struct AllMarks {
    /// The queue for orders: of those that renew at no cost, of others with a certificate, and of those without.
    pub(super) queue: Marks<(), 3>,
    /// Open orders, by account.
    pub(super) orders: Marks<Uuid, 1>,
    /// Who stays in a state, by state.
    pub(super) staying: Marks<&'static str, 1>,
    /// Deliveries that are claimed, by webhook.
    pub(super) deliveries: Marks<Uuid, 1>,
    /// Deliveries that are due, and open ones, by webhook.
    pub(super) webhooks: Marks<Uuid, 2>,
}

/// The marks of one statement.
pub(super) struct Marks<K, const PLACES: usize>(Mutex<HashMap<K, LowWater<PLACES>>>);

impl<K, const PLACES: usize> Default for Marks<K, PLACES> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

/// A look that begins now.
#[derive(Clone, Copy)]
pub(super) struct Look<const PLACES: usize> {
    began: Instant,
    /// Where it begins; none is the beginning.
    pub(super) from: [Option<Timestamp>; PLACES],
}

impl<const PLACES: usize> Look<PLACES> {
    /// One from the beginning.
    pub(super) fn whole() -> Self {
        Self { began: Instant::now(), from: [None; PLACES] }
    }
}

impl<K: Copy + Eq + Hash, const PLACES: usize> Marks<K, PLACES> {
    fn known(&self) -> MutexGuard<'_, HashMap<K, LowWater<PLACES>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begin(&self, key: &K) -> Look<PLACES> {
        let began = Instant::now();
        let from = self.known().entry(*key).or_default().begin(began);
        Look { began, from }
    }

    /// A look at all of them at once.
    pub(super) fn begin_all(&self) -> HashMap<K, Look<PLACES>> {
        let began = Instant::now();
        let begin = |marks: &mut LowWater<PLACES>| Look { began, from: marks.begin(began) };
        self.known().iter_mut().map(|(key, marks)| (*key, begin(marks))).collect()
    }

    /// What lay before `done` needs no further look.
    pub(super) fn looked(
        &self,
        key: K,
        look: Look<PLACES>,
        now: Timestamp,
        done: [Option<Timestamp>; PLACES],
    ) {
        let answered = Instant::now();
        // What is first heard of now was looked at from the beginning.
        let first = || {
            let mut marks = LowWater::default();
            let _ = marks.begin(look.began);
            marks
        };
        let mut known = self.known();
        known.entry(key).or_insert_with(first).looked(look.began, answered, now, done);
    }

    /// Something may lie below the marks now.
    pub(super) fn appeared(&self, key: &K, at: Timestamp) {
        if let Some(marks) = self.known().get_mut(key) {
            marks.appeared(Instant::now(), at);
        }
    }

    /// Others are gone.
    pub(super) fn keep(&self, kept: impl Fn(&K) -> bool) {
        self.known().retain(|key, _| kept(key));
    }
}
