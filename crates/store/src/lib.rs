//! What is remembered, behind one small trait per noun.
//!
//! PostgreSQL and SQLite implement the same traits and pass the same conformance suite. Secrets are sealed
//! here: callers hand over and receive plain [`Secret`] values, and nothing unsealed reaches a row. "Once" everywhere
//! rests on unique rows and compare-and-swap, never on a lock alone. Time is the store's own clock.

mod account;
mod alert;
mod bell;
mod budget;
mod certificate;
mod challenge;
mod claim;
mod conflict;
mod desk;
mod domain;
mod edge;
mod error;
mod event;
mod fence;
mod key;
mod keyring;
mod lane;
mod maintenance;
mod migration;
mod open;
mod order;
mod page;
mod pool;
mod postgres;
mod query;
mod replica;
mod row;
mod seal;
mod secret;
mod sqlite;
mod stranger;
mod task;
mod token;
mod vital;
mod wake;
mod webhook;
mod work;

use std::sync::Arc;

pub use account::{Account, AccountId, Accounts, NewAccount, OrderLimits, Terms};
pub use alert::{Alerts, DOMAIN_EXPIRING, Ending, StandingAlert};
pub use certificate::{Bundle, CertificateId, Certificates, NewCertificate};
pub use challenge::{ChallengeAnswer, ChallengeKind, Challenges, NewChallenge, OpenChallenge};
pub use claim::{Claim, ClaimRequest, Claims, Holder};
pub use desk::{ChallengeDesk, is_token};
pub use domain::{Added, DomainFilter, DomainPatch, Domains, Import, NewDomain};
pub use edge::{
    Change, Changes, DeploymentStatus, Desired, Edge, EdgeAgent, EdgeId, EdgeIdentity, EdgeReport,
    Edges, NewEdge, Observation, Refusal, RemovedEdge, ReportOrder, Revision, Seen,
};
pub use error::{Error, Result};
pub use event::{Actor, Event, EventBody, EventCursor, Events};
pub use fence::{Fence, LeaseHome};
pub use key::{Keys, MasterKey, Rotation, proof_answer};
pub use lane::{Lane, Room};
pub use maintenance::{Maintenance, Restored, SweepCursor, Swept};
pub use open::{OpenOptions, master_key_id, migrate, open};
pub use order::{Order, OrderId, Orders};
pub use page::{Page, Paged};
pub use replica::{Beat, NewReplica, Replica, Replicas};
pub use secret::Secret;
pub use stranger::{Adopt, Adopted, Adoption, Asked, Found, Stranger, Strangers};
pub use task::{TaskRun, TaskStatus, Tasks};
pub use token::{NewToken, Scope, Token, TokenId, Tokens};
pub use vital::{COUNTED, Expiring, VitalSigns, Vitals};
pub use wake::{Topic, Wake};
pub use webhook::{
    Attempt, ClaimedDelivery, Delivery, NewDelivery, NewWebhook, Then, Webhook, WebhookId, Webhooks,
};
pub use work::{Admission, Claimant, Claimed, Commit, Products, Work, WorkBatch};

/// Everything a replica remembers.
pub trait Store:
    Accounts
    + Alerts
    + Certificates
    + Challenges
    + Claims
    + Domains
    + Edges
    + Events
    + Keys
    + Maintenance
    + Orders
    + Replicas
    + Strangers
    + Tasks
    + Tokens
    + VitalSigns
    + Wake
    + Webhooks
    + Work
{
}

impl<T> Store for T where
    T: Accounts
        + Alerts
        + Certificates
        + Challenges
        + Claims
        + Domains
        + Edges
        + Events
        + Keys
        + Maintenance
        + Orders
        + Replicas
        + Strangers
        + Tasks
        + Tokens
        + VitalSigns
        + Wake
        + Webhooks
        + Work
{
}

/// A store, shared.
pub type SharedStore = Arc<dyn Store>;
