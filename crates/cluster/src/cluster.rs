//! The handle that everything else asks: am I the leader, who is, what do the leases say.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::future::join_all;
use holdfast_lease::{Elector, Health, Holder, Name, Wish, clock::BootClock};
use holdfast_store::{Fence, Progress, Replica, SharedStore};
use tokio::{
    sync::{Mutex, Notify, SetOnce, watch},
    task::{JoinHandle, JoinSet},
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    Error, LeaseEntry, LeaseView, MAINTENANCE, Master, ReplicaView, Result, Settings, StoreClock,
    Task, TaskView,
    bootstrap::around,
    clock,
    driver::{Driver, Watch},
    handover, master,
    member::{Member, introduction, rank},
    office::Office,
    roll,
    task::chain,
    tidings,
    timed::Timed,
};

/// How long the last tidings may take.
const LAST_WORDS: Duration = Duration::from_secs(2);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// How long changes of owner are kept.
const HISTORY: Duration = Duration::from_secs(90 * 24 * 3600);
/// How many of them are forgotten in one go.
const HISTORY_ROWS: u32 = 10_000;

/// The cluster as this replica sees it. Cheap to clone.
#[derive(Clone)]
pub struct Cluster(Arc<Inner>);

struct Inner {
    instance: String,
    /// Who takes a lease for a moment, one after another.
    turn: Mutex<()>,
    /// Who tells what happens to leases.
    tidings: Mutex<Option<JoinHandle<()>>>,
    /// The store's clock.
    clock: StoreClock,
    /// None: alone.
    member: Option<Arc<Member>>,
}

impl Cluster {
    /// A replica that is alone: no leases, the leader of itself.
    #[must_use]
    pub fn alone(instance: &str) -> Self {
        let instance = instance.to_owned();
        let (turn, tidings) = (Mutex::default(), Mutex::default());
        let clock = StoreClock::default();
        Self(Arc::new(Inner { instance, turn, tidings, clock, member: None }))
    }

    /// Joins: makes this replica known and contends for the leadership if its role does.
    ///
    /// # Errors
    /// When the store cannot be asked, or leases cannot be kept with these settings.
    pub async fn join(settings: Settings) -> Result<Self> {
        let lease_store = Box::new(Timed(settings.backend.open(&settings.options)?));
        let holder = Holder::new(&settings.instance)?;
        let clock = Arc::new(BootClock);
        let elector = Elector::start_as(lease_store, &settings.options, holder, clock)?;
        let incarnation = elector.incarnation().as_uuid();
        let limit = settings.options.request_timeout;
        let office = Office::new(settings.backend.open(&settings.options)?, limit);
        let stepped_unseen = clock::stepped_unseen(&settings.store).await;
        let roll = register(&settings, &office, incarnation).await?;
        let wish = Wish { priority: rank(&roll, &settings.instance), ..Wish::default() };
        let events = elector.events();
        let name = Name::new(&settings.leadership)?;
        let lead = settings.role.leads().then(|| elector.contend(&name, wish));
        let member = Arc::new(Member {
            elector,
            lead,
            work: std::sync::Mutex::default(),
            wish,
            office,
            roll: watch::Sender::new(roll),
            master: watch::Sender::new(None),
            asked: Notify::new(),
            beating: Mutex::default(),
            clock: StoreClock::default(),
            call_again: Notify::new(),
            draining: CancellationToken::new(),
            left: CancellationToken::new(),
            taken: CancellationToken::new(),
            lost: SetOnce::new(),
            settings,
        });
        if stepped_unseen {
            member.clock.suspect();
        }
        tokio::spawn(roll::call(member.clone()));
        tokio::spawn(clock::follow(member.clone()));
        tokio::spawn(master::follow(member.clone()));
        let tidings = Mutex::new(Some(tokio::spawn(tidings::tell(member.clone(), events))));
        let (instance, turn) = (member.settings.instance.clone(), Mutex::default());
        let clock = member.clock.clone();
        Ok(Self(Arc::new(Inner { instance, turn, tidings, clock, member: Some(member) })))
    }

    /// Runs singleton work wherever its lease is, until told to stop; then hands every lease over. Ends before that only when another
    /// process has taken this replica's name, or the database file or its log is no longer the one that was opened.
    ///
    /// # Errors
    /// When the name was taken, or the database lost.
    pub async fn run(
        &self,
        store: &SharedStore,
        tasks: Vec<Task>,
        stopping: CancellationToken,
    ) -> Result<()> {
        let Some(member) = &self.0.member else {
            self.run_alone(store, tasks, stopping).await;
            return Ok(());
        };
        let mut tasks = if member.settings.role.works() { tasks } else { Vec::new() };
        tasks.extend(member.settings.role.works().then(|| own_tasks(member)).into_iter().flatten());
        let mut work = JoinSet::new();
        for (lease, tasks) in by_lease(tasks) {
            work.spawn(contended(member.clone(), lease, Arc::new(self.driver(store, tasks))));
        }
        let taken = tokio::select! {
            // Nothing more is written, so there is nothing to hand over.
            outage = member.lost.wait() => return Err(Error::DatabaseLost(*outage)),
            () = member.taken.cancelled() => true,
            () = stopping.cancelled() => false,
        };
        member.draining.cancel();
        member.call_again.notify_one();
        handover::hand_over(member).await;
        if taken { Err(Error::IdentityTaken(self.0.instance.clone())) } else { Ok(()) }
    }

