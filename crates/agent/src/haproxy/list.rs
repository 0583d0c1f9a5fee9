//! The list on disk that names our files, for HAProxy's next start.
//!
//! Lines of others stay as they are, and ours stay where they are; what is missing comes at the end. Names that are new are
//! usually all that changed: they are appended to what was written last, if nobody else wrote there since.

use std::collections::{BTreeSet, HashSet};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use holdfast_gateway::files::{self, Access};
use holdfast_gateway::point::Point;
use holdfast_model::Hostname;
use tokio::task::JoinHandle;

use super::disk::{Disk, unusable, write};
use crate::{Error, Result};

/// A list that is being written; gives the new text, or none when somebody else wrote there.
pub(super) struct Appending(JoinHandle<Result<Option<String>>>);

impl Appending {
    pub(super) fn is_done(&self) -> bool {
        self.0.is_finished()
    }
}

impl Disk {
    /// Writes the list, if it is not as it should be: lines of others, and ours without those that go.
    pub(super) async fn write_list(&mut self, going: &HashSet<Hostname>) -> Result<()> {
        let before = read(&self.crt_list)?;
        let after = self.list(&before, going);
        let path = self.crt_list.clone();
        self.known = None;
        let after = match after == before {
            true => after,
            false => {
                self.turn.blocking(move || write(&path, after.as_bytes()).map(|()| after)).await?
            }
        };
        self.has_list(after, going);
        Ok(())
    }

    /// The same at once, for who may block.
    pub(super) fn write_list_now(&mut self) -> Result<()> {
        let before = read(&self.crt_list)?;
        let after = self.list(&before, &HashSet::new());
        if after != before {
            write(&self.crt_list, after.as_bytes())?;
        }
        self.has_list(after, &HashSet::new());
        Ok(())
    }

    fn has_list(&mut self, text: String, going: &HashSet<Hostname>) {
        for (name, entry) in &mut self.entries {
            entry.on_list = entry.adopted.is_none() && !going.contains(name);
        }
        self.known = Some(text);
    }

    /// Is the list to be written before this name is as it should be?
    pub(super) fn is_off_list(&self, name: &Hostname) -> bool {
        self.entries.get(name).is_some_and(|entry| !entry.on_list && entry.adopted.is_none())
    }

    /// Begins to put these on the list.
    pub(super) fn append(&mut self, names: &[Hostname]) -> Appending {
        let off = names.iter().filter(|name| self.is_off_list(name));
        let more: String = off.map(|name| line(&self.directory, name.as_str())).collect();
        let (path, known, turn) = (self.crt_list.clone(), self.known.take(), self.turn.clone());
        let append = move || {
            let Some(mut text) = known.filter(|_| !more.is_empty()) else { return Ok(None) };
            if read(&path)? != text {
                return Ok(None);
            }
            text.push_str(&more);
            write(&path, text.as_bytes())?;
            Ok(Some(text))
        };
        Appending(tokio::task::spawn_blocking(move || turn.run(append)))
    }

    /// Waits until they are on the list.
    pub(super) async fn appended(&mut self, begun: Appending, names: &[Hostname]) -> Result<()> {
        let Some(text) = begun.0.await.map_err(|_| Error::Stopped)?? else {
            return self.write_list(&HashSet::new()).await;
        };
        for name in names {
            if let Some(entry) = self.entries.get_mut(name) {
                entry.on_list = entry.adopted.is_none();
            }
        }
        self.known = Some(text);
        Ok(())
    }

    fn list(&self, before: &str, going: &HashSet<Hostname>) -> String {
        let ours = self.entries.iter().filter(|(_, entry)| entry.adopted.is_none());
        let mut missing: HashSet<&str> = ours
            .filter(|(name, _)| !going.contains(*name))
            .map(|(name, _)| name.as_str())
            .collect();
        let (default, mut has_default) = (self.default_file(), false);
        let mut text = String::with_capacity(before.len() + 128 * missing.len().min(1_000));
        for kept in before.lines() {
            let file = kept.split_whitespace().next().unwrap_or_default();
            has_default |= file == default;
            match self.base_name(file) {
                Some(name) if missing.remove(name) => text.push_str(&line(&self.directory, name)),
                // Twice, or of a name that goes.
                Some(_) if self.name_of(file).is_some() => {}
                _ => text.extend([kept, "\n"]),
            }
        }
        // HAProxy's first certificate is its default, and cannot be removed while it runs.
        if !has_default {
            text.insert_str(0, &format!("{default} !*\n"));
        }
        let missing: BTreeSet<_> = missing.into_iter().collect();
        text.extend(missing.into_iter().map(|name| line(&self.directory, name)));
        text
    }
}

