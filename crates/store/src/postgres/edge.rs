//! Edges: what they should serve, and what they were seen serving.

use std::collections::BTreeMap;

use async_trait::async_trait;
use holdfast_gateway::point::{Point, around};
use holdfast_model::{DomainId, Note};
use sqlx::Postgres;
use uuid::Uuid;

use super::{PostgresStore, TRIES, domain::due_unless_claimed, is_collision, sql};
use crate::{
    Changes, DeploymentStatus, Edge, EdgeId, EdgeReport, Edges, Error, NewEdge, Observation,
    Result, Revision, Topic,
    pool::Statement,
    row::{Fields as _, edge, report, revision},
};

/// An edge `e` as people see it.
macro_rules! select_edge {
    ($where:literal) => {
        concat!(
            "SELECT e.*, e.last_seen_at > clock_timestamp() - interval '30 seconds' AS live,
                (SELECT count(*) FROM deployment p, revision r WHERE p.edge_group = e.edge_group
                    AND p.revision > CASE WHEN e.epoch = r.epoch THEN e.revision ELSE 0 END) AS behind
            FROM edge e WHERE ",
            $where
        )
    };
}

const REGISTER: &str = "
    INSERT INTO edge AS e (id, name, edge_group, registered_at, last_seen_at)
    VALUES ($1, $2, $3, clock_timestamp(), clock_timestamp())
    ON CONFLICT (name) DO UPDATE SET edge_group = EXCLUDED.edge_group, last_seen_at = EXCLUDED.last_seen_at,
        epoch = CASE WHEN e.edge_group = EXCLUDED.edge_group THEN e.epoch ELSE 0 END,
        revision = CASE WHEN e.edge_group = EXCLUDED.edge_group THEN e.revision ELSE 0 END";
const BY_NAME: &str = select_edge!("e.name = $1");
const ALL: &str = select_edge!("true ORDER BY e.name");
const LATEST: &str = "SELECT epoch, number AS revision FROM revision";

// One statement, so that the counter and the rows are of the same moment.
const CHANGES: &str = "
    SELECT r.epoch, r.number AS latest, p.name, p.domain_id, p.certificate_id, p.revision, c.sha256
    FROM revision r
    LEFT JOIN LATERAL (SELECT * FROM deployment WHERE edge_group = $1 AND revision > $2 ORDER BY revision LIMIT $3) p ON true
    LEFT JOIN certificate c ON c.id = p.certificate_id
    ORDER BY p.revision";

