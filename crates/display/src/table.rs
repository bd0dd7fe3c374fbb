//! Columns of text.

use unicode_width::UnicodeWidthStr;

use crate::frame::{columns, truncated, visible};
use crate::paint::{Paint, Tone};

/// Rows under a heading; each cell has a tone for its colour.
#[derive(Debug, Default)]
pub struct Table {
    head: Vec<String>,
    rows: Vec<Vec<(String, Tone)>>,
}

impl Table {
    /// Makes a table; `head` contains the column titles, separated by tabs.
    pub fn new(head: &str) -> Self {
        Self { head: head.split('\t').map(str::to_owned).collect(), rows: Vec::new() }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = (String, Tone)>) {
        self.rows.push(cells.into_iter().map(|(text, tone)| (visible(&text), tone)).collect());
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as text, without a line break at its end. The last column is not padded, and lines are cut where the
    /// terminal ends.
    pub fn render(&self, paint: Paint) -> String {
        let mut widths: Vec<usize> = self.head.iter().map(|title| title.width()).collect();
        for row in &self.rows {
            for (width, (text, _)) in widths.iter_mut().zip(row) {
                *width = (*width).max(text.width());
            }
        }
        let head = self.head.iter().map(|title| (title.as_str(), Tone::Faint));
        let mut text = line(head, &widths, paint);
        for row in &self.rows {
            text.push('\n');
            text.push_str(&line(row.iter().map(|(text, tone)| (text.as_str(), *tone)), &widths, paint));
        }
        text
    }
}

fn line<'a>(cells: impl Iterator<Item = (&'a str, Tone)>, widths: &[usize], paint: Paint) -> String {
    let mut text = String::new();
    let mut gap = 0;
    let mut room = columns().unwrap_or(usize::MAX);
    for ((cell, tone), width) in cells.zip(widths) {
        // Padding is written before the next cell, so that empty cells at the end of a row leave no trailing spaces.
        if !cell.is_empty() {
            if room <= gap {
                break;
            }
            room -= gap;
            text.push_str(&" ".repeat(gap));
            text.push_str(&paint.text(tone, &truncated(cell, room)));
            room = room.saturating_sub(cell.width());
            gap = 0;
        }
        gap += width.saturating_sub(cell.width()) + 2;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::within;

    #[test]
    fn a_table_is_cut_where_the_terminal_ends() {
        let mut table = Table::new("NAME\tSTATE\tDETAIL");
        table.row([
            ("lint".to_owned(), Tone::Strong),
            ("FAILED".to_owned(), Tone::Bad),
            ("it broke".to_owned(), Tone::Faint),
        ]);
        assert_eq!(within(18, || table.render(Paint::OFF)), "NAME  STATE   DET…\nlint  FAILED  it …");
        assert_eq!(within(10, || table.render(Paint::OFF)), "NAME  STA…\nlint  FAI…");
        assert_eq!(within(5, || table.render(Paint::OFF)), "NAME\nlint");
        assert_eq!(within(80, || table.render(Paint::OFF)), table.render(Paint::OFF));
        // What colours the text takes no room.
        let painted = within(18, || table.render(Paint::ON));
        assert!(painted.contains("it …") && painted.contains('\u{1b}'), "{painted:?}");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new("A\tLONG\tC");
        table.row([
            ("日本".to_owned(), Tone::Good),
            ("x".to_owned(), Tone::Plain),
            (String::new(), Tone::Plain),
        ]);
        table.row(["1", "", "3"].map(|cell| (cell.to_owned(), Tone::Plain)));
        assert_eq!(table.render(Paint::OFF), "A     LONG  C\n日本  x\n1           3");
    }
}
