//! Claiming due domains. One statement claims and reads; lane and `due_at` are all it looks at.

use std::time::Duration;

use async_trait::async_trait;
use holdfast_gateway::point::{Point, around};
use holdfast_model::{DomainId, Timestamp};
use sqlx::{Postgres, postgres::PgRow};
use uuid::Uuid;

use super::{PostgresStore, known_states, known_wants, maybe_time, micros, sql};
use crate::{
    AccountId, Actor, Admission, Claimant, Claimed, Commit, Error, Lane, OrderLimits, Result, Room,
    Topic, Work, WorkBatch,
    lane::lane,
    pool::Statement,
    row::{Fields as _, domain_columns, sorted_out},
};

/// When a domain whose claim was not seen to its end is due: at the claim's end the first time, later each further time. A domain that
/// kills its workers thus neither loops nor spends its attempts.
macro_rules! lapse_delay {
    () => {
        "CASE WHEN lapses = 0 THEN interval '0' ELSE least(power(2, least(lapses, 20)), 600) * interval '1 second' END"
    };
}

/// What a claim writes; `$1`, `$2`, `$3` are the replica, its incarnation and how long.
macro_rules! take_claim {
    () => {
        "claimed_by = $1, incarnation = $2, claim_epoch = d.claim_epoch + 1, unseen = 0, wanted_seen = true, nudged = false,
         claimed_until = clock_timestamp() + $3 * interval '1 microsecond',
         lapses = d.lapses + CASE WHEN d.claimed_until IS NULL THEN 0 ELSE 1 END,
         due_at = clock_timestamp() + $3 * interval '1 microsecond'
            + CASE WHEN d.claimed_until IS NULL AND d.lapses = 0 THEN interval '0'
                   ELSE least(power(2, least(d.lapses + CASE WHEN d.claimed_until IS NULL THEN 0 ELSE 1 END, 20)), 600)
                        * interval '1 second' END"
    };
}
pub(super) use take_claim;

/// What is under way at the CA of one of these accounts is left to those that order with it.
macro_rules! not_elsewhere {
    () => {
        "(NOT EXISTS (SELECT 1 FROM acme_order o WHERE o.id = domain.order_id AND o.account_id = ANY ($11))
            AND NOT (removing_since IS NOT NULL AND revoke AND EXISTS (
                SELECT 1 FROM certificate c JOIN acme_account a ON a.directory = c.directory
                WHERE c.id = domain.certificate_id AND a.id = ANY ($11))))"
    };
}

