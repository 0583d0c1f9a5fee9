//! What the nouns look like as JSON. These shapes are promises; nothing here decides or asks anything.

mod ca;
mod certificate;
mod claim;
mod domain;
mod edge;
mod event;
mod explanation;
mod health;
mod lease;
mod note;
mod record;
mod replica;
mod token;
mod webhook;

pub(crate) use ca::{CaExtras, CaView, host as ca_host};
pub(crate) use certificate::CertificateView;
pub(crate) use claim::ClaimView;
pub(crate) use domain::{DomainView, Serving};
pub(crate) use edge::{
    AdoptionView, BundleView, ChangeView, ChangesView, DesiredPage, EdgeDetail, EdgeView,
    RefusalView, RegisteredEdge, RemovedEdgeView, StrangerView,
};
pub(crate) use event::{EventView, HistoryView};
pub(crate) use explanation::ExplanationView;
pub(crate) use health::{HealthResult, HealthStatus, HealthView};
pub(crate) use lease::{LeaseEntryView, LeaseView, ReleasedView};
pub(crate) use note::NoteView;
pub(crate) use record::{RecordView, alternatives, sentence};
pub(crate) use replica::{ReplicaView, TaskView};
pub(crate) use token::{FreshToken, TokenView};
pub(crate) use webhook::{DeliveryView, FreshWebhook, WebhookView};
