//! How many connections there may be. When few places are left, those who only sit there are asked to go.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

pub(super) struct Seats {
    free: Arc<Semaphore>,
    all: usize,
    crowded: watch::Sender<bool>,
    taken: metrics::Gauge,
}

/// A place, kept while a connection, or a tunnel that came of it, lasts.
pub(super) struct Seat {
    seats: Arc<Seats>,
    _permit: OwnedSemaphorePermit,
}

impl Seats {
    pub(super) fn new(all: usize, port: &'static str) -> Arc<Self> {
        let all = all.clamp(1, 1 << 24);
        Arc::new(Self {
            free: Arc::new(Semaphore::new(all)),
            all,
            crowded: watch::Sender::new(false),
            taken: metrics::gauge!("holdfast_edge_connections", "port" => port),
        })
    }

    /// Waits for a place.
    pub(super) async fn take(self: &Arc<Self>) -> Option<Seat> {
        let permit = self.free.clone().acquire_owned().await.ok()?;
        let seat = Seat { seats: self.clone(), _permit: permit };
        self.taken.increment(1);
        self.update(self.free.available_permits());
        Some(seat)
    }

    /// Waits until every place is free. Nobody must take one meanwhile.
    pub(super) async fn all_free(&self) {
        let all = u32::try_from(self.all).unwrap_or(u32::MAX);
        self.free.acquire_many(all).await.ok();
    }

    /// Crowded from nine tenths on, until a quarter is free again: not on and off with every visitor.
    fn update(&self, free: usize) {
        self.crowded.send_if_modified(|crowded| {
            let before = *crowded;
            *crowded = if before { free * 4 < self.all } else { free * 10 < self.all };
            *crowded != before
        });
    }
}

impl Seat {
    /// Is it crowded?
    pub(super) fn crowded(&self) -> watch::Receiver<bool> {
        self.seats.crowded.subscribe()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.taken.decrement(1);
        // The place itself is given back right after.
        self.seats.update(self.seats.free.available_permits() + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_crowded_before_it_is_full_and_until_there_is_room() {
        let seats = Seats::new(20, "test");
        let mut taken = Vec::new();
        for _ in 0..18 {
            taken.push(seats.take().await.unwrap());
        }
        let crowded = taken[0].crowded();
        assert!(!*crowded.borrow());
        taken.push(seats.take().await.unwrap());
        assert!(*crowded.borrow());
        taken.truncate(16);
        assert!(*crowded.borrow());
        taken.truncate(15);
        assert!(!*crowded.borrow());
    }
}
