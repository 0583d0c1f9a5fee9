//! The data keys this process knows. They are loaded from the database by the store that owns the ring, also
//! later: another replica may have made one since.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use crate::{
    Error, MasterKey, Result, Secret,
    key::random,
    seal::{Place, Sealed, SealingKey, split},
};

/// A data key as it lies in the database.
pub(crate) struct WrappedKey {
    pub(crate) id: i64,
    pub(crate) wrapped: Vec<u8>,
    /// The id of the master key it is wrapped under.
    pub(crate) master: String,
}

/// The data keys, by id; the highest seals.
pub(crate) struct Keyring(RwLock<Ring>);

struct Ring {
    master: Option<MasterKey>,
    keys: HashMap<i64, Arc<SealingKey>>,
    /// Rises whenever other keys are loaded than before.
    generation: u64,
}

impl Keyring {
    pub(crate) fn new(master: Option<MasterKey>) -> Self {
        Self(RwLock::new(Ring { master, keys: HashMap::new(), generation: 0 }))
    }

    fn read(&self) -> RwLockReadGuard<'_, Ring> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Ring> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The master key, for who must have one.
    pub(crate) fn master(&self) -> Result<MasterKey> {
        self.read().master.clone().ok_or(Error::NoMasterKey)
    }

    pub(crate) fn set_master(&self, master: MasterKey) {
        self.write().master = Some(master);
    }

    /// Makes these the keys; what is not among them is gone from the database, and must seal nothing any more. One that does not open
    /// is passed over: what was sealed under it is lost, all else is not. Without the newest nothing can be sealed.
    pub(crate) fn load(&self, wrapped: &[WrappedKey]) -> Result<()> {
        let mut ring = self.write();
        let mut keys = HashMap::with_capacity(wrapped.len());
        for key in wrapped {
            let known = ring.keys.get(&key.id).cloned();
            let opened = match known {
                Some(known) => Some(known),
                None => {
                    let master = ring.master.as_ref().ok_or(Error::NoMasterKey)?;
                    unless_newest(key, wrapped, unwrap(master, key))?.map(Arc::new)
                }
            };
            keys.extend(opened.map(|opened| (key.id, opened)));
        }
        if keys.len() != ring.keys.len() || keys.keys().any(|id| !ring.keys.contains_key(id)) {
            ring.generation += 1;
        }
        ring.keys = keys;
        Ok(())
    }

    /// Which keys these are: it rises whenever others are loaded.
    pub(crate) fn generation(&self) -> u64 {
        self.read().generation
    }

    /// Seals under the newest key known.
    pub(crate) fn seal(&self, place: Place, plain: &Secret) -> Result<Sealed> {
        let (id, key) = self.newest()?;
        Ok(Sealed::under(id, &key.seal(&place.to_string(), plain.expose())?))
    }

    /// Opens; none when the key is not known (yet).
    pub(crate) fn open(&self, place: Place, value: &[u8]) -> Result<Option<Secret>> {
        let (id, sealed) = split(value).ok_or(Error::Unsealable(place.owner))?;
        let Some(key) = self.read().keys.get(&id).cloned() else { return Ok(None) };
        key.open(&place.to_string(), sealed).map(Some).ok_or(Error::Unsealable(place.owner))
    }

    /// The id of the key that seals.
    pub(crate) fn newest_id(&self) -> Result<i64> {
        self.newest().map(|(id, _)| id)
    }

    fn newest(&self) -> Result<(i64, Arc<SealingKey>)> {
        let ring = self.read();
        let newest = ring.keys.iter().max_by_key(|(id, _)| **id);
        newest.map(|(id, key)| (*id, key.clone())).ok_or(Error::NoMasterKey)
    }
}

/// Makes a data key, wrapped.
pub(crate) fn make(master: &MasterKey, id: i64) -> Result<WrappedKey> {
    wrap(master, id, random::<32>()?.as_ref())
}

/// Wraps the data keys under another master key; one that does not open stays as it is.
pub(crate) fn rewrap(
    old: &MasterKey,
    new: &MasterKey,
    keys: &[WrappedKey],
) -> Result<Vec<WrappedKey>> {
    let again = |key: &WrappedKey| wrap(new, key.id, open_wrapped(old, key)?.expose());
    let rewrapped = keys.iter().map(|key| unless_newest(key, keys, again(key)));
    rewrapped.filter_map(Result::transpose).collect()
}

/// That a data key does not open matters for the newest only.
fn unless_newest<T>(key: &WrappedKey, all: &[WrappedKey], opened: Result<T>) -> Result<Option<T>> {
    match opened {
        Err(error) if all.iter().any(|other| other.id > key.id) => {
            tracing::error!(data_key = key.id, %error, "an old data key does not open: what is sealed under it is lost");
            Ok(None)
        }
        opened => opened.map(Some),
    }
}

fn wrap(master: &MasterKey, id: i64, data_key: &[u8]) -> Result<WrappedKey> {
    let wrapped = SealingKey::new(&master.wrapping_key())?.seal(&context(id), data_key)?;
    Ok(WrappedKey { id, wrapped, master: master.id() })
}

