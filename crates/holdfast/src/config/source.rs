//! Where a configuration comes from: a file in one of two languages, and the environment over it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::{hcl_text, keys, node::Node, problem::Problems, toml_text};
use crate::environment::Environment;

/// Largest file that is read, in bytes: far above any configuration, far below what hurts.
const LARGEST: u64 = 1024 * 1024;

/// A configuration's text, taken apart, with where each value came from.
pub(super) struct Source {
    /// The file, as it was named.
    file: String,
    /// What relative paths are relative to.
    pub(super) directory: PathBuf,
    /// The values.
    pub(super) tree: Node,
    /// Which keys the environment set, by which variable.
    from_environment: BTreeMap<String, String>,
}

impl Source {
    /// Reads a file and the environment.
    pub(super) fn read(path: &Path, environment: &Environment) -> Result<Self, Problems> {
        let file = path.display().to_string();
        let text = read_text(path, &file)?;
        let directory = path.parent().unwrap_or(Path::new("")).to_owned();
        let directory = std::path::absolute(&directory).unwrap_or(directory);
        Self::parse(&file, directory, &text, environment)
    }

    /// Takes text apart; the file's ending says which language it is.
    pub(super) fn parse(
        file: &str,
        directory: PathBuf,
        text: &str,
        environment: &Environment,
    ) -> Result<Self, Problems> {
        let ending = Path::new(file).extension().and_then(|ending| ending.to_str());
        let parsed = match ending {
            Some("toml") => toml_text::parse(text),
            Some("hcl") => hcl_text::parse(text, environment),
            _ => Err("has no ending that says its language; name it .toml or .hcl".to_owned()),
        };
        let tree = parsed.map_err(|what| Problems::with_file(file, what))?;
        let from_environment = BTreeMap::new();
        let mut source = Self { file: file.to_owned(), directory, tree, from_environment };
        for (variable, value) in environment.overrides() {
            source.set(variable, value)?;
        }
        Ok(source)
    }

    /// Puts a variable's value in its place in the tree.
    fn set(&mut self, variable: &str, value: &str) -> Result<(), Problems> {
        let path = variable.trim_start_matches(Environment::PREFIX).to_ascii_lowercase();
        let Some((section, key)) = path.split_once("__").filter(|(_, key)| !key.contains("__"))
        else {
            let what =
                "names no key; write it HOLDFAST__SECTION__KEY, such as HOLDFAST__LOG__LEVEL";
            return Err(Problems::with_file(&format!("{variable} (environment)"), what));
        };
        self.from_environment.insert(format!("{section}.{key}"), variable.to_owned());
        if let Node::Table(sections) = &mut self.tree {
            let section =
                sections.entry(section.to_owned()).or_insert(Node::Table(BTreeMap::new()));
            if let Node::Table(keys) = section {
                keys.insert(key.to_owned(), Node::Loose(value.to_owned()));
            }
        }
        Ok(())
    }

    /// `FILE: key = value`, or the variable that set it; secrets stay hidden.
    pub(super) fn place(&self, path: &str) -> String {
        let origin = match self.variable(path) {
            Some(variable) => format!("{variable} (environment, over {})", self.file),
            None => self.file.clone(),
        };
        let shown = match self.tree.at(path) {
            None | Some(Node::Table(_)) => String::new(),
            Some(_) if keys::find(path).is_some_and(|key| key.secret) => " = (hidden)".to_owned(),
            Some(node) => format!(" = {node}"),
        };
        format!("{origin}: {path}{shown}")
    }
}

impl Source {
    /// The variable that set a key, or made a section that the file does not have.
    fn variable(&self, path: &str) -> Option<&str> {
        let key = path.split('.').take(2).collect::<Vec<_>>().join(".");
        if path.contains('.') {
            return self.from_environment.get(&key).map(String::as_str);
        }
        let Some(Node::Table(keys)) = self.tree.at(path) else { return None };
        let mut set = keys.keys().map(|key| self.from_environment.get(&format!("{path}.{key}")));
        set.try_fold(None, |first: Option<&str>, set| {
            Some(first.or(set.map(String::as_str))).filter(|_| set.is_some())
        })
        .flatten()
    }
}

fn read_text(path: &Path, file: &str) -> Result<String, Problems> {
    let refuse = |what: String| Problems::with_file(file, what);
    let unreadable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            refuse("does not exist; name the configuration with --config FILE".into())
        }
        _ => refuse(format!("cannot be read ({error}); make it a file this user may read")),
    };
    let size = std::fs::metadata(path).map_err(unreadable)?.len();
    if size > LARGEST {
        return Err(refuse(format!(
            "has {size} bytes, which is no configuration; at most {LARGEST} are read"
        )));
    }
    let bytes = std::fs::read(path).map_err(unreadable)?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        refuse(format!("is not UTF-8 from byte {at} on; save it as UTF-8 text"))
    })
}
