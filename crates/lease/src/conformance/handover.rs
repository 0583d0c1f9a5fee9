//! Handing over: rows without life, successors, requests to step down, wake-ups.

use std::time::Duration;

use super::scene::{Contender, LONG, NEVER, SOON, told, two};
use super::{Harness, Verdict, demand};
use crate::identity::{Holder, Priority};
use crate::request::{Acquire, Acquired, Ask, Release, Renewed};

pub(super) async fn unchanged_can_be_taken(harness: &dyn Harness) -> Verdict {
    let (mut ann, mut bob) = two(harness, "unchanged").await?;
    let first = ann.acquire(LONG).await?;
    ann.renew(first.term).await?;
    let stale = Acquire { unchanged: Some(first.version()), ..bob.acquire_request(LONG) };
    let answer = bob.try_acquire(&stale).await?;
    demand!(matches!(answer, Acquired::Refused(_)), "took a row that had changed: {answer:?}");
    let seen = bob.row().await?;
    let exact = Acquire { unchanged: Some(seen.version()), ..bob.acquire_request(LONG) };
    let answer = bob.try_acquire(&exact).await?;
    demand!(
        matches!(&answer, Acquired::Granted(row) if row.term == first.term.next()),
        "{answer:?}"
    );
    Ok(())
}

async fn step_down(from: &mut Contender, to: &Holder, reserve: Duration) -> Result<(), String> {
    let row = from.acquire(LONG).await?;
    let successor = Some((to.clone(), reserve));
    let request = Release { successor, ..from.release_request(row.term) };
    from.store.release(&request).await.map_err(told)?;
    Ok(())
}

pub(super) async fn a_successor_goes_first(harness: &dyn Harness) -> Verdict {
    let (mut ann, mut bob) = two(harness, "successor").await?;
    let mut eve = Contender::new(harness, "eve", &ann.name).await?;
    step_down(&mut ann, &bob.holder, LONG).await?;
    let request = eve.acquire_request(LONG);
    let answer = eve.try_acquire(&request).await?;
    demand!(matches!(answer, Acquired::Refused(_)), "eve took bob's reservation: {answer:?}");
    let row = bob.acquire(LONG).await?;
    demand!(row.successor.is_none(), "the reservation outlived its purpose: {row:?}");
    bob.release(row.term).await?;
    step_down(&mut ann, &bob.holder, Duration::ZERO).await?;
    ann.pass_a_moment().await?;
    eve.acquire(LONG).await?;
    Ok(())
}

pub(super) async fn an_owner_can_be_asked(harness: &dyn Harness) -> Verdict {
    let (mut ann, mut bob) = two(harness, "asked").await?;
    let row = ann.acquire(LONG).await?;
    let successor = Some(bob.holder.clone());
    let ask =
        Ask { name: bob.name.clone(), term: row.term, successor, over: None, not_after: NEVER };
    let wrong = Ask { term: row.term.next(), ..ask.clone() };
    demand!(!bob.store.ask(&wrong).await.map_err(told)?.answer, "another term was asked");
    demand!(bob.store.ask(&ask).await.map_err(told)?.answer, "the owner was not asked");
    let answer = ann.renew(row.term).await?;
    let expected = Renewed::Kept { step_down: true, successor: Holder::new("bob").ok() };
    demand!(answer == expected, "{answer:?}");
    Ok(())
}

pub(super) async fn only_lower_priorities_are_asked(harness: &dyn Harness) -> Verdict {
    let (mut ann, mut bob) = two(harness, "priority").await?;
    let request = Acquire { priority: Priority(5), ..ann.acquire_request(LONG) };
    let Acquired::Granted(row) = ann.try_acquire(&request).await? else {
        return Err("not granted".to_owned());
    };
    demand!(row.priority == Priority(5), "the priority was not kept: {row:?}");
    for (priority, expected) in [(4, false), (5, false), (6, true)] {
        let ask = Ask {
            name: bob.name.clone(),
            term: row.term,
            successor: Some(bob.holder.clone()),
            over: Some(Priority(priority)),
            not_after: NEVER,
        };
        let answer = bob.store.ask(&ask).await.map_err(told)?.answer;
        demand!(answer == expected, "asked over priority {priority}: {answer}");
    }
    Ok(())
}

pub(super) async fn waiters_are_woken(harness: &dyn Harness) -> Verdict {
    let (mut ann, mut bob) = two(harness, "woken").await?;
    let Some(mut listener) = bob.store.listener() else { return Ok(()) };
    listener.connect().await.map_err(told)?;
    let row = ann.acquire(LONG).await?;
    let ask = Ask {
        name: bob.name.clone(),
        term: row.term,
        successor: None,
        over: None,
        not_after: NEVER,
    };
    bob.store.ask(&ask).await.map_err(told)?;
    ann.release(row.term).await?;
    for what in ["request to step down", "release"] {
        // Other checks may be told of on the same channel.
        let own = async {
            while listener.next().await.map_err(told)? != ann.name {}
            Ok::<(), String>(())
        };
        let woken = tokio::time::timeout(SOON, own).await;
        woken.map_err(|_| format!("nobody was woken by the {what}"))??;
    }
    Ok(())
}
