//! The words of the API for edges, as an agent reads and writes them. Nothing is believed that cannot be true.

use std::collections::HashSet;
use std::time::Duration;

use holdfast_model::{DomainId, Hostname, Note, Timestamp};
use holdfast_store::{Adoption, CertificateId, Change, Changes, EdgeReport, Names, Revision};
use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{Error, Listing, News, Result};

#[derive(Deserialize)]
pub(super) struct Registered {
    pub(super) revision: String,
    /// A control plane of a release before counts no reports.
    #[serde(default)]
    pub(super) session: Option<i64>,
}

#[derive(Deserialize)]
pub(super) struct BundleAnswer {
    pub(super) sha256: String,
    pub(super) chain: String,
    pub(super) key: String,
    pub(super) not_after: Timestamp,
}

#[derive(Deserialize)]
struct NewsAnswer {
    items: Vec<Item>,
    up_to: String,
    more: bool,
    #[serde(default)]
    adopt: Vec<AdoptItem>,
}

#[derive(Deserialize)]
struct Item {
    name: String,
    domain_id: DomainId,
    sha256: Option<String>,
    certificate_id: Option<Uuid>,
    revision: String,
}

#[derive(Deserialize)]
struct AdoptItem {
    file: String,
    name: String,
}

#[derive(Deserialize)]
struct End {
    end: bool,
    count: usize,
    revision: String,
}

/// Reads an answer, or says that it is none.
pub(super) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T> {
    // What was sent is not repeated: it may hold a key.
    serde_json::from_slice(body).map_err(|error| {
        Error::Nonsense(format!(
            "it cannot be read, from line {} column {}",
            error.line(),
            error.column()
        ))
    })
}

pub(super) fn revision(text: &str) -> Result<Revision> {
    text.parse().map_err(|_| Error::Nonsense(format!("`{text}` is no revision")))
}

pub(super) fn news(body: &[u8]) -> Result<News> {
    let answer: NewsAnswer = parse(body)?;
    let items = answer.items.into_iter().map(Item::into_change).collect::<Result<_>>()?;
    let adoption = |one: AdoptItem| {
        let file = one.file;
        Ok(Adoption { file, name: host(&one.name)? })
    };
    Ok(News {
        changes: Changes { items, up_to: revision(&answer.up_to)?, more: answer.more },
        adoptions: answer.adopt.into_iter().map(adoption).collect::<Result<_>>()?,
    })
}

impl Item {
    fn into_change(self) -> Result<Change> {
        let certificate = match (self.certificate_id, self.sha256) {
            (Some(id), Some(sha256)) if is_fingerprint(&sha256) => {
                Some((CertificateId(id), sha256))
            }
            (None, None) => None,
            _ => return Err(Error::Nonsense(format!("{} has half a certificate", self.name))),
        };
        let (name, revision) = (host(&self.name)?, revision(&self.revision)?);
        Ok(Change { name, domain: self.domain_id, certificate, revision })
    }
}

fn host(text: &str) -> Result<Hostname> {
    let host = Hostname::parse_host(text).ok().filter(|host| host.as_str() == text);
    host.ok_or_else(|| Error::Nonsense(format!("`{text}` is no name")))
}

