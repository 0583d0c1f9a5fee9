//! The master key: read from where the configuration says, made only when told so.

use std::{io::ErrorKind, path::Path};

use holdfast_gateway::{
    files::{self, Access},
    point::Point,
};
use holdfast_store::MasterKey;

use crate::{
    config::Security,
    failure::{Failure, chain},
};

/// The configured key; none when its file does not exist yet.
pub(crate) fn configured(security: &Security) -> Result<Option<MasterKey>, Failure> {
    match (&security.master_key, &security.master_key_file) {
        (Some(text), _) => parse("security.master_key", text.expose()).map(Some),
        (None, Some(path)) => read(path),
        (None, None) => Ok(None),
    }
}

/// The key in a file, which is made with a new one if it is not there.
pub(crate) fn read_or_make(path: &Path) -> Result<MasterKey, Failure> {
    match read(path)? {
        Some(key) => Ok(key),
        None => make(path),
    }
}

/// Writes a new key where none is; if another process was faster, its key is the key.
pub(crate) fn make(path: &Path) -> Result<MasterKey, Failure> {
    let key = MasterKey::generate().map_err(|error| Failure::failed(chain(&error)))?;
    let text = format!("{}\n", key.to_base64().as_str());
    match files::create_new(Point::FILE_MASTER_KEY, path, text.as_bytes(), Access::Private) {
        Ok(()) => {
            tracing::info!(file = %path.display(), id = key.id(), "a master key was made");
            Ok(key)
        }
        Err(files::Error::Exists { .. }) => read(path)?.ok_or_else(|| unkept("it came and went")),
        Err(error) => Err(unkept(&chain(&error))),
    }
}

fn unkept(why: &str) -> Failure {
    Failure::failed(format!("The master key cannot be kept ({why}); make its directory writable."))
}

fn read(path: &Path) -> Result<Option<MasterKey>, Failure> {
    match std::fs::read_to_string(path) {
        Ok(text) => parse(&path.display().to_string(), &text).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let path = path.display();
            Err(Failure::usage(format!(
                "security.master_key_file: {path} cannot be read ({error}); make it readable for this user."
            )))
        }
    }
}

fn parse(place: &str, text: &str) -> Result<MasterKey, Failure> {
    MasterKey::parse(text)
        .map_err(|error| Failure::usage(format!("{place} holds no master key: {}.", chain(&error))))
}
