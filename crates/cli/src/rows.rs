//! Lists for people: a table, or, on a terminal that is too narrow for its columns, each row as lines of their own that are
//! broken between words.

use crate::terminal::{self, Flexible};

/// Columns below which the rows of a list are not shown as a table.
const NARROW: usize = 60;

/// A list of rows with a header.
pub(crate) struct List<'a> {
    pub(crate) header: &'a [&'a str],
    pub(crate) rows: &'a [Vec<String>],
    /// What is shown below each row, if there is something.
    pub(crate) notes: &'a [String],
    /// The number of cells that share the first line of a narrow row.
    pub(crate) heading: usize,
    /// Columns that are cut, or left out, where a row would need several lines; the first ones first.
    pub(crate) flexible: &'a [Flexible],
}

impl List<'_> {
    /// Prints the list; the last cell of a row is cut to the width of the terminal.
    pub(crate) fn print(&self) {
        match self.is_narrow() {
            true => self.print_narrow(),
            false => terminal::table_with_notes(self.header, self.rows, self.notes, self.flexible),
        }
    }

    /// Prints the list without cutting any cell.
    pub(crate) fn print_whole(&self) {
        match self.is_narrow() {
            true => self.print_narrow(),
            false => terminal::whole_table(self.header, self.rows),
        }
    }

    /// Prints the list; the last cell of a row continues on lines of its own where the width of the terminal does not suffice.
    pub(crate) fn print_wrapped(&self) {
        let fits = |width: usize| self.rows.iter().all(|row| row_width(self.header, self.rows, row) < width);
        match terminal::output_width() {
            Some(width) if width < NARROW || !fits(width) => self.print_narrow(),
            _ => self.print(),
        }
    }

    fn is_narrow(&self) -> bool {
        terminal::output_width().is_some_and(|width| width < NARROW)
    }

    fn print_narrow(&self) {
        for (at, row) in self.rows.iter().enumerate() {
            let (first, others) = row.split_at(self.heading.min(row.len()));
            terminal::hanging_line(&first.join("  "), 2);
            let notes = self.notes.get(at);
            let below = others.iter().chain(notes).filter(|cell| !cell.is_empty() && *cell != "-");
            below.for_each(|cell| terminal::hanging_line(&format!("  {cell}"), 2));
        }
    }
}

/// Returns the columns of a row whose cells are as wide as the widest of their columns, up to the last one.
fn row_width(header: &[&str], rows: &[Vec<String>], row: &[String]) -> usize {
    let width = |cell: &str| cell.chars().count();
    let last = row.len().saturating_sub(1);
    let widest = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| width(cell));
        cells.max().unwrap_or(0).max(header.get(column).map_or(0, |title| width(title)))
    };
    (0..last).map(|column| widest(column) + 2).sum::<usize>() + row.last().map_or(0, |cell| width(cell))
}

/// The number of characters by which every id differs from all others, and at least `least`.
pub(crate) fn unique_length<'a>(ids: impl Iterator<Item = &'a str>, least: usize) -> usize {
    let mut ids: Vec<&str> = ids.collect();
    ids.sort_unstable();
    ids.dedup();
    let common = |pair: &[&str]| match pair {
        [a, b] => a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count(),
        _ => 0,
    };
    ids.windows(2).map(|pair| common(pair) + 1).max().unwrap_or(0).max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_shortened_to_what_tells_them_apart() {
        assert_eq!(unique_length(["abcdef", "abcxyz", "abcxyz"].into_iter(), 2), 4);
        assert_eq!(unique_length(["abcdef"].into_iter(), 2), 2);
    }
}
