//! instant-acme over the gateway's client.

use std::pin::Pin;

use bytes::Bytes;
use holdfast_gateway::client::{Client, ClientConfig};
use http::Request;
use http_body_util::BodyExt as _;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};

/// An HTTP client that trusts a root beside the system's.
pub(crate) fn http(root_pem: &str) -> Client {
    let roots = Some(root_pem.as_bytes().to_vec());
    Client::new(ClientConfig { extra_roots_pem: roots, ..ClientConfig::default() }).unwrap()
}

/// The same for instant-acme.
pub(crate) struct Acme(pub(crate) Client);

impl HttpClient for Acme {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let client = self.0.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let answer = client.send(Request::from_parts(head, body)).await;
            let (parts, body) = answer.map_err(|error| Error::Other(error.into()))?.into_parts();
            Ok(BytesResponse { parts, body: Box::new(body) })
        })
    }
}
