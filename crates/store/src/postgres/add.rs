//! Adding domains: claim, row and event in one statement for any number of them. What the database refused is looked up and
//! judged; no transaction is ever aborted by a conflict.

use std::collections::HashSet;

use holdfast_model::{Domain, State};
use sqlx::{Postgres, postgres::PgRow};
use uuid::Uuid;

use super::{PostgresStore, TRIES, is_collision, sql, time};
use crate::{
    Added, Error, NewCertificate, NewDomain, Result, Topic,
    conflict::{Standing, Verdict, judge, standing_columns},
    pool::{Statement, Transaction},
    row::{Fields as _, digest, domain, domain_columns},
    seal::Place,
};

/// What comes of a claim just made: the domain and its first event. `made` gives who has one now.
macro_rules! domain_of_claim {
    () => {
        "added AS (
            INSERT INTO domain (id, name, tenant, resource, target, edge_group, labels, orchestration_id, import_sha256,
                                certificate_id, state, entered_at, due_at, next_attempt_at, created_at, updated_at)
            SELECT a.id, a.name, a.tenant, a.resource, a.target, a.edge_group, a.labels, a.orchestration_id, a.import_sha256,
                   a.certificate_id, 'Initial', m.at, m.at, m.at, m.at, m.at
            FROM asked a JOIN made m ON m.domain_id = a.id
            RETURNING *),
        told AS (
            INSERT INTO event (at, instance, actor, kind, domain_id, subject, to_state)
            SELECT d.created_at, a.instance, a.actor, 'transition', d.id, d.name, d.state
            FROM asked a JOIN added d ON d.id = a.id ORDER BY a.n)"
    };
}

macro_rules! asked {
    () => {
        "asked AS (
            SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
                                 $9::text[], $10::uuid[], $11::text[], $12::text[], $13::uuid[])
            WITH ORDINALITY AS t(id, name, tenant, resource, target, edge_group, labels, orchestration_id,
                                 import_sha256, certificate_id, instance, actor, claim_id, n))"
    };
}

const ADD: &str = concat!(
    "WITH ",
    asked!(),
    ", made AS (
        INSERT INTO claim (id, resource, name, orchestration_id, domain_id, created_at)
        SELECT claim_id, resource, name, orchestration_id, id, clock_timestamp() FROM asked ORDER BY n
        ON CONFLICT DO NOTHING
        RETURNING domain_id, created_at AS at), ",
    domain_of_claim!(),
    " SELECT ",
    domain_columns!(),
    " FROM added d LEFT JOIN certificate c ON c.id = d.certificate_id"
);

/// As `ADD`, into a claim that the same orchestration has made before.
const ADOPT: &str = concat!(
    "WITH ",
    asked!(),
    ", made AS (
        UPDATE claim k SET domain_id = a.id, name = a.name FROM asked a
        WHERE k.id = a.claim_id AND k.domain_id IS NULL AND k.released_at IS NULL
          AND NOT EXISTS (SELECT 1 FROM claim o WHERE o.name = a.name AND o.released_at IS NULL AND o.id <> k.id)
        RETURNING k.domain_id, clock_timestamp() AS at), ",
    domain_of_claim!(),
    " SELECT ",
    domain_columns!(),
    " FROM added d LEFT JOIN certificate c ON c.id = d.certificate_id"
);

/// Whatever stands in the way of these, and what is already theirs.
const LOOK: &str = concat!(
    "SELECT ",
    standing_columns!(),
    " FROM (SELECT * FROM claim WHERE orchestration_id = ANY ($1)
          UNION SELECT * FROM claim WHERE released_at IS NULL AND name = ANY ($2)
          UNION SELECT * FROM claim WHERE released_at IS NULL AND resource = ANY ($3)) k
    LEFT JOIN domain d ON d.id = k.domain_id LEFT JOIN certificate c ON c.id = d.certificate_id"
);

const IMPORT: &str = "WITH issued AS (
        INSERT INTO certificate (id, domain_id, chain_pem, serial, sha256, not_before, not_after, issuer, directory, created_at,
            chain_sha256)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, clock_timestamp(), $12))
    INSERT INTO sealed (owner, id, sealing_key, value) VALUES ('certificate', $1, $10, $11)";

/// One request under way.
struct Request<'a> {
    new: &'a NewDomain,
    claim: Uuid,
    certificate: Option<Uuid>,
    place: usize,
}

type Answers = Vec<Option<Result<Added>>>;

