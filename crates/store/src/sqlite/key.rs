//! Sealing keys: loaded, made, replaced.

use async_trait::async_trait;
use sqlx::{Sqlite, sqlite::SqliteRow};
use uuid::Uuid;

use super::{SqliteStore, Tx, event::note, now, sql, time, writer::Writer};
use crate::{
    Actor, Error, Keys, MasterKey, ResealCursor, Resealed, Result, Rotation, SealedValue, Secret,
    Topic,
    key::random,
    keyring::{WrappedKey, make, rewrap},
    pool::Statement,
    query::sealed::{BEGIN_ROTATION, END_ROTATION, LEFT, NAME, OLDER, ROTATING},
    rotation::{next_after, start},
    row::Fields as _,
    seal::Place,
};

const MASTER_ID: &str = "master_key_id";
const MASTER_CHECK: &str = "master_key_check";

const SETTING: &str = "SELECT value FROM setting WHERE key = $1";
const SET: &str = "
    INSERT INTO setting (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
const KEYS: &str = "SELECT id, wrapped, master_key FROM sealing_key";
const NEW_KEY: &str =
    "INSERT INTO sealing_key (id, wrapped, master_key, created_at) VALUES ($1, $2, $3, $4)";
const NEWEST: &str = "SELECT coalesce(max(id), 0) AS id FROM sealing_key";
const REWRAP: &str = "UPDATE sealing_key SET wrapped = $2, master_key = $3 WHERE id = $1";

const RESEAL: &str = "
    UPDATE sealed SET sealing_key = $4, value = $5 WHERE owner = $1 AND id = $2 AND value = $3";
const DROP_UNUSED: &str = "
    DELETE FROM sealing_key WHERE id < $1 AND NOT EXISTS (SELECT 1 FROM sealed s WHERE s.sealing_key = sealing_key.id)";

const FIRST_SEALED: &str = "
    INSERT INTO sealed (owner, id, sealing_key, value) VALUES ($1, $2, $3, $4) ON CONFLICT (owner, id) DO NOTHING";
const READ_SEALED: &str = "SELECT value FROM sealed WHERE owner = $1 AND id = $2";

#[async_trait]
impl Keys for SqliteStore {
    async fn new_data_key(&self) -> Result<()> {
        let master = self.keyring.master()?;
        let mut transaction = self.writer.begin("make a data key").await?;
        let newest = transaction.one(sql(NEWEST)).await?.number("id")?;
        transaction.execute(insert(&make(&master, newest + 1)?)).await?;
        transaction.execute(sql(BEGIN_ROTATION).bind((newest + 1).to_string())).await?;
        transaction.commit().await?;
        self.load_keys().await
    }

    async fn reseal(&self, after: Option<&ResealCursor>, limit: u32) -> Result<Resealed> {
        let key = self.keyring.newest_id()?;
        let (from, owner, id) = start(after);
        let older = sql(OLDER).bind(key).bind(from).bind(owner).bind(id).bind(i64::from(limit));
        let mut transaction = self.writer.begin("seal anew").await?;
        let rows = transaction.rows(older).await?;
        let (mut resealed, mut left) = (0, Vec::new());
        for row in &rows {
            let (owner, id, value) = (row.text("owner")?, row.id("id")?, row.bytes("value")?);
            // What a newer release seals it will seal anew itself.
            let opened = match Place::read(&owner, id) {
                None => None,
                Some(place) => self.if_it_opens(place, &value)?.map(|secret| (place, secret)),
            };
            let Some((place, secret)) = opened else {
                left.push(named(&mut transaction, owner, id).await?);
                continue;
            };
            let sealed = self.keyring.seal(place, &secret)?;
            let statement = sql(RESEAL).bind(place.owner).bind(id).bind(value);
            let statement = statement.bind(sealed.key).bind(sealed.value);
            resealed += transaction.execute(statement).await?.rows_affected();
        }
        transaction.commit().await?;
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
        Ok(self.readers.row("look for a rotation", sql(ROTATING)).await?.is_some())
    }

    async fn end_rotation(&self, rotation: &Rotation, actor: &Actor) -> Result<()> {
        let mut transaction = self.writer.begin("end a rotation").await?;
        // The keys that are dropped stay on the ring: a reader may hold a value from before.
        transaction.execute(sql(DROP_UNUSED).bind(rotation.key)).await?;
        let end = sql(END_ROTATION).bind(rotation.key.to_string());
        if transaction.execute(end).await?.rows_affected() > 0 {
            note(&mut transaction, actor, "key-rotated", "data-key", &rotation.told()).await?;
        }
        transaction.commit().await?;
        self.tell(&[Topic::Events]);
        Ok(())
    }

    async fn sealed_before(&self, limit: u32) -> Result<Vec<SealedValue>> {
        let mut transaction = self.writer.begin("find what is left").await?;
        let mut left = Vec::new();
        for row in transaction.rows(sql(LEFT).bind(i64::from(limit))).await? {
            left.push(named(&mut transaction, row.text("owner")?, row.id("id")?).await?);
        }
        transaction.abandon().await?;
        Ok(left)
    }

    async fn rewrap(&self, new: &MasterKey) -> Result<()> {
        let old = self.keyring.master()?;
        let mut transaction = self.writer.begin("rewrap data keys").await?;
        let keys = transaction.rows(sql(KEYS)).await?;
        let keys = keys.iter().map(wrapped).collect::<Result<Vec<_>>>()?;
        for key in rewrap(&old, new, &keys)? {
            let statement = sql(REWRAP).bind(key.id).bind(key.wrapped).bind(key.master);
            transaction.execute(statement).await?;
        }
        name_master_key(&mut transaction, new).await?;
        transaction.commit().await?;
        self.keyring.set_master(new.clone());
        Ok(())
    }

    async fn cluster_secret(&self) -> Result<Secret> {
        let made = self.cluster_secret.get_or_try_init(|| self.make_cluster_secret());
        made.await.cloned()
    }
}

async fn named(transaction: &mut Tx, owner: String, id: Uuid) -> Result<SealedValue> {
    let row = transaction.row(sql(NAME).bind(owner.clone()).bind(id)).await?;
    Ok(SealedValue { owner, id, name: row.map(|row| row.text("name")).transpose()? })
}

async fn name_master_key(transaction: &mut Tx, master: &MasterKey) -> Result<()> {
    transaction.execute(sql(SET).bind(MASTER_ID).bind(master.id())).await?;
    transaction.execute(sql(SET).bind(MASTER_CHECK).bind(master.check_value())).await?;
    Ok(())
}

fn insert(key: &WrappedKey) -> Statement<Sqlite> {
    let (wrapped, master) = (key.wrapped.as_slice(), key.master.as_str());
    sql(NEW_KEY).bind(key.id).bind(wrapped).bind(master).bind(time(now()))
}

fn wrapped(row: &SqliteRow) -> Result<WrappedKey> {
    Ok(WrappedKey {
        id: row.number("id")?,
        wrapped: row.bytes("wrapped")?,
        master: row.text("master_key")?,
    })
}

/// The id of the master key that the file was sealed under, if it ever was.
pub(super) async fn master_key_id(writer: &Writer) -> Result<Option<String>> {
    let rows = writer.rows("read the master key's id", sql(SETTING).bind(MASTER_ID)).await?;
    rows.first().map(|row| row.text("value")).transpose()
}

impl SqliteStore {
    /// Compares the key given with the one the file knows; the first one ever given becomes that.
    pub(super) async fn take_master_key(&self) -> Result<()> {
        let known = master_key_id(&self.writer).await?;
        let master = match (self.keyring.master(), known) {
            (Err(_), Some(id)) => return Err(Error::MasterKeyMissing(id)),
            (Err(_), None) => return Ok(()),
            (Ok(master), Some(expected)) => {
                self.check_master_key(&master, expected).await?;
                return self.load_keys().await;
            }
            (Ok(master), None) => master,
        };
        let mut transaction = self.writer.begin("keep the master key's id").await?;
        name_master_key(&mut transaction, &master).await?;
        transaction.execute(insert(&make(&master, 1)?)).await?;
        transaction.commit().await?;
        self.load_keys().await
    }

    async fn check_master_key(&self, master: &MasterKey, expected: String) -> Result<()> {
        let check = sql(SETTING).bind(MASTER_CHECK);
        let check = self.readers.one("check the master key", check).await?.text("value")?;
        let given = master.id();
        if expected == given && check == master.check_value() {
            return Ok(());
        }
        Err(Error::WrongMasterKey { expected, given })
    }

    async fn load_keys(&self) -> Result<()> {
        let rows = self.writer.rows("load data keys", sql(KEYS)).await?;
        self.keyring.load(&rows.iter().map(wrapped).collect::<Result<Vec<_>>>()?)
    }

    /// Opens a value. No other process makes keys here: one that is not known is none.
    pub(super) fn unseal(&self, place: Place, value: &[u8]) -> Result<Secret> {
        self.keyring.open(place, value)?.ok_or(Error::Unsealable(place.owner))
    }

    /// None when it does not open, however often one tries.
    fn if_it_opens(&self, place: Place, value: &[u8]) -> Result<Option<Secret>> {
        match self.unseal(place, value) {
            Ok(secret) => Ok(Some(secret)),
            Err(Error::Unsealable(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn make_cluster_secret(&self) -> Result<Secret> {
        let place = Place::CLUSTER_SECRET;
        let new = Secret::new(random::<32>()?.to_vec());
        let sealed = self.keyring.seal(place, &new)?;
        let mut transaction = self.writer.begin("make the cluster's secret").await?;
        let first = sql(FIRST_SEALED).bind(place.owner).bind(place.id).bind(sealed.key);
        transaction.execute(first.bind(sealed.value)).await?;
        let row = transaction.one(sql(READ_SEALED).bind(place.owner).bind(place.id)).await?;
        transaction.commit().await?;
        self.unseal(place, &row.bytes("value")?)
    }
}
