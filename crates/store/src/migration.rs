//! The schema's steps, each applied once. A newer schema than this release knows is tolerated: a migration leaves the
//! previous release working.

/// One step of the schema.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Migration {
    pub(crate) version: i64,
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

/// PostgreSQL's.
pub(crate) const POSTGRES: &[Migration] = &[
    Migration {
        version: 1,
        name: "begin",
        sql: include_str!("../migrations/postgres/0001_begin.sql"),
    },
    Migration {
        version: 2,
        name: "cluster",
        sql: include_str!("../migrations/postgres/0002_cluster.sql"),
    },
    Migration {
        version: 3,
        name: "webhook",
        sql: include_str!("../migrations/postgres/0003_webhook.sql"),
    },
    Migration {
        version: 4,
        name: "edge",
        sql: include_str!("../migrations/postgres/0004_edge.sql"),
    },
    Migration {
        version: 5,
        name: "lanes",
        sql: include_str!("../migrations/postgres/0005_lanes.sql"),
    },
    Migration {
        version: 6,
        name: "ending",
        sql: include_str!("../migrations/postgres/0006_ending.sql"),
    },
    Migration {
        version: 7,
        name: "turns",
        sql: include_str!("../migrations/postgres/0007_turns.sql"),
    },
    Migration {
        version: 8,
        name: "departure",
        sql: include_str!("../migrations/postgres/0008_departure.sql"),
    },
    Migration {
        version: 9,
        name: "session",
        sql: include_str!("../migrations/postgres/0009_session.sql"),
    },
    Migration {
        version: 10,
        name: "refusal",
        sql: include_str!("../migrations/postgres/0010_refusal.sql"),
    },
    Migration {
        version: 11,
        name: "retention",
        sql: include_str!("../migrations/postgres/0011_retention.sql"),
    },
    Migration {
        version: 12,
        name: "restore",
        sql: include_str!("../migrations/postgres/0012_restore.sql"),
    },
    Migration {
        version: 13,
        name: "clock",
        sql: include_str!("../migrations/postgres/0013_clock.sql"),
    },
    Migration {
        version: 14,
        name: "pause",
        sql: include_str!("../migrations/postgres/0014_pause.sql"),
    },
    Migration {
        version: 15,
        name: "unusable",
        sql: include_str!("../migrations/postgres/0015_unusable.sql"),
    },
    Migration {
        version: 16,
        name: "chain",
        sql: include_str!("../migrations/postgres/0016_chain.sql"),
    },
    Migration {
        version: 17,
        name: "growth",
        sql: include_str!("../migrations/postgres/0017_growth.sql"),
    },
];

/// SQLite's.
pub(crate) const SQLITE: &[Migration] = &[
    Migration {
        version: 1,
        name: "begin",
        sql: include_str!("../migrations/sqlite/0001_begin.sql"),
    },
    Migration {
        version: 2,
        name: "cluster",
        sql: include_str!("../migrations/sqlite/0002_cluster.sql"),
    },
    Migration {
        version: 3,
        name: "webhook",
        sql: include_str!("../migrations/sqlite/0003_webhook.sql"),
    },
    Migration { version: 4, name: "edge", sql: include_str!("../migrations/sqlite/0004_edge.sql") },
    Migration {
        version: 5,
        name: "lanes",
        sql: include_str!("../migrations/sqlite/0005_lanes.sql"),
    },
    Migration {
        version: 6,
        name: "ending",
        sql: include_str!("../migrations/sqlite/0006_ending.sql"),
    },
    Migration {
        version: 7,
        name: "turns",
        sql: include_str!("../migrations/sqlite/0007_turns.sql"),
    },
    Migration {
        version: 8,
        name: "departure",
        sql: include_str!("../migrations/sqlite/0008_departure.sql"),
    },
    Migration {
        version: 9,
        name: "session",
        sql: include_str!("../migrations/sqlite/0009_session.sql"),
    },
    Migration {
        version: 10,
        name: "refusal",
        sql: include_str!("../migrations/sqlite/0010_refusal.sql"),
    },
    Migration {
        version: 11,
        name: "retention",
        sql: include_str!("../migrations/sqlite/0011_retention.sql"),
    },
    Migration {
        version: 12,
        name: "restore",
        sql: include_str!("../migrations/sqlite/0012_restore.sql"),
    },
    Migration {
        version: 13,
        name: "clock",
        sql: include_str!("../migrations/sqlite/0013_clock.sql"),
    },
    Migration {
        version: 14,
        name: "pause",
        sql: include_str!("../migrations/sqlite/0014_pause.sql"),
    },
    Migration {
        version: 15,
        name: "unusable",
        sql: include_str!("../migrations/sqlite/0015_unusable.sql"),
    },
    Migration {
        version: 16,
        name: "chain",
        sql: include_str!("../migrations/sqlite/0016_chain.sql"),
    },
    Migration {
        version: 17,
        name: "growth",
        sql: include_str!("../migrations/sqlite/0017_growth.sql"),
    },
];

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
    fn versions_rise_by_one_on_both_databases() {
        for steps in [POSTGRES, SQLITE] {
            let versions: Vec<_> = steps.iter().map(|step| step.version).collect();
            assert_eq!(versions, (1..=newest(steps)).collect::<Vec<_>>());
        }
        assert_eq!(newest(POSTGRES), newest(SQLITE));
    }
}
