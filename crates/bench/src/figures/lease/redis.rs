//! The script of the Redis store, sent by its client library and nothing else.

use anyhow::{Context as _, Result};
use redis::aio::MultiplexedConnection;
use redis::{Client, Script};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::operation::{OWNER, Operation, TIMES, TTL, acquire, lease};
use super::{PREFIX, micros, store};
use crate::sample::Sample;
use holdfast_lease::Term;

const SCRIPT: &str = include_str!("../../../../lease/src/store/redis/lease.lua");

/// Sends the script from as many clients at once: the median, in microseconds.
pub(super) async fn bare(url: &str, operation: Operation, clients: usize) -> Result<f64> {
    let mut tasks = JoinSet::new();
    for client in 0..clients {
        let lease = lease(client)?;
        let term = acquire(&mut *store(url)?, &lease, Term::NONE).await?.number();
        let connection = Client::open(url)?.get_multiplexed_async_connection().await?;
        let mut bare = Bare { script: Script::new(SCRIPT), connection, lease: lease.to_string() };
        tasks.spawn(async move { bare.drive(operation, term).await });
    }
    let mut took = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        took.extend(ended??);
    }
    Ok(took.into_iter().collect::<Sample>().median())
}

struct Bare {
    script: Script,
    connection: MultiplexedConnection,
    lease: String,
}

impl Bare {
    async fn drive(&mut self, operation: Operation, mut term: i64) -> Result<Vec<f64>> {
        let mut took = Vec::with_capacity(TIMES);
        for _ in 0..TIMES {
            let begun = Instant::now();
            match operation {
                Operation::Renew => self.renew(term).await?,
                Operation::Acquire => self.acquire(term).await?,
                Operation::AcquireAndRelease => {
                    self.acquire(term).await?;
                    self.release(term + 1).await?;
                }
            }
            took.push(micros(begun.elapsed()));
            if operation != Operation::Renew {
                term += 1;
            }
        }
        Ok(took)
    }

    async fn acquire(&mut self, above: i64) -> Result<()> {
        let arguments = [self.lease.clone(), "bench".to_owned(), OWNER.to_string(), "0".to_owned()];
        let rest = [micros(TTL).to_string(), above.to_string()];
        let none = ["0", "", "0", "0"].map(str::to_owned);
        self.send("acquire", arguments.into_iter().chain(rest).chain(none)).await
    }

    async fn renew(&mut self, term: i64) -> Result<()> {
        let arguments = [OWNER.to_string(), term.to_string(), micros(TTL).to_string()];
        self.send("renew", arguments).await
    }

    async fn release(&mut self, term: i64) -> Result<()> {
        let wake = format!("{PREFIX}wake");
        let arguments = [OWNER.to_string(), term.to_string(), String::new(), "0".to_owned(), wake];
        self.send("release", arguments).await
    }

    async fn send(
        &mut self,
        operation: &str,
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<()> {
        let mut call = self.script.prepare_invoke();
        let key = format!("{PREFIX}{{{}}}", self.lease);
        call.key(&key).key(format!("{key}:history")).arg(operation).arg(i64::MAX);
        for argument in arguments {
            call.arg(argument);
        }
        let answer: redis::RedisResult<redis::Value> =
            call.invoke_async(&mut self.connection).await;
        answer.map(drop).with_context(|| format!("the bare {operation}"))
    }
}
