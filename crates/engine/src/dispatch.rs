//! The engine itself: claims due domains and admits queued ones, each up to its bound, and sleeps until
//! the next is due or somebody says that there is work. Polling is only the safety net.

use std::{sync::Arc, time::Duration};

use holdfast_acme::Ca;
use holdfast_dns::Resolver;
use holdfast_model::Timestamp;
use holdfast_store::{Claimed, Error, Secret, SharedStore, Topic};
use tokio::{
    sync::{Notify, Semaphore, watch},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    EngineConfig, account::AccountDesk, chores, clock::StoreClock, drive::drive, hold::Holds,
};

/// How long a forgotten wake-up can go unnoticed.
const POLL: Duration = Duration::from_secs(5);
/// How long a store that fails is left alone.
const STORE_PAUSE: Duration = Duration::from_millis(500);
/// How long work under way may take to reach its next commit at shutdown.
const WIND_DOWN: Duration = Duration::from_secs(8);

/// What every task of one engine shares.
pub(crate) struct Shared {
    pub(crate) store: SharedStore,
    pub(crate) resolver: Resolver,
    pub(crate) ca: Ca,
    pub(crate) config: EngineConfig,
    pub(crate) clock: StoreClock,
    pub(crate) secret: Secret,
    pub(crate) holds: Holds,
    pub(crate) stopping: CancellationToken,
    /// A domain joined the queue for orders, or an order ended.
    pub(crate) queue_moved: Notify,
    /// A task ended: there is room.
    pub(crate) room: Notify,
}

/// Moves domains, until told to stop.
pub struct Engine {
    store: SharedStore,
    resolver: Resolver,
    ca: Ca,
    config: EngineConfig,
}

impl Engine {
    /// Puts the parts together; nothing runs yet.
    #[must_use]
    pub const fn new(store: SharedStore, resolver: Resolver, ca: Ca, config: EngineConfig) -> Self {
        Self { store, resolver, ca, config }
    }

    /// Works until `stopping`, then lets what is under way reach its next commit and gives the rest back.
    pub async fn run(self, stopping: CancellationToken) {
        let Some((now, secret)) = first_contact(&self.store, &stopping).await else { return };
        let shared = Arc::new(Shared {
            store: self.store,
            resolver: self.resolver,
            ca: self.ca,
            config: self.config,
            clock: StoreClock::new(now),
            secret,
            holds: Holds::default(),
            stopping,
            queue_moved: Notify::new(),
            room: Notify::new(),
        });
        let keeper = tokio::spawn(keep_claims(shared.clone()));
        let chores = tokio::spawn(chores::run(shared.clone()));
        let tasks = Dispatcher::new(&shared).run().await;
        wind_down(&shared, &tasks).await;
        keeper.abort();
        chores.abort();
    }
}

async fn keep_claims(shared: Arc<Shared>) {
    let (who, hold) = (&shared.config.claimant, shared.config.claim);
    shared.holds.renew_for_ever(&shared.store, who, hold).await;
}

/// The store's clock and the secret behind our proofs; waits for a store that is not there yet.
async fn first_contact(
    store: &SharedStore,
    stopping: &CancellationToken,
) -> Option<(Timestamp, Secret)> {
    loop {
        let contact =
            async { Ok::<_, Error>((store.ping().await?, store.cluster_secret().await?)) };
        match contact.await {
            Ok(contact) => return Some(contact),
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

struct Dispatcher<'a> {
    shared: &'a Arc<Shared>,
    tasks: TaskTracker,
    due_room: Arc<Semaphore>,
    order_room: Arc<Semaphore>,
    desk: AccountDesk,
    wake: watch::Receiver<u64>,
    /// When the queue is worth asking again, if only time can open it.
    ask_at: Option<Instant>,
}

impl<'a> Dispatcher<'a> {
    fn new(shared: &'a Arc<Shared>) -> Self {
        let room = |n: u32| Arc::new(Semaphore::new(usize::try_from(n.max(1)).unwrap_or(1)));
        Self {
            shared,
            tasks: TaskTracker::new(),
            due_room: room(shared.config.concurrency),
            order_room: room(shared.ca.limits().in_flight),
            desk: AccountDesk::default(),
            wake: shared.store.wake(Topic::Work),
            ask_at: None,
        }
    }

    async fn run(mut self) -> TaskTracker {
        while !self.shared.stopping.is_cancelled() {
            // Seen before the queries, so that what comes during them wakes us again.
            self.wake.borrow_and_update();
            let next = match self.round().await {
                Ok(next) => next,
                Err(error) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "no work could be claimed"
                    );
                    Instant::now() + STORE_PAUSE
                }
            };
            self.rest_until(next).await;
        }
        self.tasks
    }

    /// Claims what is due and admits what may order; gives when to look again.
    async fn round(&mut self) -> Result<Instant, Error> {
        let poll = Instant::now() + POLL;
        let due = self.claim().await?;
        let ask = self.admit().await?;
        Ok([due, ask].into_iter().flatten().fold(poll, Instant::min))
    }

    async fn rest_until(&mut self, at: Instant) {
        let full = self.due_room.available_permits() == 0;
        tokio::select! {
            () = self.shared.stopping.cancelled() => {}
            () = tokio::time::sleep_until(at), if !full => {}
            _ = self.wake.changed(), if !full => {}
            () = self.shared.queue_moved.notified() => {}
            () = self.shared.room.notified(), if full => {}
        }
    }

    async fn claim(&self) -> Result<Option<Instant>, Error> {
        let room = u32::try_from(self.due_room.available_permits()).unwrap_or(u32::MAX);
        if room == 0 {
            return Ok(None);
        }
        let (who, hold) = (&self.shared.config.claimant, self.shared.config.claim);
        let batch = self.shared.store.claim(who, room, hold).await?;
        self.shared.clock.set(batch.now);
        self.start(batch.work, &self.due_room);
        Ok(batch.next_due_at.map(|at| self.instant(at)))
    }

    async fn admit(&mut self) -> Result<Option<Instant>, Error> {
        let room = u32::try_from(self.order_room.available_permits()).unwrap_or(u32::MAX);
        if room == 0 {
            return Ok(None);
        }
        if let Some(at) = self.ask_at.filter(|at| *at > Instant::now()) {
            return Ok(Some(at));
        }
        let account = match self.desk.account(self.shared).await {
            Ok(account) => account,
            Err(again_at) => return Ok(Some(again_at)),
        };
        let (who, hold) = (&self.shared.config.claimant, self.shared.config.claim);
        let admission =
            self.shared.store.admit(who, account, self.shared.ca.limits(), room, hold).await?;
        self.shared.clock.set(admission.now);
        self.ask_at = admission.ask_again_at.map(|at| self.instant(at));
        self.start(admission.work, &self.order_room);
        Ok(self.ask_at)
    }

    fn instant(&self, at: Timestamp) -> Instant {
        Instant::now() + self.shared.clock.until(at)
    }

    fn start(&self, work: Vec<Claimed>, room: &Arc<Semaphore>) {
        for claimed in work {
            let Ok(permit) = room.clone().try_acquire_owned() else {
                tracing::error!(domain = %claimed.domain.id, "claimed more than there is room for");
                return;
            };
            let shared = self.shared.clone();
            self.tasks.spawn(async move {
                let (id, epoch) = (claimed.domain.id, claimed.epoch);
                let lost = shared.holds.take(id, epoch);
                tokio::select! {
                    () = drive(&shared, claimed) => {}
                    () = lost.cancelled() => {}
                }
                shared.holds.drop(id, epoch);
                drop(permit);
                shared.room.notify_one();
            });
        }
    }
}
