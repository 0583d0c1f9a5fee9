//! Committing a step: the domain's row by compare-and-swap, its history and what the step produced, in one transaction.

use holdfast_model::{Note, Timestamp};
use sqlx::Sqlite;
use uuid::Uuid;

use super::{
    SqliteStore, Tx,
    add::SEAL,
    domain::BY_ID,
    edge::{deploy, next_revision},
    event, maybe_time, now, sql, time,
};
use crate::{
    Claimed, Commit, Error, NewChallenge, OrderId, Result, Secret, Topic,
    pool::Statement,
    row::{Fields as _, claimed},
    seal::Place,
};

/// The row moves if it is still ours. People's requests are answered only if the worker saw them, but for a new certificate that was
/// asked for while one was being stored. One that came meanwhile makes the row due; one that the worker saw and keeps does not, or it
/// would be looked at without end.
const MOVE: &str = "
    UPDATE domain SET state = $5, attempt = $6, entered_at = $7, next_attempt_at = $8, queued_at = $9,
        renews = CASE WHEN $9 IS NULL THEN 0 ELSE coalesce((
            SELECT c.created_at > $18 - 10368000000000 AND EXISTS (SELECT 1 FROM acme_account a WHERE a.directory = c.directory)
            FROM certificate c WHERE c.id = domain.certificate_id), 0) END, failures = $10,
        failing_since = $11, error_code = $12, error_detail = $13,
        wanted = CASE WHEN $14 AND (wanted_seen OR ($16 IS NOT NULL AND wanted = 'renew')) THEN NULL ELSE wanted END, wanted_seen = 1,
        order_id = CASE WHEN $15 THEN NULL ELSE order_id END, certificate_id = coalesce($16, certificate_id),
        due_at = CASE WHEN $17 THEN claimed_until
            WHEN removing_since IS NOT NULL
                 OR (wanted IS NOT NULL AND NOT wanted_seen AND NOT ($14 AND $16 IS NOT NULL AND wanted = 'renew'))
                 OR (nudged AND (state = $5 OR $5 = 'CertificateDeploymentFailed')) OR (ask_anew AND $5 = 'Active') THEN $18
            ELSE $8 END,
        claimed_by = CASE WHEN $17 THEN claimed_by END, incarnation = CASE WHEN $17 THEN incarnation END,
        claimed_until = CASE WHEN $17 THEN claimed_until END,
        ask_anew = ask_anew AND $5 <> 'Active', nudged = 0, lapses = 0, unseen = 0, version = version + 1, updated_at = $18
    WHERE id = $1 AND claim_epoch = $2 AND version - unseen = $3 AND incarnation = $4 AND claimed_until > $18";

const OPEN: &str = "SELECT id FROM acme_order WHERE domain_id = $1 AND ended_at IS NULL";
const JOURNAL: &str = "
    UPDATE acme_order SET url = coalesce($2, url), csr = coalesce($3, csr), trouble = coalesce($4, trouble),
        trouble_since = CASE WHEN $4 IS NULL THEN trouble_since WHEN $4 = trouble THEN min(trouble_since, $5) ELSE $5 END
    WHERE id = $1";
