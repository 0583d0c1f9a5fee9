//! What an engine looks for: as much of each lane as there is room for, from where the last look ended.

use holdfast_store::{Lane, LowWater, Room, WorkBatch};
use tokio::time::Instant;

use crate::lanes::{Lanes, Place};

/// The looks of one engine.
#[derive(Debug)]
pub(crate) struct Looks {
    lanes: Lanes,
    low_water: LowWater<{ Lane::ALL.len() }>,
}

/// What a look gave.
pub(crate) struct Found {
    /// A place for each domain, in their order.
    pub(crate) places: Vec<Place>,
    /// Some lane may have more than could be taken.
    pub(crate) full: bool,
}

impl Looks {
    pub(crate) fn new(concurrency: u32, looks_at_dns: usize) -> Self {
        Self { lanes: Lanes::new(concurrency, looks_at_dns), low_water: LowWater::default() }
    }

    /// What a look of this moment asks for; `hears` is whether our resolver answers.
    pub(crate) fn room(&mut self, at: Instant, hears: bool) -> Room {
        self.lanes.hear(hears);
        Room { since: self.low_water.begin(at), ..self.lanes.room() }
    }

    /// The next look begins at the beginning.
    pub(crate) fn forget(&mut self) {
        self.low_water = LowWater::default();
    }

    pub(crate) fn is_full(&self) -> bool {
        self.lanes.is_full()
    }

    /// A look that began and was answered at these moments asked for `room`, and this was its answer.
    pub(crate) fn found(
        &mut self,
        began: Instant,
        answered: Instant,
        room: &Room,
        batch: &WorkBatch,
    ) -> Found {
        let lanes: Vec<_> = batch.work.iter().map(|one| Lane::of(&one.domain)).collect();
        // By the room that was offered: places that were freed meanwhile were not.
        let used_up = room.is_used_up(&lanes);
        let full = used_up.contains(&true);
        // Of a lane that may hold more, what was due before the last that was taken is taken.
        let mut done = batch.taken_to;
        for (done, used_up) in done.iter_mut().zip(used_up) {
            *done = if used_up { *done } else { Some(batch.now) };
        }
        self.low_water.looked(began, answered, batch.now, done);
        Found { places: lanes.into_iter().map(|lane| self.lanes.take(lane)).collect(), full }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use holdfast_model::State;
    use holdfast_store::Claimed;

    use super::*;
    use crate::samples::{domain, now};

    fn batch(count: usize) -> WorkBatch {
        let claimed = |_| Claimed {
            domain: domain(State::Initial),
            epoch: 1,
            incarnation: None,
            order: None,
        };
        let work: Vec<_> = (0..count).map(claimed).collect();
        let mut taken_to = [None; Lane::ALL.len()];
        if count > 0 {
            taken_to[Lane::New as usize] = Some(now().minus(Duration::from_secs(300)));
        }
        WorkBatch { now: now(), work, next_due_at: None, taken_to }
    }

    /// While a dump runs, a look that began at the beginning each time would become slower by the second.
    #[test]
    fn a_look_begins_where_the_last_one_ended() {
        let (mut looks, at) = (Looks::new(2, 1_024), Instant::now());
        let first = looks.room(at, true);
        assert_eq!(first.since, [None; Lane::ALL.len()]);
        let found = looks.found(at, at, &first, &batch(1));
        assert!(!found.full && found.places.len() == 1);
        let next = looks.room(at + Duration::from_secs(1), true);
        assert!(next.since.iter().all(|since| since.is_some_and(|since| since < now())));
        assert_eq!(next.shared, 1, "one place is taken");
    }

    /// What was left for want of room is looked for again, with the lane's mark before it.
    #[test]
    fn what_was_left_for_want_of_room_is_before_no_mark() {
        let (mut looks, at) = (Looks::new(2, 1_024), Instant::now());
        let first = looks.room(at, true);
        let found = looks.found(at, at, &first, &batch(2));
        assert!(found.full && looks.is_full());
        let left = now().minus(Duration::from_secs(300));
        let since = looks.room(at + Duration::from_secs(1), true).since;
        for lane in Lane::ALL {
            match lane {
                Lane::New => assert!(since[lane as usize].unwrap() < left),
                // There was more room than that for these.
                Lane::Silent | Lane::Look => assert!(since[lane as usize].unwrap() > left),
                _ => assert_eq!(since[lane as usize], None),
            }
        }
        drop(found);
        assert!(!looks.is_full(), "places are given back");
    }
}
