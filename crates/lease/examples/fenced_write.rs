//! A write that is refused once its term is over, in the same PostgreSQL.
//!
//! `DATABASE_URL=postgres://… cargo run -p holdfast-lease --features postgres --example fenced_write`

use std::time::Duration;

use holdfast_lease::fence::postgres::guard;
use holdfast_lease::request::Force;
use holdfast_lease::store::postgres::PostgresStore;
use holdfast_lease::{Elector, Name, Options, Store as _, Wish};
use sqlx::{Connection as _, PgConnection};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "an example has no configuration")]
    let url = std::env::var("DATABASE_URL")?;
    let options = Options::default();
    let mut store = PostgresStore::new(&url, options.request_timeout)?;
    store.apply_schema().await?;
    let elector = Elector::start(store, &options)?;
    let name = Name::new("ledger")?;
    let lease = elector.contend(&name, Wish::default());
    lease.elected().await?;
    let token = lease.token().ok_or_else(|| anyhow::anyhow!("lost already"))?;

    let mut connection = PgConnection::connect(&url).await?;
    let transaction = guard(&mut connection, &token, Duration::from_secs(10)).await?;
    // … write here, by this transaction …
    transaction.commit().await?;
    println!("written under term {}", token.term);

    let mut operator = PostgresStore::new(&url, options.request_timeout)?;
    operator.force(&Force { name, note: "example".to_owned() }).await?;
    if let Err(refused) = guard(&mut connection, &token, Duration::from_secs(10)).await {
        println!("refused: {refused}");
    }
    Ok(())
}
