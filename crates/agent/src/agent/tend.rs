//! Looks after the target beside the follower: a proxy that was restarted is filled again.

use super::outbox::{Outbox, Topic};
use super::trouble::Trouble;
use crate::{Error, Target};

/// Runs for ever.
pub(super) async fn run(target: &dyn Target, outbox: &Outbox) -> Error {
    let Some(period) = target.tended_every() else { return std::future::pending().await };
    let mut trouble = Trouble::new("the edge's proxy cannot be looked after");
    loop {
        // The follower compares at its start by itself.
        tokio::time::sleep(period).await;
        match target.tend().await {
            Ok(mended) => {
                trouble.is_over();
                outbox.complain(Topic::Target, None);
                if mended {
                    outbox.mended();
                }
            }
            Err(error) => {
                outbox.complain(Topic::Target, Some(error.note()));
                trouble.rest_after(&error).await;
            }
        }
    }
}
