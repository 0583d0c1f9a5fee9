//! Changing a certificate in HAProxy's memory.
//!
//! HAProxy has *one* transaction for all certificates and all who talk to it, and `set ssl cert B` while one for A is open
//! writes B's certificate into A's transaction: whoever then commits A serves B's certificate for A. Therefore:
//!
//! ```text
//!   abort X      -> nothing open, or X's own leftover; another of ours is aborted, somebody else's is left alone
//!   set X        -> exactly "Transaction created for certificate X!"; anything else is aborted
//!   commit X     -> "Success!"; refused where set did not open a transaction of X
//!   show X       -> the fingerprint that was meant (by the caller)
//! ```
//!
//! No `set` is sent before it is known that nothing is open, or nothing but what is about to be committed: by the answer to
//! `abort`, or by that to the `set` before, whose commit and next `abort` go ahead of this one without a gap for others. So
//! HAProxy commits X while Y is on its way, and is never idle.

use super::runtime::Runtime;
use crate::{Error, Result};

/// Whose transaction a `set` went into.
pub(super) enum Opened {
    /// One that it opened itself.
    Own,
    /// One that was open.
    Other(String),
    /// None.
    None(Error),
}

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
    send(runtime, file, pem).await?;
    let opened = opened(runtime, file).await?;
    closed(runtime, file, opened).await
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
    let (made, open) = approached(runtime, is_new).await?;
    if let Some(said) = made.filter(|said| !is_there(said)) {
        return Err(Error::ProxyRefused { command: format!("new ssl cert {file}"), said });
    }
    match ongoing(&open) {
        None => Ok(()),
        Some(other) if is_ours(other) => abort(runtime, other).await.map(drop),
        Some(other) => Err(Error::TransactionLocked { file: other.to_owned() }),
    }
}

/// What was said to [`approach`], for who knows already that the way is free.
pub(super) async fn approached(
    runtime: &mut Runtime,
    is_new: bool,
) -> Result<(Option<String>, String)> {
    let made = if is_new { Some(runtime.heard().await?) } else { None };
    Ok((made, runtime.heard().await?))
}

/// Sets and commits. A commit of what was not set is refused, and so is one of a transaction about another.
pub(super) async fn send(runtime: &mut Runtime, file: &str, pem: &str) -> Result<()> {
    runtime.tell_with(&format!("set ssl cert {file}"), pem).await?;
    runtime.tell(&format!("commit ssl cert {file}")).await
}

/// What came of the `set`.
pub(super) async fn opened(runtime: &mut Runtime, file: &str) -> Result<Opened> {
    let said = runtime.heard().await?;
    if said == format!("Transaction created for certificate {file}!") {
        return Ok(Opened::Own);
    }
    let refused = |said| Error::ProxyRefused { command: format!("set ssl cert {file}"), said };
    let other = updated(&said).map(str::to_owned);
    Ok(other.map_or_else(|| Opened::None(refused(said)), Opened::Other))
}

/// What came of the `commit`. What was set went into a transaction that somebody else opened: nobody may commit it.
pub(super) async fn closed(runtime: &mut Runtime, file: &str, opened: Opened) -> Result<()> {
    let said = runtime.heard().await?;
    match opened {
        Opened::Own if said.lines().last().map(str::trim) == Some("Success!") => Ok(()),
        Opened::Own => {
            abort(runtime, file).await?;
            Err(Error::ProxyRefused { command: format!("commit ssl cert {file}"), said })
        }
        Opened::Other(polluted) => {
            abort(runtime, &polluted).await?;
            Err(Error::TransactionLocked { file: polluted })
        }
        Opened::None(error) => Err(error),
    }
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