/// The due domains of the lane that is served in this place: what is kept for it, and what those before it left of what is shared.
macro_rules! due_in {
    ($place:literal, $taken:literal) => {
        concat!(
            "SELECT id, due_at, ",
            $place,
            " AS place FROM domain WHERE due_at <= statement_timestamp() AND due_at >= coalesce(($9::timestamptz[])[",
            $place,
            "], '-infinity') AND ",
            lane!(),
            " = ($7::int[])[",
            $place,
            "] AND state = ANY ($5) AND (wanted IS NULL OR wanted = ANY ($6))
            AND (cardinality($11::uuid[]) = 0 OR ",
            not_elsewhere!(),
            ") ORDER BY due_at LIMIT ($8::bigint[])[",
            $place,
            "] + ($4 - ",
            $taken,
            ") * ($10::bigint[])[",
            $place,
            "] FOR UPDATE SKIP LOCKED"
        )
    };
}

/// What a lane took of what is shared.
macro_rules! taken_by {
    ($lane:literal, $place:literal) => {
        concat!("greatest((SELECT count(*) FROM ", $lane, ") - ($8::bigint[])[", $place, "], 0)")
    };
}

// No more is locked than is taken: what others skip because of us would wait for the next poll.
// A volatile function is no bound for an index; the statement's own start is.
const CLAIM: &str = concat!(
    "WITH one AS (",
    due_in!("1", "0"),
    "), taken_1 AS (SELECT ",
    taken_by!("one", "1"),
    " AS n), two AS (",
    due_in!("2", "(SELECT n FROM taken_1)"),
    "), taken_2 AS (SELECT n + ",
    taken_by!("two", "2"),
    " AS n FROM taken_1), three AS (",
    due_in!("3", "(SELECT n FROM taken_2)"),
    "), taken_3 AS (SELECT n + ",
    taken_by!("three", "3"),
    " AS n FROM taken_2), four AS (",
    due_in!("4", "(SELECT n FROM taken_3)"),
    "), taken_4 AS (SELECT n + ",
    taken_by!("four", "4"),
    " AS n FROM taken_3), five AS (",
    due_in!("5", "(SELECT n FROM taken_4)"),
    "), taken_5 AS (SELECT n + ",
    taken_by!("five", "5"),
    " AS n FROM taken_4), six AS (",
    due_in!("6", "(SELECT n FROM taken_5)"),
    "), taken_6 AS (SELECT n + ",
    taken_by!("six", "6"),
    " AS n FROM taken_5), seven AS (",
    due_in!("7", "(SELECT n FROM taken_6)"),
    "),
    due AS (SELECT * FROM one UNION ALL SELECT * FROM two UNION ALL SELECT * FROM three UNION ALL SELECT * FROM four
            UNION ALL SELECT * FROM five UNION ALL SELECT * FROM six UNION ALL SELECT * FROM seven),
    claimed AS (UPDATE domain d SET ",
    take_claim!(),
    " FROM due WHERE d.id = due.id RETURNING d.*, due.due_at AS was_due, due.place)
    SELECT clock.now, clock.next, d.was_due, d.place::bigint AS place, ",
    domain_columns!(),
    " FROM (SELECT clock_timestamp() AS now,
                   (SELECT min(due_at) FROM domain WHERE due_at > statement_timestamp()) AS next) clock
    LEFT JOIN claimed d ON true LEFT JOIN certificate c ON c.id = d.certificate_id ORDER BY d.was_due, d.id"
);

// Rows are locked in one order by everyone who locks several, or two of them could wait for each other.
const RENEW: &str = concat!(
    "WITH held AS (
        SELECT d.id FROM domain d JOIN unnest($1::uuid[], $2::bigint[]) AS h (id, epoch) ON h.id = d.id
        WHERE d.claim_epoch = h.epoch AND d.incarnation = $3 AND d.claimed_until > clock_timestamp()
        ORDER BY d.id FOR UPDATE OF d)
    UPDATE domain d SET claimed_until = clock_timestamp() + $4 * interval '1 microsecond',
        due_at = clock_timestamp() + $4 * interval '1 microsecond' + ",
    lapse_delay!(),
    " FROM held WHERE d.id = held.id AND d.claimed_until > clock_timestamp() RETURNING d.id"
);

const UNCLAIM: &str = "
    WITH held AS (
        SELECT d.id FROM domain d JOIN unnest($1::uuid[], $2::bigint[]) AS h (id, epoch) ON h.id = d.id
        WHERE d.claim_epoch = h.epoch AND d.incarnation = $3
        ORDER BY d.id FOR UPDATE OF d)
    UPDATE domain d SET claimed_by = NULL, incarnation = NULL, claimed_until = NULL, updated_at = clock_timestamp(),
        due_at = CASE WHEN d.queued_at IS NOT NULL AND d.order_id IS NULL AND d.wanted IS NULL AND d.removing_since IS NULL
                      THEN NULL ELSE clock_timestamp() END
    FROM held WHERE d.id = held.id RETURNING d.id";

/// Rows that cannot be read: nobody works on them, and they are in nobody's way. Now and then they are looked at again, because
/// somebody may have mended them.
pub(super) const PUT_ASIDE: &str = "
    UPDATE domain SET claimed_by = NULL, incarnation = NULL, claimed_until = NULL, queued_at = NULL,
        due_at = clock_timestamp() + interval '1 hour', updated_at = clock_timestamp()
    WHERE id = ANY ($1) AND incarnation = $2";

#[async_trait]
impl Work for PostgresStore {
    async fn claim_lanes_but(
        &self,
        who: &Claimant,
        room: &Room,
        hold: Duration,
        elsewhere: &[AccountId],
    ) -> Result<WorkBatch> {
        let statement = sql(CLAIM)
            .bind(&*who.instance)
            .bind(who.incarnation)
            .bind(micros(hold))
            .bind(i64::from(room.shared))
            .bind(known_states())
            .bind(known_wants())
            .bind(room.lanes.map(|(lane, _)| lane.number()).to_vec())
            .bind(room.lanes.map(|(_, own)| i64::from(own)).to_vec())
            .bind(room.begins().map(maybe_time).to_vec())
            .bind(room.shares().map(i64::from).to_vec())
            .bind(elsewhere.iter().map(|account| account.0).collect::<Vec<_>>());
        let rows = around(Point::STORE_CLAIM, self.pool.rows("claim work", statement)).await?;
        let (batch, aside) = batch(&rows, room)?;
        if !aside.is_empty() {
            let statement = sql(PUT_ASIDE).bind(aside).bind(who.incarnation);
            self.pool.execute("put unreadable rows aside", statement).await?;
        }
        Ok(batch)
    }