const ANSWER: &str = "
    INSERT OR REPLACE INTO challenge (token, order_id, name, kind, key_authorization, url, authorization_url, created_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";

const END: &str = "
    UPDATE acme_order SET ended_at = $2 WHERE domain_id = $1 AND ended_at IS NULL RETURNING id, account_id, url, cost";
const DROP_CHALLENGES: &str = "DELETE FROM challenge WHERE order_id = $1";
const SHRED: &str = "DELETE FROM sealed WHERE owner = 'order' AND id = $1";
const GIVE_BACK: &str = "UPDATE acme_account SET budget_at = budget_at - $2 WHERE id = $1";
const SUPERSEDE: &str = "
    UPDATE certificate SET superseded_at = $2 WHERE domain_id = $1 AND superseded_at IS NULL AND id <> $3";

impl SqliteStore {
    pub(super) async fn commit_step(&self, before: &Claimed, commit: &Commit) -> Result<Claimed> {
        let mut transaction = self.writer.begin("commit a step").await?;
        let certificate = commit.products.certificate.as_ref().map(|_| Uuid::now_v7());
        let moved = transaction.execute(moved(before, commit, certificate)).await?;
        if moved.rows_affected() == 0 {
            transaction.abandon().await?;
            return Err(Error::ClaimLost);
        }
        tell_history(&mut transaction, before, commit).await?;
        if commit.touches_order(before) {
            self.journal(&mut transaction, before, commit).await?;
        }
        if let (Some(new), Some(id)) = (&commit.products.certificate, certificate) {
            self.keep_certificate(&mut transaction, id, before.domain.id.0, new).await?;
        }
        let row = transaction.one(sql(BY_ID).bind(before.domain.id.0)).await?;
        let after = claimed(&row)?;
        if certificate.is_some() || commit.products.deploy {
            deploy_newest(&mut transaction, &after).await?;
        }
        transaction.commit().await?;
        self.tell_of(commit);
        if commit.makes_work(before, &after, row.maybe_at("due_at")?) {
            self.bell.ring(Topic::Work);
        }
        Ok(after)
    }

    /// The open order goes on with what the step produced, or ends.
    async fn journal(&self, transaction: &mut Tx, before: &Claimed, commit: &Commit) -> Result<()> {
        if commit.order_ends(before) {
            return end_order(transaction, before.domain.id.0).await;
        }
        let row = transaction.row(sql(OPEN).bind(before.domain.id.0)).await?;
        let order = OrderId(row.ok_or(Error::NotFound("order"))?.id("id")?);
        let products = &commit.products;
        let csr = products.key_and_csr.as_ref().map(|(_, csr)| csr.as_slice());
        let statement = sql(JOURNAL).bind(order.0).bind(products.order_url.as_deref()).bind(csr);
        let statement = statement.bind(products.order_trouble).bind(time(now()));
        transaction.execute(statement).await?;
        if let Some((key, _)) = &products.key_and_csr {
            self.seal_order_key(transaction, order, key).await?;
        }
        if let Some(challenge) = &products.challenge {
            transaction.execute(answer(before, order, challenge)).await?;
        }
        Ok(())
    }

    async fn seal_order_key(
        &self,
        transaction: &mut Tx,
        order: OrderId,
        key: &Secret,
    ) -> Result<()> {
        let place = Place::order(order.0);
        let sealed = self.keyring.seal(place, key)?;
        let seal = sql(SEAL).bind(place.owner).bind(place.id).bind(sealed.key).bind(sealed.value);
        transaction.execute(seal).await?;
        Ok(())
    }

    fn tell_of(&self, commit: &Commit) {
        if !commit.transition.hops.is_empty() {
            self.bell.ring(Topic::Events);
        }
        if commit.products.deploy || commit.products.certificate.is_some() {
            self.bell.ring(Topic::Deployments);
        }
    }
}

fn moved(before: &Claimed, commit: &Commit, certificate: Option<Uuid>) -> Statement<Sqlite> {
    let (transition, now) = (&commit.transition, now());
    let error = transition.last_error.as_ref();
    let past = |at: Option<Timestamp>| maybe_time(at.map(|at| at.min(now)));
    sql(MOVE)
        .bind(before.domain.id.0)
        .bind(before.epoch)
        .bind(before.domain.version)
        .bind(before.incarnation)
        .bind(transition.state.as_str())
        .bind(i64::from(transition.attempt))
        .bind(time(transition.entered_at.min(now)))
        .bind(maybe_time(transition.next_attempt_as_of(now)))
        .bind(past(transition.queued_at))
        .bind(i64::from(transition.failures))
        .bind(past(transition.failing_since))
        .bind(error.map(|note| note.code.to_string()))
        .bind(error.map(|note: &Note| note.detail.as_str()))
        .bind(commit.answers_request)
        .bind(commit.order_ends(before))
        .bind(certificate)
        .bind(commit.keeps_claim(before))
        .bind(time(now))
}

async fn tell_history(transaction: &mut Tx, before: &Claimed, commit: &Commit) -> Result<()> {
    for hop in &commit.transition.hops {
        let line = event::Line {
            from: Some(hop.from),
            to: Some(hop.to),
            lasted: hop.lasted,
            attempt: hop.attempt,
            error: hop.error.as_ref(),
            ..event::Line::of(before.domain.id, &before.domain.name)
        };
        event::tell(transaction, &commit.actor, &line).await?;
    }
    Ok(())
}

fn answer(before: &Claimed, order: OrderId, challenge: &NewChallenge) -> Statement<Sqlite> {
    sql(ANSWER)
        .bind(challenge.token.as_str())
        .bind(order.0)
        .bind(before.domain.name.as_str())
        .bind(challenge.kind.as_str())
        .bind(challenge.key_authorization.as_str())
        .bind(challenge.url.as_str())
        .bind(challenge.authorization_url.as_str())
        .bind(time(now()))
}

/// Ends the open order of a domain: its challenges and its key go with it, and its share of the budget comes back if the CA never
/// made it.
pub(super) async fn end_order(transaction: &mut Tx, domain: Uuid) -> Result<()> {
    let Some(row) = transaction.row(sql(END).bind(domain).bind(time(now()))).await? else {
        return Ok(());
    };
    let id = row.id("id")?;
    transaction.execute(sql(DROP_CHALLENGES).bind(id)).await?;
    transaction.execute(sql(SHRED).bind(id)).await?;
    if row.maybe_text("url")?.is_none() {
        let give_back = sql(GIVE_BACK).bind(row.id("account_id")?).bind(row.number("cost")?);
        transaction.execute(give_back).await?;
    }
    Ok(())
}

/// What the domain has now is what its group should serve.
async fn deploy_newest(transaction: &mut Tx, after: &Claimed) -> Result<()> {
    let domain = &after.domain;
    let newest = "SELECT certificate_id AS id FROM domain WHERE id = $1";
    let newest = transaction.one(sql(newest).bind(domain.id.0)).await?.maybe_id("id")?;
    let Some(certificate) = newest else { return Ok(()) };
    let supersede = sql(SUPERSEDE).bind(domain.id.0).bind(time(now())).bind(certificate);
    transaction.execute(supersede).await?;
    let number = next_revision(transaction).await?;
    deploy(transaction, domain, Some(certificate), number).await
}
