//! Proofs of control: which one the CA wants, telling it to look, and what it found.

use std::time::Duration;

use holdfast_gateway::point::Point;
use holdfast_model::Note;
use holdfast_store::{ChallengeKind, NewChallenge};
use instant_acme::{
    AuthorizationState, AuthorizationStatus, Challenge, ChallengeStatus, ChallengeType, OrderState,
};
use serde_json::{Map, Value, json};

use crate::problem::Problem;
use crate::session::Session;
use crate::transport::{during, malformed, told};
use crate::{Ca, Error, OrderStatus, Proof, Verdict};

/// The proofs we can give, the one we would rather give first.
const fn kinds(preferred: ChallengeKind) -> [(ChallengeType, ChallengeKind); 2] {
    let http = (ChallengeType::Http01, ChallengeKind::Http01);
    let tls = (ChallengeType::TlsAlpn01, ChallengeKind::TlsAlpn01);
    match preferred {
        ChallengeKind::Http01 => [http, tls],
        ChallengeKind::TlsAlpn01 => [tls, http],
    }
}

impl Ca {
    /// Reads an order and its authorization: is there anything left to prove, and how?
    ///
    /// # Errors
    /// When the CA fails or refuses, does not know the order, or takes no proof we can give.
    pub async fn proof(&self, order_url: &str) -> Result<Proof, Error> {
        let preferred = self.0.config.challenge;
        self.ask(|session| async move {
            // Just made: its authorization has not been looked at, and tells everything.
            let is_new =
                |state: &OrderState| state.authorizations.iter().all(|one| one.state.is_none());
            let mut order = match session.orders.take_if(order_url, is_new) {
                Some(order) => order,
                None => session.read_order(order_url).await?.0,
            };
            let proof = match session.status(&mut order, None).await? {
                OrderStatus::Pending => session.needed_proof(&mut order, preferred).await?,
                OrderStatus::Invalid(note) => Proof::Invalid(note),
                OrderStatus::Ready | OrderStatus::Processing { .. } | OrderStatus::Valid => {
                    Proof::Valid
                }
            };
            session.orders.keep(order);
            Ok(proof)
        })
        .await
    }

    /// Tells the CA that the answer is in place. Telling it again is harmless.
    ///
    /// # Errors
    /// When the CA fails or refuses, or the answer was made with a key that is not the account's any more.
    pub async fn accept(&self, challenge: &NewChallenge) -> Result<(), Error> {
        self.ask(|session| async move {
            // The CA would look, not find what it expects, and count a failure.
            if !challenge.key_authorization.ends_with(&session.key.thumbprint()) {
                return Err(Error::KeyChanged);
            }
            session.transport.check_url(Point::ACME_CHALLENGE, &challenge.url)?;
            let told = session.post(Point::ACME_CHALLENGE, &challenge.url, Some(&json!({}))).await;
            match told {
                Err(Error::Refused(refusal)) if refusal.may_mean_already_told() => {
                    let (state, _) =
                        session.read_authorization(&challenge.authorization_url).await?;
                    if awaits_us(&state, challenge) { Err(Error::Refused(refusal)) } else { Ok(()) }
                }
                // Else the CA was not told, and would be waited for in vain.
                told => told?.json::<Map<String, Value>>().map(drop),
            }
        })
        .await
    }

    /// Asks what the CA found.
    ///
    /// # Errors
    /// When the CA fails or refuses, or does not know the authorization.
    pub async fn verdict(&self, challenge: &NewChallenge) -> Result<Verdict, Error> {
        self.ask(|session| async move {
            let (state, retry_after) =
                session.read_authorization(&challenge.authorization_url).await?;
            Ok(match (state.status, failure(&state)) {
                (AuthorizationStatus::Valid, _) => Verdict::Valid,
                (_, Some(note)) => Verdict::Invalid(note),
                (_, None) => Verdict::Pending { retry_after },
            })
        })
        .await
    }
}

