//! The checker (Wing and Gong, with the memory of Lowe): is there an order of the operations that the sequential lease could
//! have gone through, in which whatever had ended before another began comes first?

use std::collections::HashSet;

use super::history::{Answer, Asked, Op};
use super::sequential::State;

/// What was found.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) linearizable: bool,
    /// How many states of the search there were.
    pub(super) explored: usize,
    /// How far the search came, and what lay around: whether it could be put in order.
    pub(super) furthest: usize,
    pub(super) stuck: Vec<(bool, Op)>,
}

/// Which operations are done: all before `base`, and these after it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Done {
    base: usize,
    after: Vec<usize>,
}

impl Done {
    fn has(&self, index: usize) -> bool {
        index < self.base || self.after.binary_search(&index).is_ok()
    }

    fn with(&self, index: usize) -> Self {
        let mut done = self.clone();
        let at = done.after.partition_point(|known| *known < index);
        done.after.insert(at, index);
        while done.after.first() == Some(&done.base) {
            done.after.remove(0);
            done.base += 1;
        }
        done
    }

    fn count(&self) -> usize {
        self.base + self.after.len()
    }
}

/// An operation as the search sees it.
struct Timed {
    op: Op,
    /// Until when it must have acted, if at all.
    end: u64,
    /// What the store's clock had shown before it began.
    floor: i64,
}

/// How many operations before and after the one that fits nowhere are shown.
const SHOWN: usize = 16;

/// The most states a search may have: a history that needs more says nothing.
const MOST: usize = 3_000_000;

/// Whoever is about to take a lifeless row lets it run out first: an internal event, during that request or never.
fn expiry(op: &Op) -> Option<Op> {
    let Asked::Acquire { unchanged: Some(version), .. } = op.asked else { return None };
    let not_after = if op.answer == Answer::Unknown { op.not_after } else { op.at };
    Some(Op { asked: Asked::Expire(version), answer: Answer::Unknown, not_after, ..op.clone() })
}

/// One given up on cannot act once the store has answered with a time past its limit.
fn timed(mut ops: Vec<Op>, expires_first: bool) -> Vec<Timed> {
    let expiries: Vec<Op> = ops.iter().filter(|_| expires_first).filter_map(expiry).collect();
    let answered: Vec<u64> =
        ops.iter().filter(|op| op.answer != Answer::Unknown).map(|op| op.ended).collect();
    ops.extend(expiries);
    ops.sort_by_key(|op| (op.begun, op.ended));
    let known: Vec<(u64, i64)> =
        ops.iter().filter(|op| op.answer != Answer::Unknown).map(|op| (op.ended, op.at)).collect();
    let end = |op: &Op| match op.answer {
        Answer::Unknown => {
            let with = matches!(op.asked, Asked::Expire(_)) && answered.contains(&op.ended);
            let past = known.iter().filter(|(_, at)| *at > op.not_after).map(|(ended, _)| *ended);
            if with { op.ended } else { past.min().unwrap_or(u64::MAX) }
        }
        _ => op.ended,
    };
    let floor = |op: &Op| {
        let before = known.iter().filter(|(ended, _)| *ended < op.begun).map(|(_, at)| *at);
        before.max().unwrap_or_default()
    };
    ops.iter().map(|op| Timed { op: op.clone(), end: end(op), floor: floor(op) }).collect()
}

/// The operations that may come next: none that began after another had ended that is still to come.
fn candidates(ops: &[Timed], done: &Done) -> Vec<usize> {
    let (mut found, mut first_end) = (Vec::new(), u64::MAX);
    for (index, timed) in ops.iter().enumerate().skip(done.base) {
        if timed.op.begun > first_end {
            break;
        }
        if !done.has(index) {
            found.push(index);
            first_end = first_end.min(timed.end);
        }
    }
    found.retain(|index| ops[*index].op.begun <= first_end);
    // Whoever must act soonest is tried first; it is popped from the end.
    found.sort_by_key(|index| std::cmp::Reverse(ops[*index].end));
    found
}

/// Judges the history of one lease. `expires_first`: the store lets a lifeless row run out before it takes it.
pub(super) fn check(ops: Vec<Op>, expires_first: bool) -> Verdict {
    let ops = timed(ops, expires_first);
    let begin = (Done { base: 0, after: Vec::new() }, State::default());
    let mut seen = HashSet::from([begin.clone()]);
    let mut stack = vec![begin];
    let mut furthest = Done { base: 0, after: Vec::new() };
    while let Some((done, state)) = stack.pop() {
        if done.count() == ops.len() {
            let (explored, furthest) = (seen.len(), ops.len());
            return Verdict { linearizable: true, explored, furthest, stuck: Vec::new() };
        }
        assert!(seen.len() < MOST, "the search is lost after {} operations", furthest.count());
        if done.count() > furthest.count() {
            furthest = done.clone();
        }
        for index in candidates(&ops, &done) {
            let Timed { op, floor, .. } = &ops[index];
            for after in state.after(op, *floor) {
                let next = (done.with(index), after);
                if seen.insert(next.clone()) {
                    stack.push(next);
                }
            }
        }
    }
    let last = furthest.base.saturating_sub(SHOWN)..(furthest.base + SHOWN).min(ops.len());
    let stuck = last.map(|index| (furthest.has(index), ops[index].op.clone())).collect();
    Verdict { linearizable: false, explored: seen.len(), furthest: furthest.count(), stuck }
}
