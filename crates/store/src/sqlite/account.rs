//! ACME accounts, their pause and their budget, and the terms they agreed to.

use std::time::Duration;

use async_trait::async_trait;
use holdfast_gateway::point::{Point, around};
use uuid::Uuid;

use super::{SqliteStore, add::SEAL, ca_failure::failure, now, sql, time};
use crate::{
    Account, AccountId, Accounts, Error, NewAccount, OrderLimits, Result, Secret, Terms, Topic,
    ca_failure::LONGEST_AWAY,
    query::account::{FORGOTTEN, JOURNAL_NEXT, MARK, NEXT, PIN, REGISTERED, TERMS, UNPIN},
    row::{Fields as _, account, terms},
    seal::Place,
};

const READ: &str = concat!(
    "SELECT a.*, f.since AS failing_since, f.failure, f.asked_again_at, h.halted_at, h.halted_until, h.halted_by, $2 AS now,
        k.value AS key, n.value AS next_key FROM acme_account a
    JOIN sealed k ON k.owner = 'account' AND k.id = a.id
    LEFT JOIN sealed n ON n.owner = 'account-next' AND n.id = a.id
    LEFT JOIN account_halt h ON h.account_id = a.id",
    failure!(),
    "WHERE a.directory = $1"
);
const JOURNAL: &str = "
    INSERT INTO acme_account (id, directory, email, created_at) VALUES ($1, $2, $3, $4) ON CONFLICT (directory) DO NOTHING";
const DROP_NEXT: &str = "DELETE FROM sealed WHERE owner = 'account-next' AND id = $1";
/// A pause that was noted in the future is none that could be shortened. `$4` is now.
const PAUSE: &str = "
    UPDATE acme_account SET paused_until = $2, pause_reason = $3, paused_at = $4
    WHERE id = $1 AND (paused_until IS NULL OR paused_at > $4 OR paused_until < $2)";
const KEEP_REPLACED: &str = "
    INSERT INTO terms_replaced (directory, url) SELECT directory, url FROM terms WHERE directory = $1 AND url <> $2 AND agreed_at IS NOT NULL
    ON CONFLICT (directory) DO UPDATE SET url = excluded.url";
const KEEP_TERMS: &str = "
    INSERT INTO terms (directory, url, seen_at, agreed_at) VALUES ($1, $2, $4, CASE WHEN $3 THEN $4 END)
    ON CONFLICT (directory) DO UPDATE SET seen_at = excluded.seen_at,
        agreed_at = CASE WHEN $3 THEN excluded.agreed_at WHEN url = excluded.url THEN agreed_at END, url = excluded.url";

#[async_trait]
impl Accounts for SqliteStore {
    async fn account(&self, directory: &str, limits: OrderLimits) -> Result<Option<Account>> {
        self.read_account(directory, Some(limits)).await
    }

    async fn journal_account(&self, new: &NewAccount) -> Result<Account> {
        around(Point::STORE_ACCOUNT_JOURNAL, self.journal_new(new)).await?;
        self.read_account(&new.directory, None).await?.ok_or(Error::NotFound("account"))
    }

    async fn account_registered(
        &self,
        id: AccountId,
        url: &str,
        email: Option<&str>,
    ) -> Result<()> {
        let statement = sql(REGISTERED).bind(id.0).bind(url).bind(email);
        let keep = self.writer.execute("keep an account's URL", statement);
        found(around(Point::STORE_ACCOUNT_REGISTERED, keep).await?.rows_affected())?;
        self.tell(&[Topic::Work]);
        Ok(())
    }

    async fn account_forgotten(&self, id: AccountId) -> Result<()> {
        let forget = self.writer.execute("forget an account's URL", sql(FORGOTTEN).bind(id.0));
        found(around(Point::STORE_ACCOUNT_REGISTERED, forget).await?.rows_affected())
    }

    async fn journal_next_key(&self, id: AccountId, key: &Secret) -> Result<Secret> {
        let place = Place::next_account(id.0);
        let sealed = self.keyring.seal(place, key)?;
        let statement = sql(JOURNAL_NEXT).bind(id.0).bind(sealed.key).bind(sealed.value);
        let journal = self.writer.execute("journal the next key", statement);
        around(Point::STORE_ACCOUNT_JOURNAL, journal).await?;
        let row = self.readers.row("read the next key", sql(NEXT).bind(id.0)).await?;
        self.unseal(place, &row.ok_or(Error::NotFound("account"))?.bytes("value")?)
    }

    async fn account_key_changed(&self, id: AccountId) -> Result<()> {
        around(Point::STORE_ACCOUNT_REGISTERED, self.change_key(id)).await
    }