impl Session {
    /// Reads an authorization by its URL, which instant-acme can do only through an order it has read.
    pub(crate) async fn read_authorization(
        &self,
        url: &str,
    ) -> Result<(AuthorizationState, Option<Duration>), Error> {
        self.transport.check_url(Point::ACME_AUTHORIZATION, url)?;
        let answer = self.post(Point::ACME_AUTHORIZATION, url, None).await?;
        Ok((answer.json()?, answer.retry_after))
    }

    async fn needed_proof(
        &self,
        order: &mut instant_acme::Order,
        preferred: ChallengeKind,
    ) -> Result<Proof, Error> {
        let at = Point::ACME_AUTHORIZATION;
        for authorization in &order.state().authorizations {
            self.transport.check_url(at, &authorization.url)?;
        }
        let mut authorizations = order.authorizations();
        while let (Some(read), _) = during(at, authorizations.next()).await {
            let authorization = read.map_err(|error| told(at, error))?;
            if let Some(note) = failure(&authorization) {
                return Ok(Proof::Invalid(note));
            }
            if authorization.status == AuthorizationStatus::Pending {
                let challenge = self.challenge(authorization.url(), &authorization, preferred)?;
                return Ok(Proof::Needed(challenge));
            }
        }
        Ok(Proof::Valid)
    }

    fn challenge(
        &self,
        url: &str,
        state: &AuthorizationState,
        preferred: ChallengeKind,
    ) -> Result<NewChallenge, Error> {
        let offered = |wanted: &ChallengeType| {
            state.challenges.iter().find(|challenge| challenge.r#type == *wanted)
        };
        let chosen =
            kinds(preferred).iter().find_map(|(wanted, kind)| Some((*kind, offered(wanted)?)));
        let Some((kind, challenge)) = chosen else {
            let kinds = state.challenges.iter().map(|challenge| name(&challenge.r#type));
            let kinds = kinds.collect::<Vec<_>>().join(", ");
            let offered = if kinds.is_empty() { "none at all" } else { &kinds };
            return Err(Error::NoChallenge(offered.to_owned()));
        };
        // It becomes part of a path, and of what every replica looks up.
        if !is_token(&challenge.token) {
            return Err(malformed(
                Point::ACME_AUTHORIZATION,
                "a challenge's token is not base64url",
            ));
        }
        self.transport.check_url(Point::ACME_CHALLENGE, &challenge.url)?;
        Ok(NewChallenge {
            kind,
            token: challenge.token.clone(),
            key_authorization: format!("{}.{}", challenge.token, self.key.thumbprint()),
            url: challenge.url.clone(),
            authorization_url: url.to_owned(),
        })
    }
}

/// Why an authorization will never become valid, if so.
pub(crate) fn failure(state: &AuthorizationState) -> Option<Note> {
    let gone =
        |what| Note::new("acme-order-gone", format!("the CA calls the authorization {what}"));
    match state.status {
        AuthorizationStatus::Pending | AuthorizationStatus::Valid => None,
        AuthorizationStatus::Invalid => {
            let words = state.challenges.iter().find_map(|challenge| challenge.error.as_ref());
            Some(words.map_or_else(
                || gone("invalid and does not say why"),
                |words| Problem::from(words).note(),
            ))
        }
        AuthorizationStatus::Expired => Some(gone("expired")),
        AuthorizationStatus::Revoked => Some(gone("revoked")),
        AuthorizationStatus::Deactivated => Some(gone("deactivated")),
    }
}

/// Has the CA not begun to look at this challenge?
fn awaits_us(state: &AuthorizationState, ours: &NewChallenge) -> bool {
    let pending = |challenge: &Challenge| {
        challenge.url == ours.url && challenge.status == ChallengeStatus::Pending
    };
    state.status == AuthorizationStatus::Pending && state.challenges.iter().any(pending)
}

fn is_token(token: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=256).contains(&token.len()) && token.bytes().all(letter)
}

fn name(kind: &ChallengeType) -> &str {
    match kind {
        ChallengeType::Http01 => "http-01",
        ChallengeType::Dns01 => "dns-01",
        ChallengeType::TlsAlpn01 => "tls-alpn-01",
        ChallengeType::Unknown(name) => name,
        _ => "one we do not know",
    }
}
