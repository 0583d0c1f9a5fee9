//! Events: as rows of a history, and as they are streamed.

use holdfast_model::{Note, State, Timestamp};
use holdfast_store::{Event, EventBody};
use serde::Serialize;
use utoipa::ToSchema;

use super::NoteView;
use crate::openapi::StateName;

/// One transition of a domain.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Transition)]
pub(crate) struct HistoryView {
    /// The state left; null when it was added.
    #[schema(value_type = Option<StateName>)]
    from: Option<State>,
    /// The state entered, `from` for a retry in place; null when it was removed.
    #[schema(value_type = Option<StateName>)]
    to: Option<State>,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// How long `from` had lasted.
    duration_ms: u64,
    /// Which try of `from`.
    attempt: u32,
    /// Why.
    error: Option<NoteView>,
    /// The replica that did it.
    instance: String,
    /// `worker`, or the name of the token.
    actor: String,
}

impl HistoryView {
    /// A row of history; none for what is no transition.
    pub(crate) fn of(event: Event) -> Option<Self> {
        let EventBody::Transition { from, to, duration_ms, attempt, error, .. } = event.body else {
            return None;
        };
        Some(Self {
            from,
            to,
            at: event.at,
            duration_ms,
            attempt,
            error: error.map(NoteView::from),
            instance: event.actor.instance,
            actor: event.actor.name,
        })
    }
}

/// The data of one event in the stream; its name in the stream is `transition` or `notice`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = Event)]
pub(crate) enum EventView {
    /// A domain moved.
    Transition {
        /// The domain.
        #[schema(value_type = String, format = Uuid)]
        domain_id: String,
        /// Its name.
        name: String,
        /// The state left; null when it was added.
        #[schema(value_type = Option<StateName>)]
        from: Option<State>,
        /// The state entered; null when it was removed.
        #[schema(value_type = Option<StateName>)]
        to: Option<State>,
        /// When.
        #[schema(value_type = String, format = DateTime)]
        at: Timestamp,
        /// How long `from` had lasted.
        duration_ms: u64,
        /// Which try of `from`.
        attempt: u32,
        /// Why.
        error: Option<NoteView>,
        /// The replica that did it.
        instance: String,
        /// `worker`, or the name of the token.
        actor: String,
    },
    /// Anything else: leadership, edges, keys, tokens.
    Notice {
        /// Stable, for example `edge-registered`.
        kind: String,
        /// About what.
        subject: String,
        /// In words.
        detail: String,
        /// When.
        #[schema(value_type = String, format = DateTime)]
        at: Timestamp,
        /// The replica that did it.
        instance: String,
        /// `worker`, or the name of the token.
        actor: String,
    },
}

impl EventView {
    /// Its name in the stream.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Transition { .. } => "transition",
            Self::Notice { .. } => "notice",
        }
    }
}

impl From<Event> for EventView {
    fn from(event: Event) -> Self {
        let (at, instance, actor) = (event.at, event.actor.instance, event.actor.name);
        match event.body {
            EventBody::Transition { domain, name, from, to, duration_ms, attempt, error } => {
                let (domain_id, name) = (domain.to_string(), name.to_string());
                let error = error.map(|note: Note| note.into());
                Self::Transition {
                    domain_id,
                    name,
                    from,
                    to,
                    at,
                    duration_ms,
                    attempt,
                    error,
                    instance,
                    actor,
                }
            }
            EventBody::Notice { kind, subject, detail } => {
                Self::Notice { kind, subject, detail, at, instance, actor }
            }
        }
    }
}
