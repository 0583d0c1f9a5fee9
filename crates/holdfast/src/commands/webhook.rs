//! `holdfast webhook …`: who is told of what happens, and whether they heard.

use clap::Subcommand;
use holdfast_model::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    client::{Api, ClientArgs, escaped, parsed},
    environment::Environment,
    failure::Failure,
    output::{Output, Style, Table},
};

/// Webhooks.
#[derive(Debug, clap::Args)]
pub(crate) struct WebhookArgs {
    #[command(flatten)]
    client: ClientArgs,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make a webhook; its secret is shown once
    Create(Create),
    /// List webhooks
    List,
    /// Show the last messages of a webhook, and what came of them
    Show {
        /// Its id, as `holdfast webhook list` shows it
        id: String,
    },
    /// Send it a message of type `ping`
    Test {
        /// Its id, as `holdfast webhook list` shows it
        id: String,
    },
    /// Forget a webhook, and what it has not been told yet
    Remove {
        /// Its id, as `holdfast webhook list` shows it
        id: String,
    },
}

#[derive(Debug, clap::Args)]
struct Create {
    /// Where messages go
    url: String,
    /// A kind of event it wants, such as domain.active; may be given several times, and all are sent where none is given
    #[arg(long = "event", value_name = "TYPE")]
    events: Vec<String>,
    /// What messages are signed with (`whsec_…`); made where none is given
    #[arg(long, value_name = "SECRET")]
    secret: Option<String>,
}

/// Does it.
pub(crate) async fn run(args: WebhookArgs, environment: &Environment) -> Result<(), Failure> {
    let output = Output::new(args.client.output, environment);
    let api = Api::find(&args.client)?;
    match args.verb {
        Verb::Create(create) => {
            let events = Some(create.events).filter(|events| !events.is_empty());
            let request = json!({ "url": create.url, "events": events, "secret": create.secret });
            show_created(output, &api.post("/v1/webhooks", Some(&request)).await?);
        }
        Verb::List => show_list(output, &api.list("/v1/webhooks").await?)?,
        Verb::Show { id } => {
            let messages = api.get(&path(&id, "/deliveries?limit=50")).await?;
            show_messages(output, &messages)?;
        }
        Verb::Test { id } => {
            let webhook = api.post(&path(&id, "/test"), None).await?;
            let told = format!(
                "A message is on its way; `holdfast webhook show {id}` says what came of it."
            );
            done(output, &webhook, &told);
        }
        Verb::Remove { id } => {
            api.delete(&path(&id, "")).await?;
            let removed = json!({ "id": id, "removed": true });
            done(output, &removed, &format!("Webhook {id} is told nothing any more."));
        }
    }
    Ok(())
}

fn path(id: &str, rest: &str) -> String {
    format!("/v1/webhooks/{}{rest}", escaped(id))
}

fn done(output: Output, value: &Value, told: &str) {
    if output.is_json() {
        output.json(value);
    } else {
        output.line(format!("{} {told}", output.style().good("✓")));
    }
}

fn show_created(output: Output, webhook: &Value) {
    if output.is_json() {
        return output.json(webhook);
    }
    let text = |name: &str| webhook.get(name).and_then(Value::as_str).unwrap_or_default();
    output.line(text("secret"));
    let note = format!(
        "Shown once: messages are signed with it. Its id is {}; `holdfast webhook test` tries it.",
        text("id")
    );
    output.line(output.style().dim(&note));
}

#[derive(Debug, Deserialize)]
struct Row {
    id: String,
    url: String,
    events: Vec<String>,
    undelivered_since: Option<Timestamp>,
}

fn show_list(output: Output, webhooks: &[Value]) -> Result<(), Failure> {
    if output.is_json() {
        output.json(&json!({ "items": webhooks, "next_cursor": null }));
        return Ok(());
    }
    let mut table = Table::new(["ID", "URL", "EVENTS", "UNDELIVERED SINCE"])
        .painted("UNDELIVERED SINCE", Style::bad);
    for row in webhooks.iter().map(parsed::<Row>) {
        let row = row?;
        let since = row.undelivered_since.map(|at| at.to_string()).unwrap_or_default();
        table.row([row.id, row.url, row.events.join(" "), since]);
    }
    output.table(&table);
    Ok(())
}

#[derive(Debug, Deserialize)]
struct Message {
    r#type: String,
    subject: String,
    status: String,
    created_at: Timestamp,
    attempts: u32,
    error: Option<String>,
    next_attempt_at: Option<Timestamp>,
}

fn show_messages(output: Output, page: &Value) -> Result<(), Failure> {
    if output.is_json() {
        output.json(page);
        return Ok(());
    }
    let items = page.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut table = Table::new(["AT", "TYPE", "SUBJECT", "STATUS", "TRIES", "NEXT", "ERROR"])
        .painted("ERROR", Style::bad);
    for message in items.iter().map(parsed::<Message>) {
        let message = message?;
        let next = message.next_attempt_at.map(|at| at.to_string()).unwrap_or_default();
        table.row([
            message.created_at.to_string(),
            message.r#type,
            message.subject,
            message.status,
            message.attempts.to_string(),
            next,
            message.error.unwrap_or_default(),
        ]);
    }
    output.table(&table);
    Ok(())
}
