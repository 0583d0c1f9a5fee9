//! The database's clock steps while the replicas' clocks are right. Once it is right again nobody
//! waits for what it said meanwhile.

use std::time::{Duration, Instant};

use holdfast_testkit::{Faketime, eventually, pace};
use http::Method;
use serde_json::Value;

use super::{
    is_soak, judge,
    member::{Fleet, Plan},
};
use crate::{
    kit::{Ended, SOON, word},
    replica::{Database, Network, Replica},
};

const HOUR: i64 = 3600;
const MONTH: i64 = 30 * 24 * HOUR;

/// How long the clock is wrong.
const WRONG: Duration = Duration::from_secs(12);

/// Within so long after the clock is right again all is as if it had never been wrong.
const RECOVERED: Duration = Duration::from_secs(60);

/// A name that is never pointed at us.
const UNSEEN: &str = "unseen.test";

/// Names that are added before, during and after the wrong time.
const BATCH: usize = 12;

#[tokio::test]
async fn a_month_ahead_and_back() {
    wrong_for_a_moment(&["all"], MONTH, true).await;
}

#[tokio::test]
async fn two_hours_ahead_and_back() {
    wrong_for_a_moment(&["all", "all"], 2 * HOUR, true).await;
}

#[tokio::test]
async fn two_hours_back_and_ahead() {
    wrong_for_a_moment(&["all", "all"], -2 * HOUR, true).await;
}

/// Every step, idle and under load, by one replica and by three: a test each, since each takes its minutes.
macro_rules! in_soak {
    ($($name:ident: $roles:expr, $error:expr, $load:expr;)*) => {
        mod in_soak {
            use super::{HOUR, MONTH, is_soak, wrong_for_a_moment};

            $(#[tokio::test]
            async fn $name() {
                if is_soak() {
                    wrong_for_a_moment(&$roles, $error, $load).await;
                }
            })*
        }
    };
}

in_soak! {
    one_idle_30_s_ahead: ["all"], 30, false;
    one_idle_30_s_back: ["all"], -30, false;
    one_idle_2_h_ahead: ["all"], 2 * HOUR, false;
    one_idle_2_h_back: ["all"], -2 * HOUR, false;
    one_idle_4_h_back: ["all"], -4 * HOUR, false;
    one_idle_a_month_ahead: ["all"], MONTH, false;
    one_at_work_30_s_ahead: ["all"], 30, true;
    one_at_work_30_s_back: ["all"], -30, true;
    one_at_work_2_h_ahead: ["all"], 2 * HOUR, true;
    one_at_work_2_h_back: ["all"], -2 * HOUR, true;
    one_at_work_4_h_back: ["all"], -4 * HOUR, true;
    one_at_work_a_month_ahead: ["all"], MONTH, true;
    three_idle_30_s_ahead: ["all"; 3], 30, false;
    three_idle_30_s_back: ["all"; 3], -30, false;
    three_idle_2_h_ahead: ["all"; 3], 2 * HOUR, false;
    three_idle_2_h_back: ["all"; 3], -2 * HOUR, false;
    three_idle_4_h_back: ["all"; 3], -4 * HOUR, false;
    three_idle_a_month_ahead: ["all"; 3], MONTH, false;
    three_at_work_30_s_ahead: ["all"; 3], 30, true;
    three_at_work_30_s_back: ["all"; 3], -30, true;
    three_at_work_2_h_ahead: ["all"; 3], 2 * HOUR, true;
    three_at_work_2_h_back: ["all"; 3], -2 * HOUR, true;
    three_at_work_4_h_back: ["all"; 3], -4 * HOUR, true;
    three_at_work_a_month_ahead: ["all"; 3], MONTH, true;
}

