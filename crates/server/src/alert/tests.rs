use std::collections::BTreeMap;

use holdfast_model::{DomainId, Hostname, Note, WaitScope};
use holdfast_store::{
    COUNTED, CaWait, EdgeAgent, EdgeId, EventCursor, Expiring, LateIssue, OpenTransaction,
    PROXY_DOWN, Revision, TransactionOwner, WebhookId,
};
use uuid::Uuid;

use super::*;

const NOW: i64 = 1_800_000_000;

fn ago(seconds: u64) -> Timestamp {
    Timestamp::from_seconds(NOW).minus(Duration::from_secs(seconds))
}

fn domain(n: u32, state: State, attempt: u32) -> Domain {
    let now = Timestamp::from_seconds(NOW);
    Domain {
        id: DomainId::new(),
        name: Hostname::parse(&format!("n{n}.example.com")).unwrap(),
        tenant: None,
        resource: n.to_string(),
        target: Hostname::parse("edge.example.net").unwrap(),
        edge_group: "default".into(),
        labels: BTreeMap::new(),
        orchestration_id: n.to_string(),
        state,
        foreign_state: None,
        attempt,
        entered_at: now,
        next_attempt_at: None,
        queued_at: None,
        failures: 0,
        failing_since: None,
        last_error: None,
        order_open: false,
        certificate: None,
        certificate_since: None,
        wanted: None,
        removing_since: None,
        revoke_on_removal: false,
        removed_at: None,
        lapses: 0,
        created_at: now,
        updated_at: now,
        version: 1,
    }
}

static NONE: &Ending = &Ending { count: 0, some: Vec::new() };
static PUNCTUAL: &LateIssues = &LateIssues { count: 0, some: Vec::new() };
static READ: &EventLag = &EventLag { unread_since: None, held_by: Vec::new() };

fn quiet() -> Facts<'static> {
    Facts {
        now: Timestamp::from_seconds(NOW),
        counts: &[],
        staying: &[],
        samples: &[],
        ending: NONE,
        late: PUNCTUAL,
        edges: &[],
        behind: &[],
        webhooks: &[],
        account: None,
        terms: None,
        log_bytes: 0,
        trouble: None,
        hindered: None,
        clock_step: None,
        clock_off_by: None,
        leaderless: None,
        lag: READ,
        waits: &[],
    }
}

#[track_caller]
fn check(facts: &Facts<'_>, expected: &[&str]) {
    let codes: Vec<_> = alerts(facts).iter().map(|alert| alert.code).collect();
    assert_eq!(codes, expected);
}

#[test]
fn who_stays_too_long_is_stuck_and_how_long_depends_on_the_state() {
    let dns = State::DnsVerifying;
    check(&Facts { staying: &[(dns, Vec::new())], ..quiet() }, &[]);
    check(&Facts { staying: &[(dns, vec![domain(1, dns, 1)])], ..quiet() }, &["stuck"]);
    let minutes = |state| limit(&Policy::default(), state).as_secs() / 60;
    assert_eq!(minutes(dns), 11);
    assert_eq!(minutes(State::AcmeChallengeValidating), 6);
    assert_eq!(minutes(State::CertificateDownloading), 3);
    assert_eq!(minutes(State::CertificateDeploying), 16);
}

#[test]
fn a_certificate_that_was_old_when_it_came_is_told_with_its_cause() {
    let issue = LateIssue {
        name: Hostname::parse("shop.example.com").unwrap(),
        not_before: ago(70 * 86_400),
        not_after: Timestamp::from_seconds(NOW + 20 * 86_400),
        stored_at: ago(60),
    };
    let late = LateIssues { count: 1, some: vec![issue] };
    let facts = Facts { late: &late, ..quiet() };
    check(&facts, &["certificate-late"]);
    let alert = &alerts(&facts)[0];
    assert!(alert.detail.contains("shop.example.com") && alert.fix.contains("the CA backdates"));
    let ours = Facts { clock_off_by: Some((true, Duration::from_secs(6_048_000))), ..facts };
    let alerts = alerts(&ours);
    let alert = alerts.iter().find(|alert| alert.code == "certificate-late").unwrap();
    assert!(alert.fix.contains("The database's clock is wrong"), "{alert:?}");
}

