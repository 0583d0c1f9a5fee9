//! The OpenAPI document: collected from the routes themselves, so that the two cannot part.

use std::collections::BTreeSet;

use holdfast_model::{State, Who};
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{AdditionalProperties, Object, ObjectBuilder, Schema, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, ContentBuilder, Info, InfoBuilder, OpenApi, OpenApiBuilder, PathItem, Ref,
    RefOr, Required, ResponseBuilder, SecurityRequirement,
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

/// Says once what is true of every route.
pub(crate) fn complete(document: &mut OpenApi) {
    add_problems(document);
    close_requests(document);
}

/// A body with a field that is not listed is refused, and so is none at all: the schemas say so too.
fn close_requests(document: &mut OpenApi) {
    let operations = document.paths.paths.values_mut().flat_map(operations);
    let mut open = Vec::new();
    for body in operations.filter_map(|operation| operation.request_body.as_mut()) {
        let RefOr::T(body) = body else { continue };
        body.required = Some(Required::True);
        for content in body.content.values() {
            let RefOr::T(content) = content else { continue };
            open.extend(content.schema.iter().flat_map(names));
        }
    }
    let Some(components) = &mut document.components else { return };
    let mut closed = BTreeSet::new();
    while let Some(name) = open.pop() {
        if let Some(schema) = components.schemas.get_mut(&name)
            && closed.insert(name)
        {
            open.extend(names(schema));
            close(schema);
        }
    }
}

/// The schemas that this one refers to.
fn names(schema: &RefOr<Schema>) -> Vec<String> {
    let value = serde_json::to_value(schema).unwrap_or_default();
    let (mut names, mut rest) = (Vec::new(), vec![&value]);
    while let Some(value) = rest.pop() {
        if let Some(reference) = value.get("$ref").and_then(serde_json::Value::as_str) {
            names.extend(reference.rsplit('/').next().map(ToOwned::to_owned));
        }
        rest.extend(value.as_object().into_iter().flat_map(serde_json::Map::values));
        rest.extend(value.as_array().into_iter().flatten());
    }
    names
}

fn close(schema: &mut RefOr<Schema>) {
    if let RefOr::T(Schema::Object(object)) = schema
        && !object.properties.is_empty()
        && object.additional_properties.is_none()
    {
        object.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
    }
}

/// Every operation under `/v1` can end in a problem, and so can our answers to challenges; said once here instead of at each.
fn add_problems(document: &mut OpenApi) {
    let can_fail = |path: &str| path.starts_with("/v1/") || path.starts_with("/.well-known/");
    let paths = document.paths.paths.iter_mut().filter(|(path, _)| can_fail(path));
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
