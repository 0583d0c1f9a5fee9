//! Removal: the name stays taken until the teardown is complete, and every step can be repeated.

use std::time::Duration;

use holdfast_model::{Domain, Timestamp};
use sqlx::Sqlite;

use super::{
    SqliteStore, commit::end_order, domain::BY_ID, edge::next_revision, event, now, sql, time,
};
use crate::{
    Actor, Claimed, Error, Result, Topic,
    pool::Statement,
    row::{claimed, domain},
};

/// Is it still ours? `$5` is the time.
macro_rules! ours {
    () => {
        "id = $1 AND claim_epoch = $2 AND version - unseen = $3 AND incarnation = $4 AND claimed_until > $5 AND removing_since IS NOT NULL"
    };
}

const TEAR_DOWN: &str = concat!(
    "UPDATE domain SET order_id = NULL, queued_at = NULL, lapses = 0, unseen = 0, wanted_seen = 1, nudged = 0,
        version = version + 1, updated_at = $5
    WHERE ",
    ours!()
);
const SERVED: &str =
    "SELECT name FROM deployment WHERE domain_id = $1 AND certificate_id IS NOT NULL";
const WITHDRAW: &str = "
    UPDATE deployment SET certificate_id = NULL, revision = $2, updated_at = $3 WHERE domain_id = $1 AND certificate_id IS NOT NULL";

const REMOVE: &str = concat!(
    "UPDATE domain SET removed_at = $5, due_at = NULL, next_attempt_at = NULL, queued_at = NULL, wanted = NULL,
        claimed_by = NULL, incarnation = NULL, claimed_until = NULL, lapses = 0, unseen = 0,
        version = version + 1, updated_at = $5
    WHERE ",
    ours!()
);
const RELEASE: &str =
    "UPDATE claim SET released_at = $2 WHERE domain_id = $1 AND released_at IS NULL";
const SUPERSEDE: &str =
    "UPDATE certificate SET superseded_at = $2 WHERE domain_id = $1 AND superseded_at IS NULL";
const FORGET: &str = "DELETE FROM observation WHERE domain_id = $1";

const LATER: &str = concat!(
    "UPDATE domain SET claimed_by = NULL, incarnation = NULL, claimed_until = NULL, lapses = 0, unseen = 0,
        due_at = CASE WHEN nudged THEN $5 ELSE $6 END, next_attempt_at = $6, nudged = 0,
        version = version + 1, updated_at = $5
    WHERE ",
    ours!()
);

fn ours(text: &'static str, before: &Claimed, now: Timestamp) -> Statement<Sqlite> {
    sql(text)
        .bind(before.domain.id.0)
        .bind(before.epoch)
        .bind(before.domain.version)
        .bind(before.incarnation)
        .bind(time(now))
}

impl SqliteStore {
    pub(super) async fn tear_down(&self, before: &Claimed) -> Result<Claimed> {
        let id = before.domain.id.0;
        let mut transaction = self.writer.begin("begin a teardown").await?;
        if transaction.execute(ours(TEAR_DOWN, before, now())).await?.rows_affected() == 0 {
            transaction.abandon().await?;
            return Err(Error::ClaimLost);
        }
        end_order(&mut transaction, id).await?;
        if transaction.row(sql(SERVED).bind(id)).await?.is_some() {
            let number = next_revision(&mut transaction).await?;
            let withdraw = sql(WITHDRAW).bind(id).bind(number).bind(time(now()));
            transaction.execute(withdraw).await?;
        }
        let after = claimed(&transaction.one(sql(BY_ID).bind(id)).await?)?;
        transaction.commit().await?;
        self.tell(&[Topic::Deployments, Topic::Work]);
        Ok(after)
    }

    pub(super) async fn release_domain(&self, before: &Claimed, actor: &Actor) -> Result<()> {
        let (id, at) = (before.domain.id.0, now());
        let mut transaction = self.writer.begin("finish a removal").await?;
        if transaction.execute(ours(REMOVE, before, at)).await?.rows_affected() == 0 {
            transaction.abandon().await?;
            return Err(Error::ClaimLost);
        }
        transaction.execute(sql(RELEASE).bind(id).bind(time(at))).await?;
        transaction.execute(sql(SUPERSEDE).bind(id).bind(time(at))).await?;
        transaction.execute(sql(FORGET).bind(id)).await?;
        let gone: Domain = domain(&transaction.one(sql(BY_ID).bind(id)).await?)?;
        let line = event::Line {
            from: Some(gone.state),
            lasted: at.since(gone.entered_at),
            attempt: gone.attempt,
            ..event::Line::of(gone.id, &gone.name)
        };
        event::tell(&mut transaction, actor, &line).await?;
        transaction.commit().await?;
        self.tell(&[Topic::Events]);
        Ok(())
    }

    pub(super) async fn look_later(&self, before: &Claimed, wait: Duration) -> Result<()> {
        let now = now();
        let statement = ours(LATER, before, now).bind(time(now.plus(wait)));
        let put_off = self.writer.execute("postpone a removal", statement).await?;
        if put_off.rows_affected() == 0 {
            return Err(Error::ClaimLost);
        }
        // It may have been nudged meanwhile, and then it is due now.
        self.tell(&[Topic::Work]);
        Ok(())
    }
}
