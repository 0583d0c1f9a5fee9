//! ACME accounts, their pause and their budget, and the terms they agreed to.

use std::time::Duration;

use async_trait::async_trait;
use holdfast_gateway::point::{Point, around};
use uuid::Uuid;

use super::{PostgresStore, ca_failure::failure, micros, sql};
use crate::{
    Account, AccountId, Accounts, Error, NewAccount, OrderLimits, Result, Secret, Terms, Topic,
    ca_failure::LONGEST_AWAY,
    query::account::{FORGOTTEN, JOURNAL_NEXT, MARK, NEXT, PIN, REGISTERED, TERMS, UNPIN},
    row::{Fields as _, account, terms},
    seal::Place,
};

const READ: &str = concat!(
    "SELECT a.id, a.directory, a.email, a.url, a.paused_until, a.paused_at, a.pause_reason, a.unusable, a.pin, a.budget_at,
        f.since AS failing_since, f.failure, f.asked_again_at, h.halted_at, h.halted_until, h.halted_by, clock_timestamp() AS now,
        k.value AS key, n.value AS next_key FROM acme_account a
    JOIN sealed k ON k.owner = 'account' AND k.id = a.id
    LEFT JOIN sealed n ON n.owner = 'account-next' AND n.id = a.id
    LEFT JOIN account_halt h ON h.account_id = a.id",
    failure!(),
    "WHERE a.directory = $1"
);

const JOURNAL: &str = "
    WITH made AS (INSERT INTO acme_account (id, directory, email) VALUES ($1, $2, $3)
        ON CONFLICT (directory) DO NOTHING RETURNING id)
    INSERT INTO sealed (owner, id, sealing_key, value) SELECT 'account', id, $4, $5 FROM made";

/// The next key takes the place of the key, if it is still the one that was read.
const CHANGED: &str = "
    WITH taken AS (DELETE FROM sealed WHERE owner = 'account-next' AND id = $1 AND value = $2 RETURNING id)
    UPDATE sealed s SET sealing_key = $3, value = $4 FROM taken WHERE s.owner = 'account' AND s.id = taken.id";

/// A pause that was noted in the future is none that could be shortened.
const PAUSE: &str = "
    UPDATE acme_account SET paused_until = clock_timestamp() + $2 * interval '1 microsecond', pause_reason = $3,
        paused_at = clock_timestamp()
    WHERE id = $1 AND (paused_until IS NULL OR paused_at > clock_timestamp()
        OR paused_until < clock_timestamp() + $2 * interval '1 microsecond')";

const KEEP_TERMS: &str = "
    WITH replaced AS (
        INSERT INTO terms_replaced (directory, url) SELECT directory, url FROM terms WHERE directory = $1 AND url <> $2 AND agreed_at IS NOT NULL
        ON CONFLICT (directory) DO UPDATE SET url = EXCLUDED.url)
    INSERT INTO terms AS t (directory, url, seen_at, agreed_at)
    VALUES ($1, $2, clock_timestamp(), CASE WHEN $3 THEN clock_timestamp() END)
    ON CONFLICT (directory) DO UPDATE SET url = EXCLUDED.url, seen_at = EXCLUDED.seen_at,
        agreed_at = CASE WHEN $3 THEN EXCLUDED.agreed_at WHEN t.url = EXCLUDED.url THEN t.agreed_at END";

#[async_trait]
impl Accounts for PostgresStore {
    async fn account(&self, directory: &str, limits: OrderLimits) -> Result<Option<Account>> {
        let mut tries = self.tries();
        loop {
            match self.read_account(directory, Some(limits)).await {
                Err(error) => self.again(error, &mut tries).await?,
                done => return done,
            }
        }
    }

    async fn journal_account(&self, new: &NewAccount) -> Result<Account> {
        let mut tries = self.tries();
        loop {
            match around(Point::STORE_ACCOUNT_JOURNAL, self.try_journal(new)).await {
                Err(error) => self.again(error, &mut tries).await?,
                done => return done,
            }
        }
    }

    async fn account_registered(
        &self,
        id: AccountId,
        url: &str,
        email: Option<&str>,
    ) -> Result<()> {
        let statement = sql(REGISTERED).bind(id.0).bind(url).bind(email);
        let keep = self.pool.execute("keep an account's URL", statement);
        found(around(Point::STORE_ACCOUNT_REGISTERED, keep).await?.rows_affected())?;
        self.herald.tell(&[Topic::Work]);
        Ok(())
    }

    async fn account_forgotten(&self, id: AccountId) -> Result<()> {
        let forget = self.pool.execute("forget an account's URL", sql(FORGOTTEN).bind(id.0));
        found(around(Point::STORE_ACCOUNT_REGISTERED, forget).await?.rows_affected())
    }

    async fn journal_next_key(&self, id: AccountId, key: &Secret) -> Result<Secret> {
        let mut tries = self.tries();
        loop {
            match around(Point::STORE_ACCOUNT_JOURNAL, self.try_journal_next(id, key)).await {
                Err(error) => self.again(error, &mut tries).await?,
                done => return done,
            }
        }
    }

