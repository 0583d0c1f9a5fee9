//! The newest part of the log, in memory, and how a stream that reads the store joins it: pure.
//!
//! A ring holds every event after its `floor` and up to its `head`. A stream whose place lies before the floor reads the store until
//! it is at or beyond it; from then on the ring has all that comes after its place, so nothing is missed and nothing told twice.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::response::sse::Event as Sse;
use holdfast_model::DomainId;
use holdfast_store::{Event, EventBody, EventCursor};

use crate::view::EventView;

/// One event, rendered once for all streams.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) cursor: EventCursor,
    domain: Option<DomainId>,
    name: &'static str,
    data: Option<String>,
}

impl Told {
    /// Does a stream want it that follows one domain, or all?
    pub(super) fn concerns(&self, only: Option<DomainId>) -> bool {
        only.is_none() || only == self.domain
    }

    /// As a client gets it.
    pub(super) fn shown(&self) -> Sse {
        let place = place(self.cursor);
        match &self.data {
            Some(data) => place.event(self.name).data(data),
            None => place,
        }
    }
}

impl From<Event> for Told {
    fn from(event: Event) -> Self {
        let cursor = event.cursor;
        let domain = match &event.body {
            EventBody::Transition { domain, .. } => Some(*domain),
            EventBody::Notice { .. } => None,
        };
        let view = EventView::from(event);
        // A view of strings and numbers always serializes.
        Self { cursor, domain, name: view.name(), data: serde_json::to_string(&view).ok() }
    }
}

/// A place without data, which moves a client on.
pub(super) fn place(cursor: EventCursor) -> Sse {
    Sse::default().id(cursor.to_string())
}

/// What a stream does next.
#[derive(Debug)]
pub(super) enum Next {
    /// These come after its place.
    Take(Vec<Arc<Told>>),
    /// The ring begins later: the store is read. Once it was asked, everything up to `covered` is either in its answer or gone.
    Read { covered: EventCursor },
    /// There is nothing newer.
    Wait,
}

/// The newest events.
#[derive(Debug)]
pub(super) struct Ring {
    events: VecDeque<Arc<Told>>,
    floor: EventCursor,
    head: EventCursor,
    capacity: usize,
}

impl Ring {
    /// One that begins after a place.
    pub(super) fn new(after: EventCursor, capacity: usize) -> Self {
        Self { events: VecDeque::new(), floor: after, head: after, capacity }
    }

    /// Up to where everything was read.
    pub(super) fn head(&self) -> EventCursor {
        self.head
    }

    /// Appends what the store had after the head; the oldest give way.
    pub(super) fn push(&mut self, page: Vec<Arc<Told>>) {
        for told in page {
            if told.cursor <= self.head {
                continue;
            }
            self.head = told.cursor;
            self.events.push_back(told);
            if self.events.len() > self.capacity
                && let Some(oldest) = self.events.pop_front()
            {
                self.floor = oldest.cursor;
            }
        }
    }

    /// What a stream does that was told everything up to `place`.
    pub(super) fn next(&self, place: EventCursor, limit: usize) -> Next {
        if place < self.floor {
            return Next::Read { covered: self.head };
        }
        let seen = self.events.partition_point(|told| told.cursor <= place);
        let newer: Vec<_> = self.events.iter().skip(seen).take(limit).cloned().collect();
        if newer.is_empty() { Next::Wait } else { Next::Take(newer) }
    }
}

/// Where a stream stands whose question to the store was answered with nothing: retention removed what lay between.
pub(super) fn passed(place: EventCursor, covered: EventCursor) -> EventCursor {
    place.max(covered)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAGE: usize = 3;

    fn told(id: i64) -> Arc<Told> {
        let cursor = EventCursor { xid: 0, id };
        Arc::new(Told { cursor, domain: None, name: "notice", data: None })
    }

    /// A store that grows at its end and is cut at its beginning.
    #[derive(Default)]
    struct Log {
        from: i64,
        to: i64,
    }

    impl Log {
        fn after(&self, place: EventCursor) -> Vec<Arc<Told>> {
            let first = place.id.max(self.from) + 1;
            (first..=self.to).take(PAGE).map(told).collect()
        }
    }

    /// A stream between a question and its answer, or at rest.
    struct Reader {
        place: EventCursor,
        asked: Option<(EventCursor, Vec<Arc<Told>>)>,
        seen: Vec<i64>,
    }

    impl Reader {
        fn take(&mut self, page: &[Arc<Told>]) {
            for told in page {
                self.place = told.cursor;
                self.seen.push(told.cursor.id);
            }
        }

        /// Half a step: asks the store, or takes what it answered.
        fn step(&mut self, ring: &Ring, log: &Log) {
            if let Some((covered, page)) = self.asked.take() {
                if page.is_empty() {
                    self.place = passed(self.place, covered);
                }
                return self.take(&page);
            }
            match ring.next(self.place, PAGE) {
                Next::Take(page) => self.take(&page),
                Next::Read { covered } => self.asked = Some((covered, log.after(self.place))),
                Next::Wait => {}
            }
        }
    }

    #[derive(Debug, Clone)]
    enum Step {
        Append(i64),
        TailReads,
        Stream(usize),
        /// Retention removes events, never the newest ones.
        Prune(i64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            3 => (1..6i64).prop_map(Step::Append),
            4 => Just(Step::TailReads),
            8 => (0..3usize).prop_map(Step::Stream),
            1 => (0..8i64).prop_map(Step::Prune),
        ];
        prop::collection::vec(step, 1..200)
    }

    proptest! {
        #[test]
        fn a_stream_misses_nothing_and_sees_nothing_twice(
            steps in steps(), began in 0..20i64, capacity in 1..8usize, places in prop::array::uniform3(0..20i64),
        ) {
            let mut log = Log { from: 0, to: began };
            let mut ring = Ring::new(EventCursor { xid: 0, id: began }, capacity);
            let mut readers = places.map(|place| Reader {
                place: EventCursor { xid: 0, id: place.min(began) }, asked: None, seen: Vec::new(),
            });
            let mut pruned = 0;
            for step in steps {
                match step {
                    Step::Append(count) => log.to += count,
                    Step::TailReads => ring.push(log.after(ring.head())),
                    Step::Stream(which) => readers[which].step(&ring, &log),
                    Step::Prune(keep) => {
                        // The tail is never so far behind: events are kept for days.
                        log.from = log.from.max((log.to - keep).min(ring.head().id));
                        pruned = log.from;
                    }
                }
            }
            while ring.head().id < log.to {
                ring.push(log.after(ring.head()));
            }
            for (reader, place) in readers.iter_mut().zip(places) {
                for _ in 0..2_000 {
                    reader.step(&ring, &log);
                }
                prop_assert!(reader.seen.windows(2).all(|pair| pair[0] < pair[1]), "twice, or out of order");
                let from = place.min(began).max(pruned);
                let expected: Vec<_> = (from + 1..=log.to).collect();
                let seen: Vec<_> = reader.seen.iter().copied().filter(|id| *id > from).collect();
                prop_assert_eq!(seen, expected, "what was there at all times was told");
                prop_assert_eq!(reader.place.id.max(began), log.to.max(began));
            }
        }
    }
}
