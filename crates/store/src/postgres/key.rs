//! Sealing keys: loaded, made, replaced.

use async_trait::async_trait;
use sqlx::Postgres;
use uuid::Uuid;

use super::{PostgresStore, event::note, has_code, sql};
use crate::{
    Actor, Error, Keys, MasterKey, ResealCursor, Resealed, Result, Rotation, SealedValue, Secret,
    Topic,
    key::random,
    keyring::{WrappedKey, make, rewrap},
    pool::{Pool, Statement, Transaction},
    query::sealed::{BEGIN_ROTATION, END_ROTATION, LEFT, NAME, OLDER, ROTATING},
    rotation::{next_after, start},
    row::Fields as _,
    seal::{Place, Sealed},
};

/// How often a value is sealed or opened anew because its key was gone: keys may be rotated faster than a busy replica commits.
const KEY_TRIES: u32 = 50;

/// Tries of one thing that needs the data keys.
pub(super) struct Tries {
    left: u32,
    /// The keys at the last one.
    keys: u64,
}

impl Tries {
    /// Is there to be another one? With the same keys what did not open does not open.
    fn goes_on(&mut self, keys: u64, opens_by_keys: bool) -> bool {
        let goes_on = self.left > 0 && (!opens_by_keys || keys != self.keys);
        self.left = self.left.saturating_sub(1);
        self.keys = keys;
        goes_on
    }
}

const MASTER_ID: &str = "master_key_id";
const MASTER_CHECK: &str = "master_key_check";

const SETTING: &str = "SELECT value FROM setting WHERE key = $1";
const LOCK_SETTING: &str = "SELECT value FROM setting WHERE key = $1 FOR UPDATE";
const FIRST_SETTING: &str =
    "INSERT INTO setting (key, value) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING";
const SET: &str = "UPDATE setting SET value = $2 WHERE key = $1";
const KEYS: &str = "SELECT id, wrapped, master_key FROM sealing_key";
const FIRST_KEY: &str = "
    INSERT INTO sealing_key (id, wrapped, master_key) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING";
const NEWEST: &str = "SELECT coalesce(max(id), 0) AS id FROM sealing_key";
const REWRAP: &str = "UPDATE sealing_key SET wrapped = $2, master_key = $3 WHERE id = $1";

/// Each by compare-and-swap: what was written anew meanwhile is newer than what we have.
const RESEAL: &str = "
    UPDATE sealed s SET sealing_key = $1, value = a.new
    FROM unnest($2::text[], $3::uuid[], $4::bytea[], $5::bytea[]) AS a (owner, id, old, new)
    WHERE s.owner = a.owner AND s.id = a.id AND s.value = a.old";
const DROP_UNUSED: &str = "
    DELETE FROM sealing_key k WHERE k.id < $1 AND NOT EXISTS (SELECT 1 FROM sealed s WHERE s.sealing_key = k.id)";

const FIRST_SEALED: &str = "
    INSERT INTO sealed (owner, id, sealing_key, value) VALUES ($1, $2, $3, $4) ON CONFLICT (owner, id) DO NOTHING";
const READ_SEALED: &str = "SELECT value FROM sealed WHERE owner = $1 AND id = $2";

#[async_trait]
impl Keys for PostgresStore {
    async fn new_data_key(&self) -> Result<()> {
        let master = self.keyring.master()?;
        let mut transaction = self.pool.begin("make a data key").await?;
        ours(&mut transaction, &master).await?;
        let newest = transaction.one(sql(NEWEST)).await?.number("id")?;
        let key = make(&master, newest + 1)?;
        transaction.execute(insert(&key)).await?;
        transaction.execute(sql(BEGIN_ROTATION).bind(key.id.to_string())).await?;
        transaction.commit().await?;
        self.load_keys().await
    }

    async fn reseal(&self, after: Option<&ResealCursor>, limit: u32) -> Result<Resealed> {
        self.load_keys().await?;
        let key = self.keyring.newest_id()?;
        let (from, owner, id) = start(after);
        let older = sql(OLDER).bind(key).bind(from).bind(owner).bind(id).bind(i64::from(limit));
        let rows = self.pool.rows("find what is sealed under older keys", older).await?;
        let (mut batch, mut left) = (Batch::default(), Vec::new());
        for row in &rows {
            let (owner, id, value) = (row.text("owner")?, row.id("id")?, row.bytes("value")?);
            let opened = match Place::read(&owner, id) {
                // What a newer release seals it will seal anew itself.
                None => None,
                Some(place) => self.if_it_opens(place, &value).await?.map(|secret| (place, secret)),
            };
            match opened {
                Some((place, secret)) => {
                    batch.push(place, value, self.keyring.seal(place, &secret)?);
                }
                None => left.push(self.named(owner, id).await?),
            }
        }
        let resealed = self.write_anew(key, batch).await?;
        let next = next_after(&rows, limit)?;
        Ok(Resealed {
            key,
            seen: u64::try_from(rows.len()).unwrap_or(u64::MAX),
            resealed,
            left,
            next,
        })
    }

