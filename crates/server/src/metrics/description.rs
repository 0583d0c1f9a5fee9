//! What each metric that is recorded means, in the words of docs/metrics.md. Who adds a metric adds a line here; a test looks.

use metrics::{describe_counter, describe_gauge, describe_histogram};

const COUNTERS: &[(&str, &str)] = &[
    ("holdfast_acme_requests_total", "Requests to the CA, by what came of them."),
    ("holdfast_agent_handshakes_total", "Handshakes by which the agent looked at what is served."),
    ("holdfast_agent_reloads_total", "Reloads of the proxy."),
    ("holdfast_agent_reports_total", "Reports of the agent to the control plane."),
    (
        "holdfast_challenge_rounds_total",
        "Reads of all open challenges at once, beyond the budget for single reads.",
    ),
    ("holdfast_claims_lost_total", "Claims that ended before the work on them did."),
    ("holdfast_clock_steps_total", "Steps of the database's clock that this replica noticed."),
    ("holdfast_edge_handshakes_total", "TLS handshakes of the built-in edge."),
    ("holdfast_edge_lookups_total", "Certificates the built-in edge looked up."),
    (
        "holdfast_edge_upstream_failures_total",
        "Requests that the built-in edge's upstream did not answer.",
    ),
    (
        "holdfast_event_reads_total",
        "Reads of the event log for streams: by the reader they share, or for one that is behind.",
    ),
    ("holdfast_forwards_lost_total", "Forwarded writes without an answer."),
    ("holdfast_guarded_writes_total", "Writes where the guard is on, by what was done with them."),
    ("holdfast_heartbeats_failed_total", "Signs of life that the database did not take."),
    ("holdfast_http_requests_total", "Requests answered."),
    ("holdfast_lease_acquisitions_total", "How often this replica got a lease."),
    ("holdfast_lease_late_renewals_total", "Renewals of a lease that came late, but in time."),
    ("holdfast_lease_losses_total", "How often this replica lost a lease against its will."),
    ("holdfast_retries_total", "Retries in place, by state."),
    ("holdfast_task_runs_total", "Runs of singleton work, by what came of them."),
    ("holdfast_transitions_total", "Transitions committed; from equal to to is a retry in place."),
    (
        "holdfast_webhook_attempts_total",
        "Tries to deliver a message to a webhook, by what came of them.",
    ),
];

const GAUGES: &[(&str, &str)] = &[
    ("holdfast_agent_names_refused", "Names whose certificate the proxy refuses."),
    ("holdfast_agent_ready", "1 while the agent reports and nothing is wrong."),
    ("holdfast_claims_held", "Domains this replica works on."),
    ("holdfast_edge_connections", "Open connections of the built-in edge."),
    ("holdfast_lease_held", "Whether this replica holds a lease."),
    ("holdfast_lease_term", "The term in which this replica last held a lease."),
];

const HISTOGRAMS: &[(&str, &str)] = &[
    ("holdfast_acme_request_seconds", "How long requests to the CA took."),
    ("holdfast_agent_apply_seconds", "How long applying at the proxy took."),
    ("holdfast_http_request_duration_seconds", "How long it took until an answer began."),
    (
        "holdfast_lease_renewal_seconds",
        "How long the lease store took to renew the leases of this replica.",
    ),
    ("holdfast_state_duration_seconds", "How long domains stayed in a state, when they left it."),
    ("holdfast_webhook_attempt_seconds", "How long tries to deliver a message to a webhook took."),
];

/// Tells the recorder.
pub(super) fn describe() {
    COUNTERS.iter().for_each(|(name, help)| describe_counter!(*name, *help));
    GAUGES.iter().for_each(|(name, help)| describe_gauge!(*name, *help));
    HISTOGRAMS.iter().for_each(|(name, help)| describe_histogram!(*name, *help));
}