/// A list as HAProxy has loaded it.
pub(super) struct Loaded {
    pub(super) list: String,
    pub(super) files: HashSet<String>,
}

impl Loaded {
    /// Takes the lines of files off it, on disk. Where a directory stands for a list, the files themselves are its lines.
    pub(super) fn unlist(&self, gone: &HashSet<String>) -> Result<()> {
        let path = Path::new(&self.list);
        if path.is_dir() {
            return Ok(());
        }
        // What may be a link is written where it leads.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let before = read(&path)?;
        let kept = before.lines().filter(|line| !self.is_of(line, gone));
        let after: String = kept.map(|line| format!("{line}\n")).collect();
        if after == before {
            return Ok(());
        }
        let mode = std::fs::metadata(&path).map_or(0o600, |about| about.mode());
        let access = if mode & 0o004 == 0 { Access::Private } else { Access::Public };
        Ok(files::write(Point::FILE_EDGE, &path, after.as_bytes(), access)?)
    }

    /// Does a line stand for one of these, and for no other file that it may stand for?
    fn is_of(&self, line: &str, gone: &HashSet<String>) -> bool {
        let mut others = self.files.iter().filter(|file| !gone.contains(*file));
        gone.iter().any(|file| names(line, file)) && !others.any(|other| names(line, other))
    }
}

/// Does a line of a list stand for this file, as HAProxy knows it? It may be relative to `crt-base`, which we do not know, and may leave out
/// the ending of a kind of key.
fn names(line: &str, file: &str) -> bool {
    let word = line.split([' ', '\t', '[']).find(|word| !word.is_empty()).unwrap_or_default();
    if word.is_empty() || word.starts_with('#') {
        return false;
    }
    let kinds = [".rsa", ".ecdsa", ".dsa"].iter().filter_map(|kind| file.strip_suffix(kind));
    std::iter::once(file).chain(kinds).any(|file| {
        let before = file.strip_suffix(word);
        before == Some("")
            || !word.starts_with('/') && before.is_some_and(|base| base.ends_with('/'))
    })
}

fn line(directory: &str, name: &str) -> String {
    format!("{directory}/{name}.pem {name}\n")
}

