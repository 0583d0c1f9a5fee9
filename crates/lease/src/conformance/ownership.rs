//! Who owns a lease: acquiring, renewing, releasing.

use std::time::Duration;

use futures_util::future::join_all;

use super::scene::{Contender, LONG, NEVER, fresh, told, two};
use super::{Harness, Verdict, demand};
use crate::identity::Term;
use crate::request::{Acquire, Acquired, Release, Renew, Renewal, Renewed};
use crate::row::StoreTime;

const NO_TIME: Duration = Duration::ZERO;

pub(super) async fn first_acquire_wins(harness: &dyn Harness) -> Verdict {
    let (mut ann, _) = two(harness, "first").await?;
    let row = ann.acquire(LONG).await?;
    demand!(row.term == Term::new(1), "the first term is {}", row.term);
    demand!(row.is_of(ann.incarnation), "another owns it: {row:?}");
    demand!(row.expires_at == row.since.plus(LONG) || row.expires_at > row.since, "{row:?}");
    demand!(row.beat == 0 && row.ttl == LONG, "{row:?}");
    demand!(ann.row().await? == row, "the row read differs: {:?}", ann.row().await?);
    Ok(())
}

pub(super) async fn second_is_refused(harness: &dyn Harness) -> Verdict {
    let (mut ann, mut bob) = two(harness, "second").await?;
    let held = ann.acquire(LONG).await?;
    let request = bob.acquire_request(LONG);
    let answer = bob.try_acquire(&request).await?;
    demand!(answer == Acquired::Refused(Some(held.clone())), "{answer:?} instead of {held:?}");
    demand!(bob.row().await? == held, "a refusal changed the row");
    Ok(())
}

pub(super) async fn renewal_keeps_the_term(harness: &dyn Harness) -> Verdict {
    let (mut ann, _) = two(harness, "renewal").await?;
    let before = ann.acquire(Duration::from_secs(60)).await?;
    let answer = ann.renew(before.term).await?;
    demand!(answer == Renewed::Kept { step_down: false, successor: None }, "{answer:?}");
    let after = ann.row().await?;
    demand!(after.term == before.term && after.since == before.since, "{after:?}");
    demand!(after.expires_at > before.expires_at && after.ttl == LONG, "{after:?}");
    demand!(after.beat == before.beat + 1, "the beat did not count: {after:?}");
    Ok(())
}

pub(super) async fn beats_are_the_owners_time(harness: &dyn Harness) -> Verdict {
    let (mut ann, _) = two(harness, "beats").await?;
    let row = ann.acquire(LONG).await?;
    // A belated request, or one served twice, counts on: the row must never look as it did before.
    for (beat, expected) in [(5_000_000_000_000, 0), (7, 1), (7, 2), (6_000_000_000_000, 0)] {
        let highest = if expected == 0 { beat } else { 5_000_000_000_000 };
        let lease = Renewal { name: ann.name.clone(), term: row.term, ttl: LONG };
        let (incarnation, leases) = (ann.incarnation, vec![lease]);
        let request = Renew { incarnation, leases, beat, not_after: NEVER };
        ann.store.renew(&request).await.map_err(told)?;
        let shown = ann.row().await?.beat;
        demand!(shown == highest + expected, "renewed at {beat}, the row shows {shown}");
    }
    Ok(())
}

pub(super) async fn strangers_cannot_renew(harness: &dyn Harness) -> Verdict {
    let (mut ann, mut bob) = two(harness, "strangers").await?;
    let row = ann.acquire(LONG).await?;
    let by_bob = bob.renew(row.term).await?;
    demand!(by_bob == Renewed::Gone(Some(row.clone())), "{by_bob:?}");
    let other_term = ann.renew(row.term.next()).await?;
    demand!(other_term == Renewed::Gone(Some(row.clone())), "{other_term:?}");
    demand!(ann.row().await? == row, "the row changed");
    Ok(())
}

pub(super) async fn strangers_cannot_release(harness: &dyn Harness) -> Verdict {
    let (mut ann, mut bob) = two(harness, "strangers").await?;
    let row = ann.acquire(LONG).await?;
    demand!(!bob.release(row.term).await?, "bob released ann's lease");
    demand!(!ann.release(row.term.next()).await?, "ann released a term that is not hers");
    demand!(ann.row().await? == row, "the row changed");
    Ok(())
}

pub(super) async fn terms_survive_release(harness: &dyn Harness) -> Verdict {
    let (mut ann, mut bob) = two(harness, "survive").await?;
    let first = ann.acquire(LONG).await?;
    demand!(ann.release(first.term).await?, "ann could not release");
    let free = bob.row().await?;
    demand!(free.owner.is_none() && free.term == first.term, "{free:?}");
    demand!(!ann.release(first.term).await?, "released twice");
    let second = bob.acquire(LONG).await?;
    demand!(second.term == first.term.next(), "{second:?} after {first:?}");
    Ok(())
}

pub(super) async fn expired_can_be_taken(harness: &dyn Harness) -> Verdict {
    let (mut ann, mut bob) = two(harness, "expired").await?;
    let first = ann.acquire(NO_TIME).await?;
    ann.pass_a_moment().await?;
    let second = bob.acquire(LONG).await?;
    demand!(second.term == first.term.next(), "{second:?}");
    let answer = ann.renew(first.term).await?;
    demand!(answer == Renewed::Gone(Some(second.clone())), "{answer:?}");
    demand!(!ann.release(first.term).await?, "ann released bob's lease");
    demand!(bob.row().await? == second, "the row changed");
    Ok(())
}

