//! What the script answers, read: lists of texts, in the order of its fields.

use std::time::Duration;

use uuid::Uuid;

use crate::identity::{Holder, Incarnation, Name, Priority, Term};
use crate::request::Renewed;
use crate::row::{Change, Entry, Owner, Row, StoreTime};

pub(super) fn time(micros: i64) -> StoreTime {
    StoreTime::from_micros(micros)
}

fn number(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| format!("not a number: {text:?}"))
}

fn holder(text: &str) -> Result<Option<Holder>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    Holder::new(text).map(Some).map_err(|error| error.to_string())
}

fn name(text: &str) -> Result<Name, String> {
    Name::new(text).map_err(|error| error.to_string())
}

/// A lease as the script shows it; none where there is none.
pub(super) fn lease(fields: &[String]) -> Result<Option<(Name, Row)>, String> {
    let [named, held, incarnation, term, beat, ttl, expires, since, priority, step_down, successor] =
        fields
    else {
        return if fields.is_empty() { Ok(None) } else { Err(format!("not a lease: {fields:?}")) };
    };
    let owner = match holder(held)? {
        None => None,
        Some(holder) => {
            let uuid: Uuid = incarnation.parse().map_err(|_| "not an incarnation".to_owned())?;
            Some(Owner { holder, incarnation: Incarnation::from_uuid(uuid) })
        }
    };
    let row = Row {
        owner,
        term: Term::new(number(term)?),
        beat: number(beat)?,
        ttl: Duration::from_micros(u64::try_from(number(ttl)?).unwrap_or_default()),
        expires_at: time(number(expires)?),
        since: time(number(since)?),
        priority: Priority(i16::try_from(number(priority)?).unwrap_or_default()),
        step_down: step_down == "1",
        successor: holder(successor)?,
        beacon: false,
    };
    Ok(Some((name(named)?, row)))
}

/// What became of so many leases: those that nothing is told of are kept.
pub(super) fn renewed(told: &[Vec<String>], asked: usize) -> Result<Vec<Renewed>, String> {
    let mut answers = vec![Renewed::Kept { step_down: false, successor: None }; asked];
    for fields in told {
        let [place, outcome @ ..] = fields.as_slice() else {
            return Err("a renewal without a place".to_owned());
        };
        // Lua counts from one.
        let place = place.parse::<usize>().ok().and_then(|place| place.checked_sub(1));
        let answer = place.and_then(|place| answers.get_mut(place));
        *answer.ok_or_else(|| format!("not a place: {fields:?}"))? = outcome_of(outcome)?;
    }
    Ok(answers)
}

fn outcome_of(fields: &[String]) -> Result<Renewed, String> {
    match fields {
        [verdict, step_down, successor] if verdict == "kept" => {
            Ok(Renewed::Kept { step_down: step_down == "1", successor: holder(successor)? })
        }
        [verdict] if verdict == "too-late" => Ok(Renewed::TooLate),
        [verdict, row @ ..] if verdict == "gone" => {
            Ok(Renewed::Gone(lease(row)?.map(|(_, row)| row)))
        }
        other => Err(format!("not a renewal: {other:?}")),
    }
}

/// An entry; none if its reason is from a newer release.
pub(super) fn entry(text: &str) -> Result<Option<Entry>, String> {
    type Fields = (i64, String, String, String, String, String, String, String);
    let fields: Fields = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let (id, named, at, reason, term, from, to, note) = fields;
    let Some(change) = Change::parse(&reason) else { return Ok(None) };
    Ok(Some(Entry {
        id,
        name: name(&named)?,
        at: time(number(&at)?),
        change,
        term: Term::new(number(&term)?),
        from: holder(&from)?,
        to: holder(&to)?,
        note: Some(note).filter(|note| !note.is_empty()),
    }))
}
