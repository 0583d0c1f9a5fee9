//! `holdfast doctor`: what is wrong with this installation, each with its fix.
//!
//! With a configuration it looks at everything a replica would need, also before the first start; without one it asks the
//! server that clients would ask. It changes nothing.

mod authority;
mod cluster;
mod database;
mod disk;
mod finding;
mod issuer;
mod listener;
mod names;
mod running;
mod tls;

use std::path::PathBuf;

use serde_json::{Value, json};

use self::finding::{Finding, Verdict};
use crate::{
    client::ClientArgs, config::Config, environment::Environment, failure::Failure, output::Output,
};

/// Say what is wrong.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Look at what this configuration names, instead of asking a server
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Looks; fails if anything is wrong.
pub(crate) async fn run(args: DoctorArgs, environment: &Environment) -> Result<(), Failure> {
    let output = Output::new(args.client.output, environment);
    let findings = match &args.config {
        Some(path) => configured(&Config::load(path, environment)?).await,
        None => running::look(&args.client).await.map_err(without_a_server)?,
    };
    show(output, &findings);
    match findings.iter().filter(|finding| finding.verdict == Verdict::Wrong).count() {
        0 => Ok(()),
        1 => Err(Failure::failed("One thing is wrong; its fix is beside it.")),
        many => {
            Err(Failure::failed(format!("{many} things are wrong; each has its fix beside it.")))
        }
    }
}

/// A server that cannot be reached is what the doctor is called for: there is another way to look.
fn without_a_server(failure: Failure) -> Failure {
    match failure {
        Failure::Unreachable(why) => Failure::unreachable(format!(
            "{why} To look at an installation without asking it, name its configuration: holdfast doctor --config FILE."
        )),
        failure => failure,
    }
}

async fn configured(config: &Config) -> Vec<Finding> {
    let mut findings =
        vec![Finding::good("configuration", "every key is known and fits the others")];
    findings.extend(tls::look(config));
    let (redis, authority, names, listeners) = tokio::join!(
        cluster::redis(config),
        authority::look(&config.acme),
        names::look(&config.dns),
        listener::look(config),
    );
    findings.extend(database::look(config, authority.terms.as_deref()).await);
    findings.extend(redis);
    findings.extend(authority.findings);
    findings.extend(names);
    findings.extend(listeners);
    findings.extend(disk::look(config));
    findings
}

fn show(output: Output, findings: &[Finding]) {
    if output.is_json() {
        let items: Vec<Value> = findings.iter().map(Finding::to_json).collect();
        return output.json(&json!({ "items": items }));
    }
    let style = output.style();
    for finding in findings {
        let symbol = match finding.verdict {
            Verdict::Good => style.good("✓"),
            Verdict::Doubtful => style.warn("!"),
            Verdict::Wrong => style.bad("✗"),
        };
        output.line(format!("{symbol} {:<14} {}", finding.what, finding.seen));
        if let Some(fix) = &finding.fix {
            output.line(format!("  {:<14} {}", "", style.bold(fix)));
        }
    }
}
