//! Claiming due domains; lane and `due_at` are all it looks at.

use std::time::Duration;

use async_trait::async_trait;
use holdfast_gateway::point::{Point, around};
use holdfast_model::DomainId;
use sqlx::sqlite::SqliteRow;

use super::{SqliteStore, Tx, domain::select_domain, known_states, known_wants, now, sql, time};
use crate::{
    AccountId, Actor, Admission, Claimant, Claimed, Commit, Lane, OrderLimits, Result, Room, Topic,
    Work, WorkBatch,
    lane::lane,
    row::{Fields as _, sorted_out},
};

/// When a domain whose claim was not seen to its end is due: at the claim's end the first time, later each further time. A domain that
/// kills its workers thus neither loops nor spends its attempts.
macro_rules! lapse_delay {
    ($lapses:literal) => {
        concat!(
            "CASE WHEN ",
            $lapses,
            " = 0 THEN 0 ELSE min(1 << min(",
            $lapses,
            ", 10), 600) * 1000000 END"
        )
    };
}

pub(super) use lapse_delay;

/// What a claim writes; `$1` to `$3` are the replica, its incarnation and until when.
macro_rules! take_claim {
    () => {
        concat!(
            "claimed_by = $1, incarnation = $2, claimed_until = $3, claim_epoch = claim_epoch + 1, unseen = 0, wanted_seen = 1,
             nudged = 0, lapses = lapses + (claimed_until IS NOT NULL), due_at = $3 + ",
            lapse_delay!("(lapses + (claimed_until IS NOT NULL))")
        )
    };
}
pub(super) use take_claim;

const LOOK: &str = "
    SELECT EXISTS (SELECT 1 FROM domain WHERE due_at <= $1 AND state IN (SELECT value FROM json_each($2))
                       AND (wanted IS NULL OR wanted IN (SELECT value FROM json_each($3)))) AS due,
           (SELECT min(due_at) FROM domain WHERE due_at > $1) AS next";
/// What is under way at the CA of one of these accounts is left to those that order with it.
macro_rules! not_elsewhere {
    () => {
        "(NOT EXISTS (SELECT 1 FROM acme_order o
                WHERE o.id = domain.order_id AND hex(o.account_id) IN (SELECT value FROM json_each($11)))
            AND NOT (removing_since IS NOT NULL AND revoke AND EXISTS (
                SELECT 1 FROM certificate c JOIN acme_account a ON a.directory = c.directory
                WHERE c.id = domain.certificate_id AND hex(a.id) IN (SELECT value FROM json_each($11)))))"
    };
}

/// The due domains of the lane that is served in this place: what is kept for it, and what those before it left of what is shared.
macro_rules! due_in {
    ($place:literal, $taken:literal) => {
        concat!(
            "SELECT id FROM domain WHERE due_at <= $5 AND ",
            lane!(),
            " = json_extract($8, '$[",
            $place,
            "]') AND state IN (SELECT value FROM json_each($6)) AND (wanted IS NULL OR wanted IN (SELECT value FROM json_each($7)))
            AND ($11 = '[]' OR ",
            not_elsewhere!(),
            ") ORDER BY due_at LIMIT json_extract($9, '$[",
            $place,
            "]') + ($4 - ",
            $taken,
            ") * json_extract($10, '$[",
            $place,
            "]')"
        )
    };
}

/// What a lane took of what is shared.
macro_rules! taken_by {
    ($lane:literal, $place:literal) => {
        concat!("max((SELECT count(*) FROM ", $lane, ") - json_extract($9, '$[", $place, "]'), 0)")
    };
}

const CLAIM: &str = concat!(
    "WITH one AS MATERIALIZED (",
    due_in!("0", "0"),
    "), taken_1 (n) AS MATERIALIZED (SELECT ",
    taken_by!("one", "0"),
    "), two AS MATERIALIZED (",
    due_in!("1", "(SELECT n FROM taken_1)"),
    "), taken_2 (n) AS MATERIALIZED (SELECT n + ",
    taken_by!("two", "1"),
    " FROM taken_1), three AS MATERIALIZED (",
    due_in!("2", "(SELECT n FROM taken_2)"),
    "), taken_3 (n) AS MATERIALIZED (SELECT n + ",
    taken_by!("three", "2"),
    " FROM taken_2), four AS MATERIALIZED (",
    due_in!("3", "(SELECT n FROM taken_3)"),
    "), taken_4 (n) AS MATERIALIZED (SELECT n + ",
    taken_by!("four", "3"),
    " FROM taken_3), five AS MATERIALIZED (",
    due_in!("4", "(SELECT n FROM taken_4)"),
    "), taken_5 (n) AS MATERIALIZED (SELECT n + ",
    taken_by!("five", "4"),
    " FROM taken_4), six AS MATERIALIZED (",
    due_in!("5", "(SELECT n FROM taken_5)"),
    "), taken_6 (n) AS MATERIALIZED (SELECT n + ",
    taken_by!("six", "5"),
    " FROM taken_5), seven AS MATERIALIZED (",
    due_in!("6", "(SELECT n FROM taken_6)"),
    ") UPDATE domain SET ",
    take_claim!(),
    " WHERE id IN (SELECT id FROM one UNION ALL SELECT id FROM two UNION ALL SELECT id FROM three UNION ALL SELECT id FROM four
                   UNION ALL SELECT id FROM five UNION ALL SELECT id FROM six UNION ALL SELECT id FROM seven) RETURNING id"
);
const THESE: &str =
    select_domain!("d.id IN (SELECT unhex(value) FROM json_each($1)) ORDER BY d.created_at, d.id");

