//! Committing a step: the domain's row by compare-and-swap, its history and what the step produced, in one statement. Three
//! statements serve all steps: those that touch no order, those that do, and those that deploy.

use holdfast_model::{Note, State, Timestamp};
use sqlx::Postgres;
use uuid::Uuid;

use super::{PostgresStore, maybe_time, sql, time};
use crate::{
    Claimed, Commit, Error, NewCertificate, Result, Topic,
    pool::Statement,
    row::{Fields as _, claimed, digest, domain_columns},
    seal::{Place, Sealed},
};

/// As [`Transition::next_attempt_as_of`](holdfast_model::Transition::next_attempt_as_of) says.
macro_rules! next_attempt {
    () => {
        "least($8::timestamptz, clock_timestamp() + ($8::timestamptz - $26::timestamptz))"
    };
}

/// The row moves if it is still ours, and its history with it. People's requests are answered only if the worker saw them, but for
/// a new certificate that was asked for while one was being stored. One that came meanwhile makes the row due; one that the worker
/// saw and keeps does not, or it would be looked at without end.
macro_rules! moved {
    () => {
        concat!("WITH moved AS (
            UPDATE domain SET state = $5, attempt = $6, entered_at = least($7, clock_timestamp()),
                next_attempt_at = ",
        next_attempt!(),
        ", queued_at = CASE WHEN $9::timestamptz IS NOT NULL THEN least($9, clock_timestamp()) END,
                renews = CASE WHEN $9::timestamptz IS NULL THEN false ELSE coalesce((
                    SELECT c.created_at > clock_timestamp() - interval '120 days'
                        AND EXISTS (SELECT 1 FROM acme_account a WHERE a.directory = c.directory)
                    FROM certificate c WHERE c.id = domain.certificate_id), false) END, failures = $10,
                failing_since = CASE WHEN $11::timestamptz IS NOT NULL THEN least($11, clock_timestamp()) END, error_code = $12, error_detail = $13,
                wanted = CASE WHEN $14 AND (wanted_seen OR ($16::uuid IS NOT NULL AND wanted = 'renew')) THEN NULL ELSE wanted END,
                wanted_seen = true,
                order_id = CASE WHEN $15 THEN NULL ELSE order_id END, certificate_id = coalesce($16, certificate_id),
                due_at = CASE WHEN $17 THEN claimed_until
                    WHEN removing_since IS NOT NULL
                         OR (wanted IS NOT NULL AND NOT wanted_seen AND NOT ($14 AND $16::uuid IS NOT NULL AND wanted = 'renew'))
                         OR (nudged AND (state = $5 OR $5 = 'CertificateDeploymentFailed')) OR (ask_anew AND $5 = 'Active') THEN clock_timestamp()
                    ELSE ",
        next_attempt!(),
        " END,
                claimed_by = CASE WHEN $17 THEN claimed_by END, incarnation = CASE WHEN $17 THEN incarnation END,
                claimed_until = CASE WHEN $17 THEN claimed_until END,
                ask_anew = ask_anew AND $5 <> 'Active', nudged = false, lapses = 0, unseen = 0, version = version + 1, updated_at = clock_timestamp()
            WHERE id = $1 AND claim_epoch = $2 AND version - unseen = $3 AND incarnation = $4 AND claimed_until > clock_timestamp()
            RETURNING *),
        told AS (
            INSERT INTO event (at, instance, actor, kind, domain_id, subject, from_state, to_state, duration_ms, attempt,
                               error_code, detail)
            SELECT moved.updated_at, $18, $19, 'transition', moved.id, moved.name, h.from_state, h.to_state, h.lasted, h.attempt,
                   h.code, h.detail
            FROM moved, unnest($20::text[], $21::text[], $22::bigint[], $23::bigint[], $24::text[], $25::text[])
                WITH ORDINALITY AS h (from_state, to_state, lasted, attempt, code, detail, n)
            ORDER BY h.n)")
    };
}

