//! What other crates' errors are to a client.

use holdfast_model::{HostnameError, UnknownState};
use holdfast_store::{Error, Holder, Outage};
use http::header;
use serde_json::{Value, json};

use super::{Kind, Problem};
use crate::request::Panicked;
use crate::token::NoRandomness;

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let detail = error.to_string();
        match error {
            Error::NameInUse(by) => Self::new(Kind::NameInUse, detail).with("holder", holder(&by)),
            Error::ResourceInUse(by) => {
                Self::new(Kind::ResourceInUse, detail).with("holder", holder(&by))
            }
            Error::OrchestrationMismatch { field, .. } => {
                Self::new(Kind::OrchestrationMismatch, detail).with("field", field)
            }
            Error::Removed { domain, removed_at, .. } => Self::new(Kind::Removed, detail)
                .with("domain_id", domain.to_string())
                .with("removed_at", json!(removed_at)),
            Error::ClaimInUse { domain, .. } => {
                Self::new(Kind::InUse, detail).with("domain_id", domain)
            }
            Error::VersionMismatch { seen, .. } => {
                Self::new(Kind::VersionMismatch, detail).with("version", seen)
            }
            Error::NotFound(_) => Self::new(Kind::NotFound, detail),
            Error::BadCursor(_) => Self::new(Kind::InvalidCursor, detail),
            Error::RevisionGone { .. } => Self::new(Kind::RevisionGone, detail),
            Error::NotNow(_) => Self::new(Kind::NotNow, detail),
            Error::NothingToRollBackTo => Self::new(Kind::NoEarlierCertificate, detail),
            Error::HolderVanished | Error::ClaimLost | Error::RoundFailed => {
                Self::new(Kind::TryAgain, detail).header(header::RETRY_AFTER, "1")
            }
            // Only a guarded write is fenced here: the leadership went elsewhere before its commit.
            Error::Fenced { .. } => crate::guard::stale(),
            Error::Database { .. }
            | Error::Hindered { .. }
            | Error::Unusable { .. }
            | Error::NoSession { .. }
            | Error::SharedSession(_)
            | Error::TakesNoWrites(_) => unavailable(error),
            _ => internal().caused_by(error),
        }
    }
}

fn holder(holder: &Holder) -> Value {
    json!({ "resource": holder.resource, "since": holder.since })
}

fn unavailable(error: Error) -> Problem {
    let problem = match error.outage() {
        Some(outage) => Problem::new(Kind::DatabaseUnavailable, told(&error, outage)),
        None => {
            let detail = "The database refused; try again, and see the replica's log under `instance` if it lasts.";
            Problem::new(Kind::DatabaseUnavailable, detail)
        }
    };
    let cause = error.outage().map(Outage::code);
    let problem = match cause {
        Some(cause) => problem.with("cause", cause),
        None => problem,
    };
    // Asking again does not mend what is damaged.
    let problem = match error.is_transient() {
        true => problem.header(header::RETRY_AFTER, "1"),
        false => problem,
    };
    problem.caused_by(error)
}

fn told(error: &Error, outage: Outage) -> String {
    let whose = match error {
        Error::Hindered { by, .. } if outage == Outage::Locked => format!(" ({by})"),
        _ => String::new(),
    };
    let unknown = match outage {
        Outage::AwaitsStandby => " Whether this request was carried out is not known yet.",
        _ => "",
    };
    format!("{outage}{whose}; {}{unknown}", outage.fix())
}

fn internal() -> Problem {
    let detail = "The request was sound and this server could not do it; its log says why, under `instance`.";
    Problem::new(Kind::Internal, detail)
}

impl From<holdfast_acme::Error> for Problem {
    fn from(error: holdfast_acme::Error) -> Self {
        if matches!(error, holdfast_acme::Error::AccountUsable(_)) {
            return Self::new(Kind::AccountExists, error.to_string());
        }
        let note = error.class().note().clone();
        Self::new(Kind::CaFailed, note.detail).with("cause", note.code.into_owned())
    }
}

impl From<holdfast_cluster::Error> for Problem {
    fn from(error: holdfast_cluster::Error) -> Self {
        use holdfast_cluster::Error;
        let detail = error.to_string();
        match error {
            Error::Store(error) => error.into(),
            Error::UnknownLease(_) => Self::new(Kind::NotFound, detail),
            Error::NotHeld(_) => Self::new(Kind::LeaseNotHeld, detail),
            Error::UnknownReplica(_) => Self::new(Kind::InvalidField, detail).with("field", "to"),
            Error::Lease(_) => {
                let detail = "The lease store did not answer or refused; try again, and see the replica's log under `instance` if it lasts.";
                let problem = Self::new(Kind::LeasesUnavailable, detail);
                problem.header(header::RETRY_AFTER, "1").caused_by(error)
            }
            _ => internal().caused_by(error),
        }
    }
}

impl From<HostnameError> for Problem {
    fn from(error: HostnameError) -> Self {
        let kind = match error {
            HostnameError::Wildcard(_) => Kind::WildcardUnsupported,
            _ => Kind::InvalidName,
        };
        Self::new(kind, error.to_string()).with("field", "name")
    }
}

impl From<UnknownState> for Problem {
    fn from(error: UnknownState) -> Self {
        Self::new(Kind::InvalidParameter, error.to_string()).with("field", "state")
    }
}

impl From<NoRandomness> for Problem {
    fn from(error: NoRandomness) -> Self {
        internal().caused_by(error)
    }
}

impl From<Panicked> for Problem {
    fn from(error: Panicked) -> Self {
        internal().caused_by(error)
    }
}
