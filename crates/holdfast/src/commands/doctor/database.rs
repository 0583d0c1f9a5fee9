//! The database and what opens it. Nothing is migrated or made: a database before its first start is in good order.

use std::{os::unix::fs::PermissionsExt as _, time::Duration};

use holdfast_store::{Error, MasterKey, OpenOptions, Outage, SharedStore, check_place};

use super::{authority, cluster, finding::Finding, issuer, running};
use crate::{
    clock,
    config::{Config, DatabaseUrl, EdgeMode},
    failure::chain,
    wiring::{self, marker::Marker, master_key, store::CHECK},
};

/// Clocks further apart than this make lease and certificate times misleading.
const SKEW: Duration = Duration::from_secs(2);

/// Transactions of others may hold the event log for this long.
const EVENT_LAG: Duration = Duration::from_secs(60);

/// How many sealed values are named.
const LEFT_SHOWN: u32 = 5;

/// What leases keep beside the store: one session that acquires and renews, one that listens, one for a beacon.
const LEASE_SESSIONS: u32 = 3;

pub(super) async fn look(config: &Config, terms: Option<&str>) -> Vec<Finding> {
    let url = &config.database.url;
    if let DatabaseUrl::Sqlite(path) = url
        && let Err(why) = check_place(path)
    {
        let seen = format!("{} {}", path.display(), why.predicate());
        return vec![Finding::wrong("database", seen, why.fix())];
    }
    if let DatabaseUrl::Sqlite(path) = url
        && std::fs::metadata(path).map_or(true, |metadata| metadata.len() == 0)
    {
        let seen = format!("{} is made at the first start", path.display());
        return not_set_up(config, seen);
    }
    match holdfast_store::master_key_id(&url.expose()).await {
        Ok(sealed_under) => opened(config, sealed_under, terms).await,
        Err(Error::FileInUse { holder, .. }) => {
            vec![Finding::good(
                "database",
                format!("{url} is in use by {holder}; ask that one without --config"),
            )]
        }
        Err(error) if lacks_schema(&error) => {
            let seen = format!("{url} answers; its schema is made at the first start");
            let mut findings = not_set_up(config, seen);
            findings.extend(rights(url, true).await);
            findings
        }
        Err(error) => {
            let mut findings = vec![failed(url, &error)];
            // A role that may not read the tables owns none of them either.
            if error.outage().is_none() {
                findings.extend(rights(url, true).await);
            }
            findings
        }
    }
}

/// A database that holds nothing: good before the first start, wrong where one was set up.
fn not_set_up(config: &Config, seen: String) -> Vec<Finding> {
    match lost(config) {
        Some(lost) => vec![lost],
        None => vec![Finding::good("database", seen), key(config, None).0],
    }
}

fn lost(config: &Config) -> Option<Finding> {
    let loss = Marker::of(config)?.loss()?;
    Some(Finding::wrong("database", loss.what, loss.way_out))
}

fn failed(url: &DatabaseUrl, error: &Error) -> Finding {
    match error.outage() {
        Some(outage) => {
            let seen = format!("{url} {} ({})", outage.predicate(), chain(error));
            Finding::wrong("database", seen, outage.fix())
        }
        None => Finding::wrong(
            "database",
            format!("{url}: {}", chain(error)),
            "See that the database runs, and that database.url names it and a user it lets in.",
        ),
    }
}

/// Is every page of a database file as the others say?
async fn pages(url: &DatabaseUrl) -> Option<Finding> {
    const WHAT: &str = "database file";
    let DatabaseUrl::Sqlite(file) = url else { return None };
    let shown = file.display();
    Some(match holdfast_store::check_file(file, CHECK).await {
        Ok(true) => Finding::good(WHAT, format!("every page of {shown} was checked")),
        Ok(false) => Finding::doubtful(
            WHAT,
            format!("not every page of {shown} could be checked within {} s", CHECK.as_secs()),
            format!(
                "Check the rest while no server runs: sqlite3 {shown} 'PRAGMA integrity_check'"
            ),
        ),
        Err(error) => {
            let fix = error.outage().map_or("See that its user may read the file.", Outage::fix);
            Finding::wrong(WHAT, chain(&error), fix)
        }
    })
}

