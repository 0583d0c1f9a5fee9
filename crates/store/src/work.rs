//! Working on domains: claim, drive, commit.
//!
//! A claim is a row's `claimed_by`, `incarnation`, `claimed_until` and `claim_epoch`; every commit compares incarnation, epoch,
//! version and time, so a worker that was paused too long changes nothing, and neither does one that knows the row from a
//! database that was since restored: there the epochs count again from lower.

use std::time::Duration;

use async_trait::async_trait;
use holdfast_gateway::point::Point;
use holdfast_model::{Domain, DomainId, State, Timestamp, Transition};

use crate::{
    AccountId, Actor, Lane, NewCertificate, NewChallenge, OrderId, OrderLimits, Result, Room,
    Secret,
};

/// Who claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimant {
    /// The replica, as people know it; it stands in the history.
    pub instance: String,
    /// This start of it; it is what is compared.
    pub incarnation: uuid::Uuid,
}

/// A domain that is ours to work on until the claim ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimed {
    /// The domain as it stood.
    pub domain: Domain,
    /// The claim.
    pub epoch: i64,
    /// Whose claim it is; none once it was given back.
    pub incarnation: Option<uuid::Uuid>,
    /// The order made out for it by `admit`.
    pub order: Option<OrderId>,
}

/// What a claim gave.
#[derive(Debug, Clone)]
pub struct WorkBatch {
    /// The store's clock.
    pub now: Timestamp,
    /// Ours to work on.
    pub work: Vec<Claimed>,
    /// When the next one is due, if known; none when nothing waits.
    pub next_due_at: Option<Timestamp>,
    /// By lane, when the last that was taken had been due; none where nothing was, or where it does not matter to the database.
    pub taken_to: [Option<Timestamp>; Lane::ALL.len()],
}

/// What asking for orders gave.
#[derive(Debug, Clone)]
pub struct Admission {
    /// The store's clock.
    pub now: Timestamp,
    /// Ours to order for, each with an order row.
    pub work: Vec<Claimed>,
    /// When to ask again, if any are left waiting for the clock; none if nothing waits or an end of an open order will wake us.
    pub ask_again_at: Option<Timestamp>,
}

/// What a step produced, committed with its transition.
#[derive(Debug, Clone, Default)]
pub struct Products {
    /// The CA's URL of the order.
    pub order_url: Option<String>,
    /// The challenge, from now on answered everywhere.
    pub challenge: Option<NewChallenge>,
    /// Key (PKCS #8 PEM) and CSR (DER), sealed before they are needed.
    pub key_and_csr: Option<(Secret, Vec<u8>)>,
    /// Why the certificate of the order could not be had: a short code. The time counts from the first of the same in a row.
    pub order_trouble: Option<&'static str>,
    /// The certificate: becomes the domain's newest and is deployed to its group.
    pub certificate: Option<NewCertificate>,
    /// Deploy the domain's newest certificate to its group (anew).
    pub deploy: bool,
}

/// What is committed, in one statement where the database can.
#[derive(Debug, Clone)]
pub struct Commit {
    /// Where it goes.
    pub transition: Transition,
    /// What was produced.
    pub products: Products,
    /// Was the person's request acted upon, so that it is done with?
    pub answers_request: bool,
    /// Do we go on with it at once? Else the claim ends here.
    pub keep_claim: bool,
    /// Who does it.
    pub actor: Actor,
}

/// Working on domains.
#[async_trait]
pub trait Work: Send + Sync {
    /// Claims up to `limit` due domains for `hold`, of whatever lane.
    async fn claim(&self, who: &Claimant, limit: u32, hold: Duration) -> Result<WorkBatch> {
        self.claim_lanes(who, &Room::shared(limit), hold).await
    }

    /// Claims due domains for `hold`, as many of each lane as there is room for it. In each lane, who has been due longest is first.
    async fn claim_lanes(&self, who: &Claimant, room: &Room, hold: Duration) -> Result<WorkBatch> {
        self.claim_lanes_but(who, room, hold, &[]).await
    }