const RENEW: &str = concat!(
    "UPDATE domain SET claimed_until = $5, due_at = $5 + ",
    lapse_delay!("lapses"),
    " WHERE id = $1 AND claim_epoch = $2 AND incarnation = $3 AND claimed_until > $4"
);
const UNCLAIM: &str = "
    UPDATE domain SET claimed_by = NULL, incarnation = NULL, claimed_until = NULL, updated_at = $4,
        due_at = CASE WHEN queued_at IS NOT NULL AND order_id IS NULL AND wanted IS NULL AND removing_since IS NULL
                      THEN NULL ELSE $4 END
    WHERE id = $1 AND claim_epoch = $2 AND incarnation = $3";

// Nobody else can hold a claim on our file: what is still claimed was left behind by the process before us.
const VOID: &str = concat!(
    "UPDATE domain SET claimed_by = NULL, incarnation = NULL, claimed_until = NULL, lapses = lapses + 1, updated_at = $1, due_at = $1 + ",
    lapse_delay!("lapses"),
    " WHERE claimed_until IS NOT NULL"
);

/// How long a row that cannot be read is left alone.
const ASIDE: Duration = Duration::from_secs(3600);
/// Rows that cannot be read: nobody works on them, and they are in nobody's way. Now and then they are looked at again, because
/// somebody may have mended them. An order that was just made out, and has no row yet, is none.
const PUT_ASIDE: &str = "
    UPDATE domain SET claimed_by = NULL, incarnation = NULL, claimed_until = NULL, queued_at = NULL, due_at = $3, updated_at = $4,
        order_id = (SELECT id FROM acme_order WHERE domain_id = $1 AND ended_at IS NULL)
    WHERE id = $1 AND incarnation = $2";

#[async_trait]
impl Work for SqliteStore {
    async fn claim_lanes_but(
        &self,
        who: &Claimant,
        room: &Room,
        hold: Duration,
        elsewhere: &[AccountId],
    ) -> Result<WorkBatch> {
        around(Point::STORE_CLAIM, self.claim_due(who, room, hold, elsewhere)).await
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
        around(Point::STORE_RENEW_CLAIMS, self.hold_longer(who, claims, hold)).await
    }

    async fn commit(&self, claimed: &Claimed, commit: &Commit) -> Result<Claimed> {
        around(commit.point(), self.commit_step(claimed, commit)).await
    }

