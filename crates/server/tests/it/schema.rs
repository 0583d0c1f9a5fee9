//! As much of JSON Schema as the document uses, to hold answers against it.

use std::sync::LazyLock;

use http::{Method, header};
use serde_json::{Map, Value, json};

use crate::kit::Answer;

/// Holds an answer against the document of this release, where the path is documented and the answer is JSON.
#[track_caller]
pub(crate) fn hold_against(method: &Method, path: &str, answer: &Answer) {
    static SCHEMAS: LazyLock<Schemas> =
        LazyLock::new(|| Schemas::of(serde_json::to_value(holdfast_server::document()).unwrap()));
    let is_json = |kind: &str| kind == "application/json" || kind == "application/problem+json";
    let kind = answer.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let method = method.as_str().to_lowercase();
    if let Some(template) = SCHEMAS.template(&method, path)
        && kind.is_some_and(is_json)
    {
        SCHEMAS.check(&method, &template, answer);
    }
}

/// A document and its schemas.
pub(crate) struct Schemas(Value);

impl Schemas {
    pub(crate) fn of(document: Value) -> Self {
        Self(document)
    }

    /// Is the answer one of those documented for the operation?
    #[track_caller]
    pub(crate) fn check(&self, method: &str, path: &str, answer: &Answer) {
        let responses = &self.0["paths"][path][method]["responses"];
        let status = answer.status.as_u16().to_string();
        let response = self.resolved(responses.get(&status).unwrap_or(&responses["default"]));
        let content_type = answer.headers[header::CONTENT_TYPE].to_str().unwrap();
        let schema = &response["content"][content_type]["schema"];
        assert!(!schema.is_null(), "{method} {path}: {status} {content_type} is not documented");
        let body = answer.json();
        if let Err(reason) = self.fits(schema, &body, "$") {
            panic!("{method} {path} {status}: {reason}\n{body}");
        }
    }

    /// The documented path that this one is an instance of; one without parameters comes first.
    fn template(&self, method: &str, path: &str) -> Option<String> {
        let fits = |template: &str| {
            let (template, path) = (template.split('/'), path.split('/'));
            template.clone().count() == path.clone().count()
                && template.zip(path).all(|(part, given)| part == given || part.starts_with('{'))
        };
        let paths = self.0["paths"].as_object()?.iter();
        let mut fitting: Vec<&String> = paths
            .filter(|(template, item)| item.get(method).is_some() && fits(template))
            .map(|(template, _)| template)
            .collect();
        fitting.sort_by_key(|template| template.matches('{').count());
        fitting.first().map(|template| (*template).clone())
    }

    /// The schema of an operation's body.
    pub(crate) fn request(&self, method: &str, path: &str) -> Option<&Value> {
        let body = self.0["paths"][path][method].get("requestBody")?;
        Some(&body["content"]["application/json"]["schema"])
    }

    /// Would the document have this body be taken?
    pub(crate) fn takes(&self, method: &str, path: &str, body: &Value) -> Result<(), String> {
        self.fits(self.request(method, path).expect("it has a body"), body, "$")
    }

    /// Every operation with a body, as method and path.
    pub(crate) fn with_bodies(&self) -> Vec<(String, String)> {
        let paths = self.0["paths"].as_object().unwrap().iter();
        paths
            .flat_map(|(path, item)| {
                let methods = item.as_object().unwrap().iter();
                let with_body =
                    methods.filter(|(_, operation)| operation.get("requestBody").is_some());
                with_body.map(|(method, _)| (method.clone(), path.clone())).collect::<Vec<_>>()
            })
            .collect()
    }

    fn resolved<'a>(&'a self, schema: &'a Value) -> &'a Value {
        match schema["$ref"].as_str() {
            Some(reference) => self
                .0
                .pointer(reference.trim_start_matches('#'))
                .expect("the reference leads somewhere"),
            None => schema,
        }
    }

    fn fits(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        let schema = self.resolved(schema);
        if let Some(ways) = schema["oneOf"].as_array() {
            let fitting = ways.iter().filter(|way| self.fits(way, value, at).is_ok()).count();
            return if fitting == 1 {
                Ok(())
            } else {
                Err(format!("{at}: {fitting} of the alternatives fit"))
            };
        }
        if let Some(parts) = schema["allOf"].as_array() {
            return self.fits(&self.merged(parts), value, at);
        }
        self.fits_type(schema, value, at)?;
        if let Some(allowed) = schema["enum"].as_array()
            && !allowed.contains(value)
        {
            return Err(format!("{at}: {value} is none of the values"));
        }
        self.fits_members(schema, value, at)?;
        let items = value.as_array().into_iter().flatten().enumerate();
        items
            .filter(|_| !schema["items"].is_null())
            .try_for_each(|(n, item)| self.fits(&schema["items"], item, &format!("{at}[{n}]")))
    }

    /// One object that has the members of all parts.
    fn merged(&self, parts: &[Value]) -> Value {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for part in parts.iter().map(|part| self.resolved(part)) {
            properties.extend(part["properties"].as_object().cloned().unwrap_or_default());
            required.extend(part["required"].as_array().cloned().unwrap_or_default());
        }
        json!({"type": "object", "properties": properties, "required": required})
    }

    fn fits_type(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        let allowed: Vec<&str> = match &schema["type"] {
            Value::String(one) => vec![one],
            Value::Array(many) => many.iter().filter_map(Value::as_str).collect(),
            _ => return Ok(()),
        };
        let is = |name: &str| match name {
            "null" => value.is_null(),
            "string" => value.is_string(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            _ => false,
        };
        if allowed.iter().any(|name| is(name)) {
            Ok(())
        } else {
            Err(format!("{at}: {value} is not {allowed:?}"))
        }
    }

    fn fits_members(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        let Some(members) = value.as_object() else { return Ok(()) };
        for required in
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str)
        {
            if !members.contains_key(required) {
                return Err(format!("{at}: `{required}` is missing"));
            }
        }
        let properties = schema["properties"].as_object();
        for (name, member) in members {
            let at = format!("{at}.{name}");
            match (properties.and_then(|known| known.get(name)), &schema["additionalProperties"]) {
                (Some(known), _) => self.fits(known, member, &at)?,
                (None, others @ Value::Object(_)) => self.fits(others, member, &at)?,
                (None, _) if properties.is_some() => return Err(format!("{at} is not documented")),
                (None, _) => {}
            }
        }
        Ok(())
    }
}
