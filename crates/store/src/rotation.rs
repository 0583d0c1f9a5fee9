//! Rotation of the data key: everything is sealed anew under the newest one, in small steps that may be repeated.
//!
//! What does not open is passed over and named at the end. A rotation under way is noted in the database, so that another replica goes
//! on with it after a crash. It ends when a pass from the beginning finds nothing that it could seal anew.

use std::fmt;

use uuid::Uuid;

use crate::{Actor, Result, SharedStore, row::Fields};

/// So many of those that do not open are named; the rest are counted.
const NAMED: usize = 100;

/// More passes than this are only needed where others seal under older keys without end.
const PASSES: u32 = 100;

/// A sealed value, by its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedValue {
    /// What kind of thing it belongs to.
    pub owner: String,
    /// Which one.
    pub id: Uuid,
    /// The name of the domain it is for, where there is one.
    pub name: Option<String>,
}

impl fmt::Display for SealedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.owner, self.id)?;
        self.name.as_ref().map_or(Ok(()), |name| write!(f, " ({name})"))
    }
}

/// Where a pass over sealed values goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResealCursor {
    /// The data key of the last value seen.
    pub key: i64,
    /// Its owner.
    pub owner: String,
    /// Its id.
    pub id: Uuid,
}

/// Where a pass goes on, as the statement is told.
pub(crate) fn start(after: Option<&ResealCursor>) -> (i64, String, Uuid) {
    after.map_or((0, String::new(), Uuid::nil()), |at| (at.key, at.owner.clone(), at.id))
}

/// Where the next step of a pass goes on; none when there were fewer rows than asked for.
pub(crate) fn next_after(rows: &[impl Fields], limit: u32) -> Result<Option<ResealCursor>> {
    let full = rows.len() >= usize::try_from(limit).unwrap_or(usize::MAX);
    let Some(last) = rows.last().filter(|_| full) else { return Ok(None) };
    let key = last.number("sealing_key")?;
    Ok(Some(ResealCursor { key, owner: last.text("owner")?, id: last.id("id")? }))
}

/// What one step of a pass did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resealed {
    /// The data key that values are sealed under now.
    pub key: i64,
    /// Values under older keys that were looked at.
    pub seen: u64,
    /// Values sealed anew.
    pub resealed: u64,
    /// Values that do not open, or are of a kind that this release does not know.
    pub left: Vec<SealedValue>,
    /// Where to go on; none at the end of the pass.
    pub next: Option<ResealCursor>,
}

/// How a rotation went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rotation {
    /// The data key that values are sealed under now.
    pub key: i64,
    /// Values sealed anew.
    pub resealed: u64,
    /// Is it over? Else others are still sealing under older keys.
    pub over: bool,
    /// How many values do not open and stay under an older key.
    pub left: u64,
    /// The first of them.
    pub named: Vec<SealedValue>,
}

impl Rotation {
    /// Is nothing left under an older key?
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.over && self.left == 0
    }

    /// As the event log tells it.
    pub(crate) fn told(&self) -> String {
        if self.left == 0 {
            return format!("{} values were sealed under a new key", self.resealed);
        }
        let first: Vec<_> = self.named.iter().take(10).map(ToString::to_string).collect();
        format!(
            "{} values were sealed under a new key; {} do not open and stay as they are: {}",
            self.resealed,
            self.left,
            first.join(", ")
        )
    }
}

/// A rotation, step by step.
#[derive(Debug, Default)]
pub struct Resealing {
    after: Option<ResealCursor>,
    passes: u32,
    /// Values under older keys that this pass has seen.
    seen: u64,
    so_far: Rotation,
}

impl Resealing {
    /// How it stands.
    #[must_use]
    pub const fn so_far(&self) -> &Rotation {
        &self.so_far
    }

    /// Takes a step over at most `limit` values; gives how it went at the end, which is told by one event whoever comes to it.
    ///
    /// # Errors
    /// When the database does not answer; the same step again is right.
    pub async fn step(
        &mut self,
        store: &SharedStore,
        limit: u32,
        actor: &Actor,
    ) -> Result<Option<Rotation>> {
        let step = store.reseal(self.after.as_ref(), limit).await?;
        self.after.clone_from(&step.next);
        if !self.note(step) {
            return Ok(None);
        }
        if self.so_far.over {
            store.end_rotation(&self.so_far, actor).await?;
        }
        Ok(Some(std::mem::take(self).so_far))
    }

    /// Adds a step; is it the last?
    fn note(&mut self, step: Resealed) -> bool {
        self.seen += step.seen;
        self.so_far.key = step.key;
        self.so_far.resealed += step.resealed;
        self.so_far.left += u64::try_from(step.left.len()).unwrap_or(u64::MAX);
        let room = NAMED.saturating_sub(self.so_far.named.len());
        self.so_far.named.extend(step.left.into_iter().take(room));
        if step.next.is_some() {
            return false;
        }
        self.passes += 1;
        // Whatever else was seen is done by us or by another: the next pass finds out.
        self.so_far.over = self.seen == self.so_far.left;
        if self.so_far.over || self.passes >= PASSES {
            return true;
        }
        (self.seen, self.so_far.left) = (0, 0);
        self.so_far.named.clear();
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(seen: u64, left: u64, more: bool) -> Resealed {
        let value = SealedValue { owner: "order".to_owned(), id: Uuid::nil(), name: None };
        let next = ResealCursor { key: 1, owner: "order".to_owned(), id: Uuid::nil() };
        let left = vec![value; usize::try_from(left).unwrap()];
        let resealed = seen - u64::try_from(left.len()).unwrap();
        Resealed { key: 2, seen, resealed, left, next: more.then_some(next) }
    }

    #[test]
    fn a_pass_that_finds_only_what_does_not_open_is_the_last() {
        let mut resealing = Resealing::default();
        assert!(!resealing.note(step(10, 1, true)));
        assert!(!resealing.note(step(5, 0, false)), "a look whether that was all");
        assert!(resealing.note(step(1, 1, false)));
        let Rotation { resealed, over, left, named, .. } = resealing.so_far;
        assert_eq!((resealed, over, left, named.len()), (14, true, 1, 1));
    }

    #[test]
    fn what_comes_back_for_ever_is_not_followed_for_ever() {
        let mut resealing = Resealing::default();
        let passes = (1..).find(|_| resealing.note(step(1, 0, false)));
        assert_eq!(passes, Some(PASSES));
        assert!(!resealing.so_far.over && !resealing.so_far.is_complete());
    }

    #[test]
    fn of_very_many_the_first_are_named() {
        let mut resealing = Resealing::default();
        assert!(resealing.note(step(500, 500, false)));
        assert_eq!((resealing.so_far.left, resealing.so_far.named.len()), (500, NAMED));
        assert!(resealing.so_far.told().len() < 1_000);
    }
}
