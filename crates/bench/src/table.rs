//! A table in Markdown.

/// A table; the first column is text, the others are numbers.
pub struct Table {
    columns: usize,
    text: String,
}

impl Table {
    /// A table with these headings.
    #[must_use]
    pub fn new(headings: &[&str]) -> Self {
        let mut table = Self { columns: headings.len(), text: String::new() };
        table.line(headings.iter().map(|heading| (*heading).to_owned()));
        let rules = (0..headings.len()).map(|column| if column == 0 { "---" } else { "--:" });
        table.line(rules.map(str::to_owned));
        table
    }

    /// Adds a row; missing cells are empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        let cells = cells.into_iter().map(Into::into);
        let missing = std::iter::repeat_with(String::new);
        let columns = self.columns;
        self.line(cells.chain(missing).take(columns));
    }

    fn line(&mut self, cells: impl Iterator<Item = String>) {
        let cells: Vec<String> = cells.collect();
        self.text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }

    /// Its text.
    #[must_use]
    pub fn markdown(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_rows_are_filled() {
        let mut table = Table::new(&["what", "how much"]);
        table.row(["all of it", "1"]);
        table.row(["nothing"]);
        let text = "| what | how much |\n| --- | --: |\n| all of it | 1 |\n| nothing |  |\n";
        assert_eq!(table.markdown(), text);
    }
}
