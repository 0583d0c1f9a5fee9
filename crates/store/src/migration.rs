//! The schema's steps, each applied once. A newer schema than this release knows is tolerated: a migration leaves the
//! previous release working.

/// One step of the schema.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Migration {
    pub(crate) version: i64,
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

/// One step, read at compile time.
macro_rules! step {
    ($database:literal, $version:literal, $number:literal, $name:literal) => {
        Migration {
            version: $version,
            name: $name,
            sql: include_str!(concat!(
                "../migrations/",
                $database,
                "/",
                $number,
                "_",
                $name,
                ".sql"
            )),
        }
    };
}

/// The same steps for both databases, each in its own words.
macro_rules! steps {
    ($database:literal) => {
        &[
            step!($database, 1, "0001", "begin"),
            step!($database, 2, "0002", "cluster"),
            step!($database, 3, "0003", "webhook"),
            step!($database, 4, "0004", "edge"),
            step!($database, 5, "0005", "lanes"),
            step!($database, 6, "0006", "ending"),
            step!($database, 7, "0007", "turns"),
            step!($database, 8, "0008", "departure"),
            step!($database, 9, "0009", "session"),
            step!($database, 10, "0010", "refusal"),
            step!($database, 11, "0011", "retention"),
            step!($database, 12, "0012", "restore"),
            step!($database, 13, "0013", "clock"),
            step!($database, 14, "0014", "pause"),
            step!($database, 15, "0015", "unusable"),
            step!($database, 16, "0016", "chain"),
            step!($database, 17, "0017", "released"),
            step!($database, 18, "0018", "superseded"),
            step!($database, 19, "0019", "floor"),
            step!($database, 20, "0020", "tombstone"),
            step!($database, 21, "0021", "rotation"),
            step!($database, 22, "0022", "behind"),
            step!($database, 23, "0023", "gone"),
            step!($database, 24, "0024", "sealed"),
            step!($database, 25, "0025", "anew"),
            step!($database, 26, "0026", "opened"),
            step!($database, 27, "0027", "flight"),
            step!($database, 28, "0028", "late"),
            step!($database, 29, "0029", "waits"),
            step!($database, 30, "0030", "trouble"),
            step!($database, 31, "0031", "pin"),
            step!($database, 32, "0032", "failing"),
            step!($database, 33, "0033", "terms"),
            step!($database, 34, "0034", "renews"),
            step!($database, 35, "0035", "halt"),
            step!($database, 36, "0036", "rooms"),
        ]
    };
}

/// PostgreSQL's.
pub(crate) const POSTGRES: &[Migration] = steps!("postgres");

/// SQLite's.
pub(crate) const SQLITE: &[Migration] = steps!("sqlite");

/// The tables that PostgreSQL's steps make, and the one that remembers the steps.
pub(crate) fn tables() -> Vec<&'static str> {
    let made = POSTGRES.iter().flat_map(|step| step.sql.lines()).filter_map(|line| {
        let rest = line.trim_start().strip_prefix("CREATE TABLE ")?;
        let rest = rest.strip_prefix("IF NOT EXISTS ").unwrap_or(rest);
        rest.split([' ', '(']).next()
    });
    made.chain(["holdfast_migration"]).collect()
}

/// The newest step known.
pub(crate) fn newest(steps: &[Migration]) -> i64 {
    steps.last().map_or(0, |step| step.version)
}

/// What is left to do after `applied`.
pub(crate) fn pending(
    steps: &'static [Migration],
    applied: i64,
) -> impl Iterator<Item = &'static Migration> {
    steps.iter().filter(move |step| step.version > applied)
}

/// Says so where the database is ahead of us.
pub(crate) fn note_newer(steps: &[Migration], applied: i64) {
    let known = newest(steps);
    if applied > known {
        tracing::warn!(
            applied,
            known,
            "the schema is of a newer release; what it added is left alone"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_read_from_the_steps() {
        for table in ["domain", "event", "acme_account", "holdfast_migration"] {
            assert!(tables().contains(&table), "{table}: {:?}", tables());
        }
    }

    #[test]
    fn versions_rise_by_one_on_both_databases() {
        for steps in [POSTGRES, SQLITE] {
            let versions: Vec<_> = steps.iter().map(|step| step.version).collect();
            assert_eq!(versions, (1..=newest(steps)).collect::<Vec<_>>());
        }
        assert_eq!(newest(POSTGRES), newest(SQLITE));
    }
}