fn is_fingerprint(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// A listing while it comes in.
#[derive(Default)]
pub(super) struct Listed {
    items: Vec<Change>,
    end: Option<(usize, Revision)>,
}

impl Listed {
    pub(super) fn take(&mut self, line: &[u8]) -> Result<()> {
        if self.end.is_some() {
            return Err(Error::Nonsense("the listing goes on after its end".to_owned()));
        }
        if let Ok(End { end: true, count, revision: at }) = serde_json::from_slice(line) {
            self.end = Some((count, revision(&at)?));
            return Ok(());
        }
        let item: Item = parse(line)?;
        let change = item.into_change()?;
        if change.certificate.is_none() {
            return Err(Error::Nonsense(format!(
                "{} is listed without a certificate",
                change.name
            )));
        }
        self.items.push(change);
        Ok(())
    }

    /// All of it, or nothing.
    pub(super) fn into_whole(self) -> Result<Listing> {
        let Some((count, revision)) = self.end else {
            return Err(Error::Nonsense("the listing broke off".to_owned()));
        };
        if count != self.items.len() {
            let got = self.items.len();
            return Err(Error::Nonsense(format!(
                "the listing has {got} names, not {count} as it says"
            )));
        }
        let names: HashSet<_> = self.items.iter().map(|item| &item.name).collect();
        if names.len() != count {
            return Err(Error::Nonsense("the listing has a name twice".to_owned()));
        }
        Ok(Listing { items: self.items, revision })
    }
}

/// What a comparison with a restored control plane found, as it is sent.
pub(super) fn difference(unknown: &Names, absent: Option<&Names>) -> Value {
    let names = |names: &Names| json!({ "count": names.count, "names": names.first });
    json!({ "unknown": names(unknown), "absent": absent.map(names) })
}

pub(super) fn report(report: &EdgeReport, mode: &str) -> Value {
    let note = |note: &Option<Note>| match note {
        Some(note) => json!({ "code": note.code, "detail": note.detail }),
        None => Value::Null,
    };
    let observations = report.observations.iter().map(|seen| {
        json!({ "domain_id": seen.domain, "sha256": seen.sha256, "error": note(&seen.error) })
    });
    let adopted = report.adopted.iter().map(|one| {
        let (file, name) = (&one.adoption.file, one.adoption.name.as_str());
        json!({ "file": file, "name": name, "error": note(&one.error) })
    });
    let strangers = report.strangers.as_ref().map(|strangers| {
        let stranger = strangers.iter().map(|one| {
            let (file, names, sha256) = (&one.file, &one.names, &one.sha256);
            json!({ "file": file, "names": names, "sha256": sha256, "shadows": one.shadows })
        });
        stranger.collect::<Vec<_>>()
    });
    json!({
        "up_to": report.up_to.to_string(),
        "observations": observations.collect::<Vec<_>>(),
        "error": note(&report.error),
        "strangers": strangers,
        "adopted": adopted.collect::<Vec<_>>(),
        "mode": mode,
    })
}

#[derive(Debug, Default, Deserialize)]
struct Problem {
    #[serde(default)]
    code: String,
    #[serde(default)]
    detail: String,
}

/// What the control plane said when it refused.
#[derive(Debug, thiserror::Error)]
#[error("{status} {code}: {detail}")]
struct Said {
    status: StatusCode,
    code: String,
    detail: String,
}

/// Does the answer say that this replica wants to be left alone for a while?
pub(super) fn is_busy(status: StatusCode, headers: &HeaderMap) -> bool {
    status != StatusCode::UNAUTHORIZED && is_for_later(status) && retry_after(headers).is_some()
}

/// May the same request be answered otherwise later, or elsewhere?
fn is_for_later(status: StatusCode) -> bool {
    status.is_server_error()
        || matches!(
            status,
            StatusCode::TOO_MANY_REQUESTS
                | StatusCode::REQUEST_TIMEOUT
                | StatusCode::UNAUTHORIZED
                // Said by a replica that does not lead, or no longer: it did nothing.
                | StatusCode::MISDIRECTED_REQUEST
        )
}

/// What an answer that is none means, and when the control plane wants to be asked again.
pub(super) fn refusal(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Error {
    let Problem { code, detail } = serde_json::from_slice(body).unwrap_or_default();
    match (status, code.as_str()) {
        (StatusCode::GONE, "revision-gone") => return Error::RevisionGone,
        (StatusCode::NOT_FOUND, "edge-unknown") => return Error::Unregistered,
        (StatusCode::UNAUTHORIZED, _) => return Error::TokenRefused { said: detail },
        _ => {}
    }
    let is_damage = code == "certificate-damaged";
    let source = Box::new(Said { status, code, detail });
    if is_damage {
        return Error::Damaged { source };
    }
    match (is_for_later(status), retry_after(headers)) {
        (true, Some(after)) => Error::Busy { after, source },
        (true, None) => Error::Unavailable { source },
        (false, _) => Error::Refused { source },
    }
}

/// In seconds; the control plane sends no dates.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// Did the control plane say that there is no such thing?
pub(super) fn is_missing(error: &Error) -> bool {
    let Error::Refused { source } = error else { return false };
    source.downcast_ref::<Said>().is_some_and(|said| said.status == StatusCode::NOT_FOUND)
}

/// The same error, about one certificate alone where that is what the control plane fails at: the others need not wait until it can be
/// read again.
pub(super) fn of_one_alone(error: Error) -> Error {
    let fails = |said: &Said| said.status == StatusCode::INTERNAL_SERVER_ERROR;
    match error {
        Error::Unavailable { source } if source.downcast_ref().is_some_and(fails) => {
            Error::Refused { source }
        }
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use holdfast_store::UNUSABLE;

    use super::*;

    fn line(name: &str) -> String {
        let (domain, certificate, sha256) = (DomainId::new(), Uuid::new_v4(), "a".repeat(64));
        json!({ "name": name, "domain_id": domain, "sha256": sha256, "certificate_id": certificate, "revision": "1.2" })
            .to_string()
    }

    fn listed(lines: &[String]) -> Result<Listing> {
        let mut listing = Listed::default();
        for line in lines {
            listing.take(line.as_bytes())?;
        }
        listing.into_whole()
    }

    #[test]
    fn only_a_whole_listing_is_believed() {
        let end =
            |count: usize| json!({ "end": true, "count": count, "revision": "1.9" }).to_string();
        let whole = listed(&[line("a.test"), line("b.test"), end(2)]).unwrap();
        assert_eq!((whole.items.len(), whole.revision.number), (2, 9));
        assert_eq!(listed(&[end(0)]).unwrap().items, []);
        for nonsense in [
            vec![],
            vec![line("a.test")],
            vec![line("a.test"), end(2)],
            vec![line("a.test"), line("a.test"), end(2)],
            vec![end(0), line("a.test")],
            vec![line("A.test"), end(1)],
            vec![line("a.test").replace(&"a".repeat(64), "ab"), end(1)],
            vec!["{}".to_owned(), end(1)],
            vec!["<html>".to_owned()],
        ] {
            assert!(matches!(listed(&nonsense), Err(Error::Nonsense(_))), "{nonsense:?}");
        }
    }

    #[test]
    fn refusals_are_told_apart() {
        let problem = |code: &str| json!({ "code": code, "detail": "because" }).to_string();
        let told = |status: u16, code: &str| {
            let status = StatusCode::from_u16(status).unwrap();
            refusal(status, &HeaderMap::new(), problem(code).as_bytes())
        };
        assert!(matches!(told(410, "revision-gone"), Error::RevisionGone));
        assert!(matches!(told(404, "edge-unknown"), Error::Unregistered));
        assert!(is_missing(&told(404, "not-found")));
        assert!(told(503, "draining").is_transient());
        // Tried again, since another token may be put there; but it is no outage, and is told in its own words.
        let refused = told(401, "token-revoked");
        assert!(refused.is_transient());
        assert!(matches!(&refused, Error::TokenRefused { said } if said == "because"));
        assert_eq!(refused.note().code, "edge-token-refused");
        // One that follows, or led until just now: what was to be told is not lost over it.
        for (status, code) in [(421, "not-master"), (421, "stale-term"), (503, "no-leader")] {
            assert!(told(status, code).is_transient(), "{code}");
        }
        assert!(matches!(told(403, "wrong-group"), Error::Refused { .. }));
        assert_eq!(of_one_alone(told(500, "certificate-damaged")).note().code, UNUSABLE);
        let gateway = refusal(StatusCode::BAD_GATEWAY, &HeaderMap::new(), b"<html>");
        assert!(of_one_alone(gateway).is_transient());
        assert!(told(500, "internal").is_transient());
        assert!(matches!(of_one_alone(told(500, "internal")), Error::Refused { .. }));
    }

    #[test]
    fn when_to_ask_again_is_heard_where_asking_again_makes_sense() {
        let told = |status: StatusCode, asked: &str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, asked.parse().unwrap())]);
            refusal(status, &headers, b"{}")
        };
        let busy = told(StatusCode::SERVICE_UNAVAILABLE, "7");
        assert_eq!(busy.asked_rest(), Some(Duration::from_secs(7)));
        assert!(busy.is_transient());
        assert_eq!(told(StatusCode::SERVICE_UNAVAILABLE, "tomorrow").asked_rest(), None);
        assert!(told(StatusCode::SERVICE_UNAVAILABLE, "-1").is_transient());
        assert!(matches!(told(StatusCode::FORBIDDEN, "7"), Error::Refused { .. }));
    }
}
