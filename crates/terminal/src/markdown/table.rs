//! Tables: aligned columns under a bold header.

use super::{BOLD, DIM, RESET, styled};
use super::{inline, wrap};
use crate::columns::styled_width;

/// Renders the rows of a table, each with its line break. Rows without a header, or too wide for the terminal, are shown as
/// they are written, broken between words.
pub(super) fn render(rows: &[String], terminal: usize) -> String {
    let is_table = rows.get(1).is_some_and(|row| is_delimiter(row));
    let cells: Vec<Vec<String>> = rows.iter().map(|row| cells(row)).collect();
    let columns = cells.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns).map(|column| column_width(&cells, column)).collect();
    let total = widths.iter().sum::<usize>() + 3 * columns.saturating_sub(1);
    if !is_table || total > terminal {
        let row = |row: &String| wrap::whole(&inline::whole(row, ""), terminal, "  ") + "\n";
        return rows.iter().map(row).collect();
    }
    let mut out = String::new();
    for (at, row) in cells.iter().enumerate() {
        if at == 1 {
            out.push_str(&styled(DIM, &"─".repeat(total)));
        } else {
            out.push_str(&row_of(row, &widths, if at == 0 { BOLD } else { "" }));
        }
        out.push('\n');
    }
    out
}

fn row_of(row: &[String], widths: &[usize], base: &'static str) -> String {
    let empty = String::new();
    let shown = widths.iter().enumerate().map(|(column, to)| {
        let cell = row.get(column).unwrap_or(&empty);
        let shown = inline::whole(cell, base);
        let visible = plain_width(cell);
        format!("{shown}{}", " ".repeat(to.saturating_sub(visible)))
    });
    shown.collect::<Vec<_>>().join(&format!(" {DIM}│{RESET} ")).trim_end().to_owned()
}

fn column_width(cells: &[Vec<String>], column: usize) -> usize {
    let rows = cells.iter().enumerate().filter(|(at, _)| *at != 1);
    rows.filter_map(|(_, row)| row.get(column)).map(|cell| plain_width(cell)).max().unwrap_or(0)
}

/// The width of a cell without the marks of its spans.
fn plain_width(cell: &str) -> usize {
    styled_width(&inline::whole(cell, ""))
}

fn cells(row: &str) -> Vec<String> {
    let row = row.trim();
    let row = row.strip_prefix('|').unwrap_or(row);
    let row = row.strip_suffix('|').unwrap_or(row);
    let (mut cells, mut cell, mut escaped) = (Vec::new(), String::new(), false);
    for c in row.chars() {
        match c {
            '|' if !escaped => cells.push(std::mem::take(&mut cell)),
            '|' => {
                cell.pop();
                cell.push('|');
            }
            c => cell.push(c),
        }
        escaped = c == '\\' && !escaped;
    }
    cells.push(cell);
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

fn is_delimiter(row: &str) -> bool {
    let cells = cells(row);
    cells.iter().all(|cell| cell.contains('-') && cell.chars().all(|c| matches!(c, '-' | ':')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &[&str]) -> Vec<String> {
        text.iter().map(|row| (*row).to_owned()).collect()
    }

    #[test]
    fn columns_are_aligned() {
        let shown = render(&rows(&["| a | long |", "|---|:-:|", "| **bb** | x\\|y |"]), 80);
        let bar = format!(" {DIM}│{RESET} ");
        let expected = format!(
            "{BOLD}a{RESET} {bar}{BOLD}long{RESET}\n{DIM}─────────{RESET}\n{BOLD}bb{RESET}{bar}x|y\n"
        );
        assert_eq!(shown, expected);
    }

    #[test]
    fn wide_or_headless_rows_stay_as_written() {
        assert_eq!(render(&rows(&["| a | b |"]), 80), "| a | b |\n");
        let wide = rows(&["| aaaaaaaaaa | bbbb |", "|---|---|"]);
        assert_eq!(render(&wide, 16), "| aaaaaaaaaa |\n  bbbb |\n|---|---|\n");
    }
}
