//! HAProxy's crt-list: one certificate a line, options in brackets, then the names it is served for.
//!
//! `FILE [OPTIONS…] FILTER…`; a filter is a name, `*.name` for everything one label below, `!name` for what is left out. Without a
//! filter that lets anything in, the certificate's own names count. Lines that begin with `#` are comments.

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// From one.
    pub(super) number: usize,
    pub(super) file: String,
    pub(super) filters: Vec<Filter>,
}

/// What a certificate is, or is not, served for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Filter {
    Name(String),
    /// Everything one label below it.
    Below(String),
    /// Everything.
    All,
    Not(Box<Filter>),
}

/// Reads a whole list. A line that is none is given back with what is wrong with it.
pub(super) fn parse(text: &str) -> Vec<Result<Line, (usize, String)>> {
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines.map(|(number, line)| line_of(number, line).map_err(|why| (number, why))).collect()
}

fn line_of(number: usize, line: &str) -> Result<Line, String> {
    let end = line.find(|c: char| c.is_whitespace() || c == '[').unwrap_or(line.len());
    let (file, rest) = line.split_at(end);
    if file.is_empty() {
        return Err("begins with options; the file's name comes first".to_owned());
    }
    let rest = match rest.trim_start().strip_prefix('[') {
        Some(options) => {
            let (_, rest) = options.split_once(']').ok_or("has `[` without `]`")?;
            rest
        }
        None => rest,
    };
    if rest.contains(['[', ']']) {
        return Err("has brackets where names are expected".to_owned());
    }
    let filters = rest.split_whitespace().map(filter).collect();
    Ok(Line { number, file: file.to_owned(), filters })
}

fn filter(word: &str) -> Filter {
    match word.strip_prefix('!') {
        Some(rest) => Filter::Not(Box::new(filter(rest))),
        None if word == "*" => Filter::All,
        None => match word.strip_prefix("*.") {
            Some(parent) => Filter::Below(parent.to_ascii_lowercase()),
            None => Filter::Name(word.to_ascii_lowercase()),
        },
    }
}

/// What a line is to be imported for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Served {
    /// These names.
    pub(super) names: Vec<String>,
    /// These are asked for too, and cannot be.
    pub(super) wildcards: Vec<String>,
}

impl Line {
    /// The names it is served for, given those that its certificate covers.
    pub(super) fn served(&self, covered: &[String]) -> Served {
        let wanted = || self.filters.iter().filter(|filter| !matches!(filter, Filter::Not(_)));
        let mut served = Served::default();
        let own = covered.iter().filter(|name| wanted().next().is_none() || self.is_wanted(name));
        for name in own {
            match name.starts_with("*.") {
                true => add(&mut served.wildcards, name),
                false => self.let_in(&mut served, name),
            }
        }
        for filter in wanted() {
            match filter {
                Filter::Name(name) => self.let_in(&mut served, name),
                Filter::Below(parent) => {
                    let wildcard = format!("*.{parent}");
                    if covered.contains(&wildcard) {
                        add(&mut served.wildcards, &wildcard);
                    }
                }
                Filter::All | Filter::Not(_) => {}
            }
        }
        served.wildcards.retain(|name| !self.is_left_out(name));
        served
    }

    /// Does it say of everything that it is left out? So a certificate is kept loaded and never served.
    pub(super) fn serves_nothing(&self) -> bool {
        self.filters.contains(&Filter::Not(Box::new(Filter::All)))
    }

    fn let_in(&self, served: &mut Served, name: &str) {
        if !self.is_left_out(name) {
            add(&mut served.names, name);
        }
    }

    fn is_wanted(&self, name: &str) -> bool {
        self.filters.iter().any(|filter| matches(filter, name))
    }

    fn is_left_out(&self, name: &str) -> bool {
        self.filters.iter().any(|filter| matches!(filter, Filter::Not(out) if matches(out, name)))
    }
}

fn add(names: &mut Vec<String>, name: &str) {
    if !names.iter().any(|known| known == name) {
        names.push(name.to_owned());
    }
}

