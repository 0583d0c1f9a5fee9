//! What is over is forgotten, so that a CA that runs for years holds what is in use.

use std::collections::HashSet;
use std::time::Duration;

use super::Ca;
use super::authorization::Authorization;
use super::certificate::Certificate;
use super::order::{Order, OrderStatus, Stage};
use crate::clock;

/// How many are forgotten in one go. Of orders some of the oldest may still be open, and hide others.
const AT_ONCE: usize = 256;

/// How long a certificate is known after its end: clients ask about what they have just replaced.
const KEPT_AFTER_END: Duration = Duration::from_secs(7 * 24 * 60 * 60);

impl Ca {
    /// Forgets orders that have ended, where there are more than are to be kept, and certificates that ended long ago.
    pub(crate) fn forget_ended(&self) {
        self.forget_certificates();
        let Some(kept) = self.settings.orders_kept else { return };
        let over = self.orders.len().saturating_sub(kept).min(AT_ONCE);
        let ended = self.orders.collect_oldest(over, |order| {
            let over = matches!(order.status(self), OrderStatus::Valid | OrderStatus::Invalid);
            over.then(|| order.clone())
        });
        ended.iter().for_each(|order| self.forget_order(order));
    }

    fn forget_certificates(&self) {
        let before = clock::now() - KEPT_AFTER_END;
        for _ in 0..AT_ONCE {
            let Some(serial) = self.index.take_ended(before) else { return };
            let id = self.certificates.read(&serial, |row| self.certificate_id(row));
            self.certificates.remove(&serial);
            if let Some(id) = id {
                self.windows.forget(&id);
            }
        }
    }

    fn forget_order(&self, order: &Order) {
        // What it was to replace may be replaced by another one, unless it was.
        match (&order.replaces, &order.stage) {
            (Some(_), Stage::Valid { .. }) | (None, _) => {}
            (Some(replaces), _) => self.unmark_replaced(replaces, &order.id),
        }
        self.orders.remove(&order.id);
        order.authorizations.iter().for_each(|id| self.forget_authorization(id));
        let key = Order::key(&order.account, &order.names, &order.profile);
        self.index.forget(&key, &order.id);
        if let Stage::Valid { certificate } = &order.stage {
            self.certificates.update(certificate, Certificate::shrink);
        }
    }

    fn forget_authorization(&self, id: &str) {
        let about = |row: &Authorization| (row.account.clone(), row.full_name());
        if let Some((account, name)) = self.authorizations.read(id, about) {
            self.authorizations.remove(id);
            self.index.unauthorized(&account, &name, id);
        }
    }

    /// Takes up what is known of certificates. One may be marked as replaced by an order that never came, or that was forgotten
    /// without a certificate: it may be replaced again.
    pub(super) fn index_certificates(&self) {
        let mut marked = Vec::new();
        let made_by: HashSet<String> = self
            .certificates
            .collect(|row| {
                self.index.issued(&row.serial, row.not_after);
                let mark = row.replaced_by.as_ref();
                marked.extend(mark.map(|order| (row.serial.clone(), order.clone())));
                Some(row.order.clone())
            })
            .into_iter()
            .collect();
        for (serial, order) in marked {
            if !made_by.contains(&order) && self.orders.read(&order, |_| ()).is_none() {
                self.certificates.update(&serial, |row| row.replaced_by = None);
            }
        }
    }
}
