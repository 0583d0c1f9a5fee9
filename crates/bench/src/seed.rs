//! Fills a database quickly: one domain goes the whole way through a real replica, and its rows are multiplied in SQL.
//!
//! Columns are taken from the database as it is, so a new one needs no change here. Multiplied certificates cannot be
//! opened (a sealed key is bound to its row), which nothing that is measured does.

mod connection;
mod multiply;

use anyhow::Result;
use holdfast_store::{MasterKey, OpenOptions, SharedStore};

use self::connection::Connection;
use self::multiply::multiply;
use crate::replica::MASTER_KEY;

/// Where the one domain is, and how many there are to be.
pub struct Seeding<'a> {
    /// The database.
    pub url: &'a str,
    /// The domain that is there.
    pub template: &'a str,
    /// What the names of the others end with.
    pub suffix: &'a str,
    /// How many in all.
    pub size: u32,
}

/// Multiplies the one domain of a database that no replica runs on.
pub async fn domains(seeding: &Seeding<'_>) -> Result<()> {
    let mut connection = Connection::open(seeding.url).await?;
    multiply(&mut connection, seeding).await?;
    connection.close().await?;
    let store = open(seeding.url).await?;
    while store.fold_counts(None).await? > 0 {}
    drop(store);
    let mut connection = Connection::open(seeding.url).await?;
    connection.settle().await?;
    connection.close().await
}

/// Puts one challenge answer into an empty database.
pub async fn challenge(url: &str, token: &str, answer: &str) -> Result<()> {
    // Brings the schema up to date.
    drop(open(url).await?);
    let mut connection = Connection::open(url).await?;
    let (id, now) = (connection.random_id(), connection.now());
    let sql = format!(
        "INSERT INTO challenge (token, order_id, name, kind, key_authorization, url, authorization_url, created_at)
         VALUES ('{token}', {id}, 'shop.test', 'http-01', '{answer}', 'https://ca.test/c', 'https://ca.test/a', {now})"
    );
    connection.execute(sql).await?;
    connection.close().await
}

/// Opens a store as a replica would.
pub async fn open(url: &str) -> Result<SharedStore> {
    let key = MasterKey::parse(MASTER_KEY)?;
    Ok(holdfast_store::open(url, Some(key), OpenOptions::default()).await?)
}