    async fn admit(
        &self,
        who: &Claimant,
        account: AccountId,
        limits: OrderLimits,
        limit: u32,
        hold: Duration,
    ) -> Result<Admission> {
        let admission = self.admit_queued(who, account, limits, limit, hold);
        around(Point::STORE_ADMIT, admission).await
    }

    async fn renew_claims(
        &self,
        who: &Claimant,
        claims: &[(DomainId, i64)],
        hold: Duration,
    ) -> Result<Vec<DomainId>> {
        let statement = held(RENEW, who, claims).bind(micros(hold));
        let renew = self.pool.rows("renew claims", statement);
        let renewed = around(Point::STORE_RENEW_CLAIMS, renew).await?;
        let renewed = renewed.iter().map(|row| row.id("id")).collect::<Result<Vec<_>>>()?;
        Ok(claims.iter().map(|(id, _)| *id).filter(|id| !renewed.contains(&id.0)).collect())
    }

    async fn commit(&self, claimed: &Claimed, commit: &Commit) -> Result<Claimed> {
        around(commit.point(), self.commit_step(claimed, commit)).await
    }

    async fn unclaim(&self, who: &Claimant, claims: &[(DomainId, i64)]) -> Result<()> {
        if claims.is_empty() {
            return Ok(());
        }
        let unclaim = self.pool.rows("give claims back", held(UNCLAIM, who, claims));
        around(Point::STORE_RENEW_CLAIMS, unclaim).await?;
        self.herald.tell(&[Topic::Work]);
        Ok(())
    }

    async fn begin_teardown(&self, claimed: &Claimed) -> Result<Claimed> {
        around(Point::STORE_CHALLENGE_DROP, self.tear_down(claimed)).await
    }

    async fn finish_removal(&self, claimed: &Claimed, actor: &Actor) -> Result<()> {
        around(Point::STORE_RELEASE_DOMAIN, self.release_domain(claimed, actor)).await
    }

    async fn postpone_removal(&self, claimed: &Claimed, wait: Duration) -> Result<()> {
        around(Point::STORE_TRANSITION, self.look_later(claimed, wait)).await
    }
}

fn held(text: &'static str, who: &Claimant, claims: &[(DomainId, i64)]) -> Statement<Postgres> {
    let (ids, epochs): (Vec<Uuid>, Vec<i64>) =
        claims.iter().map(|(id, epoch)| (id.0, *epoch)).unzip();
    sql(text).bind(ids).bind(epochs).bind(who.incarnation)
}

/// What was claimed, and what of it cannot be read.
fn batch(rows: &[PgRow], room: &Room) -> Result<(WorkBatch, Vec<Uuid>)> {
    // The clock's row is always there; without work it stands alone.
    let first = rows.first().ok_or(Error::NotFound("clock"))?;
    let (now, next) = (first.at("now")?, first.maybe_at("next")?);
    let taken = if first.maybe_id("id")?.is_some() { rows } else { &[] };
    let (work, aside) = sorted_out(taken)?;
    // A full batch may have left something due.
    let limit = room.total();
    let full = limit > 0 && u32::try_from(taken.len()).is_ok_and(|got| got >= limit);
    let next_due_at = if full { Some(now) } else { next };
    Ok((WorkBatch { now, work, next_due_at, taken_to: taken_to(taken, room)? }, aside))
}

/// By lane, when the last of these rows had been due.
fn taken_to(taken: &[PgRow], room: &Room) -> Result<[Option<Timestamp>; Lane::ALL.len()]> {
    let mut taken_to = [None; Lane::ALL.len()];
    for row in taken {
        let place = usize::try_from(row.number("place")?).unwrap_or_default();
        let lane = room.lanes.get(place.wrapping_sub(1)).map(|(lane, _)| *lane as usize);
        if let Some(last) = lane.and_then(|lane| taken_to.get_mut(lane)) {
            *last = (*last).max(row.maybe_at("was_due")?);
        }
    }
    Ok(taken_to)
}
