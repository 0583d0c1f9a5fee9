//! Holdfast over HTTP: the API under `/v1`, challenge answers, health, metrics and the OpenAPI document.
//!
//! A request is parsed once at the edge into the types of `model` and `store`, one store call does the
//! work, and the answer is a view of what came back. Nothing here moves a domain: requests of people are
//! noted in the store and the engine acts on them.

mod alert;
mod audit;
mod auth;
mod body;
mod database;
mod edge;
mod facts;
mod field;
mod guard;
mod import;
mod intake;
mod look;
mod metrics;
mod openapi;
mod page;
mod path;
mod problem;
mod proof;
mod pull;
mod query;
mod request;
mod routes;
mod serve;
mod serving;
mod starting;
mod state;
mod stream;
pub mod token;
mod view;
mod vital;
mod webhook;

pub use edge::UNASKED_LOOK;
pub use guard::{Guard, Leadership, Writes};
pub use look::Look;
pub use metrics::Metrics;
pub use openapi::document;
pub use problem::{Kind, Problem};
pub use pull::pull_router;
pub use routes::router;
pub use serve::{Door, serve};
pub use starting::starting_router;
pub use state::{AppState, Settings};
pub use webhook::{Courier, CourierConfig};