    async fn is_rotating(&self) -> Result<bool> {
        Ok(self.pool.row("look for a rotation", sql(ROTATING)).await?.is_some())
    }

    async fn end_rotation(&self, rotation: &Rotation, actor: &Actor) -> Result<()> {
        let unused = sql(DROP_UNUSED).bind(rotation.key);
        let dropped = self.pool.execute("drop unused data keys", unused).await;
        // Somebody may be sealing under one at this moment: it goes with the next rotation.
        if let Err(error) = dropped
            && !has_code(&error, &["23503"])
        {
            return Err(error);
        }
        let mut transaction = self.pool.begin("end a rotation").await?;
        let end = sql(END_ROTATION).bind(rotation.key.to_string());
        if transaction.execute(end).await?.rows_affected() > 0 {
            note(&mut transaction, actor, "key-rotated", "data-key", &rotation.told()).await?;
        }
        transaction.commit().await?;
        self.herald.tell(&[Topic::Events]);
        Ok(())
    }

    async fn sealed_before(&self, limit: u32) -> Result<Vec<SealedValue>> {
        let rows = self.pool.rows("find what is left", sql(LEFT).bind(i64::from(limit))).await?;
        let mut left = Vec::new();
        for row in rows {
            left.push(self.named(row.text("owner")?, row.id("id")?).await?);
        }
        Ok(left)
    }

    async fn rewrap(&self, new: &MasterKey) -> Result<()> {
        let old = self.keyring.master()?;
        let mut transaction = self.pool.begin("rewrap data keys").await?;
        ours(&mut transaction, &old).await?;
        let keys = transaction.rows(sql(KEYS)).await?;
        let keys = keys.iter().map(wrapped).collect::<Result<Vec<_>>>()?;
        for key in rewrap(&old, new, &keys)? {
            let statement = sql(REWRAP).bind(key.id).bind(key.wrapped).bind(key.master);
            transaction.execute(statement).await?;
        }
        transaction.execute(sql(SET).bind(MASTER_ID).bind(new.id())).await?;
        transaction.execute(sql(SET).bind(MASTER_CHECK).bind(new.check_value())).await?;
        transaction.commit().await?;
        self.keyring.set_master(new.clone());
        Ok(())
    }

    async fn cluster_secret(&self) -> Result<Secret> {
        let made = self.cluster_secret.get_or_try_init(|| self.make_cluster_secret());
        made.await.cloned()
    }
}

/// Values to be written anew.
#[derive(Default)]
struct Batch {
    owners: Vec<&'static str>,
    ids: Vec<Uuid>,
    old: Vec<Vec<u8>>,
    new: Vec<Vec<u8>>,
}

impl Batch {
    fn push(&mut self, place: Place, old: Vec<u8>, new: Sealed) {
        self.owners.push(place.owner);
        self.ids.push(place.id);
        self.old.push(old);
        self.new.push(new.value);
    }
}

/// Keeps others from changing the master key, and refuses if it is not the one we have.
async fn ours(transaction: &mut Transaction<'_, Postgres>, master: &MasterKey) -> Result<()> {
    let row = transaction.one(sql(LOCK_SETTING).bind(MASTER_ID)).await?;
    let expected = row.text("value")?;
    let given = master.id();
    if expected == given { Ok(()) } else { Err(Error::WrongMasterKey { expected, given }) }
}

fn insert(key: &WrappedKey) -> Statement<Postgres> {
    sql(FIRST_KEY).bind(key.id).bind(key.wrapped.as_slice()).bind(key.master.as_str())
}

fn wrapped(row: &sqlx::postgres::PgRow) -> Result<WrappedKey> {
    Ok(WrappedKey {
        id: row.number("id")?,
        wrapped: row.bytes("wrapped")?,
        master: row.text("master_key")?,
    })
}

/// The id of the master key that the database was sealed under, if it ever was.
pub(super) async fn master_key_id(pool: &Pool<Postgres>) -> Result<Option<String>> {
    let row = pool.row("read the master key's id", sql(SETTING).bind(MASTER_ID)).await?;
    row.map(|row| row.text("value")).transpose()
}

impl PostgresStore {
    /// Compares the key given with the one the database knows; the first one ever given becomes that.
    pub(super) async fn take_master_key(&self) -> Result<()> {
        let Ok(master) = self.keyring.master() else {
            return match master_key_id(&self.pool).await? {
                Some(id) => Err(Error::MasterKeyMissing(id)),
                None => Ok(()),
            };
        };
        let given = master.id();
        if master_key_id(&self.pool).await?.is_none() {
            self.first_master_key(&master).await?;
        }
        let expected = master_key_id(&self.pool).await?.unwrap_or_default();
        let check = sql(SETTING).bind(MASTER_CHECK);
        let check = self.pool.one("check the master key", check).await?.text("value")?;
        if expected != given || check != master.check_value() {
            return Err(Error::WrongMasterKey { expected, given });
        }
        self.load_keys().await
    }

