//! What the database's role may do to the schema. A migration needs more than work does.

use std::fmt;

/// What the role lacks to change the schema.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MissingRights {
    /// The role.
    pub role: String,
    /// The schema in which tables are made; none where the search path leads to none.
    pub schema: Option<String>,
    /// May the role make tables there?
    pub may_create: bool,
    /// Tables of ours that another role owns, each with its owner.
    pub foreign: Vec<(String, String)>,
}

impl MissingRights {
    /// Does it lack anything?
    #[must_use]
    pub fn is_some(&self) -> bool {
        !self.may_create || !self.foreign.is_empty()
    }

    /// What to do, as statements of an owner.
    #[must_use]
    pub fn fix(&self) -> String {
        let role = &self.role;
        let mut steps = Vec::new();
        match &self.schema {
            None => steps.push(format!("give {role} a schema (CREATE SCHEMA {role} AUTHORIZATION {role}, or ALTER ROLE {role} SET search_path)")),
            Some(schema) if !self.may_create => {
                steps.push(format!("GRANT USAGE, CREATE ON SCHEMA {schema} TO {role}"));
            }
            Some(_) => {}
        }
        if let Some((table, owner)) = self.foreign.first() {
            steps.push(format!(
                "ALTER TABLE {table} OWNER TO {role} for each table of Holdfast, or GRANT {owner} TO {role}"
            ));
        }
        format!("As an owner of the database: {}.", steps.join("; "))
    }
}

impl fmt::Display for MissingRights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lacks = Vec::new();
        match &self.schema {
            None => lacks.push("its search_path leads to no schema".to_owned()),
            Some(schema) if !self.may_create => {
                lacks.push(format!("it lacks CREATE on schema {schema}"));
            }
            Some(_) => {}
        }
        if let Some((table, owner)) = self.foreign.first() {
            let more = match self.foreign.len() {
                1 => String::new(),
                many => format!(" and {} more", many - 1),
            };
            lacks.push(format!("it does not own table {table}{more}, {owner} does"));
        }
        write!(f, "role {} may not change the schema: {}", self.role, lacks.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_remedy() {
        let mut rights = MissingRights {
            role: "hf".into(),
            schema: Some("public".into()),
            ..Default::default()
        };
        assert!(rights.is_some());
        assert_eq!(
            rights.to_string(),
            "role hf may not change the schema: it lacks CREATE on schema public"
        );
        assert!(rights.fix().contains("GRANT USAGE, CREATE ON SCHEMA public TO hf"));
        rights.may_create = true;
        assert!(!rights.is_some());
        rights.foreign = vec![("domain".into(), "root".into()), ("event".into(), "root".into())];
        assert!(rights.to_string().contains("table domain and 1 more, root does"), "{rights}");
        assert!(rights.fix().contains("GRANT root TO hf"));
    }
}
