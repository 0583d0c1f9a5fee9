//! How many domains are worked on at once, and of which lane. A part of the room is kept for each lane, so that whoever comes is
//! begun at once however slow the work of the other lanes is; the rest goes first to who has least of it.
//!
//! Two lanes have a room of their own, beside that: names whose DNS is silent, which cost time and nothing else, and the looks at
//! what is Active, of which a large installation has some every second of the day.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use holdfast_store::{Lane, Room};

/// Of so many places, one is kept for each lane.
const KEPT: u32 = 16;

/// So many looks at silent names for each place: each waits for seconds, and holds two sockets meanwhile.
const SILENT: u32 = 4;

/// One such look for so many places while our own resolver is silent.
const UNHEARD: u32 = 8;

/// One look at what is Active for so many places.
const LOOKS: u32 = 2;

/// The room of one engine. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Lanes(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// For all lanes that share.
    total: u32,
    /// What is kept for each of them.
    kept: u32,
    /// What the others have.
    silent: u32,
    looks: u32,
    /// Does our resolver answer?
    hears: AtomicBool,
    held: Mutex<[u32; Lane::ALL.len()]>,
}

/// One place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    lanes: Lanes,
    lane: Lane,
}

impl Lanes {
    /// Of a resolver that makes so many looks at once, half is for silent names; the rest is for people who ask.
    pub(crate) fn new(total: u32, looks_at_dns: usize) -> Self {
        let total = total.max(1);
        let at_dns = u32::try_from(looks_at_dns / 2).unwrap_or(u32::MAX).max(1);
        Self(Arc::new(Inner {
            total,
            kept: total / KEPT,
            silent: total.saturating_mul(SILENT).min(at_dns),
            looks: (total / LOOKS).max(1),
            hears: AtomicBool::new(true),
            held: Mutex::default(),
        }))
    }

    /// Whether our resolver answers; without it there is little room for names that are silent.
    pub(crate) fn hear(&self, hears: bool) {
        self.0.hears.store(hears, Ordering::Relaxed);
    }

    /// The room of a lane that shares none with others.
    fn apart(&self, lane: Lane) -> Option<u32> {
        match lane {
            // If our own resolver is silent, so is every name: another replica may know more of them.
            Lane::Silent if !self.0.hears.load(Ordering::Relaxed) => {
                Some((self.0.total / UNHEARD).max(1))
            }
            Lane::Silent => Some(self.0.silent),
            Lane::Look => Some(self.0.looks),
            Lane::Order | Lane::New | Lane::Edge | Lane::Renewal | Lane::Again => None,
        }
    }

    fn held(&self) -> MutexGuard<'_, [u32; Lane::ALL.len()]> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What may be begun. Orders come first, because the CA's patience is short and they are few; then who has least.
    pub(crate) fn room(&self) -> Room {
        let (held, kept) = (*self.held(), self.0.kept);
        let of = |lane: Lane| held.get(lane as usize).copied().unwrap_or_default();
        let sharing = Lane::ALL.into_iter().filter(|lane| self.apart(*lane).is_none());
        let shared =
            sharing.fold(self.0.total, |left, lane| left.saturating_sub(kept.max(of(lane))));
        let own = |lane: Lane| self.apart(lane).unwrap_or(kept).saturating_sub(of(lane));
        let mut lanes = Lane::ALL.map(|lane| (lane, own(lane)));
        lanes.sort_by_key(|(lane, _)| {
            (*lane != Lane::Order, self.apart(*lane).is_some(), of(*lane))
        });
        let apart = Lane::ALL.map(|lane| self.apart(lane).is_some());
        Room { lanes, apart, ..Room::shared(shared) }
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
            let most = if room.apart[lane as usize] { own } else { own + shared };
            let taken = due.get(&lane).copied().unwrap_or_default().min(most);
            shared -= taken.saturating_sub(own);
            places.extend((0..taken).map(|_| lanes.take(lane)));
        }
        places
    }

    #[test]
    fn whoever_comes_is_begun_though_others_flood() {
        for flood in Lane::ALL {
            let lanes = Lanes::new(64, 1_024);
            let _flooded = claim(&lanes, &HashMap::from([(flood, 10_000)]));
            assert_eq!(lanes.is_full(), lanes.apart(flood).is_none());
            for lane in Lane::ALL.into_iter().filter(|lane| *lane != flood) {
                assert_eq!(claim(&lanes, &HashMap::from([(lane, 1)])).len(), 1, "{lane:?}");
            }
        }
    }

    /// What ends makes room for who has less, until both have the same.
    #[test]
    fn of_two_floods_neither_gets_all() {
        let lanes = Lanes::new(64, 1_024);
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
        let lanes = Lanes::new(1, 1_024);
        assert_eq!(lanes.room().shared, 1);
        let place = lanes.take(Lane::Again);
        assert_eq!(lanes.room().shared, 0);
        drop(place);
        assert_eq!(lanes.room().shared, 1);
    }

    /// However little room there is, these take none of what the others share, and leave none of their own to them.
    #[test]
    fn silent_names_and_looks_have_a_room_of_their_own() {
        for (total, looks_at_dns, silent, looks) in
            [(1, 1_024, 4, 1), (64, 1_024, 256, 32), (64, 64, 32, 32), (1, 1, 1, 1)]
        {
            let lanes = Lanes::new(total, looks_at_dns);
            let before = lanes.room().shared;
            let due = HashMap::from([(Lane::Silent, 10_000), (Lane::Look, 10_000)]);
            let places = claim(&lanes, &due);
            let of = |lane| places.iter().filter(|place| place.lane == lane).count();
            assert_eq!((of(Lane::Silent), of(Lane::Look)), (silent, looks));
            assert_eq!(lanes.room().shared, before);
            assert!(claim(&lanes, &due).is_empty());
            lanes.hear(false);
            let silent = lanes.room().lanes.into_iter().find(|(lane, _)| *lane == Lane::Silent);
            assert_eq!(silent.unwrap().1, 0);
            let crowd = HashMap::from([(Lane::New, 10_000)]);
            assert!(claim(&lanes, &crowd).len() <= total as usize);
            drop(places);
            let few = claim(&lanes, &HashMap::from([(Lane::Silent, 10_000)])).len();
            assert_eq!(few, (total as usize / 8).max(1));
        }
    }

    proptest! {
        /// However it is taken and given back, never more is under way than there is room for, and all room can be had.
        #[test]
        fn never_more_than_there_is_room_for(
            total in 1_u32..100,
            steps in prop::collection::vec((prop::array::uniform7(0_u32..40), 0_usize..30), 1..30),
        ) {
            let (lanes, mut places) = (Lanes::new(total, 1_024), Vec::new());
            let all = lanes.room().total();
            for (due, ended) in steps {
                let due: HashMap<_, _> = Lane::ALL.into_iter().zip(due).collect();
                places.extend(claim(&lanes, &due));
                let sharing = |place: &&Place| lanes.apart(place.lane).is_none();
                prop_assert!(places.iter().filter(sharing).count() <= total as usize);
                places.drain(..ended.min(places.len()));
            }
            places.clear();
            prop_assert_eq!(lanes.room().total(), all);
        }
    }
}