    async fn first_master_key(&self, master: &MasterKey) -> Result<()> {
        let mut transaction = self.pool.begin("keep the master key's id").await?;
        let id = sql(FIRST_SETTING).bind(MASTER_ID).bind(master.id());
        // Of several that come at once, the first one's check value and data key belong to its id.
        if transaction.execute(id).await?.rows_affected() > 0 {
            let check = sql(FIRST_SETTING).bind(MASTER_CHECK).bind(master.check_value());
            transaction.execute(check).await?;
            transaction.execute(insert(&make(master, 1)?)).await?;
        }
        transaction.commit().await
    }

    pub(super) async fn load_keys(&self) -> Result<()> {
        let rows = self.pool.rows("load data keys", sql(KEYS)).await?;
        self.keyring.load(&rows.iter().map(wrapped).collect::<Result<Vec<_>>>()?)
    }

    /// Opens a value; a key not known yet is looked for, because another replica may have made it since.
    pub(super) async fn unseal(&self, place: Place, value: &[u8]) -> Result<Secret> {
        if let Some(secret) = self.keyring.open(place, value)? {
            return Ok(secret);
        }
        self.load_keys().await?;
        self.keyring.open(place, value)?.ok_or(Error::Unsealable(place.owner))
    }

    /// After an error: returns if the same again is right, because the data keys changed meanwhile. A value's key may be gone by the
    /// time it is looked for (then the value was sealed anew), and a key that was to seal may be gone by the time of the commit.
    pub(super) async fn again(&self, error: Error, tries: &mut Tries) -> Result<()> {
        let unsealable = matches!(error, Error::Unsealable(_));
        if !unsealable && !has_code(&error, &["23503"]) {
            return Err(error);
        }
        self.load_keys().await?;
        match tries.goes_on(self.keyring.generation(), unsealable) {
            true => Ok(()),
            false => Err(error),
        }
    }

    /// Begins before what may be opened is read: whatever was sealed anew since has changed the keys.
    pub(super) fn tries(&self) -> Tries {
        Tries { left: KEY_TRIES, keys: self.keyring.generation() }
    }

    async fn write_anew(&self, newest: i64, batch: Batch) -> Result<u64> {
        let statement = sql(RESEAL)
            .bind(newest)
            .bind(batch.owners)
            .bind(batch.ids)
            .bind(batch.old)
            .bind(batch.new);
        match self.pool.execute("seal anew", statement).await {
            // Two replicas at the same rows: the other one does them.
            Err(error) if has_code(&error, &["40P01"]) => Ok(0),
            done => Ok(done?.rows_affected()),
        }
    }

    /// None when it does not open, however often one tries.
    async fn if_it_opens(&self, place: Place, value: &[u8]) -> Result<Option<Secret>> {
        match self.unseal(place, value).await {
            Ok(secret) => Ok(Some(secret)),
            Err(Error::Unsealable(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn named(&self, owner: String, id: Uuid) -> Result<SealedValue> {
        let row = sql(NAME).bind(owner.clone()).bind(id);
        let row = self.pool.row("find whose value it is", row).await?;
        Ok(SealedValue { owner, id, name: row.map(|row| row.text("name")).transpose()? })
    }

    async fn make_cluster_secret(&self) -> Result<Secret> {
        let mut tries = self.tries();
        loop {
            match self.try_cluster_secret().await {
                Err(error) => self.again(error, &mut tries).await?,
                done => return done,
            }
        }
    }

    async fn try_cluster_secret(&self) -> Result<Secret> {
        let place = Place::CLUSTER_SECRET;
        let read = || sql(READ_SEALED).bind(place.owner).bind(place.id);
        let mut row = self.pool.row("read the cluster's secret", read()).await?;
        if row.is_none() {
            let new = Secret::new(random::<32>()?.to_vec());
            let sealed = self.keyring.seal(place, &new)?;
            let first = sql(FIRST_SEALED).bind(place.owner).bind(place.id).bind(sealed.key);
            self.pool.execute("make the cluster's secret", first.bind(sealed.value)).await?;
            row = self.pool.row("read the cluster's secret", read()).await?;
        }
        let value = row.ok_or(Error::Unsealable(place.owner))?.bytes("value")?;
        self.unseal(place, &value).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_open_is_tried_again_with_other_keys_alone() {
        let mut tries = Tries { left: 3, keys: 1 };
        assert!(!tries.goes_on(1, true), "the same keys");
        assert!(tries.goes_on(2, true), "others");
        assert!(tries.goes_on(2, false), "a key that was to seal is gone");
        assert!(!tries.goes_on(3, true), "often enough");
    }
}