    async fn account_key_changed(&self, id: AccountId) -> Result<()> {
        let mut tries = self.tries();
        loop {
            match around(Point::STORE_ACCOUNT_REGISTERED, self.try_change_key(id)).await {
                Err(error) => self.again(error, &mut tries).await?,
                done => return done,
            }
        }
    }

    async fn pause_account(&self, id: AccountId, wait: Duration, reason: &str) -> Result<()> {
        let statement = sql(PAUSE).bind(id.0).bind(micros(wait)).bind(reason);
        around(Point::STORE_PAUSE, self.pool.execute("pause an account", statement)).await?;
        self.herald.tell(&[Topic::Work]);
        Ok(())
    }

    async fn mark_account(&self, id: AccountId, unusable: Option<&str>) -> Result<()> {
        let mark = self.pool.execute("mark an account", sql(MARK).bind(id.0).bind(unusable));
        around(Point::STORE_PAUSE, mark).await?;
        Ok(())
    }

    async fn pin_issuer(&self, id: AccountId, pin: &str) -> Result<String> {
        let keep = self.pool.row("pin an issuer", sql(PIN).bind(id.0).bind(pin));
        let row = around(Point::STORE_ACCOUNT_REGISTERED, keep).await?;
        row.ok_or(Error::NotFound("account"))?.text("pin")
    }

    async fn unpin_issuer(&self, id: AccountId) -> Result<()> {
        let forget = self.pool.execute("unpin an issuer", sql(UNPIN).bind(id.0));
        found(around(Point::STORE_ACCOUNT_REGISTERED, forget).await?.rows_affected())
    }

    async fn terms(&self, directory: &str) -> Result<Option<Terms>> {
        let row = self.pool.row("read terms", sql(TERMS).bind(directory)).await?;
        row.as_ref().map(terms).transpose()
    }

    async fn keep_terms(&self, directory: &str, url: &str, agreed: bool) -> Result<()> {
        let statement = sql(KEEP_TERMS).bind(directory).bind(url).bind(agreed);
        let keep = self.pool.execute("keep terms", statement);
        around(Point::STORE_ACCOUNT_REGISTERED, keep).await?;
        Ok(())
    }
}

fn found(rows: u64) -> Result<()> {
    if rows > 0 { Ok(()) } else { Err(Error::NotFound("account")) }
}

impl PostgresStore {
    async fn read_account(
        &self,
        directory: &str,
        limits: Option<OrderLimits>,
    ) -> Result<Option<Account>> {
        let read = sql(READ).bind(directory).bind(micros(LONGEST_AWAY));
        let row = self.pool.row("read an account", read).await?;
        let Some(row) = row else { return Ok(None) };
        let id = row.id("id")?;
        let key = self.unseal(Place::account(id), &row.bytes("key")?).await?;
        let next_key = match row.maybe_bytes("next_key")? {
            Some(next) => Some(self.unseal(Place::next_account(id), &next).await?),
            None => None,
        };
        account(&row, limits, key, next_key).map(Some)
    }

    async fn try_journal(&self, new: &NewAccount) -> Result<Account> {
        let id = Uuid::now_v7();
        let sealed = self.keyring.seal(Place::account(id), &new.key)?;
        let statement = sql(JOURNAL)
            .bind(id)
            .bind(new.directory.as_str())
            .bind(new.email.as_deref())
            .bind(sealed.key)
            .bind(sealed.value);
        self.pool.execute("journal an account", statement).await?;
        self.read_account(&new.directory, None).await?.ok_or(Error::NotFound("account"))
    }

    async fn try_journal_next(&self, id: AccountId, key: &Secret) -> Result<Secret> {
        let place = Place::next_account(id.0);
        let sealed = self.keyring.seal(place, key)?;
        let statement = sql(JOURNAL_NEXT).bind(id.0).bind(sealed.key).bind(sealed.value);
        self.pool.execute("journal the next key", statement).await?;
        let row = self.pool.row("read the next key", sql(NEXT).bind(id.0)).await?;
        let value = row.ok_or(Error::NotFound("account"))?.bytes("value")?;
        self.unseal(place, &value).await
    }

    async fn try_change_key(&self, id: AccountId) -> Result<()> {
        let row = self.pool.row("read the next key", sql(NEXT).bind(id.0)).await?;
        // Nothing journaled: it was changed before, and again is the same.
        let Some(row) = row else { return Ok(()) };
        let next = row.bytes("value")?;
        let key = self.unseal(Place::next_account(id.0), &next).await?;
        let sealed = self.keyring.seal(Place::account(id.0), &key)?;
        let statement = sql(CHANGED).bind(id.0).bind(next).bind(sealed.key).bind(sealed.value);
        let changed = self.pool.execute("change the account's key", statement).await?;
        // Not the one that was read: it was sealed anew meanwhile.
        if changed.rows_affected() > 0 { Ok(()) } else { Err(Error::Unsealable("account-next")) }
    }
}