#[test]
fn many_that_try_again_and_again_are_told_once_there_are_enough() {
    let dns = State::DnsVerifying;
    let sample = |retrying: u32, others: u32| {
        let some = |count, attempt| (0..count).map(move |n| domain(n, dns, attempt));
        [(dns, some(retrying, 3).chain(some(others, 1)).collect::<Vec<_>>())]
    };
    check(&Facts { samples: &sample(9, 0), ..quiet() }, &[]);
    check(&Facts { samples: &sample(10, 0), ..quiet() }, &["high-retry-rate"]);
    check(&Facts { samples: &sample(5, 5), ..quiet() }, &[]);
}

#[test]
fn a_tenth_in_failure_is_many() {
    let check_counts =
        |counts: &[(State, u64)], expected: &[&str]| check(&Facts { counts, ..quiet() }, expected);
    check_counts(&[(State::Active, 90), (State::Failed, 10)], &[]);
    let more = [(State::Active, 89), (State::Failed, 6), (State::AcmeOrderFailed, 5)];
    check_counts(&more, &["many-failures"]);
    check_counts(&[(State::Failed, 9)], &[]);
}

#[test]
fn an_end_that_was_is_worse_than_one_that_is_near() {
    let ending = |count, left: u64| Ending {
        count,
        some: vec![Expiring {
            name: Hostname::parse("shop.example.com").unwrap(),
            not_before: ago(81 * 86_400),
            not_after: Timestamp::from_seconds(NOW).plus(Duration::from_secs(left)),
        }],
    };
    let told = |ending: &Ending| alerts(&Facts { ending, ..quiet() }).remove(0);
    let near = told(&ending(7, 86_400));
    assert_eq!((near.code, near.severity), ("certificate-expiring", Severity::Warning));
    assert!(near.detail.starts_with("7 certificates are near their end"), "{}", near.detail);
    assert_eq!(told(&ending(1, 0)).severity, Severity::Critical);
    let many = told(&ending(COUNTED.into(), 0)).detail;
    assert!(many.starts_with("10000 or more certificates"), "{many}");
}

#[test]
fn a_change_of_leader_is_no_alert_and_none_for_long_is() {
    let without = |seconds| Facts { leaderless: Some(Duration::from_secs(seconds)), ..quiet() };
    check(&without(59), &[]);
    check(&without(61), &["no-leader"]);
    // An alert that says something else at every look would be another one each time.
    assert_eq!(alerts(&without(61)), alerts(&without(3_600)));
}

#[test]
fn a_step_of_the_databases_clock_is_told_with_its_size_and_direction() {
    let step = |ahead, seconds| {
        let by = Duration::from_secs(seconds);
        let (from, to) = if ahead { (ago(0), ago(0).plus(by)) } else { (ago(0), ago(seconds)) };
        Facts { clock_step: Some(ClockStep { ahead, by, from, to, noticed: by }), ..quiet() }
    };
    check(&step(true, 7_200), &["clock-stepped"]);
    let told = |ahead| alerts(&step(ahead, 7_200)).remove(0).detail;
    assert!(told(true).contains("ahead by 7200 s") && told(false).contains("back by 7200 s"));
}

#[test]
fn who_is_kept_from_working_by_others_says_by_whom() {
    let facts = Facts { hindered: Some("pid 4711 holds a lock".to_owned()), ..quiet() };
    check(&facts, &["database-hindered"]);
    assert!(alerts(&facts).remove(0).detail.contains("pid 4711"));
}

#[test]
fn a_clock_that_is_far_from_this_machines_is_told() {
    let off =
        |ahead| Facts { clock_off_by: Some((ahead, Duration::from_secs(420 * 86_400))), ..quiet() };
    check(&off(true), &["clock-differs"]);
    let told = |ahead| alerts(&off(ahead)).remove(0).detail;
    assert!(told(true).contains("10080 h ahead of") && told(false).contains("10080 h behind"));
}

#[test]
fn a_log_that_stands_still_is_told_with_its_cause_and_remedy() {
    let holder = OpenTransaction {
        owner: TransactionOwner::Session(4711),
        database: Some("shop".into()),
        user: Some("etl".into()),
        application: None,
        statement: None,
        state: Some("idle in transaction".into()),
        since: Some(ago(7_200)),
    };
    let lag =
        |seconds| EventLag { unread_since: Some(ago(seconds)), held_by: vec![holder.clone()] };
    check(&Facts { lag: &lag(59), ..quiet() }, &[]);
    let told = alerts(&Facts { lag: &lag(61), ..quiet() }).remove(0);
    assert_eq!((told.code, told.severity), ("event-log-behind", Severity::Critical));
    assert!(told.detail.contains("held back by pid 4711 (database shop, user etl"), "{told:?}");
    assert!(told.fix.contains("pg_terminate_backend(4711)"), "{told:?}");
    let unseen = EventLag { held_by: Vec::new(), ..lag(61) };
    let told = alerts(&Facts { lag: &unseen, ..quiet() }).remove(0);
    assert!(told.fix.contains("pg_prepared_xacts"), "{told:?}");
}

