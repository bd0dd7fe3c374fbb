//! The whole view of a run: how far it is, what is at work, and what the keys do, in as many rows as there are.

use capataz_display::format::took;
use capataz_display::frame::{truncated, width};
use capataz_display::model::Run;
use capataz_display::pace::Unit;
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
    // A script has no heading but that of the run.
    let has_two = heading.is_some() && run.script.is_none() && run.wave.is_some();
    let is_low = has_two && rows < LEAST_ROWS;
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

/// How far a run is: `nightly: 29 of 31 done, 1 failed  12s  about 4s left`, or as much of it as there is room for.
fn overview(run: &Run, now_ms: i64, columns: usize, paint: Paint) -> Option<Line> {
    let texts = &words().live;
    let far = run.how_far()?;
    let elapsed = took(now_ms.saturating_sub(run.accepted_at_ms));
    let (done, failed) = (far.done.to_string(), far.failed.to_string());
    let (counts, done) = match far.all.map(|all| all.to_string()) {
        Some(all) => {
            let template = if far.unit == Unit::Steps { texts.counts_of_steps } else { texts.counts };
            (fill(template, &[&done, &all, &failed]), format!("{done}/{all}"))
        }
        None => (fill(texts.counts_so_far, &[&done, &failed]), done),
    };
    let named = format!("{}: {counts}  {elapsed}", truncated(&run.name, MOST_NAME_WIDTH));
    let left = run.time_left_ms(&far, now_ms);
    let estimated = left.map(|left| format!("{named}  {}", fill(texts.estimate, &[&took(left)])));
    let short = if far.failed > 0 { format!("{done} ✗{failed}") } else { done };
    let forms =
        estimated.into_iter().chain([named, format!("{counts}  {elapsed}"), format!("{short}  {elapsed}")]);
    let mut forms = forms.filter(|form| width(form) <= columns);
    let text = forms.next().unwrap_or_else(|| truncated(&short, columns));
    let tone = if far.failed > 0 { Tone::Warning } else { Tone::Strong };
    Some(Line { spins: false, text: paint.text(tone, &text) })
}

#[cfg(test)]
mod tests {
    use capataz_contracts::v1::{self, event::Body};
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

    /// A task at work, one that waits for its next attempt, and a browser at work, all of it at this time.
    fn at_work_at(at_ms: i64) -> (Run, Run) {
        let mut lease = leased(0, 1);
        if let Body::TaskLeased(leased) = &mut lease {
            (leased.deadline_ms, leased.deadline_in_ms) = (Some(at_ms), Some(at_ms));
        }
        let failed =
            v1::TaskAttemptFailed { task: 1, retry_at_ms: at_ms, ..v1::TaskAttemptFailed::default() };
        let bodies = [accepted(&["a", "b"]), started(), lease, leased(1, 1), Body::TaskAttemptFailed(failed)];
        let mut tasks = Run::default();
        for body in bodies {
            tasks.apply(&v1::Event { at_ms, body: Some(body), ..v1::Event::default() });
        }
        let mut browser = Run::default();
        for event in capataz_display::script::tests::story().into_iter().take(11) {
            browser.apply(&v1::Event { at_ms, ..event });
        }
        (tasks, browser)
    }

    #[test]
    fn no_clock_is_too_far_ahead_or_behind() {
        let times = [i64::MIN, -1, 0, i64::MAX];
        for (at_ms, now_ms) in times.into_iter().flat_map(|at_ms| times.map(|now_ms| (at_ms, now_ms))) {
            let (tasks, browser) = at_work_at(at_ms);
            let lines = shown(&tasks, now_ms, None, 20, 120);
            assert_eq!(lines.len(), 4, "{at_ms} {now_ms} {lines:?}");
            assert!(lines[3].starts_with("b  agent-b") && lines[3].contains("again in"), "{lines:?}");
            assert_eq!(shown(&browser, now_ms, None, 20, 120).len(), 2, "{at_ms} {now_ms}");
        }
        // What is said to have begun later than now has taken no time yet.
        let (tasks, browser) = at_work_at(i64::MAX);
        let heading = "nightly: 0 of 2 done, 0 failed  0s";
        assert_eq!(shown(&tasks, i64::MIN, None, 20, 80)[0], heading);
        assert!(shown(&browser, i64::MIN, None, 20, 80)[1].ends_with("  0s"));
        // And what began before everything, all of it that there is.
        let heading = "nightly: 0 of 2 done, 0 failed  106751991167d 7h";
        assert_eq!(shown(&at_work_at(i64::MIN).0, i64::MAX, None, 20, 80)[0], heading);
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

    #[test]
    fn a_script_has_its_actions_in_the_heading() {
        let mut run = Run::default();
        capataz_display::script::tests::story().iter().take(11).for_each(|event| run.apply(event));
        // It was accepted after 10 ms, and its second action began after 100 ms.
        let [heading, action] = [
            "shop: 1 of 4 done, 0 failed  1.2s  about 3s left",
            "2 of 4: click role=button name=\"Buy\"  1.1s",
        ];
        assert_eq!(shown(&run, 1_210, None, 20, 80), [heading, action]);
        assert_eq!(shown(&run, 1_210, None, 2, 80), [heading, action]);
        assert_eq!(shown(&run, 1_210, None, 1, 80), [heading]);
        let heading = "shop: 1 de 4 terminadas, 0 con error  1.2s  quedan unos 3s";
        Language::Spanish.within(|| assert_eq!(shown(&run, 1_210, None, 1, 80), [heading]));
    }

    #[test]
    fn an_execution_that_may_be_planned_anew_has_what_was_done_and_no_estimate() {
        let accepted = v1::RunAccepted {
            work: Some(v1::run_accepted::Work::Mode(v1::ModeRun {
                query: "tidy the notes".to_owned(),
                ..v1::ModeRun::default()
            })),
            ..v1::RunAccepted::default()
        };
        let begun = v1::ModeBegun { mode: v1::ExecutionMode::Planner.into(), ..v1::ModeBegun::default() };
        let task = v1::Task { name: "look.1".to_owned(), agent: "look".to_owned(), ..v1::Task::default() };
        let tasks = Some(v1::Wave { tasks: vec![task], ..v1::Wave::default() });
        let run = fold([
            Body::RunAccepted(Box::new(accepted)),
            Body::ModeBegun(begun),
            Body::ToolCalled(v1::ToolCalled { tasks, ..v1::ToolCalled::default() }),
            Body::ToolObserved(v1::ToolObserved {
                step: 1,
                error: Some(v1::Error::default()),
                ..v1::ToolObserved::default()
            }),
        ]);
        let now = run.accepted_at_ms + 12_000;
        let lines = shown(&run, now, None, 20, 80);
        assert_eq!(lines[..2], ["tidy the notes: 1 done, 1 failed  12s", "planner; 1 action"]);
        assert_eq!(shown(&run, now, None, 20, 20)[0], "1 ✗1  12s");
        Language::Spanish.within(|| {
            let heading = "tidy the notes: terminadas: 1, con error: 1  12s";
            assert_eq!(shown(&run, now, None, 20, 80)[0], heading);
        });
    }

    /// Who presses a key has seen what it does.
    #[test]
    fn what_the_keys_do_is_there_however_many_questions_are_open() {
        let asked = |number: usize| {
            let options = ["retry", "skip", "abort"].map(str::to_owned).into();
            let question =
                v1::Question { question_id: format!("q{number}"), options, ..v1::Question::default() };
            let asked = v1::QuestionAsked { question: Some(question), ..v1::QuestionAsked::default() };
            Body::QuestionAsked(Box::new(asked))
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
