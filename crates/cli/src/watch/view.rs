//! The whole view of a run: how far it is, what is at work, and what the keys do, in as many rows as there are.

use capataz_contracts::v1;
use capataz_display::format::took;
use capataz_display::frame::{truncated, width};
use capataz_display::model::{Phase, Run, Step};
use capataz_display::paint::{Paint, Tone};
use capataz_display::words::{fill, words};

use super::screen::{BESIDE, Line, screen};

/// Fewer rows have no room for the heading of the wave, nor for what the keys do.
const LEAST_ROWS: usize = 6;
const MOST_NAME_WIDTH: usize = 28;

/// The rows that a view has of so many of the terminal: one stays free for the cursor.
pub fn rows_of(terminal: usize) -> usize {
    terminal.saturating_sub(1)
}

/// The columns that a terminal of this size has for a line of what the keys do: none where it is too low for one.
pub fn room_for_hints((rows, columns): (usize, usize)) -> usize {
    if rows_of(rows) >= LEAST_ROWS { columns.saturating_sub(BESIDE) } else { 0 }
}

/// The view of `run` in at most `rows` lines of at most `columns` columns. `hints` say what the keys do.
pub fn view(
    run: &Run,
    run_id: &str,
    now_ms: i64,
    hints: Vec<String>,
    (rows, columns): (usize, usize),
    paint: Paint,
) -> Vec<Line> {
    let hints = if rows >= LEAST_ROWS { hints } else { Vec::new() };
    let heading = overview(run, now_ms, columns.saturating_sub(BESIDE), paint);
    let room = rows.saturating_sub(usize::from(heading.is_some()) + hints.len());
    let is_low = heading.is_some() && rows < LEAST_ROWS;
    let mut lines = screen(run, run_id, now_ms, room + usize::from(is_low), columns, paint);
    if lines.is_empty() {
        return lines;
    }
    if is_low {
        // The heading of the run stands where that of the wave would.
        lines.remove(0);
    }
    lines.splice(0..0, heading);
    lines.truncate(rows.max(1));
    lines.extend(hints.into_iter().map(|hint| {
        let text = truncated(&hint, columns.saturating_sub(BESIDE));
        Line { spins: false, text: paint.text(Tone::Faint, &text) }
    }));
    lines
}

/// How far a run of a plan is: `nightly: 29 of 31 done, 1 failed  12s  about 4s left`, or as much of it as there is room for.
fn overview(run: &Run, now_ms: i64, columns: usize, paint: Paint) -> Option<Line> {
    if !run.names_tasks {
        return None;
    }
    let texts = &words().live;
    let has_failed = |step: &Step| matches!(step, Step::Settled { status } if matches!(status, v1::ResultStatus::Error | v1::ResultStatus::Timeout));
    let all = run.tasks().count();
    let done = run.tasks().filter(|task| matches!(task.step, Step::Settled { .. })).count();
    let failed = run.tasks().filter(|task| has_failed(&task.step)).count();
    let elapsed_ms = now_ms - run.accepted_at_ms;
    let elapsed = took(elapsed_ms);
    let counts = fill(texts.counts, &[&done.to_string(), &all.to_string(), &failed.to_string()]);
    let named = format!("{}: {counts}  {elapsed}", truncated(&run.name, MOST_NAME_WIDTH));
    let left = estimate(elapsed_ms, done, all).filter(|_| run.phase == Phase::Running);
    let estimated = left.map(|left| format!("{named}  {}", fill(texts.estimate, &[&took(left)])));
    let short = if failed > 0 { format!("{done}/{all} ✗{failed}") } else { format!("{done}/{all}") };
    let forms =
        estimated.into_iter().chain([named, format!("{counts}  {elapsed}"), format!("{short}  {elapsed}")]);
    let mut forms = forms.filter(|form| width(form) <= columns);
    let text = forms.next().unwrap_or_else(|| truncated(&short, columns));
    let tone = if failed > 0 { Tone::Warning } else { Tone::Strong };
    Some(Line { spins: false, text: paint.text(tone, &text) })
}

/// The time that the tasks that are left take, in milliseconds, if they take as long as those that are done: whole seconds, and
/// `None` for less.
fn estimate(elapsed_ms: i64, done: usize, all: usize) -> Option<i64> {
    let (done, all) = (i64::try_from(done).ok()?, i64::try_from(all).ok()?);
    let left = elapsed_ms.saturating_mul(all - done).checked_div(done)? / 1_000 * 1_000;
    (left > 0).then_some(left)
}

#[cfg(test)]
mod tests {
    use capataz_display::model::tests::{accepted, fold, leased, settled, started};
    use capataz_display::words::Language;

    use super::*;

