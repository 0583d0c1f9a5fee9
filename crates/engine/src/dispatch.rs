//! The engine itself: claims due domains and admits queued ones, each up to its bound, and sleeps until
//! the next is due or somebody says that there is work. Polling is only the safety net.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use holdfast_acme::Ca;
use holdfast_cluster::{Cluster, StoreClock};
use holdfast_dns::Resolver;
use holdfast_model::{DomainId, Timestamp};
use holdfast_store::{Claimed, Error, Outage, Secret, SharedStore, Topic};
use tokio::{
    sync::{Notify, Semaphore},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    EngineConfig,
    account::WayToCa,
    alarm::{Alarm, Reasons},
    drive::drive,
    elsewhere::Elsewhere,
    hold::Holds,
    looks::Looks,
    pulse::Pulse,
};

/// How long a store that fails is left alone.
const STORE_PAUSE: Duration = Duration::from_millis(500);
/// How long one is left alone that is damaged: only a person mends that.
const DAMAGED_PAUSE: Duration = Duration::from_secs(30);
/// How long work under way may take to reach its next commit at shutdown.
const WIND_DOWN: Duration = Duration::from_secs(8);

/// What every task of one engine shares.
pub(crate) struct Shared {
    pub(crate) store: SharedStore,
    pub(crate) resolver: Resolver,
    pub(crate) ca: Ca,
    pub(crate) config: EngineConfig,
    pub(crate) cluster: Cluster,
    pub(crate) clock: StoreClock,
    pub(crate) secret: Secret,
    pub(crate) holds: Holds,
    pub(crate) way: WayToCa,
    pub(crate) elsewhere: Elsewhere,
    pub(crate) stopping: CancellationToken,
    /// A domain joined the queue for orders, or an order ended.
    pub(crate) queue_moved: Notify,
    /// A task ended: there is room.
    pub(crate) room: Notify,
    pub(crate) pulse: Pulse,
    /// For those that gave their place away and come back to commit.
    pub(crate) back: Semaphore,
}

/// The place that work on a domain takes.
pub(crate) trait Spot: Sync {
    /// Gives it to another: what comes next costs only time, and is bounded elsewhere.
    fn leave(&self);

    /// Was it given away?
    fn is_left(&self) -> bool;
}

/// Moves domains, until told to stop.
pub struct Engine {
    store: SharedStore,
    resolver: Resolver,
    ca: Ca,
    config: EngineConfig,
    cluster: Cluster,
    pulse: Pulse,
}

impl Engine {
    /// Puts the parts together; nothing runs yet.
    #[must_use]
    pub fn new(store: SharedStore, resolver: Resolver, ca: Ca, config: EngineConfig) -> Self {
        let cluster = Cluster::alone(&config.claimant.instance);
        Self { store, resolver, ca, config, cluster, pulse: Pulse::default() }
    }

    /// One of several on the same store: what only one should do at a time is done under this cluster's leases.
    #[must_use]
    pub fn among(self, cluster: Cluster) -> Self {
        Self { cluster, ..self }
    }

    /// Whether it goes on, for whoever looks after it.
    #[must_use]
    pub fn pulse(&self) -> Pulse {
        self.pulse.clone()
    }

    /// Works until `stopping`, then lets what is under way reach its next commit and gives the rest back.
    pub async fn run(self, stopping: CancellationToken) {
        let clock = self.cluster.clock().clone();
        let Some(secret) = self.first_contact(&clock, &stopping).await else { return };
        let at_once = usize::try_from(self.config.concurrency).unwrap_or(Semaphore::MAX_PERMITS);
        let shared = Arc::new(Shared {
            back: Semaphore::new(at_once.clamp(1, Semaphore::MAX_PERMITS)),
            store: self.store,
            resolver: self.resolver,
            ca: self.ca,
            config: self.config,
            cluster: self.cluster,
            clock,
            secret,
            holds: Holds::default(),
            way: WayToCa::default(),
            elsewhere: Elsewhere::default(),
            stopping,
            queue_moved: Notify::new(),
            room: Notify::new(),
            pulse: self.pulse,
        });
        let keeper = tokio::spawn(keep_claims(shared.clone()));
        let tasks = Dispatcher::new(&shared).run().await;
        wind_down(&shared, &tasks).await;
        keeper.abort();
    }

