//! What the statements answer, read.

use std::collections::BTreeMap;

use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::statement;
use crate::identity::{Holder, Name, Term};
use crate::request::{Acquire, Acquired, At, Renew, Renewed};
use crate::row::{Change, Entry, Row, StoreTime};
use crate::rules::may_take;
use crate::store::Look;

fn first_at(rows: &[PgRow]) -> Result<StoreTime, sqlx::Error> {
    statement::at(rows.first().ok_or(sqlx::Error::RowNotFound)?)
}

pub(super) fn looks(rows: &[PgRow], names: &[Name]) -> Result<At<Vec<Look>>, sqlx::Error> {
    let mut found = BTreeMap::new();
    for row in rows {
        if let Some((name, lease)) = statement::lease(row)? {
            let gone = row.try_get::<Option<bool>, _>("beacon_gone")?.unwrap_or(false);
            found.insert(name, (Some(lease), gone));
        }
    }
    let answer = names.iter().map(|name| found.remove(name).unwrap_or((None, false)));
    Ok(At { at: first_at(rows)?, answer: answer.collect() })
}

/// A refusal reads the row as it was when the statement began. One that had to wait for another's commit shows a row that it
/// could have taken: that row is history, and is not shown.
pub(super) fn acquired(row: &PgRow, request: &Acquire) -> Result<At<Acquired>, sqlx::Error> {
    let at = statement::at(row)?;
    let lease = statement::lease(row)?.map(|(_, lease)| lease);
    let granted = row.try_get::<Option<bool>, _>("granted")?.unwrap_or(false);
    let answer = match lease {
        Some(lease) if granted => Acquired::Granted(lease),
        _ if at > request.not_after => Acquired::TooLate,
        lease => Acquired::Refused(lease.filter(|row| may_take(row, request, false, at).is_none())),
    };
    Ok(At { at, answer })
}

/// Only what is not simply kept is shown.
pub(super) fn renewed(rows: &[PgRow], request: &Renew) -> Result<At<Vec<Renewed>>, sqlx::Error> {
    let at = first_at(rows)?;
    let mut shown = BTreeMap::new();
    for row in rows {
        if let Some(asked) = row.try_get::<Option<&str>, _>("asked")? {
            shown.insert(asked, row);
        }
    }
    let answer = request.leases.iter().map(|asked| match shown.get(asked.name.as_str()) {
        None => Ok(Renewed::Kept { step_down: false, successor: None }),
        Some(row) if row.try_get("kept")? => kept(row),
        Some(_) if at > request.not_after => Ok(Renewed::TooLate),
        // As with a refusal: a row that could have been renewed is history.
        Some(row) => {
            let ours = |row: &Row| row.is_of(request.incarnation) && row.term == asked.term;
            let gone = statement::lease(row)?.map(|(_, lease)| lease);
            Ok(Renewed::Gone(gone.filter(|row| !ours(row))))
        }
    });
    Ok(At { at, answer: answer.collect::<Result<_, sqlx::Error>>()? })
}

fn kept(row: &PgRow) -> Result<Renewed, sqlx::Error> {
    let successor = row.try_get::<Option<String>, _>("in_favour_of")?;
    let successor = successor.map(Holder::new).transpose().map_err(statement::decode)?;
    Ok(Renewed::Kept { step_down: row.try_get("asked_to_step_down")?, successor })
}

pub(super) fn done(row: &PgRow) -> Result<At<bool>, sqlx::Error> {
    Ok(At { at: statement::at(row)?, answer: row.try_get("done")? })
}

pub(super) fn list(rows: &[PgRow]) -> Result<At<Vec<(Name, Row)>>, sqlx::Error> {
    let leases = rows.iter().map(statement::lease).filter_map(Result::transpose);
    Ok(At { at: first_at(rows)?, answer: leases.collect::<Result<_, _>>()? })
}

/// An entry; none if its reason is from a newer release.
pub(super) fn entry(row: &PgRow) -> Result<Option<Entry>, sqlx::Error> {
    let holder = |column: &str| {
        let text = row.try_get::<Option<String>, _>(column)?;
        text.map(|text| Holder::new(text).map_err(statement::decode)).transpose()
    };
    let Some(change) = Change::parse(row.try_get("reason")?) else { return Ok(None) };
    Ok(Some(Entry {
        id: row.try_get("id")?,
        name: Name::new(row.try_get::<&str, _>("name")?).map_err(statement::decode)?,
        at: statement::at(row)?,
        change,
        term: Term::new(row.try_get("term")?),
        from: holder("from_holder")?,
        to: holder("to_holder")?,
        note: row.try_get("note")?,
    }))
}
