//! Being told across replicas. NOTIFY takes a lock of the whole server at commit, so it never rides on a commit: one task tells
//! others what happened lately, at most every few milliseconds. It is a hint; whoever listens also polls.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use holdfast_lease::session::{Hosts, Life, ask_for_writes};
use sqlx::{Executor as _, PgConnection, Postgres, postgres::PgListener};
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
    time::{sleep, timeout},
};
use uuid::Uuid;

use super::PostgresStore;
use crate::{Topic, Wake, bell::Bell, pool::Statement};

const CHANNEL: &str = "holdfast";
/// Between two notifications of one replica.
const PACE: Duration = Duration::from_millis(20);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A connection that has said nothing for so long is asked whether it still is one.
const SILENCE: Duration = Duration::from_secs(30);
/// Longer than this nobody waits for a connection, nor for an answer on it: who is silent is taken for gone, and asked anew.
const PATIENCE: Duration = Duration::from_secs(10);

/// A hint that was given or taken, or why not. Without it replicas poll.
type Hint<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const TOPICS: [(Topic, u8, char); 3] =
    [(Topic::Work, 1, 'w'), (Topic::Deployments, 2, 'd'), (Topic::Events, 4, 'e')];

/// Tells this process at once and the others soon.
pub(super) struct Herald {
    inner: Arc<Inner>,
    tasks: [JoinHandle<()>; 2],
}

struct Inner {
    bell: Bell,
    /// This process, so that it does not wake itself twice.
    name: String,
    untold: AtomicU8,
    more: Notify,
}

impl Inner {
    fn new() -> Self {
        Self {
            bell: Bell::new(),
            name: Uuid::new_v4().simple().to_string(),
            untold: AtomicU8::new(0),
            more: Notify::new(),
        }
    }
}

impl Drop for Herald {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Herald {
    pub(super) fn start(hosts: Hosts) -> Self {
        let inner = Arc::new(Inner::new());
        let tell = tokio::spawn(tell_for_ever(inner.clone(), hosts.clone()));
        let listen = tokio::spawn(listen_for_ever(inner.clone(), hosts));
        Self { inner, tasks: [tell, listen] }
    }

    pub(super) fn tell(&self, topics: &[Topic]) {
        for (topic, bit, _) in TOPICS {
            if topics.contains(&topic) {
                self.inner.bell.ring(topic);
                self.inner.untold.fetch_or(bit, Ordering::AcqRel);
            }
        }
        self.inner.more.notify_one();
    }
}

impl Wake for PostgresStore {
    fn wake(&self, topic: Topic) -> watch::Receiver<u64> {
        self.herald.inner.bell.listen(topic)
    }
}

/// Wakes everybody, this process too, when the transaction it is part of commits.
pub(super) fn tell_all() -> Statement<Postgres> {
    let letters: String = TOPICS.iter().map(|(_, _, letter)| *letter).collect();
    notify("everybody", &letters)
}

fn notify(name: &str, letters: &str) -> Statement<Postgres> {
    sqlx::query("SELECT pg_notify($1, $2)").bind(CHANNEL).bind(format!("{name} {letters}"))
}

/// Sends what is untold, on a connection of its own so that it never waits behind requests.
async fn tell_for_ever(inner: Arc<Inner>, hosts: Hosts) {
    let mut connection: Option<(PgConnection, Life)> = None;
    let mut pause = FIRST_PAUSE;
    loop {
        inner.more.notified().await;
        let untold = inner.untold.swap(0, Ordering::AcqRel);
        if untold == 0 {
            continue;
        }
        match tell(&mut connection, &hosts, &inner.name, untold).await {
            Ok(()) => {
                pause = FIRST_PAUSE;
                sleep(PACE).await;
            }
            Err(error) => {
                tracing::debug!(%error, "other replicas were not told; they poll");
                connection = None;
                inner.untold.fetch_or(untold, Ordering::AcqRel);
                inner.more.notify_one();
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

async fn tell(
    connection: &mut Option<(PgConnection, Life)>,
    hosts: &Hosts,
    name: &str,
    untold: u8,
) -> Hint<()> {
    let letters: String = TOPICS
        .iter()
        .filter(|(_, bit, _)| untold & bit != 0)
        .map(|(_, _, letter)| *letter)
        .collect();
    connection.take_if(|(_, life)| life.is_over());
    let (connection, _) = match connection {
        Some(connection) => connection,
        None => connection.insert((hosts.connect().await?, Life::begin(Life::LONGEST))),
    };
    timeout(PATIENCE, connection.execute(notify(name, &letters))).await??;
    Ok(())
}

/// Listens, and after every loss of the connection wakes everybody: anything may have happened meanwhile.
async fn listen_for_ever(inner: Arc<Inner>, hosts: Hosts) {
    let mut pause = FIRST_PAUSE;
    loop {
        if let Err(error) = listen(&inner, &hosts, &mut pause, SILENCE).await {
            tracing::debug!(%error, "not listening; polling goes on");
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn listen(inner: &Inner, hosts: &Hosts, pause: &mut Duration, silence: Duration) -> Hint<()> {
    let mut listener = registered(hosts).await?;
    let life = Life::begin(Life::LONGEST);
    *pause = FIRST_PAUSE;
    // Only now: what happened before nobody told us, and what happens from here on we hear.
    for (topic, ..) in TOPICS {
        inner.bell.ring(topic);
    }
    while !life.is_over() {
        match timeout(silence, listener.try_recv()).await {
            Ok(Ok(Some(notification))) => hear(inner, notification.payload()),
            Ok(Ok(None)) => return Ok(()),
            Ok(Err(error)) => return Err(error.into()),
            // Nobody tells anything on a server that takes no writes.
            Err(_) => timeout(PATIENCE, ask_for_writes(&mut listener)).await??,
        }
    }
    Ok(())
}

async fn registered(hosts: &Hosts) -> Hint<PgListener> {
    let mut listener = hosts.listener().await?;
    timeout(PATIENCE, listener.listen(CHANNEL)).await??;
    Ok(listener)
}

fn hear(inner: &Inner, payload: &str) {
    let Some((name, letters)) = payload.split_once(' ') else { return };
    if name == inner.name {
        return;
    }
    for (topic, _, letter) in TOPICS {
        if letters.contains(letter) {
            inner.bell.ring(topic);
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_testkit::{Durability, Postgres};

    use super::*;

    /// Nothing is written on this session, so nothing refuses it.
    #[tokio::test]
    async fn who_listens_leaves_a_server_that_takes_no_writes() {
        let server = Postgres::start(Durability::Relaxed).await.unwrap();
        let hosts = Hosts::parse(&server.database().await.unwrap()).unwrap();
        let (inner, mut pause) = (Inner::new(), FIRST_PAUSE);
        let mut heard = inner.bell.listen(Topic::Work);
        let silence = Duration::from_millis(50);
        let listening = listen(&inner, &hosts, &mut pause, silence);
        let registered = async {
            heard.changed().await.unwrap();
            server.set_read_only(true).await.unwrap();
        };
        let (left, ()) = timeout(PATIENCE * 6, async { tokio::join!(listening, registered) })
            .await
            .expect("it stays with the server");
        let left = left.unwrap_err().to_string();
        assert!(left.contains("read-only"), "{left}");
    }
}
