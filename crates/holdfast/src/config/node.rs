//! A configuration before it is understood: a tree of values, whatever language they were written in.
//!
//! Reading it is serde's business. Values from the environment are *loose*: text that becomes what the
//! reader asks for.

use std::{collections::BTreeMap, fmt};

use serde::de::{
    self, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Unexpected,
    Visitor, value::StrDeserializer,
};

/// One value, or a tree of them.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    /// Nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Float(f64),
    /// A text.
    Text(String),
    /// A text from the environment; the reader decides what it is.
    Loose(String),
    /// A list.
    List(Vec<Node>),
    /// A section.
    Table(BTreeMap<String, Node>),
}

impl Node {
    /// What lies at a dotted path.
    pub(super) fn at(&self, path: &str) -> Option<&Node> {
        path.split('.').try_fold(self, |node, step| match node {
            Self::Table(table) => table.get(step),
            Self::List(list) => list.get(step.parse::<usize>().ok()?),
            _ => None,
        })
    }

    /// As a whole number, if it is one.
    pub(super) fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            Self::Loose(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    fn unexpected(&self) -> Unexpected<'_> {
        match self {
            Self::Null => Unexpected::Unit,
            Self::Bool(value) => Unexpected::Bool(*value),
            Self::Integer(value) => Unexpected::Signed(*value),
            Self::Float(value) => Unexpected::Float(*value),
            Self::Text(text) | Self::Loose(text) => Unexpected::Str(text),
            Self::List(_) => Unexpected::Seq,
            Self::Table(_) => Unexpected::Map,
        }
    }
}

/// As it would stand in a file, cut short: for messages.
impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Text(text) | Self::Loose(text) => write!(f, "{:?}", shortened(text)),
            Self::List(items) => write!(f, "[{} values]", items.len()),
            Self::Table(_) => f.write_str("{…}"),
        }
    }
}

fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(60).collect();
    if text.chars().nth(60).is_some() {
        short.push('…');
    }
    short
}

/// Why a node is not what its reader wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mismatch {
    /// No such key; these are known.
    UnknownKey(&'static [&'static str]),
    /// One of these words was wanted.
    UnknownWord(&'static [&'static str]),
    /// A key that must be there is not.
    Missing(&'static str),
    /// Of another type.
    WrongType,
    /// Of the right type, and refused all the same.
    Refused(String),
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for Mismatch {}

impl de::Error for Mismatch {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Refused(message.to_string())
    }

    fn invalid_type(_: Unexpected<'_>, _: &dyn de::Expected) -> Self {
        Self::WrongType
    }

    fn invalid_value(_: Unexpected<'_>, _: &dyn de::Expected) -> Self {
        Self::WrongType
    }

    fn unknown_field(_: &str, known: &'static [&'static str]) -> Self {
        Self::UnknownKey(known)
    }

    fn unknown_variant(_: &str, known: &'static [&'static str]) -> Self {
        Self::UnknownWord(known)
    }

    fn missing_field(field: &'static str) -> Self {
        Self::Missing(field)
    }
}

macro_rules! numbers {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
            match self.integer() {
                Some(number) => visitor.visit_i64(number),
                None => Err(de::Error::invalid_type(self.unexpected(), &visitor)),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Node {
    type Error = Mismatch;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self {
            Self::Null => visitor.visit_unit(),
            Self::Bool(value) => visitor.visit_bool(value),
            Self::Integer(value) => visitor.visit_i64(value),
            Self::Float(value) => visitor.visit_f64(value),
            Self::Text(text) | Self::Loose(text) => visitor.visit_string(text),
            Self::List(items) => visitor.visit_seq(Items(items.into_iter())),
            Self::Table(table) => {
                visitor.visit_map(Entries { rest: table.into_iter(), value: None })
            }
        }
    }

    numbers!(deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
             deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64);

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        let Self::Loose(text) = &self else { return self.deserialize_any(visitor) };
        match text.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => visitor.visit_bool(true),
            "false" | "no" | "off" | "0" => visitor.visit_bool(false),
            _ => Err(Mismatch::WrongType),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self {
            Self::Null => visitor.visit_none(),
            Self::Loose(text) if text.is_empty() => visitor.visit_none(),
            other => visitor.visit_some(other),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self {
            Self::Loose(text) => visitor.visit_seq(Items(loose_items(&text)?.into_iter())),
            other => other.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        match &self {
            Self::Text(text) | Self::Loose(text) => {
                let word: StrDeserializer<'_, Mismatch> = text.as_str().into_deserializer();
                visitor.visit_enum(word)
            }
            _ => Err(Mismatch::WrongType),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        visitor.visit_newtype_struct(self)
    }

    serde::forward_to_deserialize_any! {
        i128 u128 f32 f64 char str string bytes byte_buf unit unit_struct tuple tuple_struct map
        struct identifier ignored_any
    }
}

/// A list in the environment: JSON, or separated by commas.
fn loose_items(text: &str) -> Result<Vec<Node>, Mismatch> {
    if text.trim_start().starts_with('[') {
        let items: Vec<String> = serde_json::from_str(text).map_err(|_| Mismatch::WrongType)?;
        return Ok(items.into_iter().map(Node::Loose).collect());
    }
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    Ok(items.map(|item| Node::Loose(item.to_owned())).collect())
}

struct Items(std::vec::IntoIter<Node>);

impl<'de> SeqAccess<'de> for Items {
    type Error = Mismatch;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Mismatch> {
        self.0.next().map(|node| seed.deserialize(node)).transpose()
    }
}

struct Entries {
    rest: std::collections::btree_map::IntoIter<String, Node>,
    value: Option<Node>,
}

impl<'de> MapAccess<'de> for Entries {
    type Error = Mismatch;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Mismatch> {
        let Some((key, value)) = self.rest.next() else { return Ok(None) };
        self.value = Some(value);
        seed.deserialize(key.into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Mismatch> {
        seed.deserialize(self.value.take().unwrap_or(Node::Null))
    }
}
