//! Removal: the name stays taken until the teardown is complete, and every step can be repeated.

use std::time::Duration;

use sqlx::Postgres;

use super::{PostgresStore, collision_free, micros, sql};
use crate::{
    Actor, Claimed, Error, Result, Topic,
    pool::Statement,
    row::{claimed, domain_columns},
};

/// Is it still ours?
macro_rules! ours {
    () => {
        "id = $1 AND claim_epoch = $2 AND version - unseen = $3 AND incarnation = $4 AND claimed_until > clock_timestamp() AND removing_since IS NOT NULL"
    };
}

const TEAR_DOWN: &str = concat!(
    "WITH moved AS (
        UPDATE domain SET order_id = NULL, queued_at = NULL, lapses = 0, unseen = 0, wanted_seen = true, nudged = false,
            version = version + 1, updated_at = clock_timestamp()
        WHERE ",
    ours!(),
    "   RETURNING *),
    ended AS (
        UPDATE acme_order o SET ended_at = moved.updated_at FROM moved
        WHERE o.domain_id = moved.id AND o.ended_at IS NULL RETURNING o.id, o.account_id, o.url, o.cost),
    dropped AS (DELETE FROM challenge USING ended WHERE challenge.order_id = ended.id),
    shredded AS (DELETE FROM sealed USING ended WHERE sealed.owner = 'order' AND sealed.id = ended.id),
    returned AS (UPDATE acme_account a SET budget_at = a.budget_at - o.cost * interval '1 microsecond'
        FROM ended o WHERE a.id = o.account_id AND o.url IS NULL),
    served AS (SELECT p.name, p.edge_group FROM deployment p JOIN moved ON p.domain_id = moved.id WHERE p.certificate_id IS NOT NULL),
    bumped AS (UPDATE revision SET number = number + 1 WHERE EXISTS (SELECT 1 FROM served) RETURNING number),
    withdrawn AS (
        UPDATE deployment p SET certificate_id = NULL, revision = bumped.number, updated_at = clock_timestamp()
        FROM served s, bumped WHERE p.name = s.name AND p.edge_group = s.edge_group)
    SELECT ",
    domain_columns!(),
    " FROM moved d LEFT JOIN certificate c ON c.id = d.certificate_id"
);

const RELEASE: &str = concat!(
    "WITH moved AS (
        UPDATE domain SET removed_at = clock_timestamp(), due_at = NULL, next_attempt_at = NULL, queued_at = NULL, wanted = NULL,
            claimed_by = NULL, incarnation = NULL, claimed_until = NULL, lapses = 0, unseen = 0,
            version = version + 1, updated_at = clock_timestamp()
        WHERE ",
    ours!(),
    "   RETURNING *),
    released AS (UPDATE claim k SET released_at = moved.removed_at FROM moved
        WHERE k.domain_id = moved.id AND k.released_at IS NULL),
    superseded AS (UPDATE certificate c SET superseded_at = moved.removed_at FROM moved
        WHERE c.domain_id = moved.id AND c.superseded_at IS NULL),
    told AS (
        INSERT INTO event (at, instance, actor, kind, domain_id, subject, from_state, duration_ms, attempt)
        SELECT removed_at, $5, $6, 'transition', id, name, state,
               greatest(0, extract(epoch FROM removed_at - entered_at) * 1000)::bigint, attempt FROM moved)
    SELECT id FROM moved"
);

// A statement of its own: it sees what edges said of the domain up to the moment its row was ours alone.
const FORGET: &str = "DELETE FROM observation WHERE domain_id = $1";

const LATER: &str = concat!(
    "UPDATE domain SET claimed_by = NULL, incarnation = NULL, claimed_until = NULL, lapses = 0, unseen = 0,
        due_at = clock_timestamp() + CASE WHEN nudged THEN interval '0' ELSE $5 * interval '1 microsecond' END,
        next_attempt_at = clock_timestamp() + $5 * interval '1 microsecond', nudged = false,
        version = version + 1, updated_at = clock_timestamp()
    WHERE ",
    ours!(),
    " RETURNING id"
);

fn ours(text: &'static str, before: &Claimed) -> Statement<Postgres> {
    sql(text)
        .bind(before.domain.id.0)
        .bind(before.epoch)
        .bind(before.domain.version)
        .bind(before.incarnation)
}

impl PostgresStore {
    pub(super) async fn tear_down(&self, before: &Claimed) -> Result<Claimed> {
        let row = self.pool.row("begin a teardown", ours(TEAR_DOWN, before)).await?;
        let row = row.ok_or(Error::ClaimLost)?;
        self.herald.tell(&[Topic::Deployments, Topic::Work]);
        claimed(&row)
    }

    pub(super) async fn release_domain(&self, before: &Claimed, actor: &Actor) -> Result<()> {
        collision_free(|| self.try_release(before, actor)).await?;
        self.herald.tell(&[Topic::Events]);
        Ok(())
    }

    async fn try_release(&self, before: &Claimed, actor: &Actor) -> Result<()> {
        let mut transaction = self.pool.begin("finish a removal").await?;
        let release = ours(RELEASE, before).bind(&*actor.instance).bind(&*actor.name);
        if transaction.row(release).await?.is_none() {
            transaction.abandon().await?;
            return Err(Error::ClaimLost);
        }
        transaction.execute(sql(FORGET).bind(before.domain.id.0)).await?;
        transaction.commit().await
    }

    pub(super) async fn look_later(&self, before: &Claimed, wait: Duration) -> Result<()> {
        let statement = ours(LATER, before).bind(micros(wait));
        self.pool.row("postpone a removal", statement).await?.ok_or(Error::ClaimLost)?;
        // It may have been nudged meanwhile, and then it is due now.
        self.herald.tell(&[Topic::Work]);
        Ok(())
    }
}