/// It had been wrong for long, and is set right while orders are under way.
#[tokio::test]
async fn hours_ahead_and_set_right_for_good() {
    let fleet = start(&["all"], 4 * HOUR).await;
    add(&fleet, "before").await;
    all_active(&fleet, BATCH, SOON).await;
    add(&fleet, "under-way").await;
    fleet.clock.as_ref().unwrap().step(0).unwrap();
    let right = Instant::now();
    add(&fleet, "after").await;
    settled(&fleet, 3 * BATCH, right).await;
}

async fn start(roles: &'static [&'static str], error: i64) -> Fleet {
    let clock = Faketime::new().unwrap();
    clock.step(error).unwrap();
    // As many orders as the largest public CA allows: a budget that matters.
    let environment = |_: &str, _: &Network| {
        let settings = [
            ("HOLDFAST__ACME__MAX_NEW_ORDERS_PER_3H", "300"),
            ("HOLDFAST__PROVISIONING__DNS_ATTEMPTS", "1"),
        ];
        settings.map(|(key, value)| (key, value.to_owned())).to_vec()
    };
    Fleet::start(Plan {
        roles,
        extra: "[provisioning]\nclaim_seconds = 10",
        environment: Box::new(environment),
        clock: Some(clock),
        ..Plan::default()
    })
    .await
}

async fn add(fleet: &Fleet, label: &str) {
    let names: Vec<_> = (0..BATCH).map(|at| format!("{label}-{at}.test")).collect();
    judge::add(fleet, &names).await;
}

async fn wrong_for_a_moment(roles: &'static [&'static str], error: i64, load: bool) {
    let mut fleet = start(roles, 0).await;
    add(&fleet, "before").await;
    all_active(&fleet, BATCH, SOON).await;
    watched(&fleet).await;
    fleet.network.run(["fault", "set", "slow-request", "300"]).done();
    let mut count = BATCH;
    if load {
        add(&fleet, "under-way").await;
        count += BATCH;
        eventually(SOON, "orders to be under way", async || {
            let open = fleet.count("SELECT count(*) FROM acme_order WHERE ended_at IS NULL");
            if open > 0 { Ok(()) } else { Err("none") }
        })
        .await;
    }
    let doomed = roles.len() - 1;
    if doomed > 0 {
        fleet.members[doomed].kill().await;
    }
    let step = |fleet: &Fleet, to| fleet.clock.as_ref().unwrap().step(to).unwrap();
    step(&fleet, error);
    if load {
        add(&fleet, "meanwhile").await;
        count += BATCH;
    }
    if doomed > 0 && error < -60 {
        dead(&fleet, doomed).await;
    }
    if error >= HOUR {
        ages_doubted(&fleet, true).await;
    }
    pace(WRONG).await;
    step(&fleet, 0);
    let right = Instant::now();
    fleet.network.run(["fault", "clear"]).done();
    add(&fleet, "after").await;
    settled(&fleet, count + BATCH, right).await;
    told(&fleet, error).await;
    ages_doubted(&fleet, false).await;
    let history = fleet.insist(Method::GET, &format!("/v1/domains/{UNSEEN}/history"), None).await;
    let failed = history["items"].as_array().unwrap().iter().any(|row| row["to"] == "Failed");
    assert!(!failed, "the jump gave up a name that had days left: {history:#}");
}

/// A name that nobody has pointed at us yet stays under watch for days, whatever the clock says
/// meanwhile.
async fn watched(fleet: &Fleet) {
    fleet.network.run(["dns", "set", UNSEEN, "NONE", "-"]).done();
    judge::add(fleet, &[UNSEEN.to_owned()]).await;
    eventually(SOON, "the name to be under watch", async || {
        let domain = fleet.insist(Method::GET, &format!("/v1/domains/{UNSEEN}"), None).await;
        if domain["state"] == "DnsVerificationFailed" { Ok(()) } else { Err(domain.to_string()) }
    })
    .await;
}

/// The jump is noted for replicas that start after it, until it is taken back.
async fn ages_doubted(fleet: &Fleet, doubted: bool) {
    eventually(SOON, "a jump to be noted, or taken back", async || {
        let noted = fleet.count("SELECT count(*) FROM setting WHERE key = 'ages_doubted_until'");
        if noted == u64::from(doubted) { Ok(()) } else { Err(format!("{noted}")) }
    })
    .await;
}

