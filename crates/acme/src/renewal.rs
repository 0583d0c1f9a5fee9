//! When the CA would like a certificate renewed (ARI, RFC 9773).

use std::borrow::Cow;

use holdfast_gateway::point::Point;
use holdfast_model::Timestamp;
use instant_acme::CertificateIdentifier;
use serde::Deserialize;
use x509_parser::extensions::ParsedExtension;

use crate::certificate::Chain;
use crate::jws::encode;
use crate::{Ca, Error, Window};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RenewalInfo {
    suggested_window: SuggestedWindow,
    #[serde(rename = "explanationURL")]
    explanation_url: Option<String>,
}

#[derive(Deserialize)]
struct SuggestedWindow {
    start: Timestamp,
    end: Timestamp,
}

impl Ca {
    /// The window in which the CA would like a certificate of its own renewed; none where it has no opinion.
    ///
    /// # Errors
    /// When the CA fails or refuses.
    pub async fn renewal_window(&self, chain_pem: &str) -> Result<Option<Window>, Error> {
        let session = self.session().await?;
        let (Some(base), Some(identifier)) =
            (session.directory.renewal_info.as_deref(), identifier(chain_pem))
        else {
            return Ok(None);
        };
        let url = format!("{}/{identifier}", base.trim_end_matches('/'));
        let answer = match self.0.transport.get(Point::ACME_RENEWAL_INFO, &url).await {
            Ok(answer) => answer,
            Err(Error::Refused(refusal)) if matches!(refusal.status, 404 | 410) => return Ok(None),
            Err(error) => return Err(error),
        };
        let info: RenewalInfo = answer.json()?;
        let SuggestedWindow { start, end } = info.suggested_window;
        // RFC 9773 §4.2: a window that ends before it begins is none.
        Ok((start < end).then_some(Window {
            start,
            end,
            retry_after: answer.retry_after,
            explanation_url: info.explanation_url.filter(|url| is_shown(url)),
        }))
    }
}

/// Is it an address for people? Nobody asks it, but it is stored and shown.
fn is_shown(url: &str) -> bool {
    const LONGEST: usize = 500;
    let ours = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '<' | '>' | '`' | '\\');
    ["https://", "http://"].iter().any(|scheme| url.len() > scheme.len() && url.starts_with(scheme))
        && url.len() <= LONGEST
        && url.chars().all(ours)
}

/// How a CA knows a certificate again; none for one without the extension that names its issuer's key.
pub(crate) fn identifier(chain_pem: &str) -> Option<CertificateIdentifier<'static>> {
    let chain = Chain::parse(chain_pem).ok()?;
    let leaf = chain.leaf().ok()?;
    let issuer_key =
        leaf.iter_extensions().find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::AuthorityKeyIdentifier(key) => key.key_identifier.as_ref(),
            _ => None,
        })?;
    Some(CertificateIdentifier {
        authority_key_identifier: Cow::Owned(encode(issuer_key.0)),
        serial: Cow::Owned(encode(leaf.tbs_certificate.raw_serial())),
    })
}

#[cfg(test)]
mod tests {
    use super::is_shown;

    #[test]
    fn only_an_address_is_shown_to_people() {
        assert!(is_shown("https://ca.example/why?id=1"));
        let long = format!("https://ca.example/{}", "a".repeat(500));
        for other in [
            "",
            "https://",
            "javascript:alert(1)",
            "https://a b",
            "https://a/<b>",
            "https://a\n",
            &long,
        ] {
            assert!(!is_shown(other), "{other}");
        }
    }
}
