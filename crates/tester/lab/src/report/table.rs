//! Tables of a report.

use serde::{Deserialize, Serialize};

use super::figure::field;

/// A table whose cells are ready to be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Its name in links and file names: lower case, hyphens.
    pub id: String,
    /// Its subject, in a line.
    pub title: String,
    /// How to read it.
    pub caption: String,
    /// The columns' heads.
    pub columns: Vec<String>,
    /// The rows, each with a cell per column.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(id: &str, title: &str, caption: &str, columns: &[&str]) -> Table {
        Table {
            id: id.into(),
            title: title.into(),
            caption: caption.into(),
            columns: columns.iter().map(|&column| column.into()).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn push<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    /// As CSV (RFC 4180).
    pub fn csv(&self) -> String {
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| field(cell)).collect();
            cells.join(",") + "\n"
        };
        std::iter::once(&self.columns).chain(&self.rows).map(|cells| line(cells)).collect()
    }

    /// As text with columns of equal width, for a terminal.
    pub fn text(&self) -> String {
        let lines = || std::iter::once(&self.columns).chain(&self.rows);
        let width = |column: usize| lines().map(|cells| cells[column].chars().count()).max();
        let widths: Vec<usize> =
            (0..self.columns.len()).map(|column| width(column).unwrap_or(0)).collect();
        let line = |cells: &Vec<String>| {
            let cells = cells.iter().zip(&widths).map(|(cell, &width)| {
                if is_number(cell) { format!("{cell:>width$}") } else { format!("{cell:width$}") }
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
        };
        lines().map(line).collect()
    }

    /// As a table in Markdown.
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| {
            let cells: Vec<String> =
                cells.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let rule = format!("|{}\n", "---|".repeat(self.columns.len()));
        let rows = self.rows.iter().map(|cells| line(cells));
        [line(&self.columns), rule].into_iter().chain(rows).collect()
    }
}

/// Returns true if a cell is a number, perhaps with a unit: those are set flush right.
pub(super) fn is_number(cell: &str) -> bool {
    let first = cell.trim_start_matches(['-', '+', '±', '<', '>', '≤', '≥', ' ']);
    first.starts_with(|first: char| first.is_ascii_digit()) || matches!(cell, "" | "–" | "∞")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_table_in_two_forms() {
        let mut table = Table::new("t", "T", "", &["name", "value, unit"]);
        table.push(["a|b".into(), "1".into()]);
        assert_eq!(table.csv(), "name,\"value, unit\"\na|b,1\n");
        assert_eq!(table.text(), "name  value, unit\na|b             1\n");
        assert_eq!(table.markdown(), "| name | value, unit |\n|---|---|\n| a\\|b | 1 |\n");
    }
}
