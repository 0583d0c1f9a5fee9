//! Opens the TCP connection of a request, to where the name leads or to where a test says.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use http::uri::{Authority, Scheme};
use hyper_util::client::legacy::connect::HttpConnector;
use tower::Service;

use super::ConnectTo;

#[derive(Clone)]
pub(super) struct Connector {
    http: HttpConnector,
    connect_to: Option<Arc<dyn ConnectTo>>,
}

impl Connector {
    pub(super) fn new(time_limit: Duration, connect_to: Option<Arc<dyn ConnectTo>>) -> Self {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        // Shared out among a name's addresses, so that one dead address leaves time for the next.
        http.set_connect_timeout(Some(time_limit));
        Self { http, connect_to }
    }

    fn redirected(&self, uri: &Uri) -> Option<Uri> {
        let port =
            uri.port_u16().unwrap_or(if uri.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 });
        let address = (self.connect_to.as_ref()?)(uri.host()?, port)?;
        let mut parts = uri.clone().into_parts();
        parts.authority = Some(Authority::try_from(address.to_string()).ok()?);
        Uri::from_parts(parts).ok()
    }
}

impl Service<Uri> for Connector {
    type Response = <HttpConnector as Service<Uri>>::Response;
    type Error = <HttpConnector as Service<Uri>>::Error;
    type Future = <HttpConnector as Service<Uri>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.http.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let uri = self.redirected(&uri).unwrap_or(uri);
        self.http.call(uri)
    }
}
