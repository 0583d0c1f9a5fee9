//! Members to try things with.

use std::time::Duration;

use holdfast_cluster::{Backend, Cluster, Options, Role, Settings, Task};
use holdfast_store::{MasterKey, OpenOptions, SharedStore, open};
use holdfast_testkit::{Postgres, Scratch, eventually};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Longest wait for anything that should happen soon.
pub(crate) const SOON: Duration = Duration::from_secs(40);

/// A database and the key it is sealed under.
pub(crate) struct Place {
    pub(crate) url: String,
    key: MasterKey,
    _scratch: Option<Scratch>,
}

impl Place {
    pub(crate) async fn on_postgres() -> Self {
        let url = Postgres::shared().await.unwrap().database().await.unwrap();
        Self { url, key: MasterKey::generate().unwrap(), _scratch: None }
    }

    pub(crate) fn on_sqlite() -> Self {
        let scratch = Scratch::new().unwrap();
        let url = format!("sqlite:{}", scratch.path().join("holdfast.db").display());
        Self { url, key: MasterKey::generate().unwrap(), _scratch: Some(scratch) }
    }

    pub(crate) async fn store(&self) -> SharedStore {
        open(&self.url, Some(self.key.clone()), OpenOptions::default()).await.unwrap()
    }

    pub(crate) async fn settings(&self, instance: &str, role: Role) -> Settings {
        Settings {
            store: self.store().await,
            instance: instance.to_owned(),
            url: format!("http://{instance}"),
            role,
            version: "test".to_owned(),
            backend: Backend::new(&self.url, None).unwrap(),
            leadership: "leadership".to_owned(),
            options: Options::with_lease(Duration::from_secs(6), Duration::from_secs(2)),
            heartbeat: Duration::from_secs(1),
            stale: Duration::from_secs(3),
            prune: Duration::from_secs(1),
        }
    }

    pub(crate) async fn join(&self, instance: &str) -> Member {
        self.join_as(instance, Role::All, Vec::new()).await
    }

    pub(crate) async fn join_as(&self, instance: &str, role: Role, tasks: Vec<Task>) -> Member {
        let settings = self.settings(instance, role).await;
        let store = settings.store.clone();
        let cluster = Cluster::join(settings).await.unwrap();
        let stopping = CancellationToken::new();
        let running = tokio::spawn({
            let (cluster, store, stopping) = (cluster.clone(), store.clone(), stopping.clone());
            async move { cluster.run(&store, tasks, stopping).await }
        });
        Member { cluster, store, stopping, running }
    }
}

/// A running member.
pub(crate) struct Member {
    pub(crate) cluster: Cluster,
    pub(crate) store: SharedStore,
    stopping: CancellationToken,
    running: JoinHandle<holdfast_cluster::Result<()>>,
}

impl Member {
    /// Ends in order.
    pub(crate) async fn end(self) {
        self.stopping.cancel();
        self.running.await.unwrap().unwrap();
        self.cluster.leave().await;
    }

    /// Waits until it ends by itself.
    pub(crate) async fn broken(self) -> holdfast_cluster::Error {
        self.running.await.unwrap().unwrap_err()
    }

    pub(crate) async fn leads(&self) {
        eventually(SOON, "the leadership", async || match self.cluster.is_leader() {
            true => Ok(()),
            false => Err(format!("{:?}", self.cluster.master())),
        })
        .await;
    }

    /// Waits until this one sees that one lead.
    pub(crate) async fn follows(&self, instance: &str) -> u64 {
        eventually(SOON, "a master", async || match self.cluster.master() {
            Some(master) if master.instance_id == instance => {
                assert_eq!(master.url, format!("http://{instance}"));
                Ok(master.term)
            }
            other => Err(format!("{other:?}")),
        })
        .await
    }
}
