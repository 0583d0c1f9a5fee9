//! CSV as RFC 4180 has it, with a heading that says which column is what.

use std::collections::BTreeMap;

use super::entry::Owner;

/// The columns there are; `name` and `chain_file` must be among them, in any order.
const COLUMNS: [&str; 8] =
    ["name", "chain_file", "key_file", "tenant", "resource", "target", "edge_group", "labels"];

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    /// Of the file, from one.
    pub(super) number: usize,
    pub(super) name: String,
    pub(super) chain_file: String,
    pub(super) key_file: Option<String>,
    pub(super) owner: Owner,
}

/// A row, or the number of the line and what is wrong with it.
type Read = Result<Row, (usize, String)>;

/// Reads a whole file. The heading must be sound; a row that is none is given back with what is wrong with it.
pub(super) fn parse(text: &str) -> Result<Vec<Read>, String> {
    let mut records = records(text.strip_prefix('\u{feff}').unwrap_or(text))?.into_iter();
    let (_, heading) = records.next().ok_or("is empty; the first line names the columns")?;
    let heading: Vec<_> = heading.iter().map(|cell| cell.trim().to_ascii_lowercase()).collect();
    check_heading(&heading)?;
    let rows = records.filter(|(_, cells)| cells.iter().any(|cell| !cell.trim().is_empty()));
    Ok(rows
        .map(|(number, cells)| row(number, &heading, &cells).map_err(|why| (number, why)))
        .collect())
}

fn check_heading(heading: &[String]) -> Result<(), String> {
    for (at, column) in heading.iter().enumerate() {
        if !COLUMNS.contains(&column.as_str()) {
            let known = COLUMNS.join(", ");
            return Err(format!("has a column `{column}` in its heading; there are {known}"));
        }
        if heading.iter().take(at).any(|before| before == column) {
            return Err(format!("has the column `{column}` twice"));
        }
    }
    let missing = ["name", "chain_file"].into_iter();
    match missing.clone().find(|needed| !heading.iter().any(|column| column == needed)) {
        Some(missing) => Err(format!("has no column `{missing}` in its heading")),
        None => Ok(()),
    }
}

fn row(number: usize, heading: &[String], cells: &[String]) -> Result<Row, String> {
    if cells.len() > heading.len() {
        return Err(format!("has {} cells, the heading {}", cells.len(), heading.len()));
    }
    let cell = |column: &str| {
        let at = heading.iter().position(|known| known == column)?;
        let text = cells.get(at)?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    };
    let needed = |column: &str| cell(column).ok_or_else(|| format!("has no {column}"));
    Ok(Row {
        number,
        name: needed("name")?,
        chain_file: needed("chain_file")?,
        key_file: cell("key_file"),
        owner: Owner {
            tenant: cell("tenant"),
            resource: cell("resource"),
            target: cell("target"),
            edge_group: cell("edge_group"),
            labels: cell("labels").map(|text| labels(&text)).transpose()?.unwrap_or_default(),
        },
    })
}

/// `key=value` pairs, `;` between them.
fn labels(text: &str) -> Result<BTreeMap<String, String>, String> {
    let pairs = text.split(';').map(str::trim).filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| {
        let (key, value) = pair.split_once('=').ok_or_else(|| {
            format!("has a label `{pair}` without `=`; write key=value;key=value")
        })?;
        Ok((key.trim().to_owned(), value.trim().to_owned()))
    });
    pairs.collect()
}

/// Lines of cells, each with the number of the line it begins at.
fn records(text: &str) -> Result<Vec<(usize, Vec<String>)>, String> {
    let mut records = Vec::new();
    let mut reader = Reader { rest: text, line: 1 };
    while !reader.rest.is_empty() {
        let number = reader.line;
        records.push((number, reader.record().map_err(|why| format!("line {number} {why}"))?));
    }
    Ok(records)
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
}

impl Reader<'_> {
    fn record(&mut self) -> Result<Vec<String>, String> {
        let mut cells = Vec::new();
        loop {
            cells.push(if self.took('"') { self.quoted()? } else { self.bare() });
            if self.took(',') {
                continue;
            }
            self.took('\r');
            if self.took('\n') {
                self.line += 1;
            } else if !self.rest.is_empty() {
                return Err("has text behind a closing quote".to_owned());
            }
            return Ok(cells);
        }
    }

    fn took(&mut self, wanted: char) -> bool {
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn bare(&mut self) -> String {
        let end = self.rest.find([',', '\n']).unwrap_or(self.rest.len());
        let (cell, rest) = self.rest.split_at(end);
        self.rest = rest;
        cell.strip_suffix('\r').unwrap_or(cell).to_owned()
    }

    fn quoted(&mut self) -> Result<String, String> {
        let mut cell = String::new();
        loop {
            let (part, rest) =
                self.rest.split_once('"').ok_or("has an opening quote without a closing one")?;
            cell.push_str(part);
            self.line += part.matches('\n').count();
            self.rest = rest;
            if !self.took('"') {
                return Ok(cell);
            }
            cell.push('"');
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn columns_come_in_any_order_and_most_may_be_left_out() {
        let text = "\u{feff}chain_file,Name,labels,tenant\r\na.pem,a.test,plan=gold;tier = 1,acme\r\n\r\n\"b,1.pem\",b.test\n,c.test,,\nd.pem,d.test,x\n";
        let rows = parse(text).unwrap();
        let one = rows[0].as_ref().unwrap();
        assert_eq!(
            (one.name.as_str(), one.chain_file.as_str(), one.number),
            ("a.test", "a.pem", 2)
        );
        assert_eq!(
            (one.owner.tenant.as_deref(), one.owner.labels["tier"].as_str()),
            (Some("acme"), "1")
        );
        let two = rows[1].as_ref().unwrap();
        assert_eq!((two.chain_file.as_str(), two.number, &two.key_file), ("b,1.pem", 4, &None));
        assert_eq!(rows[2].as_ref().unwrap_err(), &(5, "has no chain_file".to_owned()));
        assert_eq!(rows[3].as_ref().unwrap_err().0, 6);
    }

    #[test]
    fn a_heading_that_cannot_be_meant_is_refused() {
        for (text, why) in [
            ("", "is empty"),
            ("name,file\n", "`file`"),
            ("name\n", "`chain_file`"),
            ("name,chain_file,name\n", "twice"),
            ("name,chain_file\n\"a", "line 2 has an opening quote"),
            ("name,chain_file\n\"a\"b,c\n", "line 2 has text behind"),
        ] {
            let refused = parse(text).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }

    fn written(cell: &str) -> String {
        match cell.contains(['"', ',', '\n', '\r']) {
            true => format!("\"{}\"", cell.replace('"', "\"\"")),
            false => cell.to_owned(),
        }
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(cells in prop::collection::vec(prop::collection::vec("[a-z\",\n\r ]{1,6}", 2..5), 1..5)) {
            let lines = cells.iter().map(|cells| cells.iter().map(|cell| written(cell)).collect::<Vec<_>>().join(","));
            let text = lines.collect::<Vec<_>>().join("\r\n");
            let read: Vec<_> = records(&text).unwrap().into_iter().map(|(_, cells)| cells).collect();
            prop_assert_eq!(read, cells);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "(name,chain_file\n)?([a-z\",=;\r\n]{0,20}|.*)") {
            if let Ok(rows) = parse(&text) {
                prop_assert!(rows.iter().flatten().all(|row| !row.name.is_empty() && !row.chain_file.is_empty()));
            }
        }
    }
}
