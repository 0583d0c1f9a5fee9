//! As much of JSON Schema as the document uses, to hold answers against it.

use http::header;
use serde_json::{Map, Value, json};

use crate::kit::Answer;

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
