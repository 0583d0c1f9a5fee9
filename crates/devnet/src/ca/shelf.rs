//! Where objects of one kind are kept: each under a lock of its own, every change noted in the journal.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::journal::{Journal, Line};

/// What can be kept.
pub(crate) trait Row: Serialize + DeserializeOwned {
    /// Its name in the journal.
    const KIND: &'static str;

    /// Its id.
    fn id(&self) -> &str;
}

/// Objects of one kind, in the order in which they came.
pub(crate) struct Shelf<T> {
    rows: RwLock<Rows<T>>,
    journal: Journal,
}

struct Rows<T> {
    next: u64,
    /// By the number each came with, and so in the order in which they came.
    list: BTreeMap<u64, Arc<Mutex<T>>>,
    by_id: HashMap<String, u64>,
}

impl<T> Rows<T> {
    fn find(&self, id: &str) -> Option<&Arc<Mutex<T>>> {
        self.by_id.get(id).and_then(|number| self.list.get(number))
    }
}

impl<T: Row> Shelf<T> {
    /// A shelf with what a journal remembers of it.
    pub(crate) fn new(journal: Journal, lines: &[Line]) -> Self {
        let rows = RwLock::new(Rows { next: 0, list: BTreeMap::new(), by_id: HashMap::new() });
        let shelf = Self { rows, journal };
        for line in lines.iter().filter(|line| line.kind == T::KIND) {
            match line.row() {
                Ok(row) => shelf.place(row),
                Err(error) => tracing::warn!(kind = T::KIND, id = line.id, %error, "forgotten"),
            }
        }
        shelf
    }

    /// Adds an object.
    pub(crate) fn add(&self, row: T) {
        self.journal.note(T::KIND, row.id(), &row);
        self.place(row);
    }

    /// Reads an object.
    pub(crate) fn read<R>(&self, id: &str, read: impl FnOnce(&T) -> R) -> Option<R> {
        let row = self.find(id)?;
        Some(read(&lock(&row)))
    }

    /// Changes an object.
    pub(crate) fn update<R>(&self, id: &str, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        let row = self.find(id)?;
        let mut row = lock(&row);
        let result = change(&mut row);
        self.journal.note(T::KIND, row.id(), &*row);
        Some(result)
    }

    /// Reads every object, oldest first, keeping what the closure makes of it.
    pub(crate) fn collect<R>(&self, mut read: impl FnMut(&T) -> Option<R>) -> Vec<R> {
        let list = self.oldest(usize::MAX);
        list.iter().filter_map(|row| read(&lock(row))).collect()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.rows.read().unwrap_or_else(PoisonError::into_inner).list.len()
    }

    /// Reads the oldest ones, keeping what the closure makes of them.
    pub(crate) fn collect_oldest<R>(
        &self,
        count: usize,
        mut read: impl FnMut(&T) -> Option<R>,
    ) -> Vec<R> {
        self.oldest(count).iter().filter_map(|row| read(&lock(row))).collect()
    }

    /// Forgets an object.
    pub(crate) fn remove(&self, id: &str) {
        let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = rows.by_id.remove(id) {
            rows.list.remove(&number);
            self.journal.note(T::KIND, id, &serde_json::Value::Null);
        }
    }

    fn oldest(&self, count: usize) -> Vec<Arc<Mutex<T>>> {
        let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
        rows.list.values().take(count).cloned().collect()
    }

    fn find(&self, id: &str) -> Option<Arc<Mutex<T>>> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner).find(id).cloned()
    }

    fn place(&self, row: T) {
        let (id, row) = (row.id().to_owned(), Arc::new(Mutex::new(row)));
        let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        let number = rows.next;
        rows.next += 1;
        rows.list.insert(number, row);
        rows.by_id.insert(id, number);
    }
}

fn lock<T>(row: &Mutex<T>) -> MutexGuard<'_, T> {
    row.lock().unwrap_or_else(PoisonError::into_inner)
}
