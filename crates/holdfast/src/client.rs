//! The API from a client's side: one request, one answer, every refusal a sentence.

mod found;

use std::path::PathBuf;

use bytes::Bytes;
use holdfast_gateway::client::{Client, ClientConfig};
use holdfast_model::Hostname;
use http::{Method, Request, Response, StatusCode, header};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) use self::found::Found;
use crate::{
    config::{SecretText, WebUrl},
    failure::{Failure, chain},
    output::Format,
};

/// How a client finds its server.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ClientArgs {
    /// The server's URL; without it, the `holdfast up` of the data directory
    #[arg(
        long,
        global = true,
        env = "HOLDFAST_SERVER",
        value_name = "URL",
        help_heading = "Server"
    )]
    pub(crate) server: Option<String>,
    /// An API token; without it, the admin token of the data directory
    #[arg(
        long,
        global = true,
        env = "HOLDFAST_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN",
        help_heading = "Server"
    )]
    token: Option<String>,
    /// A PEM file of roots for the server's TLS, beside the system's
    #[arg(
        long,
        global = true,
        env = "HOLDFAST_ROOT_CERTIFICATE",
        value_name = "FILE",
        help_heading = "Server"
    )]
    root_certificate: Option<PathBuf>,
    /// The data directory of `holdfast up`
    #[arg(
        long,
        global = true,
        env = "HOLDFAST_DATA",
        value_name = "DIR",
        default_value = "holdfast-data",
        help_heading = "Server"
    )]
    pub(crate) data: PathBuf,
    /// How results are written
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value_t = Format::Table, help_heading = "Server")]
    pub(crate) output: Format,
}

/// A server's API.
pub(crate) struct Api {
    client: Client,
    base: WebUrl,
    token: Option<SecretText>,
}

impl Api {
    /// Finds the server. Nothing is sent yet.
    pub(crate) fn find(args: &ClientArgs) -> Result<Self, Failure> {
        let found = Found::read(&args.data)?;
        let base = match (&args.server, found.as_ref().and_then(|found| found.api.as_deref())) {
            (Some(server), _) => web_url("--server", server)?,
            (None, Some(api)) => web_url("up.json", api)?,
            (None, None) => return Err(not_found(args)),
        };
        let own = found.as_ref().is_some_and(|found| found.api.as_deref() == Some(base.as_str()));
        let token = match &args.token {
            Some(token) => SecretText::new(token.trim().to_owned()),
            None if own => found::admin_token(&args.data)?,
            None => {
                let why = "No token: give one with --token or HOLDFAST_TOKEN";
                return Err(Failure::usage(format!("{why} (`holdfast token create` makes one).")));
            }
        };
        Ok(Self { client: client(args.root_certificate.as_deref())?, base, token: Some(token) })
    }

    /// Another HTTP interface that asks for no token.
    pub(crate) fn without_token(base: &str, root_pem: Option<Vec<u8>>) -> Result<Self, Failure> {
        let base = web_url("the address", base)?;
        Ok(Self { client: client_with(root_pem)?, base, token: None })
    }

    /// Where it is.
    pub(crate) const fn base(&self) -> &WebUrl {
        &self.base
    }

    /// Reads.
    pub(crate) async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.ask(Method::GET, path, None).await
    }

    /// Asks for something to be done.
    pub(crate) async fn post(&self, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
        self.ask(Method::POST, path, body).await
    }

    /// Asks for something to be put somewhere.
    pub(crate) async fn put(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.ask(Method::PUT, path, Some(body)).await
    }

    /// Asks for something to go away.
    pub(crate) async fn delete(&self, path: &str) -> Result<Value, Failure> {
        self.ask(Method::DELETE, path, None).await
    }

    /// All pages of a list, in one.
    pub(crate) async fn list(&self, path: &str) -> Result<Vec<Value>, Failure> {
        let mut items = Vec::new();
        let mut cursor = String::new();
        loop {
            let joint = if path.contains('?') { '&' } else { '?' };
            let mut page = self.get(&format!("{path}{joint}limit=500{cursor}")).await?;
            if let Some(Value::Array(found)) = page.get_mut("items").map(Value::take) {
                items.extend(found);
            }
            match page.get("next_cursor").and_then(Value::as_str) {
                Some(next) => cursor = format!("&cursor={}", escaped(next)),
                None => return Ok(items),
            }
        }
    }

    /// Sends one request; anything but success is a failure in the server's own words.
    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Failure> {
        let answer = self.send(method, path, body).await?;
        let (status, text) = (answer.status(), answer.body());
        let value = serde_json::from_slice(text).unwrap_or(Value::Null);
        if status.is_success() { Ok(value) } else { Err(refusal(status, &value, &self.base)) }
    }

    /// Sends one request and gives the answer, whatever it is.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Response<Bytes>, Failure> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", token.expose()));
        }
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let body = body.map(ToString::to_string).unwrap_or_default();
        let request = request.body(Bytes::from(body));
        let request = request
            .map_err(|error| Failure::usage(format!("The request cannot be sent: {error}.")))?;
        self.client.send(request).await.map_err(|error| unreachable(&self.base, &error))
    }
}

