//! The measure of issuance: a bare loop over instant-acme, which stores nothing, checks nothing and survives nothing.

use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use holdfast_gateway::client::Client;
use http::Request;
use http_body_util::BodyExt as _;
use instant_acme::{
    Account, BodyWrapper, BytesResponse, ChallengeType, Error, HttpClient, Identifier, NewAccount,
    NewOrder, Order, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::network::Network;
use crate::responder::{Answers, Responder};

/// Where it answers challenges.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Far more impatient than instant-acme's own, which begins with 250 ms: the loop is to be hard to beat.
const RETRIES: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(5))
    .backoff(1.5)
    .timeout(Duration::from_secs(60));

/// The loop, with an account of its own.
pub struct BareLoop {
    account: Account,
    responder: Responder,
    batches: AtomicUsize,
}

impl BareLoop {
    /// Makes the account, and listens for challenges.
    pub async fn start(network: &Network) -> Result<Self> {
        network.record("*.bare.test", "A", &ADDRESS.to_string()).await?;
        let responder = Responder::start((ADDRESS, network.http_port()).into()).await?;
        let new =
            NewAccount { contact: &[], terms_of_service_agreed: true, only_return_existing: false };
        let builder = Account::builder_with_http(Box::new(Wire(network.web().client())));
        let (account, _) = builder.create(&new, network.directory(), None).await?;
        Ok(Self { account, responder, batches: AtomicUsize::new(0) })
    }

    /// Gets `count` certificates with `in_flight` tasks; how long it took.
    pub async fn issue(&self, count: usize, in_flight: usize) -> Result<Duration> {
        let batch = self.batches.fetch_add(1, Ordering::Relaxed);
        let next = Arc::new(AtomicUsize::new(0));
        let begun = Instant::now();
        let mut tasks = JoinSet::<Result<()>>::new();
        for _ in 0..in_flight {
            let (account, answers) = (self.account.clone(), self.responder.answers());
            let next = next.clone();
            tasks.spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return Ok(());
                    }
                    one(&account, &answers, &format!("b{batch}-n{number}.bare.test")).await?;
                }
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        Ok(begun.elapsed())
    }
}

async fn one(account: &Account, answers: &Answers, name: &str) -> Result<()> {
    let identifiers = [Identifier::Dns(name.to_owned())];
    let mut order = account.new_order(&NewOrder::new(&identifiers)).await?;
    prove(&mut order, answers).await?;
    let key = KeyPair::generate()?;
    let mut request = CertificateParams::new([name.to_owned()])?;
    request.distinguished_name = DistinguishedName::new();
    order.finalize_csr(request.serialize_request(&key)?.der()).await?;
    order.poll_certificate(&RETRIES).await?;
    Ok(())
}

async fn prove(order: &mut Order, answers: &Answers) -> Result<()> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        let challenge = authorization.challenge(ChallengeType::Http01);
        let mut challenge = challenge.context("no http-01 challenge")?;
        answers.set(&challenge.token, challenge.key_authorization().as_str());
        challenge.set_ready().await?;
    }
    order.poll_ready(&RETRIES).await?;
    Ok(())
}

/// instant-acme over the same client that Holdfast uses, so that only what is done with it differs.
struct Wire(Client);

impl HttpClient for Wire {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let client = self.0.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map_err(|never| Error::Other(Box::new(never)))?;
            let answer = client.send(Request::from_parts(head, body.to_bytes())).await;
            let (parts, body) = answer.map_err(|error| Error::Other(error.into()))?.into_parts();
            Ok(BytesResponse { parts, body: Box::new(body) })
        })
    }
}