pub(super) async fn a_lost_reply_does_not_lock_out(harness: &dyn Harness) -> Verdict {
    let (mut ann, _) = two(harness, "again").await?;
    let first = ann.acquire(LONG).await?;
    let again = ann.acquire(LONG).await?;
    demand!(again.term == first.term && again.beat == first.beat + 1, "{again:?}");
    demand!(again.expires_at >= first.expires_at, "{again:?}");
    Ok(())
}

pub(super) async fn an_ended_term_is_not_granted_again(harness: &dyn Harness) -> Verdict {
    let (mut ann, _) = two(harness, "ended").await?;
    let first = ann.acquire(LONG).await?;
    let request = Acquire { above: first.term, ..ann.acquire_request(LONG) };
    match ann.try_acquire(&request).await? {
        Acquired::Granted(row) if row.term == first.term.next() && row.beat == 0 => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

pub(super) async fn terms_rise_above_what_is_known(harness: &dyn Harness) -> Verdict {
    let (mut ann, mut bob) = two(harness, "above").await?;
    let request = Acquire { above: Term::new(41), ..ann.acquire_request(NO_TIME) };
    let answer = ann.try_acquire(&request).await?;
    demand!(matches!(&answer, Acquired::Granted(row) if row.term == Term::new(42)), "{answer:?}");
    ann.pass_a_moment().await?;
    let request = Acquire { above: Term::new(7), ..bob.acquire_request(LONG) };
    let answer = bob.try_acquire(&request).await?;
    demand!(matches!(&answer, Acquired::Granted(row) if row.term == Term::new(43)), "{answer:?}");
    Ok(())
}

pub(super) async fn late_requests_do_nothing(harness: &dyn Harness) -> Verdict {
    let (mut ann, mut bob) = two(harness, "late").await?;
    let past = StoreTime::from_micros(1);
    let late = Acquire { not_after: past, ..ann.acquire_request(LONG) };
    demand!(ann.try_acquire(&late).await? == Acquired::TooLate, "a late acquire was not refused");
    let row = ann.acquire(NO_TIME).await?;
    ann.pass_a_moment().await?;
    let late = Acquire { not_after: past, ..bob.acquire_request(LONG) };
    demand!(bob.try_acquire(&late).await? == Acquired::TooLate, "a late takeover was not refused");
    let answer = ann.renew_by(row.term, past).await?;
    demand!(answer == Renewed::TooLate, "a late renewal: {answer:?}");
    let late = Release { not_after: past, ..ann.release_request(row.term) };
    let answer = ann.store.release(&late).await.map_err(told)?.answer;
    demand!(!answer, "a late release acted");
    demand!(ann.row().await? == row, "the row changed");
    Ok(())
}

pub(super) async fn one_of_many_wins(harness: &dyn Harness) -> Verdict {
    let name = fresh("many")?;
    let mut contenders = Vec::new();
    for index in 0..8 {
        let mut contender = Contender::new(harness, &format!("c{index}"), &name).await?;
        // Connected before they race, and one after the other.
        contender.now().await?;
        contenders.push(contender);
    }
    let racing = contenders.iter_mut().map(|contender| async {
        let request = contender.acquire_request(LONG);
        contender.try_acquire(&request).await
    });
    let answers: Vec<Acquired> = join_all(racing).await.into_iter().collect::<Result<_, _>>()?;
    let won = answers.iter().filter(|answer| matches!(answer, Acquired::Granted(_))).count();
    demand!(won == 1, "{won} of 8 won: {answers:?}");
    Ok(())
}

pub(super) async fn batches_are_answered_in_order(harness: &dyn Harness) -> Verdict {
    let mut leases = Vec::new();
    let mut ann = Contender::new(harness, "ann", &fresh("batch")?).await?;
    for index in 0..30 {
        ann.name = fresh("batch")?;
        if index % 3 != 0 {
            ann.acquire(LONG).await?;
        }
        leases.push(Renewal { name: ann.name.clone(), term: Term::new(1), ttl: LONG });
    }
    let request = Renew { incarnation: ann.incarnation, leases, beat: 0, not_after: NEVER };
    let answers = ann.store.renew(&request).await.map_err(told)?.answer;
    demand!(answers.len() == 30, "{} answers", answers.len());
    for (index, answer) in answers.iter().enumerate() {
        let expected = if index % 3 == 0 {
            Renewed::Gone(None)
        } else {
            Renewed::Kept { step_down: false, successor: None }
        };
        demand!(*answer == expected, "answer {index} is {answer:?}");
    }
    Ok(())
}

pub(super) async fn survives_a_cut_connection(harness: &dyn Harness) -> Verdict {
    let (mut ann, _) = two(harness, "cut").await?;
    let row = ann.acquire(LONG).await?;
    ann.store.disconnect();
    let answer = ann.renew(row.term).await?;
    demand!(matches!(answer, Renewed::Kept { .. }), "{answer:?}");
    Ok(())
}
