//! One certificate for one name, wherever it came from; and what a source gave altogether.

use std::collections::{BTreeMap, HashMap, hash_map::Entry as Slot};
use std::path::{Path, PathBuf};

use holdfast_acme::certificate;
use holdfast_model::Hostname;
use holdfast_store::Secret;
use serde_json::{Value, json};

/// What holds for all of them, unless a source says otherwise.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) tenant: Option<String>,
    pub(super) edge_group: Option<String>,
}

/// What a source says of one domain beside its certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) tenant: Option<String>,
    pub(super) resource: Option<String>,
    pub(super) target: Option<String>,
    pub(super) edge_group: Option<String>,
    pub(super) labels: BTreeMap<String, String>,
}

/// One certificate for one name. The key has no `Debug`.
pub(super) struct Entry {
    pub(super) file: PathBuf,
    pub(super) name: String,
    pub(super) chain: String,
    pub(super) key: Secret,
    pub(super) owner: Owner,
    pub(super) life: Life,
    /// Why it was not the same as what its key was used for.
    pub(super) differs: Option<String>,
}

/// Which life of the name is meant. What was imported once and removed since is another domain when it comes again, and needs
/// another idempotency key; the key follows from what the server says of the life before, so that a repeat finds the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Life(String);

impl Life {
    /// The one after the domain with this id.
    pub(super) fn after(id: &str) -> Self {
        Self(format!(":after:{id}"))
    }

    /// The same, with this certificate; none where that was tried already.
    pub(super) fn with(&self, sha256: &str) -> Option<Self> {
        let with = format!(":with:{sha256}");
        (!self.0.ends_with(&with)).then(|| Self(format!("{}{with}", self.0)))
    }
}

/// Why something is not imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) file: PathBuf,
    /// Empty when the file as a whole is concerned.
    pub(super) name: String,
    pub(super) reason: String,
}

impl Refusal {
    pub(super) fn new(file: &Path, name: &str, reason: impl Into<String>) -> Self {
        Self { file: file.to_owned(), name: name.to_owned(), reason: reason.into() }
    }
}

/// What a source gave.
#[derive(Default)]
pub(super) struct Found {
    pub(super) entries: Vec<Entry>,
    pub(super) refusals: Vec<Refusal>,
    /// Not imported, and rightly so.
    pub(super) skipped: Vec<Refusal>,
}

impl Found {
    pub(super) fn refuse(&mut self, file: &Path, name: &str, reason: impl Into<String>) {
        self.refusals.push(Refusal::new(file, name, reason));
    }

    pub(super) fn skip(&mut self, file: &Path, name: &str, reason: impl Into<String>) {
        self.skipped.push(Refusal::new(file, name, reason));
    }

    /// A name counts once, for its first file: that is the one a proxy serves.
    pub(super) fn once(mut self) -> Self {
        let mut first: HashMap<String, PathBuf> = HashMap::new();
        let mut kept = Vec::with_capacity(self.entries.len());
        for entry in std::mem::take(&mut self.entries) {
            match first.entry(key_of(&entry.name)) {
                Slot::Vacant(free) => {
                    free.insert(entry.file.clone());
                    kept.push(entry);
                }
                Slot::Occupied(taken) => {
                    let reason = format!("{} comes first for this name", taken.get().display());
                    self.skipped.push(Refusal::new(&entry.file, &entry.name, reason));
                }
            }
        }
        self.entries = kept;
        self
    }
}

/// A name as it is compared; what is no name stands for itself, and the server says why.
fn key_of(name: &str) -> String {
    Hostname::parse(name).map_or_else(|_| name.to_ascii_lowercase(), |name| name.to_string())
}

impl Entry {
    /// As the batch API takes it. The idempotency key is the name's, and its life's, so that a repeat is the same request.
    pub(super) fn request(&self, shared: &Shared) -> Value {
        let key = String::from_utf8_lossy(self.key.expose());
        let mut request = json!({
            "name": self.name,
            "orchestration_id": format!("import:{}{}", key_of(&self.name), self.life.0),
            "certificate": { "chain": self.chain, "key": key },
        });
        let tenant = self.owner.tenant.as_ref().or(shared.tenant.as_ref());
        let group = self.owner.edge_group.as_ref().or(shared.edge_group.as_ref());
        let given = [
            ("tenant", tenant),
            ("resource", self.owner.resource.as_ref()),
            ("target", self.owner.target.as_ref()),
            ("edge_group", group),
        ];
        if let Value::Object(members) = &mut request {
            for (name, value) in given {
                members.extend(value.map(|value| (name.to_owned(), json!(value))));
            }
            if !self.owner.labels.is_empty() {
                members.insert("labels".to_owned(), json!(self.owner.labels));
            }
        }
        request
    }

    /// What its certificate is known by; none where it cannot be read.
    pub(super) fn sha256(&self) -> Option<String> {
        certificate::facts(&self.chain, "imported").ok().map(|facts| facts.sha256)
    }

    /// About how long it is when sent.
    pub(super) fn size(&self) -> usize {
        self.chain.len() + self.key.expose().len() + 512
    }
}
