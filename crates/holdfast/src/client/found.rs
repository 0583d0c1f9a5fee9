//! What `holdfast up` and `holdfast dev net` leave in their data directory for clients to find them by.

use std::{
    io::ErrorKind,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use holdfast_gateway::{
    files::{self, Access},
    point::Point,
};
use serde::{Deserialize, Serialize};

use crate::{config::SecretText, failure::Failure};

/// The file's name.
const NAME: &str = "up.json";

/// Where things are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Found {
    /// The process that wrote it.
    pub(crate) pid: u32,
    /// The API; none when only the development network runs.
    pub(crate) api: Option<String>,
    /// Where the built-in edge speaks HTTP.
    pub(crate) http: Option<SocketAddr>,
    /// Where the built-in edge speaks HTTPS.
    pub(crate) https: Option<SocketAddr>,
    /// The embedded CA.
    pub(crate) ca: String,
    /// The DNS zone.
    pub(crate) dns: SocketAddr,
    /// The root of what the CA issues, and of its own TLS.
    pub(crate) root_certificate: PathBuf,
}

impl Found {
    /// Reads what is there; none when there is nothing.
    pub(crate) fn read(data: &Path) -> Result<Option<Self>, Failure> {
        let path = data.join(NAME);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(None);
            }
            Err(error) => {
                return Err(Failure::usage(format!(
                    "{} cannot be read ({error}); use the same user as `holdfast up`.",
                    path.display()
                )));
            }
        };
        serde_json::from_slice(&text).map(Some).map_err(|error| {
            Failure::failed(format!(
                "{} is damaged ({error}); start `holdfast up` again.",
                path.display()
            ))
        })
    }

    /// Leaves it for clients.
    pub(crate) fn write(&self, data: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self).context("where things are")?;
        files::write(Point::FILE_OTHER, &data.join(NAME), text.as_bytes(), Access::Public)?;
        Ok(())
    }
}

/// The admin token that lies beside it.
pub(super) fn admin_token(data: &Path) -> Result<SecretText, Failure> {
    let path = data.join("admin.token");
    let text = std::fs::read_to_string(&path).map_err(|error| {
        let path = path.display();
        Failure::usage(format!(
            "No token: {path} cannot be read ({error}); give one with --token or HOLDFAST_TOKEN."
        ))
    })?;
    Ok(SecretText::new(text.trim().to_owned()))
}