/// A list that is not there is empty.
fn read(path: &Path) -> Result<String> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        Err(source) => Err(unusable(path, source)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::HaproxyConfig;
    use super::super::disk::Entry;
    use super::*;
    use crate::checked::Print;
    use crate::turn::Turn;

    struct Ground {
        scratch: holdfast_testkit::Scratch,
        disk: Disk,
    }

    impl Ground {
        fn new() -> Self {
            let scratch = holdfast_testkit::Scratch::new().unwrap();
            let at = |name: &str| scratch.path().join(name);
            let (socket, probe) = ("/s".parse().unwrap(), ([127, 0, 0, 1], 1).into());
            let config = HaproxyConfig::new(socket, at("c"), at("list"), probe, at("data"));
            let disk = Disk::open(&config, Turn::default()).unwrap();
            Self { scratch, disk }
        }

        fn hold(&mut self, names: &[&str]) -> Vec<Hostname> {
            let names: Vec<_> = names.iter().map(|name| Hostname::parse(name).unwrap()).collect();
            for name in &names {
                self.disk.entries.insert(name.clone(), Entry::new(Print::of(b""), None));
            }
            names
        }

        fn say(&self, text: &str) {
            self.scratch.write("list", text).unwrap();
        }

        fn text(&self) -> String {
            let text = std::fs::read_to_string(self.scratch.path().join("list")).unwrap();
            text.replace(&format!("{}/", self.scratch.path().display()), "")
        }
    }

    #[tokio::test]
    async fn lines_stay_where_they_are_and_what_is_missing_comes_at_the_end() {
        let mut ground = Ground::new();
        assert_eq!(ground.text(), "c/_default.pem !*\n");
        let at = ground.scratch.path().join("c").display().to_string();
        ground.say(&format!(
            "# mine\n{at}/b.test.pem b.test\n/x/y.pem y.test\n{at}/gone.test.pem gone.test\n{at}/b.test.pem other.test\n{at}/UPPER.pem x\n{at}/_default.pem !*\n"
        ));
        ground.hold(&["c.test", "b.test", "a.test"]);
        let wanted = "# mine\nc/b.test.pem b.test\n/x/y.pem y.test\nc/UPPER.pem x\nc/_default.pem !*\nc/a.test.pem a.test\nc/c.test.pem c.test\n";
        ground.disk.write_list(&HashSet::new()).await.unwrap();
        assert_eq!(ground.text(), wanted);
        ground.disk.write_list(&HashSet::new()).await.unwrap();
        assert_eq!(ground.text(), wanted);
        let going = HashSet::from([Hostname::parse("b.test").unwrap()]);
        ground.disk.write_list(&going).await.unwrap();
        assert_eq!(ground.text(), wanted.replace("c/b.test.pem b.test\n", ""));
    }

    #[test]
    fn a_line_that_may_stand_for_another_file_stays() {
        let scratch = holdfast_testkit::Scratch::new().unwrap();
        let text = "site.pem\nold/site.pem a.test b.test\n/d/a.pem\n# mine\n";
        let list = scratch.write("list", text).unwrap();
        let set = |files: &[&str]| files.iter().map(|&file| file.to_owned()).collect();
        let files = set(&["/c/site.pem", "/c/old/site.pem", "/d/a.pem", "/d/a.pem.rsa"]);
        let loaded = Loaded { list: list.display().to_string(), files };
        loaded.unlist(&set(&["/c/old/site.pem", "/d/a.pem.rsa"])).unwrap();
        assert_eq!(std::fs::read_to_string(list).unwrap(), "site.pem\n/d/a.pem\n# mine\n");
    }

    #[test]
    fn a_line_stands_for_a_file_in_several_ways() {
        for (line, file, wanted) in [
            ("/d/a.pem", "/d/a.pem", true),
            ("  /d/a.pem [alpn h2] a.test", "/d/a.pem", true),
            ("/d/a.pem[alpn h2]", "/d/a.pem", true),
            ("sub/a.pem a.test", "/d/sub/a.pem", true),
            ("/d/a.pem", "/d/a.pem.ecdsa", true),
            ("a.pem", "/d/a.pem.rsa", true),
            ("a.pem", "/d/aa.pem", false),
            ("/d/a.pem", "/x/d/a.pem", false),
            ("# /d/a.pem", "/d/a.pem", false),
            ("", "/d/a.pem", false),
        ] {
            assert_eq!(names(line, file), wanted, "{line} {file}");
        }
    }

    #[tokio::test]
    async fn what_is_appended_stands_there_once_whoever_else_writes() {
        let mut ground = Ground::new();
        let first = ground.hold(&["b.test", "a.test"]);
        let begun = ground.disk.append(&first);
        ground.disk.appended(begun, &first).await.unwrap();
        let mut wanted = "c/_default.pem !*\nc/b.test.pem b.test\nc/a.test.pem a.test\n".to_owned();
        assert_eq!(ground.text(), wanted);
        // Somebody adds a line and takes one of ours away.
        let at = ground.scratch.path().join("c").display().to_string();
        ground.say(&format!("{at}/_default.pem !*\n/x/y.pem y.test\n{at}/b.test.pem b.test\n"));
        let more = ground.hold(&["c.test"]);
        let begun = ground.disk.append(&more);
        ground.disk.appended(begun, &more).await.unwrap();
        wanted = "c/_default.pem !*\n/x/y.pem y.test\nc/b.test.pem b.test\nc/a.test.pem a.test\nc/c.test.pem c.test\n".to_owned();
        assert_eq!(ground.text(), wanted);
        let again = ground.disk.append(&more);
        ground.disk.appended(again, &more).await.unwrap();
        assert_eq!(ground.text(), wanted);
        assert!(!ground.disk.is_off_list(&more[0]));
    }
}
