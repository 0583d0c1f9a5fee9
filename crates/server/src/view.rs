//! What the nouns look like as JSON. These shapes are promises; nothing here decides or asks anything.

mod certificate;
mod claim;
mod domain;
mod edge;
mod event;
mod explanation;
mod health;
mod note;
mod record;
mod token;

pub(crate) use certificate::CertificateView;
pub(crate) use claim::ClaimView;
pub(crate) use domain::{DomainView, Serving};
pub(crate) use edge::EdgeView;
pub(crate) use event::{EventView, HistoryView};
pub(crate) use explanation::ExplanationView;
pub(crate) use health::{HealthResult, HealthStatus, HealthView};
pub(crate) use note::NoteView;
pub(crate) use record::{RecordView, alternatives, sentence};
pub(crate) use token::{FreshToken, TokenView};