fn matches(filter: &Filter, name: &str) -> bool {
    match filter {
        Filter::All => true,
        Filter::Name(wanted) => wanted == name,
        Filter::Below(parent) => name.split_once('.').is_some_and(|(_, rest)| rest == parent),
        Filter::Not(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(line: &str, covered: &[&str], names: &[&str], wildcards: &[&str]) {
        let lines = parse(line);
        let line = lines.into_iter().next().unwrap().unwrap();
        let covered: Vec<_> = covered.iter().map(|name| (*name).to_owned()).collect();
        let served = line.served(&covered);
        assert_eq!(
            (served.names, served.wildcards),
            (
                names.iter().map(|name| (*name).to_owned()).collect(),
                wildcards.iter().map(|name| (*name).to_owned()).collect(),
            )
        );
    }

    #[test]
    fn names_are_those_of_the_filters_or_the_certificates_own() {
        check("a.pem", &["a.test", "b.test"], &["a.test", "b.test"], &[]);
        check("a.pem b.test", &["a.test", "b.test"], &["b.test"], &[]);
        check(
            "a.pem [alpn h2 ssl-min-ver TLSv1.2] B.test c.test",
            &["a.test"],
            &["b.test", "c.test"],
            &[],
        );
        check("a.pem[alpn h2]b.test", &["a.test"], &["b.test"], &[]);
        check("a.pem *.x.test", &["a.x.test", "b.test", "*.x.test"], &["a.x.test"], &["*.x.test"]);
        check("a.pem *.x.test !b.x.test", &["a.x.test", "b.x.test"], &["a.x.test"], &[]);
        check("a.pem !b.test", &["a.test", "b.test"], &["a.test"], &[]);
        check("a.pem !*", &["a.test"], &[], &[]);
        check("a.pem", &["*.x.test"], &[], &["*.x.test"]);
        check("a.pem a.x.test", &["*.x.test"], &["a.x.test"], &[]);
        check("a.pem *", &["a.test"], &["a.test"], &[]);
    }

    #[test]
    fn comments_and_blank_lines_are_passed_over_and_numbers_kept() {
        let lines = parse("# a\n\n  \na.pem\r\n   # b\n[x] y\nb.pem [x\nc.pem a [x]\n");
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[0].as_ref().unwrap().number, 4);
        let wrong: Vec<_> = lines[1..].iter().map(|line| line.as_ref().unwrap_err().0).collect();
        assert_eq!(wrong, [6, 7, 8]);
    }

    proptest! {
        #[test]
        fn any_text_is_read_line_by_line(text in "([a-z./]{1,8}( ?\\[[a-z ]{0,8}\\]?)?( !?[*a-z.]{1,8}){0,3}\n|#.*\n|.*\n){0,8}") {
            let content = text.lines().map(str::trim);
            let expected = content.filter(|line| !line.is_empty() && !line.starts_with('#')).count();
            let lines = parse(&text);
            prop_assert_eq!(lines.len(), expected);
            for line in lines.into_iter().flatten() {
                let served = line.served(&["a.test".to_owned(), "*.b.test".to_owned()]);
                prop_assert!(served.names.iter().all(|name| !line.is_left_out(name)));
                prop_assert!(!line.serves_nothing() || served == Served::default());
            }
        }

        #[test]
        fn what_was_written_is_read(file in "[a-z0-9/._-]{1,20}", names in prop::collection::vec("[a-z]{1,5}[.]test", 0..4), options in prop::option::of("[a-z0-9. ]{0,12}")) {
            let options = options.map(|options| format!(" [{options}]")).unwrap_or_default();
            prop_assume!(!file.starts_with('#'));
            let text = format!("{file}{options} {}\n", names.join(" "));
            let line = parse(&text).remove(0).unwrap();
            prop_assert_eq!(&line.file, &file);
            let expected: Vec<_> = names.into_iter().map(Filter::Name).collect();
            prop_assert_eq!(line.filters, expected);
        }
    }
}
