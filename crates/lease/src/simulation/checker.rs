//! The invariants, judged from outside the protocol, with the world's true time.

use std::collections::{BTreeMap, BTreeSet};

use super::Micros;
use super::plan::{Plan, micros};
use super::process::Process;
use super::store::{Act, SimStore};
use crate::event::{Event, Happening, Loss};
use crate::identity::{Holder, Incarnation, Name, Term};
use crate::protocol::Request;
use crate::request::{Acquire, Ask, Release, Renew};
use crate::row::Row;

/// What the checker remembers.
#[derive(Default)]
pub(crate) struct Checker {
    /// The highest term that ever had an owner.
    highest: BTreeMap<Name, Term>,
    /// The highest term a guarded write was committed under.
    written: BTreeMap<Name, Term>,
    /// What was told of each term.
    told: BTreeMap<(Name, Term, Incarnation), Told>,
    elected: BTreeSet<(Name, Term)>,
    /// How often a lease changed hands, and when last.
    pub(crate) changes: BTreeMap<Name, (u32, Micros)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Elected,
    Ended,
}

/// A broken invariant, in words.
pub(crate) type Verdict = Result<(), String>;

impl Checker {
    /// I1: nobody else believes when someone begins to.
    pub(crate) fn one_believer(name: &Name, processes: &[Process], now: Micros) -> Verdict {
        let believers: Vec<_> = processes
            .iter()
            .filter_map(|process| process.believes(name, now).map(|term| (&process.holder, term)))
            .collect();
        if believers.len() > 1 {
            return Err(format!("I1: {name} is believed in by {believers:?}"));
        }
        Ok(())
    }

    /// I2: whoever believes is the owner in the store, and not expired there.
    pub(crate) fn belief_within_expiry(
        name: &Name,
        processes: &[Process],
        store: &mut SimStore,
        now: Micros,
    ) -> Verdict {
        let at = store.clock.now(now);
        for process in processes {
            let Some(term) = process.believes(name, now) else { continue };
            let row = &store.table(name).slot.row;
            let covered = row.as_ref().is_some_and(|row| {
                row.is_of(process.incarnation) && row.term == term && row.expires_at >= at
            });
            if !covered {
                return Err(format!(
                    "I2: {} believes in term {term}, the store has {row:?} at {at}",
                    process.holder
                ));
            }
        }
        Ok(())
    }

    /// I3 and I5: a change of owner raises the term, and takes only what may be taken.
    pub(crate) fn owner_changed(
        &mut self,
        act: &Act,
        request: &Request,
        plan: &Plan,
        now: Micros,
    ) -> Verdict {
        match request {
            Request::Acquire(acquire) => self.acquired(act, acquire, now),
            Request::Renew(renew) => Self::renewed(act, renew),
            Request::Release(release) => Self::released(act, release),
            Request::Ask(ask) => Self::asked(act, ask, plan, now),
            Request::Look(_) => Ok(()),
        }
    }

    fn acquired(&mut self, act: &Act, acquire: &Acquire, now: Micros) -> Verdict {
        let Act { name, before, after, .. } = act;
        let Some(row) = &after.slot.row else { return Ok(()) };
        let old = before.slot.row.as_ref();
        let again = old.is_some_and(|old| old.is_of(acquire.incarnation) && old.term == row.term);
        // A term the same owner registered before its row was lost is still its own.
        let registered = before.fence == Some((row.term, acquire.incarnation));
        if again || registered {
            return Ok(());
        }
        let highest = self.highest.entry(name.clone()).or_default();
        if row.term <= *highest {
            return Err(format!("I3: {name} got term {} after {highest}", row.term));
        }
        *highest = row.term;
        let (changes, last) = self.changes.entry(name.clone()).or_default();
        (*changes, *last) = (*changes + 1, now);
        old.map_or(Ok(()), |old| Self::taken(old, act, acquire, now))
    }

