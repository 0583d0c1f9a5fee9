//! A running server, asked over its API.

use holdfast_model::Timestamp;
use http::{HeaderMap, Method, header};
use serde_json::Value;

use super::{authority, cluster, disk, finding::Finding};
use crate::{
    client::{Api, ClientArgs, Found},
    clock,
    failure::Failure,
};

pub(super) async fn look(args: &ClientArgs) -> Result<Vec<Finding>, Failure> {
    let api = Api::find(args)?;
    let health = api.send(Method::GET, "/health", None).await?;
    let mut findings = vec![Finding::good("server", format!("{} answers", api.base()))];
    findings.extend(skew(health.headers()));
    findings.extend(parts(&serde_json::from_slice(health.body()).unwrap_or_default()));
    findings.extend(cluster::running(&api).await);
    findings.extend(cluster::listed(&api, "edges", "/v1/edges", edges).await);
    findings.extend(cluster::listed(&api, "alerts", "/v1/alerts", alerts).await);
    if let (None, Some(found)) = (&args.server, Found::read(&args.data)?) {
        findings.extend(network(&found).await);
        findings.extend(disk::room(&args.data));
    }
    Ok(findings)
}

/// The parts of `/health`.
fn parts(health: &Value) -> Vec<Finding> {
    let results = health.get("results").and_then(Value::as_object);
    let part = |(name, result): (&String, &Value)| {
        let text =
            |name: &str| result.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let what = match name.as_str() {
            "database" => "database",
            "leader_election" => "leases",
            _ => "work",
        };
        match text("status").as_str() {
            "Unhealthy" => {
                let fix = result.pointer("/data/fix").and_then(Value::as_str);
                Finding::wrong(what, text("description"), fix.unwrap_or("See the server's log."))
            }
            // A follower is Degraded in good order; a database is not.
            "Degraded" if what == "database" => {
                Finding::doubtful(what, text("description"), "See docs/troubleshooting.md.")
            }
            _ => Finding::good(what, text("description")),
        }
    };
    results.into_iter().flatten().map(part).collect()
}

fn edges(edges: &[Value]) -> Vec<Finding> {
    let text = |edge: &Value, name: &str| {
        edge.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let live = |edge: &&Value| edge.get("live").and_then(Value::as_bool).unwrap_or_default();
    let (live, stale): (Vec<_>, Vec<_>) = edges.iter().partition(live);
    let finding = |edge: &&Value| {
        let name = text(edge, "name");
        match edge.pointer("/last_error/detail").and_then(Value::as_str) {
            Some(complaint) => ailing(&name, complaint),
            None => Finding::good("edge", format!("{name} lives")),
        }
    };
    let mut findings: Vec<_> = live.iter().map(finding).collect();
    if live.is_empty() && !stale.is_empty() {
        findings.push(Finding::wrong(
            "edge",
            "no edge reported within the last 30 s",
            "Start an edge; `holdfast edge list` shows those there were.",
        ));
    }
    findings
}

/// An edge that reports, and that is out of order as a whole.
pub(super) fn ailing(name: &str, complaint: &str) -> Finding {
    let fix = format!("Mend what it names; `holdfast edge show {name}` says when it is over.");
    Finding::wrong("edge", format!("{name} is out of order: {complaint}"), fix)
}

fn alerts(alerts: &[Value]) -> Vec<Finding> {
    alerts.iter().map(alert).collect()
}

fn alert(alert: &Value) -> Finding {
    let text = |name: &str| alert.get(name).and_then(Value::as_str).unwrap_or_default();
    match text("severity") {
        "critical" => Finding::wrong("alert", text("detail"), text("fix")),
        _ => Finding::doubtful("alert", text("detail"), text("fix")),
    }
}

/// A clock that differs makes times unreadable, and certificates not yet or no longer valid.
fn skew(headers: &HeaderMap) -> Option<Finding> {
    let said = headers.get(header::DATE)?.to_str().ok()?;
    let theirs = http_date(said)?;
    let now = clock::now();
    let apart = theirs.since(now).max(now.since(theirs));
    Some(match apart.as_secs() {
        0..5 => Finding::good("clock", "this machine and the server agree"),
        _ => Finding::doubtful(
            "clock",
            format!("this machine and the server are {} apart", clock::span(apart)),
            "Keep both on time, with NTP.",
        ),
    })
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
fn http_date(text: &str) -> Option<Timestamp> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let mut words = text.split(' ').skip(1);
    let (day, month, year, time) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let month = MONTHS.find(month)? / 3 + 1;
    Timestamp::parse(&format!("{year}-{month:02}-{day}T{time}Z")).ok()
}

async fn network(found: &Found) -> Vec<Finding> {
    let root = std::fs::read(&found.root_certificate).ok();
    let directory = format!("{}/directory", found.ca);
    let fix = "Start `holdfast up` again; another process may have taken its port.";
    vec![match authority::directory(&directory, root).await {
        Ok(_) => Finding::good("ca", format!("{directory} answers")),
        Err(why) => Finding::wrong("ca", why, fix),
    }]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_live_edge_that_complains_is_wrong() {
        let complaint = json!({ "code": "edge-proxy-down", "detail": "the proxy does not answer" });
        let found = edges(&[
            json!({ "name": "fra-1", "live": true, "last_error": complaint }),
            json!({ "name": "fra-2", "live": true, "last_error": null }),
        ]);
        assert_eq!(found[0], ailing("fra-1", "the proxy does not answer"));
        assert_eq!(found[1], Finding::good("edge", "fra-2 lives"));
    }

    #[test]
    fn dates_of_http() {
        let at = http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        assert_eq!(at.to_string(), "1994-11-06T08:49:37Z");
        assert_eq!(http_date("soon"), None);
    }
}
