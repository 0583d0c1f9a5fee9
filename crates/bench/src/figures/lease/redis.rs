//! The script of the Redis store, sent by its client library and nothing else.

use anyhow::{Context as _, Result};
use holdfast_lease::Term;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Script};
use tokio::time::Instant;

use super::clients::work;
use super::operation::{OWNER, Operation, TIMES, TTL, acquire, lease};
use super::{LIMIT, PREFIX, micros, store};

const SCRIPT: &str = include_str!("../../../../lease/src/store/redis/lease.lua");

/// Sends the script from as many clients at once.
pub(super) async fn bare(url: &str, operation: Operation, clients: usize) -> Result<Vec<f64>> {
    let url = url.to_owned();
    work(clients, move |client| {
        let url = url.clone();
        async move {
            let lease = lease(client)?;
            let term = acquire(&mut *store(&url)?, &lease, Term::NONE).await?.number();
            let mut bare = Bare::connect(&url, lease.to_string()).await?;
            bare.drive(operation, term).await
        }
    })
    .await
}

struct Bare {
    script: Script,
    connection: MultiplexedConnection,
    lease: String,
}

impl Bare {
    /// Connects as the store does.
    async fn connect(url: &str, lease: String) -> Result<Self> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(LIMIT))
            .set_response_timeout(Some(LIMIT * 2));
        let client = Client::open(url)?;
        let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        Ok(Self { script: Script::new(SCRIPT), connection, lease })
    }

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
        let beat = "0".to_owned();
        let arguments = [OWNER.to_string(), beat, term.to_string(), micros(TTL).to_string()];
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
        call.key(&key);
        // A renewal is not remembered.
        if operation != "renew" {
            call.key(format!("{key}:history"));
        }
        call.arg(operation).arg(i64::MAX);
        for argument in arguments {
            call.arg(argument);
        }
        let answer: redis::RedisResult<redis::Value> =
            call.invoke_async(&mut self.connection).await;
        answer.map(drop).with_context(|| format!("the bare {operation}"))
    }
}
