//! The timeline: a row for each piece of work, with its tries, its waits and what happened to it.
//!
//! Each row is a drawing of its own, as wide as there is room, so that its marks are not distorted and the page fits a
//! phone. What a bar means is said by its colour, by its pattern, by the text of its row and by its title.

use capataz_display::format::took;
use capataz_display::words::{fill, words};

use super::markup::Markup;

/// Maximum number of rows; of further ones, those that succeeded are counted.
pub const MOST_ROWS: usize = 200;
/// Maximum number of bars in one row.
const MOST_BARS: usize = 60;
/// Maximum number of bars that the text of a row names for those who do not see it.
const MOST_NAMED: usize = 12;
/// The least width of a bar in percent, so that what took no time is visible.
const NARROWEST: f64 = 0.6;
/// The share of the whole from which on a time in which nothing is at work is drawn shorter.
const LONG: f64 = 0.25;
/// The width of such a time, in percent.
const SHORTENED: f64 = 8.0;

/// A timeline under construction.
#[derive(Debug, Default)]
pub struct Timeline {
    pub lines: Vec<Line>,
}

#[derive(Debug)]
pub enum Line {
    /// The title of the rows after it, and what came of them.
    Group(String, String),
    Row(Row),
    /// Rows that are left out, in words.
    Folded(String),
}

#[derive(Debug, Default)]
pub struct Row {
    pub label: String,
    /// The place on the page that tells more.
    pub anchor: Option<String>,
    /// What came of it, in short.
    pub note: String,
    pub bars: Vec<Bar>,
    pub marks: Vec<Mark>,
}

#[derive(Debug)]
pub struct Bar {
    pub from_ms: i64,
    pub until_ms: i64,
    pub kind: BarKind,
    pub title: String,
}

/// What a part of the time was spent with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BarKind {
    Good,
    Bad,
    Open,
    Stopped,
    Lost,
    Frame,
    Queued,
    BackOff,
    Person,
}

#[derive(Debug)]
pub struct Mark {
    pub at_ms: i64,
    pub kind: MarkKind,
    pub title: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MarkKind {
    Failed,
    Lost,
    Asked,
    Answered,
    Paused,
    Stopped,
    Noted,
}

impl BarKind {
    const fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Open => "open",
            Self::Stopped => "stopped",
            Self::Lost => "lost",
            Self::Frame => "frame",
            Self::Queued => "queued",
            Self::BackOff => "backoff",
            Self::Person => "person",
        }
    }

    fn meaning(self) -> &'static str {
        let texts = &words().reports;
        match self {
            Self::Good => texts.bar_good,
            Self::Bad => texts.bar_bad,
            Self::Open => texts.bar_open,
            Self::Stopped => texts.bar_stopped,
            Self::Lost => texts.bar_lost,
            Self::Frame => texts.bar_frame,
            Self::Queued => texts.bar_queued,
            Self::BackOff => texts.bar_backoff,
            Self::Person => texts.bar_person,
        }
    }

    const fn is_work(self) -> bool {
        matches!(self, Self::Good | Self::Bad | Self::Open | Self::Stopped | Self::Lost | Self::Frame)
    }
}

impl MarkKind {
    const fn sign(self) -> &'static str {
        match self {
            Self::Failed => "×",
            Self::Lost => "!",
            Self::Asked => "?",
            Self::Answered => "»",
            Self::Paused => "=",
            Self::Stopped => "-",
            Self::Noted => "+",
        }
    }

    const fn class(self) -> &'static str {
        match self {
            Self::Failed => "mark failed",
            Self::Lost => "mark lost",
            Self::Asked => "mark asked",
            Self::Answered => "mark answered",
            Self::Paused | Self::Stopped | Self::Noted => "mark noted",
        }
    }

    fn meaning(self) -> &'static str {
        let texts = &words().reports;
        match self {
            Self::Failed => texts.mark_failed,
            Self::Lost => texts.mark_lost,
            Self::Asked => texts.mark_asked,
            Self::Answered => texts.mark_answered,
            Self::Paused => texts.mark_paused,
            Self::Stopped => texts.mark_stopped,
            Self::Noted => texts.mark_noted,
        }
    }
}