impl PostgresStore {
    pub(super) async fn add_one(&self, new: &NewDomain) -> Result<Added> {
        // Nearly always nothing stands in the way: then it is one statement by itself.
        if new.import.is_none() {
            let request = Request::new(new, 0);
            let rows = self.pool.rows("add a domain", add(ADD, &[&request])).await?;
            if let Some(row) = rows.first() {
                self.added_some();
                return Ok(Added { domain: domain(row)?, created: true });
            }
        }
        let answers = self.add_all(std::slice::from_ref(new)).await?;
        answers.into_iter().next().unwrap_or(Err(Error::HolderVanished))
    }

    pub(super) async fn add_all(&self, new: &[NewDomain]) -> Result<Vec<Result<Added>>> {
        let (mut collisions, mut tries) = (0, self.tries());
        loop {
            match self.try_add(new).await {
                Err(error) if is_collision(&error) && collisions < TRIES => collisions += 1,
                Err(error) => self.again(error, &mut tries).await?,
                Ok(answers) => {
                    self.added_some();
                    return Ok(answers);
                }
            }
        }
    }

    fn added_some(&self) {
        self.herald.tell(&[Topic::Work, Topic::Events]);
    }

    async fn try_add(&self, new: &[NewDomain]) -> Result<Vec<Result<Added>>> {
        let mut transaction = self.pool.begin("add domains").await?;
        let mut answers: Answers = new.iter().map(|_| None).collect();
        let mut open: Vec<_> =
            new.iter().enumerate().map(|(place, new)| Request::new(new, place)).collect();
        let mut stalled = 0;
        while !open.is_empty() && stalled < TRIES {
            let before = open.len();
            self.insert(&mut transaction, &mut open, &mut answers).await?;
            if !open.is_empty() {
                self.look(&mut transaction, &mut open, &mut answers).await?;
            }
            stalled += u32::from(open.len() == before);
        }
        transaction.commit().await?;
        Ok(answers.into_iter().map(|answer| answer.unwrap_or(Err(Error::HolderVanished))).collect())
    }

    /// Inserts all that nothing stands in the way of.
    async fn insert(
        &self,
        transaction: &mut Transaction<'_, Postgres>,
        open: &mut Vec<Request<'_>>,
        answers: &mut Answers,
    ) -> Result<()> {
        let rows = transaction.rows(add(ADD, &leading(open))).await?;
        self.note_added(transaction, rows, open, answers).await
    }

    async fn note_added(
        &self,
        transaction: &mut Transaction<'_, Postgres>,
        rows: Vec<PgRow>,
        open: &mut Vec<Request<'_>>,
        answers: &mut Answers,
    ) -> Result<()> {
        for row in rows {
            let id = row.id("id")?;
            let Some(at) = open.iter().position(|request| request.new.id.0 == id) else { continue };
            let request = open.swap_remove(at);
            let mut domain = domain(&row)?;
            self.import(transaction, &request, &mut domain).await?;
            if let Some(answer) = answers.get_mut(request.place) {
                *answer = Some(Ok(Added { domain, created: true }));
            }
        }
        Ok(())
    }

    /// Keeps the certificate that was brought along.
    async fn import(
        &self,
        transaction: &mut Transaction<'_, Postgres>,
        request: &Request<'_>,
        domain: &mut Domain,
    ) -> Result<()> {
        let (Some(import), Some(id)) = (&request.new.import, request.certificate) else {
            return Ok(());
        };
        let NewCertificate { chain_pem, key, summary } = &import.certificate;
        let sealed = self.keyring.seal(Place::certificate(id), key)?;
        let statement = sql(IMPORT)
            .bind(id)
            .bind(request.new.id.0)
            .bind(chain_pem.as_str())
            .bind(summary.serial.as_str())
            .bind(summary.sha256.as_str())
            .bind(time(summary.not_before))
            .bind(time(summary.not_after))
            .bind(summary.issuer.as_str())
            .bind(summary.directory.as_str())
            .bind(sealed.key)
            .bind(sealed.value)
            .bind(digest(chain_pem));
        transaction.execute(statement).await?;
        domain.certificate = Some(summary.clone());
        Ok(())
    }