/// What one replica may ask of the database, or of a pooler before it.
fn sessions(url: &DatabaseUrl) -> Option<Finding> {
    let needed = holdfast_store::sessions(&url.expose(), &OpenOptions::default()).ok()?;
    let needed = needed.checked_add(LEASE_SESSIONS).filter(|_| needed > 0)?;
    Some(Finding::good(
        "sessions",
        format!(
            "a replica keeps up to {needed}; the server, or a pooler before it, must have room for those of all replicas"
        ),
    ))
}

/// Did the database say that it knows none of our tables?
fn lacks_schema(error: &Error) -> bool {
    let Error::Database { source, .. } = error else { return false };
    let Some(said) = source.as_database_error() else { return false };
    said.code().is_some_and(|code| code == "42P01") || said.message().starts_with("no such table")
}

async fn opened(
    config: &Config,
    sealed_under: Option<String>,
    terms: Option<&str>,
) -> Vec<Finding> {
    let url = &config.database.url;
    if sealed_under.is_none()
        && let Some(lost) = lost(config)
    {
        return vec![lost];
    }
    let (finding, key) = key(config, sealed_under.as_deref());
    let mut findings = vec![Finding::good("database", format!("{url} answers")), finding];
    // Without the right key there is no more to see.
    if sealed_under.is_some() && key.is_none() {
        return findings;
    }
    let options = OpenOptions { migrate: false, connections: 1, ..OpenOptions::default() };
    match holdfast_store::open(&url.expose(), key.filter(|_| sealed_under.is_some()), options).await
    {
        Ok(store) => {
            findings.extend(store.check_writes().await.err().map(|error| failed(url, &error)));
            findings.extend(pages(url).await);
            findings.extend(schema(&store).await);
            let steps = store.schema().await.ok();
            findings
                .extend(rights(url, steps.is_some_and(|(applied, known)| applied < known)).await);
            findings.extend(sessions(url));
            findings.extend(skew(&store).await);
            findings.extend(event_log(&store).await);
            findings.extend(sealed(&store).await);
            findings.extend(moments(&store).await);
            findings.extend(edges(&store, config.edge.mode).await);
            findings.extend(issuer::look(&store, &config.acme).await);
            findings.extend(authority::kept(&store, &config.acme, terms).await);
            findings.extend(cluster::look(&store, config).await);
            wiring::store::close(&store).await;
        }
        Err(error) => findings.push(failed(url, &error)),
    }
    findings
}

/// The key file, judged by the key the database was sealed under; and the key, if it is the right one.
fn key(config: &Config, sealed_under: Option<&str>) -> (Finding, Option<MasterKey>) {
    const WHAT: &str = "master key";
    const RESTORE: &str =
        "Put the right key back from your backup: without it nothing sealed can be opened.";
    let configured = match master_key::configured(&config.security) {
        Ok(configured) => configured,
        Err(failure) => return (Finding::wrong(WHAT, failure.to_string(), RESTORE), None),
    };
    match (configured, sealed_under) {
        (None, None) => (
            Finding::good(WHAT, "is made at the first start; put a copy in a safe place then"),
            None,
        ),
        (None, Some(id)) => (
            Finding::wrong(
                WHAT,
                format!("the database was sealed under key {id}, and the key file is not there"),
                RESTORE,
            ),
            None,
        ),
        (Some(key), Some(id)) if key.id() != id => (
            Finding::wrong(
                WHAT,
                format!("the database was sealed under key {id}, this one is {}", key.id()),
                RESTORE,
            ),
            None,
        ),
        (Some(key), _) => (
            readable_by_others(config)
                .unwrap_or_else(|| Finding::good(WHAT, format!("key {} is at hand", key.id()))),
            Some(key),
        ),
    }
}

fn readable_by_others(config: &Config) -> Option<Finding> {
    let path = config.security.master_key_file.as_ref()?;
    let mode = std::fs::metadata(path).ok()?.permissions().mode();
    let path = path.display();
    (mode & 0o077 != 0).then(|| {
        Finding::doubtful(
            "master key",
            format!("{path} can be read by others (mode {:o})", mode & 0o777),
            format!("Run: chmod 600 {path}"),
        )
    })
}

async fn schema(store: &SharedStore) -> Option<Finding> {
    let (applied, known) = store.schema().await.ok()?;
    Some(match applied.cmp(&known) {
        std::cmp::Ordering::Equal => Finding::good("schema", format!("at version {applied}")),
        std::cmp::Ordering::Less => Finding::doubtful(
            "schema",
            format!("at version {applied}; this release brings {known}"),
            "Start a replica of this release, or run `holdfast migrate`.",
        ),
        std::cmp::Ordering::Greater => Finding::doubtful(
            "schema",
            format!("at version {applied}, of a newer release; this one knows {known}"),
            "Update this replica as well.",
        ),
    })
}