/// Who was killed just before the clock was set back was last seen in the future. That is no sign
/// of life.
async fn dead(fleet: &Fleet, at: usize) {
    eventually(SOON, "the dead replica to count as dead", async || {
        let replicas = fleet.insist(Method::GET, "/v1/replicas", None).await;
        let all = replicas["items"].as_array().unwrap();
        let killed = all.iter().find(|one| one["instance_id"] == format!("replica-{at}"));
        match killed {
            Some(killed) if killed["healthy"] == true => Err(killed.to_string()),
            _ => Ok(()),
        }
    })
    .await;
}

/// Nobody helps: no name is left behind, none was ordered over and over, and nothing waits that
/// need not.
async fn settled(fleet: &Fleet, count: usize, right: Instant) {
    all_active(fleet, count, RECOVERED.saturating_sub(right.elapsed())).await;
    // A renewal that the wrong clock called for is allowed; a second one of the same name is not.
    judge::finalized_at_most(fleet, 2).await;
    judge::nothing_left(fleet).await;
    let waits = fleet.count(
        "SELECT (SELECT count(*) FROM domain WHERE updated_at > clock_timestamp() + interval '10 s' OR entered_at > clock_timestamp() + interval '10 s')
              + (SELECT count(*) FROM acme_account WHERE budget_at > clock_timestamp() + interval '3 hours' OR paused_until > clock_timestamp() + interval '1 hour')
              + (SELECT count(*) FROM domain WHERE next_attempt_at > clock_timestamp() + interval '1 hour' AND state <> 'Active')
              + (SELECT count(*) FROM replica WHERE beat_at > clock_timestamp() + interval '10 s')",
    );
    assert_eq!(waits, 0, "moments are left in the future");
}

async fn all_active(fleet: &Fleet, count: usize, within: Duration) {
    eventually(within, "all domains to be Active", async || {
        let mut domains = judge::domains(fleet).await;
        domains.retain(|domain| domain["name"] != UNSEEN);
        let open: Vec<_> = domains.iter().filter(|domain| domain["state"] != "Active").collect();
        let told = |domain: &&Value| {
            let (name, state) = (&domain["name"], &domain["state"]);
            format!(
                "{name} is {state} until {}: {}",
                domain["next_attempt_at"], domain["last_error"]
            )
        };
        match open.first() {
            None if domains.len() == count => Ok(()),
            first => Err(format!("{} of {}; {:?}", open.len(), domains.len(), first.map(told))),
        }
    })
    .await;
}

/// The step is an alert, with its size.
async fn told(fleet: &Fleet, error: i64) {
    let alerts = fleet.insist(Method::GET, "/v1/alerts", None).await;
    let all = alerts["items"].as_array().unwrap();
    let step = all.iter().find(|alert| alert["code"] == "clock-stepped");
    let detail = step.unwrap_or_else(|| panic!("no such alert: {alerts}"))["detail"].to_string();
    let direction = if error > 0 { "back" } else { "ahead" };
    assert!(detail.contains(direction), "{detail}");
}

/// Whatever drops by age, wherever it is registered, does nothing at a replica that was started after the jump.
#[tokio::test]
async fn nothing_is_dropped_by_its_age_where_a_jump_is_noted() {
    const PRUNED: &str =
        "SELECT count(*) FROM task WHERE name LIKE 'prune-%' OR name = 'sweep-challenges'";
    let mut fleet = Fleet::start(Plan { roles: &["all"], ..Plan::default() }).await;
    // It is due after everything that drops by age, so by then each of these had its turn.
    let all_had_their_turn = async |fleet: &Fleet| {
        eventually(SOON, "the last task", async || {
            match fleet.count("SELECT count(*) FROM task WHERE name = 'bring-moments-back'") {
                0 => Err("none"),
                _ => Ok(()),
            }
        })
        .await;
    };
    all_had_their_turn(&fleet).await;
    assert_eq!(fleet.count(PRUNED), 12);
    fleet.members[0].kill().await;
    fleet.sql(
        "DELETE FROM task;
         INSERT INTO setting (key, value) VALUES ('ages_doubted_until', (clock_timestamp() + interval '1 hour')::text)",
    );
    fleet.begin(0).await;
    all_had_their_turn(&fleet).await;
    assert_eq!(fleet.count(PRUNED), 0);
}