fn client(root_certificate: Option<&std::path::Path>) -> Result<Client, Failure> {
    let read = |path: &std::path::Path| {
        std::fs::read(path).map_err(|error| {
            let path = path.display();
            Failure::usage(format!(
                "--root-certificate {path} cannot be read ({error}); name a PEM file."
            ))
        })
    };
    client_with(root_certificate.map(read).transpose()?)
}

fn client_with(extra_roots_pem: Option<Vec<u8>>) -> Result<Client, Failure> {
    // Lists may be long; what the API itself takes in is bounded there.
    let config = ClientConfig { extra_roots_pem, body_limit: 64 << 20, ..ClientConfig::default() };
    Client::new(config).map_err(|error| Failure::usage(chain(&error)))
}

fn web_url(what: &str, text: &str) -> Result<WebUrl, Failure> {
    WebUrl::parse(text).map_err(|why| {
        Failure::usage(format!(
            "{what} `{text}` is refused ({why}); write it like http://127.0.0.1:8600."
        ))
    })
}

fn not_found(args: &ClientArgs) -> Failure {
    let data = args.data.display();
    Failure::unreachable(format!(
        "No server: {data} holds no running `holdfast up`; start one here, name its directory with --data, or a server with --server URL."
    ))
}

fn unreachable(base: &WebUrl, error: &holdfast_gateway::client::Error) -> Failure {
    let why = root_cause(error);
    Failure::unreachable(format!(
        "{base} cannot be reached ({why}); see that it runs and that the address is right."
    ))
}

/// The innermost cause: what lies between repeats that nobody was reached.
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// A problem document in a sentence; what else the server said, in what is left of it.
fn refusal(status: StatusCode, problem: &Value, base: &WebUrl) -> Failure {
    let text = |name: &str| problem.get(name).and_then(Value::as_str);
    let detail = text("detail").or_else(|| text("title")).or_else(|| text("error"));
    match detail {
        Some(detail) => Failure::failed(format!("{detail}{}", remedy(text("code")))),
        None => {
            Failure::failed(format!("{base} answered {status}; see that it is a Holdfast server."))
        }
    }
}

/// What to do, where only a person at a command line can be told.
fn remedy(code: Option<&str>) -> &'static str {
    match code {
        Some("name-in-use") => {
            " Remove that one first, or repeat its request with the same --orchestration-id."
        }
        Some("resource-in-use") => " Choose another --resource, or remove that one first.",
        _ => "",
    }
}

/// An answer as the type a command works with.
pub(crate) fn parsed<T: DeserializeOwned>(value: &Value) -> Result<T, Failure> {
    T::deserialize(value).map_err(|error| {
        Failure::failed(format!(
            "The server's answer cannot be read ({error}); use a client of the same release."
        ))
    })
}

/// A domain's name or id as a step of a path.
pub(crate) fn step(name: &str) -> String {
    Hostname::parse(name).map_or_else(|_| escaped(name), |name| name.to_string())
}

/// Percent-encodes all but what is safe anywhere in a URL.
pub(crate) fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_steps_of_a_path() {
        assert_eq!(step("Bücher.Example."), "xn--bcher-kva.example");
        assert_eq!(step("a/../b?c#d"), "a%2F..%2Fb%3Fc%23d");
        assert_eq!(
            step("0190b5e0-7e1c-7000-8000-000000000000"),
            "0190b5e0-7e1c-7000-8000-000000000000"
        );
    }
}
