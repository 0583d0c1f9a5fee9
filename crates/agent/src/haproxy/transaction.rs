//! Changing a certificate in HAProxy's memory.
//!
//! HAProxy has *one* transaction for all certificates and all who talk to it, and `set ssl cert B` while one for A is open
//! writes B's certificate into A's transaction: whoever then commits A serves B's certificate for A. Therefore:
//!
//! ```text
//!   abort X      -> nothing open, or X's own leftover; another of ours is aborted, somebody else's is left alone
//!   set X        -> exactly "Transaction created for certificate X!"; anything else is aborted
//!   commit X     -> "Success!"
//!   show X       -> the fingerprint that was meant (by the caller)
//! ```
//!
//! `set` is sent when `abort` was answered: that keeps the gap small in which somebody else can open a transaction. `commit` is sent
//! when `set` was answered: that keeps HAProxy alive, since one that is hung up on with both under way may crash (seen with 2.6).
//! The rest may be sent without waiting.

use super::runtime::Runtime;
use crate::{Error, Result};

/// Puts a certificate into the store of that name, which is made if there is none.
pub(super) async fn put(
    runtime: &mut Runtime,
    file: &str,
    pem: &str,
    is_new: bool,
    is_ours: impl Fn(&str) -> bool,
) -> Result<()> {
    approach(runtime, file, is_new).await?;
    enter(runtime, file, is_new, is_ours).await?;
    set(runtime, file, pem).await?;
    opened(runtime, file).await?;
    commit(runtime, file).await?;
    committed(runtime, file).await
}

/// Begins: makes an empty store where there is none, and ends what is open for this one.
pub(super) async fn approach(runtime: &mut Runtime, file: &str, is_new: bool) -> Result<()> {
    if is_new {
        runtime.tell(&format!("new ssl cert {file}")).await?;
    }
    runtime.tell(&format!("abort ssl cert {file}")).await
}

/// Is the way free?
pub(super) async fn enter(
    runtime: &mut Runtime,
    file: &str,
    is_new: bool,
    is_ours: impl Fn(&str) -> bool,
) -> Result<()> {
    let made = if is_new { Some(runtime.heard().await?) } else { None };
    let open = runtime.heard().await?;
    if let Some(said) = made.filter(|said| !is_there(said)) {
        return Err(Error::ProxyRefused { command: format!("new ssl cert {file}"), said });
    }
    match ongoing(&open) {
        None => Ok(()),
        Some(other) if is_ours(other) => abort(runtime, other).await.map(drop),
        Some(other) => Err(Error::TransactionLocked { file: other.to_owned() }),
    }
}

pub(super) async fn set(runtime: &mut Runtime, file: &str, pem: &str) -> Result<()> {
    runtime.tell_with(&format!("set ssl cert {file}"), pem).await
}

/// What came of the `set`. What went into a transaction that somebody opened in between must not be committed by anybody.
pub(super) async fn opened(runtime: &mut Runtime, file: &str) -> Result<()> {
    let said = runtime.heard().await?;
    if said == format!("Transaction created for certificate {file}!") {
        return Ok(());
    }
    let Some(polluted) = updated(&said).map(str::to_owned) else {
        return Err(Error::ProxyRefused { command: format!("set ssl cert {file}"), said });
    };
    abort(runtime, &polluted).await?;
    Err(Error::TransactionLocked { file: polluted })
}

pub(super) async fn commit(runtime: &mut Runtime, file: &str) -> Result<()> {
    runtime.tell(&format!("commit ssl cert {file}")).await
}

/// What came of the `commit`.
pub(super) async fn committed(runtime: &mut Runtime, file: &str) -> Result<()> {
    let said = runtime.heard().await?;
    if said.lines().last().map(str::trim) == Some("Success!") {
        return Ok(());
    }
    abort(runtime, file).await?;
    Err(Error::ProxyRefused { command: format!("commit ssl cert {file}"), said })
}

fn is_there(said: &str) -> bool {
    said.starts_with("New empty certificate store") || said.ends_with("already exists!")
}

async fn abort(runtime: &mut Runtime, file: &str) -> Result<String> {
    runtime.change(&format!("abort ssl cert {file}")).await
}

/// The certificate that an open transaction is about, as a refusal says.
fn ongoing(said: &str) -> Option<&str> {
    said.strip_prefix("The ongoing transaction is about '")?.split('\'').next()
}

/// The certificate whose transaction was written to.
fn updated(said: &str) -> Option<&str> {
    said.strip_prefix("Transaction updated for certificate ")?.strip_suffix('!')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_haproxy_says_is_understood() {
        let said = "The ongoing transaction is about '/a.pem' but you are trying to abort a transaction for '/b.pem'";
        assert_eq!(ongoing(said), Some("/a.pem"));
        assert_eq!(ongoing("No ongoing transaction!"), None);
        assert_eq!(updated("Transaction updated for certificate /a.pem!"), Some("/a.pem"));
        assert_eq!(updated("Transaction created for certificate /a.pem!"), None);
    }
}