    /// The store's clock and the secret behind our proofs, once it is known where we order; waits for a store that is not there yet.
    async fn first_contact(
        &self,
        clock: &StoreClock,
        stopping: &CancellationToken,
    ) -> Option<Secret> {
        let (store, who) = (&self.store, &self.config.claimant);
        loop {
            let contact = async {
                let asked = clock.ask();
                clock.answered(asked, store.ping().await?);
                // Others leave our orders alone from now on.
                store.serve_directory(&who.instance, who.incarnation, self.ca.directory()).await?;
                store.cluster_secret().await
            };
            match contact.await {
                Ok(secret) => return Some(secret),
                Err(error) => tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "the store does not answer"
                ),
            }
            tokio::select! {
                () = stopping.cancelled() => return None,
                () = tokio::time::sleep(STORE_PAUSE) => {}
            }
        }
    }
}

async fn keep_claims(shared: Arc<Shared>) {
    let (who, hold) = (&shared.config.claimant, shared.config.claim);
    shared.holds.renew_for_ever(&shared.store, who, hold).await;
}

async fn wind_down(shared: &Shared, tasks: &TaskTracker) {
    tasks.close();
    if tokio::time::timeout(WIND_DOWN, tasks.wait()).await.is_err() {
        tracing::warn!("some work did not reach a commit in time; another replica goes on with it");
    }
    let left = shared.holds.all();
    if let Err(error) = shared.store.unclaim(&shared.config.claimant, &left).await {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "claims were not given back; they lapse"
        );
    }
}

/// Says what failed, and how long to leave the store alone.
fn pause_after(error: &Error) -> Duration {
    let cause = error as &dyn std::error::Error;
    if error.outage().is_none_or(Outage::is_transient) {
        tracing::warn!(error = cause, "no work could be claimed");
        return STORE_PAUSE;
    }
    tracing::error!(error = cause, "no work can be claimed until somebody acts");
    DAMAGED_PAUSE
}

struct Dispatcher<'a> {
    shared: &'a Arc<Shared>,
    tasks: TaskTracker,
    looks: Looks,
    order_room: Arc<Semaphore>,
    alarm: Alarm,
}

impl<'a> Dispatcher<'a> {
    fn new(shared: &'a Arc<Shared>) -> Self {
        // Twice what may be open at the CA: a certificate that is being deployed has no order any more.
        let orders = shared.ca.limits().in_flight.max(1).saturating_mul(2);
        let orders = usize::try_from(orders).unwrap_or(Semaphore::MAX_PERMITS);
        Self {
            shared,
            tasks: TaskTracker::new(),
            looks: Looks::new(shared.config.concurrency, shared.resolver.room()),
            order_room: Arc::new(Semaphore::new(orders.min(Semaphore::MAX_PERMITS))),
            alarm: Alarm::new(shared.store.wake(Topic::Work)),
        }
    }

    async fn run(mut self) -> TaskTracker {
        while !self.shared.stopping.is_cancelled() {
            self.alarm.notice();
            match self.round().await {
                Ok(()) => self.rest().await,
                Err(error) => self.pause(pause_after(&error)).await,
            }
        }
        self.tasks
    }

    /// Looks where it is time to look, and sets when to look there next.
    async fn round(&mut self) -> Result<(), Error> {
        if self.alarm.is_time_to_claim() {
            let next_due = self.claim().await?;
            self.alarm.claimed(next_due);
        }
        if self.alarm.is_time_to_admit() {
            let opens_at = self.admit().await?;
            self.alarm.admitted(opens_at);
        }
        self.shared.pulse.round(self.alarm.is_starved());
        Ok(())
    }

