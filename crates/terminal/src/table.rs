//! Tables of untrusted text: every cell stays in its row and its column.

use std::io::IsTerminal;

use super::columns::{cut, padded, width};
use super::{dim, print, width_of};
use baton_markup::visible::Untrusted;

/// Fewest columns of the last cell, however narrow the terminal is.
const MIN_LAST: usize = 10;

/// Prints rows under a header. On a terminal, the last cell is cut to the space that is left.
pub fn table(header: &[&str], rows: &[Vec<String>]) {
    table_with_notes(header, rows, &[]);
}

/// Prints rows under a header, each with a note below it, which is not cut.
pub fn table_with_notes(header: &[&str], rows: &[Vec<String>], notes: &[String]) {
    let out = std::io::stdout();
    let terminal = out.is_terminal();
    let lines = lines(header, rows, width_of(&out).filter(|_| terminal));
    let mut text = String::new();
    for (at, line) in lines.iter().enumerate() {
        text += &if at == 0 { dim(Untrusted(line), terminal) } else { line.clone() };
        text.push('\n');
        if let Some(note) = at.checked_sub(1).and_then(|row| notes.get(row)) {
            text += &format!("    {}\n", Untrusted(note));
        }
    }
    print(&text);
}

fn lines(header: &[&str], rows: &[Vec<String>], terminal: Option<usize>) -> Vec<String> {
    let escaped = |row: &Vec<String>| row.iter().map(|cell| Untrusted(cell).to_string()).collect::<Vec<_>>();
    let header: Vec<String> = header.iter().map(|&cell| cell.to_owned()).collect();
    let all: Vec<Vec<String>> = std::iter::once(header).chain(rows.iter().map(escaped)).collect();
    let columns = all.first().map_or(0, Vec::len).saturating_sub(1);
    let widest = |column: usize| all.iter().filter_map(|row| row.get(column)).map(|cell| width(cell)).max();
    let widths: Vec<usize> = (0..columns).map(|column| widest(column).unwrap_or(0)).collect();
    let used: usize = widths.iter().map(|width| width + 2).sum();
    let left = terminal.map(|terminal| terminal.saturating_sub(used + 1).max(MIN_LAST));
    let line = |row: &Vec<String>| {
        let first: String = row.iter().zip(&widths).map(|(cell, to)| padded(cell, *to) + "  ").collect();
        let last = row.get(columns).map(String::as_str).unwrap_or_default();
        let last = left.map_or_else(|| last.to_owned(), |left| cut(last, left));
        (first + &last).trim_end().to_owned()
    };
    all.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stay_in_their_rows_and_columns() {
        let row = |id: &str, title: &str| vec![id.to_owned(), title.to_owned()];
        let rows = [row("a", "one\n2 forged\u{1b}[2K"), row("你好", "a title that is much too long for it")];
        let shown = lines(&["ID", "TITLE"], &rows, Some(26));
        assert_eq!(shown, ["ID    TITLE", "a     one\\n2 forged\\x1b[…", "你好  a title that is mu…"]);
        assert_eq!(lines(&["ID", "TITLE"], &rows, None)[2], "你好  a title that is much too long for it");
    }
}
