//! Tables of untrusted text: every cell stays in its row and its column. On a terminal that is too narrow, flexible columns are
//! cut; after that, the widest columns get narrower, and their cells continue on further lines. The last cell is cut, too.

use std::io::IsTerminal;

use super::columns::{chunks, cut, padded, width, wrapped};
use super::fit::{Fitted, Flexible};
use super::{print, styled, width_of};
use baton_markup::visible::Untrusted;

/// Fewest columns of the last cell, however narrow the terminal is.
const MIN_LAST: usize = 10;
/// Columns of any other cell below which it is not narrowed.
const MIN_CELL: usize = 9;

/// Prints rows under a header. On a terminal, the last cell is cut to the space that is left.
pub fn table(header: &[&str], rows: &[Vec<String>]) {
    table_with_notes(header, rows, &[], &[]);
}

/// Prints rows under a header, and cuts no cell.
pub fn whole_table(header: &[&str], rows: &[Vec<String>]) {
    // Only the last cell of a row is cut: an empty one.
    let header: Vec<&str> = header.iter().copied().chain([""]).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(|row| [row.as_slice(), &[String::new()]].concat()).collect();
    table(&header, &rows);
}

/// Prints rows under a header, each with a note below it, which is not cut. On a terminal that is too narrow, flexible columns
/// are cut, or left out.
pub fn table_with_notes(header: &[&str], rows: &[Vec<String>], notes: &[String], flexible: &[Flexible]) {
    let out = std::io::stdout();
    let terminal = out.is_terminal();
    let lines = lines(header, rows, flexible, width_of(&out).filter(|_| terminal));
    let mut text = String::new();
    for (at, line) in lines.iter().enumerate() {
        text += &if at == 0 { styled("2", line.clone(), terminal) } else { line.clone() };
        text.push('\n');
        if let Some(note) = at.checked_sub(1).and_then(|row| notes.get(row)) {
            text += &format!("    {}\n", Untrusted(note));
        }
    }
    print(&text);
}

/// Renders the header and the rows, each of one or more lines.
fn lines(
    header: &[&str],
    rows: &[Vec<String>],
    flexible: &[Flexible],
    terminal: Option<usize>,
) -> Vec<String> {
    let Fitted { header, rows } = Fitted::new(header, rows, flexible, terminal);
    let all: Vec<Vec<String>> = std::iter::once(header).chain(rows).collect();
    let columns = all.first().map_or(0, Vec::len).saturating_sub(1);
    let widest = |column: usize| all.iter().filter_map(|row| row.get(column)).map(|cell| width(cell)).max();
    let widths: Vec<usize> = (0..columns).map(|column| widest(column).unwrap_or(0)).collect();
    let widths = narrowed(widths, widest(columns).unwrap_or(0).min(MIN_LAST), terminal);
    let used: usize = widths.iter().map(|width| width + 2).sum();
    let left = terminal.map(|terminal| terminal.saturating_sub(used + 1).max(MIN_LAST));
    let line = |row: &Vec<String>| {
        let cells: Vec<Vec<String>> = row.iter().zip(&widths).map(|(cell, to)| pieces(cell, *to)).collect();
        let last = row.get(columns).map(String::as_str).unwrap_or_default();
        let last = left.map_or_else(|| last.to_owned(), |left| cut(last, left));
        let count = cells.iter().map(Vec::len).max().unwrap_or(1);
        let lines = (0..count).map(|number| {
            let piece = |cell: &Vec<String>, to: &usize| {
                padded(cell.get(number).map(String::as_str).unwrap_or_default(), *to) + "  "
            };
            let first: String = cells.iter().zip(&widths).map(|(cell, to)| piece(cell, to)).collect();
            (first + if number == 0 { &last } else { "" }).trim_end().to_owned()
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    all.iter().map(line).collect()
}

/// Narrows the widest columns until they fit a terminal together with a last cell of `last` columns; the first one, which names
/// the rows, only if nothing else helps. Columns that cannot fit stay as they are.
fn narrowed(widths: Vec<usize>, last: usize, terminal: Option<usize>) -> Vec<usize> {
    let Some(terminal) = terminal else { return widths };
    let mut narrow = widths.clone();
    while narrow.iter().map(|width| width + 2).sum::<usize>() + last >= terminal {
        let Some((first, others)) = narrow.split_first_mut() else { return widths };
        match others.iter_mut().max().filter(|widest| **widest > MIN_CELL) {
            Some(widest) => *widest -= 1,
            None if *first > MIN_CELL => *first -= 1,
            None => return widths,
        }
    }
    narrow
}

/// Breaks a cell for a column of this width: between words, and within a word that is wider.
fn pieces(cell: &str, to: usize) -> Vec<String> {
    wrapped(cell, to, 0).split('\n').flat_map(|row| chunks(row, to)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stay_in_their_rows_and_columns() {
        let row = |id: &str, title: &str| vec![id.to_owned(), title.to_owned()];
        let rows = [row("a", "one\n2 forged\u{1b}[2K"), row("你好", "a title that is much too long for it")];
        let shown = lines(&["ID", "TITLE"], &rows, &[], Some(26));
        assert_eq!(shown, ["ID    TITLE", "a     one\\n2 forged\\x1b[…", "你好  a title that is mu…"]);
        assert_eq!(
            lines(&["ID", "TITLE"], &rows, &[], None)[2],
            "你好  a title that is much too long for it"
        );
    }

    #[test]
    fn wide_columns_continue_below_on_a_narrow_terminal() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows =
            [row(["page", "the address it listens on", "default"]), row(["/a/long/path/here", "x", "file"])];
        let shown = lines(&["KEY", "VALUE", "SOURCE"], &rows, &[], Some(34));
        assert_eq!(
            shown,
            [
                "KEY            VALUE      SOURCE",
                "page           the        default\n               address\n               it\n               listens\n               on",
                "/a/long/path/  x          file\nhere",
            ]
        );
        assert!(shown.iter().flat_map(|row| row.lines()).all(|line| width(line) < 34));
        for other in [80, 20] {
            let shown = lines(&["KEY", "VALUE", "SOURCE"], &rows, &[], Some(other));
            assert_eq!(shown[1].lines().count(), 1, "{other} columns need or allow no narrower ones");
        }
    }
}
