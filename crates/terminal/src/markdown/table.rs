//! Tables: aligned columns under a bold header. Cells of a table that is too wide are broken between words.

use super::{BOLD, DIM, RESET, styled};
use super::{inline, wrap};
use crate::columns::styled_width;

/// Columns between two cells.
const BAR: usize = 3;
/// Columns of a cell below which it is not narrowed.
const MIN_CELL: usize = 4;

/// Renders the rows of a table, each with its line break. Rows without a header, or whose words are too wide for the
/// terminal, are shown as they are written.
pub(super) fn render(rows: &[String], terminal: usize) -> String {
    let is_table = rows.get(1).is_some_and(|row| is_delimiter(row));
    let cells: Vec<Vec<String>> = rows.iter().map(|row| cells(row)).collect();
    let columns = cells.first().map_or(0, Vec::len);
    let Some(widths) = fitted(&cells, columns, terminal).filter(|_| is_table) else {
        let row = |row: &String| wrap::whole(&inline::whole(row, ""), terminal, "  ") + "\n";
        return rows.iter().map(row).collect();
    };
    let total = total(&widths);
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

/// Returns the widths of the columns: those of their widest cells, or less where the terminal is too narrow. None if words would
/// have to be broken.
fn fitted(cells: &[Vec<String>], columns: usize, terminal: usize) -> Option<Vec<usize>> {
    let widest = |of: fn(&str) -> usize| (0..columns).map(move |column| column_width(cells, column, of));
    let mut widths: Vec<usize> = widest(plain_width).collect();
    let least: Vec<usize> = widest(widest_word).map(|word| word.max(MIN_CELL)).collect();
    while total(&widths) > terminal {
        let narrowed = widths.iter_mut().zip(&least).filter(|(width, least)| **width > **least);
        *narrowed.map(|(width, _)| width).max()? -= 1;
    }
    Some(widths)
}

fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + BAR * widths.len().saturating_sub(1)
}

fn row_of(row: &[String], widths: &[usize], base: &'static str) -> String {
    let cell = |(column, to): (usize, &usize)| {
        let shown = inline::whole(row.get(column).map(String::as_str).unwrap_or_default(), base);
        wrap::whole(&shown, *to, "").split('\n').map(str::to_owned).collect::<Vec<_>>()
    };
    let cells: Vec<Vec<String>> = widths.iter().enumerate().map(cell).collect();
    let lines = (0..cells.iter().map(Vec::len).max().unwrap_or(1)).map(|number| {
        let pieces = cells.iter().zip(widths).map(|(cell, to)| {
            let piece = cell.get(number).map(String::as_str).unwrap_or_default();
            format!("{piece}{}", " ".repeat(to.saturating_sub(styled_width(piece))))
        });
        pieces.collect::<Vec<_>>().join(&format!(" {DIM}│{RESET} ")).trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the largest measure of a column's cells.
fn column_width(cells: &[Vec<String>], column: usize, of: fn(&str) -> usize) -> usize {
    let rows = cells.iter().enumerate().filter(|(at, _)| *at != 1);
    rows.filter_map(|(_, row)| row.get(column)).map(|cell| of(cell)).max().unwrap_or(0)
}

/// The width of the widest word of a cell.
fn widest_word(cell: &str) -> usize {
    inline::whole(cell, "").split(' ').map(styled_width).max().unwrap_or(0)
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
    fn cells_of_a_wide_table_are_broken_between_words() {
        let shown =
            render(&rows(&["| a | what it is |", "|---|---|", "| one | **two words** and more |"]), 18);
        let bar = format!(" {DIM}│{RESET} ");
        let expected = [
            format!("{BOLD}a{RESET}  {bar}{BOLD}what it is{RESET}"),
            format!("{DIM}{}{RESET}", "─".repeat(18)),
            format!("one{bar}{BOLD}two words{RESET}"),
            format!("   {bar}and more"),
        ];
        assert_eq!(shown.lines().collect::<Vec<_>>(), expected);
        assert!(shown.lines().all(|line| styled_width(line) <= 18));
    }

    #[test]
    fn wide_or_headless_rows_stay_as_written() {
        assert_eq!(render(&rows(&["| a | b |"]), 80), "| a | b |\n");
        let wide = rows(&["| aaaaaaaaaa | bbbb |", "|---|---|"]);
        assert_eq!(render(&wide, 16), "| aaaaaaaaaa |\n  bbbb |\n|---|---|\n");
    }
}
