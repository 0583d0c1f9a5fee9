//! `holdfast dev dns …`

use clap::Subcommand;
use serde::Deserialize;
use serde_json::{Value, json};

use super::NetworkArgs;
use crate::{
    client::{escaped, parsed},
    environment::Environment,
    failure::Failure,
    output::{Output, Table},
};

/// The zone.
#[derive(Debug, clap::Args)]
pub(super) struct DnsArgs {
    #[command(flatten)]
    network: NetworkArgs,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Set a record: `set shop.test CNAME elsewhere.test`; `set shop.test NONE -` makes the name not exist
    Set {
        /// The name
        name: String,
        /// A, AAAA, CNAME, TXT, CAA, NS, NONE, SERVFAIL, REFUSED or TIMEOUT
        #[arg(value_name = "TYPE")]
        kind: String,
        /// The value; `-` where there is none
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
    /// Forget what was set of a name: every name under .test is a CNAME to edge.holdfast.test again
    Clear {
        /// The name
        name: String,
    },
    /// List what was set
    List,
}

#[derive(Debug, Deserialize)]
struct Record {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    value: String,
}

pub(super) async fn run(args: DnsArgs, environment: &Environment) -> Result<(), Failure> {
    let (api, output) = (args.network.api()?, args.network.output(environment));
    let style = output.style();
    let done = |text: String| {
        if !output.is_json() {
            output.line(format!("{} {text}", style.good("✓")));
        }
    };
    match args.verb {
        Verb::Set { name, kind, value } => {
            let kind = kind.to_ascii_uppercase();
            api.put("/dev/dns", &json!({ "name": name, "type": kind, "value": value })).await?;
            done(format!("{name} {kind} {value}"));
        }
        Verb::Clear { name } => {
            api.delete(&format!("/dev/dns/{}", escaped(&name))).await?;
            done(format!("{name} is as every name under .test: a CNAME to edge.holdfast.test."));
        }
        Verb::List => list(&api.get("/dev/dns").await?, output)?,
    }
    Ok(())
}

fn list(records: &Value, output: Output) -> Result<(), Failure> {
    if output.is_json() {
        output.json(records);
        return Ok(());
    }
    let records: Vec<Record> = parsed(records)?;
    if records.is_empty() {
        let note = "Nothing is set: every name under .test is a CNAME to edge.holdfast.test.";
        output.line(output.style().dim(note));
        return Ok(());
    }
    let mut table = Table::new(["NAME", "TYPE", "VALUE"]);
    for record in records {
        table.row([record.name, record.kind, record.value]);
    }
    output.table(&table);
    Ok(())
}
