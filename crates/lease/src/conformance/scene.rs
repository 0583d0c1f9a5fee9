//! A lease of one check's own, and contenders for it.

use std::time::Duration;

use uuid::Uuid;

use super::{Harness, Verdict};
use crate::identity::{Holder, Incarnation, Name, Priority, Term};
use crate::request::{Acquire, Acquired, Release, Renew, Renewal, Renewed};
use crate::row::{Row, StoreTime};
use crate::store::Store;

/// Long enough never to end during a check.
pub(super) const LONG: Duration = Duration::from_secs(3600);

/// How long to wait for what must come.
pub(super) const SOON: Duration = Duration::from_secs(30);

/// Far in the future: the request is not late.
pub(super) const NEVER: StoreTime = StoreTime::from_micros(4_000_000_000_000_000);

/// A name that no other check, and no other run, uses.
pub(super) fn fresh(what: &str) -> Result<Name, String> {
    Name::new(format!("{what}-{}", Uuid::new_v4())).map_err(told)
}

pub(super) fn told(error: impl std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// One contender with a connection of its own.
pub(super) struct Contender {
    pub(super) store: Box<dyn Store>,
    pub(super) holder: Holder,
    pub(super) incarnation: Incarnation,
    pub(super) name: Name,
}

impl Contender {
    pub(super) async fn new(harness: &dyn Harness, who: &str, name: &Name) -> Result<Self, String> {
        Ok(Self {
            store: harness.store().await,
            holder: Holder::new(who).map_err(told)?,
            incarnation: Incarnation::random(),
            name: name.clone(),
        })
    }

    pub(super) fn acquire_request(&self, ttl: Duration) -> Acquire {
        Acquire {
            name: self.name.clone(),
            holder: self.holder.clone(),
            incarnation: self.incarnation,
            priority: Priority::default(),
            ttl,
            above: Term::NONE,
            unchanged: None,
            beacon: false,
            not_after: NEVER,
        }
    }

    pub(super) async fn try_acquire(&mut self, request: &Acquire) -> Result<Acquired, String> {
        Ok(self.store.acquire(request).await.map_err(told)?.answer)
    }

    /// Acquires, or fails the check.
    pub(super) async fn acquire(&mut self, ttl: Duration) -> Result<Row, String> {
        let request = self.acquire_request(ttl);
        match self.try_acquire(&request).await? {
            Acquired::Granted(row) => Ok(row),
            other => Err(format!("{} was not granted the lease: {other:?}", self.holder)),
        }
    }

    pub(super) async fn renew(&mut self, term: Term) -> Result<Renewed, String> {
        self.renew_by(term, NEVER).await
    }

    pub(super) async fn renew_by(
        &mut self,
        term: Term,
        not_after: StoreTime,
    ) -> Result<Renewed, String> {
        let lease = Renewal { name: self.name.clone(), term, ttl: LONG };
        let (incarnation, leases) = (self.incarnation, vec![lease]);
        let request = Renew { incarnation, leases, beat: 0, not_after };
        let answers = self.store.renew(&request).await.map_err(told)?.answer;
        answers.into_iter().next().ok_or_else(|| "a renewal without an answer".to_owned())
    }

    pub(super) fn release_request(&self, term: Term) -> Release {
        Release {
            name: self.name.clone(),
            incarnation: self.incarnation,
            term,
            successor: None,
            not_after: NEVER,
        }
    }

    pub(super) async fn release(&mut self, term: Term) -> Result<bool, String> {
        let request = self.release_request(term);
        Ok(self.store.release(&request).await.map_err(told)?.answer)
    }

    pub(super) async fn now(&mut self) -> Result<StoreTime, String> {
        Ok(self.store.look(std::slice::from_ref(&self.name)).await.map_err(told)?.at)
    }

    /// Waits until the store's clock shows more than it does now: what was granted for no time has then expired.
    pub(super) async fn pass_a_moment(&mut self) -> Verdict {
        let now = self.now().await?;
        self.wait_past(now).await
    }

    /// Waits until the store's clock shows more than this.
    pub(super) async fn wait_past(&mut self, time: StoreTime) -> Verdict {
        let past = async {
            while self.now().await? <= time {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Ok(())
        };
        let standing = || format!("the store's clock does not pass {time}");
        tokio::time::timeout(SOON, past).await.map_err(|_| standing())?
    }

    pub(super) async fn row(&mut self) -> Result<Row, String> {
        let names = [self.name.clone()];
        let looks = self.store.look(&names).await.map_err(told)?.answer;
        let row = looks.into_iter().next().and_then(|(row, _)| row);
        row.ok_or_else(|| "there is no row".to_owned())
    }
}

/// Two contenders for a lease of this check's own.
pub(super) async fn two(
    harness: &dyn Harness,
    what: &str,
) -> Result<(Contender, Contender), String> {
    let name = fresh(what)?;
    Ok((Contender::new(harness, "ann", &name).await?, Contender::new(harness, "bob", &name).await?))
}