/// Where each time is drawn, in percent. Long times in which nothing is at work are drawn shorter.
#[derive(Debug)]
pub struct Scale {
    /// Pieces of the time, each with its place.
    pieces: Vec<Piece>,
    length_ms: i64,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    from_ms: i64,
    until_ms: i64,
    x: f64,
    width: f64,
    is_short: bool,
}

impl Scale {
    /// The scale of a time with this work in it.
    pub fn new(from_ms: i64, until_ms: i64, mut work: Vec<(i64, i64)>) -> Self {
        let until_ms = until_ms.max(from_ms.saturating_add(1));
        let length_ms = until_ms.saturating_sub(from_ms);
        work.sort_unstable();
        let (mut pieces, mut at) = (Vec::new(), from_ms);
        let has_work = work.iter().any(|(from, until)| until > from);
        for (begins, ends) in work.into_iter().filter(|_| has_work).chain([(until_ms, until_ms)]) {
            let begins = begins.clamp(from_ms, until_ms);
            if begins.saturating_sub(at) as f64 > LONG * length_ms as f64 && has_work {
                pieces.push((at, begins));
            }
            at = at.max(ends.clamp(from_ms, until_ms));
        }
        Self { pieces: placed(from_ms, until_ms, &pieces), length_ms }
    }

    /// The place of a time, from 0 to 100.
    pub fn place(&self, at_ms: i64) -> f64 {
        let piece = self.pieces.iter().rev().find(|piece| piece.from_ms <= at_ms).or(self.pieces.first());
        let Some(piece) = piece else { return 0.0 };
        let length = piece.until_ms.saturating_sub(piece.from_ms).max(1) as f64;
        let share = at_ms.saturating_sub(piece.from_ms).max(0) as f64 / length;
        piece.x + piece.width * share.min(1.0)
    }

    fn shortened(&self) -> impl Iterator<Item = &Piece> {
        self.pieces.iter().filter(|piece| piece.is_short)
    }
}

/// The pieces of the time, with these drawn shorter.
fn placed(from_ms: i64, until_ms: i64, short: &[(i64, i64)]) -> Vec<Piece> {
    let shortened = short.iter().map(|(from, until)| until.saturating_sub(*from));
    let shortened = shortened.fold(0, i64::saturating_add);
    let rest = until_ms.saturating_sub(from_ms).saturating_sub(shortened).max(1) as f64;
    let per_ms = (100.0 - SHORTENED * short.len() as f64) / rest;
    let (mut pieces, mut at, mut x) = (Vec::new(), from_ms, 0.0);
    let mut push = |from_ms: i64, until_ms: i64, width: f64, is_short: bool| {
        if until_ms > from_ms {
            pieces.push(Piece { from_ms, until_ms, x, width, is_short });
            x += width;
        }
    };
    for (from, until) in short {
        push(at, *from, from.saturating_sub(at) as f64 * per_ms, false);
        push(*from, *until, SHORTENED, true);
        at = *until;
    }
    push(at, until_ms, until_ms.saturating_sub(at) as f64 * per_ms, false);
    pieces
}

