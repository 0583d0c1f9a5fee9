//! Edges: what they should serve, and what they were seen serving.

mod removal;
mod report;

use std::collections::HashMap;

use async_trait::async_trait;
use holdfast_gateway::point::{Point, around};
use holdfast_model::DomainId;
use uuid::Uuid;

use super::{PostgresStore, collision_free, sql};
use crate::{
    Actor, Changes, DeploymentStatus, Desired, Edge, EdgeAgent, EdgeId, EdgeIdentity, EdgeReport,
    Edges, Fence, NewEdge, Page, Paged, Refusal, RemovedEdge, Result, Revision,
    edge::ListingPlace,
    page::{name_after, paged},
    row::{Fields as _, edge, identity, refusal, report, reports, revision},
};

/// Was it seen lately? A sign of life in the future is none.
macro_rules! live {
    () => {
        "(e.last_seen_at > clock_timestamp() - interval '30 seconds' AND e.last_seen_at <= clock_timestamp() + interval '5 seconds')"
    };
}

use live;

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

/// An edge `e` as people see it. A reader counts up to a hundred; of more it takes the number that was counted for all.
macro_rules! select_edge {
    ($where:literal) => {
        concat!(
            "SELECT e.id, e.name, e.edge_group, e.last_seen_at, e.epoch, e.revision, e.error_code, e.error_detail,
                e.agent_version, e.agent_target, e.agent_mode, ",
            live!(),
            " AS live,
                (SELECT CASE WHEN count(*) > 100 THEN greatest(count(*), coalesce(k.behind, 0)) ELSE count(*) END FROM (",
            newer!("101"),
            ") newer) AS behind,
                (SELECT CASE WHEN count(*) > 100 THEN greatest(count(*), coalesce(k.refusals, 0)) ELSE count(*) END FROM (",
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
    INSERT INTO edge_count AS k (edge_id, behind, refusals) SELECT id, behind, refusals FROM counted
    ON CONFLICT (edge_id) DO UPDATE SET behind = EXCLUDED.behind, refusals = EXCLUDED.refusals
    WHERE (k.behind, k.refusals) IS DISTINCT FROM (EXCLUDED.behind, EXCLUDED.refusals)"
);
// Who met one of another group has dismissed it before.
const REGISTER: &str = "
    INSERT INTO edge AS e (id, name, edge_group, registered_at, last_seen_at)
    VALUES ($1, $2, $3, clock_timestamp(), clock_timestamp())
    ON CONFLICT (name) DO UPDATE SET last_seen_at = EXCLUDED.last_seen_at, error_code = NULL, error_detail = NULL
    WHERE e.edge_group = EXCLUDED.edge_group";
const BY_NAME: &str = select_edge!("e.name = $1");
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
    LEFT JOIN LATERAL (SELECT * FROM deployment WHERE edge_group = $1 AND revision > $2 ORDER BY revision LIMIT $3) p ON true
    LEFT JOIN certificate c ON c.id = p.certificate_id
    ORDER BY p.revision";

const DESIRED: &str = "
    SELECT r.epoch, r.number AS latest, p.name, p.domain_id, p.certificate_id, p.revision, c.sha256
    FROM revision r
    LEFT JOIN LATERAL (SELECT * FROM deployment WHERE edge_group = $1 AND name > $2 AND certificate_id IS NOT NULL
        ORDER BY name LIMIT $3) p ON true
    LEFT JOIN certificate c ON c.id = p.certificate_id
    ORDER BY p.name";

macro_rules! status {
    ($which:literal) => {
        concat!(
            "
    SELECT d.id AS domain, r.epoch, p.revision AS deployed, p.certificate_id, p.updated_at, c.sha256 AS desired,
        clock_timestamp() AS now, e.name AS edge, ",
            live!(),
            " AS live,
        e.epoch = r.epoch AND e.revision >= p.revision IS TRUE AS reached,
        e.error_code AS complaint_code, e.error_detail AS complaint_detail,
        o.sha256 AS seen_sha256, o.error_code, o.error_detail, o.seen_at,
        (SELECT max(s.not_after) FROM certificate s WHERE s.sha256 = o.sha256) AS seen_not_after
    FROM domain d CROSS JOIN revision r
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
const STATUSES: &str = status!("d.id = ANY($1::uuid[])");

#[async_trait]
impl Edges for PostgresStore {
    async fn register_edge(&self, new: &NewEdge) -> Result<Edge> {
        collision_free(|| self.take_in(new)).await?;
        edge(&self.pool.one("read an edge", sql(BY_NAME).bind(new.name.as_str())).await?)
    }

    async fn remove_edge(&self, name: &str, actor: &Actor) -> Result<Option<RemovedEdge>> {
        collision_free(|| self.dismiss(name, actor)).await
    }

    async fn describe_edge(&self, edge: EdgeId, agent: &EdgeAgent) -> Result<()> {
        let describe = sql(DESCRIBE)
            .bind(edge.0)
            .bind(agent.version.as_deref())
            .bind(agent.target.as_deref())
            .bind(agent.mode.as_deref());
        around(Point::STORE_OBSERVE, self.pool.execute("describe an edge", describe)).await?;
        Ok(())
    }

    async fn edge_named(&self, name: &str) -> Result<Option<Edge>> {
        let row = self.pool.row("read an edge", sql(BY_NAME).bind(name)).await?;
        row.as_ref().map(edge).transpose()
    }

    async fn edge_identity(&self, name: &str) -> Result<Option<EdgeIdentity>> {
        let row = self.pool.row("find an edge", sql(IDENTITY).bind(name)).await?;
        row.as_ref().map(identity).transpose()
    }

    async fn refusals(&self, edge: EdgeId, page: &Page) -> Result<Paged<Refusal>> {
        let after = name_after(page)?.unwrap_or_default();
        let statement = sql(REFUSALS).bind(edge.0).bind(after).bind(page.rows());
        let rows = self.pool.rows("list refusals", statement).await?;
        paged(&rows, page, |row| Ok((Some(refusal(row)?), row.text("name")?)))
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

    async fn desired(&self, group: &str, page: &Page) -> Result<Desired> {
        let place = ListingPlace::of(page)?;
        let statement = sql(DESIRED).bind(group).bind(place.after.clone()).bind(page.rows());
        let rows = self.pool.rows("list what is desired", statement).await?;
        Desired::read(&rows, &place, page)
    }

    async fn open_session(&self, edge: EdgeId) -> Result<i64> {
        self.begin_session(edge).await
    }

    async fn observe(&self, edge: EdgeId, report: &EdgeReport, actor: &Actor) -> Result<()> {
        collision_free(|| self.take_report(edge, report, actor)).await
    }

    async fn deployment(&self, domain: DomainId) -> Result<DeploymentStatus> {
        report(&self.pool.rows("look at a deployment", sql(STATUS).bind(domain.0)).await?)
    }

    async fn deployments(
        &self,
        domains: &[DomainId],
    ) -> Result<HashMap<DomainId, DeploymentStatus>> {
        let ids: Vec<Uuid> = domains.iter().map(|domain| domain.0).collect();
        reports(&self.pool.rows("look at deployments", sql(STATUSES).bind(ids)).await?)
    }
}

impl PostgresStore {
    pub(super) async fn count_all_edges(&self, fence: Option<&Fence>) -> Result<u64> {
        let mut transaction = self.fenced("count what edges are behind", fence).await?;
        let changed = transaction.execute(sql(COUNT)).await?.rows_affected();
        transaction.commit().await?;
        Ok(changed)
    }
}
