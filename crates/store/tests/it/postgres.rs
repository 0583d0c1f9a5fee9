//! What only PostgreSQL has: several processes, transactions that overlap, a newer release beside ours, dumps.

use std::time::Duration;

use holdfast_model::{Outcome, State};
use holdfast_store::{
    EdgeReport, Error, EventCursor, MasterKey, NewEdge, NewReplica, NewToken, Observation,
    OpenOptions, Outdated, Products, ReportOrder, Revision, Scope, Secret, SharedStore, migrate,
    open,
};
use holdfast_testkit::{Postgres, eventually};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, Row as _};
use uuid::Uuid;

use crate::{child, kit::*};

pub(crate) async fn database() -> String {
    Postgres::shared().await.unwrap().database().await.unwrap()
}

pub(crate) async fn raw(url: &str) -> PgConnection {
    PgConnection::connect(url).await.unwrap()
}

pub(crate) async fn number(connection: &mut PgConnection, sql: &str) -> i64 {
    let row = connection.fetch_one(AssertSqlSafe(sql.to_owned())).await.unwrap();
    row.try_get(0).unwrap()
}

/// A replica's handle and another one's.
pub(crate) async fn replicas() -> (SharedStore, SharedStore, String) {
    let (url, master) = (database().await, MasterKey::generate().unwrap());
    (opened(&url, &master).await, opened(&url, &master).await, url)
}

