//! TOML into a tree of values. Messages name the line and never quote it: it may hold a secret.

use super::node::Node;

/// Takes a document apart, or says in a clause what is wrong with it.
pub(super) fn parse(text: &str) -> Result<Node, String> {
    match text.parse::<toml::Table>() {
        Ok(table) => Ok(node(toml::Value::Table(table))),
        Err(error) => {
            let line = error.span().map_or(0, |span| line_of(text, span.start));
            // A parser's message may have several lines; what it expected stands in the later ones.
            let message = error.message().lines().collect::<Vec<_>>().join(", ");
            Err(format!("line {line} is not TOML ({message}); mend that line"))
        }
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

fn node(value: toml::Value) -> Node {
    match value {
        toml::Value::String(text) => Node::Text(text),
        toml::Value::Integer(number) => Node::Integer(number),
        toml::Value::Float(number) => Node::Float(number),
        toml::Value::Boolean(value) => Node::Bool(value),
        toml::Value::Datetime(at) => Node::Text(at.to_string()),
        toml::Value::Array(items) => Node::List(items.into_iter().map(node).collect()),
        toml::Value::Table(table) => {
            Node::Table(table.into_iter().map(|(key, value)| (key, node(value))).collect())
        }
    }
}
