//! What can go wrong with remembering, named after the decision it forces.

use holdfast_lease::session::{Fault, Unreachable};
use holdfast_model::{DomainId, Hostname, State, Timestamp};

use crate::{Hindrance, Holder, Misplacement, MissingRights, Outage};

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why the store did not do it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another live claim has the name.
    #[error("the name is already in use by `{}` since {}", .0.resource, .0.since)]
    NameInUse(Holder),
    /// Another live claim has the resource.
    #[error("the resource `{}` is already in use since {}", .0.resource, .0.since)]
    ResourceInUse(Holder),
    /// The same orchestration id came with other fields.
    #[error(
        "orchestration id `{orchestration_id}` was used before with another {field}; use a new id for another request"
    )]
    OrchestrationMismatch {
        /// The id that came twice.
        orchestration_id: String,
        /// The first field that differs.
        field: &'static str,
    },
    /// A replay of a request whose domain was removed since.
    #[error(
        "`{name}` was added with this orchestration id and removed at {removed_at}; use a new id to add it again"
    )]
    Removed {
        /// The domain's id.
        domain: DomainId,
        /// The name that was added.
        name: Hostname,
        /// When it was removed.
        removed_at: Timestamp,
    },
    /// Whoever held it vanished while we looked: asking again is right.
    #[error("the holder vanished while the conflict was looked up; try again")]
    HolderVanished,
    /// A claim that a domain still lives on cannot be given back.
    #[error("resource `{resource}` is in use by domain {domain}; remove the domain first")]
    ClaimInUse {
        /// The claimed resource.
        resource: String,
        /// The domain that lives on it.
        domain: String,
    },
    /// The worker's claim is over: another one works on it, or its time ran out.
    #[error("the claim on this domain was lost; its work is another's now")]
    ClaimLost,
    /// Singleton work whose lease is another's now, or nobody's.
    #[error(
        "term {term} of the lease {lease:?} is over; what was about to be written is another's work now"
    )]
    Fenced {
        /// The lease.
        lease: String,
        /// The term that is over.
        term: i64,
    },
    /// A replica gave a sign of life while the database was being reckoned with as restored.
    #[error(
        "the replica `{0}` runs and writes to this database; stop all servers and run `holdfast restored` again"
    )]
    ReplicaRuns(String),
    /// If-Match did not match.
    #[error("the domain changed meanwhile: version {seen}, not {expected}; read it again")]
    VersionMismatch {
        /// What the caller had.
        expected: i64,
        /// What is stored.
        seen: i64,
    },
    /// The domain is on its way to another certificate.
    #[error(
        "the domain is in {0}, on its way to another certificate; wait until it is Active, or see `explain`"
    )]
    NotNow(State),
    /// No earlier certificate of the domain could be served.
    #[error("no earlier certificate of this domain is still valid; ask for a new one with `renew`")]
    NothingToRollBackTo,
    /// No such thing.
    #[error("no such {0}")]
    NotFound(&'static str),
    /// A page's cursor that this store did not make.
    #[error("`{0}` is not a cursor of this list; use `next_cursor` of the page before")]
    BadCursor(String),
    /// An edge asks for changes after a revision that is no longer kept, or of another epoch.
    #[error("revision {epoch}.{number} is not kept any more; list anew")]
    RevisionGone {
        /// The epoch asked for.
        epoch: i64,
        /// The number asked for.
        number: i64,
    },
    /// The database was sealed under another master key.
    #[error(
        "the database was sealed under master key {expected}, this one is {given}; give the right key in [security] master_key_file or master_key"
    )]
    WrongMasterKey {
        /// The id of the key the database knows.
        expected: String,
        /// The id of the key given.
        given: String,
    },
    /// The database holds sealed values and no key was given.
    #[error(
        "the database holds values sealed under master key {0} and none was given; restore the key file named in [security] master_key_file"
    )]
    MasterKeyMissing(String),
    /// Something must be sealed and no key was given.
    #[error(
        "no master key was given, and without one nothing can be sealed; name one in [security] master_key_file or master_key"
    )]
    NoMasterKey,
    /// The system has no randomness to give.
    #[error("the system gave no random bytes")]
    NoRandomness,
    /// A master key that is none.
    #[error("a master key is 32 bytes in base64: {0}")]
    BadMasterKey(&'static str),
    /// A sealed value did not open: it was altered, moved to another row, or its key is gone.
    #[error("a sealed {0} does not open: it was altered, or moved from another row")]
    Unsealable(&'static str),
    /// The data key that seals does not open under the right master key.
    #[error(
        "data key {0}, in table sealing_key, was altered and does not open; restore the database from a backup"
    )]
    DamagedKey(i64),
    /// What is stored is not what was written.
    #[error("the stored {0} was altered")]
    Altered(&'static str),
    /// A second process on the same SQLite file.
    #[error(
        "{path} is in use by {holder}; SQLite serves one process: stop that one, or use PostgreSQL"
    )]
    FileInUse {
        /// The database file.
        path: String,
        /// What the first process wrote of itself.
        holder: String,
    },
    /// A database file whose log another opener would not find.
    #[error("{path} {}", .why.predicate())]
    Misplaced {
        /// The database file.
        path: String,
        /// What is wrong with its place.
        why: Misplacement,
    },
    /// A URL that names no database we know.
    #[error("`{0}` names no database; use postgres://USER@HOST/NAME or sqlite:FILE")]
    BadUrl(String),
    /// A PostgreSQL URL that cannot be used.
    #[error("{0}")]
    BadPostgresUrl(String),
    /// The schema could not be brought up to date.
    #[error("the schema could not be migrated to version {version}")]
    Migration {
        /// The migration that failed.
        version: i64,
        /// What the database said.
        #[source]
        source: sqlx::Error,
    },
    /// The role may not change the schema.
    #[error("the schema could not be migrated: {0}. {fix}", fix = .0.fix().trim_end_matches('.'))]
    NoRights(Box<MissingRights>),
    /// A row that this release cannot read.
    #[error("a stored {what} cannot be read: `{value}`")]
    Corrupt {
        /// What was read.
        what: &'static str,
        /// What stood there.
        value: String,
    },
    /// The database did not answer, or refused.
    #[error("the database failed at {at}")]
    Database {
        /// Which call.
        at: &'static str,
        /// What it said.
        #[source]
        source: sqlx::Error,
    },
    /// A statement waited for something until its time was over. Of a commit it is not known whether it counts.
    #[error("the database failed at {at}: {by}")]
    Hindered {
        /// Which call.
        at: &'static str,
        /// What for.
        by: Hindrance,
        /// How it ended, where the database said so.
        #[source]
        source: Option<sqlx::Error>,
    },
    /// The database cannot be used, and we know why.
    #[error("{outage} (at {at})")]
    Unusable {
        /// Which call.
        at: &'static str,
        /// Why.
        outage: Outage,
    },
    /// No host of the database gave a session that takes writes.
    #[error("no session with the database to {at}")]
    NoSession {
        /// Which call.
        at: &'static str,
        /// Each host, and why not.
        #[source]
        source: Unreachable,
    },
    /// The database is behind a pooler that gives each transaction to another server process.
    #[error("the database cannot be used through this pooler")]
    SharedSession(#[source] Unreachable),
    /// The server answers, and takes no writes any more.
    #[error("the database takes no writes")]
    TakesNoWrites(#[source] Fault),
    /// A file beside the database could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// Which file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The look at all open challenges that this one was to be answered from failed.
    #[error("the open challenges could not be looked up; try again")]
    RoundFailed,
    /// The account may not order before this.
    #[error("the CA account is paused until {0}")]
    Paused(Timestamp),
}

impl Error {
    /// Was what is stored altered or lost? It is so however often it is asked for.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        matches!(self, Self::Unsealable(_) | Self::Altered(_))
    }

    /// Would the same call, later, perhaps succeed?
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Database { .. }
            | Self::Hindered { .. }
            | Self::Unusable { .. }
            | Self::NoSession { .. }
            | Self::TakesNoWrites(_) => self.outage().is_none_or(Outage::is_transient),
            Self::HolderVanished | Self::RoundFailed => true,
            _ => false,
        }
    }
}
