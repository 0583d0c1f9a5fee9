//! A random history, held against the rules operation by operation.

use std::time::Duration;

use super::scene::{Contender, LONG, NEVER, fresh, told};
use super::{Harness, Verdict, demand};
use crate::identity::{Name, Priority, Term};
use crate::request::{Acquire, Acquired, Ask, Force, Release, Renew, Renewal, Renewed};
use crate::row::{Row, StoreTime};
use crate::rules::Slot;

const STEPS: u32 = 300;

/// A small generator, so that the suite needs no other crate: splitmix64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
}

/// A row without its times, which two computations never agree on to the microsecond.
fn timeless(row: &Row) -> Row {
    let epoch = StoreTime::from_micros(0);
    Row { expires_at: epoch, since: epoch, ..row.clone() }
}

struct History {
    contenders: Vec<Contender>,
    slot: Slot,
    dice: Dice,
    name: Name,
}

pub(super) async fn follows_the_rules(harness: &dyn Harness) -> Verdict {
    let name = fresh("random")?;
    let mut contenders = Vec::new();
    for who in ["ann", "bob", "eve"] {
        contenders.push(Contender::new(harness, who, &name).await?);
    }
    let seed = 0x1ea5e;
    let mut history = History { contenders, slot: Slot::default(), dice: Dice(seed), name };
    for step in 0..STEPS {
        let done = match history.dice.roll(10) {
            0..=3 => history.acquire().await,
            4..=6 => history.renew().await,
            7 => history.release().await,
            8 => history.ask().await,
            _ => history.force().await,
        };
        done.map_err(|why| format!("step {step}: {why}"))?;
        history.compare().await.map_err(|why| format!("after step {step}: {why}"))?;
    }
    Ok(())
}

impl History {
    fn someone(&mut self) -> Result<usize, String> {
        let count = self.contenders.len() as u64;
        usize::try_from(self.dice.roll(count)).map_err(told)
    }

    /// No time at all or for ever: nothing expires while it is being looked at.
    fn ttl(&mut self) -> Duration {
        if self.dice.roll(3) == 0 { Duration::ZERO } else { LONG }
    }

    fn term(&mut self) -> Term {
        let term = self.slot.row.as_ref().map_or(Term::NONE, |row| row.term);
        if self.dice.roll(4) == 0 { Term::new(term.number() - 1) } else { term }
    }

    async fn acquire(&mut self) -> Verdict {
        let (who, ttl, above) = (self.someone()?, self.ttl(), self.term());
        let above = if self.dice.roll(2) == 0 { Term::NONE } else { above };
        let version = self.slot.row.as_ref().map(Row::version).filter(|_| self.dice.roll(4) == 0);
        let priority = Priority(i16::try_from(self.dice.roll(3)).unwrap_or_default());
        let contender = self.contenders.get_mut(who).ok_or("nobody")?;
        let request =
            Acquire { above, unchanged: version, priority, ..contender.acquire_request(ttl) };
        let done = contender.store.acquire(&request).await.map_err(told)?;
        let (expected, _) = self.slot.acquire(&request, done.at);
        let plain = |answer: &Acquired| match answer {
            Acquired::Granted(row) => Acquired::Granted(timeless(row)),
            Acquired::Refused(row) => Acquired::Refused(row.as_ref().map(timeless)),
            Acquired::TooLate => Acquired::TooLate,
        };
        demand!(plain(&done.answer) == plain(&expected), "{request:?}: {done:?}, not {expected:?}");
        if ttl.is_zero() {
            contender.pass_a_moment().await?;
        }
        Ok(())
    }

    async fn renew(&mut self) -> Verdict {
        let (who, term, ttl) = (self.someone()?, self.term(), self.ttl());
        let lease = Renewal { name: self.name.clone(), term, ttl };
        let beat = i64::try_from(self.dice.roll(1 << 50)).unwrap_or_default();
        let contender = self.contenders.get_mut(who).ok_or("nobody")?;
        let incarnation = contender.incarnation;
        let request = Renew { incarnation, leases: vec![lease.clone()], beat, not_after: NEVER };
        let done = contender.store.renew(&request).await.map_err(told)?;
        let expected = self.slot.renew(&request, &lease, done.at);
        let plain = |answer: &Renewed| match answer {
            Renewed::Gone(row) => Renewed::Gone(row.as_ref().map(timeless)),
            other => other.clone(),
        };
        let answer = done.answer.first().ok_or("no answer")?;
        demand!(plain(answer) == plain(&expected), "{request:?}: {answer:?}, not {expected:?}");
        if ttl.is_zero() {
            contender.pass_a_moment().await?;
        }
        Ok(())
    }

    async fn release(&mut self) -> Verdict {
        let (who, term, reserve) = (self.someone()?, self.term(), self.ttl());
        let heir = self.someone()?;
        let heir = self.contenders.get(heir).map(|contender| (contender.holder.clone(), reserve));
        let successor = heir.filter(|_| self.dice.roll(2) == 0);
        let contender = self.contenders.get_mut(who).ok_or("nobody")?;
        let request = Release { successor, ..contender.release_request(term) };
        let done = contender.store.release(&request).await.map_err(told)?;
        let (expected, _) = self.slot.release(&request, done.at);
        demand!(done.answer == expected, "{request:?}: {done:?}, not {expected}");
        contender.pass_a_moment().await?;
        Ok(())
    }

    async fn ask(&mut self) -> Verdict {
        let (who, term) = (self.someone()?, self.term());
        let over = Priority(i16::try_from(self.dice.roll(4)).unwrap_or_default());
        let over = Some(over).filter(|_| self.dice.roll(2) == 0);
        let name = self.name.clone();
        let contender = self.contenders.get_mut(who).ok_or("nobody")?;
        let successor = Some(contender.holder.clone());
        let request = Ask { name, term, successor, over, not_after: NEVER };
        let done = contender.store.ask(&request).await.map_err(told)?;
        let expected = self.slot.ask(&request, done.at);
        demand!(done.answer == expected, "{request:?}: {done:?}, not {expected}");
        Ok(())
    }

    async fn force(&mut self) -> Verdict {
        let request = Force { name: self.name.clone(), note: "random".to_owned() };
        let who = self.someone()?;
        let contender = self.contenders.get_mut(who).ok_or("nobody")?;
        let done = contender.store.force(&request).await.map_err(told)?;
        let expected = self.slot.force(done.at).map(|changed| changed.term);
        demand!(done.answer == expected, "{done:?}, not {expected:?}");
        contender.pass_a_moment().await?;
        Ok(())
    }

    async fn compare(&mut self) -> Verdict {
        let Some(expected) = &self.slot.row else { return Ok(()) };
        let contender = self.contenders.first_mut().ok_or("nobody")?;
        let row = contender.row().await?;
        demand!(timeless(&row) == timeless(expected), "{row:?}, not {expected:?}");
        Ok(())
    }
}
