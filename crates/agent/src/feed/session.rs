//! Counts the reports since a registration, so that one which is held up on its way is not taken for news.

use std::sync::{Mutex, PoisonError};

use holdfast_store::ReportOrder;

#[derive(Default)]
pub(super) struct Session(Mutex<Option<ReportOrder>>);

impl Session {
    /// Begins this one; none where the control plane counts no reports.
    pub(super) fn begin(&self, session: Option<i64>) {
        let begun = session.map(|session| ReportOrder { session, sequence: 0 });
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = begun;
    }

    /// The order of the next report.
    pub(super) fn next(&self) -> Option<ReportOrder> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let order = last.as_mut()?;
        order.sequence += 1;
        Some(*order)
    }
}
