//! Who leads, as last seen: from the lease where this replica contends for it, else by looking when somebody asks.

use std::{sync::Arc, time::Duration};

use holdfast_lease::{Leadership, Standing, row::Row};
use tokio::time::{Instant, sleep, timeout};

use crate::{Master, Result, member::Member, task::chain};

/// How old what is known may be while somebody asks, and while nobody does.
const FRESH: Duration = Duration::from_secs(2);
const STALE: Duration = Duration::from_secs(10);

/// Follows the leadership until the replica has left.
pub(crate) async fn follow(member: Arc<Member>) {
    let following = async {
        match &member.lead {
            Some(lead) => watch(&member, lead).await,
            None => look(&member).await,
        }
    };
    tokio::select! {
        () = following => {}
        () = member.left.cancelled() => {}
    }
}

/// What was seen of another's lease, and until when that can be believed.
struct Sight {
    row: Row,
    until: Instant,
}

async fn watch(member: &Member, lead: &Leadership) {
    let (mut standing, mut roll) = (lead.watch(), member.roll.subscribe());
    let mut sight: Option<Sight> = None;
    loop {
        let now = standing.borrow_and_update().clone();
        roll.borrow_and_update();
        let mut seen = match &now {
            Standing::Leading(term) if lead.is_leader() => {
                sight = None;
                Some(ourselves(member, term.number()))
            }
            Standing::Following(row) if row.owner.is_some() => {
                if sight.as_ref().is_none_or(|sight| sight.row != *row) {
                    // It is renewed well before; a row that stays as it is for that long is over.
                    let until = Instant::now() + row.ttl + FRESH;
                    sight = Some(Sight { row: row.clone(), until });
                }
                let believed = sight.as_ref().is_some_and(|sight| sight.until > Instant::now());
                if believed { named(member, row).await } else { None }
            }
            _ => None,
        };
        if seen.is_none() {
            // Who takes a lease tells nobody, and the elector looks again only when it must.
            seen = self::seen(member).await.unwrap_or_default();
        }
        member.master.send_if_modified(|master| {
            let news = *master != seen;
            *master = seen;
            news
        });
        let pause = if member.master.borrow().is_some() { FRESH } else { FRESH / 4 };
        tokio::select! {
            _ = standing.changed() => {}
            _ = roll.changed() => {}
            () = sleep(pause) => {}
        }
    }
}

fn ourselves(member: &Member, term: i64) -> Master {
    Master {
        instance_id: member.settings.instance.clone(),
        url: member.settings.url.clone(),
        term: u64::try_from(term).unwrap_or(0),
    }
}

async fn named(member: &Member, row: &Row) -> Option<Master> {
    let owner = row.owner.as_ref()?;
    let term = u64::try_from(row.term.number()).unwrap_or(0);
    reached(member, owner.holder.as_str(), term).await
}

/// Where a replica is reached; one that was not known yet is looked up.
async fn reached(member: &Member, instance: &str, term: u64) -> Option<Master> {
    let find = || {
        let roll = member.roll.borrow();
        roll.iter().find(|replica| replica.instance == instance).map(|replica| replica.url.clone())
    };
    let url = match find() {
        Some(url) => url,
        None => {
            let settings = &member.settings;
            let replicas = settings.store.replicas(settings.stale).await.ok()?;
            member.roll.send_replace(replicas);
            find()?
        }
    };
    Some(Master { instance_id: instance.to_owned(), url, term })
}

/// For those who do not contend: looks often while somebody asks, and now and then otherwise, so that the first who asks is told too.
async fn look(member: &Member) {
    let mut seen_at = Instant::now();
    loop {
        match seen(member).await {
            Ok(seen) => {
                member.master.send_replace(seen);
                seen_at = Instant::now();
            }
            Err(error) => tracing::debug!(error = chain(&error), "who leads cannot be seen"),
        }
        if seen_at.elapsed() > STALE {
            member.master.send_replace(None);
        }
        sleep(FRESH).await;
        timeout(STALE - FRESH, member.asked.notified()).await.ok();
    }
}

async fn seen(member: &Member) -> Result<Option<Master>> {
    let lease = member.office.lease(&member.settings.leadership).await?;
    let Some(holder) = lease.holder.filter(|_| lease.held) else { return Ok(None) };
    Ok(reached(member, &holder, lease.term).await)
}
