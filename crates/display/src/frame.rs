//! Boxes of 56 columns, in the form of the error contracts; narrower ones where the terminal is narrower.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::paint::{Paint, Tone};

/// Columns of a box, including its borders.
pub const WIDTH: usize = 56;
/// Columns of the borders and of the margins beside a line of text in a box.
const BESIDE: usize = 6;
/// Columns of the narrowest box, in which a word can still be read.
const NARROWEST: usize = 20;

/// Columns of the terminal; 0 where there is none.
static COLUMNS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static WITHIN: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Makes what this process shows as wide as its terminal at most.
pub fn fit(columns: usize) {
    COLUMNS.store(columns, Ordering::Relaxed);
}

/// Calls `tell`, nothing of which is wider than this. It must tell it on this thread.
pub fn within<T>(columns: usize, tell: impl FnOnce() -> T) -> T {
    let before = WITHIN.replace(Some(columns));
    let told = tell();
    WITHIN.set(before);
    told
}

/// The columns that there are; `None` where nothing bounds them.
#[must_use]
pub fn columns() -> Option<usize> {
    WITHIN.get().or_else(|| Some(COLUMNS.load(Ordering::Relaxed))).filter(|columns| *columns > 0)
}

#[derive(Clone, Copy, Debug)]
enum Row {
    Heavy,
    Light,
}

/// A box under construction: its rows from top to bottom.
#[derive(Debug)]
pub struct Frame {
    paint: Paint,
    text: String,
    border: Row,
    /// Columns, including the borders.
    width: usize,
}

impl Frame {
    /// A box of `=`, for results and for errors that stop the work.
    pub fn heavy(paint: Paint) -> Self {
        Self::begin(paint, Row::Heavy)
    }

    /// A box of `-`, for events after which the work goes on by itself.
    pub fn light(paint: Paint) -> Self {
        Self::begin(paint, Row::Light)
    }

    fn begin(paint: Paint, border: Row) -> Self {
        let width = columns().map_or(WIDTH, |columns| columns.clamp(NARROWEST, WIDTH));
        let mut frame = Self { paint, text: String::new(), border, width };
        frame.border(border);
        frame
    }

    fn border(&mut self, row: Row) {
        let dash = match row {
            Row::Heavy => "=",
            Row::Light => "-",
        };
        self.text.push_str(&format!("+{}+\n", dash.repeat(self.width - 2)));
    }

    /// Adds the line between a title and its text.
    pub fn under_title(mut self) -> Self {
        self.border(self.border);
        self
    }

    /// Adds the line before the part that asks a person to act.
    pub fn rule(mut self) -> Self {
        self.border(Row::Light);
        self
    }

    pub fn blank(mut self) -> Self {
        self.row("", Tone::Plain);
        self
    }

    /// Adds text, wrapped.
    pub fn text(self, text: &str) -> Self {
        self.toned(text, Tone::Plain)
    }

    pub fn toned(self, text: &str, tone: Tone) -> Self {
        self.hanging("", text, tone)
    }

    /// Adds text behind a mark such as `-> `; further lines are indented to match.
    pub fn item(self, mark: &str, text: &str) -> Self {
        self.hanging(mark, text, Tone::Plain)
    }

    pub fn hanging(mut self, mark: &str, text: &str, tone: Tone) -> Self {
        let indent = mark.width();
        let mut mark = mark.to_owned();
        for line in wrap(text, (self.width - BESIDE).saturating_sub(indent)) {
            self.row(&format!("{mark}{line}"), tone);
            mark = " ".repeat(indent);
        }
        self
    }

    /// Adds several items behind the same mark.
    pub fn items<'a>(mut self, mark: &str, items: impl IntoIterator<Item = &'a str>) -> Self {
        for item in items {
            self = self.item(mark, item);
        }
        self
    }

    fn row(&mut self, text: &str, tone: Tone) {
        let margin = (self.width - 2).saturating_sub(2 + text.width());
        let text = self.paint.text(tone, text);
        self.text.push_str(&format!("|  {text}{}|\n", " ".repeat(margin)));
    }

    /// The box, without a line break at its end.
    pub fn finish(mut self) -> String {
        self.border(self.border);
        self.text.pop();
        self.text
    }
}