impl Timeline {
    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.lines.iter().filter_map(|line| match line {
            Line::Row(row) => Some(row),
            Line::Group(..) | Line::Folded(_) => None,
        })
    }

    fn bars(&self) -> impl Iterator<Item = &Bar> {
        self.rows().flat_map(|row| row.bars.iter().take(MOST_BARS))
    }

    /// Writes the timeline of the time between these two; nothing if it has no rows.
    pub fn draw(&self, page: &mut Markup, from_ms: i64, until_ms: i64) {
        if self.rows().next().is_none() {
            return;
        }
        let work = self.bars().filter(|bar| bar.kind.is_work()).map(|bar| (bar.from_ms, bar.until_ms));
        let scale = Scale::new(from_ms, until_ms, work.collect());
        page.open_with("section", &[("class", "timeline"), ("id", "timeline")]);
        page.element("h2", words().page.timeline);
        page.element_class("p", "faint", &fill(words().page.timeline_about, &[&took(scale.length_ms)]));
        self.legend(page);
        axis(page, &scale);
        for line in &self.lines {
            match line {
                Line::Group(title, note) => {
                    page.open_class("p", "group");
                    page.element("strong", title);
                    page.element_class("span", "faint", note);
                    page.close("p");
                }
                Line::Row(row) => row.draw(page, &scale),
                Line::Folded(text) => page.element_class("p", "faint folded", text),
            }
        }
        page.close("section");
    }

    /// Writes what the bars and marks of this timeline mean.
    fn legend(&self, page: &mut Markup) {
        let mut bars: Vec<BarKind> = self.bars().map(|bar| bar.kind).collect();
        let mut marks: Vec<MarkKind> =
            self.rows().flat_map(|row| row.marks.iter().take(MOST_BARS)).map(|mark| mark.kind).collect();
        bars.sort_unstable();
        bars.dedup();
        marks.sort_unstable();
        marks.dedup();
        page.open_class("ul", "legend");
        for kind in bars {
            page.open("li");
            page.open_with("svg", &[("class", "lane sample"), ("aria-hidden", "true")]);
            page.open_class("g", kind.class());
            page.open_with("rect", &[("y", "3"), ("width", "100%"), ("height", "14")]);
            page.close("g");
            page.close("svg");
            page.text(kind.meaning());
            page.close("li");
        }
        for kind in marks {
            page.open("li");
            page.open_with("svg", &[("class", "lane sample"), ("aria-hidden", "true")]);
            sign(page, kind, 50.0, None);
            page.close("svg");
            page.text(kind.meaning());
            page.close("li");
        }
        page.close("ul");
    }
}

/// Writes the times above the rows.
fn axis(page: &mut Markup, scale: &Scale) {
    page.open_class("div", "row axis");
    page.element_class("span", "label", "");
    page.open_with("svg", &[("class", "lane"), ("aria-hidden", "true")]);
    let tick = |page: &mut Markup, x: f64, anchor: &str, text: &str| {
        page.open_with("text", &[("x", &percent(x)), ("y", "14"), ("text-anchor", anchor)]);
        page.text(text);
        page.close("text");
    };
    tick(page, 0.0, "start", "0s");
    let mut has_gap = false;
    for piece in scale.shortened() {
        has_gap = true;
        let text = format!("/ {} /", took(piece.until_ms.saturating_sub(piece.from_ms)));
        page.open("g");
        page.element("title", words().reports.shortened);
        tick(page, (piece.x + piece.width / 2.0).clamp(12.0, 84.0), "middle", &text);
        page.close("g");
    }
    if !has_gap {
        tick(page, 50.0, "middle", &took(scale.length_ms / 2));
    }
    tick(page, 100.0, "end", &took(scale.length_ms));
    page.close("svg");
    page.close("div");
}