    /// The same, without those that others can go on with and this replica cannot: whose open order, or the certificate that is to be
    /// revoked, is of one of these accounts.
    async fn claim_lanes_but(
        &self,
        who: &Claimant,
        room: &Room,
        hold: Duration,
        elsewhere: &[AccountId],
    ) -> Result<WorkBatch>;

    /// Claims up to `limit` queued domains for which the account may order now, and makes out their orders. Renewals go first, but
    /// of every four orders one is for who has no certificate yet.
    async fn admit(
        &self,
        who: &Claimant,
        account: AccountId,
        limits: OrderLimits,
        limit: u32,
        hold: Duration,
    ) -> Result<Admission>;

    /// Holds claims for longer, in one statement; gives those that were lost.
    async fn renew_claims(
        &self,
        who: &Claimant,
        claims: &[(DomainId, i64)],
        hold: Duration,
    ) -> Result<Vec<DomainId>>;

    /// Commits a step: compare-and-swap on incarnation, epoch, version and time, history, products. `ClaimLost` if it is not ours any more.
    async fn commit(&self, claimed: &Claimed, commit: &Commit) -> Result<Claimed>;

    /// Gives claims back unworked: due at once, at no cost to the domain.
    async fn unclaim(&self, who: &Claimant, claims: &[(DomainId, i64)]) -> Result<()>;

    /// One step of a removal: challenges dropped, order ended, a tombstone deployed. Safe to repeat.
    async fn begin_teardown(&self, claimed: &Claimed) -> Result<Claimed>;

    /// The removal is complete: the claim is released, the name free, the row history.
    async fn finish_removal(&self, claimed: &Claimed, actor: &Actor) -> Result<()>;

    /// The removal waits for edges: look again after this long, by the store's own clock.
    async fn postpone_removal(&self, claimed: &Claimed, wait: Duration) -> Result<()>;
}

/// Further ahead than this, workers see it in time by polling.
const SOON: Duration = Duration::from_secs(6);

impl Commit {
    /// Where it leaves the process, for the crash walk.
    pub(crate) fn point(&self) -> Point {
        if self.products.deploy || self.products.certificate.is_some() {
            Point::STORE_DEPLOY
        } else {
            Point::STORE_TRANSITION
        }
    }

    /// Does the open order end here? Also where the step leaves `AcmeOrdering` without the CA having made one: nothing is
    /// there to come back to, and it would keep its place among the orders in flight.
    pub(crate) fn order_ends(&self, before: &Claimed) -> bool {
        let left = before.domain.state == State::AcmeOrdering
            && self.transition.state != State::AcmeOrdering
            && self.products.order_url.is_none();
        self.transition.order_ends || left
    }

    /// Is there anything to write about an order?
    pub(crate) fn touches_order(&self, before: &Claimed) -> bool {
        let products = &self.products;
        let produced = products.order_url.is_some()
            || products.challenge.is_some()
            || products.key_and_csr.is_some()
            || products.order_trouble.is_some();
        produced || (before.domain.order_open && self.order_ends(before))
    }

    /// Whoever joins the queue for orders lets go: nothing can be done before `admit`.
    pub(crate) fn keeps_claim(&self, before: &Claimed) -> bool {
        let open = before.domain.order_open && !self.order_ends(before);
        self.keep_claim && (self.transition.queued_at.is_none() || open)
    }

    /// May a worker have something to do because of it, sooner than it would look by itself: due now or soon, a place in the
    /// queue, room at the CA?
    pub(crate) fn makes_work(
        &self,
        before: &Claimed,
        after: &Claimed,
        due_at: Option<Timestamp>,
    ) -> bool {
        let domain = &after.domain;
        let soon = domain.updated_at.plus(SOON);
        let due = !self.keeps_claim(before) && due_at.is_some_and(|at| at <= soon);
        let queued = domain.queued_at.is_some() && !domain.order_open;
        let parked = domain.order_open && domain.state.is_phase_failure();
        due || queued || parked || (before.domain.order_open && self.order_ends(before))
    }
}
