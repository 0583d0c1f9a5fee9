//! Copies every row that one domain has in every table, for as many others.

use anyhow::{Result, ensure};

use super::Seeding;
use super::connection::Connection;

/// Due rows are spread over a month, as renewals are.
const SPREAD_SECONDS: u32 = 30 * 24 * 3600;

/// A table, which of its rows are the one domain's, and what the copies have of their own.
struct Copied {
    table: &'static str,
    whose: &'static str,
    own: Vec<(&'static str, String)>,
}

pub(super) async fn multiply(connection: &mut Connection, seeding: &Seeding<'_>) -> Result<()> {
    let others = seeding.size.saturating_sub(1);
    ensure!(others > 0, "there is nothing to multiply");
    for name in [seeding.template, seeding.suffix] {
        ensure!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte)));
    }
    connection.execute("BEGIN".into()).await?;
    let spread = connection.later("o.due_at", &format!("s.n * {}", SPREAD_SECONDS / seeding.size));
    prepare(connection, seeding, others).await?;
    for copied in tables(&spread) {
        let columns = connection.columns(copied.table).await?;
        connection.execute(copied.sql(&columns)).await?;
    }
    // As if each had been deployed, and the edge had seen them all.
    connection.execute(format!("UPDATE revision SET number = number + {others}")).await?;
    connection.execute("UPDATE edge SET revision = (SELECT number FROM revision)".into()).await?;
    connection.execute("COMMIT".into()).await
}

/// The identities of the others, and those of the one.
async fn prepare(connection: &mut Connection, seeding: &Seeding<'_>, others: u32) -> Result<()> {
    let (numbers, id) = (connection.numbers(others), connection.random_id());
    let (padded, suffix) = (connection.padded("n"), seeding.suffix);
    let fingerprint = connection.fingerprint("n");
    connection
        .execute(format!(
            "CREATE TEMPORARY TABLE seed AS {numbers}
             SELECT n, 'd' || {padded} || '.{suffix}' AS name, {id} AS domain, {id} AS certificate, {id} AS claim, {id} AS placed,
                 {fingerprint} AS fingerprint
             FROM numbers"
        ))
        .await?;
    connection
        .execute(format!(
            "CREATE TEMPORARY TABLE template AS
             SELECT id, certificate_id FROM domain WHERE name = '{}'",
            seeding.template
        ))
        .await
}

fn tables(spread: &str) -> Vec<Copied> {
    let by_domain = "o.domain_id = (SELECT id FROM template)";
    let by_certificate = "o.id = (SELECT certificate_id FROM template)";
    let copied = |table, whose, own: &[(&'static str, &str)]| Copied {
        table,
        whose,
        own: own.iter().map(|(column, value)| (*column, (*value).to_owned())).collect(),
    };
    vec![
        copied(
            "claim",
            by_domain,
            &[
                ("id", "s.claim"),
                ("resource", "s.name"),
                ("name", "s.name"),
                ("orchestration_id", "s.name"),
                ("domain_id", "s.domain"),
            ],
        ),
        copied(
            "certificate",
            by_certificate,
            &[("id", "s.certificate"), ("domain_id", "s.domain"), ("sha256", "s.fingerprint")],
        ),
        copied("sealed", by_certificate, &[("id", "s.certificate")]),
        copied("acme_order", by_domain, &[("id", "s.placed"), ("domain_id", "s.domain")]),
        copied(
            "deployment",
            by_domain,
            &[
                ("name", "s.name"),
                ("domain_id", "s.domain"),
                ("certificate_id", "s.certificate"),
                ("revision", "o.revision + s.n"),
            ],
        ),
        copied("observation", by_domain, &[("domain_id", "s.domain")]),
        copied("event", by_domain, &[("domain_id", "s.domain"), ("subject", "s.name")]),
        copied(
            "domain",
            "o.id = (SELECT id FROM template)",
            &[
                ("id", "s.domain"),
                ("name", "s.name"),
                ("resource", "s.name"),
                ("orchestration_id", "s.name"),
                ("certificate_id", "s.certificate"),
                ("due_at", spread),
                ("next_attempt_at", spread),
            ],
        ),
    ]
}

impl Copied {
    fn sql(&self, columns: &[String]) -> String {
        let own = |column: &String| self.own.iter().find(|(name, _)| name == column);
        let values: Vec<String> = columns
            .iter()
            .map(|column| own(column).map_or_else(|| format!("o.{column}"), |(_, sql)| sql.clone()))
            .collect();
        format!(
            "INSERT INTO {table} ({}) SELECT {} FROM {table} o CROSS JOIN seed s WHERE {} ORDER BY s.n",
            columns.join(", "),
            values.join(", "),
            self.whose,
            table = self.table
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_keeps_what_is_not_its_own() {
        let copied = Copied { table: "t", whose: "o.id = 1", own: vec![("id", "s.id".into())] };
        assert_eq!(
            copied.sql(&["id".into(), "text".into()]),
            "INSERT INTO t (id, text) SELECT s.id, o.text FROM t o CROSS JOIN seed s WHERE o.id = 1 ORDER BY s.n"
        );
    }
}