    async fn run_alone(&self, store: &SharedStore, tasks: Vec<Task>, stopping: CancellationToken) {
        let drivers = by_lease(tasks).into_values().map(|tasks| {
            let watch = Watch { work: None, fence: None, stopping: stopping.clone() };
            Arc::new(self.driver(store, tasks)).run(watch)
        });
        join_all(drivers).await;
        stopping.cancelled().await;
    }

    fn driver(&self, store: &SharedStore, tasks: Vec<Task>) -> Driver {
        let (store, instance) = (store.clone(), self.0.instance.clone());
        Driver { store, instance, tasks, clock: self.0.clock.clone() }
    }

    /// The very end: this replica is no longer one of those that are there.
    pub async fn leave(&self) {
        let Some(member) = &self.0.member else { return };
        member.left.cancel();
        if let Some(tidings) = self.0.tidings.lock().await.take() {
            timeout(LAST_WORDS, tidings).await.ok();
        }
        let _last = timeout(LAST_WORDS, member.beating.lock()).await;
        let settings = &member.settings;
        let left = settings.store.deregister_replica(&settings.instance, member.incarnation());
        if let Err(error) = left.await {
            tracing::warn!(error = chain(&error), "this replica counts as gone a little later");
        }
    }

    /// Does work that only one should do at a time while holding a lease; without it, if it cannot be had in time. What makes the
    /// work's effects happen once is not this.
    pub async fn around<T>(
        &self,
        lease: &'static str,
        patience: Duration,
        work: impl Future<Output = T>,
    ) -> T {
        let name = Name::new(lease).ok();
        let (Some(member), Some(name)) = (&self.0.member, name) else { return work.await };
        let _turn = self.0.turn.lock().await;
        around(&member.elector, &name, patience, work).await
    }

    /// The store's clock, as this process sees it.
    #[must_use]
    pub fn clock(&self) -> &StoreClock {
        &self.0.clock
    }

    /// This replica, as people know it.
    #[must_use]
    pub fn instance(&self) -> &str {
        &self.0.instance
    }

    /// This start of it, which stores compare; nothing when alone.
    #[must_use]
    pub fn incarnation(&self) -> Option<Uuid> {
        self.0.member.as_ref().map(|member| member.incarnation())
    }

    /// Does this replica hold the leadership now? The time is compared at every call.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        match &self.0.member {
            None => true,
            Some(member) => member.lead.as_ref().is_some_and(holdfast_lease::Leadership::is_leader),
        }
    }

    /// The term of our own leadership, while we hold it.
    #[must_use]
    pub fn term(&self) -> Option<u64> {
        let Some(member) = &self.0.member else { return Some(1) };
        let term = member.lead.as_ref()?.term()?;
        u64::try_from(term.number()).ok()
    }

    /// What a write is fenced with that is to commit only while we lead in this term; none when alone.
    #[must_use]
    pub fn fence(&self, term: u64) -> Option<Fence> {
        let settings = &self.0.member.as_ref()?.settings;
        Some(Fence {
            lease: settings.leadership.clone(),
            term: i64::try_from(term).ok()?,
            incarnation: self.incarnation()?,
            limit: settings.options.lease_duration / 3,
            kept: settings.backend.home(),
        })
    }

    /// Who holds the leadership, as last seen; none when nobody does.
    #[must_use]
    pub fn master(&self) -> Option<Master> {
        let Some(member) = &self.0.member else {
            let instance_id = self.0.instance.clone();
            return Some(Master { instance_id, url: String::new(), term: 1 });
        };
        member.asked.notify_one();
        // Ourselves by our own clock: what was seen may be a moment old.
        if let Some(term) = self.term() {
            let (instance_id, url) = (self.0.instance.clone(), member.settings.url.clone());
            return Some(Master { instance_id, url, term });
        }
        member.master.borrow().clone().filter(|master| master.instance_id != self.0.instance)
    }

    /// How the leases are doing.
    #[must_use]
    pub fn health(&self) -> Health {
        self.0.member.as_ref().map_or(Health::Healthy, |member| member.elector.health())
    }

    /// All leases, by name.
    ///
    /// # Errors
    /// When they cannot be asked.
    pub async fn leases(&self) -> Result<Vec<LeaseView>> {
        match &self.0.member {
            None => Ok(Vec::new()),
            Some(member) => member.office.leases().await,
        }
    }

    /// The changes of owner of a lease, newest first, before this entry.
    ///
    /// # Errors
    /// When there is no such lease, or it cannot be asked.
    pub async fn lease_history(
        &self,
        name: &str,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<LeaseEntry>> {
        self.office(name)?.history(name, before, limit).await
    }

    /// Takes a lease away from whoever holds it; its term rises. Gives the new term.
    ///
    /// # Errors
    /// When there is no such lease, or it cannot be asked.
    pub async fn release(&self, name: &str, actor: &str) -> Result<u64> {
        self.office(name)?.release(name, &format!("by {actor}")).await
    }

    /// Asks the holder of a lease to step down, for this replica or for any.
    ///
    /// # Errors
    /// When nobody holds it, when there is no such replica, or it cannot be asked.
    pub async fn step_down(&self, name: &str, to: Option<&str>) -> Result<()> {
        let office = self.office(name)?;
        if let Some(to) = to {
            let known = self.replicas().await?;
            let healthy = known.iter().any(|replica| replica.instance_id == to && replica.healthy);
            if !healthy {
                return Err(Error::UnknownReplica(to.to_owned()));
            }
        }
        office.step_down(name, to).await
    }

    fn office(&self, name: &str) -> Result<&Office> {
        let member = self.0.member.as_ref();
        member.map(|member| &member.office).ok_or_else(|| Error::UnknownLease(name.to_owned()))
    }

    /// All replicas, oldest first.
    ///
    /// # Errors
    /// When they cannot be asked.
    pub async fn replicas(&self) -> Result<Vec<ReplicaView>> {
        let Some(member) = &self.0.member else { return Ok(Vec::new()) };
        let settings = &member.settings;
        let replicas = settings.store.replicas(settings.stale).await?;
        let leader = self.master().map(|master| master.instance_id);
        let leads = |replica: &Replica| leader.as_ref() == Some(&replica.instance);
        Ok(replicas.into_iter().map(|one| ReplicaView::new(leads(&one), one)).collect())
    }

    /// The last status of each singleton task.
    ///
    /// # Errors
    /// When they cannot be asked.
    pub async fn tasks(&self) -> Result<Vec<TaskView>> {
        let Some(member) = &self.0.member else { return Ok(Vec::new()) };
        let tasks = member.settings.store.tasks().await?;
        Ok(tasks.into_iter().map(TaskView::from).collect())
    }
}

