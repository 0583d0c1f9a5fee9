//! Revocation, by the account that ordered the certificate, or else by its own key.

use holdfast_gateway::point::Point;
use holdfast_store::Secret;
use serde_json::json;

use crate::certificate::{Chain, PrivateKey};
use crate::jws::{Signer, SigningKey, encode};
use crate::session::post;
use crate::{Ca, Error};

/// RFC 5280 §5.3.1, cessationOfOperation: the name is not served here any more.
const REASON: u8 = 5;

impl Ca {
    /// Revokes a certificate. One that is revoked already is as it should be.
    ///
    /// The account asks first: a CA takes a request by the certificate's own key for a sign that the key leaked. The
    /// key helps where another account ordered it.
    ///
    /// # Errors
    /// When the CA fails or refuses, or the chain or the key cannot be read.
    pub async fn revoke(&self, chain_pem: &str, key: Option<&Secret>) -> Result<(), Error> {
        let chain = Chain::parse(chain_pem)?;
        let certificate = encode(chain.leaf_der());
        let asked = self.revoke_by_account(&certificate).await;
        let revoked = match (asked, key) {
            (Err(Error::Refused(refusal)), Some(key)) if refusal.is_for_another_account() => {
                self.revoke_by_key(&certificate, key).await
            }
            (asked, _) => asked,
        };
        match revoked {
            Err(error) if error.is("alreadyRevoked") => Ok(()),
            revoked => revoked,
        }
    }

    async fn revoke_by_account(&self, certificate: &str) -> Result<(), Error> {
        let request = json!({ "certificate": certificate, "reason": REASON });
        self.ask(|session| {
            let request = request.clone();
            async move {
                let url = self.revocation_url(session.directory.revoke_cert.as_deref())?;
                session.post(Point::ACME_REVOKE, url, Some(&request)).await?.done()
            }
        })
        .await
    }

    async fn revoke_by_key(&self, certificate: &str, key: &Secret) -> Result<(), Error> {
        let session = self.session().await?;
        let url = self.revocation_url(session.directory.revoke_cert.as_deref())?;
        let key = SigningKey::new(PrivateKey::parse_pem(key)?)?;
        let request = json!({ "certificate": certificate });
        let (transport, signer) = (&self.0.transport, (&key, Signer::Key));
        let at = Point::ACME_REVOKE;
        post(transport, &session.directory, at, url, signer, Some(&request)).await?.done()
    }

    fn revocation_url<'a>(&self, url: Option<&'a str>) -> Result<&'a str, Error> {
        let directory = self.directory().to_owned();
        url.ok_or(Error::Unsupported { directory, what: "revocation" })
    }
}
