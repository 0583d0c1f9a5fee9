//! pgbench, which sends a prepared statement and does nothing else.

use anyhow::{Context as _, Result, bail, ensure};
use holdfast_lease::Term;
use holdfast_testkit::Scratch;
use tokio::process::Command;

use super::clients::threads;
use super::operation::{OWNER, Operation, TIMES, TTL, acquire, lease};
use super::statement::Text;
use super::{micros, store};

/// Sends the statements of an operation, from as many clients at once: how long each transaction took, in microseconds.
pub(super) async fn run(
    url: &str,
    texts: &[Text; 3],
    operation: Operation,
    clients: usize,
) -> Result<Vec<f64>> {
    let term = same_term(url, clients).await?;
    let home = Scratch::new()?;
    let script = home.write("script.sql", script(texts, operation)?)?;
    let mut command = Command::new("pgbench");
    command
        .args(["--no-vacuum", "--protocol=prepared", "--log"])
        .args(["--jobs", &threads(clients).to_string(), "--client", &clients.to_string()])
        .args(["--transactions", &TIMES.to_string(), "--define", &format!("term={term}")])
        .arg(format!("--log-prefix={}", home.path().join("took").display()))
        .arg("--file")
        .arg(script)
        .arg(url)
        // As the store has it.
        .env("PGOPTIONS", "-c plan_cache_mode=force_generic_plan")
        .kill_on_drop(true);
    let output = command.output().await.context("starting pgbench")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && !said.contains("aborted"), "pgbench: {said}");
    took(&home)
}

/// Brings the leases of all clients to the same term.
async fn same_term(url: &str, clients: usize) -> Result<i64> {
    let mut store = store(url)?;
    let mut highest = Term::NONE;
    for client in 0..clients {
        highest = highest.max(acquire(&mut *store, &lease(client)?, Term::NONE).await?);
    }
    for client in 0..clients {
        acquire(&mut *store, &lease(client)?, highest).await?;
    }
    Ok(highest.next().number())
}

fn script(texts: &[Text; 3], operation: Operation) -> Result<String> {
    let [acquire, renew, release] = texts;
    let (acquire, renew, release) = (filled(acquire)?, filled(renew)?, filled(release)?);
    // The next term is always the one above the last.
    let next = "\\set term :term + 1\n";
    Ok(match operation {
        Operation::Renew => renew,
        Operation::Acquire => format!("{acquire}{next}"),
        Operation::AcquireAndRelease => format!("{acquire}{next}{release}"),
    })
}

/// A statement with values in the place of its parameters. What differs from client to client or from time to time stays a
/// parameter.
fn filled(text: &Text) -> Result<String> {
    let (lease, ttl, never) = (":client_id", micros(TTL).to_string(), i64::MAX.to_string());
    let owner = format!("'{OWNER}'");
    let values: Vec<&str> = match text.name {
        "acquire" => vec![
            lease, "'bench'", &owner, "0", &ttl, ":term", "false", "NULL", "0", "0", "NULL", &never,
        ],
        "renew" => {
            let (leases, terms) = ("ARRAY[:client_id::text]", "ARRAY[:term::bigint]");
            vec![&owner, &never, leases, terms, "ARRAY[30000000]", "0"]
        }
        "release" => vec![lease, &owner, ":term", "NULL", "0", &never, "'holdfast_lease'"],
        other => bail!("{other} is no operation"),
    };
    let types: Vec<&str> = text.types.split(", ").collect();
    ensure!(values.len() == types.len(), "{} takes {}", text.name, text.types);
    let places = values.into_iter().zip(types).enumerate();
    // From the last, so that $1 is not found in $12.
    let sql = places.rev().fold(text.sql.clone(), |sql, (place, (value, kind))| {
        sql.replace(&format!("${}", place + 1), &format!("({value})::{kind}"))
    });
    Ok(format!("{};\n", sql.trim()))
}

/// What pgbench logged: the third word of each line, in microseconds.
fn took(home: &Scratch) -> Result<Vec<f64>> {
    let mut sample = Vec::new();
    for entry in std::fs::read_dir(home.path())?.flatten() {
        if !entry.file_name().to_string_lossy().starts_with("took") {
            continue;
        }
        for line in std::fs::read_to_string(entry.path())?.lines() {
            let took = line.split_whitespace().nth(2).context("a short line of pgbench's log")?;
            sample.push(took.parse::<f64>()?);
        }
    }
    ensure!(!sample.is_empty(), "pgbench logged nothing");
    Ok(sample)
}