#[tokio::test(flavor = "multi_thread")]
async fn five_processes_migrate_at_once() {
    let (url, key) = (database().await, MasterKey::generate().unwrap());
    let children: Vec<_> = (0..5).map(|_| child::start("migrates", &url, &key)).collect();
    for mut child in children {
        child::wait_ready(&mut child);
        assert!(child.wait().unwrap().success());
    }
    let mut connection = raw(&url).await;
    let applied = number(&mut connection, "SELECT count(*) FROM holdfast_migration").await;
    let (newest, known) = opened(&url, &key).await.schema().await.unwrap();
    assert_eq!((applied, newest), (known, known));
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_migrate_at_once_in_one_process() {
    let url = database().await;
    at_once(20, |_| {
        let url = url.clone();
        async move { migrate(&url).await.unwrap() }
    })
    .await;
}

/// Whoever makes the first token waits for one who is at it, and then sees what that one made.
#[tokio::test(flavor = "multi_thread")]
async fn a_first_token_waits_for_another_that_is_being_made() {
    let (store, _, url) = replicas().await;
    let (mut making, mut watching) = (raw(&url).await, raw(&url).await);
    let mut first = making.begin().await.unwrap();
    first.execute("SELECT one FROM first_token FOR UPDATE").await.unwrap();
    let made = "INSERT INTO token (id, name, scope, hash, created_at)
        VALUES (gen_random_uuid(), 'admin', 'admin', decode(repeat('00', 32), 'hex'), clock_timestamp())";
    first.execute(made).await.unwrap();
    let (name, scope) = ("admin".to_owned(), Scope::Admin);
    let new = NewToken { name, scope, hash: [1; 32], edge: None, group: None };
    let second = tokio::spawn(async move { store.keep_first_token(&new).await });
    blocked(&mut watching, "FROM first_token").await;
    first.commit().await.unwrap();
    assert_eq!(second.await.unwrap().unwrap(), None);
}

/// Others work on while the schema is migrated: what they hold is waited for a little, let be, and asked for again.
#[tokio::test(flavor = "multi_thread")]
async fn a_migration_gives_way_and_comes_again() {
    let url = database().await;
    let (mut holding, mut watching) = (raw(&url).await, raw(&url).await);
    let mut hold = holding.begin().await.unwrap();
    hold.execute("CREATE TABLE setting (key text)").await.unwrap();
    let migrating = tokio::spawn({
        let url = url.clone();
        async move { migrate(&url).await }
    });
    let begun = "SELECT coalesce(max(extract(epoch FROM xact_start) * 1000000), 0)::bigint FROM pg_stat_activity \
                 WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let mut tries = std::collections::HashSet::new();
    eventually(SOON, "another try", async || {
        tries.extend(Some(number(&mut watching, begun).await).filter(|at| *at > 0));
        if tries.len() > 1 { Ok(()) } else { Err("it waits") }
    })
    .await;
    assert!(!migrating.is_finished());
    hold.rollback().await.unwrap();
    migrating.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_schema_and_its_rows_are_tolerated() {
    let (store, other, url) = replicas().await;
    let mut newer = raw(&url).await;
    newer
        .execute("INSERT INTO holdfast_migration (version, name) VALUES (999, 'future')")
        .await
        .unwrap();
    newer.execute("ALTER TABLE domain ADD COLUMN mood text NOT NULL DEFAULT 'good'").await.unwrap();
    drop(other);
    let again = open(&url, None, OpenOptions::default()).await;
    assert!(matches!(again, Err(Error::MasterKeyMissing(_))));
    assert_eq!(store.schema().await.unwrap().0, 999);
    // Rows in states that only the newer release knows are left alone, and spoil no list.
    let (a, b) = (add(&store, "a.example.com").await, add(&store, "b.example.com").await);
    newer
        .execute(AssertSqlSafe(format!(
            "UPDATE domain SET state = 'Dreaming' WHERE id = '{}'",
            a.id
        )))
        .await
        .unwrap();
    newer
        .execute(AssertSqlSafe(format!(
            "UPDATE event SET to_state = 'Dreaming' WHERE domain_id = '{}'",
            a.id
        )))
        .await
        .unwrap();
    let work = claim_all(&store, &claimant("w")).await;
    assert_eq!(work.iter().map(|one| one.domain.id).collect::<Vec<_>>(), [b.id]);
    let page = holdfast_store::Page { limit: 10, after: None };
    assert_eq!(store.domains(&Default::default(), &page).await.unwrap().items.len(), 2);
    assert_eq!(store.counts().await.unwrap(), [(State::Initial, 1)]);
    assert_eq!(store.domain(a.id).await.unwrap().unwrap().state_name(), "Dreaming");
    assert_eq!(store.events_after(EventCursor::default(), 10).await.unwrap().len(), 2);
    assert_eq!(store.history(a.id, &page).await.unwrap().items.len(), 1);
    store.fold_counts(None).await.unwrap();
    assert_eq!(store.counts().await.unwrap(), [(State::Initial, 1)]);
}

/// The very trap: a transaction holds an earlier row open while a later one commits; who resumes after the later one must not lose
/// the earlier.
#[tokio::test(flavor = "multi_thread")]
async fn no_event_appears_behind_a_reader() {
    let (store, _, url) = replicas().await;
    let mut slow = raw(&url).await;
    let mut transaction = slow.begin().await.unwrap();
    let insert = "INSERT INTO event (at, instance, actor, kind, subject, detail) \
                  VALUES (clock_timestamp(), 'slow', 'test', 'slow', 'x', 'y')";
    transaction.execute(insert).await.unwrap();
    store.notice(&actor(), "quick", "x", "y").await.unwrap();
    let latest = store.latest_event().await.unwrap();
    let mut seen = store.events_after(EventCursor::default(), 10).await.unwrap();
    let after = seen.last().map_or(latest, |event| event.cursor);
    transaction.commit().await.unwrap();
    seen.extend(store.events_after(after, 10).await.unwrap());
    let kinds: Vec<_> = seen
        .iter()
        .map(|event| match &event.body {
            holdfast_store::EventBody::Notice { kind, .. } => kind.as_str(),
            body => panic!("{body:?}"),
        })
        .collect();
    assert_eq!(kinds, ["slow", "quick"]);
    assert!(store.events_after(seen[1].cursor, 10).await.unwrap().is_empty());
}

/// The same trap for revisions: whoever takes a number holds the counter until it commits.
#[tokio::test(flavor = "multi_thread")]
async fn no_revision_appears_behind_an_edge() {
    let (store, _, url) = replicas().await;
    let first = active(&store, "a.example.com", "1").await;
    let before = store.latest_revision().await.unwrap();
    store.add(&imported("b.example.com", "2")).await.unwrap();
    let claimed = claim_one(&store, &claimant("w")).await;
    let mut slow = raw(&url).await;
    let mut transaction = slow.begin().await.unwrap();
    transaction.execute("UPDATE revision SET number = number + 1").await.unwrap();
    let redeploy = format!(
        "UPDATE deployment SET revision = (SELECT number FROM revision) WHERE domain_id = '{}'",
        first.id
    );
    transaction.execute(AssertSqlSafe(redeploy)).await.unwrap();
    let quick = {
        let store = store.clone();
        tokio::spawn(async move {
            let products = Products { deploy: true, ..Products::default() };
            step(&store, &claimed, Outcome::Imported, products).await
        })
    };
    // The later number cannot be seen before the earlier one.
    eventually(SOON, "the second deployment to wait for the first", async || {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%moved AS%'";
        match number(&mut raw(&url).await, waiting).await {
            0 => Err("nobody waits"),
            _ => Ok(()),
        }
    })
    .await;
    let between = store.changes("default", before, 10).await.unwrap();
    assert!(between.items.is_empty() && between.up_to == before);
    transaction.commit().await.unwrap();
    quick.await.unwrap();
    let after = store.changes("default", between.up_to, 10).await.unwrap();
    let names: Vec<_> = after.items.iter().map(|change| change.name.to_string()).collect();
    assert_eq!(names, ["a.example.com", "b.example.com"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_moved_to_another_row_does_not_open() {
    let (store, _, url) = replicas().await;
    active(&store, "a.example.com", "1").await;
    active(&store, "b.example.com", "2").await;
    let moved = raw(&url)
        .await
        .execute("UPDATE sealed s SET value = o.value FROM sealed o WHERE s.owner = 'certificate' AND o.owner = 'certificate' AND s.id <> o.id")
        .await
        .unwrap();
    assert_eq!(moved.rows_affected(), 2);
    for name in ["a.example.com", "b.example.com"] {
        let refused = store.bundle_named(&host(name)).await.unwrap_err();
        assert!(matches!(refused, Error::Unsealable("certificate")), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_secret_lies_about_unsealed() {
    let (store, _, url) = replicas().await;
    active(&store, "a.example.com", "HUSH-HUSH").await;
    let secret = Secret::from("account HUSH-HUSH".to_owned());
    let new = holdfast_store::NewAccount {
        directory: "https://x.test".to_owned(),
        key: secret,
        email: None,
    };
    store.journal_account(&new).await.unwrap();
    let mut connection = raw(&url).await;
    let tables = connection
        .fetch_all("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
        .await
        .unwrap();
    assert!(tables.len() > 15);
    for table in tables {
        let table: String = table.try_get(0).unwrap();
        // The serial and the fingerprint carry the mark, too: only the key's own words count.
        let sql = format!("SELECT count(*) FROM {table} t WHERE t::text LIKE '%key HUSH%' OR t::text LIKE '%account HUSH%'
            OR t::text LIKE '%' || encode('key HUSH', 'hex') || '%'");
        assert_eq!(number(&mut connection, &sql).await, 0, "{table}");
    }
}

/// A dump loaded into another server brings transactions that server has yet to count to.
#[tokio::test(flavor = "multi_thread")]
async fn a_dump_in_a_younger_server_loses_no_event() {
    let (url, master) = (database().await, MasterKey::generate().unwrap());
    let store = opened(&url, &master).await;
    add(&store, "a.example.com").await;
    let mut connection = raw(&url).await;
    // As if the server it came from had counted much further.
    connection.execute("UPDATE event SET xid = xid + 1000000000").await.unwrap();
    connection.execute("UPDATE event_log SET folded_xid = 0").await.unwrap();
    let cursor = number(&mut connection, "SELECT max(xid) FROM event").await;
    drop(store);
    let store = opened(&url, &master).await;
    let events = store.events_after(EventCursor::default(), 10).await.unwrap();
    assert_eq!((events.len(), events[0].cursor.xid), (1, cursor));
    assert_eq!(store.counts().await.unwrap(), [(State::Initial, 1)]);
    add(&store, "b.example.com").await;
    assert_eq!(store.events_after(events[0].cursor, 10).await.unwrap().len(), 1);
    assert_eq!(store.counts().await.unwrap(), [(State::Initial, 2)]);
    store.fold_counts(None).await.unwrap();
    assert_eq!(store.counts().await.unwrap(), [(State::Initial, 2)]);
    let again = opened(&url, &master).await;
    assert_eq!(again.latest_event().await.unwrap(), store.latest_event().await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edge_not_heard_of_for_long_is_not_waited_for() {
    let (store, _, url) = replicas().await;
    let domain = active(&store, "a.example.com", "1").await;
    let new = NewEdge { name: "e1".to_owned(), group: "default".to_owned() };
    store.register_edge(&new).await.unwrap();
    assert_eq!(store.deployment(domain.id).await.unwrap().behind, 1);
    raw(&url)
        .await
        .execute("UPDATE edge SET last_seen_at = clock_timestamp() - interval '31 seconds'")
        .await
        .unwrap();
    let status = store.deployment(domain.id).await.unwrap();
    assert_eq!((status.live, status.behind), (0, 0));
    assert!(!store.edges().await.unwrap()[0].live);
    assert_eq!(store.changes("default", Revision::default(), 1).await.unwrap().items.len(), 1);
}

async fn challenges_pruned(store: &SharedStore) -> u64 {
    let age = Duration::from_secs(10 * 86_400);
    store.prune(None, Outdated::Challenges, age, 10).await.unwrap().done
}

#[tokio::test(flavor = "multi_thread")]
async fn old_challenges_are_swept() {
    let (store, _, url) = replicas().await;
    add(&store, "a.example.com").await;
    let who = claimant("w");
    into_queue(&store, claim_one(&store, &who).await).await;
    into_download(&store, admit_one(&store, &who, account(&store).await).await, "t1").await;
    assert_eq!(challenges_pruned(&store).await, 0);
    raw(&url)
        .await
        .execute("UPDATE challenge SET created_at = clock_timestamp() - interval '11 days'")
        .await
        .unwrap();
    assert_eq!(challenges_pruned(&store).await, 1);
    assert!(store.challenge_answer("t1").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_that_is_none_is_named_without_its_password() {
    for url in ["mysql://x", "", "postgres", "sqlite:", "sqlite::memory:"] {
        let refused = migrate(url).await.unwrap_err();
        assert!(matches!(refused, Error::BadUrl(_)), "{url}");
    }
    let refused = migrate("postgres://me:hush@host:port/x").await.unwrap_err();
    assert!(matches!(&refused, Error::BadPostgresUrl(_)), "{refused}");
    assert!(!refused.to_string().contains("hush"), "{refused}");
    let unreachable = migrate("postgres://me:hush@127.0.0.1:1/x").await.unwrap_err();
    assert!(unreachable.is_transient());
}

/// Waits until a statement that contains this waits for a lock.
async fn blocked(connection: &mut PgConnection, part: &str) {
    let sql = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' \
         AND query LIKE '%{part}%' AND pid <> pg_backend_pid()"
    );
    eventually(SOON, "a statement to wait", async || match number(connection, &sql).await {
        0 => Err("it does not wait"),
        _ => Ok(()),
    })
    .await;
}

/// The fold of the counts and a restore lock the same things; in the same order, neither waits for the other for ever.
#[tokio::test(flavor = "multi_thread")]
async fn restores_and_folds_meet_without_harm() {
    let (store, other, _) = replicas().await;
    let domain = add(&store, "shop.example.com").await;
    at_once(4, |n| {
        let (store, id) = (if n % 2 == 0 { store.clone() } else { other.clone() }, domain.id);
        async move {
            for round in 0..15 {
                let patch = holdfast_store::DomainPatch {
                    tenant: Some(Some(format!("t{n}-{round}"))),
                    ..Default::default()
                };
                match n {
                    0 => drop(store.restored().await.unwrap()),
                    1 => drop(store.patch(id, None, &patch, &actor()).await.unwrap()),
                    _ => {
                        store.notice(&actor(), "test", "x", "y").await.unwrap();
                        store.fold_counts(None).await.unwrap();
                    }
                }
            }
        }
    })
    .await;
    assert_eq!(store.counts().await.unwrap(), [(State::Initial, 1)]);
}

/// The interleaving itself: the fold holds the log and is about to read the events when the restore begins.
#[tokio::test(flavor = "multi_thread")]
async fn a_restore_waits_for_a_fold_that_has_begun() {
    let (store, _, url) = replicas().await;
    add(&store, "shop.example.com").await;
    let (mut folding, mut watching) = (raw(&url).await, raw(&url).await);
    let mut fold = folding.begin().await.unwrap();
    fold.execute("SELECT * FROM event_log FOR UPDATE").await.unwrap();
    let restore = tokio::spawn(async move { store.restored().await });
    blocked(&mut watching, "event_log").await;
    fold.execute("SELECT count(*) FROM event").await.unwrap();
    fold.commit().await.unwrap();
    restore.await.unwrap().unwrap();
}

/// A replica that is started while the database is being reckoned with as restored.
#[tokio::test(flavor = "multi_thread")]
async fn a_restore_is_refused_when_a_replica_gives_a_sign_of_life_before_its_commit() {
    let (store, other, url) = replicas().await;
    add(&store, "shop.example.com").await;
    let new = |instance: &str| NewReplica {
        instance: instance.to_owned(),
        incarnation: Uuid::new_v4(),
        url: "http://here".to_owned(),
        role: "all".to_owned(),
        version: "1".to_owned(),
    };
    // As a backup holds it: its last sign of life is an old one.
    store.register_replica(&new("gone"), SOON).await.unwrap();
    let before = store.replicas(SOON).await.unwrap();
    let epoch = number(&mut raw(&url).await, "SELECT epoch FROM revision").await;
    let (mut busy, mut watching) = (raw(&url).await, raw(&url).await);
    let mut lock = busy.begin().await.unwrap();
    lock.execute("SELECT * FROM event_log FOR UPDATE").await.unwrap();
    let restore = {
        let (store, before) = (store.clone(), before.clone());
        tokio::spawn(async move { store.restored_above(0, Some(&before)).await })
    };
    blocked(&mut watching, "event_log").await;
    other.register_replica(&new("started"), SOON).await.unwrap();
    lock.commit().await.unwrap();
    let refused = restore.await.unwrap().unwrap_err();
    assert!(matches!(&refused, Error::ReplicaRuns(name) if name == "started"), "{refused:?}");
    assert_eq!(number(&mut watching, "SELECT epoch FROM revision").await, epoch, "nothing is done");
    let now = store.replicas(SOON).await.unwrap();
    assert!(store.restored_above(0, Some(&now)).await.unwrap().epoch > epoch);
}

async fn served_and_seen(
    store: &SharedStore,
) -> (holdfast_model::DomainId, holdfast_store::EdgeId, EdgeReport) {
    let domain = active(store, "shop.example.com", "1").await;
    let edge = NewEdge { name: "e1".to_owned(), group: "default".to_owned() };
    let edge = store.register_edge(&edge).await.unwrap().id;
    let seen = Observation { domain: domain.id, sha256: Some("sha-1".to_owned()), error: None };
    (domain.id, edge, EdgeReport { observations: vec![seen], ..EdgeReport::default() })
}

const ORPHANS: &str = "SELECT count(*) FROM observation";

/// A report that began before the removal was complete, and is kept after it.
#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_comes_too_late_leaves_nothing_behind() {
    let (store, other, url) = replicas().await;
    let (domain, edge, report) = served_and_seen(&store).await;
    let (mut holding, mut watching) = (raw(&url).await, raw(&url).await);
    let mut hold = holding.begin().await.unwrap();
    hold.execute("SELECT * FROM edge FOR UPDATE").await.unwrap();
    let late = tokio::spawn(async move { other.observe(edge, &report, &actor()).await });
    // How its statement begins: the server shows no more than the first thousand bytes.
    blocked(&mut watching, "WITH before AS").await;
    remove(&store, domain).await;
    hold.commit().await.unwrap();
    late.await.unwrap().unwrap();
    assert_eq!(number(&mut watching, ORPHANS).await, 0);
}

/// It had begun, and waited for a later one of the same edge to be kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_waited_for_a_later_one_changes_nothing() {
    let (store, other, url) = replicas().await;
    let (_, edge, report) = served_and_seen(&store).await;
    let session = store.open_session(edge).await.unwrap();
    let order = Some(ReportOrder { session, sequence: 1 });
    let (mut holding, mut watching) = (raw(&url).await, raw(&url).await);
    let mut later = holding.begin().await.unwrap();
    later.execute("UPDATE edge SET last_seen_at = clock_timestamp(), revision = 7").await.unwrap();
    later.execute("UPDATE edge_session SET session = opened, sequence = 2").await.unwrap();
    let late = EdgeReport { order, ..report };
    let late = tokio::spawn(async move { other.observe(edge, &late, &actor()).await });
    blocked(&mut watching, "WITH before AS").await;
    later.commit().await.unwrap();
    late.await.unwrap().unwrap();
    assert_eq!(number(&mut watching, ORPHANS).await, 0);
    assert_eq!(number(&mut watching, "SELECT revision FROM edge").await, 7);
}

/// The other way round: the removal began before the report was kept, and ends after it.
#[tokio::test(flavor = "multi_thread")]
async fn a_removal_forgets_what_was_reported_while_it_waited() {
    let (store, _, url) = replicas().await;
    let (domain, _, _) = served_and_seen(&store).await;
    store.remove(domain, false, &actor()).await.unwrap();
    let claimed = claim_one(&store, &claimant("w")).await;
    let torn = store.begin_teardown(&claimed).await.unwrap();
    let (mut reporting, mut watching) = (raw(&url).await, raw(&url).await);
    let mut report = reporting.begin().await.unwrap();
    report.execute("SELECT * FROM domain FOR NO KEY UPDATE").await.unwrap();
    let removal = tokio::spawn(async move { store.finish_removal(&torn, &actor()).await });
    blocked(&mut watching, "removed_at").await;
    report
        .execute("INSERT INTO observation (domain_id, edge_id, seen_at) SELECT d.id, e.id, now() FROM domain d, edge e")
        .await
        .unwrap();
    report.commit().await.unwrap();
    removal.await.unwrap().unwrap();
    assert_eq!(number(&mut watching, ORPHANS).await, 0);
}