/// The open order goes on, or ends: its challenges and its key go with it, and its share of the budget comes back if the CA
/// never made it.
macro_rules! ordered {
    ($trouble:literal) => {
        concat!(", ordered AS (
            UPDATE acme_order o SET url = coalesce($27, o.url), csr = coalesce($28, o.csr),
                trouble = coalesce(", $trouble, "::text, o.trouble), trouble_since = CASE WHEN ", $trouble, "::text IS NULL THEN o.trouble_since
                    WHEN ", $trouble, "::text = o.trouble THEN least(o.trouble_since, moved.updated_at) ELSE moved.updated_at END,
                ended_at = CASE WHEN $15 THEN moved.updated_at END
            FROM moved WHERE o.domain_id = moved.id AND o.ended_at IS NULL
            RETURNING o.id, o.account_id, o.url, o.cost, o.ended_at),
        dropped AS (DELETE FROM challenge USING ordered o WHERE challenge.order_id = o.id AND o.ended_at IS NOT NULL),
        shredded AS (DELETE FROM sealed USING ordered o WHERE sealed.owner = 'order' AND sealed.id = o.id AND o.ended_at IS NOT NULL),
        returned AS (UPDATE acme_account a SET budget_at = a.budget_at - o.cost * interval '1 microsecond'
            FROM ordered o WHERE a.id = o.account_id AND o.ended_at IS NOT NULL AND o.url IS NULL),
        journaled AS (
            INSERT INTO sealed (owner, id, sealing_key, value)
            SELECT 'order', o.id, $29, $30 FROM ordered o WHERE o.ended_at IS NULL AND $30 IS NOT NULL
            ON CONFLICT (owner, id) DO UPDATE SET sealing_key = EXCLUDED.sealing_key, value = EXCLUDED.value),
        answered AS (
            INSERT INTO challenge (token, order_id, name, kind, key_authorization, url, authorization_url, created_at)
            SELECT $31, o.id, moved.name, $32, $33, $34, $35, moved.updated_at
            FROM moved, ordered o WHERE o.ended_at IS NULL AND $31 IS NOT NULL
            ON CONFLICT (token) DO UPDATE SET order_id = EXCLUDED.order_id, name = EXCLUDED.name, kind = EXCLUDED.kind,
                key_authorization = EXCLUDED.key_authorization, url = EXCLUDED.url,
                authorization_url = EXCLUDED.authorization_url, created_at = EXCLUDED.created_at)")
    };
}

/// The certificate is kept, and deployed with a number that is ours alone until the commit.
macro_rules! deployed {
    () => {
        ", issued AS (
            INSERT INTO certificate (id, domain_id, chain_pem, serial, sha256, not_before, not_after, issuer, directory, created_at,
                chain_sha256)
            SELECT $16, moved.id, $36, $37, $38, $39, $40, $41, $42, moved.updated_at, $45 FROM moved WHERE $16 IS NOT NULL),
        superseded AS (
            UPDATE certificate c SET superseded_at = moved.updated_at FROM moved
            WHERE c.domain_id = moved.id AND c.superseded_at IS NULL AND c.id <> moved.certificate_id),
        locked AS (
            INSERT INTO sealed (owner, id, sealing_key, value)
            SELECT 'certificate', $16, $43, $44 FROM moved WHERE $16 IS NOT NULL),
        bumped AS (
            UPDATE revision SET number = number + 1 FROM moved WHERE moved.certificate_id IS NOT NULL RETURNING number),
        deployed AS (
            INSERT INTO deployment (name, edge_group, domain_id, certificate_id, revision, updated_at)
            SELECT moved.name, moved.edge_group, moved.id, moved.certificate_id, bumped.number, clock_timestamp() FROM moved, bumped
            ON CONFLICT (name, edge_group) DO UPDATE SET domain_id = EXCLUDED.domain_id,
                certificate_id = EXCLUDED.certificate_id, revision = EXCLUDED.revision, updated_at = EXCLUDED.updated_at)"
    };
}

macro_rules! result {
    () => {
        concat!(
            " SELECT ",
            domain_columns!(),
            " FROM moved d LEFT JOIN certificate c ON c.id = d.certificate_id"
        )
    };
}

const STEP: &str = concat!(moved!(), result!());
// What comes of an order's trouble is bound last.
const ORDER: &str = concat!(moved!(), ordered!("$36"), result!());
const DEPLOY: &str = concat!(moved!(), ordered!("$46"), deployed!(), result!());

/// A certificate that comes with the step, ready to be written.
struct Issued<'a> {
    id: Uuid,
    certificate: &'a NewCertificate,
    key: Sealed,
}

impl PostgresStore {
    pub(super) async fn commit_step(&self, claimed: &Claimed, commit: &Commit) -> Result<Claimed> {
        let mut tries = self.tries();
        loop {
            match self.try_commit(claimed, commit).await {
                Err(error) => self.again(error, &mut tries).await?,
                done => return done,
            }
        }
    }

    async fn try_commit(&self, before: &Claimed, commit: &Commit) -> Result<Claimed> {
        let ends = commit.order_ends(before);
        let issued = self.seal_certificate(commit)?;
        let deploys = issued.is_some() || commit.products.deploy;
        let text = match commit.touches_order(before) {
            _ if deploys => DEPLOY,
            true => ORDER,
            false => STEP,
        };
        let mut statement = moved(text, before, commit, ends, issued.as_ref());
        if text != STEP {
            statement = self.ordered(statement, before, commit)?;
        }
        if text == DEPLOY {
            statement = deployed(statement, issued.as_ref());
        }
        if text != STEP {
            statement = statement.bind(commit.products.order_trouble);
        }
        let row = self.pool.row("commit a step", statement).await?.ok_or(Error::ClaimLost)?;
        let mut after = claimed(&row)?;
        if let Some(issued) = issued {
            // Written by this very statement, which does not see its own rows.
            after.domain.certificate = Some(issued.certificate.summary.clone());
            after.domain.certificate_since = Some(after.domain.updated_at);
        }
        if let Some(since) = commit.transition.queued_at {
            // Whoever joins the queue again has the place of before.
            self.marks.queue.appeared(&(), since);
        }
        self.tell_of(before, commit, &after, deploys, row.maybe_at("due_at")?);
        Ok(after)
    }

