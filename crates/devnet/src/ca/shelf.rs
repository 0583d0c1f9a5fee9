//! Where objects of one kind are kept: each under a lock of its own, every change noted in the journal.

use std::collections::HashMap;
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
    list: Vec<Arc<Mutex<T>>>,
    by_id: HashMap<String, Arc<Mutex<T>>>,
}

impl<T: Row> Shelf<T> {
    /// A shelf with what a journal remembers of it.
    pub(crate) fn new(journal: Journal, lines: &[Line]) -> Self {
        let rows = RwLock::new(Rows { list: Vec::new(), by_id: HashMap::new() });
        let shelf = Self { rows, journal };
        for line in lines.iter().filter(|line| line.kind == T::KIND) {
            match serde_json::from_value(line.row.clone()) {
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
        let list = self.rows.read().unwrap_or_else(PoisonError::into_inner).list.clone();
        list.iter().filter_map(|row| read(&lock(row))).collect()
    }

    fn find(&self, id: &str) -> Option<Arc<Mutex<T>>> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner).by_id.get(id).cloned()
    }

    fn place(&self, row: T) {
        let (id, row) = (row.id().to_owned(), Arc::new(Mutex::new(row)));
        let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        rows.list.push(row.clone());
        rows.by_id.insert(id, row);
    }
}

fn lock<T>(row: &Mutex<T>) -> MutexGuard<'_, T> {
    row.lock().unwrap_or_else(PoisonError::into_inner)
}
