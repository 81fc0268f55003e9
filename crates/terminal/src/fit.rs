//! Fits a table to a terminal so that each of its rows takes one line: some columns are cut, and left out if that is not
//! enough.

use super::columns::{cut, cut_start, width};
use baton_markup::visible::Untrusted;

/// Columns of the last cell for which others are cut, if it has that many.
const LAST: usize = 20;

/// A column that may be cut or left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flexible {
    /// Index of the column.
    pub column: usize,
    /// The part of its cells that is kept.
    pub keeps: Kept,
}

/// The part of a cell that is kept when it is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// Its beginning.
    Beginning,
    /// Its end, such as the name of a directory.
    End,
}

/// A table with escaped cells.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fitted {
    pub(crate) header: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Fitted {
    /// Fits a table to a terminal; of the flexible columns, the first ones are left out first.
    pub(crate) fn new(
        header: &[&str],
        rows: &[Vec<String>],
        flexible: &[Flexible],
        terminal: Option<usize>,
    ) -> Self {
        let escaped = |row: &Vec<String>| row.iter().map(|cell| Untrusted(cell).to_string()).collect();
        let mut table = Self {
            header: header.iter().map(|&cell| cell.to_owned()).collect(),
            rows: rows.iter().map(escaped).collect(),
        };
        let Some(terminal) = terminal else { return table };
        let is_before_the_last = |flexible: &&Flexible| flexible.column + 1 < header.len();
        let mut flexible: Vec<Flexible> = flexible.iter().filter(is_before_the_last).copied().collect();
        while !flexible.is_empty() && !table.cut(&flexible, terminal) {
            let left_out = flexible.remove(0).column;
            table.leave_out(left_out);
            flexible.iter_mut().filter(|other| other.column > left_out).for_each(|other| other.column -= 1);
        }
        table
    }

    /// Cuts the flexible columns, the widest first. Returns whether they fit.
    fn cut(&mut self, flexible: &[Flexible], terminal: usize) -> bool {
        let mut widths = self.widths();
        let last = widths.pop().unwrap_or(0).min(LAST);
        let least = |column: usize| self.header.get(column).map_or(0, |title| width(title));
        while widths.iter().map(|width| width + 2).sum::<usize>() + last >= terminal {
            let columns = flexible.iter().map(|flexible| flexible.column);
            let narrowable = columns.filter(|column| widths[*column] > least(*column));
            let Some(widest) = narrowable.max_by_key(|column| widths[*column]) else { return false };
            widths[widest] -= 1;
        }
        for Flexible { column, keeps } in flexible {
            let cut = match keeps {
                Kept::Beginning => cut,
                Kept::End => cut_start,
            };
            for cell in self.rows.iter_mut().filter_map(|row| row.get_mut(*column)) {
                *cell = cut(cell, widths[*column]);
            }
        }
        true
    }

    fn widths(&self) -> Vec<usize> {
        let all = || std::iter::once(&self.header).chain(&self.rows);
        let widest = |column: usize| all().filter_map(|row| row.get(column)).map(|cell| width(cell)).max();
        (0..self.header.len()).map(|column| widest(column).unwrap_or(0)).collect()
    }

    fn leave_out(&mut self, column: usize) {
        self.header.remove(column);
        for row in self.rows.iter_mut().filter(|row| column < row.len()) {
            row.remove(column);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLEXIBLE: [Flexible; 2] =
        [Flexible { column: 1, keeps: Kept::Beginning }, Flexible { column: 2, keeps: Kept::End }];

    fn fitted(terminal: usize) -> Vec<Vec<String>> {
        let header = ["ID", "ENGINE", "DIRECTORY", "TITLE"];
        let row = [
            "0123abcd",
            "claude/opus-4",
            "~/work/projects/baton",
            "Why does\u{1b}[2K the test fail at night?",
        ];
        let table = Fitted::new(&header, &[row.map(str::to_owned).to_vec()], &FLEXIBLE, Some(terminal));
        [vec![table.header], table.rows].concat()
    }

    #[test]
    fn wide_columns_are_cut_before_the_title() {
        assert_eq!(fitted(200)[1][2], "~/work/projects/baton");
        assert_eq!(fitted(57)[1][..3], ["0123abcd", "claude/opu…", "…ects/baton"]);
    }

    #[test]
    fn columns_are_left_out_where_cutting_them_is_not_enough() {
        assert_eq!(fitted(45)[0], ["ID", "DIRECTORY", "TITLE"]);
        assert_eq!(fitted(38)[0], ["ID", "TITLE"]);
        assert_eq!(fitted(10)[0], ["ID", "TITLE"], "nothing else can be left out");
    }
}