/// May the role of the database do what migrations need? Work needs less, so a new release is where it would fail.
async fn rights(url: &DatabaseUrl, is_pending: bool) -> Option<Finding> {
    let missing = holdfast_store::missing_rights(&url.expose()).await.ok()??;
    let (seen, fix) = (missing.to_string(), missing.fix());
    Some(match is_pending {
        true => Finding::wrong("rights", seen, fix),
        false => Finding::doubtful("rights", format!("{seen}; the next release may have to"), fix),
    })
}

async fn skew(store: &SharedStore) -> Option<Finding> {
    let (theirs, ours) = (store.ping().await.ok()?, clock::now());
    let apart = theirs.since(ours).max(ours.since(theirs));
    Some(match apart < SKEW {
        true => Finding::good("clock", "this machine and the database agree"),
        false => Finding::doubtful(
            "clock",
            format!("this machine and the database are {} apart", clock::span(apart)),
            "Keep both on time, with NTP.",
        ),
    })
}

/// Does an open transaction of the server keep webhooks and the event stream from what is committed?
async fn event_log(store: &SharedStore) -> Option<Finding> {
    const WHAT: &str = "event log";
    let (lag, now) = (store.event_lag().await.ok()?, store.ping().await.ok()?);
    let Some(since) = lag.unread_since.filter(|since| now.since(*since) > EVENT_LAG) else {
        return Some(Finding::good(WHAT, "readers see all that is committed"));
    };
    let seen = format!("readers see nothing that was committed since {since}");
    Some(match lag.held_by.first() {
        Some(holder) => {
            Finding::wrong(WHAT, format!("{seen}; held back by {holder}"), holder.remedy())
        }
        None => Finding::wrong(
            WHAT,
            seen,
            "Look at pg_stat_activity and pg_prepared_xacts for the oldest transaction.",
        ),
    })
}

/// What the last rotation of the data key could not seal anew.
async fn sealed(store: &SharedStore) -> Option<Finding> {
    const WHAT: &str = "sealed values";
    if store.is_rotating().await.ok()? {
        return Some(Finding::good(WHAT, "a rotation of the data key is under way"));
    }
    let left = store.sealed_before(LEFT_SHOWN).await.ok()?;
    if left.is_empty() {
        return None;
    }
    let shown: Vec<_> = left.iter().map(ToString::to_string).collect();
    Some(Finding::doubtful(
        WHAT,
        format!("some are under an older data key: {}", shown.join(", ")),
        "Run `holdfast key rotate`; it names those that do not open. Renew the domains among them.",
    ))
}

/// What a wrong clock left in the future. Clocks may agree by now: what was stored meanwhile still
/// waits.
async fn moments(store: &SharedStore) -> Option<Finding> {
    const WHAT: &str = "stored times";
    Some(match store.out_of_bounds().await.ok()? {
        0 => Finding::good(WHAT, "none is later than a clock in good order stores"),
        many => Finding::doubtful(
            WHAT,
            format!(
                "{many} are later than a clock in good order stores: the database's clock was ahead"
            ),
            "A running replica brings them back within a minute; see that one runs, and keep the database's clock on time.",
        ),
    })
}

async fn edges(store: &SharedStore, mode: EdgeMode) -> Vec<Finding> {
    if mode == EdgeMode::None {
        return Vec::new();
    }
    let Ok(edges) = store.edges().await else { return Vec::new() };
    let live = edges.iter().filter(|edge| edge.live).count();
    let ailing = edges
        .iter()
        .filter(|edge| edge.live)
        .filter_map(|edge| Some(running::ailing(&edge.name, &edge.last_error.as_ref()?.detail)));
    let mut findings: Vec<_> = ailing.collect();
    findings.push(match (live, edges.len()) {
        (0, 0) => Finding::doubtful(
            "edge",
            "no edge has reported yet",
            "Start a replica with edge.mode = \"builtin\", or an agent beside a proxy.",
        ),
        (0, known) => Finding::doubtful(
            "edge",
            format!("none of {known} edges reported within the last 30 s"),
            "Start them; `holdfast edge list` says which.",
        ),
        (live, known) => Finding::good("edge", format!("{live} of {known} edges live")),
    });
    findings
}
