//! A table that fits: columns as wide as their widest cell, the last one cut where the terminal ends.

use super::Style;

/// How a column's cells look.
pub(crate) type Paint = fn(Style, &str) -> String;

/// Rows under a heading.
pub(crate) struct Table {
    columns: Vec<(&'static str, Paint)>,
    rows: Vec<Vec<String>>,
}

/// The cells of a column without a look of its own.
pub(crate) fn plain(_: Style, text: &str) -> String {
    text.to_owned()
}

const GAP: usize = 2;
const NARROWEST: usize = 8;

impl Table {
    /// An empty one with these columns.
    pub(crate) fn new<const N: usize>(headings: [&'static str; N]) -> Self {
        let columns = headings.map(|heading| (heading, plain as Paint)).to_vec();
        Self { columns, rows: Vec::new() }
    }

    /// Gives the column of that heading a look.
    pub(crate) fn painted(mut self, heading: &str, paint: Paint) -> Self {
        for column in self.columns.iter_mut().filter(|column| column.0 == heading) {
            column.1 = paint;
        }
        self
    }

    /// Adds a row.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        // A line break or an escape in a cell would break the table, or worse, the terminal.
        let cells =
            cells.map(|cell| cell.chars().map(|c| if c.is_control() { ' ' } else { c }).collect());
        self.rows.push(cells.to_vec());
    }

    /// The lines, no wider than `width`.
    pub(crate) fn lines(&self, width: Option<usize>, style: Style) -> Vec<String> {
        let widths = self.widths(width);
        let heading = self.columns.iter().zip(&widths);
        let heading = heading.map(|((heading, _), width)| padded(&cut(heading, *width), *width));
        let mut lines = vec![style.dim(&joined(heading))];
        lines.extend(self.rows.iter().map(|row| {
            let cells = row.iter().zip(&self.columns).zip(&widths);
            joined(cells.map(|((cell, (_, paint)), width)| {
                let cut = cut(cell, *width);
                let fill = " ".repeat(width.saturating_sub(cut.chars().count()));
                paint(style, &cut) + &fill
            }))
        }));
        lines
    }

    /// As wide as the widest cell; the widest columns give way first when that is too much.
    fn widths(&self, width: Option<usize>) -> Vec<usize> {
        let widest = |index: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(index));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(index, (heading, _))| widest(index).max(heading.chars().count()))
            .collect();
        let gaps = GAP * self.columns.len().saturating_sub(1);
        let room = width.map_or(usize::MAX, |width| width.saturating_sub(gaps));
        while widths.iter().sum::<usize>() > room {
            // The last column is for reading, the others are for finding: it gives way first.
            let last = widths.len().saturating_sub(1);
            let widest =
                widths.iter().enumerate().max_by_key(|(_, width)| **width).map(|(at, _)| at);
            let wide = |at: &usize| widths.get(*at).is_some_and(|width| *width > NARROWEST);
            let Some(at) = [Some(last), widest].into_iter().flatten().find(wide) else { break };
            if let Some(width) = widths.get_mut(at) {
                *width -= 1;
            }
        }
        widths
    }
}

fn joined(cells: impl Iterator<Item = String>) -> String {
    cells.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned()
}

fn padded(text: &str, width: usize) -> String {
    format!("{text:<width$}")
}

/// A text no longer than `width`.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(["name", "error"]);
        table.row(["a.example".into(), "all of it went wrong at once\nand more".into()]);
        table.row(["long.name.example".into(), String::new()]);
        table
    }

    #[test]
    fn without_a_terminal_nothing_is_cut() {
        let lines = table().lines(None, Style::Plain);
        assert_eq!(lines[0], "name               error");
        assert_eq!(lines[1], "a.example          all of it went wrong at once and more");
        assert_eq!(lines[2], "long.name.example");
    }

    #[test]
    fn a_terminal_is_never_overrun() {
        for width in [20, 30, 37, 80] {
            for line in table().lines(Some(width), Style::Plain) {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }
}
