//! The routes, one file per noun. A route is registered with its documentation or not at all.

mod account;
mod alert;
mod batch;
pub(crate) mod bundle;
mod ca;
mod challenge;
mod claim;
mod document;
mod domain;
mod edge;
mod event;
mod explain;
mod health;
mod history;
mod key;
mod lease;
mod metric;
mod proof;
mod removal;
mod renewal;
mod replica;
mod retry;
mod rollback;
mod token;
mod webhook;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use http::{Method, Uri};
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::{AppState, Kind, Problem, auth, field, guard, openapi, request};

/// Everything this replica answers.
pub fn router(state: AppState) -> Router {
    let (doors, _) = documented();
    let authenticated = from_fn_with_state(state.clone(), auth::authenticate);
    let guarded = from_fn_with_state(state.clone(), guard::guard);
    // Whoever is not let in is not passed on either.
    let v1 = doors.v1.method_not_allowed_fallback(wrong_method).layer(guarded).layer(authenticated);
    let open = doors.open.method_not_allowed_fallback(wrong_method);
    v1.merge(open)
        .fallback(unknown_path)
        .layer(from_fn(request::no_store))
        .layer(from_fn(request::run))
        .with_state(state)
}

/// The routes by who may come in.
pub(crate) struct Doors {
    v1: Router<AppState>,
    open: Router<AppState>,
}

/// The routes and their document, from one source.
pub(crate) fn documented() -> (Doors, OpenApi) {
    let (v1, mut document) = v1().split_for_parts();
    let (open, others) = open().split_for_parts();
    document.merge(others);
    openapi::complete(&mut document);
    (Doors { v1, open }, document)
}

fn v1() -> OpenApiRouter<AppState> {
    OpenApiRouter::with_openapi(openapi::base())
        .routes(routes!(domain::list, domain::add))
        .routes(routes!(batch::add))
        .routes(routes!(renewal::move_all))
        .routes(routes!(domain::show, domain::patch, removal::remove))
        .routes(routes!(history::list))
        .routes(routes!(explain::show))
        .routes(routes!(bundle::show))
        .routes(routes!(retry::ask))
        .routes(routes!(renewal::ask))
        .routes(routes!(rollback::ask))
        .routes(routes!(claim::show, claim::put, claim::release))
        .routes(routes!(edge::list))
        .routes(routes!(edge::show, edge::register, edge::removal::remove))
        .routes(routes!(edge::stranger::list))
        .routes(routes!(edge::stranger::refusals))
        .routes(routes!(edge::adoption::ask))
        .routes(routes!(edge::changes::poll))
        .routes(routes!(edge::desired::list))
        .routes(routes!(edge::bundle::show))
        .routes(routes!(edge::report::take))
        .routes(routes!(edge::difference::take))
        .routes(routes!(ca::list))
        .routes(routes!(ca::show))
        .routes(routes!(ca::pause))
        .routes(routes!(ca::resume))
        .routes(routes!(lease::list))
        .routes(routes!(lease::history))
        .routes(routes!(lease::release))
        .routes(routes!(lease::step_down))
        .routes(routes!(replica::list))
        .routes(routes!(replica::tasks))
        .routes(routes!(account::import))
        .routes(routes!(alert::list))
        .routes(routes!(event::stream))
        .routes(routes!(token::list, token::create))
        .routes(routes!(token::revoke))
        .routes(routes!(webhook::list, webhook::create))
        .routes(routes!(webhook::remove))
        .routes(routes!(webhook::test))
        .routes(routes!(webhook::deliveries))
        .routes(routes!(key::rotate))
        .routes(routes!(key::rotate_account))
        .routes(routes!(key::register_account))
}

fn open() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(document::show))
        .routes(routes!(challenge::answer))
        .routes(routes!(proof::answer))
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
        .routes(routes!(health::startup))
        .routes(routes!(health::show))
        .routes(routes!(metric::show))
}

async fn unknown_path(uri: Uri) -> Problem {
    let path = field::shown(uri.path());
    let detail = format!("There is nothing at `{path}`; /v1/openapi.json lists what there is.");
    Problem::new(Kind::NotFound, detail)
}

async fn wrong_method(method: Method, uri: Uri) -> Problem {
    let (method, path) = (field::shown(method.as_str()), field::shown(uri.path()));
    let detail = format!("`{path}` does not take {method}; the Allow header lists what it takes.");
    Problem::new(Kind::MethodNotAllowed, detail)
}
