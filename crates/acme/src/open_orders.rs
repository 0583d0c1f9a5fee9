//! Orders as last read, so that the next step need not read them again first.
//!
//! A convenience and never the truth: after a crash, on another replica or after any error it is empty, and the order
//! is read by the URL that the store has.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use instant_acme::{Order, OrderState};

/// Far more than are ever in flight; orders that nobody came back for are dropped with the rest.
const KEPT: usize = 4_096;

#[derive(Default)]
pub(crate) struct OpenOrders(Mutex<HashMap<String, Order>>);

impl OpenOrders {
    /// Takes it out, if it is still of use: whoever fails with it does not put it back.
    pub(crate) fn take_if(&self, url: &str, fits: impl Fn(&OrderState) -> bool) -> Option<Order> {
        let mut order = self.orders().remove(url)?;
        fits(order.state()).then_some(order)
    }

    pub(crate) fn forget(&self, url: &str) {
        self.orders().remove(url);
    }

    pub(crate) fn keep(&self, order: Order) {
        let mut orders = self.orders();
        if orders.len() >= KEPT {
            orders.clear();
        }
        orders.insert(order.url().to_owned(), order);
    }

    fn orders(&self) -> MutexGuard<'_, HashMap<String, Order>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
