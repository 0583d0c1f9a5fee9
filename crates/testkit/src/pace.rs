//! The pace of a load, or of faults.

use std::time::Duration;

/// Lets this much time pass between two requests of a load, or between two blows. It is no wait: nothing may have to be true after it
/// that was not before, however slow the machine; for that there is [`eventually`](crate::eventually).
pub async fn pace(by: Duration) {
    tokio::time::sleep(by).await;
}