    async fn pause_account(&self, id: AccountId, wait: Duration, reason: &str) -> Result<()> {
        let (now, id) = (now(), id.0);
        let statement = sql(PAUSE).bind(id).bind(time(now.plus(wait))).bind(reason).bind(time(now));
        around(Point::STORE_PAUSE, self.writer.execute("pause an account", statement)).await?;
        self.tell(&[Topic::Work]);
        Ok(())
    }

    async fn mark_account(&self, id: AccountId, unusable: Option<&str>) -> Result<()> {
        let mark = self.writer.execute("mark an account", sql(MARK).bind(id.0).bind(unusable));
        around(Point::STORE_PAUSE, mark).await?;
        Ok(())
    }

    async fn pin_issuer(&self, id: AccountId, pin: &str) -> Result<String> {
        around(Point::STORE_ACCOUNT_REGISTERED, self.pin(id, pin)).await
    }

    async fn unpin_issuer(&self, id: AccountId) -> Result<()> {
        let forget = self.writer.execute("unpin an issuer", sql(UNPIN).bind(id.0));
        found(around(Point::STORE_ACCOUNT_REGISTERED, forget).await?.rows_affected())
    }

    async fn terms(&self, directory: &str) -> Result<Option<Terms>> {
        let row = self.readers.row("read terms", sql(TERMS).bind(directory)).await?;
        row.as_ref().map(terms).transpose()
    }

    async fn keep_terms(&self, directory: &str, url: &str, agreed: bool) -> Result<()> {
        let keep = sql(KEEP_TERMS).bind(directory).bind(url).bind(agreed).bind(time(now()));
        around(Point::STORE_ACCOUNT_REGISTERED, async {
            let mut transaction = self.writer.begin("keep terms").await?;
            transaction.execute(sql(KEEP_REPLACED).bind(directory).bind(url)).await?;
            transaction.execute(keep).await?;
            transaction.commit().await
        })
        .await
    }
}

fn found(rows: u64) -> Result<()> {
    if rows > 0 { Ok(()) } else { Err(Error::NotFound("account")) }
}

impl SqliteStore {
    async fn read_account(
        &self,
        directory: &str,
        limits: Option<OrderLimits>,
    ) -> Result<Option<Account>> {
        let now = now();
        let read = sql(READ).bind(directory).bind(time(now)).bind(time(now.plus(LONGEST_AWAY)));
        let Some(row) = self.readers.row("read an account", read).await? else { return Ok(None) };
        let id = row.id("id")?;
        let key = self.unseal(Place::account(id), &row.bytes("key")?)?;
        let next_key = row.maybe_bytes("next_key")?;
        let next_key = next_key.map(|next| self.unseal(Place::next_account(id), &next));
        account(&row, limits, key, next_key.transpose()?).map(Some)
    }

    async fn journal_new(&self, new: &NewAccount) -> Result<()> {
        let id = Uuid::now_v7();
        let mut transaction = self.writer.begin("journal an account").await?;
        let (directory, email) = (new.directory.as_str(), new.email.as_deref());
        let made = sql(JOURNAL).bind(id).bind(directory).bind(email).bind(time(now()));
        if transaction.execute(made).await?.rows_affected() > 0 {
            let place = Place::account(id);
            let sealed = self.keyring.seal(place, &new.key)?;
            let seal = sql(SEAL).bind(place.owner).bind(id).bind(sealed.key).bind(sealed.value);
            transaction.execute(seal).await?;
        }
        transaction.commit().await
    }

    async fn pin(&self, id: AccountId, pin: &str) -> Result<String> {
        let mut transaction = self.writer.begin("pin an issuer").await?;
        let Some(row) = transaction.row(sql(PIN).bind(id.0).bind(pin)).await? else {
            transaction.abandon().await?;
            return Err(Error::NotFound("account"));
        };
        let pinned = row.text("pin")?;
        transaction.commit().await?;
        Ok(pinned)
    }

    async fn change_key(&self, id: AccountId) -> Result<()> {
        let mut transaction = self.writer.begin("change the account's key").await?;
        let Some(row) = transaction.row(sql(NEXT).bind(id.0)).await? else {
            // Nothing journaled: it was changed before, and again is the same.
            return transaction.abandon().await;
        };
        let key = self.unseal(Place::next_account(id.0), &row.bytes("value")?)?;
        let place = Place::account(id.0);
        let sealed = self.keyring.seal(place, &key)?;
        let seal = sql(SEAL).bind(place.owner).bind(id.0).bind(sealed.key).bind(sealed.value);
        transaction.execute(seal).await?;
        transaction.execute(sql(DROP_NEXT).bind(id.0)).await?;
        transaction.commit().await
    }
}
