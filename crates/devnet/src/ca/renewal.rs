//! Renewal information (RFC 9773): when a certificate should be replaced, and by which order it was.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::RETRY_AFTER;
use serde::{Deserialize, Serialize};
use serde_json::json;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::certificate::Certificate;
use super::problem::{Kind, Problem};
use super::{Ca, id};
use crate::journal::{Journal, Line};

const KIND: &str = "window";

/// How often clients should ask, unless a window says otherwise.
const RETRY_SECONDS: u64 = 6 * 60 * 60;

/// Certificates that live shorter are renewed at half their life.
const SHORT: Duration = Duration::from_secs(10 * 24 * 60 * 60);

/// A renewal window that was set by hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RenewalWindow {
    /// When it begins.
    #[serde(with = "time::serde::rfc3339")]
    pub start: OffsetDateTime,
    /// When it ends.
    #[serde(with = "time::serde::rfc3339")]
    pub end: OffsetDateTime,
    /// A page that says why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation_url: Option<String>,
    /// How many seconds later to ask again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
}

/// Windows set by hand: by certificate id, by name, or `*` for every certificate.
pub(crate) struct Windows {
    set: Mutex<BTreeMap<String, RenewalWindow>>,
    journal: Journal,
}

impl Windows {
    /// What a journal remembers of them.
    pub(crate) fn new(journal: Journal, lines: &[Line]) -> Self {
        let kept = lines.iter().filter(|line| line.kind == KIND);
        let set = kept.filter_map(|line| Some((line.id.clone(), line.row().ok()?)));
        Self { set: Mutex::new(set.collect()), journal }
    }

    pub(crate) fn set(&self, target: &str, window: Option<RenewalWindow>) {
        let target = target.to_owned();
        self.journal.note(KIND, &target, &window);
        match window {
            Some(window) => self.lock().insert(target, window),
            None => self.lock().remove(&target),
        };
    }

    /// Forgets the window of a certificate that is gone.
    pub(crate) fn forget(&self, id: &str) {
        if self.lock().contains_key(id) {
            self.set(id, None);
        }
    }

    pub(crate) fn clear(&self) {
        let targets: Vec<String> = self.lock().keys().cloned().collect();
        targets.iter().for_each(|target| self.set(target, None));
    }

    pub(crate) fn list(&self) -> BTreeMap<String, RenewalWindow> {
        self.lock().clone()
    }

