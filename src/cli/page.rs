//! Reports as people read them: a title, and below it in two columns what there is and how it is.

use std::fmt::{self, Display, Write};

use crate::size::Size;

/// How wide the names of rows are.
const NAMES: usize = 20;

/// How far what belongs to the row above stands to the right.
const INDENT: usize = 2;

/// A report that is being written.
#[derive(Debug, Clone, Default)]
pub struct Page {
    text: String,
}

impl Page {
    /// A report of this.
    pub fn titled(title: impl Display) -> Page {
        let mut page = Page::default();
        page.line(title);
        page
    }

    /// One line, from the left margin.
    pub fn line(&mut self, text: impl Display) {
        self.put(format_args!("{text}\n"));
    }

    /// What there is, and how it is.
    pub fn row(&mut self, name: &str, value: impl Display) {
        self.put(format_args!("  {name:<NAMES$} {value}\n"));
    }

    /// A row, if there is such a thing.
    pub fn row_if_any(&mut self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.row(name, value);
        }
    }

    /// What the rows after it are parts of.
    pub fn heading(&mut self, name: &str) {
        self.put(format_args!("  {name}\n"));
    }

    /// A part of what the row or heading before it tells.
    pub fn part(&mut self, name: &str, value: impl Display) {
        let width = NAMES - INDENT;
        self.put(format_args!("    {name:<width$} {value}\n"));
    }

    /// So many bytes of the row before it are this.
    pub fn amount(&mut self, amount: Size, of: impl Display) {
        let width = NAMES - INDENT;
        self.put(format_args!("    {amount:>width$} {of}\n"));
    }

    /// A line of space.
    pub fn gap(&mut self) {
        self.text.push('\n');
    }

    /// A table: numbers stand to the right of their columns, words of the last to the left.
    pub fn table<const N: usize>(&mut self, headings: [&str; N], rows: &[[String; N]]) {
        let cells = |row: &[String; N], column: usize| row[column].chars().count();
        let width = |column: usize| rows.iter().map(|row| cells(row, column)).max().unwrap_or(0);
        let widths: Vec<usize> =
            (0..N).map(|column| width(column).max(headings[column].chars().count())).collect();
        let headings = headings.map(str::to_string);
        for row in std::iter::once(&headings).chain(rows) {
            for (column, cell) in row.iter().enumerate() {
                match column + 1 == N {
                    true => self.put(format_args!("  {cell}\n")),
                    false => self.put(format_args!("  {cell:>width$}", width = widths[column])),
                }
            }
        }
    }

    fn put(&mut self, text: fmt::Arguments) {
        // A String takes all that is written to it.
        let _ = self.text.write_fmt(text);
    }
}

impl Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A number with its thousands apart: `13,265`.
pub fn count(number: usize) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A time as people read it: `276.4 ms`.
pub fn milliseconds(seconds: f64) -> String {
    format!("{:.1} ms", seconds * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_stand_below_each_other() {
        let mut page = Page::titled("graph.pb: fits");
        page.row("peak", "1 GiB");
        page.part("where", "at the end");
        page.amount(Size(12 << 10), "Relu:0");
        page.row_if_any("host", None::<&str>);
        page.row("a name that is longer than its column", 3);
        let text = "graph.pb: fits\n  peak                 1 GiB\n    where              at the end\n             12.00 KiB Relu:0\n  a name that is longer than its column 3\n";
        assert_eq!(page.to_string(), text);
    }

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let mut page = Page::default();
        let row = |size: &str, end: &str| [size.to_string(), "±1".to_string(), end.to_string()];
        page.table(["size", "", "ends"], &[row("7", "well"), row("12345", "out of memory")]);
        assert_eq!(page.to_string(), "   size      ends\n      7  ±1  well\n  12345  ±1  out of memory\n");
    }

    #[test]
    fn thousands_are_apart() {
        let numbers = [0, 7, 999, 1000, 13_265, 1_000_000].map(count);
        assert_eq!(numbers, ["0", "7", "999", "1,000", "13,265", "1,000,000"]);
    }
}
