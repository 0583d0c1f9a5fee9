//! Beacons, where a store has them: a session that ended, and nothing else, lets others in.

use std::time::Duration;

use super::scene::{Contender, LONG, SOON, told, two};
use super::{Harness, Verdict, demand};
use crate::request::{Acquire, Acquired};
use crate::row::Change;

fn with_beacon(contender: &Contender) -> Acquire {
    Acquire { beacon: true, ..contender.acquire_request(LONG) }
}

async fn sees_it_gone(contender: &mut Contender) -> Result<bool, String> {
    let names = [contender.name.clone()];
    let looks = contender.store.look(&names).await.map_err(told)?.answer;
    Ok(looks.first().is_some_and(|(_, gone)| *gone))
}

pub(super) async fn a_dark_owner_is_followed(harness: &dyn Harness) -> Verdict {
    let (mut ann, mut bob) = two(harness, "beacon").await?;
    let (Some(mut lamp), Some(mut other)) = (ann.store.beacon(), bob.store.beacon()) else {
        return Ok(());
    };
    lamp.light().await.map_err(told)?;
    other.light().await.map_err(told)?;
    // Whoever judges must have been there before the owner's last sign of life.
    demand!(!sees_it_gone(&mut bob).await?, "nobody's beacon is gone");
    let request = with_beacon(&ann);
    let granted = ann.try_acquire(&request).await?;
    demand!(matches!(&granted, Acquired::Granted(row) if row.beacon), "{granted:?}");
    let (plain, taking) = (bob.acquire_request(LONG), with_beacon(&bob));
    let early = bob.try_acquire(&taking).await?;
    demand!(matches!(early, Acquired::Refused(_)), "taken though its beacon is lit: {early:?}");
    drop(lamp);
    let dark = async {
        while !sees_it_gone(&mut bob).await? {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok::<(), String>(())
    };
    tokio::time::timeout(SOON, dark).await.map_err(|_| "its end is not seen")??;
    let refused = bob.try_acquire(&plain).await?;
    demand!(matches!(refused, Acquired::Refused(_)), "taken without a beacon: {refused:?}");
    let taken = bob.try_acquire(&taking).await?;
    demand!(matches!(&taken, Acquired::Granted(row) if row.beacon), "{taken:?}");
    let history = bob.store.history(&bob.name, None, 1).await.map_err(told)?;
    let reason = history.first().map(|entry| entry.change);
    demand!(reason == Some(Change::BeaconGone), "{history:?}");
    Ok(())
}
