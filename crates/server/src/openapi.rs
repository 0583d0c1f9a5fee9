//! The OpenAPI document: collected from the routes themselves, so that the two cannot part.

use holdfast_model::{State, Who};
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{Object, ObjectBuilder, Schema, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, ContentBuilder, Info, InfoBuilder, OpenApi, OpenApiBuilder, PathItem, Ref,
    RefOr, ResponseBuilder, SecurityRequirement,
};
use utoipa::{PartialSchema, ToSchema};

use crate::problem::ProblemDocument;

/// The document of this release.
#[must_use]
pub fn document() -> OpenApi {
    crate::routes::documented().1
}

/// What the routes are collected into.
pub(crate) fn base() -> OpenApi {
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    let problem =
        ContentBuilder::new().schema(Some(Ref::from_schema_name(ProblemDocument::name())));
    let refused = ResponseBuilder::new()
        .description("A problem")
        .content("application/problem+json", problem.build());
    let components = ComponentsBuilder::new()
        .schema(ProblemDocument::name(), ProblemDocument::schema())
        .response("Problem", refused.build())
        .security_scheme("token", SecurityScheme::Http(bearer));
    let every: [&str; 0] = [];
    OpenApiBuilder::new()
        .info(info())
        .components(Some(components.build()))
        .security(Some([SecurityRequirement::new("token", every)]))
        .build()
}

fn info() -> Info {
    InfoBuilder::new()
        .title("Holdfast")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Custom domains and their TLS certificates. Every error under /v1 is `application/problem+json` with a stable `code`; a body with an unknown field is refused.",
        ))
        .build()
}

/// Every operation under `/v1` can end in a problem; said once here instead of at each.
pub(crate) fn add_problems(document: &mut OpenApi) {
    let paths = document.paths.paths.iter_mut().filter(|(path, _)| path.starts_with("/v1/"));
    for operation in paths.flat_map(|(_, item)| operations(item)) {
        let problem = RefOr::Ref(Ref::from_response_name("Problem"));
        operation.responses.responses.insert("default".to_owned(), problem);
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let PathItem { get, put, post, delete, patch, .. } = item;
    [get, put, post, delete, patch].into_iter().flatten()
}

macro_rules! names {
    ($($doc:literal $name:ident $shown:literal: $all:expr;)*) => {$(
        #[doc = $doc]
        pub(crate) struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let values: Vec<&'static str> = $all;
                closed(values).into()
            }
        }

        impl ToSchema for $name {
            fn name() -> std::borrow::Cow<'static, str> {
                $shown.into()
            }
        }
    )*};
}

names! {
    "The schema of a state: the closed list." StateName "State":
        State::ALL.iter().map(|state| state.as_str()).collect();
    "The schema of who must act: the closed list." WhoName "Who":
        [Who::Customer, Who::Operator, Who::Holdfast, Who::Ca, Who::Nobody].map(who).to_vec();
}

fn closed(values: Vec<&'static str>) -> Object {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(values)).build()
}

/// As serde writes it; a test compares the document with what is sent.
const fn who(who: Who) -> &'static str {
    match who {
        Who::Customer => "customer",
        Who::Operator => "operator",
        Who::Holdfast => "holdfast",
        Who::Ca => "ca",
        Who::Nobody => "nobody",
    }
}
