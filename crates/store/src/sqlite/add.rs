//! Adding domains: claim, row and event in one transaction. What the unique rows refuse is looked up and judged.

use holdfast_model::{State, Timestamp};
use sqlx::Sqlite;
use uuid::Uuid;

use super::{SqliteStore, Tx, domain::BY_ID, event, now, sql, time};
use crate::{
    Added, Error, NewCertificate, NewDomain, Result, Topic,
    conflict::{Standing, Verdict, judge, standing_columns},
    pool::Statement,
    row::{digest, domain},
    seal::Place,
};

const CLAIM: &str = "
    INSERT INTO claim (id, resource, name, orchestration_id, domain_id, created_at) VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT DO NOTHING";
const ADOPT: &str = "UPDATE claim SET domain_id = $2, name = $3 WHERE id = $1";

const ADD: &str = "
    INSERT INTO domain (id, name, tenant, resource, target, edge_group, labels, orchestration_id, import_sha256, certificate_id,
                        state, entered_at, due_at, next_attempt_at, created_at, updated_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $12, $12, $12, $12)";

pub(super) const LOOK: &str = concat!(
    "SELECT ",
    standing_columns!(),
    " FROM (SELECT * FROM claim WHERE orchestration_id = $1
          UNION SELECT * FROM claim WHERE released_at IS NULL AND name = $2
          UNION SELECT * FROM claim WHERE released_at IS NULL AND resource = $3) k
    LEFT JOIN domain d ON d.id = k.domain_id LEFT JOIN certificate c ON c.id = d.certificate_id"
);

const CERTIFICATE: &str = "
    INSERT INTO certificate (id, domain_id, chain_pem, serial, sha256, not_before, not_after, issuer, directory, created_at,
        chain_sha256)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
pub(super) const SEAL: &str = "
    INSERT INTO sealed (owner, id, sealing_key, value) VALUES ($1, $2, $3, $4)
    ON CONFLICT (owner, id) DO UPDATE SET sealing_key = excluded.sealing_key, value = excluded.value";

impl SqliteStore {
    pub(super) async fn add_all(&self, new: &[NewDomain]) -> Result<Vec<Result<Added>>> {
        let mut transaction = self.writer.begin("add domains").await?;
        let mut answers = Vec::with_capacity(new.len());
        for new in new {
            answers.push(self.add_one(&mut transaction, new).await?);
        }
        transaction.commit().await?;
        self.tell(&[Topic::Work, Topic::Events]);
        Ok(answers)
    }

    /// The outer error is the database's and ends the batch, the inner one is the request's own.
    async fn add_one(&self, transaction: &mut Tx, new: &NewDomain) -> Result<Result<Added>> {
        let at = now();
        if transaction.execute(claim(new, at)).await?.rows_affected() > 0 {
            return self.settle_in(transaction, new, at).await.map(Ok);
        }
        let rows = transaction.rows(look(new)).await?;
        let found = rows.iter().map(Standing::read).collect::<Result<Vec<_>>>()?;
        match judge(new, &found) {
            Verdict::Same(domain) => Ok(Ok(Added { domain: *domain, created: false })),
            Verdict::Refused(error) => Ok(Err(error)),
            Verdict::Adopt(id) => {
                let adopt = sql(ADOPT).bind(id).bind(new.id.0).bind(new.name.as_str());
                transaction.execute(adopt).await?;
                self.settle_in(transaction, new, at).await.map(Ok)
            }
            Verdict::Free => Ok(Err(Error::HolderVanished)),
        }
    }

    /// The claim is ours: the domain, its first event and what it brought along follow.
    async fn settle_in(
        &self,
        transaction: &mut Tx,
        new: &NewDomain,
        at: Timestamp,
    ) -> Result<Added> {
        let certificate = new.import.as_ref().map(|_| Uuid::now_v7());
        transaction.execute(add(new, certificate, at)).await?;
        let hop = event::Line { to: Some(State::Initial), ..event::Line::of(new.id, &new.name) };
        event::tell(transaction, &new.actor, &hop).await?;
        if let (Some(import), Some(id)) = (&new.import, certificate) {
            self.keep_certificate(transaction, id, new.id.0, &import.certificate).await?;
        }
        let row = transaction.one(sql(BY_ID).bind(new.id.0)).await?;
        Ok(Added { domain: domain(&row)?, created: true })
    }

    /// Keeps a certificate, its key sealed for its row.
    pub(super) async fn keep_certificate(
        &self,
        transaction: &mut Tx,
        id: Uuid,
        domain: Uuid,
        certificate: &NewCertificate,
    ) -> Result<()> {
        let NewCertificate { chain_pem, key, summary } = certificate;
        let statement = sql(CERTIFICATE)
            .bind(id)
            .bind(domain)
            .bind(chain_pem.as_str())
            .bind(summary.serial.as_str())
            .bind(summary.sha256.as_str())
            .bind(time(summary.not_before))
            .bind(time(summary.not_after))
            .bind(summary.issuer.as_str())
            .bind(summary.directory.as_str())
            .bind(time(now()))
            .bind(digest(chain_pem));
        transaction.execute(statement).await?;
        let place = Place::certificate(id);
        let sealed = self.keyring.seal(place, key)?;
        let seal = sql(SEAL).bind(place.owner).bind(id).bind(sealed.key).bind(sealed.value);
        transaction.execute(seal).await?;
        Ok(())
    }

    pub(super) async fn judge_add(&self, new: &NewDomain) -> Result<bool> {
        let rows = self.readers.rows("look for conflicts", look(new)).await?;
        let found = rows.iter().map(Standing::read).collect::<Result<Vec<_>>>()?;
        match judge(new, &found) {
            Verdict::Refused(error) => Err(error),
            Verdict::Same(_) => Ok(false),
            Verdict::Adopt(_) | Verdict::Free => Ok(true),
        }
    }
}

fn resource(new: &NewDomain) -> String {
    new.resource.clone().unwrap_or_else(|| new.id.to_string())
}

fn claim(new: &NewDomain, at: Timestamp) -> Statement<Sqlite> {
    sql(CLAIM)
        .bind(Uuid::now_v7())
        .bind(resource(new))
        .bind(new.name.as_str())
        .bind(new.orchestration_id.as_str())
        .bind(new.id.0)
        .bind(time(at))
}

fn look(new: &NewDomain) -> Statement<Sqlite> {
    sql(LOOK)
        .bind(new.orchestration_id.as_str())
        .bind(new.name.as_str())
        .bind(new.resource.as_deref())
}

fn add(new: &NewDomain, certificate: Option<Uuid>, at: Timestamp) -> Statement<Sqlite> {
    let import = new.import.as_ref().map(|import| import.certificate.summary.sha256.as_str());
    sql(ADD)
        .bind(new.id.0)
        .bind(new.name.as_str())
        .bind(new.tenant.as_deref())
        .bind(resource(new))
        .bind(new.target.as_str())
        .bind(new.edge_group.as_str())
        .bind(serde_json::to_string(&new.labels).unwrap_or_default())
        .bind(new.orchestration_id.as_str())
        .bind(import)
        .bind(certificate)
        .bind(State::Initial.as_str())
        .bind(time(at))
}
