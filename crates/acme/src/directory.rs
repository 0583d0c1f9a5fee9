//! A CA's directory: where each request goes, and what it wants of its customers.

use std::collections::BTreeMap;

use holdfast_gateway::point::Point;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Error;
use crate::transport::Transport;

/// Where a CA's requests go.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Directory {
    pub(crate) new_nonce: String,
    pub(crate) new_account: String,
    pub(crate) new_order: String,
    pub(crate) revoke_cert: Option<String>,
    pub(crate) key_change: Option<String>,
    pub(crate) renewal_info: Option<String>,
    #[serde(default)]
    pub(crate) meta: Meta,
}

/// What the CA says of itself.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Meta {
    pub(crate) terms_of_service: Option<String>,
    #[serde(default)]
    pub(crate) external_account_required: bool,
    /// Each with a description that is for people; CAs disagree on its type.
    #[serde(default)]
    pub(crate) profiles: BTreeMap<String, Value>,
}

impl Directory {
    pub(crate) async fn read(transport: &Transport, url: &str) -> Result<Self, Error> {
        let at = Point::ACME_DIRECTORY;
        let directory: Self = transport.get(at, url).await?.json()?;
        transport.lead_to(directory.urls())?;
        Ok(directory)
    }

    /// Does the other send some request elsewhere?
    pub(crate) fn leads_elsewhere_than(&self, other: &Self) -> bool {
        let all = |one: &Self| {
            let optional = [&one.revoke_cert, &one.key_change, &one.renewal_info];
            let needed = [&one.new_nonce, &one.new_account, &one.new_order];
            (needed.map(Clone::clone), optional.map(Clone::clone))
        };
        all(self) != all(other)
    }

    fn urls(&self) -> impl Iterator<Item = &String> {
        let optional = [&self.revoke_cert, &self.key_change, &self.renewal_info];
        [&self.new_nonce, &self.new_account, &self.new_order]
            .into_iter()
            .chain(optional.into_iter().flatten())
    }

    /// As instant-acme reads it, so that it need not fetch it again.
    pub(crate) fn for_instant_acme(&self) -> Value {
        json!({
            "newNonce": self.new_nonce,
            "newAccount": self.new_account,
            "newOrder": self.new_order,
            "renewalInfo": self.renewal_info,
        })
    }
}