    /// Judges what was not inserted; what nothing stands in the way of any more stays open.
    async fn look(
        &self,
        transaction: &mut Transaction<'_, Postgres>,
        open: &mut Vec<Request<'_>>,
        answers: &mut Answers,
    ) -> Result<()> {
        let new: Vec<&NewDomain> = open.iter().map(|request| request.new).collect();
        let rows = transaction.rows(look(&new)).await?;
        let found = rows.iter().map(Standing::read).collect::<Result<Vec<_>>>()?;
        let mut still_open = Vec::new();
        for mut request in open.drain(..) {
            let answer = match judge(request.new, &found) {
                Verdict::Same(domain) => Ok(Added { domain: *domain, created: false }),
                Verdict::Refused(error) => Err(error),
                Verdict::Free => {
                    still_open.push(request);
                    continue;
                }
                Verdict::Adopt(claim) => {
                    request.claim = claim;
                    let rows = transaction.rows(add(ADOPT, &[&request])).await?;
                    let mut adopting = vec![request];
                    self.note_added(transaction, rows, &mut adopting, answers).await?;
                    still_open.append(&mut adopting);
                    continue;
                }
            };
            if let Some(place) = answers.get_mut(request.place) {
                *place = Some(answer);
            }
        }
        *open = still_open;
        Ok(())
    }

    pub(super) async fn judge_add(&self, new: &NewDomain) -> Result<bool> {
        let rows = self.pool.rows("look for conflicts", look(&[new])).await?;
        let found = rows.iter().map(Standing::read).collect::<Result<Vec<_>>>()?;
        match judge(new, &found) {
            Verdict::Refused(error) => Err(error),
            Verdict::Same(_) => Ok(false),
            Verdict::Adopt(_) | Verdict::Free => Ok(true),
        }
    }
}

impl<'a> Request<'a> {
    fn new(new: &'a NewDomain, place: usize) -> Self {
        let certificate = new.import.as_ref().map(|_| Uuid::now_v7());
        Self { new, claim: Uuid::now_v7(), certificate, place }
    }

    fn resource(&self) -> String {
        self.new.resource.clone().unwrap_or_else(|| self.new.id.to_string())
    }
}

/// Those that want nothing an earlier one in the batch wants, too: the others are judged once these are in. By name, because batches that
/// want the same names must wait for each other in the same order, or they would wait for ever.
fn leading<'r, 'a>(open: &'r [Request<'a>]) -> Vec<&'r Request<'a>> {
    let mut seen = HashSet::new();
    let mut in_order: Vec<_> = open.iter().collect();
    in_order.sort_by_key(|request| request.place);
    in_order.retain(|request| {
        let new = request.new;
        let wants = [
            ("name", Some(new.name.as_str())),
            ("resource", new.resource.as_deref()),
            ("orchestration", Some(new.orchestration_id.as_str())),
        ];
        let free = wants.iter().all(|want| want.1.is_none() || !seen.contains(want));
        seen.extend(wants);
        free
    });
    in_order.sort_by(|a, b| a.new.name.cmp(&b.new.name));
    in_order
}

fn add(statement: &'static str, requests: &[&Request<'_>]) -> Statement<Postgres> {
    debug_assert_eq!(State::Initial.as_str(), "Initial");
    let texts = |field: fn(&NewDomain) -> &str| -> Vec<String> {
        requests.iter().map(|request| field(request.new).to_owned()).collect()
    };
    let labels = |request: &&Request<'_>| serde_json::to_string(&request.new.labels);
    let import = |request: &&Request<'_>| {
        request.new.import.as_ref().map(|import| import.certificate.summary.sha256.clone())
    };
    sql(statement)
        .bind(requests.iter().map(|request| request.new.id.0).collect::<Vec<_>>())
        .bind(texts(|new| new.name.as_str()))
        .bind(requests.iter().map(|request| request.new.tenant.clone()).collect::<Vec<_>>())
        .bind(requests.iter().map(|request| request.resource()).collect::<Vec<_>>())
        .bind(texts(|new| new.target.as_str()))
        .bind(texts(|new| &new.edge_group))
        .bind(
            requests.iter().map(|request| labels(request).unwrap_or_default()).collect::<Vec<_>>(),
        )
        .bind(texts(|new| &new.orchestration_id))
        .bind(requests.iter().map(import).collect::<Vec<_>>())
        .bind(requests.iter().map(|request| request.certificate).collect::<Vec<_>>())
        .bind(texts(|new| &new.actor.instance))
        .bind(texts(|new| &new.actor.name))
        .bind(requests.iter().map(|request| request.claim).collect::<Vec<_>>())
}

fn look(new: &[&NewDomain]) -> Statement<Postgres> {
    let orchestrations: Vec<_> = new.iter().map(|new| new.orchestration_id.clone()).collect();
    let names: Vec<_> = new.iter().map(|new| new.name.to_string()).collect();
    let resources: Vec<_> = new.iter().filter_map(|new| new.resource.clone()).collect();
    sql(LOOK).bind(orchestrations).bind(names).bind(resources)
}
