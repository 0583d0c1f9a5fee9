//! Reads the log for every webhook and carries messages. A slow receiver takes the places of its own webhook, and no other's.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use holdfast_gateway::client::{Client, ClientConfig, Error as ClientError};
use holdfast_store::{
    Attempt, ClaimedDelivery, Error, SharedStore, Then, Topic, Webhook, WebhookId,
};
use http::{HeaderMap, Request, StatusCode, header};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::message;
use super::schedule::Schedule;
use super::signature::sign;

/// Events read at once.
const PAGE: u32 = 500;

/// Messages of one webhook that one replica carries at once.
const AT_ONCE: u32 = 8;

/// A hint can come before what it hints at is visible, so the first look after one is soon.
const FIRST_LOOK: Duration = Duration::from_millis(50);

/// The slowest look, where there is a webhook, and where there is none.
const SLOWEST_LOOK: Duration = Duration::from_secs(2);
const IDLE_LOOK: Duration = Duration::from_secs(10);

/// Where there is no webhook, hints are followed no faster than this.
const IDLE_PACE: Duration = Duration::from_secs(1);

/// How long messages under way may take at the end.
const WIND_DOWN: Duration = Duration::from_secs(5);

/// How a courier behaves.
#[derive(Debug, Clone)]
pub struct CourierConfig {
    /// PEM of root certificates trusted beside the system's.
    pub roots: Option<Vec<u8>>,
    /// How long a receiver may take.
    pub time_limit: Duration,
    /// How long a message is left to who claimed it; longer than the time limit, or two send at once.
    pub hold: Duration,
    /// The waits between tries, the last of which repeats; none for the usual ones.
    pub ladder: Option<Vec<Duration>>,
}

impl Default for CourierConfig {
    fn default() -> Self {
        Self {
            roots: None,
            time_limit: Duration::from_secs(15),
            hold: Duration::from_secs(60),
            ladder: None,
        }
    }
}

/// Carries messages, until told to stop.
pub struct Courier {
    carrier: Carrier,
    hold: Duration,
    wake: watch::Receiver<u64>,
    under_way: JoinSet<WebhookId>,
    places: HashMap<WebhookId, u32>,
    delay: Duration,
}

/// What it takes to carry one message.
#[derive(Clone)]
struct Carrier {
    store: SharedStore,
    client: Client,
    schedule: Schedule,
}

impl Courier {
    /// Makes it; nothing runs yet.
    ///
    /// # Errors
    /// When the roots are no certificates.
    pub fn new(store: SharedStore, config: CourierConfig) -> Result<Self, ClientError> {
        let client = Client::new(ClientConfig {
            extra_roots_pem: config.roots,
            time_limit: config.time_limit,
            ..ClientConfig::default()
        })?;
        let mut schedule = Schedule::default();
        if let Some(ladder) = config.ladder {
            schedule.ladder = ladder;
        }
        Ok(Self {
            // Registered before the first look, so that nothing falls between.
            wake: store.wake(Topic::Events),
            carrier: Carrier { store, client, schedule },
            hold: config.hold,
            under_way: JoinSet::new(),
            places: HashMap::new(),
            delay: FIRST_LOOK,
        })
    }

    /// Works until `stopping`; what is under way then has a few seconds, and what is left another replica sends again.
    pub async fn run(mut self, stopping: CancellationToken) {
        while !stopping.is_cancelled() {
            self.wake.borrow_and_update();
            let rest = match self.round().await {
                Ok(rest) => rest,
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "webhooks could not be looked after");
                    SLOWEST_LOOK
                }
            };
            tokio::select! {
                () = stopping.cancelled() => {}
                () = self.rest(rest) => {}
            }
        }
        let all = async { while self.under_way.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(WIND_DOWN, all).await;
    }

    /// Looks at every webhook once; gives when to look again.
    async fn round(&mut self) -> Result<Duration, Error> {
        let store = self.carrier.store.clone();
        let webhooks = store.webhooks().await?;
        if webhooks.is_empty() {
            return Ok(IDLE_LOOK);
        }
        let (latest, now) = (store.latest_event().await?, store.ping().await?);
        let mut rest = self.delay;
        for mut webhook in webhooks {
            let put_down = match webhook.after < latest {
                true => read_log(&store, &mut webhook).await?,
                false => false,
            };
            if put_down || webhook.next_due_at.is_some_and(|due| due <= now) {
                self.carry(&webhook).await?;
            } else if let Some(due) = webhook.next_due_at {
                rest = rest.min(due.since(now).max(FIRST_LOOK));
            }
        }
        self.delay = (self.delay * 2).min(SLOWEST_LOOK);
        Ok(rest)
    }

    /// Claims as much of a webhook as it has places for.
    async fn carry(&mut self, webhook: &Webhook) -> Result<(), Error> {
        let places = self.places.entry(webhook.id).or_insert(0);
        let free = AT_ONCE.saturating_sub(*places);
        if free == 0 {
            return Ok(());
        }
        let claimed = self.carrier.store.claim_deliveries(webhook.id, free, self.hold).await?;
        for delivery in claimed {
            *places += 1;
            let (carrier, webhook) = (self.carrier.clone(), webhook.clone());
            self.under_way.spawn(async move {
                carrier.carry(&webhook, &delivery).await;
                webhook.id
            });
        }
        Ok(())
    }

    async fn rest(&mut self, rest: Duration) {
        let idle = rest == IDLE_LOOK;
        tokio::select! {
            () = tokio::time::sleep(rest) => {}
            Some(ended) = self.under_way.join_next() => self.ended(ended.ok()),
            _ = self.wake.changed() => {
                self.delay = FIRST_LOOK;
                if idle {
                    tokio::time::sleep(IDLE_PACE).await;
                }
            }
        }
    }

    /// A place is free; the next of its lane is due.
    fn ended(&mut self, webhook: Option<WebhookId>) {
        self.delay = FIRST_LOOK;
        match webhook.and_then(|id| self.places.get_mut(&id)) {
            Some(places) => *places = places.saturating_sub(1),
            // A panic does not say whose it was: better a place too many than none.
            None => self.places.clear(),
        }
    }
}

