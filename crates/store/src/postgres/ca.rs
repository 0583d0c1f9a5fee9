//! The accounts at CAs as a whole, and who orders with them.

use std::time::Duration;

use async_trait::async_trait;
use holdfast_gateway::point::{Point, around};
use uuid::Uuid;

use super::{PostgresStore, ca_failure::failure, event::note, micros, sql};
use crate::{
    AccountId, Actor, CaAccount, CaAccounts, Error, OrderLimits, OtherAccount, QueueCounts, Result,
    Topic,
    ca_failure::LONGEST_AWAY,
    query::{
        ca::{LIFT, UNHALT},
        ca_failure,
    },
    row::{ca_account, other_account, queue_counts},
    vital::COUNTED,
};

const ACCOUNTS: &str = concat!(
    "SELECT a.id, a.directory, a.url, a.paused_until, a.paused_at, a.pause_reason, a.unusable, a.budget_at,
        f.since AS failing_since, f.failure, h.halted_at, h.halted_until, h.halted_by, u.resumed_at, u.resumed_by, clock_timestamp() AS now,
        (SELECT count(*) FROM (SELECT 1 FROM acme_order o WHERE o.account_id = a.id AND o.ended_at IS NULL LIMIT $1) n) AS in_flight
    FROM acme_account a LEFT JOIN account_halt h ON h.account_id = a.id LEFT JOIN account_resume u ON u.account_id = a.id",
    failure!(),
    "ORDER BY a.created_at, a.id"
);

macro_rules! counted {
    ($renews:literal, $new:literal) => {
        concat!(
            "(SELECT count(*) FROM (SELECT 1 FROM domain
                WHERE queued_at IS NOT NULL AND order_id IS NULL AND removing_since IS NULL AND renews IS ",
            $renews,
            " AND (certificate_id IS NULL) IS ",
            $new,
            " LIMIT $1) n)"
        )
    };
}

const COUNTS: &str = concat!(
    "SELECT ",
    counted!("false", "true"),
    " AS new, ",
    counted!("false", "false"),
    " AS charged, ",
    counted!("true", "false"),
    " AS renewals"
);

const HALT: &str = "
    INSERT INTO account_halt AS h (account_id, halted_at, halted_until, halted_by)
    SELECT id, clock_timestamp(), clock_timestamp() + $2 * interval '1 microsecond', $3 FROM acme_account WHERE id = $1
    ON CONFLICT (account_id) DO UPDATE SET halted_at = EXCLUDED.halted_at, halted_until = EXCLUDED.halted_until, halted_by = EXCLUDED.halted_by";

const RESUMED: &str = "
    INSERT INTO account_resume (account_id, resumed_at, resumed_by) VALUES ($1, clock_timestamp(), $2)
    ON CONFLICT (account_id) DO UPDATE SET resumed_at = EXCLUDED.resumed_at, resumed_by = EXCLUDED.resumed_by";

const SERVE: &str = "
    INSERT INTO replica_directory (instance, incarnation, directory) VALUES ($1, $2, $3)
    ON CONFLICT (instance) DO UPDATE SET incarnation = EXCLUDED.incarnation, directory = EXCLUDED.directory
    WHERE replica_directory.incarnation <> EXCLUDED.incarnation OR replica_directory.directory <> EXCLUDED.directory";

/// A sign of life in the future is none.
const OTHERS: &str = "
    SELECT a.id, EXISTS (SELECT 1 FROM replica_directory s JOIN replica r ON r.instance = s.instance AND r.incarnation = s.incarnation
        WHERE s.directory = a.directory AND r.left_at IS NULL AND r.beat_at > clock_timestamp() - $2 * interval '1 microsecond'
            AND r.beat_at <= clock_timestamp() + interval '5 seconds') AS is_served
    FROM acme_account a WHERE a.directory <> $1";

#[async_trait]
impl CaAccounts for PostgresStore {
    async fn ca_accounts(&self, limits: OrderLimits) -> Result<Vec<CaAccount>> {
        let list = sql(ACCOUNTS).bind(i64::from(COUNTED)).bind(micros(LONGEST_AWAY));
        let rows = self.pool.rows("list accounts", list).await?;
        rows.iter().map(|row| ca_account(row, limits)).collect()
    }

    async fn queue_counts(&self) -> Result<QueueCounts> {
        let row = self.pool.one("count the queue", sql(COUNTS).bind(i64::from(COUNTED))).await?;
        queue_counts(&row)
    }

    async fn halt_account(
        &self,
        id: AccountId,
        wait: Option<Duration>,
        actor: &Actor,
        subject: &str,
    ) -> Result<()> {
        let mut transaction = self.pool.begin("halt an account").await?;
        let halt = sql(HALT).bind(id.0).bind(wait.map(micros)).bind(&*actor.name);
        if transaction.execute(halt).await?.rows_affected() == 0 {
            return Err(Error::NotFound("account"));
        }
        note(&mut transaction, actor, "ca-paused", subject, &crate::ca::told(wait)).await?;
        around(Point::STORE_PAUSE, transaction.commit()).await?;
        self.herald.tell(&[Topic::Work, Topic::Events]);
        Ok(())
    }

    async fn resume_account(&self, id: AccountId, actor: &Actor, subject: &str) -> Result<bool> {
        let mut transaction = self.pool.begin("resume an account").await?;
        let mut lifted = 0;
        for statement in [UNHALT, LIFT, ca_failure::LIFT] {
            lifted += transaction.execute(sql(statement).bind(id.0)).await?.rows_affected();
        }
        if lifted > 0 {
            transaction.execute(sql(RESUMED).bind(id.0).bind(&*actor.name)).await?;
            note(&mut transaction, actor, "ca-resumed", subject, "orders go on").await?;
        }
        around(Point::STORE_PAUSE, transaction.commit()).await?;
        self.herald.tell(&[Topic::Work, Topic::Events]);
        Ok(lifted > 0)
    }

    async fn serve_directory(
        &self,
        instance: &str,
        incarnation: Uuid,
        directory: &str,
    ) -> Result<()> {
        let serve = sql(SERVE).bind(instance).bind(incarnation).bind(directory);
        self.pool.execute("say at which directory it orders", serve).await?;
        Ok(())
    }

    async fn other_accounts(&self, directory: &str, stale: Duration) -> Result<Vec<OtherAccount>> {
        let others = sql(OTHERS).bind(directory).bind(micros(stale));
        self.pool.rows("find other accounts", others).await?.iter().map(other_account).collect()
    }
}