fn edge() -> Edge {
    Edge {
        id: EdgeId(Uuid::nil()),
        name: "fra-1".into(),
        group: "default".into(),
        live: true,
        last_seen_at: ago(1),
        revision: Revision::default(),
        behind: 3,
        last_error: None,
        agent: EdgeAgent::default(),
        refusals: 0,
        strangers: 0,
        shadows: 0,
    }
}

#[test]
fn edges_are_told_by_what_is_wrong_with_them() {
    let edge = edge();
    let told = |edge: Edge, behind: u64, expected: &[&str]| {
        let behind = [("fra-1".to_owned(), ago(behind))];
        check(&Facts { edges: &[edge], behind: &behind, ..quiet() }, expected);
    };
    told(edge.clone(), 10, &[]);
    told(edge.clone(), 600, &["edge-behind"]);
    let error = Some(Note::new("edge-disk", "the disk is full"));
    told(Edge { last_error: error.clone(), ..edge.clone() }, 10, &["edge-error"]);
    for (code, severity) in [("edge-disk", Severity::Warning), (PROXY_DOWN, Severity::Critical)] {
        let last_error = Some(Note::new(code, "its words"));
        let edges = [Edge { last_error, ..edge.clone() }];
        assert_eq!(alerts(&Facts { edges: &edges, ..quiet() })[0].severity, severity, "{code}");
    }
    told(Edge { shadows: 2, ..edge.clone() }, 10, &["edge-shadowed"]);
    told(Edge { refusals: 7, ..edge.clone() }, 10, &["edge-refusing"]);
    // One that only looks refuses everything.
    let agent = EdgeAgent { mode: Some("observe".into()), ..EdgeAgent::default() };
    told(Edge { refusals: 7, agent, ..edge.clone() }, 10, &[]);
    told(Edge { live: false, last_error: error, ..edge }, 600, &["edge-stale"]);
}

#[test]
fn a_webhook_may_be_down_for_a_while() {
    let webhook = |since: u64| Webhook {
        id: WebhookId(Uuid::nil()),
        url: "https://hooks.example.com".into(),
        events: Vec::new(),
        created_at: ago(9_999),
        after: EventCursor::default(),
        next_due_at: None,
        open_since: Some(ago(since)),
    };
    check(&Facts { webhooks: &[webhook(60)], ..quiet() }, &[]);
    check(&Facts { webhooks: &[webhook(1_000)], ..quiet() }, &["webhook-failing"]);
}

#[test]
fn the_queue_rest_and_failures_are_not_watched() {
    assert!(!watched(State::AcmeOrdering) && !watched(State::Active) && !watched(State::Failed));
    assert!(
        watched(State::Initial) && watched(State::Renewing) && watched(State::CertificateDeploying)
    );
}

#[test]
fn the_index_holds_exactly_the_watched_states() {
    for sql in [
        include_str!("../../../store/migrations/postgres/0003_webhook.sql"),
        include_str!("../../../store/migrations/sqlite/0003_webhook.sql"),
    ] {
        let index = sql.split("CREATE INDEX domain_stay").nth(1).unwrap();
        for state in State::ALL {
            assert_eq!(index.contains(&format!("'{state}'")), watched(*state), "{state}");
        }
    }
}

#[test]
fn a_log_that_grows_is_told() {
    assert!(alerts(&quiet()).is_empty());
    let facts = Facts { log_bytes: 300 << 20, ..quiet() };
    let alerts = alerts(&facts);
    assert_eq!((alerts[0].code, alerts.len()), ("database-log", 1));
}

