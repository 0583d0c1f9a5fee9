//! The first admin token: configured, read from its file, or made. It is shown to a terminal or written to a file, and
//! nowhere else.

use std::{
    io::{ErrorKind, IsTerminal as _},
    path::Path,
};

use holdfast_gateway::{
    files::{self, Access},
    point::Point,
};
use holdfast_server::token;
use holdfast_store::{NewToken, Scope, SharedStore};

use super::store::failed;
use crate::{
    config::{Config, DatabaseUrl, is_token},
    failure::{Failure, chain},
};

/// Sees to it that somebody can use the API.
pub(crate) async fn ensure(store: &SharedStore, config: &Config) -> Result<(), Failure> {
    let security = &config.security;
    if let Some(configured) = &security.admin_token {
        return keep(store, configured.expose()).await;
    }
    match &security.admin_token_file {
        // Where many share a database the first one's token is everybody's.
        Some(path) if is_shared(config) && !path.exists() => make_first(store, path).await,
        Some(path) => keep(store, &read_or_make(path)?).await,
        None if is_there_one(store).await? => Ok(()),
        None => show_new(store).await,
    }
}

/// Makes the one token of an installation, unless another replica has. It is written beside its place first: whoever is killed on the way
/// finds it there, and what it finds counts only if the store has kept no other meanwhile.
async fn make_first(store: &SharedStore, path: &Path) -> Result<(), Failure> {
    let aside = path.with_added_extension("new");
    let first = match is_there_one(store).await? && !aside.exists() {
        true => None,
        false => {
            let text = read_or_make(&aside)?;
            let kept = store.keep_first_token(&admin(&text)).await.map_err(failed)?;
            kept.map(|_| text)
        }
    };
    match first {
        Some(text) => {
            let made = files::create_new(
                Point::FILE_ADMIN_TOKEN,
                path,
                format!("{text}\n").as_bytes(),
                Access::Private,
            );
            // Of several who share a directory, another was faster with the same token.
            if let Err(error) = made
                && !matches!(error, files::Error::Exists { .. })
            {
                return Err(unkept(&error));
            }
        }
        None => tracing::info!(
            file = %path.display(),
            "the admin token is another replica's; `holdfast token create --config` makes one more"
        ),
    }
    std::fs::remove_file(&aside).ok();
    Ok(())
}

/// Would a token have to be made that others may be about to make as well?
pub(crate) async fn is_to_be_made(store: &SharedStore, config: &Config) -> Result<bool, Failure> {
    let security = &config.security;
    let given = security.admin_token.is_some()
        || security.admin_token_file.as_ref().is_some_and(|path| path.exists());
    Ok(is_shared(config) && !given && !is_there_one(store).await?)
}

const fn is_shared(config: &Config) -> bool {
    !matches!(config.database.url, DatabaseUrl::Sqlite(_))
}

async fn is_there_one(store: &SharedStore) -> Result<bool, Failure> {
    let tokens = store.tokens().await.map_err(failed)?;
    Ok(tokens.iter().any(|token| token.scope == Scope::Admin && token.revoked_at.is_none()))
}

async fn show_new(store: &SharedStore) -> Result<(), Failure> {
    if !std::io::stdout().is_terminal() {
        return Err(Failure::usage(
            "There is no admin token yet, and no terminal to show a new one to; set security.admin_token_file to where it shall be written.",
        ));
    }
    let text = token::mint().map_err(Failure::failed)?;
    match store.keep_first_token(&admin(&text)).await.map_err(failed)? {
        Some(_) => println!("The admin token, shown this once:\n\n  {text}\n"),
        None => tracing::info!("another replica has made the admin token, and shown it"),
    }
    Ok(())
}

async fn keep(store: &SharedStore, text: &str) -> Result<(), Failure> {
    let kept = store.keep_token(&admin(text)).await.map_err(failed)?;
    if kept.revoked_at.is_some() {
        tracing::warn!(token = %kept.id.0, "the configured admin token was revoked and does not work; configure another");
    }
    Ok(())
}

fn admin(text: &str) -> NewToken {
    let (name, hash) = ("admin".to_owned(), token::hash(text));
    NewToken { name, scope: Scope::Admin, hash, edge: None, group: None }
}

/// The token in a file, which is made with a new one if it is not there.
fn read_or_make(path: &Path) -> Result<String, Failure> {
    let shown = path.display();
    match std::fs::read_to_string(path) {
        Ok(text) if is_token(text.trim()) => Ok(text.trim().to_owned()),
        Ok(_) => Err(Failure::usage(format!(
            "security.admin_token_file: {shown} holds no token of at least 16 characters without spaces; remove the file to have one made."
        ))),
        Err(error) if error.kind() == ErrorKind::NotFound => make(path),
        Err(error) => Err(Failure::usage(format!(
            "security.admin_token_file: {shown} cannot be read ({error}); make it readable for this user."
        ))),
    }
}

/// Writes a new token where none is; if another process was faster, its token is the token.
fn make(path: &Path) -> Result<String, Failure> {
    let text = token::mint().map_err(Failure::failed)?;
    let line = format!("{text}\n");
    match files::create_new(Point::FILE_ADMIN_TOKEN, path, line.as_bytes(), Access::Private) {
        Ok(()) => {
            tracing::info!(file = %path.display(), "an admin token was made");
            Ok(text)
        }
        Err(files::Error::Exists { .. }) => read_or_make(path),
        Err(error) => Err(unkept(&error)),
    }
}

fn unkept(error: &files::Error) -> Failure {
    Failure::failed(format!(
        "The admin token cannot be kept ({}); make its directory writable.",
        chain(error)
    ))
}