/// The report is kept, and what waits for it becomes due: domains being deployed, those being removed, and those whose deployment had
/// failed but are served now. What a failing edge repeats must not drive them round and round.
const OBSERVE: &str = concat!(
    "WITH before AS (SELECT id, edge_group, epoch, revision FROM edge WHERE id = $1 FOR UPDATE),
    heard AS (UPDATE edge e SET last_seen_at = clock_timestamp(), epoch = $2, revision = $3, error_code = $4, error_detail = $5
        FROM before b WHERE e.id = b.id RETURNING e.id),
    said AS (SELECT * FROM unnest($6::uuid[], $7::text[], $8::text[], $9::text[]) AS s (domain_id, sha256, code, detail)),
    kept AS (
        INSERT INTO observation (domain_id, edge_id, sha256, error_code, error_detail, seen_at)
        SELECT s.domain_id, heard.id, s.sha256, s.code, s.detail, clock_timestamp()
        FROM heard, said s JOIN domain d ON d.id = s.domain_id AND d.removed_at IS NULL
        ON CONFLICT (domain_id, edge_id) DO UPDATE SET sha256 = EXCLUDED.sha256, error_code = EXCLUDED.error_code,
            error_detail = EXCLUDED.error_detail, seen_at = EXCLUDED.seen_at),
    gone AS (
        SELECT p.domain_id FROM before b JOIN deployment p ON p.edge_group = b.edge_group AND p.certificate_id IS NULL
            AND p.revision > CASE WHEN b.epoch = $2 THEN b.revision ELSE 0 END AND p.revision <= $3),
    waiting AS (
        SELECT d.id FROM domain d LEFT JOIN certificate c ON c.id = d.certificate_id LEFT JOIN said s ON s.domain_id = d.id
        WHERE d.id IN (SELECT domain_id FROM said UNION SELECT domain_id FROM gone) AND d.removed_at IS NULL
          AND (d.removing_since IS NOT NULL OR d.state = 'CertificateDeploying'
               OR (d.state = 'CertificateDeploymentFailed' AND s.sha256 = c.sha256))
        ORDER BY d.id FOR UPDATE OF d),
    nudged AS (UPDATE domain d SET nudged = true, ",
    due_unless_claimed!(),
    "   FROM waiting w, heard WHERE d.id = w.id RETURNING d.id)
    SELECT (SELECT count(*) FROM nudged) AS nudged FROM heard"
);

const STATUS: &str = "
    SELECT r.epoch, p.revision AS deployed, p.certificate_id, p.updated_at, c.sha256 AS desired,
        e.name AS edge, e.last_seen_at > clock_timestamp() - interval '30 seconds' AS live,
        e.epoch = r.epoch AND e.revision >= p.revision IS TRUE AS reached,
        o.sha256 AS seen_sha256, o.error_code, o.error_detail, o.seen_at
    FROM domain d CROSS JOIN revision r
    LEFT JOIN deployment p ON p.name = d.name AND p.edge_group = d.edge_group AND p.domain_id = d.id
    LEFT JOIN certificate c ON c.id = p.certificate_id
    LEFT JOIN edge e ON e.edge_group = d.edge_group
    LEFT JOIN observation o ON o.domain_id = d.id AND o.edge_id = e.id
    WHERE d.id = $1 ORDER BY e.name";

#[async_trait]
impl Edges for PostgresStore {
    async fn register_edge(&self, new: &NewEdge) -> Result<Edge> {
        let (name, group) = (new.name.as_str(), new.group.as_str());
        let register = sql(REGISTER).bind(Uuid::now_v7()).bind(name).bind(group);
        around(Point::STORE_OBSERVE, self.pool.execute("register an edge", register)).await?;
        edge(&self.pool.one("read an edge", sql(BY_NAME).bind(name)).await?)
    }

    async fn edges(&self) -> Result<Vec<Edge>> {
        self.pool.rows("list edges", sql(ALL)).await?.iter().map(edge).collect()
    }

    async fn latest_revision(&self) -> Result<Revision> {
        revision(&self.pool.one("read the latest revision", sql(LATEST)).await?)
    }

    async fn changes(&self, group: &str, after: Revision, limit: u32) -> Result<Changes> {
        let limit = limit.max(1);
        let statement = sql(CHANGES).bind(group).bind(after.number).bind(i64::from(limit));
        let rows = self.pool.rows("read changes", statement).await?;
        Changes::read(&rows, after, limit)
    }

    async fn observe(&self, edge: EdgeId, report: &EdgeReport) -> Result<()> {
        let mut tries = 0;
        loop {
            let observe = self.pool.row("take a report", observed(edge, report));
            let row = match around(Point::STORE_OBSERVE, observe).await {
                Err(error) if is_collision(&error) && tries < TRIES => {
                    tries += 1;
                    continue;
                }
                done => done?.ok_or(Error::NotFound("edge"))?,
            };
            if row.number("nudged")? > 0 {
                self.herald.tell(&[Topic::Work]);
            }
            return Ok(());
        }
    }

    async fn deployment(&self, domain: DomainId) -> Result<DeploymentStatus> {
        report(&self.pool.rows("look at a deployment", sql(STATUS).bind(domain.0)).await?)
    }
}

fn observed(edge: EdgeId, report: &EdgeReport) -> Statement<Postgres> {
    // Said twice in one report: the later word counts.
    let said: BTreeMap<Uuid, &Observation> =
        report.observations.iter().map(|one| (one.domain.0, one)).collect();
    let code = |note: &Note| note.code.to_string();
    let detail = |note: &Note| note.detail.clone();
    sql(OBSERVE)
        .bind(edge.0)
        .bind(report.up_to.epoch)
        .bind(report.up_to.number)
        .bind(report.error.as_ref().map(code))
        .bind(report.error.as_ref().map(detail))
        .bind(said.keys().copied().collect::<Vec<_>>())
        .bind(said.values().map(|one| one.sha256.clone()).collect::<Vec<_>>())
        .bind(said.values().map(|one| one.error.as_ref().map(code)).collect::<Vec<_>>())
        .bind(said.values().map(|one| one.error.as_ref().map(detail)).collect::<Vec<_>>())
}
