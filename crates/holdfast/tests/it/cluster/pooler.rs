//! PgBouncer before the database.

use holdfast_testkit::{Durability, PgBouncer, PoolMode, Postgres, Process, eventually};
use http::Method;
use serde_json::json;

use super::group::{Group, sql};
use crate::kit::{Ended, SOON, program, word};

/// What an operator sees of the sessions of requests.
const SETTINGS: &str = "SELECT DISTINCT application_name FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() ORDER BY 1";

#[tokio::test]
async fn a_pooler_in_session_mode_will_do() {
    let server = Postgres::start(Durability::Relaxed).await.unwrap();
    let direct = server.database().await.unwrap();
    let pooler = PgBouncer::before(server.port(), PoolMode::Session, 60, "").await.unwrap();
    let mut group = Group::start_on(pooler.lead(&direct), 2, 6, "").await;
    // The settings are in force: a statement waits for a lock no longer than they allow, and the server says so.
    sql(
        &direct,
        "CREATE TABLE setting_seen AS SELECT ''::text AS name, ''::text AS value LIMIT 0;
         CREATE FUNCTION note_settings() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             INSERT INTO setting_seen SELECT s, current_setting(s) FROM
                 unnest(ARRAY['statement_timeout', 'lock_timeout', 'enable_seqscan', 'synchronous_commit']) s;
             RETURN NEW; END $$;
         CREATE TRIGGER note_settings AFTER INSERT ON domain FOR EACH ROW EXECUTE FUNCTION note_settings();",
    );
    let add = json!({ "name": "shop.example.com" });
    let (status, reply) = group.ask(1, Method::POST, "/v1/domains", Some(&add)).await.unwrap();
    assert_eq!(status.as_u16(), 201, "{reply}");
    let seen = sql(
        &direct,
        "SELECT string_agg(name || '=' || value, ' ' ORDER BY name) FROM setting_seen",
    );
    let wanted = "enable_seqscan=off lock_timeout=10s statement_timeout=15s synchronous_commit=on";
    assert_eq!(seen.trim(), wanted);
    let names = sql(&direct, SETTINGS);
    assert!(names.contains("holdfast-lease"), "{names}");
    // Wake-ups pass: the next one leads at once.
    let (holder, term) = group.holder(0, "holdfast", 0).await;
    group.end(holder).await;
    let (next, _) = group.holder(1 - holder, "holdfast", term).await;
    assert_eq!(next, 1 - holder);
    let config = word(&group.config());
    let doctor = Ended::of(program().args(["doctor", "--config", &config]));
    assert!(doctor.stdout.contains("a replica keeps up to 22"), "{doctor:?}");
}

#[tokio::test]
async fn poolers_in_other_modes_are_refused() {
    let server = Postgres::shared().await.unwrap();
    let direct = server.database().await.unwrap();
    let mut group = Group::start_on(direct.clone(), 1, 6, "").await;
    group.end(0).await;
    for mode in [PoolMode::Transaction, PoolMode::Statement] {
        let pooler = PgBouncer::before(server.port(), mode, 20, "").await.unwrap();
        group.members[0].database = Some(pooler.lead(&direct));
        let process = Process::spawn("refused", &group.command(0)).unwrap();
        let status = process.wait(SOON).await.unwrap();
        assert!(!status.success());
        let log = process.log();
        assert!(log.contains("transaction or statement mode"), "{mode}: {log}");
        assert!(log.contains("pool_mode to session"), "{mode}: {log}");
        let config = word(&group.config());
        let mut doctor = program();
        doctor.args(["doctor", "--config", &config]);
        let doctor = Ended::of(doctor.env("HOLDFAST__DATABASE__URL", pooler.lead(&direct)));
        assert!(doctor.stdout.contains("pool_mode = session"), "{mode}: {doctor:?}");
        let mut migrate = program();
        migrate.args(["migrate", "--config", &config]);
        Ended::of(migrate.env("HOLDFAST__DATABASE__URL", pooler.lead(&direct)))
            .refused(1, &["transaction or statement mode"]);
    }
}

#[tokio::test]
async fn a_pooler_that_is_too_small_turns_health_away_from_green() {
    let server = Postgres::start(Durability::Relaxed).await.unwrap();
    let direct = server.database().await.unwrap();
    let pooler = PgBouncer::before(server.port(), PoolMode::Session, 8, "").await.unwrap();
    let mut group = Group::start_on(direct.clone(), 1, 6, "").await;
    group.end(0).await;
    group.members[0].database = Some(pooler.lead(&direct));
    group.begin(0).await;
    let health = async || {
        let (_, body) = group.ask(0, Method::GET, "/health", None).await?;
        Ok::<_, String>((body["results"]["database"]["status"].clone(), body.to_string()))
    };
    eventually(SOON, "health that is not green", async || {
        group.crowd(0).await;
        match health().await? {
            (status, body) if status != "Healthy" && body.contains("session") => Ok(()),
            (_, body) => Err(body),
        }
    })
    .await;
    // The sessions it has are enough to answer.
    eventually(SOON, "a write", async || {
        let add = json!({ "name": "shop.example.com" });
        match group.ask(0, Method::POST, "/v1/domains", Some(&add)).await? {
            (status, _) if status.is_success() => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}
