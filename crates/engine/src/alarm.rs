//! When to look again: at the time known, at the latest after a poll, and at once when somebody says that there is work. Being told is a
//! hint that must not be lost, whatever else ends the rest in the same moment.

use std::time::Duration;

use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// How long a forgotten wake-up can go unnoticed.
const POLL: Duration = Duration::from_secs(5);

/// What ends a rest beside the time.
pub(crate) struct Reasons<'a> {
    /// It is over.
    pub(crate) stopping: &'a CancellationToken,
    /// A domain joined the queue for orders, or an order ended.
    pub(crate) queue_moved: &'a Notify,
    /// A task ended: there is room.
    pub(crate) room: &'a Notify,
    /// Is there none at this moment?
    pub(crate) full: bool,
}

/// When to look for due domains, and when at the queue for orders.
pub(crate) struct Alarm {
    wake: watch::Receiver<u64>,
    claim_at: Instant,
    admit_at: Instant,
    /// Did a look find no room?
    starved: bool,
}

impl Alarm {
    /// Rings at once.
    pub(crate) fn new(wake: watch::Receiver<u64>) -> Self {
        let now = Instant::now();
        Self { wake, claim_at: now, admit_at: now, starved: false }
    }

    /// Before the queries, so that what comes during them ends the next rest. It may also have come while something else ended the
    /// rest before: then it is seen here or nowhere.
    pub(crate) fn notice(&mut self) {
        if self.wake.borrow_and_update().has_changed() {
            self.look_both_at(Instant::now());
        }
    }

    pub(crate) fn is_time_to_claim(&self) -> bool {
        Instant::now() >= self.claim_at
    }

    pub(crate) fn is_time_to_admit(&self) -> bool {
        Instant::now() >= self.admit_at
    }

    /// Looked for due domains; the next is due then, if that is known.
    pub(crate) fn claimed(&mut self, next_due: Option<Instant>) {
        self.claim_at = sooner(next_due);
    }

    /// Looked at the queue; time opens it then, if it is closed. A person may open it sooner, and a renewal may join it that is not
    /// bound by the budget: so a closed queue is looked at like any other, which costs one read.
    pub(crate) fn admitted(&mut self, opens_at: Option<Instant>) {
        self.admit_at = sooner(opens_at);
    }

    /// A look found no room: the end of any task is a reason to look again, also one between here and the rest.
    pub(crate) fn no_room(&mut self) {
        self.starved = true;
    }

    pub(crate) fn is_starved(&self) -> bool {
        self.starved
    }

    pub(crate) fn look_both_at(&mut self, at: Instant) {
        self.starved = false;
        self.claim_at = at;
        self.admit_at = at;
    }

    /// Until it is time, or something happened.
    pub(crate) async fn rest(&mut self, reasons: Reasons<'_>) {
        let starved = self.starved || reasons.full;
        let now = Instant::now;
        tokio::select! {
            () = reasons.stopping.cancelled() => {}
            () = tokio::time::sleep_until(self.claim_at.min(self.admit_at)) => {}
            _ = self.wake.changed() => self.look_both_at(now()),
            () = reasons.queue_moved.notified() => self.admit_at = now(),
            () = reasons.room.notified(), if starved => self.look_both_at(now()),
        }
    }
}

/// At the time known, or at the next poll.
fn sooner(known: Option<Instant>) -> Instant {
    let poll = Instant::now() + POLL;
    known.map_or(poll, |at| at.min(poll))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bells {
        stopping: CancellationToken,
        queue_moved: Notify,
        room: Notify,
    }

    impl Bells {
        fn new() -> Self {
            Self {
                stopping: CancellationToken::new(),
                queue_moved: Notify::new(),
                room: Notify::new(),
            }
        }

        fn reasons(&self, full: bool) -> Reasons<'_> {
            let Self { stopping, queue_moved, room } = self;
            Reasons { stopping, queue_moved, room, full }
        }
    }

    /// Of two reasons in one moment, chance decides which ends the rest: neither may be lost to the other.
    #[tokio::test(start_paused = true)]
    async fn a_wake_is_not_lost_to_a_queue_that_moved() {
        for _ in 0..100 {
            let (bell, wake) = watch::channel(0_u64);
            let (bells, mut alarm) = (Bells::new(), Alarm::new(wake));
            alarm.claimed(None);
            alarm.admitted(None);
            alarm.notice();
            bells.queue_moved.notify_one();
            bell.send_modify(|count| *count += 1);
            alarm.rest(bells.reasons(false)).await;
            alarm.notice();
            assert!(alarm.is_time_to_claim() && alarm.is_time_to_admit());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_during_the_queries_ends_the_rest() {
        let (bell, wake) = watch::channel(0_u64);
        let (bells, mut alarm) = (Bells::new(), Alarm::new(wake));
        alarm.notice();
        bell.send_modify(|count| *count += 1);
        alarm.claimed(None);
        alarm.admitted(None);
        let begun = Instant::now();
        alarm.rest(bells.reasons(false)).await;
        assert_eq!(Instant::now(), begun, "it slept over it");
        assert!(alarm.is_time_to_claim());
    }

    #[tokio::test(start_paused = true)]
    async fn room_that_came_before_the_rest_is_noticed() {
        let (_bell, wake) = watch::channel(0_u64);
        let (bells, mut alarm) = (Bells::new(), Alarm::new(wake));
        alarm.no_room();
        alarm.claimed(None);
        alarm.admitted(None);
        // The last task ends after the look and before the rest: by then nothing is full any more.
        bells.room.notify_one();
        let begun = Instant::now();
        alarm.rest(bells.reasons(false)).await;
        assert_eq!(Instant::now(), begun, "it slept over it");
        assert!(alarm.is_time_to_claim() && !alarm.is_starved());
    }

    /// The store's row is the truth: what was lifted there is noticed at the wake-up, and at the poll without one.
    #[tokio::test(start_paused = true)]
    async fn a_queue_that_is_closed_is_looked_at_when_told_and_polled() {
        let (bell, wake) = watch::channel(0_u64);
        let (bells, mut alarm) = (Bells::new(), Alarm::new(wake));
        let closed = || Some(Instant::now() + Duration::from_secs(3_600));
        alarm.claimed(None);
        alarm.admitted(closed());
        bell.send_modify(|count| *count += 1);
        let begun = Instant::now();
        alarm.rest(bells.reasons(false)).await;
        assert!(alarm.is_time_to_claim() && alarm.is_time_to_admit());
        assert_eq!(Instant::now(), begun);
        alarm.notice();
        alarm.claimed(closed());
        alarm.admitted(closed());
        alarm.rest(bells.reasons(false)).await;
        assert!(alarm.is_time_to_admit());
        assert_eq!(begun.elapsed(), POLL);
    }
}