#[test]
fn edges_are_not_called_stale_while_their_reports_cannot_be_stored() {
    let outage = holdfast_store::Outage::DiskFull;
    let trouble = Trouble { outage: Some(outage), detail: outage.to_string() };
    let stale = [Edge { live: false, ..edge() }];
    let facts = Facts { edges: &stale, ..quiet() };
    assert_eq!(alerts(&facts)[0].code, "edge-stale");
    let facts = Facts { edges: &stale, trouble: Some(&trouble), ..quiet() };
    let told: Vec<_> = alerts(&facts).iter().map(|alert| alert.code).collect();
    assert_eq!(told, ["database-unavailable"]);
}

fn wait(scope: WaitScope, key: &str, reason: &str) -> CaWait {
    let at = Timestamp::from_seconds(NOW);
    CaWait { scope, key: key.to_owned(), until: at, reason: reason.to_owned(), noted_at: at }
}

fn account() -> Account {
    Account {
        id: holdfast_store::AccountId(Uuid::nil()),
        directory: "https://ca.example/dir".into(),
        key: "key".to_owned().into(),
        next_key: None,
        email: None,
        url: None,
        paused_until: None,
        pause_reason: None,
        unusable: None,
        pin: None,
        halt: None,
        failing_since: None,
        failure: None,
        asked_again_at: None,
        next_slot_at: None,
        orders_left: None,
    }
}

#[test]
fn what_the_ca_has_paused_is_told_with_the_address_that_ends_it() {
    let account = account();
    check(&Facts { account: Some(&account), ..quiet() }, &[]);
    let words = "the CA refused the order: paused. Please visit: https://ca.test/unpause?jwt=a.b (rateLimited) [429]";
    let waits = [
        wait(WaitScope::PausedName, "shop.test", words),
        wait(WaitScope::RegisteredDomain, "limited.test", "too many"),
        wait(WaitScope::Name, "quiet.test", "too many"),
    ];
    let told = alerts(&Facts { account: Some(&account), waits: &waits, ..quiet() });
    let codes: Vec<_> = told.iter().map(|alert| alert.code).collect();
    assert_eq!(codes, ["ca-name-paused", "ca-domain-limited"]);
    assert!(told[0].fix.contains("https://ca.test/unpause?jwt=a.b,"), "{}", told[0].fix);
    assert_eq!(told[0].domains, ["shop.test"]);
    assert_eq!(told[1].domains, ["limited.test"]);
}

#[test]
fn a_ca_that_fails_is_told_after_a_minute_with_who_says_so() {
    let failing = |seconds: u64, code: &str| Account {
        failing_since: Some(ago(seconds)),
        failure: Some(format!("{code}: replica `one` says: the CA answered with a page")),
        ..account()
    };
    let short = failing(59, "ca-not-acme");
    check(&Facts { account: Some(&short), ..quiet() }, &[]);
    let long = failing(60, "ca-not-acme");
    let told = alerts(&Facts { account: Some(&long), ..quiet() }).remove(0);
    assert_eq!((told.code, told.severity), ("ca-unreachable", Severity::Critical));
    assert!(told.detail.contains(&ago(60).to_string()), "{told:?}");
    assert!(told.detail.contains("replica `one` says: the CA answered"), "{told:?}");
    let profile = failing(60, "acme-profile");
    check(&Facts { account: Some(&profile), ..quiet() }, &["ca-refusing"]);
    // Who waits for it is not stuck; who waits for something else is.
    let stay = |state| (state, vec![domain(1, state, 1)]);
    let staying = [stay(State::CertificateDownloading), stay(State::DnsVerifying)];
    let facts = Facts { staying: &staying, ..quiet() };
    check(&facts, &["stuck", "stuck"]);
    check(&Facts { account: Some(&long), ..facts }, &["stuck", "ca-unreachable"]);
}

#[test]
fn changed_terms_are_told_for_a_month() {
    let terms = |days: u64, replaced: Option<&str>| Terms {
        directory: "https://ca.example/dir".into(),
        url: "https://ca.example/2".into(),
        seen_at: ago(days * 86_400),
        agreed_at: Some(ago(days * 86_400)),
        replaced: replaced.map(ToOwned::to_owned),
    };
    check(&Facts { terms: Some(&terms(1, None)), ..quiet() }, &[]);
    let changed = terms(1, Some("https://ca.example/1"));
    check(&Facts { terms: Some(&changed), ..quiet() }, &["ca-terms-changed"]);
    let old = |days| terms(days, Some("https://ca.example/1"));
    check(&Facts { terms: Some(&old(30)), ..quiet() }, &["ca-terms-changed"]);
    check(&Facts { terms: Some(&old(31)), ..quiet() }, &[]);
}