    fn seal_certificate<'a>(&self, commit: &'a Commit) -> Result<Option<Issued<'a>>> {
        let Some(certificate) = &commit.products.certificate else { return Ok(None) };
        let id = Uuid::now_v7();
        let key = self.keyring.seal(Place::certificate(id), &certificate.key)?;
        Ok(Some(Issued { id, certificate, key }))
    }

    fn ordered(
        &self,
        statement: Statement<Postgres>,
        before: &Claimed,
        commit: &Commit,
    ) -> Result<Statement<Postgres>> {
        let products = &commit.products;
        let (key, csr) = match (&products.key_and_csr, before.order) {
            (Some((key, csr)), Some(order)) => {
                (Some(self.keyring.seal(Place::order(order.0), key)?), Some(csr.as_slice()))
            }
            (Some(_), None) => return Err(Error::NotFound("order")),
            (None, _) => (None, None),
        };
        let challenge = products.challenge.as_ref();
        Ok(statement
            .bind(products.order_url.as_deref())
            .bind(csr)
            .bind(key.as_ref().map(|key| key.key))
            .bind(key.map(|key| key.value))
            .bind(challenge.map(|challenge| challenge.token.as_str()))
            .bind(challenge.map(|challenge| challenge.kind.as_str()))
            .bind(challenge.map(|challenge| challenge.key_authorization.as_str()))
            .bind(challenge.map(|challenge| challenge.url.as_str()))
            .bind(challenge.map(|challenge| challenge.authorization_url.as_str())))
    }

    fn tell_of(
        &self,
        before: &Claimed,
        commit: &Commit,
        after: &Claimed,
        deploys: bool,
        due_at: Option<Timestamp>,
    ) {
        let mut topics = Vec::with_capacity(3);
        if !commit.transition.hops.is_empty() {
            topics.push(Topic::Events);
        }
        if deploys {
            topics.push(Topic::Deployments);
        }
        if commit.makes_work(before, after, due_at) {
            topics.push(Topic::Work);
        }
        self.herald.tell(&topics);
    }
}

fn moved(
    text: &'static str,
    before: &Claimed,
    commit: &Commit,
    ends: bool,
    issued: Option<&Issued<'_>>,
) -> Statement<Postgres> {
    let transition = &commit.transition;
    let statement = sql(text)
        .bind(before.domain.id.0)
        .bind(before.epoch)
        .bind(before.domain.version)
        .bind(before.incarnation)
        .bind(transition.state.as_str())
        .bind(i64::from(transition.attempt))
        .bind(time(transition.entered_at))
        .bind(maybe_time(transition.next_attempt_at))
        .bind(maybe_time(transition.queued_at))
        .bind(i64::from(transition.failures))
        .bind(maybe_time(transition.failing_since))
        .bind(transition.last_error.as_ref().map(|note| note.code.as_ref()))
        .bind(transition.last_error.as_ref().map(|note| note.detail.as_str()))
        .bind(commit.answers_request)
        .bind(ends)
        .bind(issued.map(|issued| issued.id))
        .bind(commit.keeps_claim(before))
        .bind(&*commit.actor.instance)
        .bind(&*commit.actor.name);
    history(statement, commit)
}

fn history(statement: Statement<Postgres>, commit: &Commit) -> Statement<Postgres> {
    let hops = &commit.transition.hops;
    let state = |state: State| state.as_str();
    let note = |part: fn(&Note) -> &str| -> Vec<Option<String>> {
        hops.iter().map(|hop| hop.error.as_ref().map(|note| part(note).to_owned())).collect()
    };
    let lasted = |millis: u128| i64::try_from(millis).unwrap_or(i64::MAX);
    statement
        .bind(hops.iter().map(|hop| state(hop.from)).collect::<Vec<_>>())
        .bind(hops.iter().map(|hop| state(hop.to)).collect::<Vec<_>>())
        .bind(hops.iter().map(|hop| lasted(hop.lasted.as_millis())).collect::<Vec<_>>())
        .bind(hops.iter().map(|hop| i64::from(hop.attempt)).collect::<Vec<_>>())
        .bind(note(|note| &note.code))
        .bind(note(|note| &note.detail))
        .bind(time(commit.transition.decided_at))
}

fn deployed(statement: Statement<Postgres>, issued: Option<&Issued<'_>>) -> Statement<Postgres> {
    let summary = issued.map(|issued| &issued.certificate.summary);
    statement
        .bind(issued.map(|issued| issued.certificate.chain_pem.as_str()))
        .bind(summary.map(|summary| summary.serial.as_str()))
        .bind(summary.map(|summary| summary.sha256.as_str()))
        .bind(summary.map(|summary| time(summary.not_before)))
        .bind(summary.map(|summary| time(summary.not_after)))
        .bind(summary.map(|summary| summary.issuer.as_str()))
        .bind(summary.map(|summary| summary.directory.as_str()))
        .bind(issued.map(|issued| issued.key.key))
        .bind(issued.map(|issued| issued.key.value.clone()))
        .bind(issued.map(|issued| digest(&issued.certificate.chain_pem)))
}
