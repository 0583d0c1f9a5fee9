//! Sends what was found, in batches, shows how far it got, and says of everything that was refused why.

use std::time::Duration;

use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::entry::{Entry, Found, Life, Refusal, Shared};
use crate::{
    client::{Api, parsed},
    failure::Failure,
    output::{Output, Table},
};

/// Entries sent at once: few enough that progress shows, many enough that the round trips do not.
const MANY: usize = 200;

/// Bytes sent at once; the server takes twice as much.
const LARGE: usize = 8 * 1024 * 1024;

/// How often a batch that met a busy server is sent again, a little later each time.
const TRIES: u32 = 6;
const REST: Duration = Duration::from_millis(500);

/// How often a name may have been imported and removed before.
const LIVES: usize = 100;

/// The idempotency key was used for another certificate, or for another owner.
const MISMATCH: &str = "orchestration-mismatch";
const IN_USE: &str = "name-in-use";

#[derive(Debug, Deserialize)]
struct Answer {
    items: Vec<ItemAnswer>,
}

#[derive(Debug, Deserialize)]
struct ItemAnswer {
    status: u16,
    domain: Option<Present>,
    problem: Option<Problem>,
}

/// A domain that is there.
#[derive(Debug, Deserialize)]
struct Present {
    removing_since: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Problem {
    code: String,
    detail: String,
    /// Of the domain that was removed since.
    domain_id: Option<String>,
}

/// What came of it so far.
#[derive(Debug, Default)]
struct Tally {
    total: usize,
    sent: usize,
    created: usize,
    present: usize,
    refusals: Vec<Refusal>,
}

/// A running import.
pub(super) struct Sending<'a> {
    api: &'a Api,
    output: Output,
    dry_run: bool,
    tally: Tally,
}

impl<'a> Sending<'a> {
    pub(super) fn new(api: &'a Api, output: Output, dry_run: bool) -> Self {
        Self { api, output, dry_run, tally: Tally::default() }
    }

    /// Sends everything; fails if anything was refused.
    pub(super) async fn all(mut self, found: Found, shared: &Shared) -> Result<(), Failure> {
        self.tally.total = found.entries.len();
        for refusal in found.refusals {
            self.refuse(refusal);
        }
        for batch in batches(found.entries) {
            let count = batch.len();
            self.batch(batch, shared).await?;
            self.tally.sent += count;
            self.show_progress();
        }
        self.output.clear();
        self.end(&found.skipped)
    }

    /// Sends a batch; what was removed since it was imported is sent again, as a domain of its own.
    async fn batch(&mut self, batch: Vec<Entry>, shared: &Shared) -> Result<(), Failure> {
        let mut open = batch;
        for _ in 0..LIVES {
            open = self.once(open, shared).await?;
            if open.is_empty() {
                return Ok(());
            }
        }
        for entry in open {
            self.refuse_because(entry, "it was imported and removed too often; add it by itself");
        }
        Ok(())
    }

    /// Sends each once, and gives back those that are to be sent again.
    async fn once(&mut self, batch: Vec<Entry>, shared: &Shared) -> Result<Vec<Entry>, Failure> {
        let items: Vec<_> = batch.iter().map(|entry| entry.request(shared)).collect();
        let body = json!({ "items": items, "dry_run": self.dry_run });
        let answer: Answer = parsed(&self.posted(&body).await?)?;
        if answer.items.len() != batch.len() {
            return Err(Failure::failed(
                "The server answered another number of items than it was sent; use a client of the same release.",
            ));
        }
        let mut again = Vec::new();
        for (entry, item) in batch.into_iter().zip(answer.items) {
            again.extend(self.settle(entry, item));
        }
        Ok(again)
    }

    /// Counts what came of an entry, or gives it back to be sent again.
    fn settle(&mut self, entry: Entry, item: ItemAnswer) -> Option<Entry> {
        match (item.status, item.domain, item.problem) {
            (201, ..) => self.tally.created += 1,
            (200, Some(Present { removing_since: Some(_) }), _) => {
                let reason = "being-removed: it is on its way out; run the same command again when it is gone";
                self.refuse_because(entry, reason);
            }
            (200, ..) => self.tally.present += 1,
            // It was removed since: the next life of the name has a key of its own.
            (410, _, Some(Problem { domain_id: Some(id), .. })) => {
                return Some(Entry { life: Life::after(&id), ..entry });
            }
            (_, _, Some(problem)) => return self.differs_or_refused(entry, &problem),
            (status, ..) => {
                self.refuse_because(entry, &format!("the server answered {status}"));
            }
        }
        None
    }