    fn taken(old: &Row, act: &Act, acquire: &Acquire, now: Micros) -> Verdict {
        let heir = |heir: &Holder| *heir == acquire.holder;
        let free = old.owner.is_none() && old.successor.as_ref().is_none_or(heir);
        let own = old.is_of(acquire.incarnation);
        let expired = old.expires_at < act.at;
        let still = now - act.before.touched >= micros(old.ttl);
        let lifeless = acquire.unchanged.is_some() && still;
        let dark = acquire.beacon && old.beacon && act.before.dark;
        if free || own || expired || lifeless || dark {
            return Ok(());
        }
        Err(format!("I5: {} took {old:?} at {}", acquire.holder, act.at))
    }

    fn renewed(act: &Act, renew: &Renew) -> Verdict {
        let old = act.before.slot.row.as_ref();
        let asked =
            |old: &Row| renew.leases.iter().any(|own| own.term == old.term && own.name == act.name);
        if old.is_some_and(|old| old.is_of(renew.incarnation) && asked(old)) {
            return Ok(());
        }
        Err(format!("I5: a renewal of {renew:?} changed {old:?}"))
    }

    fn released(act: &Act, release: &Release) -> Verdict {
        let Some(old) = &act.before.slot.row else { return Ok(()) };
        if !old.is_of(release.incarnation) || old.term != release.term {
            return Err(format!("I5: a release of {release:?} changed {old:?}"));
        }
        if act.after.slot.row.as_ref().is_none_or(|new| new.term < old.term) {
            return Err(format!("I3: a release of {} forgot term {}", act.name, old.term));
        }
        Ok(())
    }

    fn asked(act: &Act, ask: &Ask, plan: &Plan, now: Micros) -> Verdict {
        let cooldown =
            ask.over.and(plan.wish(0).failback).map(|failback| micros(failback.cooldown));
        let age = now - act.before.term_began;
        if let Some(cooldown) = cooldown.filter(|cooldown| age < cooldown - cooldown / 20) {
            return Err(format!(
                "I10: a failback {age} µs after the last change, cooldown {cooldown} µs"
            ));
        }
        Ok(())
    }

    /// I4: guarded writes never go back.
    pub(crate) fn wrote(&mut self, name: &Name, term: Term) -> Verdict {
        let written = self.written.entry(name.clone()).or_default();
        if term < *written {
            return Err(format!(
                "I4: a write under term {term} of {name} after one under {written}"
            ));
        }
        *written = term;
        Ok(())
    }

    /// I6: what was given up on does not act. `limit` is when its sender gave up, and a little for clocks.
    pub(crate) fn acted_in_time(request: &Request, now: Micros, limit: Micros) -> Verdict {
        if now > limit {
            return Err(format!(
                "I6: a request given up on acted {} µs later: {request:?}",
                now - limit
            ));
        }
        Ok(())
    }

    /// I7: the events of a term in order, none missing; I6: one lost message costs no lease.
    pub(crate) fn told(
        &mut self,
        event: &Event,
        process: &Process,
        window: Micros,
        now: Micros,
    ) -> Verdict {
        let key = (event.name.clone(), event.term, process.incarnation);
        let before = self.told.get(&key).copied();
        let fits = match event.happening {
            Happening::Elected => before.is_none(),
            _ => before == Some(Told::Elected),
        };
        if !fits {
            return Err(format!("I7: {event:?} told after {before:?} by {}", process.holder));
        }
        let state = if event.ends_term() { Told::Ended } else { Told::Elected };
        self.told.insert(key, state);
        if event.happening == Happening::Elected
            && !self.elected.insert((event.name.clone(), event.term))
        {
            return Err(format!("I3: term {} of {} had an owner before", event.term, event.name));
        }
        let troubles = process.troubles_since(now.saturating_sub(window));
        if event.happening == Happening::Lost(Loss::Deadline) && troubles <= 1 {
            return Err(format!(
                "I6: {} lost {} though {troubles} messages were lost",
                process.holder, event.name
            ));
        }
        Ok(())
    }

    /// I7: nothing is released that is still believed in, or whose end was not told.
    pub(crate) fn releases(
        &self,
        name: &Name,
        term: Term,
        process: &Process,
        now: Micros,
    ) -> Verdict {
        let told = self.told.get(&(name.clone(), term, process.incarnation));
        if told == Some(&Told::Elected) || process.believes(name, now) == Some(term) {
            return Err(format!(
                "I7: {} releases term {term} of {name} before it is lost",
                process.holder
            ));
        }
        Ok(())
    }
}
