//! Guarded writes: they hold up another owner, and never their own.

use std::time::Duration;

use super::scene::{LONG, SOON, two};
use super::{Harness, Verdict, demand};
use crate::request::{Acquired, Renewed};

pub(super) async fn renewal_passes_an_open_guard(harness: &dyn Harness) -> Verdict {
    let (mut ann, mut bob) = two(harness, "guard").await?;
    let row = ann.acquire(LONG).await?;
    let Some(guard) = harness.guard(&ann.name, ann.incarnation, row.term).await else {
        return Ok(());
    };
    let limit = SOON;
    let renewed = tokio::time::timeout(limit, ann.renew(row.term)).await;
    let renewed = renewed.map_err(|_| "the renewal waited for the guard")??;
    demand!(matches!(renewed, Renewed::Kept { .. }), "{renewed:?}");
    let request = bob.acquire_request(LONG);
    let refused = tokio::time::timeout(limit, bob.try_acquire(&request)).await;
    let refused = refused.map_err(|_| "a refusal waited for the guard")??;
    demand!(matches!(refused, Acquired::Refused(_)), "{refused:?}");
    let released = tokio::time::timeout(limit, ann.release(row.term)).await;
    demand!(released.map_err(|_| "the release waited for the guard")??, "not released");
    guard.commit().await;
    Ok(())
}

pub(super) async fn takeover_waits_for_an_open_guard(harness: &dyn Harness) -> Verdict {
    let (mut ann, mut bob) = two(harness, "takeover").await?;
    let row = ann.acquire(Duration::from_millis(300)).await?;
    let Some(guard) = harness.guard(&ann.name, ann.incarnation, row.term).await else {
        return Ok(());
    };
    ann.wait_past(row.expires_at).await?;
    let request = bob.acquire_request(LONG);
    let mut taking = Box::pin(bob.try_acquire(&request));
    // Long enough for one who does not wait; one who does cannot be seen to otherwise.
    let early = tokio::time::timeout(Duration::from_millis(100), &mut taking).await;
    demand!(early.is_err(), "taken over a guard that was open: {early:?}");
    guard.commit().await;
    let taken = tokio::time::timeout(SOON, taking).await;
    let taken = taken.map_err(|_| "not taken after the guard was gone")??;
    demand!(matches!(taken, Acquired::Granted(_)), "{taken:?}");
    demand!(
        harness.guard(&ann.name, ann.incarnation, row.term).await.is_none(),
        "the old term is still let in"
    );
    Ok(())
}
