//! Edges: what they should serve, and what they were seen serving.

mod removal;
mod report;

use std::{collections::HashMap, time::Duration};

use async_trait::async_trait;
use holdfast_gateway::point::{Point, around};
use holdfast_model::{Domain, DomainId, Timestamp};
use uuid::Uuid;

use super::{SqliteStore, Tx, now, sql, time};
use crate::{
    Actor, Changes, DeploymentStatus, Desired, Edge, EdgeAgent, EdgeId, EdgeIdentity, EdgeReport,
    Edges, Fence, NewEdge, Page, Paged, Refusal, RemovedEdge, Result, Revision,
    edge::ListingPlace,
    page::{name_after, paged},
    row::{Fields as _, edge, identity, refusal, report, reports, revision},
};

const LIVE: Duration = Duration::from_secs(30);

/// What an edge `e` has not applied. As a join with the revision, all of its group would be read.
macro_rules! newer {
    ($limit:literal) => {
        concat!(
            "SELECT 1 FROM deployment p WHERE p.edge_group = e.edge_group
                    AND p.revision > (SELECT CASE WHEN e.epoch = r.epoch THEN e.revision ELSE 0 END FROM revision r)
                    ORDER BY p.revision LIMIT ",
            $limit
        )
    };
}

/// What an edge `e` refuses.
macro_rules! refused {
    ($limit:literal) => {
        concat!(
            "SELECT 1 FROM observation o JOIN domain d ON d.id = o.domain_id AND d.edge_group = e.edge_group
                    WHERE o.edge_id = e.id AND o.error_code IS NOT NULL LIMIT ",
            $limit
        )
    };
}