fn unwrap(master: &MasterKey, key: &WrappedKey) -> Result<SealingKey> {
    SealingKey::new(open_wrapped(master, key)?.expose())
}

fn open_wrapped(master: &MasterKey, key: &WrappedKey) -> Result<Secret> {
    if key.master != master.id() {
        return Err(Error::WrongMasterKey { expected: key.master.clone(), given: master.id() });
    }
    let opened = SealingKey::new(&master.wrapping_key())?.open(&context(key.id), &key.wrapped);
    opened.ok_or(Error::DamagedKey(key.id))
}

fn context(id: i64) -> String {
    format!("sealing_key:{id}")
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn ring(ids: &[i64]) -> (Keyring, Vec<WrappedKey>) {
        let master = MasterKey::generate().unwrap();
        let keys: Vec<_> = ids.iter().map(|id| make(&master, *id).unwrap()).collect();
        let ring = Keyring::new(Some(master));
        ring.load(&keys).unwrap();
        (ring, keys)
    }

    #[test]
    fn what_was_sealed_opens_in_its_place_only() {
        let (ring, _) = ring(&[1]);
        let (here, there) = (Place::order(Uuid::now_v7()), Place::order(Uuid::now_v7()));
        let secret = Secret::from("hush".to_owned());
        let sealed = ring.seal(here, &secret).unwrap();
        assert_eq!(ring.open(here, &sealed.value).unwrap(), Some(secret));
        let elsewhere = Place::certificate(here.id);
        for place in [there, elsewhere] {
            assert!(matches!(ring.open(place, &sealed.value), Err(Error::Unsealable(_))));
        }
    }

    #[test]
    fn every_altered_byte_is_noticed() {
        let (ring, _) = ring(&[1]);
        let place = Place::order(Uuid::now_v7());
        let sealed = ring.seal(place, &Secret::from("hush".to_owned())).unwrap();
        for at in 0..sealed.value.len() {
            let mut altered = sealed.value.clone();
            altered[at] ^= 1;
            assert!(!matches!(ring.open(place, &altered), Ok(Some(_))), "byte {at}");
        }
        for len in 0..sealed.value.len() {
            assert!(!matches!(ring.open(place, &sealed.value[..len]), Ok(Some(_))), "cut at {len}");
        }
    }

    #[test]
    fn the_newest_key_seals_and_the_older_still_open() {
        let (ring, _) = ring(&[1]);
        let place = Place::order(Uuid::now_v7());
        let old = ring.seal(place, &Secret::from("old".to_owned())).unwrap();
        let mut keys = vec![make(&ring.master().unwrap(), 2).unwrap()];
        keys.push(WrappedKey { id: 1, wrapped: Vec::new(), master: String::new() });
        ring.load(&keys).unwrap();
        assert_eq!(ring.seal(place, &Secret::from("new".to_owned())).unwrap().key, 2);
        assert!(ring.open(place, &old.value).unwrap().is_some());
        ring.load(&keys[..1]).unwrap();
        assert!(ring.open(place, &old.value).unwrap().is_none());
    }

    #[test]
    fn another_master_key_is_named() {
        let (_, keys) = ring(&[1]);
        let other = Keyring::new(Some(MasterKey::generate().unwrap()));
        assert!(matches!(other.load(&keys), Err(Error::WrongMasterKey { .. })));
    }

    #[test]
    fn rewrapped_keys_open_what_they_sealed() {
        let (ring, keys) = ring(&[1]);
        let place = Place::CLUSTER_SECRET;
        let sealed = ring.seal(place, &Secret::from("hush".to_owned())).unwrap();
        let new = MasterKey::generate().unwrap();
        let rewrapped = rewrap(&ring.master().unwrap(), &new, &keys).unwrap();
        let other = Keyring::new(Some(new));
        other.load(&rewrapped).unwrap();
        assert!(other.open(place, &sealed.value).unwrap().is_some());
    }

    #[test]
    fn a_damaged_key_takes_only_its_own_values_with_it() {
        let (ring, mut keys) = ring(&[1, 2]);
        let (master, new) = (ring.master().unwrap(), MasterKey::generate().unwrap());
        let place = Place::CLUSTER_SECRET;
        let sealed = ring.seal(place, &Secret::from("hush".to_owned())).unwrap();
        keys[0].wrapped[20] ^= 1;
        for (master, keys) in [(&master, &keys), (&new, &rewrap(&master, &new, &keys).unwrap())] {
            let other = Keyring::new(Some(master.clone()));
            other.load(keys).unwrap();
            assert!(other.open(place, &sealed.value).unwrap().is_some());
        }
        keys[1].wrapped[20] ^= 1;
        let refused = Keyring::new(Some(master.clone())).load(&keys);
        assert!(matches!(refused, Err(Error::DamagedKey(2))));
        assert!(matches!(rewrap(&master, &new, &keys), Err(Error::DamagedKey(2))));
    }
}