/// Wraps `text` into lines of at most `width` columns. Line breaks stay, and words that fit into a line are not split.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(2);
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in visible(paragraph).split_whitespace() {
            let gap = usize::from(!line.is_empty());
            if line.width() + gap + word.width() <= width {
                line.extend(std::iter::repeat_n(' ', gap));
                line.push_str(word);
                continue;
            }
            if !line.is_empty() {
                lines.push(std::mem::take(&mut line));
            }
            line = split_overlong(word, width, &mut lines);
        }
        lines.push(line);
    }
    if lines.is_empty() {
        lines.push(String::new());
    }
    lines
}

/// Pushes all pieces of `word` except the last one, each as wide as possible.
fn split_overlong(word: &str, width: usize, lines: &mut Vec<String>) -> String {
    let mut piece = String::new();
    for character in word.chars() {
        if piece.width() + character.width().unwrap_or(0) > width {
            lines.push(std::mem::take(&mut piece));
        }
        piece.push(character);
    }
    piece
}

/// The columns of a text.
pub fn width(text: &str) -> usize {
    text.width()
}

/// The text with spaces up to so many columns.
pub fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

/// Shortens `text` to one line of at most `width` columns, with `…` in place of the omitted part.
pub fn truncated(text: &str, width: usize) -> String {
    let text = visible(text);
    if text.width() <= width {
        return text;
    }
    let mut kept = String::new();
    for character in text.chars() {
        if kept.width() + character.width().unwrap_or(0) + 1 > width {
            break;
        }
        kept.push(character);
    }
    kept.push('…');
    kept
}

/// A line with `free` in it, a text that is cut as far as the line is wider than the terminal behind a margin of so many
/// columns. What else is in the line stays whole: names of runs and commands are copied.
pub fn fitted(free: &str, margin: usize, line: impl Fn(&str) -> String) -> String {
    let free = visible(free);
    let whole = line(&free);
    let room = columns().map_or(usize::MAX, |columns| columns.saturating_sub(margin));
    match whole.width().saturating_sub(room) {
        0 => whole,
        over => line(&truncated(&free, free.width().saturating_sub(over).max(1))),
    }
}

/// Shortens `text` to one line of at most `width` columns, its end, with `…` in place of the omitted part.
pub fn truncated_front(text: &str, width: usize) -> String {
    let text = visible(text);
    if text.width() <= width {
        return text;
    }
    let mut kept = text.as_str();
    while kept.width() + 1 > width {
        let mut characters = kept.chars();
        if characters.next().is_none() {
            break;
        }
        kept = characters.as_str();
    }
    // What belongs to a character that is gone goes with it.
    let kept = kept.trim_start_matches(|character: char| character.width() == Some(0));
    format!("…{kept}")
}

/// Makes `text` harmless to a terminal: tabs and line breaks become spaces; other control characters and characters
/// that change the writing direction are escaped.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\t' | '\n' | '\r' => shown.push(' '),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => shown.extend(character.escape_unicode()),
            _ if character.is_control() => shown.extend(character.escape_unicode()),
            _ => shown.push(character),
        }
    }
    shown
}

