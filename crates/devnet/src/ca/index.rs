//! What is looked up by something other than its id. One short lock each, never held over work.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use time::OffsetDateTime;

/// The second ways to find things.
#[derive(Default)]
pub(crate) struct Index {
    accounts: Mutex<HashMap<String, String>>,
    orders: Mutex<HashMap<String, String>>,
    authorizations: Mutex<HashMap<(String, String), String>>,
    /// When certificates end, with their serial numbers.
    ends: Mutex<BTreeSet<(OffsetDateTime, String)>>,
}

impl Index {
    /// The account with a key.
    pub(crate) fn account(&self, thumbprint: &str) -> Option<String> {
        lock(&self.accounts).get(thumbprint).cloned()
    }

    /// Gives a key to an account unless another has it; whose it is then.
    pub(crate) fn register(&self, thumbprint: &str, id: &str, add: impl FnOnce()) -> String {
        let mut accounts = lock(&self.accounts);
        if let Some(holder) = accounts.get(thumbprint) {
            return holder.clone();
        }
        // Added under the lock, so that whoever finds the id finds the account.
        add();
        accounts.insert(thumbprint.to_owned(), id.to_owned());
        id.to_owned()
    }

    /// Gives an account a new key in place of its old one, or says who has it.
    pub(crate) fn rekey(&self, old: &str, new: &str, id: &str) -> Result<(), String> {
        let mut accounts = lock(&self.accounts);
        if let Some(holder) = accounts.get(new) {
            return Err(holder.clone());
        }
        accounts.remove(old);
        accounts.insert(new.to_owned(), id.to_owned());
        Ok(())
    }

    /// The order made last for these names, if it still serves; otherwise the one that is made now.
    pub(crate) fn order(
        &self,
        key: &str,
        serves: impl FnOnce(&str) -> bool,
        make: impl FnOnce() -> String,
    ) -> (String, bool) {
        let mut orders = lock(&self.orders);
        if let Some(id) = orders.get(key).filter(|id| serves(id)) {
            return (id.clone(), false);
        }
        let id = make();
        orders.insert(key.to_owned(), id.clone());
        (id, true)
    }

    /// The authorization of an account for a name that was valid last.
    pub(crate) fn authorization(&self, account: &str, name: &str) -> Option<String> {
        lock(&self.authorizations).get(&(account.to_owned(), name.to_owned())).cloned()
    }

    /// Notes a valid authorization.
    pub(crate) fn authorized(&self, account: &str, name: &str, id: &str) {
        let key = (account.to_owned(), name.to_owned());
        lock(&self.authorizations).insert(key, id.to_owned());
    }

    /// Forgets an authorization, if it is the last for its name.
    pub(crate) fn unauthorized(&self, account: &str, name: &str, id: &str) {
        let mut authorizations = lock(&self.authorizations);
        let key = (account.to_owned(), name.to_owned());
        if authorizations.get(&key).is_some_and(|last| last == id) {
            authorizations.remove(&key);
        }
    }

    /// Notes when a certificate ends.
    pub(crate) fn issued(&self, serial: &str, not_after: OffsetDateTime) {
        lock(&self.ends).insert((not_after, serial.to_owned()));
    }

    /// Takes out a certificate that ended before this.
    pub(crate) fn take_ended(&self, before: OffsetDateTime) -> Option<String> {
        let mut ends = lock(&self.ends);
        let is_over = ends.first().is_some_and(|(end, _)| *end < before);
        if is_over { ends.pop_first().map(|(_, serial)| serial) } else { None }
    }

    /// Forgets an order, if it is the last for its names.
    pub(crate) fn forget(&self, key: &str, id: &str) {
        let mut orders = lock(&self.orders);
        if orders.get(key).is_some_and(|last| last == id) {
            orders.remove(key);
        }
    }

    /// Notes an order found in the journal.
    pub(crate) fn ordered(&self, key: String, id: &str) {
        lock(&self.orders).insert(key, id.to_owned());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