    async fn unclaim(&self, who: &Claimant, claims: &[(DomainId, i64)]) -> Result<()> {
        if claims.is_empty() {
            return Ok(());
        }
        let mut transaction = self.writer.begin("give claims back").await?;
        for (id, epoch) in claims {
            let statement =
                sql(UNCLAIM).bind(id.0).bind(epoch).bind(who.incarnation).bind(time(now()));
            transaction.execute(statement).await?;
        }
        around(Point::STORE_RENEW_CLAIMS, transaction.commit()).await?;
        self.tell(&[Topic::Work]);
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

impl SqliteStore {
    pub(super) async fn void_claims(&self) -> Result<()> {
        self.writer.execute("void old claims", sql(VOID).bind(time(now()))).await?;
        Ok(())
    }

    async fn claim_due(
        &self,
        who: &Claimant,
        room: &Room,
        hold: Duration,
        elsewhere: &[AccountId],
    ) -> Result<WorkBatch> {
        let now = now();
        // Nearly always nothing is due: then nobody has to wait for the writer.
        let look = sql(LOOK).bind(time(now)).bind(known_states()).bind(known_wants());
        let row = self.readers.one("look for work", look).await?;
        let next_due_at = row.maybe_at("next")?;
        if room.total() == 0 || !row.flag("due")? {
            return Ok(WorkBatch {
                now,
                work: Vec::new(),
                next_due_at,
                taken_to: [None; Lane::ALL.len()],
            });
        }
        let mut transaction = self.writer.begin("claim work").await?;
        // The wait for the writer is not part of the claim.
        let now = super::now();
        let statement = sql(CLAIM)
            .bind(&*who.instance)
            .bind(who.incarnation)
            .bind(time(now.plus(hold)))
            .bind(i64::from(room.shared))
            .bind(time(now))
            .bind(known_states())
            .bind(known_wants())
            .bind(format!("{:?}", room.lanes.map(|(lane, _)| lane.number())))
            .bind(format!("{:?}", room.lanes.map(|(_, own)| own)))
            .bind(format!("{:?}", room.shares()))
            .bind(in_hex(elsewhere));
        let taken = transaction.rows(statement).await?;
        let work = read_claimed(&mut transaction, who, &taken).await?;
        transaction.commit().await?;
        // A full batch may have left something due.
        let full = u32::try_from(taken.len()).is_ok_and(|got| got >= room.total());
        let next_due_at = if full { Some(now) } else { next_due_at };
        // What is gone from an index here is gone: a look need not begin anywhere else than at the beginning.
        Ok(WorkBatch { now, work, next_due_at, taken_to: [None; Lane::ALL.len()] })
    }

    async fn hold_longer(
        &self,
        who: &Claimant,
        claims: &[(DomainId, i64)],
        hold: Duration,
    ) -> Result<Vec<DomainId>> {
        let mut transaction = self.writer.begin("renew claims").await?;
        let mut lost = Vec::new();
        for (id, epoch) in claims {
            let now = now();
            let statement = sql(RENEW)
                .bind(id.0)
                .bind(epoch)
                .bind(who.incarnation)
                .bind(time(now))
                .bind(time(now.plus(hold)));
            if transaction.execute(statement).await?.rows_affected() == 0 {
                lost.push(*id);
            }
        }
        transaction.commit().await?;
        Ok(lost)
    }
}

/// As SQLite reads a list of ids.
fn in_hex(accounts: &[AccountId]) -> String {
    let hex: Vec<_> = accounts.iter().map(|id| format!("{:X}", id.0.simple())).collect();
    format!("{hex:?}")
}

/// Reads what was just claimed, by the ids that the claim gave. What cannot be read is put aside.
pub(super) async fn read_claimed(
    transaction: &mut Tx,
    who: &Claimant,
    taken: &[SqliteRow],
) -> Result<Vec<Claimed>> {
    let ids = taken.iter().map(|row| row.id("id")).collect::<Result<Vec<_>>>()?;
    let hex: Vec<_> = ids.iter().map(|id| format!("\"{}\"", id.simple())).collect();
    let statement = sql(THESE).bind(format!("[{}]", hex.join(",")));
    let (work, aside) = sorted_out(&transaction.rows(statement).await?)?;
    for id in aside {
        let statement = sql(PUT_ASIDE).bind(id).bind(who.incarnation);
        let statement = statement.bind(time(now().plus(ASIDE))).bind(time(now()));
        transaction.execute(statement).await?;
    }
    Ok(work)
}
