//! Hands on what the target noticed by itself while it serves.

use super::outbox::Outbox;
use crate::{Error, Target};

/// Runs for ever.
pub(super) async fn run(target: &dyn Target, outbox: &Outbox) -> Error {
    loop {
        outbox.room().await;
        outbox.saw(target.noticed().await);
        outbox.flush();
    }
}
