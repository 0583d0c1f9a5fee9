//! What is remembered, behind one small trait per noun.
//!
//! PostgreSQL and SQLite implement the same traits and pass the same conformance suite. Secrets are sealed
//! here: callers hand over and receive plain [`Secret`] values, and nothing unsealed reaches a row. "Once" everywhere
//! rests on unique rows and compare-and-swap, never on a lock alone. Time is the store's own clock.

mod account;
mod alert;
mod backup;
mod bell;
mod budget;
mod ca;
mod ca_failure;
mod ca_wait;
mod certificate;
mod challenge;
mod claim;
mod complaint;
mod conflict;
mod desk;
mod difference;
mod domain;
mod edge;
mod error;
mod event;
mod event_lag;
mod fence;
mod hindrance;
mod key;
mod keyring;
mod lane;
mod low_water;
mod maintenance;
mod migration;
mod moment;
mod open;
mod opening;
mod order;
mod outage;
mod page;
#[cfg(test)]
mod plans;
mod pool;
mod postgres;
mod query;
mod replica;
mod retention;
mod rights;
mod rotation;
mod row;
mod seal;
mod secret;
mod shortage;
mod sqlite;
mod stranger;
mod task;
mod token;
mod vital;
mod wake;
mod webhook;
mod work;

#[cfg(test)]
extern crate self as holdfast_store;

use std::sync::Arc;

pub use account::{Account, AccountId, Accounts, NewAccount, OrderLimits, Terms};
pub use alert::{Alerts, DOMAIN_EXPIRING, Ending, LateIssue, LateIssues, StandingAlert};
pub use backup::{BackupError, Replacement, back_up, check_file};
pub use ca::{CaAccount, CaAccounts, Halt, OtherAccount, QueueCounts};
pub use ca_failure::CaFailures;
pub use ca_wait::{CaWait, CaWaits};
pub use certificate::{Bundle, CertificateId, Certificates, NewCertificate};
pub use challenge::{ChallengeAnswer, ChallengeKind, Challenges, NewChallenge, OpenChallenge};
pub use claim::{Claim, ClaimRequest, Claims, Holder};
pub use complaint::{PROXY_DOWN, UNUSABLE};
pub use desk::{ChallengeDesk, is_token};
pub use difference::{Difference, Differences, NAMED, Names};
pub use domain::{Added, DomainFilter, DomainPatch, Domains, Import, NewDomain, QueueStanding};
pub use edge::{
    Change, Changes, DeploymentStatus, Desired, Edge, EdgeAgent, EdgeId, EdgeIdentity, EdgeReport,
    Edges, NewEdge, Observation, Refusal, RemovedEdge, ReportOrder, Revision, Seen,
};
pub use error::{Error, Result};
pub use event::{Actor, Event, EventBody, EventCursor, Events};
pub use event_lag::{EventLag, OpenTransaction, TransactionOwner};
pub use fence::{Fence, LeaseHome};
pub use hindrance::Hindrance;
pub use key::{Keys, MasterKey, proof_answer};
pub use lane::{Lane, Room};
pub use low_water::LowWater;
pub use maintenance::{FOLDED, HIGHEST_EPOCH, Maintenance, Restored, SweepCursor, Swept};
pub use moment::{CLAIM_LEFT, Moments, Search};
pub use open::{OpenOptions, check_url, master_key_id, migrate, missing_rights, open, sessions};
pub use opening::{tell_waits, waits_for};
pub use order::{Order, OrderId, OrderTrouble, Orders};
pub use outage::Outage;
pub use page::{Page, Paged};
pub use replica::{Beat, NewReplica, Replica, Replicas};
pub use retention::{Outdated, Progress, Retention};
pub use rights::MissingRights;
pub use rotation::{ResealCursor, Resealed, Resealing, Rotation, SealedValue};
pub use secret::Secret;
pub use sqlite::{Misplacement, check_place, resolve};
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
    + CaWaits
    + CaAccounts
    + CaFailures
    + Certificates
    + Challenges
    + Claims
    + Differences
    + Domains
    + Edges
    + Events
    + Keys
    + Maintenance
    + Moments
    + Orders
    + Replicas
    + Retention
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
        + CaWaits
        + CaAccounts
        + CaFailures
        + Certificates
        + Challenges
        + Claims
        + Differences
        + Domains
        + Edges
        + Events
        + Keys
        + Maintenance
        + Moments
        + Orders
        + Replicas
        + Retention
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
