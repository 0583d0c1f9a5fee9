//! Changing a certificate in HAProxy's memory.
//!
//! HAProxy has *one* transaction for all certificates and all who talk to it, and `set ssl cert B` while one for A is open
//! writes B's certificate into A's transaction: whoever then commits A serves B's certificate for A. Therefore:
//!
//! ```text
//!   abort X      -> nothing open, or X's own leftover; another of ours is aborted, somebody else's is left alone
//!   set X        -> exactly "Transaction created for certificate X!"; anything else is aborted before it can be committed
//!   commit X     -> "Success!"
//!   show X       -> the fingerprint that was meant (for many at once, by the caller)
//! ```

use super::runtime::Runtime;
use crate::{Error, Result};

/// Puts a certificate into the store of that name, which must exist.
pub(super) async fn put(
    runtime: &mut Runtime,
    file: &str,
    pem: &str,
    is_ours: impl Fn(&str) -> bool,
) -> Result<()> {
    clear(runtime, file, is_ours).await?;
    let command = format!("set ssl cert {file}");
    let said = runtime.change_with(&command, pem).await?;
    if said != format!("Transaction created for certificate {file}!") {
        return Err(undo(runtime, command, said).await?);
    }
    let command = format!("commit ssl cert {file}");
    let said = runtime.change(&command).await?;
    if said.lines().last().map(str::trim) != Some("Success!") {
        abort(runtime, file).await?;
        return Err(Error::ProxyRefused { command, said });
    }
    Ok(())
}

/// Makes an empty store of that name, if there is none.
pub(super) async fn create(runtime: &mut Runtime, file: &str) -> Result<()> {
    let command = format!("new ssl cert {file}");
    let said = runtime.change(&command).await?;
    let there =
        said.starts_with("New empty certificate store") || said.ends_with("already exists!");
    if there { Ok(()) } else { Err(Error::ProxyRefused { command, said }) }
}

async fn clear(runtime: &mut Runtime, file: &str, is_ours: impl Fn(&str) -> bool) -> Result<()> {
    let said = abort(runtime, file).await?;
    let Some(other) = ongoing(&said) else { return Ok(()) };
    if !is_ours(other) {
        return Err(Error::TransactionLocked { file: other.to_owned() });
    }
    abort(runtime, other).await?;
    Ok(())
}

async fn abort(runtime: &mut Runtime, file: &str) -> Result<String> {
    runtime.change(&format!("abort ssl cert {file}")).await
}

/// What was set went into a transaction that somebody opened in between, or was refused: nobody may commit it.
async fn undo(runtime: &mut Runtime, command: String, said: String) -> Result<Error> {
    match updated(&said) {
        Some(polluted) => {
            abort(runtime, polluted).await?;
            Ok(Error::TransactionLocked { file: polluted.to_owned() })
        }
        None => Ok(Error::ProxyRefused { command, said }),
    }
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