/// Where SQLite is the database, its clock is the process's own.
#[tokio::test]
async fn the_clock_of_a_replica_on_sqlite_steps() {
    a_replica_on_sqlite(true).await;
}

/// Nothing asks for the time but what asks now and then by itself.
#[tokio::test]
async fn the_clock_of_an_idle_replica_on_sqlite_steps() {
    a_replica_on_sqlite(false).await;
}

/// Waits until no domain is stored so.
async fn none_of(replica: &Replica, condition: &str, within: Duration) {
    let file = word(&replica.scratch.path().join("holdfast.db"));
    let query = format!("SELECT count(*) FROM domain WHERE {condition}");
    eventually(within, condition, async || {
        let mut sqlite = std::process::Command::new("sqlite3");
        sqlite.args(["-readonly", "-cmd", ".timeout 10000", &file, &query]);
        let stored = Ended::of(&mut sqlite).done().stdout;
        if stored.trim() == "0" { Ok(()) } else { Err(stored) }
    })
    .await;
}

async fn a_replica_on_sqlite(load: bool) {
    let network = Network::start().await;
    let clock = Faketime::new().unwrap();
    let watch = "[provisioning]\ndns_attempts = 1";
    let mut replica = Replica::prepare(&network, Database::Sqlite, watch).await;
    replica.begin_by(&clock).await;
    let add = |label: &str| {
        for at in 0..4 {
            replica.run(["domain", "add", &format!("{label}-{at}.test")]).done();
        }
    };
    let all_active = async |count: usize, within: Duration| {
        eventually(within, "all domains to be Active", async || {
            let list = replica.run(["domain", "list", "--output", "json"]).done().json();
            let mut domains = list["items"].as_array().unwrap().clone();
            domains.retain(|domain| domain["name"] != UNSEEN);
            let open: Vec<_> = domains.iter().filter(|one| one["state"] != "Active").collect();
            match open.first() {
                None if domains.len() == count => Ok(()),
                first => Err(format!("{} of {}: {first:?}", open.len(), domains.len())),
            }
        })
        .await;
    };
    network.run(["dns", "set", UNSEEN, "NONE", "-"]).done();
    replica.run(["domain", "add", UNSEEN]).done();
    none_of(&replica, "state <> 'DnsVerificationFailed'", SOON).await;
    add("before");
    all_active(4, SOON).await;
    for (count, (label, error)) in [("month", MONTH), ("hours", -2 * HOUR)].into_iter().enumerate()
    {
        if load {
            network.run(["fault", "set", "slow-request", "300"]).done();
            add(&format!("{label}-under-way"));
        }
        clock.step(error).unwrap();
        if load {
            add(&format!("{label}-meanwhile"));
        }
        pace(WRONG).await;
        clock.step(0).unwrap();
        let right = Instant::now();
        network.run(["fault", "clear"]).done();
        add(&format!("{label}-after"));
        let each = if load { 12 } else { 4 };
        let left = || RECOVERED.saturating_sub(right.elapsed());
        all_active(4 + each * (count + 1), left()).await;
        none_of(&replica, "updated_at > (unixepoch() + 10) * 1000000", left()).await;
        let far = "state <> 'Active' AND next_attempt_at > (unixepoch() + 3600) * 1000000";
        none_of(&replica, far, left()).await;
    }
    let doctor = replica.run(["doctor"]);
    assert!(doctor.stdout.contains("clock stepped"), "{doctor:?}");
}
