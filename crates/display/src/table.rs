//! Columns of text.

use unicode_width::UnicodeWidthStr;

use crate::frame::{columns, truncated, visible, wrap};
use crate::paint::{Paint, Tone};

/// Columns between two cells.
const GAP: usize = 2;
/// What stands in front of a cell that is below its row.
const BELOW: &str = "    ";
/// A column that gives way keeps so many columns.
const LEAST: usize = 24;

/// Rows under a heading; each cell has a tone for its colour.
#[derive(Debug, Default)]
pub struct Table {
    head: Vec<String>,
    rows: Vec<Vec<(String, Tone)>>,
    whole: usize,
    yielding: Option<usize>,
}

impl Table {
    /// Makes a table; `head` contains the column titles, separated by tabs.
    pub fn new(head: &str) -> Self {
        Self { head: head.split('\t').map(str::to_owned).collect(), ..Self::default() }
    }

    /// Of the first cells of each row, so many are not cut where the terminal ends: they go on below, wrapped.
    pub fn whole(mut self, cells: usize) -> Self {
        self.whole = cells;
        self
    }

    /// Where the terminal is too narrow, this column is cut, so that the ones after it have room. The last one counts for
    /// nothing.
    pub fn yielding(mut self, column: usize) -> Self {
        self.yielding = Some(column);
        self
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
        let widths = self.widths();
        let head = self.head.iter().map(|title| (title.as_str(), Tone::Faint));
        let mut text = line(head, &widths, 0, paint);
        for row in &self.rows {
            text.push('\n');
            let cells = row.iter().map(|(text, tone)| (text.as_str(), *tone));
            text.push_str(&line(cells, &widths, self.whole, paint));
        }
        text
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.head.iter().map(|title| title.width()).collect();
        for row in &self.rows {
            for (width, (text, _)) in widths.iter_mut().zip(row) {
                *width = (*width).max(text.width());
            }
        }
        if let (Some(yielding), Some(room)) = (self.yielding, columns()) {
            let others = widths.iter().take(widths.len().saturating_sub(1)).enumerate();
            let others = others.filter(|(column, _)| *column != yielding).map(|(_, width)| width + GAP);
            let most = room.saturating_sub(others.sum()).max(LEAST);
            widths.iter_mut().skip(yielding).take(1).for_each(|width| *width = most.min(*width));
        }
        widths
    }
}

fn line<'a>(
    cells: impl Iterator<Item = (&'a str, Tone)>,
    widths: &[usize],
    whole: usize,
    paint: Paint,
) -> String {
    let all = columns().unwrap_or(usize::MAX);
    let mut text = String::new();
    let mut gap = 0;
    let mut room = all;
    let mut is_below = false;
    for (index, ((cell, tone), width)) in cells.zip(widths).enumerate() {
        let cell = truncated(cell, *width);
        // Padding is written before the next cell, so that empty cells at the end of a row leave no trailing spaces.
        let is_over = gap + cell.width() > room;
        if is_over && (1..whole).contains(&index) && !cell.is_empty() {
            for piece in wrap(&cell, all.saturating_sub(BELOW.len())) {
                text.push_str(&format!("\n{BELOW}{}", paint.text(tone, &piece)));
                room = all.saturating_sub(BELOW.len() + piece.width());
            }
            gap = 0;
            is_below = true;
        } else if !cell.is_empty() {
            if room <= gap {
                break;
            }
            room -= gap;
            text.push_str(&" ".repeat(gap));
            text.push_str(&paint.text(tone, &truncated(&cell, room)));
            room = room.saturating_sub(cell.width());
            gap = 0;
        }
        // Below its row nothing has a column.
        gap = if is_below { GAP } else { gap + width.saturating_sub(cell.width()) + GAP };
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
    fn what_has_to_be_whole_goes_on_below_its_row() {
        let mut table = Table::new("NAME\tSTATE\tDETAIL\tREST").whole(3);
        let cells = ["lint", "FAILED", "it broke in the middle of it", "cut"];
        table.row(cells.map(|cell| (cell.to_owned(), Tone::Plain)));
        table.row(["docs", "ACTIVE", "", ""].map(|cell| (cell.to_owned(), Tone::Plain)));
        let shown = |columns| within(columns, || table.render(Paint::OFF));
        assert_eq!(shown(60), table.render(Paint::OFF), "all of it fits");
        let expected = "\
NAME  STATE   DETAIL
lint  FAILED
    it broke in the
    middle of it  c…
docs  ACTIVE";
        assert_eq!(shown(20), expected);
        assert_eq!(
            shown(10),
            "NAME  STA…\nlint\n    FAILED\n    it\n    broke\n    in the\n    middle\n    of it\ndocs\n    ACTIVE"
        );
    }

    #[test]
    fn a_column_that_gives_way_leaves_the_others_their_room() {
        let mut table = Table::new("RUN\tNAME\tSTATE\tREST").yielding(1);
        let long = "n".repeat(100);
        table.row(["1", long.as_str(), "failed", ""].map(|cell| (cell.to_owned(), Tone::Plain)));
        table.row(["2", "short", "failed", "rest"].map(|cell| (cell.to_owned(), Tone::Plain)));
        let shown = within(40, || table.render(Paint::OFF));
        let names = [format!("{}…", "n".repeat(26)), format!("short{}", " ".repeat(22))];
        let expected = format!(
            "RUN  NAME{0}STATE\n1    {1}  failed\n2    {2}  failed",
            " ".repeat(25),
            names[0],
            names[1]
        );
        assert_eq!(shown, expected);
        assert!(
            within(20, || table.render(Paint::OFF)).contains("\n2    short"),
            "no narrower than can be read"
        );
        assert!(table.render(Paint::OFF).contains(&long), "nothing bounds it");
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
