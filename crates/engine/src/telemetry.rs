//! What a committed transition says to the log and the metrics.

use holdfast_model::{Domain, Hop, Transition};

pub(crate) fn transition(domain: &Domain, transition: &Transition) {
    for hop in &transition.hops {
        count(hop);
        log(domain, hop);
    }
}

fn count(hop: &Hop) {
    let (from, to) = (hop.from.as_str(), hop.to.as_str());
    metrics::counter!("holdfast_transitions_total", "from" => from, "to" => to).increment(1);
    if hop.from == hop.to {
        metrics::counter!("holdfast_retries_total", "state" => from).increment(1);
    } else {
        metrics::histogram!("holdfast_state_duration_seconds", "state" => from)
            .record(hop.lasted.as_secs_f64());
    }
}

fn log(domain: &Domain, hop: &Hop) {
    let (name, from, to, attempt) = (&domain.name, hop.from, hop.to, hop.attempt);
    match &hop.error {
        Some(error) => {
            tracing::warn!(domain = %name, %from, %to, attempt, code = %error.code, detail = %error.detail, "moved");
        }
        None => tracing::info!(domain = %name, %from, %to, attempt, "moved"),
    }
}