/// An edge `e` as people see it. A reader counts up to a hundred; of more it takes the number that was counted for all; `$1` is since when it counts as live. A sign of life in the future
/// is none.
macro_rules! select_edge {
    ($where:literal) => {
        concat!(
            "SELECT e.id, e.name, e.edge_group, e.last_seen_at, e.epoch, e.revision, e.error_code, e.error_detail,
                e.agent_version, e.agent_target, e.agent_mode, e.last_seen_at > $1 AND e.last_seen_at <= $1 + 35000000 AS live,
                (SELECT CASE WHEN count(*) > 100 THEN max(count(*), coalesce(k.behind, 0)) ELSE count(*) END FROM (",
            newer!("101"),
            ") newer) AS behind,
                (SELECT CASE WHEN count(*) > 100 THEN max(count(*), coalesce(k.refusals, 0)) ELSE count(*) END FROM (",
            refused!("101"),
            ") refused) AS refusals,
                (SELECT count(*) FROM stranger s WHERE s.edge_id = e.id) AS strangers,
                (SELECT count(*) FROM stranger s WHERE s.edge_id = e.id AND s.shadows) AS shadows
            FROM edge e LEFT JOIN edge_count k ON k.edge_id = e.id WHERE ",
            $where
        )
    };
}

/// One by one for all edges, so that no reader has to: up to so many.
const COUNT: &str = concat!(
    "WITH counted AS MATERIALIZED (
        SELECT e.id, (SELECT count(*) FROM (",
    newer!("10000"),
    ") newer) AS behind, (SELECT count(*) FROM (",
    refused!("10000"),
    ") refused) AS refusals FROM edge e)
    INSERT INTO edge_count AS k (edge_id, behind, refusals) SELECT id, behind, refusals FROM counted WHERE true
    ON CONFLICT (edge_id) DO UPDATE SET behind = excluded.behind, refusals = excluded.refusals
    WHERE (k.behind, k.refusals) IS NOT (excluded.behind, excluded.refusals)"
);
// Who met one of another group has dismissed it before.
const REGISTER: &str = "
    INSERT INTO edge (id, name, edge_group, registered_at, last_seen_at) VALUES ($1, $2, $3, $4, $4)
    ON CONFLICT (name) DO UPDATE SET last_seen_at = excluded.last_seen_at, error_code = NULL, error_detail = NULL";
const BY_NAME: &str = select_edge!("e.name = $2");
const ALL: &str = select_edge!("true ORDER BY e.name");
const IDENTITY: &str = "SELECT id, edge_group FROM edge WHERE name = $1";
const DESCRIBE: &str = "
    UPDATE edge SET agent_version = coalesce($2, agent_version), agent_target = coalesce($3, agent_target),
        agent_mode = coalesce($4, agent_mode)
    WHERE id = $1";
const REFUSALS: &str = "
    SELECT o.domain_id, d.name, o.sha256, o.error_code, o.error_detail, o.seen_at
    FROM observation o JOIN edge e ON e.id = o.edge_id JOIN domain d ON d.id = o.domain_id AND d.edge_group = e.edge_group
    WHERE o.edge_id = $1 AND o.error_code IS NOT NULL AND d.name > $2 ORDER BY d.name LIMIT $3";
const LATEST: &str = "SELECT epoch, number AS revision FROM revision";

// One statement, so that the counter and the rows are of the same moment.
const CHANGES: &str = "
    SELECT r.epoch, r.number AS latest, r.floor, p.name, p.domain_id, p.certificate_id, p.revision, c.sha256
    FROM revision r
    LEFT JOIN (SELECT * FROM deployment WHERE edge_group = $1 AND revision > $2 ORDER BY revision LIMIT $3) p
    LEFT JOIN certificate c ON c.id = p.certificate_id
    ORDER BY p.revision";

const DESIRED: &str = "
    SELECT r.epoch, r.number AS latest, p.name, p.domain_id, p.certificate_id, p.revision, c.sha256
    FROM revision r
    LEFT JOIN (SELECT * FROM deployment WHERE edge_group = $1 AND name > $2 AND certificate_id IS NOT NULL
        ORDER BY name LIMIT $3) p
    LEFT JOIN certificate c ON c.id = p.certificate_id
    ORDER BY p.name";

const NEXT: &str = "UPDATE revision SET number = number + 1 RETURNING number";
const DEPLOY: &str = "
    INSERT INTO deployment (name, edge_group, domain_id, certificate_id, revision, updated_at) VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (name, edge_group) DO UPDATE SET domain_id = excluded.domain_id,
        certificate_id = excluded.certificate_id, revision = excluded.revision, updated_at = excluded.updated_at";

macro_rules! status {
    ($which:literal) => {
        concat!(
            "
    SELECT d.id AS domain, r.epoch, p.revision AS deployed, p.certificate_id, p.updated_at, c.sha256 AS desired,
        $2 + 30000000 AS now, e.name AS edge,
        coalesce(e.last_seen_at > $2 AND e.last_seen_at <= $2 + 35000000, 0) AS live, coalesce(e.epoch = r.epoch AND e.revision >= p.revision, 0) AS reached,
        e.error_code AS complaint_code, e.error_detail AS complaint_detail,
        o.sha256 AS seen_sha256, o.error_code, o.error_detail, o.seen_at,
        (SELECT max(s.not_after) FROM certificate s WHERE s.sha256 = o.sha256) AS seen_not_after
    FROM domain d JOIN revision r
    LEFT JOIN deployment p ON p.name = d.name AND p.edge_group = d.edge_group AND p.domain_id = d.id
    LEFT JOIN certificate c ON c.id = p.certificate_id
    LEFT JOIN edge e ON e.edge_group = d.edge_group
    LEFT JOIN observation o ON o.domain_id = d.id AND o.edge_id = e.id
    WHERE ",
            $which,
            " ORDER BY d.id, e.name"
        )
    };
}

const STATUS: &str = status!("d.id = $1");
const STATUSES: &str = status!("d.id IN (SELECT unhex(value) FROM json_each($1))");

fn live_since() -> i64 {
    time(now().minus(LIVE))
}

#[async_trait]
impl Edges for SqliteStore {
    async fn register_edge(&self, new: &NewEdge) -> Result<Edge> {
        self.take_in(new).await?;
        let read = sql(BY_NAME).bind(live_since()).bind(new.name.as_str());
        edge(&self.readers.one("read an edge", read).await?)
    }

    async fn remove_edge(&self, name: &str, actor: &Actor) -> Result<Option<RemovedEdge>> {
        self.dismiss(name, actor).await
    }

    async fn describe_edge(&self, edge: EdgeId, agent: &EdgeAgent) -> Result<()> {
        let describe = sql(DESCRIBE)
            .bind(edge.0)
            .bind(agent.version.as_deref())
            .bind(agent.target.as_deref())
            .bind(agent.mode.as_deref());
        around(Point::STORE_OBSERVE, self.writer.execute("describe an edge", describe)).await?;
        Ok(())
    }

    async fn edge_named(&self, name: &str) -> Result<Option<Edge>> {
        let read = sql(BY_NAME).bind(live_since()).bind(name);
        let row = self.readers.row("read an edge", read).await?;
        row.as_ref().map(edge).transpose()
    }

    async fn edge_identity(&self, name: &str) -> Result<Option<EdgeIdentity>> {
        let row = self.readers.row("find an edge", sql(IDENTITY).bind(name)).await?;
        row.as_ref().map(identity).transpose()
    }

    async fn refusals(&self, edge: EdgeId, page: &Page) -> Result<Paged<Refusal>> {
        let after = name_after(page)?.unwrap_or_default();
        let statement = sql(REFUSALS).bind(edge.0).bind(after).bind(page.rows());
        let rows = self.readers.rows("list refusals", statement).await?;
        paged(&rows, page, |row| Ok((Some(refusal(row)?), row.text("name")?)))
    }

    async fn edges(&self) -> Result<Vec<Edge>> {
        let rows = self.readers.rows("list edges", sql(ALL).bind(live_since())).await?;
        rows.iter().map(edge).collect()
    }

    async fn latest_revision(&self) -> Result<Revision> {
        revision(&self.readers.one("read the latest revision", sql(LATEST)).await?)
    }

    async fn changes(&self, group: &str, after: Revision, limit: u32) -> Result<Changes> {
        let limit = limit.max(1);
        let statement = sql(CHANGES).bind(group).bind(after.number).bind(i64::from(limit));
        let rows = self.readers.rows("read changes", statement).await?;
        Changes::read(&rows, after, limit)
    }

    async fn desired(&self, group: &str, page: &Page) -> Result<Desired> {
        let place = ListingPlace::of(page)?;
        let statement = sql(DESIRED).bind(group).bind(place.after.clone()).bind(page.rows());
        let rows = self.readers.rows("list what is desired", statement).await?;
        Desired::read(&rows, &place, page)
    }

    async fn open_session(&self, edge: EdgeId) -> Result<i64> {
        self.begin_session(edge).await
    }

    async fn observe(&self, edge: EdgeId, report: &EdgeReport, actor: &Actor) -> Result<()> {
        let topics = around(Point::STORE_OBSERVE, self.take_report(edge, report, actor)).await?;
        self.tell(&topics);
        Ok(())
    }

    async fn deployment(&self, domain: DomainId) -> Result<DeploymentStatus> {
        let statement = sql(STATUS).bind(domain.0).bind(live_since());
        report(&self.readers.rows("look at a deployment", statement).await?)
    }

    async fn deployments(
        &self,
        domains: &[DomainId],
    ) -> Result<HashMap<DomainId, DeploymentStatus>> {
        let ids: Vec<_> = domains.iter().map(|domain| domain.0.simple().to_string()).collect();
        let ids = serde_json::to_string(&ids).unwrap_or_default();
        let statement = sql(STATUSES).bind(ids).bind(live_since());
        reports(&self.readers.rows("look at deployments", statement).await?)
    }
}

/// A number for what is deployed next.
pub(super) async fn next_revision(transaction: &mut Tx) -> Result<i64> {
    transaction.one(sql(NEXT)).await?.number("number")
}

/// Makes a certificate, or nothing, what the domain's group should serve for its name.
pub(super) async fn deploy(
    transaction: &mut Tx,
    domain: &Domain,
    certificate: Option<Uuid>,
    number: i64,
) -> Result<()> {
    let at: Timestamp = now();
    let statement = sql(DEPLOY)
        .bind(domain.name.as_str())
        .bind(domain.edge_group.as_str())
        .bind(domain.id.0)
        .bind(certificate)
        .bind(number)
        .bind(time(at));
    transaction.execute(statement).await?;
    Ok(())
}

impl SqliteStore {
    pub(super) async fn count_all_edges(&self, fence: Option<&Fence>) -> Result<u64> {
        let mut transaction = self.fenced("count what edges are behind", fence).await?;
        let changed = transaction.execute(sql(COUNT)).await?.rows_affected();
        transaction.commit().await?;
        Ok(changed)
    }
}