    /// The key may have been used for another certificate, in a life of the name that is over: it is sent once more with its own.
    /// If the name lives, that is refused, too, and the first reason is the one to tell.
    fn differs_or_refused(&mut self, entry: Entry, problem: &Problem) -> Option<Entry> {
        let reason = format!("{}: {}", problem.code, problem.detail);
        if problem.code == MISMATCH
            && let Some(life) = entry.sha256().and_then(|sha256| entry.life.with(&sha256))
        {
            return Some(Entry { life, differs: Some(reason), ..entry });
        }
        let first = entry.differs.clone().filter(|_| problem.code == IN_USE);
        self.refuse_because(entry, &first.unwrap_or(reason));
        None
    }

    fn refuse_because(&mut self, entry: Entry, reason: &str) {
        self.refuse(Refusal { file: entry.file, name: entry.name, reason: reason.to_owned() });
    }

    /// Sends a batch until the server takes it. Doing so twice is harmless: every item has its idempotency key.
    async fn posted(&self, body: &Value) -> Result<Value, Failure> {
        for attempt in 1.. {
            let answer = self.api.send(Method::POST, "/v1/domains:batch", Some(body)).await;
            match answer {
                Ok(answer)
                    if answer.status() == StatusCode::SERVICE_UNAVAILABLE && attempt < TRIES => {}
                Err(Failure::Unreachable(_)) if attempt < TRIES && self.tally.sent > 0 => {}
                Ok(answer) if answer.status().is_success() => {
                    return Ok(serde_json::from_slice(answer.body()).unwrap_or(Value::Null));
                }
                Ok(answer) => return Err(self.broken_off(refused(answer.body()))),
                Err(failure) if self.tally.sent > 0 => {
                    return Err(Failure::unreachable(self.broken_off(&failure)));
                }
                Err(failure) => return Err(failure),
            }
            tokio::time::sleep(REST * attempt).await;
        }
        Err(self.broken_off("the server did not take it"))
    }

    fn broken_off(&self, why: impl std::fmt::Display) -> Failure {
        self.output.clear();
        let Tally { sent, total, .. } = &self.tally;
        Failure::failed(format!(
            "The import broke off after {sent} of {total}: {why} The same command again goes on from there."
        ))
    }

    fn refuse(&mut self, refusal: Refusal) {
        self.output.clear();
        let Refusal { file, name, reason } = &refusal;
        let (file, space) = (file.display(), if name.is_empty() { "" } else { " " });
        eprintln!("refused {file}{space}{name}: {reason}");
        self.tally.refusals.push(refusal);
    }

    fn show_progress(&self) {
        let Tally { sent, total, .. } = &self.tally;
        if self.output.is_json() {
            return;
        }
        if !self.output.is_live() {
            self.output.line(format!("{sent} of {total}"));
            return;
        }
        const WIDTH: usize = 30;
        let done = sent * WIDTH / (*total).max(1);
        let (full, empty) = ("█".repeat(done), "░".repeat(WIDTH.saturating_sub(done)));
        self.output.rewrite(&format!("{full}{empty} {sent} of {total}"));
    }

    fn end(self, skipped: &[Refusal]) -> Result<(), Failure> {
        let Self { output, dry_run, tally, .. } = self;
        let refused = tally.refusals.len();
        if output.is_json() {
            output.json(&json!({
                "dry_run": dry_run,
                "created": tally.created,
                "present": tally.present,
                "refused": tally.refusals.iter().map(shown).collect::<Vec<_>>(),
                "skipped": skipped.iter().map(shown).collect::<Vec<_>>(),
            }));
        } else {
            let created = if dry_run { "would be imported" } else { "imported" };
            let mut table = Table::new(["COUNT", "CERTIFICATES"]);
            table.row([tally.created.to_string(), created.to_owned()]);
            table.row([tally.present.to_string(), "were there already".to_owned()]);
            table.row([skipped.len().to_string(), "not served by the source".to_owned()]);
            table.row([refused.to_string(), "refused".to_owned()]);
            output.table(&table);
        }
        match refused {
            0 => Ok(()),
            some => Err(Failure::failed(format!(
                "{some} were refused, each with its reason above; mend them and run the same command again."
            ))),
        }
    }
}

fn shown(refusal: &Refusal) -> Value {
    let name = Some(refusal.name.as_str()).filter(|name| !name.is_empty());
    json!({ "file": refusal.file, "name": name, "reason": refusal.reason })
}

/// A problem in the server's words.
fn refused(body: &[u8]) -> String {
    let problem: Value = serde_json::from_slice(body).unwrap_or_default();
    let detail = problem.get("detail").and_then(Value::as_str);
    detail.unwrap_or("the answer is none of a Holdfast server.").to_owned()
}

fn batches(entries: Vec<Entry>) -> Vec<Vec<Entry>> {
    let (mut batches, mut batch, mut size) = (Vec::new(), Vec::new(), 0);
    for entry in entries {
        if batch.len() >= MANY || size + entry.size() > LARGE {
            batches.push(std::mem::take(&mut batch));
            size = 0;
        }
        size += entry.size();
        batch.push(entry);
    }
    if !batch.is_empty() {
        batches.push(batch);
    }
    batches
}
