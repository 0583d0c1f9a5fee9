//! Changing a certificate in HAProxy's memory.
//!
//! HAProxy has *one* transaction for all certificates and all who talk to it, and `set ssl cert B` while one for A is open
//! writes B's certificate into A's transaction: whoever then commits A serves B's certificate for A. Therefore:
//!
//! ```text
//!   abort X      -> nothing open, or X's own leftover; another of ours is aborted; somebody else's is left alone, and ours waits
//!   set X        -> exactly "Transaction created for certificate X!"; anything else is aborted
//!   commit X     -> "Success!"
//!   show X       -> the fingerprint that was meant (by the caller)
//! ```
//!
//! Of many, only the first begins with `abort`: `set Y` follows `commit X` at once, which leaves somebody else less of a gap than
//! asking first. Whose transaction opens in that gap gets our certificate, and is aborted.
//!
//! `commit` is sent when every answer so far was heard. Otherwise HAProxy may crash (seen with 2.6) when it is hung up on: with an answer
//! that it cannot deliver any more, and a `commit` still to do.

use super::memory::Shown;
use super::runtime::Runtime;
use super::wide::wide;
use crate::{Error, Result};

/// A certificate on its way to HAProxy's memory.
#[derive(Clone, Copy)]
pub(super) struct Step<'a> {
    pub(super) file: &'a str,
    pub(super) pem: &'a str,
    /// Has HAProxy no place for it?
    pub(super) is_new: bool,
}

/// What came of a commit, and of the `set` that followed it.
pub(super) struct Passed {
    pub(super) committed: Result<Shown>,
    pub(super) opened: Result<()>,
}

/// Puts a certificate into the store of that name, which is made if there is none; what is held there then.
pub(super) async fn put(
    runtime: &mut Runtime,
    step: Step<'_>,
    is_ours: impl Fn(&str) -> bool,
) -> Result<Shown> {
    open(runtime, step, is_ours).await?;
    pass(runtime, step.file, None).await?.committed
}

/// Opens a transaction, if none is open.
pub(super) async fn open(
    runtime: &mut Runtime,
    step: Step<'_>,
    is_ours: impl Fn(&str) -> bool,
) -> Result<()> {
    if let Some(other) = clear(runtime, step.file, is_ours).await? {
        return Err(Error::TransactionLocked { file: other });
    }
    match open_so(runtime, step).await {
        Err(refused @ Error::ProxyRefused { .. }) if runtime.reads_wide => {
            runtime.reads_wide = false;
            let opened = open_so(runtime, step).await;
            if !matches!(opened, Err(Error::ProxyRefused { .. })) {
                return opened;
            }
            runtime.reads_wide = true;
            Err(refused)
        }
        opened => opened,
    }
}

/// Ends what is open for a file of ours. If something is open for somebody else's, gives that file.
pub(super) async fn clear(
    runtime: &mut Runtime,
    file: &str,
    is_ours: impl Fn(&str) -> bool,
) -> Result<Option<String>> {
    let said = abort(runtime, file).await?;
    match ongoing(&said) {
        Some(other) if is_ours(other) => abort(runtime, other).await.map(|_| None),
        other => Ok(other.map(str::to_owned)),
    }
}

/// Opens a transaction, with lines as they are taken to be read.
async fn open_so(runtime: &mut Runtime, step: Step<'_>) -> Result<()> {
    debug_assert!(runtime.is_quiet(), "answers would be taken for others");
    set(runtime, step).await?;
    let answer = answer(runtime, step).await?;
    opened(runtime, step, answer).await
}

/// Commits the transaction that is open for a file, and opens one for the next.
pub(super) async fn pass(
    runtime: &mut Runtime,
    file: &str,
    next: Option<Step<'_>>,
) -> Result<Passed> {
    debug_assert!(runtime.is_quiet(), "who hangs up now may bring HAProxy down");
    runtime.tell(&format!("commit ssl cert {file}")).await?;
    if let Some(next) = next {
        set(runtime, next).await?;
    }
    runtime.tell_to_show(file).await?;
    let said = runtime.heard().await?;
    let set = match next {
        Some(next) => Some((next, answer(runtime, next).await?)),
        None => None,
    };
    let shown = Shown::of(&runtime.heard().await?);
    let opened = match set {
        Some((next, answer)) => opened(runtime, next, answer).await,
        None => Ok(()),
    };
    let committed = committed(file, said);
    if committed.is_err() && (next.is_none() || opened.is_err()) {
        abort(runtime, file).await?;
    }
    Ok(Passed { committed: committed.map(|()| shown), opened })
}

/// Sends what makes a transaction, and an empty store where there is none.
async fn set(runtime: &mut Runtime, Step { file, pem, is_new }: Step<'_>) -> Result<()> {
    let command = format!("set ssl cert {file}");
    // Before anything is told: what was told is to be heard.
    runtime.fits(&command, pem)?;
    if is_new {
        runtime.tell(&format!("new ssl cert {file}")).await?;
    }
    match runtime.reads_wide {
        true => runtime.tell_with(&command, &wide(pem)).await,
        false => runtime.tell_with(&command, pem).await,
    }
}

/// What was said to `new`, if that was sent, and to `set`.
async fn answer(runtime: &mut Runtime, step: Step<'_>) -> Result<(Option<String>, String)> {
    let made = if step.is_new { Some(runtime.heard().await?) } else { None };
    Ok((made, runtime.heard().await?))
}

/// What came of the `set`. What went into a transaction that somebody opened in between must not be committed by anybody.
async fn opened(
    runtime: &mut Runtime,
    Step { file, .. }: Step<'_>,
    (made, said): (Option<String>, String),
) -> Result<()> {
    if said == format!("Transaction created for certificate {file}!") {
        return Ok(());
    }
    if let Some(polluted) = updated(&said).map(str::to_owned) {
        abort(runtime, &polluted).await?;
        return Err(Error::TransactionCrossed { file: polluted });
    }
    if let Some(other) = ongoing(&said) {
        return Err(Error::TransactionLocked { file: other.to_owned() });
    }
    let (command, said) = match made.filter(|said| !is_there(said)) {
        Some(said) => ("new", said),
        None => ("set", said),
    };
    Err(Error::ProxyRefused { command: format!("{command} ssl cert {file}"), said })
}

/// What came of the `commit`.
fn committed(file: &str, said: String) -> Result<()> {
    let is_lost = said.starts_with("No ongoing transaction") || ongoing(&said).is_some();
    match said.lines().last().map(str::trim) {
        Some("Success!") => Ok(()),
        // That says nothing about the certificate.
        _ if is_lost => Err(Error::TransactionCrossed { file: file.to_owned() }),
        _ => Err(Error::ProxyRefused { command: format!("commit ssl cert {file}"), said }),
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
