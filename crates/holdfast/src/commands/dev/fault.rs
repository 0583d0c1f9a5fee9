//! `holdfast dev fault …`

use clap::Subcommand;
use serde::Deserialize;
use serde_json::{Value, json};

use super::NetworkArgs;
use crate::{
    client::{escaped, parsed},
    environment::Environment,
    failure::Failure,
    output::{Output, Style, Table},
};

/// The CA's faults.
#[derive(Debug, clap::Args)]
pub(super) struct FaultArgs {
    #[command(flatten)]
    network: NetworkArgs,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Switch a fault on; `list` shows the kinds there are
    Set {
        /// Its kind
        kind: String,
        /// How much of it
        value: String,
        /// Only so many times
        #[arg(long, value_name = "N")]
        times: Option<u64>,
    },
    /// Switch a fault off; without a kind, all of them
    Clear {
        /// Its kind
        kind: Option<String>,
    },
    /// List what is switched on, and the kinds there are
    List,
}

#[derive(Debug, Deserialize)]
struct Faults {
    faults: Vec<Fault>,
    kinds: Vec<Kind>,
}

#[derive(Debug, Deserialize)]
struct Fault {
    kind: String,
    value: String,
    times_left: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Kind {
    kind: String,
    takes: String,
    description: String,
}

pub(super) async fn run(args: FaultArgs, environment: &Environment) -> Result<(), Failure> {
    let (api, output) = (args.network.api()?, args.network.output(environment));
    let done = |text: String| {
        if !output.is_json() {
            output.line(format!("{} {text}", output.style().good("✓")));
        }
    };
    match args.verb {
        Verb::Set { kind, value, times } => {
            let path = format!("/dev/faults/{}", escaped(&kind));
            api.put(&path, &json!({ "value": value, "times": times })).await?;
            done(format!("{kind} is on: {value}"));
        }
        Verb::Clear { kind: Some(kind) } => {
            api.delete(&format!("/dev/faults/{}", escaped(&kind))).await?;
            done(format!("{kind} is off."));
        }
        Verb::Clear { kind: None } => {
            api.delete("/dev/faults").await?;
            done("All faults are off.".to_owned());
        }
        Verb::List => list(&api.get("/dev/faults").await?, output)?,
    }
    Ok(())
}

fn list(answer: &Value, output: Output) -> Result<(), Failure> {
    if output.is_json() {
        output.json(answer);
        return Ok(());
    }
    let Faults { faults, kinds } = parsed(answer)?;
    let mut table = Table::new(["KIND", "ON", "TAKES", "DOES"])
        .painted("ON", Style::warn)
        .painted("TAKES", Style::dim);
    for kind in kinds {
        let on = faults.iter().find(|fault| fault.kind == kind.kind);
        let on = on.map(|fault| match fault.times_left {
            Some(times) => format!("{} ({times} more times)", fault.value),
            None => fault.value.clone(),
        });
        table.row([kind.kind, on.unwrap_or_default(), kind.takes, kind.description]);
    }
    output.table(&table);
    Ok(())
}
