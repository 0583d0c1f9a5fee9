//! Replicas, leases, backlog and Redis: what ails many that should be one.

use std::time::Duration;

use holdfast_cluster::redis_facts;
use holdfast_store::{Replica, SharedStore, TaskStatus};
use serde_json::Value;

use super::finding::Finding;
use crate::{
    client::Api,
    clock,
    config::{Backend, Config},
    wiring,
};

/// Work that has waited for longer than this is a backlog.
const BACKLOG: Duration = Duration::from_secs(300);
/// A certificate that ends within this is near its end: renewal begins much earlier.
const NEAR: Duration = Duration::from_secs(7 * 24 * 3600);

/// What the database tells of replicas that may or may not run.
pub(super) async fn look(store: &SharedStore, config: &Config) -> Vec<Finding> {
    let stale = Duration::from_secs(config.replicas.stale_seconds.into());
    let mut findings = Vec::new();
    if let Ok(replicas) = store.replicas(stale).await {
        findings.extend(stale_ones(&replicas));
        let works = |replica: &Replica| replica.healthy && replica.role != "api";
        if replicas.iter().any(|replica| replica.healthy) && !replicas.iter().any(works) {
            findings.push(Finding::wrong(
                "replicas",
                "every healthy replica has role api, so nobody works on domains",
                "Start one with --role worker or all.",
            ));
        }
        if replicas.iter().any(works) {
            findings.extend(backlog(store).await);
        }
    }
    findings.extend(expiring(store).await);
    let tasks = store.tasks().await.unwrap_or_default();
    findings.extend(tasks.iter().filter(|task| !task.ok).map(failing));
    findings
}

fn stale_ones(replicas: &[Replica]) -> Vec<Finding> {
    let healthy = replicas.iter().filter(|replica| replica.healthy).count();
    let mut findings: Vec<_> = replicas
        .iter()
        .filter(|replica| !replica.healthy)
        .map(|replica| {
            stale(&replica.instance, &clock::relative(replica.last_heartbeat_at, clock::now()))
        })
        .collect();
    if healthy > 0 {
        findings
            .push(Finding::good("replicas", format!("{healthy} of {} healthy", replicas.len())));
    }
    findings
}

fn stale(instance: &str, heard: &str) -> Finding {
    Finding::doubtful(
        "replica",
        format!("{instance} was last heard {heard}"),
        "Start it again, or leave it: it is forgotten after a while, and its work is done by others.",
    )
}

fn failing(task: &TaskStatus) -> Finding {
    Finding::doubtful(
        "task",
        format!("{} failed at {}: {}", task.name, task.instance, task.outcome),
        "It is tried again by itself; see the log of that replica if it lasts.",
    )
}

async fn backlog(store: &SharedStore) -> Option<Finding> {
    let vitals = store.vitals(&[]).await.ok()?;
    let since = vitals.next_due_at.filter(|_| vitals.due > 0)?;
    let waited = vitals.now.since(since);
    (waited > BACKLOG).then(|| {
        Finding::doubtful(
            "backlog",
            format!("{} domains are due, the first since {}", vitals.due, clock::span(waited)),
            "Start more replicas, or raise provisioning.concurrency.",
        )
    })
}

async fn expiring(store: &SharedStore) -> Option<Finding> {
    let ending = store.expiring(NEAR, 3).await.ok()?;
    let now = store.ping().await.ok()?;
    // Short-lived ones are always near their end; what counts is that the last tenth of the life has begun.
    let late = ending.iter().find(|one| {
        let life = one.not_after.since(one.not_before);
        now.plus(life / 10) >= one.not_after
    })?;
    Some(Finding::wrong(
        "certificate",
        format!("that of {} ends {}", late.name, clock::relative(late.not_after, now)),
        format!("Run `holdfast domain explain {}`: it says why it was not renewed.", late.name),
    ))
}

/// The Redis that keeps leases, where one does.
pub(super) async fn redis(config: &Config) -> Option<Finding> {
    const WHAT: &str = "redis";
    let coordination = &config.coordination;
    if coordination.backend != Backend::Redis {
        return None;
    }
    let address = match wiring::cluster::redis(coordination) {
        Ok(address) => address?,
        Err(failure) => {
            let remedy = "Mend that key.";
            return Some(Finding::wrong(WHAT, failure.to_string(), remedy));
        }
    };
    Some(match redis_facts(&address).await {
        Err(why) => Finding::wrong(
            WHAT,
            format!("it does not answer: {why}"),
            "Start it, or correct coordination.url; without it nobody leads and no singleton work is done.",
        ),
        Ok(facts) if facts.eviction != "noeviction" => Finding::wrong(
            WHAT,
            format!("it throws keys away when its memory is full ({})", facts.eviction),
            "Set maxmemory-policy noeviction, or give leases a Redis of their own.",
        ),
        Ok(facts) if !facts.persistent => Finding::doubtful(
            WHAT,
            "it remembers nothing across a restart: every lease is lost with it",
            "Set appendonly yes. Terms are safe: they are registered in the database.",
        ),
        Ok(_) => Finding::good(WHAT, "it answers, keeps what it is told and throws nothing away"),
    })
}

/// What a running replica says of the others, and of singleton work.
pub(super) async fn running(api: &Api) -> Vec<Finding> {
    let replicas = listed(api, "replicas", "/v1/replicas", replicas).await;
    let tasks = listed(api, "tasks", "/v1/tasks", tasks).await;
    replicas.into_iter().chain(tasks).collect()
}

/// What is found in a list. That the server does not give it is a finding too, and keeps nobody from the others.
pub(super) async fn listed(
    api: &Api,
    what: &'static str,
    path: &str,
    judge: impl FnOnce(&[Value]) -> Vec<Finding>,
) -> Vec<Finding> {
    match api.list(path).await {
        Ok(items) => judge(&items),
        Err(failure) => vec![Finding::wrong(
            what,
            format!("{path} is not answered: {failure}"),
            "Mend what /health says of the database and the leases; else see the server's log.",
        )],
    }
}

fn replicas(replicas: &[Value]) -> Vec<Finding> {
    let text = |one: &Value, name: &str| {
        one.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let is = |one: &Value, name: &str| one.get(name).and_then(Value::as_bool).unwrap_or_default();
    let mut findings = Vec::new();
    for replica in replicas.iter().filter(|replica| !is(replica, "healthy")) {
        findings.push(stale(&text(replica, "instance_id"), &text(replica, "last_heartbeat_at")));
    }
    match replicas.iter().find(|replica| is(replica, "leader")) {
        _ if replicas.is_empty() => {}
        Some(leader) => {
            findings.push(Finding::good("leader", format!("{} leads", text(leader, "instance_id"))));
        }
        None => findings.push(Finding::wrong(
            "leader",
            "no healthy replica holds the leadership",
            "`holdfast lease list` says who had it. Start a replica with role all or api, and see that the lease store answers.",
        )),
    }
    findings
}

fn tasks(tasks: &[Value]) -> Vec<Finding> {
    let text = |task: &Value, name: &str| {
        task.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let is_ok = |task: &Value| task.get("ok").and_then(Value::as_bool).unwrap_or_default();
    let failed = tasks.iter().filter(|task| !is_ok(task)).map(|task| {
        let seen = format!(
            "{} failed at {}: {}",
            text(task, "name"),
            text(task, "instance_id"),
            text(task, "outcome")
        );
        Finding::doubtful(
            "task",
            seen,
            "It is tried again by itself; see the log of that replica if it lasts.",
        )
    });
    failed.collect()
}