/// Makes the replica known. Where there is only ever one process, whatever another held is nobody's: that one is dead.
async fn register(settings: &Settings, office: &Office, incarnation: Uuid) -> Result<Vec<Replica>> {
    if settings.backend.is_alone() {
        for lease in office.leases().await?.into_iter().filter(|lease| lease.held) {
            office.release(&lease.name, "its process has ended").await?;
        }
    }
    let new = introduction(settings, incarnation);
    if settings.store.register_replica(&new, settings.stale).await? {
        tracing::warn!(instance = new.instance, "takes the place of another process of this name");
    }
    Ok(settings.store.replicas(settings.stale).await?)
}

/// What the cluster itself has to clean up.
fn own_tasks(member: &Arc<Member>) -> [Task; 3] {
    let (replicas, history) = (member.clone(), member.clone());
    let every = member.settings.prune;
    [
        Task::new("prune-replicas", MAINTENANCE, every, move |fence| {
            let member = replicas.clone();
            async move {
                let silent = member.settings.stale * 2;
                member.settings.store.prune_replicas(fence.as_ref(), silent).await
            }
        })
        .by_age(),
        Task::new("prune-lease-history", MAINTENANCE, DAY, move |fence| {
            let member = history.clone();
            async move { prune_history(&member, fence.as_ref()).await }
        })
        .by_age(),
        clock::task(member),
    ]
}

/// Forgets old changes of owner. In Redis that cannot be held to the fence until its end, only begun under it: what is forgotten there
/// twice is forgotten once.
async fn prune_history(member: &Member, fence: Option<&Fence>) -> Result<Progress> {
    let store = &member.settings.store;
    if member.settings.backend.is_here() {
        let done = store.prune_lease_history(fence, HISTORY, HISTORY_ROWS).await?;
        return Ok(Progress::of(done, HISTORY_ROWS));
    }
    store.check_fence(fence).await?;
    Ok(member.office.prune(HISTORY).await?.into())
}

fn by_lease(tasks: Vec<Task>) -> BTreeMap<&'static str, Vec<Task>> {
    let mut leases: BTreeMap<&'static str, Vec<Task>> = BTreeMap::new();
    for task in tasks {
        leases.entry(task.lease).or_default().push(task);
    }
    leases
}

/// Contends for the lease of some work and does it whenever it is held.
async fn contended(member: Arc<Member>, lease: &'static str, driver: Arc<Driver>) {
    let Ok(name) = Name::new(lease) else { return };
    let leadership = member.contend(&name);
    let work = leadership.run_while_leader(|work| {
        let fence = member.settings.backend.fence(work.token(), &member.settings.options);
        // Not told to stop in any other way: it would let go of the lease before there is a successor.
        let stopping = CancellationToken::new();
        driver.clone().run(Watch { work: Some(work), fence: Some(fence), stopping })
    });
    let ended = work.await;
    tracing::debug!(lease, error = chain(&ended), "singleton work has ended");
}