/// Reads the log to its end for one webhook; says whether messages were put down.
async fn read_log(store: &SharedStore, webhook: &mut Webhook) -> Result<bool, Error> {
    let mut any = false;
    loop {
        let events = store.events_after(webhook.after, PAGE).await?;
        let Some(last) = events.last().map(|event| event.cursor) else { return Ok(any) };
        let mut messages = Vec::new();
        for event in &events {
            messages.extend(message::of(store, &webhook.events, event).await?);
        }
        if !store.put_down(webhook, last, &messages).await? {
            // Another replica did, or the webhook is gone.
            return Ok(any);
        }
        any |= !messages.is_empty();
        webhook.after = last;
    }
}

impl Carrier {
    /// Sends one message, and notes what came of it.
    async fn carry(&self, webhook: &Webhook, delivery: &ClaimedDelivery) {
        let begun = Instant::now();
        let attempt = match self.send(webhook, delivery).await {
            Ok(attempt) => attempt,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(
                    error,
                    "a message was not sent; it is tried again when its claim ends"
                );
                return;
            }
        };
        let outcome = match attempt.then {
            Then::Delivered => "delivered",
            Then::Again(_) => "failed",
            Then::GivenUp => "given-up",
        };
        metrics::counter!("holdfast_webhook_attempts_total", "outcome" => outcome).increment(1);
        metrics::histogram!("holdfast_webhook_attempt_seconds").record(begun.elapsed());
        if let Some(error) = &attempt.error {
            tracing::warn!(webhook = %webhook.id.0, message = %delivery.id, attempt = delivery.attempt, error, outcome, "a message did not arrive");
        }
        if let Err(error) = self.store.delivery_tried(delivery, &attempt).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "what came of a message was not noted; it is sent again");
        }
    }

    async fn send(&self, webhook: &Webhook, delivery: &ClaimedDelivery) -> Result<Attempt, Error> {
        let secret = self.store.webhook_secret(webhook.id).await?;
        let (id, seconds) =
            (format!("msg_{}", delivery.id.simple()), delivery.now.as_micros() / 1_000_000);
        let signature = sign(&secret, &id, seconds, &delivery.body);
        let request = Request::post(&webhook.url)
            .header(header::CONTENT_TYPE, "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", seconds)
            .header("webhook-signature", signature)
            .body(http_body_util::Full::new(Bytes::from(delivery.body.clone())));
        let Ok(request) = request else {
            let error = Some("its URL is none that a request can be sent to".to_owned());
            return Ok(Attempt { status: None, error, then: Then::GivenUp });
        };
        // The body of the answer is nobody's business, and not read.
        Ok(match self.client.send_streaming(request).await {
            Ok(answer) => self.answered(delivery, answer.status(), answer.headers()),
            Err(error) => self.unanswered(delivery, &error),
        })
    }

    fn answered(
        &self,
        delivery: &ClaimedDelivery,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Attempt {
        let number = Some(status.as_u16());
        if status.is_success() {
            return Attempt { status: number, error: None, then: Then::Delivered };
        }
        let asked = headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
        let asked = asked.and_then(|value| value.trim().parse().ok()).map(Duration::from_secs);
        let then = match status {
            StatusCode::GONE => Then::GivenUp,
            _ => self.schedule.after(delivery.id, delivery.attempt, delivery.age, asked),
        };
        Attempt { status: number, error: Some(format!("the receiver answered {status}")), then }
    }

    fn unanswered(&self, delivery: &ClaimedDelivery, error: &ClientError) -> Attempt {
        let mut text = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        let error = Some(text.chars().take(500).collect());
        let then = self.schedule.after(delivery.id, delivery.attempt, delivery.age, None);
        Attempt { status: None, error, then }
    }
}
