//! How far readers of the event log are behind what is committed, and which transactions hold them back.

use std::fmt;

use holdfast_model::Timestamp;

use crate::{Result, row::Fields};

/// What readers of the event log cannot see yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventLag {
    /// When the oldest committed event that readers cannot see was written; none when they see all.
    pub unread_since: Option<Timestamp>,
    /// The transactions that were open before it, the oldest first. Empty while the lag is short.
    pub held_by: Vec<OpenTransaction>,
}

/// A transaction that has written, or is about to, and has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenTransaction {
    /// Whose it is.
    pub owner: TransactionOwner,
    /// The database it works in; it need not be ours.
    pub database: Option<String>,
    /// The database user.
    pub user: Option<String>,
    /// What the session calls itself.
    pub application: Option<String>,
    /// `active`, `idle in transaction`; none where our user may not see it.
    pub state: Option<String>,
    /// The first words of its statement, or of its last one: not what it is about, which may be secret. None where our user may not
    /// see it.
    pub statement: Option<String>,
    /// When it began; none where our user may not see it.
    pub since: Option<Timestamp>,
}

/// Who can end a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransactionOwner {
    /// The session with this process id.
    Session(i64),
    /// Nobody's session: it was prepared under this name and waits for its second phase.
    Prepared(String),
}

impl OpenTransaction {
    pub(crate) fn read(row: &impl Fields) -> Result<Self> {
        let some = |text: Option<String>| text.filter(|text| !text.is_empty());
        let owner = match row.maybe_text("prepared_as")? {
            Some(name) => TransactionOwner::Prepared(name),
            None => TransactionOwner::Session(row.number("pid")?),
        };
        Ok(Self {
            owner,
            database: some(row.maybe_text("database")?),
            user: some(row.maybe_text("owner")?),
            application: some(row.maybe_text("application")?),
            state: some(row.maybe_text("state")?),
            statement: row.maybe_text("statement")?.as_deref().and_then(first_words),
            since: row.maybe_at("since")?,
        })
    }

    /// How a person ends it.
    #[must_use]
    pub fn remedy(&self) -> String {
        let database = self.database.as_deref().unwrap_or("its database");
        match &self.owner {
            TransactionOwner::Session(pid) => {
                format!("End it in its application, or with SELECT pg_terminate_backend({pid}).")
            }
            TransactionOwner::Prepared(name) => format!(
                "Connect to {database} and run COMMIT PREPARED '{name}' or ROLLBACK PREPARED '{name}'."
            ),
        }
    }
}

impl fmt::Display for OpenTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.owner {
            TransactionOwner::Session(pid) => write!(f, "pid {pid}")?,
            TransactionOwner::Prepared(name) => write!(f, "the prepared transaction '{name}'")?,
        }
        let known = [
            ("database", &self.database),
            ("user", &self.user),
            ("application", &self.application),
            ("state", &self.state),
            ("statement", &self.statement),
        ];
        let known: Vec<_> = known
            .iter()
            .filter_map(|(what, value)| Some(format!("{what} {}", value.as_deref()?)))
            .collect();
        if !known.is_empty() {
            write!(f, " ({})", known.join(", "))?;
        }
        match self.since {
            Some(since) => write!(f, ", open since {since}"),
            None => {
                f.write_str(", open since a time that only a member of pg_read_all_stats may see")
            }
        }
    }
}

/// What a statement does, without its values: its first words, as far as they are nothing but words.
fn first_words(statement: &str) -> Option<String> {
    let is_word =
        |text: &&str| text.len() <= 20 && text.bytes().all(|one| one.is_ascii_alphabetic());
    let words: Vec<_> = statement.split_whitespace().take_while(is_word).take(2).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> OpenTransaction {
        OpenTransaction {
            owner: TransactionOwner::Session(4711),
            database: Some("shop".into()),
            user: Some("etl".into()),
            application: Some("psql".into()),
            state: Some("idle in transaction".into()),
            statement: first_words("  INSERT INTO account VALUES ('secret')"),
            since: Some(Timestamp::from_seconds(1_800_000_000)),
        }
    }

    #[test]
    fn a_session_is_told_with_all_that_is_known_of_it() {
        let told = "pid 4711 (database shop, user etl, application psql, state idle in transaction, \
                    statement INSERT INTO), open since 2027-01-15T08:00:00Z";
        assert_eq!(session().to_string(), told);
        assert!(session().remedy().contains("pg_terminate_backend(4711)"));
    }

    #[test]
    fn no_value_of_a_statement_is_told() {
        for (statement, told) in [
            ("SELECT pgp_sym_decrypt(card,'passphrase') FROM card", Some("SELECT")),
            ("SELECT 'secret'", Some("SELECT")),
            ("  update   shop set paid = 1", Some("update shop")),
            ("<insufficient privilege>", None),
            ("'secret'", None),
            ("", None),
        ] {
            assert_eq!(first_words(statement).as_deref(), told, "{statement}");
        }
    }

    #[test]
    fn what_our_user_may_not_see_is_said() {
        let hidden = OpenTransaction {
            state: None,
            statement: first_words("<insufficient privilege>"),
            since: None,
            ..session()
        };
        let told = "pid 4711 (database shop, user etl, application psql), \
                    open since a time that only a member of pg_read_all_stats may see";
        assert_eq!(hidden.to_string(), told);
    }

    #[test]
    fn a_prepared_transaction_is_ended_by_its_name() {
        let owner = TransactionOwner::Prepared("payment-7".into());
        let prepared =
            OpenTransaction { owner, application: None, state: None, statement: None, ..session() };
        let told = "the prepared transaction 'payment-7' (database shop, user etl), \
                    open since 2027-01-15T08:00:00Z";
        assert_eq!(prepared.to_string(), told);
        assert!(prepared.remedy().contains("ROLLBACK PREPARED 'payment-7'"));
    }
}