/// Like [`visible`], but line breaks and indentation stay.
pub fn visible_block(text: &str) -> String {
    text.replace('\t', "    ").lines().map(visible).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_wrap(text: &str, width: usize, expected: &[&str]) {
        assert_eq!(wrap(text, width), expected);
    }

    // S000-C6-18
    #[test]
    fn words_stay_whole_where_they_fit() {
        check_wrap("", 10, &[""]);
        check_wrap("one two three", 7, &["one two", "three"]);
        check_wrap("one\n\n two", 10, &["one", "", "two"]);
        check_wrap("abcdefghij", 4, &["abcd", "efgh", "ij"]);
        check_wrap("ab abcdefgh", 4, &["ab", "abcd", "efgh"]);
    }

    /// The seed's width of a text: fifty columns, and the frame is six wider.
    // S000-C6-18
    #[test]
    fn a_text_of_fifty_columns_is_one_line_of_a_box_and_one_more_makes_two() {
        for (text, lines) in [
            (format!("{} {}", "a".repeat(24), "b".repeat(25)), 1),
            (format!("{} {}", "a".repeat(24), "b".repeat(26)), 2),
        ] {
            let shown = Frame::light(Paint::OFF).text(&text).finish();
            assert_eq!(shown.lines().count(), 2 + lines, "{shown}");
            assert!(shown.lines().all(|line| line.width() == 56), "{shown}");
        }
    }

    #[test]
    fn width_is_that_on_the_screen() {
        check_wrap("日本語日本語", 5, &["日本", "語日", "本語"]);
        check_wrap("año año", 7, &["año año"]);
        assert_eq!(truncated("日本語日本語", 6), "日本…");
        assert_eq!(truncated("short", 6), "short");
    }

    /// An accent of its own has no width, and stays with its letter wherever a line ends.
    #[test]
    fn decomposed_accents_are_as_wide_as_composed_ones_and_never_torn_from_their_letters() {
        let (composed, decomposed) = ("ejecución única", "ejecucio\u{301}n u\u{301}nica");
        for width in 4..20 {
            let lines = wrap(decomposed, width);
            assert_eq!(lines.len(), wrap(composed, width).len(), "{width}");
            for line in &lines {
                assert!(line.width() <= width && !line.starts_with('\u{301}'), "{lines:?}");
            }
        }
        assert_eq!(truncated(decomposed, 9), "ejecucio\u{301}…");
        assert_eq!(padded("u\u{301}", 3), "u\u{301}  ");
        let rows = |text: &str| Frame::light(Paint::OFF).text(text).finish();
        assert_eq!(rows(decomposed).lines().map(str::width).collect::<Vec<_>>(), [WIDTH; 3]);
    }

    #[test]
    fn a_box_is_as_narrow_as_its_terminal_and_no_wider_than_its_form() {
        let shown = |columns| {
            within(columns, || {
                Frame::heavy(Paint::OFF)
                    .text("Severity: HIGH")
                    .under_title()
                    .item("-> ", "`capataz runs show 0199` to look at it")
                    .finish()
            })
        };
        assert_eq!(
            shown(30),
            "\
+============================+
|  Severity: HIGH            |
+============================+
|  -> `capataz runs show     |
|     0199` to look at it    |
+============================+"
        );
        for (columns, width) in [(1, 20), (20, 20), (40, 40), (56, 56), (200, 56), (0, 56)] {
            for line in shown(columns).lines() {
                assert_eq!(line.width(), width, "{line}");
            }
        }
    }

    #[test]
    fn nothing_acts_on_the_terminal() {
        check_wrap("a\u{1b}[2Jb\tc", 40, &["a\\u{1b}[2Jb c"]);
        assert_eq!(visible("\u{202e}x"), "\\u{202e}x");
        assert_eq!(visible_block("a\n\tb"), "a\n    b");
    }

    #[test]
    fn every_line_of_a_box_has_56_columns() {
        let shown = Frame::heavy(Paint::OFF)
            .text("ERROR: 日本語")
            .under_title()
            .blank()
            .text(&"x".repeat(120))
            .rule()
            .item("-> ", "A required action that is longer than fifty columns, so that it is wrapped")
            .finish();
        for line in shown.lines() {
            assert_eq!(line.width(), WIDTH, "{line}");
        }
        assert_eq!(shown.lines().count(), 11, "{shown}");
    }
}
