//! `holdfast token …`: over the API, or with `--config` straight on the database, for who lost the last admin token.

use std::path::PathBuf;

use clap::Subcommand;
use holdfast_model::Timestamp;
use holdfast_server::token;
use holdfast_store::{NewToken, Scope, SharedStore, Token, TokenId};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    client::{Api, ClientArgs, escaped, parsed},
    config::Config,
    environment::Environment,
    failure::Failure,
    output::{Output, Style, Table},
    wiring,
};

/// API tokens.
#[derive(Debug, clap::Args)]
pub(crate) struct TokenArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Work straight on the database of this configuration, without a server or a token
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make a token; it is shown once
    Create(Create),
    /// List tokens, revoked ones too
    List,
    /// Make a token useless
    Revoke {
        /// Its id, as `holdfast token list` shows it
        id: String,
    },
}

#[derive(Debug, clap::Args)]
struct Create {
    /// What it may do
    #[arg(long, value_enum)]
    scope: ScopeWord,
    /// For people: stands in the history as who did it
    #[arg(long)]
    name: Option<String>,
    /// The edge it is for
    #[arg(long, value_name = "NAME", required_if_eq("scope", "edge"))]
    edge: Option<String>,
    /// The group of that edge
    #[arg(long, value_name = "G")]
    group: Option<String>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum ScopeWord {
    /// Everything
    Admin,
    /// Look, but no private keys
    Read,
    /// What an edge agent needs
    Edge,
}

impl From<ScopeWord> for Scope {
    fn from(word: ScopeWord) -> Self {
        match word {
            ScopeWord::Admin => Self::Admin,
            ScopeWord::Read => Self::Read,
            ScopeWord::Edge => Self::Edge,
        }
    }
}

/// Does it.
pub(crate) async fn run(args: TokenArgs, environment: &Environment) -> Result<(), Failure> {
    let output = Output::new(args.client.output, environment);
    let desk = match &args.config {
        Some(path) => {
            let config = Config::load(path, environment)?;
            let store = wiring::store::open(&config).await?;
            Desk::Database(store, config.edge.group)
        }
        None => Desk::Server(Api::find(&args.client)?),
    };
    match args.verb {
        Verb::Create(create) => show_created(output, &desk.create(&create).await?),
        Verb::List => show_list(output, &desk.list().await?)?,
        Verb::Revoke { id } => {
            desk.revoke(&id).await?;
            if output.is_json() {
                output.json(&json!({ "id": id, "revoked": true }));
            } else {
                output.line(format!("{} Token {id} works no more.", output.style().good("✓")));
            }
        }
    }
    if let Desk::Database(store, _) = &desk {
        wiring::store::close(store).await;
    }
    Ok(())
}

/// Where tokens are asked for.
enum Desk {
    Server(Api),
    Database(SharedStore, String),
}

impl Desk {
    async fn create(&self, create: &Create) -> Result<Value, Failure> {
        let scope = Scope::from(create.scope);
        match self {
            Self::Server(api) => {
                let request = json!({
                    "name": create.name, "scope": scope.as_str(), "edge": create.edge, "group": create.group,
                });
                api.post("/v1/tokens", Some(&request)).await
            }
            Self::Database(store, group) => {
                let text = token::mint().map_err(Failure::failed)?;
                let kept = store.keep_token(&new_token(create, group, &text)?).await;
                let mut shown = shown(&kept.map_err(wiring::store::failed)?);
                if let Some(shown) = shown.as_object_mut() {
                    shown.insert("token".to_owned(), json!(text));
                }
                Ok(shown)
            }
        }
    }

    async fn list(&self) -> Result<Vec<Value>, Failure> {
        match self {
            Self::Server(api) => api.list("/v1/tokens").await,
            Self::Database(store, _) => {
                let tokens = store.tokens().await.map_err(wiring::store::failed)?;
                Ok(tokens.iter().map(shown).collect())
            }
        }
    }

    async fn revoke(&self, id: &str) -> Result<(), Failure> {
        match self {
            Self::Server(api) => api.delete(&format!("/v1/tokens/{}", escaped(id))).await.map(drop),
            Self::Database(store, _) => {
                let unknown = || {
                    Failure::failed(format!(
                        "There is no token `{id}`; `holdfast token list` shows those there are."
                    ))
                };
                let id = Uuid::parse_str(id).map(TokenId).map_err(|_| unknown())?;
                let tokens = store.tokens().await.map_err(wiring::store::failed)?;
                if !tokens.iter().any(|token| token.id == id) {
                    return Err(unknown());
                }
                store.revoke_token(id).await.map_err(wiring::store::failed)
            }
        }
    }
}

fn new_token(create: &Create, group: &str, text: &str) -> Result<NewToken, Failure> {
    let scope = Scope::from(create.scope);
    let for_edge = scope == Scope::Edge;
    if !for_edge && (create.edge.is_some() || create.group.is_some()) {
        return Err(Failure::usage(
            "--edge and --group go with --scope edge alone; leave them out.",
        ));
    }
    let group = for_edge.then(|| create.group.clone().unwrap_or_else(|| group.to_owned()));
    let name = create.name.clone().or_else(|| create.edge.clone());
    let name = name.unwrap_or_else(|| scope.as_str().to_owned());
    Ok(NewToken { name, scope, hash: token::hash(text), edge: create.edge.clone(), group })
}

/// As the API shows it.
fn shown(token: &Token) -> Value {
    json!({
        "id": token.id.0.to_string(),
        "name": token.name,
        "scope": token.scope.as_str(),
        "edge": token.edge,
        "group": token.group,
        "created_at": token.created_at,
        "revoked_at": token.revoked_at,
    })
}

fn show_created(output: Output, token: &Value) {
    if output.is_json() {
        return output.json(token);
    }
    let text = |name: &str| token.get(name).and_then(Value::as_str).unwrap_or_default();
    output.line(text("token"));
    // Not among the output: that is often written into the file that an agent reads.
    eprintln!("Shown once; its id is {}, and `holdfast token revoke` ends it.", text("id"));
}

#[derive(Debug, Deserialize)]
struct Row {
    id: String,
    name: String,
    scope: String,
    edge: Option<String>,
    group: Option<String>,
    created_at: Timestamp,
    revoked_at: Option<Timestamp>,
}

fn show_list(output: Output, tokens: &[Value]) -> Result<(), Failure> {
    if output.is_json() {
        output.json(&json!({ "items": tokens, "next_cursor": null }));
        return Ok(());
    }
    let mut table = Table::new(["ID", "NAME", "SCOPE", "EDGE", "GROUP", "CREATED", "REVOKED"])
        .painted("REVOKED", Style::bad);
    for row in tokens.iter().map(parsed::<Row>) {
        let row = row?;
        let revoked = row.revoked_at.map(|at| at.to_string()).unwrap_or_default();
        let (edge, group) = (row.edge.unwrap_or_default(), row.group.unwrap_or_default());
        table.row([row.id, row.name, row.scope, edge, group, row.created_at.to_string(), revoked]);
    }
    output.table(&table);
    Ok(())
}
