//! Reading rows, the same for both databases: a column's name says what it holds, whatever database it lies in.

mod account;
mod ca;
mod ca_wait;
mod certificate;
mod challenge;
mod claim;
mod domain;
mod edge;
mod event;
mod order;
mod replica;
mod task;
mod token;
mod vital;
mod webhook;

use holdfast_model::{Hostname, Note, Timestamp};
use sqlx::{Row, postgres::PgRow, sqlite::SqliteRow};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::{Error, Result};

pub(crate) use self::account::{account, budget, closed, given, pause, terms};
pub(crate) use self::ca::{ca_account, halt_by, other_account, queue_counts};
pub(crate) use self::ca_wait::ca_wait;
pub(crate) use self::certificate::{Unopened, certificate, digest};
pub(crate) use self::challenge::{answer, challenge, open_challenge};
pub(crate) use self::claim::claim;
pub(crate) use self::domain::{claimed, domain, domain_columns, listed, sorted_out, standing};
pub(crate) use self::edge::{
    adoption, change, edge, found, identity, refusal, report, reports, revision,
};
pub(crate) use self::event::event;
pub(crate) use self::order::order;
pub(crate) use self::replica::replica;
pub(crate) use self::task::task;
pub(crate) use self::token::token;
pub(crate) use self::vital::{expiring, vitals};
pub(crate) use self::webhook::{claimed_delivery, delivery, webhook};

/// One row, by the names of its columns.
pub(crate) trait Fields {
    fn maybe_text(&self, column: &'static str) -> Result<Option<String>>;
    fn maybe_number(&self, column: &'static str) -> Result<Option<i64>>;
    fn maybe_at(&self, column: &'static str) -> Result<Option<Timestamp>>;
    fn maybe_id(&self, column: &'static str) -> Result<Option<Uuid>>;
    fn maybe_bytes(&self, column: &'static str) -> Result<Option<Vec<u8>>>;
    fn flag(&self, column: &'static str) -> Result<bool>;

    fn text(&self, column: &'static str) -> Result<String> {
        self.maybe_text(column)?.ok_or_else(|| absent(column))
    }

    fn number(&self, column: &'static str) -> Result<i64> {
        self.maybe_number(column)?.ok_or_else(|| absent(column))
    }

    fn at(&self, column: &'static str) -> Result<Timestamp> {
        self.maybe_at(column)?.ok_or_else(|| absent(column))
    }

    fn id(&self, column: &'static str) -> Result<Uuid> {
        self.maybe_id(column)?.ok_or_else(|| absent(column))
    }

    fn bytes(&self, column: &'static str) -> Result<Vec<u8>> {
        self.maybe_bytes(column)?.ok_or_else(|| absent(column))
    }

    fn count(&self, column: &'static str) -> Result<u32> {
        let number = self.number(column)?;
        u32::try_from(number).map_err(|_| corrupt(column, number.to_string()))
    }

    fn hostname(&self, column: &'static str) -> Result<Hostname> {
        let text = self.text(column)?;
        Hostname::parse_host(&text).map_err(|_| corrupt(column, text))
    }

    fn note(&self, code: &'static str, detail: &'static str) -> Result<Option<Note>> {
        let Some(code) = self.maybe_text(code)? else { return Ok(None) };
        Ok(Some(Note { code: code.into(), detail: self.maybe_text(detail)?.unwrap_or_default() }))
    }
}

fn absent(column: &'static str) -> Error {
    corrupt(column, "nothing")
}

pub(crate) fn corrupt(what: &'static str, value: impl Into<String>) -> Error {
    Error::Corrupt { what, value: value.into() }
}

fn read<T>(column: &'static str, read: sqlx::Result<T>) -> Result<T> {
    read.map_err(|source| Error::Database { at: column, source })
}

impl Fields for PgRow {
    fn maybe_text(&self, column: &'static str) -> Result<Option<String>> {
        read(column, self.try_get(column))
    }

    fn maybe_number(&self, column: &'static str) -> Result<Option<i64>> {
        read(column, self.try_get(column))
    }

    fn maybe_at(&self, column: &'static str) -> Result<Option<Timestamp>> {
        let at: Option<OffsetDateTime> = read(column, self.try_get(column))?;
        Ok(at.map(Timestamp::from))
    }

    fn maybe_id(&self, column: &'static str) -> Result<Option<Uuid>> {
        read(column, self.try_get(column))
    }

    fn maybe_bytes(&self, column: &'static str) -> Result<Option<Vec<u8>>> {
        read(column, self.try_get(column))
    }

    fn flag(&self, column: &'static str) -> Result<bool> {
        read(column, self.try_get(column))
    }
}

impl Fields for SqliteRow {
    fn maybe_text(&self, column: &'static str) -> Result<Option<String>> {
        read(column, self.try_get(column))
    }

    fn maybe_number(&self, column: &'static str) -> Result<Option<i64>> {
        read(column, self.try_get(column))
    }

    fn maybe_at(&self, column: &'static str) -> Result<Option<Timestamp>> {
        Ok(self.maybe_number(column)?.map(Timestamp::from_micros))
    }

    fn maybe_id(&self, column: &'static str) -> Result<Option<Uuid>> {
        read(column, self.try_get(column))
    }

    fn maybe_bytes(&self, column: &'static str) -> Result<Option<Vec<u8>>> {
        read(column, self.try_get(column))
    }

    fn flag(&self, column: &'static str) -> Result<bool> {
        Ok(self.number(column)? != 0)
    }
}
