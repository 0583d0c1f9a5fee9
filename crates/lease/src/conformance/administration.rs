//! What operators see and do: force, history, lists.

use std::time::Duration;

use super::scene::{LONG, told, two};
use super::{Harness, Verdict, demand};
use crate::identity::Name;
use crate::request::{Force, Renewed};
use crate::row::Change;

pub(super) async fn force_raises_the_term(harness: &dyn Harness) -> Verdict {
    let (mut ann, mut bob) = two(harness, "force").await?;
    let row = ann.acquire(LONG).await?;
    let force = Force { name: ann.name.clone(), note: "root: stuck".to_owned() };
    let term = bob.store.force(&force).await.map_err(told)?.answer;
    demand!(term == Some(row.term.next()), "{term:?} after {}", row.term);
    let answer = ann.renew(row.term).await?;
    demand!(matches!(&answer, Renewed::Gone(Some(row)) if row.owner.is_none()), "{answer:?}");
    let next = bob.acquire(LONG).await?;
    demand!(next.term == row.term.next().next(), "{next:?}");
    let history = bob.store.history(&ann.name, None, 10).await.map_err(told)?;
    let forced = history.iter().find(|entry| entry.change == Change::Forced);
    let noted = forced.is_some_and(|entry| {
        entry.note.as_deref() == Some("root: stuck") && entry.from.as_ref() == Some(&ann.holder)
    });
    demand!(noted, "not in the history: {history:?}");
    let nobody = Force { name: Name::new("no-such-lease").map_err(told)?, note: String::new() };
    let term = bob.store.force(&nobody).await.map_err(told)?.answer;
    demand!(term.is_none(), "{term:?}");
    Ok(())
}

pub(super) async fn history_is_kept(harness: &dyn Harness) -> Verdict {
    let (mut ann, mut bob) = two(harness, "history").await?;
    let row = ann.acquire(LONG).await?;
    ann.renew(row.term).await?;
    ann.release(row.term).await?;
    bob.acquire(Duration::ZERO).await?;
    ann.pass_a_moment().await?;
    ann.acquire(LONG).await?;
    let history = ann.store.history(&bob.name, None, 10).await.map_err(told)?;
    let changes: Vec<Change> = history.iter().map(|entry| entry.change).collect();
    let expected = [Change::Expired, Change::Released, Change::Departed, Change::Created];
    demand!(changes == expected, "{changes:?}");
    let terms: Vec<i64> = history.iter().map(|entry| entry.term.number()).collect();
    demand!(terms == [3, 2, 1, 1], "{terms:?}");
    let last = history.first().ok_or("empty")?;
    demand!(last.from.as_ref() == Some(&bob.holder), "{last:?}");
    demand!(last.to.as_ref() == Some(&ann.holder), "{last:?}");
    let page = ann.store.history(&bob.name, history.get(1).map(|entry| entry.id), 1).await;
    let page = page.map_err(told)?;
    demand!(page.len() == 1 && page.first() == history.get(2), "{page:?}");
    Ok(())
}

pub(super) async fn history_is_pruned(harness: &dyn Harness) -> Verdict {
    let (mut ann, _) = two(harness, "pruned").await?;
    let row = ann.acquire(LONG).await?;
    ann.store.prune(LONG).await.map_err(told)?;
    let kept = ann.store.history(&ann.name, None, 10).await.map_err(told)?;
    demand!(kept.len() == 1, "young entries were pruned");
    ann.pass_a_moment().await?;
    // Other leases of the suite may have entries to prune: until none is left.
    while ann.store.prune(Duration::ZERO).await.map_err(told)? > 0 {}
    let kept = ann.store.history(&ann.name, None, 10).await.map_err(told)?;
    demand!(kept.is_empty(), "{kept:?}");
    demand!(ann.row().await? == row, "the lease itself changed");
    Ok(())
}

pub(super) async fn leases_are_listed(harness: &dyn Harness) -> Verdict {
    let (mut ann, mut bob) = two(harness, "listed").await?;
    let row = ann.acquire(LONG).await?;
    bob.name = Name::new(format!("{}-b", ann.name)).map_err(told)?;
    bob.acquire(LONG).await?;
    let all = ann.store.list(None, 10_000).await.map_err(told)?.answer;
    demand!(all.is_sorted_by_key(|(name, _)| name.clone()), "not in order");
    demand!(all.contains(&(ann.name.clone(), row)), "not listed");
    let page = ann.store.list(Some(&ann.name), 1).await.map_err(told)?.answer;
    let names: Vec<&Name> = page.iter().map(|(name, _)| name).collect();
    demand!(names == [&bob.name], "{names:?}");
    Ok(())
}