    fn of(&self, id: &str, names: &[String]) -> Option<RenewalWindow> {
        let set = self.lock();
        let by_name = names.iter().find_map(|name| set.get(name));
        set.get(id).or(by_name).or_else(|| set.get("*")).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, RenewalWindow>> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// renewalInfo.
pub(crate) async fn show(
    State(ca): State<Arc<Ca>>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let certificate = ca.certificate_by_id(&id)?;
    let window = ca.windows.of(&id, &certificate.names).unwrap_or_else(|| suggested(&certificate));
    let text = |time: OffsetDateTime| time.format(&Rfc3339).unwrap_or_default();
    let mut object = json!({
        "suggestedWindow": { "start": text(window.start), "end": text(window.end) },
    });
    if let (Some(url), Some(members)) = (&window.explanation_url, object.as_object_mut()) {
        members.insert("explanationURL".to_owned(), json!(url));
    }
    let retry_after = window.retry_after.unwrap_or(RETRY_SECONDS).to_string();
    Ok(([(RETRY_AFTER, retry_after)], Json(object)).into_response())
}

/// Two per cent of the life, around two thirds of it (half of a short one); at once for what was revoked.
fn suggested(certificate: &Certificate) -> RenewalWindow {
    let life = certificate.not_after - certificate.not_before;
    let middle = match life < SHORT {
        true => certificate.not_before + life / 2,
        false => certificate.not_before + life * 2 / 3,
    };
    let (start, end) = match certificate.revoked {
        Some(revoked) => (revoked.at - Duration::from_secs(3600), revoked.at),
        None => (middle - life / 100, middle + life / 100),
    };
    RenewalWindow { start, end, explanation_url: None, retry_after: None }
}

impl Ca {
    /// A certificate by its id of RFC 9773: key identifier and serial number.
    pub(crate) fn certificate_by_id(&self, text: &str) -> Result<Certificate, Problem> {
        let parts = text.split_once('.').and_then(|(authority, serial)| {
            Some((URL_SAFE_NO_PAD.decode(authority).ok()?, URL_SAFE_NO_PAD.decode(serial).ok()?))
        });
        let (authority, serial) = parts.ok_or_else(|| {
            Problem::malformed(
                "a certificate id is two unpadded base64url texts with a dot between",
            )
        })?;
        let known = self.certificates.read(&id::hex(&serial), Certificate::clone);
        let known = known.filter(|_| authority == self.authority.key_identifier());
        known.ok_or_else(|| Problem::not_found("certificate"))
    }

    /// A certificate's id of RFC 9773.
    pub(crate) fn certificate_id(&self, certificate: &Certificate) -> String {
        let authority = URL_SAFE_NO_PAD.encode(self.authority.key_identifier());
        let serial = id::unhex(&certificate.serial);
        format!("{authority}.{}", URL_SAFE_NO_PAD.encode(serial))
    }

    /// Checks that an order of this account for these names may replace a certificate.
    pub(crate) fn check_replaces(
        &self,
        replaces: &str,
        account: &str,
        names: &[String],
    ) -> Result<(), Problem> {
        let certificate = self.certificate_by_id(replaces)?;
        if certificate.account != account {
            return Err(Problem::unauthorized(
                "replaces: this is a certificate of another account",
            ));
        }
        if !certificate.names.iter().any(|name| names.contains(name)) {
            return Err(Problem::malformed("replaces: the order has no name of the certificate"));
        }
        self.must_not_be_replaced(&certificate)
    }

    /// Notes that an order replaces a certificate.
    pub(crate) fn mark_replaced(&self, replaces: &str, order: &str) -> Result<(), Problem> {
        let certificate = self.certificate_by_id(replaces)?;
        self.must_not_be_replaced(&certificate)?;
        // Between look and mark another order may have come; the one noted first wins.
        let marked = self.certificates.update(&certificate.serial, |row| {
            let unchanged = row.replaced_by == certificate.replaced_by;
            if unchanged {
                row.replaced_by = Some(order.to_owned());
            }
            unchanged
        });
        match marked {
            Some(true) => Ok(()),
            _ => Err(already_replaced()),
        }
    }

    /// Takes the mark of an order away that came to nothing.
    pub(super) fn unmark_replaced(&self, replaces: &str, order: &str) {
        let Ok(certificate) = self.certificate_by_id(replaces) else { return };
        if certificate.replaced_by.as_deref() == Some(order) {
            self.certificates.update(&certificate.serial, |row| {
                // Another order may have come since.
                row.replaced_by.take_if(|marked| marked == order);
            });
        }
    }

    fn must_not_be_replaced(&self, certificate: &Certificate) -> Result<(), Problem> {
        let Some(order) = &certificate.replaced_by else { return Ok(()) };
        // An order that is not there yet is just being made.
        match self.orders.read(order, |order| order.is_alive(self)) {
            Some(false) => Ok(()),
            _ => Err(already_replaced()),
        }
    }
}

fn already_replaced() -> Problem {
    Problem::new(Kind::AlreadyReplaced, "an order that replaces this certificate was made before")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(days: i64, expected_start: f64) {
        let not_before = OffsetDateTime::UNIX_EPOCH;
        let certificate: Certificate = serde_json::from_value(json!({
            "serial": "01", "account": "", "order": "", "names": [], "der": "",
            "not_before": "1970-01-01T00:00:00Z",
            "not_after": (not_before + time::Duration::days(days)).format(&Rfc3339).unwrap(),
            "revoked": null, "replaced_by": null,
        }))
        .unwrap();
        let window = suggested(&certificate);
        let life = time::Duration::days(days);
        assert_eq!(window.end - window.start, life / 50);
        let start = (window.start - not_before) / life;
        assert!((start - expected_start).abs() < 0.001, "{start}");
    }

    #[test]
    fn the_window_is_as_at_lets_encrypt() {
        check(90, 2.0 / 3.0 - 0.01);
        check(6, 0.5 - 0.01);
    }
}