impl Row {
    fn draw(&self, page: &mut Markup, scale: &Scale) {
        page.open_class("div", "row");
        page.open_class("span", "label");
        match &self.anchor {
            Some(anchor) => {
                page.open_with("a", &[("href", &format!("#{anchor}"))]);
                page.text(&self.label);
                page.close("a");
            }
            None => page.element("b", &self.label),
        }
        page.element_class("span", "faint", &self.note);
        page.close("span");
        let named = self.bars.iter().map(|bar| bar.title.as_str()).take(MOST_NAMED);
        let about = named.collect::<Vec<_>>().join("; ");
        let about = if about.is_empty() { self.note.clone() } else { about };
        page.open_with("svg", &[("class", "lane"), ("role", "img"), ("aria-label", &about)]);
        page.open_with("rect", &[("class", "track"), ("width", "100%"), ("height", "20")]);
        for bar in self.bars.iter().take(MOST_BARS) {
            let (from, until) = (scale.place(bar.from_ms), scale.place(bar.until_ms));
            let width = (until - from).max(NARROWEST);
            page.open_class("g", bar.kind.class());
            page.element("title", &bar.title);
            page.open_with(
                "rect",
                &[
                    ("x", &percent(from.min(100.0 - width))),
                    ("y", "3"),
                    ("width", &percent(width)),
                    ("height", "14"),
                ],
            );
            page.close("g");
        }
        for mark in self.marks.iter().take(MOST_BARS) {
            sign(page, mark.kind, scale.place(mark.at_ms), Some(&mark.title));
        }
        page.close("svg");
        page.close("div");
    }
}

/// Writes a mark: a disc with a sign in it.
fn sign(page: &mut Markup, kind: MarkKind, x: f64, title: Option<&str>) {
    let x = percent(x.clamp(1.5, 98.5));
    page.open_class("g", kind.class());
    if let Some(title) = title {
        page.element("title", title);
    }
    page.open_with("circle", &[("cx", &x), ("cy", "10"), ("r", "7")]);
    page.open_with("text", &[("x", &x), ("y", "14"), ("text-anchor", "middle")]);
    page.text(kind.sign());
    page.close("text");
    page.close("g");
}

fn percent(x: f64) -> String {
    format!("{x:.2}%")
}

/// Writes the patterns of the bars, to which the style sheet refers.
pub fn patterns(page: &mut Markup) {
    page.constant(include_str!("patterns.svg"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(work: &[(i64, i64)], at_ms: i64, expected: f64) {
        let scale = Scale::new(1_000, 101_000, work.to_vec());
        assert!((scale.place(at_ms) - expected).abs() < 0.01, "{}", scale.place(at_ms));
    }

    #[test]
    fn times_are_drawn_to_scale_where_something_is_at_work() {
        let work = [(1_000, 30_000), (31_000, 101_000)];
        check(&work, 1_000, 0.0);
        check(&work, 51_000, 50.0);
        check(&work, 101_000, 100.0);
        check(&work, 0, 0.0);
        check(&work, 200_000, 100.0);
    }

    #[test]
    fn no_time_is_too_far_away_for_the_drawing() {
        const ENDS: [i64; 4] = [i64::MIN, -1, 0, i64::MAX];
        for (from, until) in ENDS.into_iter().flat_map(|from| ENDS.map(|until| (from, until))) {
            for work in [vec![], vec![(i64::MIN, -1), (0, i64::MAX)], vec![(i64::MAX, i64::MAX), (-1, 0)]] {
                let scale = Scale::new(from, until, work);
                for at_ms in ENDS {
                    let place = scale.place(at_ms);
                    assert!((0.0..=100.01).contains(&place), "{from} {until} {at_ms}: {place}");
                }
            }
        }
    }

    #[test]
    fn a_long_time_in_which_nothing_is_at_work_is_drawn_shorter() {
        // Ten seconds of work, eighty of nothing, ten of work: 8 percent for the eighty, 46 for each ten.
        let work = [(1_000, 11_000), (91_000, 101_000)];
        check(&work, 11_000, 46.0);
        check(&work, 51_000, 50.0);
        check(&work, 91_000, 54.0);
        check(&work, 101_000, 100.0);
    }

    #[test]
    fn a_time_without_any_work_is_to_scale() {
        check(&[], 51_000, 50.0);
        check(&[(51_000, 51_000)], 51_000, 50.0);
    }

    #[test]
    fn work_within_other_work_leaves_no_gap() {
        check(&[(1_000, 101_000), (2_000, 3_000)], 26_000, 25.0);
    }
}
