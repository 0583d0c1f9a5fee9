//! HCL into a tree of values: one block per section, plain values, and `env("NAME")`.
//!
//! Nothing else of HCL is evaluated: a configuration that computes is one that nobody can read. Messages
//! never quote a line: it may hold a secret.

use std::collections::BTreeMap;

use hcl::{Block, Body, Expression, Structure, Template, expr::FuncCall, template::Element};

use super::node::Node;
use crate::environment::Environment;

/// Deepest nesting of brackets that is handed to the parser, which recurses.
const DEEPEST: usize = 32;

/// Takes a document apart, or says in a clause what is wrong with it.
pub(super) fn parse(text: &str, environment: &Environment) -> Result<Node, String> {
    if nesting(text) > DEEPEST {
        return Err(format!("nests brackets more than {DEEPEST} deep; a configuration is flat"));
    }
    let body: Body = hcl::parse(text).map_err(|error| unparsable(&error))?;
    let mut sections = BTreeMap::new();
    for structure in body.into_inner() {
        let block = match structure {
            Structure::Block(block) => block,
            Structure::Attribute(attribute) => {
                let key = attribute.key();
                return Err(format!(
                    "{key} stands outside a section; write it in a block such as server {{ … }}"
                ));
            }
        };
        let (name, section) = section(block, environment)?;
        if sections.insert(name.clone(), section).is_some() {
            return Err(format!("{name} has two blocks; write one block per section"));
        }
    }
    Ok(Node::Table(sections))
}

/// How deep brackets nest; each sign of a run such as `!!!` nests too.
fn nesting(text: &str) -> usize {
    let (mut depth, mut run, mut deepest) = (0_usize, 0, 0);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b'!' | b'-' => run += 1,
            b' ' | b'\t' => {}
            _ => run = 0,
        }
        deepest = deepest.max(depth + run);
    }
    deepest
}

fn unparsable(error: &hcl::Error) -> String {
    match error {
        hcl::Error::Parse(error) => {
            let line = error.location().line();
            format!("line {line} is not HCL ({}); mend that line", error.message())
        }
        other => format!("is not HCL ({other}); mend it"),
    }
}

fn section(block: Block, environment: &Environment) -> Result<(String, Node), String> {
    let name = block.identifier().to_owned();
    if !block.labels().is_empty() {
        return Err(format!("{name} has a label; write the block as {name} {{ … }}"));
    }
    let mut keys = BTreeMap::new();
    for structure in block.body.into_inner() {
        let attribute = match structure {
            Structure::Attribute(attribute) => attribute,
            Structure::Block(inner) => {
                let inner = inner.identifier();
                return Err(format!(
                    "{name}.{inner} is a block in a block; write it as {inner} = …"
                ));
            }
        };
        let key = attribute.key().to_owned();
        let value =
            value(attribute.expr(), environment).map_err(|what| format!("{name}.{key} {what}"))?;
        keys.insert(key, value);
    }
    Ok((name, Node::Table(keys)))
}

fn value(expression: &Expression, environment: &Environment) -> Result<Node, String> {
    Ok(match expression {
        Expression::Null => Node::Null,
        Expression::Bool(value) => Node::Bool(*value),
        Expression::Number(number) => match number.as_i64() {
            Some(whole) => Node::Integer(whole),
            None => Node::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Expression::String(text) => Node::Text(text.clone()),
        Expression::Array(items) => {
            Node::List(items.iter().map(|item| value(item, environment)).collect::<Result<_, _>>()?)
        }
        Expression::Parenthesis(inner) => value(inner, environment)?,
        Expression::FuncCall(call) => Node::Loose(called(call, environment)?),
        Expression::TemplateExpr(template) => {
            let template = Template::from_expr(template).map_err(|error| unparsable(&error))?;
            Node::Text(filled(&template, environment)?)
        }
        _ => return Err(COMPUTED.to_owned()),
    })
}

const COMPUTED: &str = "is computed; write a plain value, a list, or env(\"NAME\")";

fn called(call: &FuncCall, environment: &Environment) -> Result<String, String> {
    let [Expression::String(variable)] = call.args.as_slice() else {
        return Err(COMPUTED.to_owned());
    };
    if call.name.is_namespaced() || call.name.name.as_str() != "env" {
        return Err(COMPUTED.to_owned());
    }
    match environment.value(variable) {
        Some(value) => Ok(value.to_owned()),
        None => Err(format!(
            "asks for env(\"{variable}\"), which is not set; export {variable} before the start"
        )),
    }
}

fn filled(template: &Template, environment: &Environment) -> Result<String, String> {
    let mut text = String::new();
    for element in template.elements() {
        match element {
            Element::Literal(literal) => text.push_str(literal),
            Element::Interpolation(interpolation) => match &interpolation.expr {
                Expression::FuncCall(call) => text.push_str(&called(call, environment)?),
                _ => return Err(COMPUTED.to_owned()),
            },
            Element::Directive(_) => return Err(COMPUTED.to_owned()),
        }
    }
    Ok(text)
}
