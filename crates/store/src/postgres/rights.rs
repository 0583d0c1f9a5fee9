//! What the role may do to the schema. Asked on a session of its own.

use sqlx::{Connection as _, PgConnection, Row as _};

use super::{hosts, no_session};
use crate::{Error, Result, migration::tables, rights::MissingRights};

const ROLE: &str = "
    SELECT current_user::text AS role, current_schema()::text AS schema,
        coalesce(has_schema_privilege(current_user, current_schema(), 'CREATE'), false) AS may_create";

const FOREIGN: &str = "
    SELECT c.relname::text AS name, pg_get_userbyid(c.relowner)::text AS owner
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = current_schema() AND c.relkind IN ('r', 'p') AND c.relname = ANY ($1)
        AND NOT pg_has_role(current_user, c.relowner, 'USAGE')
    ORDER BY c.relname";

/// What the role of this URL lacks.
pub(crate) async fn missing_rights(url: &str) -> Result<MissingRights> {
    let connected = hosts(url)?.named("holdfast-rights").connect().await;
    let mut session = connected.map_err(|source| no_session("look at rights", source))?;
    let rights = of_session(&mut session).await;
    session.close().await.ok();
    rights.map_err(|source| Error::Database { at: "look at rights", source })
}

pub(super) async fn of_session(session: &mut PgConnection) -> sqlx::Result<MissingRights> {
    let row = sqlx::query(ROLE).fetch_one(&mut *session).await?;
    let foreign = sqlx::query(FOREIGN).bind(tables()).fetch_all(&mut *session).await?;
    let foreign = foreign.iter().map(|row| Ok((row.try_get("name")?, row.try_get("owner")?)));
    Ok(MissingRights {
        role: row.try_get("role")?,
        schema: row.try_get("schema")?,
        may_create: row.try_get("may_create")?,
        foreign: foreign.collect::<sqlx::Result<_>>()?,
    })
}