    /// Leaves the store alone for a while, whoever rings meanwhile.
    async fn pause(&mut self, pause: Duration) {
        self.alarm.look_both_at(Instant::now() + pause);
        tokio::select! {
            () = self.shared.stopping.cancelled() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }

    async fn rest(&mut self) {
        let reasons = Reasons {
            stopping: &self.shared.stopping,
            queue_moved: &self.shared.queue_moved,
            room: &self.shared.room,
            full: self.looks.is_full() || self.order_room.available_permits() == 0,
        };
        self.alarm.rest(reasons).await;
    }

    /// Gives when the next domain is due, if the store knows.
    async fn claim(&mut self) -> Result<Option<Instant>, Error> {
        if self.shared.elsewhere.look(self.shared).await? {
            // What was left to others may lie below the marks.
            self.looks.forget();
        }
        let (began, mut next_due_at) = (Instant::now(), None);
        let room = self.looks.room(began, self.shared.resolver.is_heard_of());
        let mut full = room.shared == 0;
        if room.total() > 0 {
            let elsewhere = self.shared.elsewhere.served();
            let (who, hold) = (&self.shared.config.claimant, self.shared.config.claim);
            let until = began + hold;
            let asked = self.shared.clock.ask();
            let batch = self.shared.store.claim_lanes_but(who, &room, hold, &elsewhere).await?;
            self.shared.clock.answered(asked, batch.now);
            let found = self.looks.found(began, Instant::now(), &room, &batch);
            full = found.full;
            for (claimed, place) in batch.work.into_iter().zip(found.places) {
                self.start(claimed, until, place);
            }
            next_due_at = batch.next_due_at;
        }
        if full {
            self.alarm.no_room();
        }
        Ok(next_due_at.map(|at| self.instant(at)))
    }

    /// Gives when time opens the queue again, if it is closed.
    async fn admit(&mut self) -> Result<Option<Instant>, Error> {
        let room = u32::try_from(self.order_room.available_permits()).unwrap_or(u32::MAX);
        if room == 0 {
            self.alarm.no_room();
            return Ok(None);
        }
        let account = match self.shared.way.account(self.shared).await {
            Ok(account) => account,
            Err(again_at) => return Ok(again_at),
        };
        let (who, hold) = (&self.shared.config.claimant, self.shared.config.claim);
        let until = Instant::now() + hold;
        let asked = self.shared.clock.ask();
        let admission =
            self.shared.store.admit(who, account, self.shared.ca.limits(), room, hold).await?;
        self.shared.clock.answered(asked, admission.now);
        for claimed in admission.work {
            let Ok(place) = self.order_room.clone().try_acquire_owned() else {
                tracing::error!(domain = %claimed.domain.id, "claimed more than there is room for");
                break;
            };
            self.start(claimed, until, place);
        }
        Ok(admission.ask_again_at.map(|at| self.instant(at)))
    }

    fn instant(&self, at: Timestamp) -> Instant {
        Instant::now() + self.shared.clock.until(at)
    }

    /// Begins work on a domain, which is ours `until` then; `place` is the room it takes.
    fn start<P: Send + 'static>(&self, claimed: Claimed, until: Instant, place: P) {
        let shared = self.shared.clone();
        self.tasks.spawn(async move {
            // Held by a guard, so that also a panic lets go of it and the claim lapses.
            let held = Held {
                shared: &shared,
                id: claimed.domain.id,
                epoch: claimed.epoch,
                place: Mutex::new(Some(place)),
            };
            let claim = (held.id, held.epoch);
            shared.holds.work(claim, until, drive(&shared, claimed, &held)).await;
        });
    }
}

/// A claim that is being worked on, and the room it takes.
struct Held<'a, P> {
    shared: &'a Shared,
    id: DomainId,
    epoch: i64,
    place: Mutex<Option<P>>,
}

impl<P> Held<'_, P> {
    fn place(&self) -> MutexGuard<'_, Option<P>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P: Send> Spot for Held<'_, P> {
    fn leave(&self) {
        let place = self.place().take();
        if place.is_some() {
            // There is room before anybody is told so.
            drop(place);
            self.shared.room.notify_one();
        }
    }

    fn is_left(&self) -> bool {
        self.place().is_none()
    }
}

impl<P> Drop for Held<'_, P> {
    fn drop(&mut self) {
        self.shared.holds.drop(self.id, self.epoch);
        // There is room before anybody is told so.
        drop(self.place().take());
        self.shared.pulse.ended();
        self.shared.room.notify_one();
    }
}
