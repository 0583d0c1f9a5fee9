//! How many domains are worked on at once, and of which lane. A part of the room is kept for each lane, so that whoever comes is
//! begun at once however slow the work of the other lanes is; the rest goes first to who has least of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdfast_store::{Lane, Room};

/// Of so many places, one is kept for each lane.
const KEPT: u32 = 16;

/// The room of one engine. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Lanes(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    total: u32,
    /// What is kept for each lane.
    kept: u32,
    held: Mutex<[u32; Lane::ALL.len()]>,
}

/// One place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    lanes: Lanes,
    lane: Lane,
}

impl Lanes {
    pub(crate) fn new(total: u32) -> Self {
        let total = total.max(1);
        Self(Arc::new(Inner { total, kept: total / KEPT, held: Mutex::default() }))
    }

    fn held(&self) -> MutexGuard<'_, [u32; Lane::ALL.len()]> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What may be begun. Orders come first, because the CA's patience is short and they are few; then who has least.
    pub(crate) fn room(&self) -> Room {
        let (held, kept) = (*self.held(), self.0.kept);
        let shared =
            held.iter().fold(self.0.total, |left, held| left.saturating_sub(kept.max(*held)));
        let of = |lane: &Lane| held.get(*lane as usize).copied().unwrap_or_default();
        let mut lanes = Lane::ALL.map(|lane| (lane, kept.saturating_sub(of(&lane))));
        lanes.sort_by_key(|(lane, _)| (*lane != Lane::Order, of(lane)));
        Room { lanes, ..Room::shared(shared) }
    }

    /// Is there none but what is kept?
    pub(crate) fn is_full(&self) -> bool {
        self.room().shared == 0
    }

    /// Takes a place in what [`Self::room`] offered.
    pub(crate) fn take(&self, lane: Lane) -> Place {
        if let Some(held) = self.held().get_mut(lane as usize) {
            *held += 1;
        }
        Place { lanes: self.clone(), lane }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(held) = self.lanes.held().get_mut(self.lane as usize) {
            *held = held.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// Takes as a store with so many due in each lane would give, and gives how many of each.
    fn claim(lanes: &Lanes, due: &HashMap<Lane, u32>) -> Vec<Place> {
        let (room, mut places) = (lanes.room(), Vec::new());
        let mut shared = room.shared;
        for (lane, own) in room.lanes {
            let taken = due.get(&lane).copied().unwrap_or_default().min(own + shared);
            shared -= taken.saturating_sub(own);
            places.extend((0..taken).map(|_| lanes.take(lane)));
        }
        places
    }

    #[test]
    fn whoever_comes_is_begun_though_others_flood() {
        for flood in Lane::ALL {
            let lanes = Lanes::new(64);
            let _flooded = claim(&lanes, &HashMap::from([(flood, 10_000)]));
            assert!(lanes.is_full());
            for lane in Lane::ALL.into_iter().filter(|lane| *lane != flood) {
                assert_eq!(claim(&lanes, &HashMap::from([(lane, 1)])).len(), 1, "{lane:?}");
            }
        }
    }

    /// What ends makes room for who has less, until both have the same.
    #[test]
    fn of_two_floods_neither_gets_all() {
        let lanes = Lanes::new(64);
        let due = HashMap::from([(Lane::New, 10_000), (Lane::Renewal, 10_000)]);
        let mut places = claim(&lanes, &due);
        for _ in 0..200 {
            places.remove(0);
            places.extend(claim(&lanes, &due));
        }
        let renewing = places.iter().filter(|place| place.lane == Lane::Renewal).count();
        let new = places.len() - renewing;
        assert!(renewing.abs_diff(new) <= 1, "{renewing} and {new}");
    }

    #[test]
    fn little_room_is_shared_by_all() {
        let lanes = Lanes::new(1);
        assert_eq!((lanes.room().shared, lanes.room().total()), (1, 1));
        let place = lanes.take(Lane::Again);
        assert_eq!(lanes.room().total(), 0);
        drop(place);
        assert_eq!(lanes.room().total(), 1);
    }

    proptest! {
        /// However it is taken and given back, never more is under way than there is room for, and all room can be had.
        #[test]
        fn never_more_than_there_is_room_for(
            total in 1_u32..100,
            steps in prop::collection::vec((prop::array::uniform5(0_u32..40), 0_usize..30), 1..30),
        ) {
            let (lanes, mut places) = (Lanes::new(total), Vec::new());
            for (due, ended) in steps {
                let due: HashMap<_, _> = Lane::ALL.into_iter().zip(due).collect();
                places.extend(claim(&lanes, &due));
                prop_assert!(places.len() <= total as usize);
                places.drain(..ended.min(places.len()));
            }
            places.clear();
            prop_assert_eq!(lanes.room().total(), total);
        }
    }
}