    fn shown(run: &Run, now_ms: i64, hint: Option<&str>, rows: usize, columns: usize) -> Vec<String> {
        let lines = view(
            run,
            "0199",
            now_ms,
            hint.map(str::to_owned).into_iter().collect(),
            (rows, columns),
            Paint::OFF,
        );
        lines.into_iter().map(|line| line.text).collect()
    }

    /// One of four is done, one has failed, and one is at work.
    fn half() -> Run {
        fold([
            accepted(&["a", "b", "c", "d"]),
            started(),
            settled(0, v1::ResultStatus::Success, 1),
            settled(1, v1::ResultStatus::Error, 1),
            leased(2, 1),
        ])
    }

    #[test]
    fn the_heading_says_how_far_the_run_is_in_as_many_columns_as_there_are() {
        let run = half();
        let now = run.accepted_at_ms + 12_000;
        for (columns, expected) in [
            (80, "nightly: 2 of 4 done, 1 failed  12s  about 12s left"),
            (52, "nightly: 2 of 4 done, 1 failed  12s"),
            (36, "2 of 4 done, 1 failed  12s"),
            (20, "2/4 ✗1  12s"),
            (10, "2/4 ✗1"),
        ] {
            assert_eq!(shown(&run, now, None, 20, columns)[0], expected, "{columns}");
        }
        Language::Spanish.within(|| {
            let heading = "nightly: 2 de 4 terminadas, 1 con error  12s  quedan unos 12s";
            assert_eq!(shown(&run, now, None, 20, 80)[0], heading);
        });
    }

    #[test]
    fn nothing_is_estimated_before_anything_is_done_nor_at_its_end() {
        let run = fold([accepted(&["a", "b"]), started(), leased(0, 1)]);
        let heading = "nightly: 0 of 2 done, 0 failed  2s";
        assert_eq!(shown(&run, run.accepted_at_ms + 2_000, None, 20, 80)[0], heading);
        let heading = "nightly: 2 of 4 done, 1 failed  0.9s";
        let run = half();
        assert_eq!(shown(&run, run.accepted_at_ms + 900, None, 20, 80)[0], heading, "nor less than a second");
    }

    /// Who presses a key has seen what it does.
    #[test]
    fn what_the_keys_do_is_there_however_many_questions_are_open() {
        let asked = |number: usize| {
            let options = ["retry", "skip", "abort"].map(str::to_owned).into();
            let question =
                v1::Question { question_id: format!("q{number}"), options, ..v1::Question::default() };
            let asked = v1::QuestionAsked { question: Some(question), ..v1::QuestionAsked::default() };
            v1::event::Body::QuestionAsked(Box::new(asked))
        };
        let begun = [accepted(&["a", "b"]), started(), leased(0, 1)];
        let run = fold(begun.into_iter().chain((0..40).map(asked)));
        let hint = "? r: retry, s: skip, a: abort (q0)";
        for (rows, columns) in (LEAST_ROWS..40).flat_map(|rows| (40..120).map(move |columns| (rows, columns)))
        {
            let lines = view(&run, "0199", 9_000, vec![hint.to_owned()], (rows, columns), Paint::OFF);
            let height: usize = lines.iter().map(|line| line.height(columns)).sum();
            assert!(height <= rows, "{rows} of {columns}: {lines:?}");
            assert_eq!(lines.last().map(|line| line.text.as_str()), Some(hint), "{rows} of {columns}");
        }
        let lines = shown(&run, 9_000, Some(hint), 23, 80);
        assert!(lines[2].ends_with("  … and 39 more") && lines[3].starts_with("a  agent-a"), "{lines:?}");
        assert_eq!((room_for_hints((24, 80)), room_for_hints((LEAST_ROWS, 80))), (77, 0));
    }

    #[test]
    fn what_is_least_needed_gives_way_where_rows_are_scarce() {
        let run = half();
        let now = run.accepted_at_ms + 12_000;
        let hint = "e: 15m more for c, the next to time out";
        let lines = shown(&run, now, Some(hint), 6, 80);
        assert_eq!((lines.len(), lines[4].as_str()), (5, hint));
        assert!(lines[1].starts_with("checks (quorum): ") && lines[2].starts_with("c  agent-c"), "{lines:?}");
        let lines = shown(&run, now, Some(hint), 5, 80);
        assert_eq!((lines.len(), lines[2].as_str()), (3, "1 queued"), "{lines:?}");
        assert!(lines[1].starts_with("c  agent-c"), "{lines:?}");
        assert_eq!(shown(&run, now, Some(hint), 1, 80).len(), 1);
        assert_eq!(shown(&run, now, Some(hint), 20, 20)[4], "e: 15m more for …");
    }
}
