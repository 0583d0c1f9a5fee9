//! pgbench, which sends a statement and does nothing else.

use anyhow::{Context as _, Result, bail, ensure};
use holdfast_lease::Term;
use holdfast_testkit::Scratch;
use tokio::process::Command;

use super::operation::{OWNER, Operation, TIMES, TTL, acquire, lease};
use super::statement::Text;
use super::{micros, store};
use crate::sample::Sample;

/// Sends the statements of an operation, from as many clients at once: the median, in microseconds.
pub(super) async fn run(
    url: &str,
    texts: &[Text; 3],
    operation: Operation,
    clients: usize,
) -> Result<f64> {
    let term = same_term(url, clients).await?;
    let home = Scratch::new()?;
    let script = home.write("script.sql", script(texts, operation)?)?;
    let mut command = Command::new("pgbench");
    command
        .args(["--no-vacuum", "--protocol=simple", "--log", "--jobs", &clients.min(2).to_string()])
        .args(["--client", &clients.to_string(), "--transactions", &TIMES.to_string()])
        .args(["--define", "prepared=0", "--define", &format!("term={term}")])
        .arg(format!("--log-prefix={}", home.path().join("took").display()))
        .arg("--file")
        .arg(script)
        .arg(url)
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
    let mut script = String::from("\\if :prepared = 0\n");
    for Text { name, sql, types } in texts {
        script += &format!("PREPARE {name} ({types}) AS {sql};\n");
    }
    script += "\\set prepared 1\n\\endif\n";
    let [acquire, renew, release] = texts;
    // The next term is always the one above the last.
    match operation {
        Operation::Renew => script += &execute(renew)?,
        Operation::Acquire => script += &format!("{}\\set term :term + 1\n", execute(acquire)?),
        Operation::AcquireAndRelease => {
            script += &execute(acquire)?;
            script += &format!("\\set term :term + 1\n{}", execute(release)?);
        }
    }
    Ok(script)
}

fn execute(text: &Text) -> Result<String> {
    let (lease, ttl, never) = ("(:client_id)::text", micros(TTL).to_string(), i64::MAX.to_string());
    let owner = format!("'{OWNER}'");
    let values: Vec<&str> = match text.name {
        "acquire" => vec![
            lease, "'bench'", &owner, "0", &ttl, ":term", "false", "NULL", "0", "0", "NULL", &never,
        ],
        "renew" => {
            vec![&owner, &never, "ARRAY[(:client_id)::text]", "ARRAY[:term]", "ARRAY[30000000]"]
        }
        "release" => vec![lease, &owner, ":term", "NULL", "0", &never, "'holdfast_lease'"],
        other => bail!("{other} is no operation"),
    };
    ensure!(values.len() == text.types.split(',').count(), "{} takes {}", text.name, text.types);
    Ok(format!("EXECUTE {} ({});\n", text.name, values.join(", ")))
}

/// The median of what pgbench logged: the third word of each line, in microseconds.
fn took(home: &Scratch) -> Result<f64> {
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
    Ok(sample.into_iter().collect::<Sample>().median())
}
