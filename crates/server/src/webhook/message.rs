//! What an event is to a webhook: of which kind, in which lane, in which words.

use holdfast_model::{Domain, State};
use holdfast_store::{DOMAIN_EXPIRING, Event, EventBody, NewDelivery, Result, SharedStore};
use serde_json::{Value, json};

/// The kinds there are.
pub(crate) const KINDS: [&str; 7] = [
    "domain.active",
    "domain.renewed",
    "domain.failed",
    "domain.expiring",
    "domain.removed",
    "alert.raised",
    "alert.cleared",
];

/// What an event is, before anything is looked up for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    /// Active: for the first time, or again with a new certificate.
    Served,
    Other(&'static str),
}

fn sort(body: &EventBody) -> Option<Sort> {
    match body {
        EventBody::Transition { from, to: Some(State::Active), .. }
            if *from != Some(State::Active) =>
        {
            Some(Sort::Served)
        }
        EventBody::Transition { from, to: Some(to), .. }
            if to.is_failure() && *from != Some(*to) =>
        {
            Some(Sort::Other("domain.failed"))
        }
        EventBody::Transition { to: None, .. } => Some(Sort::Other("domain.removed")),
        EventBody::Transition { .. } => None,
        EventBody::Notice { kind, .. } => match kind.as_str() {
            DOMAIN_EXPIRING => Some(Sort::Other("domain.expiring")),
            "alert-raised" => Some(Sort::Other("alert.raised")),
            "alert-cleared" => Some(Sort::Other("alert.cleared")),
            _ => None,
        },
    }
}

/// The message that tells of an event; none where the webhook wants none.
pub(super) async fn of(
    store: &SharedStore,
    wanted: &[String],
    event: &Event,
) -> Result<Option<NewDelivery>> {
    let Some(sort) = sort(&event.body) else { return Ok(None) };
    let kind = match (sort, &event.body) {
        (Sort::Served, EventBody::Transition { domain, .. }) => {
            match store.was_active_before(*domain, event.cursor).await? {
                true => "domain.renewed",
                false => "domain.active",
            }
        }
        (Sort::Served, EventBody::Notice { .. }) => return Ok(None),
        (Sort::Other(kind), _) => kind,
    };
    if !wanted.iter().any(|wanted| wanted == kind) {
        return Ok(None);
    }
    let (lane, data) = data(store, &event.body).await?;
    let body = json!({
        "type": kind,
        "timestamp": event.at,
        "sequence": event.cursor.to_string(),
        "data": data,
    });
    Ok(Some(NewDelivery { lane, kind: kind.to_owned(), body: body.to_string() }))
}

/// A message that tests the way.
pub(crate) fn ping(webhook: &str) -> NewDelivery {
    let body = json!({ "type": "ping", "data": { "webhook_id": webhook } });
    // In a lane of its own: a test must not wait behind what it is to find the fault of.
    let lane = format!("ping:{}", uuid::Uuid::new_v4());
    NewDelivery { lane, kind: "ping".to_owned(), body: body.to_string() }
}

async fn data(store: &SharedStore, body: &EventBody) -> Result<(String, Value)> {
    Ok(match body {
        EventBody::Transition { domain, name, from, to, error, .. } => {
            let mut data = json!({
                "id": domain.to_string(),
                "name": name.as_str(),
                "from": from,
                "state": to,
                "error": error.as_ref().map(|note| json!({ "code": note.code, "detail": note.detail })),
            });
            add_facts(&mut data, store.domain(*domain).await?);
            (name.to_string(), data)
        }
        EventBody::Notice { kind, subject, detail } if kind == DOMAIN_EXPIRING => {
            let known = match holdfast_model::Hostname::parse_host(subject) {
                Ok(name) => store.domain_named(&name).await?,
                Err(_) => None,
            };
            let id = known.as_ref().map(|domain| domain.id.to_string());
            let state = known.as_ref().map(|domain| domain.state);
            let mut data = json!({ "id": id, "name": subject, "state": state, "detail": detail });
            add_facts(&mut data, known);
            (subject.clone(), data)
        }
        EventBody::Notice { subject, detail, .. } => {
            let (code, detail) = detail.split_once(": ").unwrap_or(("", detail));
            let data = json!({ "code": code, "subject": subject, "detail": detail });
            (format!("alert:{code}:{subject}"), data)
        }
    })
}

/// What the operator knows the domain by, and its certificate, as they are when the message is put down.
fn add_facts(data: &mut Value, domain: Option<Domain>) {
    let (Some(domain), Some(data)) = (domain, data.as_object_mut()) else { return };
    let certificate = domain.certificate.as_ref().map(|certificate| {
        json!({
            "serial": certificate.serial,
            "sha256": certificate.sha256,
            "not_before": certificate.not_before,
            "not_after": certificate.not_after,
            "issuer": certificate.issuer,
        })
    });
    data.insert("tenant".to_owned(), json!(domain.tenant));
    data.insert("resource".to_owned(), json!(domain.resource));
    data.insert("labels".to_owned(), json!(domain.labels));
    data.insert("certificate".to_owned(), json!(certificate));
}

#[cfg(test)]
mod tests {
    use holdfast_model::{DomainId, Hostname};

    use super::*;

    fn moved(from: Option<State>, to: Option<State>) -> EventBody {
        let name = Hostname::parse("shop.example.com").unwrap();
        let domain = DomainId::new();
        EventBody::Transition { domain, name, from, to, duration_ms: 0, attempt: 0, error: None }
    }

    #[test]
    fn every_transition_is_something_or_nothing() {
        for from in State::ALL.iter().copied() {
            for to in State::ALL.iter().copied() {
                let expected = match to {
                    _ if from == to => None,
                    State::Active => Some(Sort::Served),
                    _ if to.is_failure() => Some(Sort::Other("domain.failed")),
                    _ => None,
                };
                assert_eq!(sort(&moved(Some(from), Some(to))), expected, "{from} {to}");
            }
            assert_eq!(sort(&moved(Some(from), None)), Some(Sort::Other("domain.removed")));
        }
        assert_eq!(sort(&moved(None, Some(State::Initial))), None);
    }

    #[test]
    fn notices_that_are_no_alerts_are_not_told() {
        let notice = |kind: &str| EventBody::Notice {
            kind: kind.to_owned(),
            subject: String::new(),
            detail: String::new(),
        };
        assert_eq!(sort(&notice("token-created")), None);
        for (kind, told) in [
            ("alert-raised", "alert.raised"),
            ("alert-cleared", "alert.cleared"),
            ("domain-expiring", "domain.expiring"),
        ] {
            assert_eq!(sort(&notice(kind)), Some(Sort::Other(told)));
            assert!(KINDS.contains(&told));
        }
    }
}
