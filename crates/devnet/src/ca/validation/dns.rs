//! DNS-01: a text record below the name (RFC 8555, section 8.4).

use super::super::Ca;
use super::super::problem::Problem;
use super::Task;

/// Looks for the expected text.
pub(super) async fn check(ca: &Ca, task: &Task) -> Result<(), Problem> {
    let owner = format!("_acme-challenge.{}", task.name);
    let texts = ca.resolver.texts(&owner).await?;
    if texts.contains(&task.digest_text()) {
        return Ok(());
    }
    let detail = match texts.first() {
        None => format!("no TXT record found at {owner}"),
        Some(first) => {
            let more = texts.len() - 1;
            format!("incorrect TXT record {first:?} (and {more} more) found at {owner}")
        }
    };
    Err(Problem::unauthorized(detail))
}
