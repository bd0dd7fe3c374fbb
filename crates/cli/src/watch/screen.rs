//! The lines at the bottom of the screen, which show the run's current work.

use std::collections::BTreeSet;

use capataz_contracts::v1;
use capataz_display::format::{clock, share, took};
use capataz_display::frame::{padded, truncated, truncated_front, visible, width};
use capataz_display::model::{Phase, Run, Step, Task, Wave};
use capataz_display::paint::{Paint, Tone};
use capataz_display::pipeline;
use capataz_display::run::how_to_answer;
use capataz_display::script::describe;
use capataz_display::script::fold::ScriptRun;
use capataz_display::wave::policy_name;
use capataz_display::words::{fill, words};
use console::measure_text_width;

/// One line of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// True when a spinner moves in front of the line.
    pub spins: bool,
    pub text: String,
}

impl Line {
    /// Its rows, where so many columns are all that a row has: it goes on in the next one.
    pub fn height(&self, columns: usize) -> usize {
        (MARK + measure_text_width(&self.text)).div_ceil(columns.max(1))
    }
}

/// The running tasks of `run`, in at most `rows` rows of `columns` columns. Commands alone have more than one row.
pub fn screen(run: &Run, run_id: &str, now_ms: i64, rows: usize, columns: usize, paint: Paint) -> Vec<Line> {
    if run.is_finished() {
        return Vec::new();
    }
    let all_columns = columns;
    let room_for_tails = columns.saturating_sub(BESIDE + TAIL_INDENT.len());
    let columns = columns.saturating_sub(BESIDE).max(LEAST_COLUMNS);
    let phases = (!run.phases.is_empty()).then(|| still(pipeline::standing(&run.phases, columns)));
    let Some(wave) = run.wave.and_then(|index| run.waves.get(index)) else {
        // A phase is blocked before it begins where its input cannot be made.
        let notes = phases.iter().flat_map(|_| notes(run, run_id, columns, paint)).map(still);
        let notes: Vec<Line> = notes.collect();
        return fitting(phases.into_iter().chain(notes), rows, all_columns);
    };
    if let Some(script) = &run.script {
        let notes = notes(run, run_id, columns, paint).into_iter().map(still);
        return fitting(notes.chain([activity_line(script, now_ms, columns)]), rows, all_columns);
    }
    let mut head = match &run.execution {
        Some(execution) => vec![still(paint.text(Tone::Strong, &truncated(&execution.heading(), columns)))],
        None => vec![still(header(run, wave, columns, paint))],
    };
    head.extend(phases);
    head.extend(notes(run, run_id, columns, paint).into_iter().map(still));
    let height = |lines: &[Line]| lines.iter().map(|line| line.height(all_columns)).sum::<usize>();
    if let Some(execution) = &run.execution {
        // One call is at work at a time.
        let room = rows.saturating_sub(height(&head) + 2).min(MOST_STEPS);
        head.extend(execution.steps_around(room, columns, paint).into_iter().map(still));
    }
    let mut at_work = Vec::new();
    let mut queued = 0_u64;
    let mut absent = BTreeSet::new();
    let width = name_width(wave, columns);
    for task in wave.active.iter().filter_map(|index| wave.tasks.get(*index as usize)) {
        match &task.step {
            Step::Queued | Step::Planned => {
                queued += 1;
                absent.extend(task.absent.then(|| visible(&task.agent)));
            }
            _ => at_work.push(task),
        }
    }
    at_work.sort_by_key(|task| turn(task));
    let shown = at_work.iter().take(MOST_TASKS);
    let tails: Vec<Vec<Line>> = shown.clone().map(|task| tail_lines(task, room_for_tails, paint)).collect();
    let mut lines: Vec<Line> = shown
        .map(|task| Line {
            spins: !matches!(task.step, Step::Retrying { .. }),
            text: paint.text(
                if task.imminent { Tone::Warning } else { Tone::Plain },
                &truncated(&task_line(task, width, columns, now_ms), columns),
            ),
        })
        .collect();
    let waiting = (queued > 0).then(|| still(queue_line(queued, &absent, columns, paint)));
    let room = rows.saturating_sub(height(&head) + usize::from(waiting.is_some())).clamp(1, MOST_TASKS);
    if at_work.len() <= room {
        lines = with_tails(lines, tails, room);
    } else {
        let hidden = at_work.len() - (room - 1);
        lines.truncate(room - 1);
        lines.push(still(paint.text(Tone::Faint, &fill(words().watch.more_running, &[&hidden.to_string()]))));
    }
    fitting(head.into_iter().chain(lines).chain(waiting), rows, all_columns)
}

/// The lines that there is room for: the first one, and each for which those before it leave its rows.
fn fitting(lines: impl Iterator<Item = Line>, rows: usize, columns: usize) -> Vec<Line> {
    let mut taken = 0;
    let fits = |line: &Line| {
        let with = taken + line.height(columns);
        let fits = taken == 0 || with <= rows;
        taken = if fits { with } else { taken };
        fits
    };
    lines.filter(fits).collect()
}

/// The lines of tasks, each with the end of its output below it: of each as many lines as there is room for of all.
fn with_tails(lines: Vec<Line>, mut tails: Vec<Vec<Line>>, room: usize) -> Vec<Line> {
    let free = room.saturating_sub(lines.len());
    let most = tails.iter().map(Vec::len).max().unwrap_or(0);
    let taken = |depth: usize| tails.iter().map(|tail| tail.len().min(depth)).sum::<usize>();
    let depth = (0..=most).rev().find(|depth| taken(*depth) <= free).unwrap_or(0);
    tails.iter_mut().for_each(|tail| drop(tail.drain(..tail.len().saturating_sub(depth))));
    lines.into_iter().zip(tails).flat_map(|(line, tail)| [line].into_iter().chain(tail)).collect()
}

/// Rows of tasks at work, and of what they put out.
const MOST_TASKS: usize = 10;

/// Columns of the spinner.
const MARK: usize = 2;
/// The same with one that stays free.
pub const BESIDE: usize = MARK + 1;
/// Fewer columns are no reason to shorten anything further.
const LEAST_COLUMNS: usize = 4;
/// In fewer columns, a task's agent and attempt give way to its time.
const NARROW: usize = 45;

/// The order in which tasks are shown: the longest at work first, then those that wait for their next attempt.
fn turn(task: &Task) -> (bool, i64) {
    match task.step {
        Step::Running { since_ms } | Step::Stopping { since_ms } => (false, since_ms),
        Step::Retrying { at_ms } => (true, at_ms),
        Step::Planned | Step::Queued | Step::Settled { .. } => (true, i64::MAX),
    }
}

/// Steps of an execution's plan that are shown at once.
const MOST_STEPS: usize = 10;

/// What the lines of a task's output begin with, below its own line.
const TAIL_INDENT: &str = "  ";
/// Fewer columns of an output tell nothing.
const LEAST_TAIL: usize = 10;

/// The end of the task's output so far. Of a line that is too long its end is shown: the newest of it.
fn tail_lines(task: &Task, columns: usize, paint: Paint) -> Vec<Line> {
    let Some(tail) = task.progress.partial_tail.as_ref().filter(|_| columns >= LEAST_TAIL) else {
        return Vec::new();
    };
    let shown = |line: &str| format!("{TAIL_INDENT}{}", truncated_front(line, columns));
    tail.lines().map(|line| still(paint.text(Tone::Faint, &shown(line)))).collect()
}

/// How many tasks wait, and for which agents nobody is there who serves them.
fn queue_line(queued: u64, absent: &BTreeSet<String>, columns: usize, paint: Paint) -> String {
    let texts = &words().watch;
    if absent.is_empty() {
        return paint.text(Tone::Faint, &fill(texts.queued, &[&queued.to_string()]));
    }
    let agents = absent.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    paint
        .text(Tone::Warning, &truncated(&fill(texts.queued_absent, &[&queued.to_string(), &agents]), columns))
}

/// The current activity of a script's browser: `3 of 7: click role=button name="Save"  1.2s`.
fn activity_line(script: &ScriptRun, now_ms: i64, columns: usize) -> Line {
    let texts = &words().script_lines;
    let Some(activity) = script.current() else {
        return Line { spins: false, text: texts.awaiting.to_owned() };
    };
    let action = activity.action.as_ref().map(describe::action).unwrap_or_default();
    let text = match (activity.kind, activity.step) {
        (v1::BrowserActivity::Recovery, _) => fill(texts.recovering, &[&action]),
        (v1::BrowserActivity::Close, _) => texts.closing.to_owned(),
        (_, Some(step)) => {
            let of = script.script.actions.len().to_string();
            fill(texts.begins, &[&(step + 1).to_string(), &of, &action])
        }
        (_, None) => texts.opening.to_owned(),
    };
    let since = took(now_ms.saturating_sub(activity.started_at_ms));
    Line { spins: true, text: truncated(&format!("{text}  {since}"), columns) }
}

fn still(text: String) -> Line {
    Line { spins: false, text }
}

/// The heading of a wave: `checks (quorum): 3 of 5 settled, 2 succeeded, needs 3/5 (60%)`.
fn header(run: &Run, wave: &Wave, columns: usize, paint: Paint) -> String {
    let texts = &words().watch;
    let total = wave.tasks.len();
    let mut state =
        fill(texts.so_far, &[&wave.settled.to_string(), &total.to_string(), &wave.succeeded.to_string()]);
    if let Some(needed) = needed(wave) {
        state.push_str(&format!(", {}", fill(texts.need, &[&share(needed, total as u64)])));
    } else if wave.policy.kind() == v1::AggregationKind::CriticalPath {
        let critical = wave.tasks.iter().filter(|task| task.critical).map(|task| visible(&task.name));
        let critical: Vec<String> = critical.collect();
        state.push_str(&format!(", {}", fill(texts.critical, &[&critical.join(" ")])));
    }
    let name = format!("{} ({})", visible(&wave.name), policy_name(wave.policy.kind()));
    let text = truncated(&fill(texts.policy, &[&name, &state]), columns);
    paint.text(if run.phase == Phase::Running { Tone::Strong } else { Tone::Warning }, &text)
}

/// The number of successes that the wave needs; `None` if no count decides.
fn needed(wave: &Wave) -> Option<u64> {
    let total = wave.tasks.len() as u64;
    match wave.policy.kind() {
        v1::AggregationKind::Quorum | v1::AggregationKind::Unspecified => {
            let threshold = wave.policy.quorum_threshold.unwrap_or(0.5).clamp(0.0, 1.0);
            // The smallest whole number whose share reaches the threshold, regardless of rounding.
            Some((0..=total).find(|count| *count as f64 / total.max(1) as f64 >= threshold).unwrap_or(total))
        }
        v1::AggregationKind::FailFast => Some(total),
        v1::AggregationKind::ContinueAll | v1::AggregationKind::CriticalPath => None,
    }
}

fn notes(run: &Run, run_id: &str, columns: usize, paint: Paint) -> Vec<String> {
    let texts = &words().watch;
    let mut notes = Vec::new();
    // One after the other: the commands for all of them would leave no room for the work.
    if let [first, others @ ..] = run.questions.as_slice() {
        let mut note = fill(texts.waiting_answer, &[&how_to_answer(run_id, first)]);
        if !others.is_empty() {
            note.push_str(&format!("  {}", fill(texts.more_running, &[&others.len().to_string()])));
        }
        notes.push(note);
    }
    match run.phase {
        Phase::Paused => notes.push(texts.run_paused.to_owned()),
        Phase::Cancelling => notes.push(texts.run_cancelling.to_owned()),
        Phase::Running | Phase::Finished => {}
    }
    // A shortened command could not be copied, so the terminal wraps the line instead.
    let cut = |note: String| if run.questions.is_empty() { truncated(&note, columns) } else { note };
    notes.into_iter().map(|note| paint.text(Tone::Warning, &cut(note))).collect()
}

const MOST_NAME_WIDTH: usize = 28;

fn name_width(wave: &Wave, columns: usize) -> usize {
    let names = wave.active.iter().filter_map(|index| wave.tasks.get(*index as usize));
    names.map(|task| width(&visible(&task.name))).max().unwrap_or(0).min(MOST_NAME_WIDTH).min(columns / 2)
}

/// The line of a task: `fetch  agent-fetch  attempt 2/3  1.2s  29:58 left  40%  message`.
fn task_line(task: &Task, width: usize, columns: usize, now_ms: i64) -> String {
    let texts = &words().watch;
    let attempt = fill(texts.attempt, &[&task.attempt.to_string(), &task.max_attempts.to_string()]);
    let mut parts = vec![padded(&truncated(&task.name, width), width)];
    if columns >= NARROW {
        parts.extend([visible(&task.agent), attempt]);
    }
    match task.step {
        Step::Running { since_ms } => {
            parts.push(took(now_ms.saturating_sub(since_ms)));
            parts.extend(task.deadline_ms.map(|deadline| {
                let text = if task.imminent { texts.imminent } else { texts.left };
                fill(text, &[&clock(deadline.saturating_sub(now_ms))])
            }));
        }
        Step::Stopping { since_ms } => {
            parts.push(took(now_ms.saturating_sub(since_ms)));
            parts.push(texts.stopping.to_owned());
        }
        Step::Retrying { at_ms } => parts.push(fill(texts.retry_in, &[&took(at_ms.saturating_sub(now_ms))])),
        Step::Planned | Step::Queued | Step::Settled { .. } => {}
    }
    if let Some(fraction) = task.progress.fraction {
        parts.push(format!("{:.0}%", fraction.clamp(0.0, 1.0) * 100.0));
    }
    if let Some(message) = &task.progress.message {
        parts.push(visible(message));
    }
    parts.join("  ")
}

#[cfg(test)]
mod tests {
    use capataz_contracts::v1::event::Body;

    use super::*;
    use capataz_display::model::tests::{accepted, attempt_failed, fold, leased, settled};

    #[track_caller]
    fn check(run: &Run, rows: usize, expected: &[&str]) {
        let lines = screen(run, "0199", 10_500, rows, 80, Paint::OFF);
        let shown: Vec<String> =
            lines.iter().map(|line| format!("{}{}", if line.spins { "* " } else { "" }, line.text)).collect();
        assert_eq!(shown, expected);
    }

    fn started() -> Body {
        Body::WaveStarted(v1::WaveStarted::default())
    }

    #[test]
    fn running_tasks_have_a_line_each() {
        let mut run = fold([
            accepted(&["fetch", "lint", "test", "docs"]),
            started(),
            leased(0, 1),
            attempt_failed(0, 1, 1_000),
            leased(1, 1),
            settled(2, v1::ResultStatus::Success, 1),
        ]);
        run.progress(&v1::ProgressFrame {
            task: 1,
            fraction: Some(0.4),
            message: Some("reading".to_owned()),
            ..v1::ProgressFrame::default()
        });
        check(
            &run,
            20,
            &[
                "checks (quorum): 1 of 4 settled, 1 succeeded, needs 2/4 (50%)",
                "* lint   agent-lint  attempt 1/3  5.5s  40%  reading",
                "fetch  agent-fetch  attempt 1/3  again in 0.5s",
                "1 queued",
            ],
        );
    }

    #[test]
    fn an_execution_shows_its_plan_with_marks_above_the_call_that_is_at_work() {
        let step = |id: &str| v1::PlanStep {
            id: id.to_owned(),
            tool: format!("{id}.tool"),
            description: format!("{id} it"),
            ..v1::PlanStep::default()
        };
        let steps: Vec<v1::PlanStep> = (0..14).map(|place| step(&format!("s{place}"))).collect();
        let task = |agent: &str| {
            let task =
                v1::Task { name: format!("{agent}.1"), agent: agent.to_owned(), ..v1::Task::default() };
            Some(v1::Wave { tasks: vec![task], ..v1::Wave::default() })
        };
        let accepted = v1::RunAccepted {
            work: Some(v1::run_accepted::Work::Mode(v1::ModeRun::default())),
            ..v1::RunAccepted::default()
        };
        let plan = v1::ModePlan { revision: 1, steps, ..v1::ModePlan::default() };
        let answered = v1::PlannerAnswered { plan: Some(plan), ..v1::PlannerAnswered::default() };
        let seen = |step: u32| {
            let step_index = Some(step);
            Body::ToolObserved(v1::ToolObserved { step: step + 1, step_index, ..v1::ToolObserved::default() })
        };
        let tasks = task("s2.tool");
        let called = v1::ToolCalled { wave: 0, tasks, step_index: Some(2), ..v1::ToolCalled::default() };
        let begun = v1::ModeBegun { mode: v1::ExecutionMode::Planner.into(), ..v1::ModeBegun::default() };
        let run = fold([
            Body::RunAccepted(Box::new(accepted)),
            Body::ModeBegun(begun),
            Body::PlannerAnswered(answered),
            seen(0),
            seen(1),
            Body::ToolCalled(called),
            leased(0, 1),
        ]);
        let [head, done, at_work, next] =
            ["planner; 2 actions", "✓ 2 s1.tool  s1 it", "▸ 3 s2.tool  s2 it", "· 4 s3.tool  s3 it"];
        let Some(call) = screen(&run, "0199", 10_500, 20, 80, Paint::OFF).pop() else { panic!("a call") };
        assert!(call.spins && call.text.starts_with("s2.tool.1  s2.tool  attempt 1/"), "{call:?}");
        let call = format!("* {}", call.text);
        check(&run, 6, &[head, done, at_work, next, &call]);
        // Ten steps at most, however much room there is.
        let lines = screen(&run, "0199", 10_500, 40, 80, Paint::OFF);
        assert_eq!(
            (lines.len(), lines[1].text.as_str(), lines[10].text.as_str()),
            (12, done, "· 11 s10.tool  s10 it")
        );
        check(&run, 2, &[head, &call]);
    }

    /// A task with half an hour that has put three lines out, and one that has put out nothing.
    fn with_output(tail: &str) -> Run {
        let Body::TaskLeased(mut first) = leased(0, 1) else { panic!("a lease") };
        first.deadline_in_ms = Some(30 * 60_000);
        let mut run = fold([accepted(&["write", "wait"]), started(), Body::TaskLeased(first), leased(1, 1)]);
        run.progress(&v1::ProgressFrame {
            at_ms: 10_500,
            remaining_ms: 29 * 60_000,
            partial_tail: Some(tail.to_owned()),
            ..v1::ProgressFrame::default()
        });
        run
    }

    #[test]
    fn the_end_of_what_a_task_has_put_out_stands_below_its_countdown() {
        let run = with_output("one\n  two\nthree");
        let [head, write, wait] = [
            "checks (quorum): 0 of 2 settled, 0 succeeded, needs 1/2 (50%)",
            "* write  agent-write  attempt 1/3  7.5s  29:00 left",
            "* wait   agent-wait  attempt 1/3  6.5s",
        ];
        check(&run, 20, &[head, write, "  one", "    two", "  three", wait]);
        // Where rows are scarce, the newest lines stay, and every task before any of them.
        check(&run, 5, &[head, write, "    two", "  three", wait]);
        check(&run, 4, &[head, write, "  three", wait]);
        check(&run, 3, &[head, write, wait]);
        check(&run, 2, &[head, "… and 2 more"]);
    }

    #[test]
    fn a_task_that_is_begun_anew_shows_nothing_of_what_it_had_put_out() {
        let mut run = with_output("one");
        let event = v1::Event { at_ms: 10_500, body: Some(leased(0, 2)), ..v1::Event::default() };
        run.apply(&event);
        let lines = screen(&run, "0199", 10_500, 20, 80, Paint::OFF);
        assert!(!lines.iter().any(|line| line.text.contains("one")), "{lines:?}");
    }

    #[test]
    fn no_line_of_an_output_is_wider_than_the_terminal_and_nothing_in_it_acts_on_it() {
        let tail = "日本語".repeat(60);
        for columns in 0..=400 {
            let lines = screen(&with_output(&tail), "0199", 10_500, 20, columns, Paint::OFF);
            let tails: Vec<&Line> = lines.iter().filter(|line| line.text.starts_with(TAIL_INDENT)).collect();
            // Two columns are the spinner's, and one stays free.
            assert!(tails.iter().all(|line| width(&line.text) + 3 <= columns), "{columns}: {tails:?}");
            assert_eq!(tails.len(), usize::from(columns >= 15), "{columns}");
        }
        let shown =
            |tail: &str| screen(&with_output(tail), "0199", 10_500, 20, 25, Paint::OFF)[2].text.clone();
        assert_eq!(shown("the beginning and the end of it"), "  …g and the end of it");
        // The daemon removes such; an older or another one might not.
        assert_eq!(shown("a\u{1b}[2Jb"), "  a\\u{1b}[2Jb");
        assert_eq!(shown("e\u{301}".repeat(21).as_str()), format!("  …{}", "e\u{301}".repeat(19)));
    }

    #[test]
    fn who_waits_for_an_agent_that_nobody_serves_is_told_for_which_one() {
        let absent = v1::Error { code: "AGENT_ABSENT".to_owned(), ..v1::Error::default() };
        let notice = Body::Notice(v1::Notice {
            wave: Some(0),
            task: Some(1),
            notice: Some(absent),
            ..v1::Notice::default()
        });
        let head = "checks (quorum): 0 of 2 settled, 0 succeeded, needs 1/2 (50%)";
        let waiting = [accepted(&["fetch", "lint"]), started(), notice];
        check(&fold(waiting.clone()), 20, &[head, "2 queued; no worker serves agent-lint"]);
        let served = fold(waiting.into_iter().chain([leased(1, 1)]));
        check(&served, 20, &[head, "* lint   agent-lint  attempt 1/3  6.5s", "1 queued"]);
    }

    /// Half an hour, a warning in its last minute, and a quarter of an hour more, as the seed has it.
    #[test]
    fn the_time_that_a_task_has_left_is_counted_down_and_its_end_is_announced() {
        const MINUTE: i64 = 60_000;
        let Body::TaskLeased(mut first) = leased(0, 1) else { panic!("a lease") };
        first.deadline_in_ms = Some(30 * MINUTE);
        let mut run = fold([accepted(&["explore"]), started(), Body::TaskLeased(first)]);
        let begun = run.at_ms;
        let line = |run: &Run, at: i64| screen(run, "0199", at, 20, 80, Paint::OFF)[1].text.clone();
        assert_eq!(line(&run, begun + MINUTE), "explore  agent-explore  attempt 1/3  1m  29:00 left");

        let imminent = v1::Error { code: "TIMEOUT_IMMINENT".to_owned(), ..v1::Error::default() };
        let notice =
            v1::Notice { wave: Some(0), task: Some(0), notice: Some(imminent), ..v1::Notice::default() };
        let event = |at_ms, body| v1::Event { at_ms, body: Some(body), ..v1::Event::default() };
        run.apply(&event(begun + 29 * MINUTE, Body::Notice(notice)));
        let told = "explore  agent-explore  attempt 1/3  29m 30s  TIMEOUT_IMMINENT: 0:30 left";
        assert_eq!(line(&run, begun + 29 * MINUTE + 30_000), told);
        let painted = screen(&run, "0199", begun + 29 * MINUTE + 30_000, 20, 80, Paint::ON);
        assert!(painted[1].text.starts_with('\u{1b}'), "{painted:?}");

        let more = v1::TaskExtended { deadline_in_ms: 16 * MINUTE, ..v1::TaskExtended::default() };
        run.apply(&event(begun + 29 * MINUTE, Body::TaskExtended(more)));
        let later = "explore  agent-explore  attempt 1/3  30m  15:00 left";
        assert_eq!(line(&run, begun + 30 * MINUTE), later);
        // The daemon's own count is closer than the events' times.
        run.progress(&v1::ProgressFrame {
            at_ms: begun + 30 * MINUTE,
            remaining_ms: 14 * MINUTE,
            ..v1::ProgressFrame::default()
        });
        assert!(line(&run, begun + 30 * MINUTE).ends_with("14:00 left"));
        // An attempt that is taken over has the activation's deadline still.
        run.apply(&event(begun + 31 * MINUTE, leased(0, 1)));
        assert!(line(&run, begun + 31 * MINUTE).ends_with("13:00 left"));
    }

    #[test]
    fn there_are_never_more_lines_than_rows() {
        let names: Vec<String> = (0..50).map(|number| format!("t{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let run = fold([accepted(&names), started()].into_iter().chain((0..40).map(|task| leased(task, 1))));
        let lines = screen(&run, "0199", 100_000, 6, 80, Paint::OFF);
        assert_eq!(lines.len(), 6);
        assert_eq!(lines[4].text, "… and 37 more");
        assert_eq!(lines[5].text, "10 queued");
        assert_eq!(screen(&run, "0199", 100_000, 1, 80, Paint::OFF).len(), 1);
    }

    #[test]
    fn ten_tasks_at_most_have_a_line_however_many_rows_there_are() {
        let names: Vec<String> = (0..30).map(|number| format!("t{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        // The later ones have begun first.
        let begun = (0..30).rev().map(|task| leased(task, 1));
        let run = fold([accepted(&names), started()].into_iter().chain(begun));
        let lines = screen(&run, "0199", 100_000, 60, 80, Paint::OFF);
        assert_eq!(lines.len(), 11);
        assert!(lines[1].text.starts_with("t29  ") && lines[9].text.starts_with("t21  "), "{lines:?}");
        assert_eq!(lines[10].text, "… and 21 more");
    }

    #[test]
    fn a_narrow_terminal_has_the_name_and_the_time() {
        let run =
            fold([accepted(&["fetch", "界".repeat(128).as_str()]), started(), leased(0, 1), leased(1, 1)]);
        let shown = |columns: usize| {
            let lines = screen(&run, "0199", 10_500, 20, columns, Paint::OFF);
            lines[1..].iter().map(|line| line.text.clone()).collect::<Vec<_>>()
        };
        assert_eq!(shown(20), ["fetch     7.5s", "界界界…   6.5s"]);
        let wide = shown(80);
        assert_eq!(wide[0], format!("fetch{}agent-fetch  attempt 1/3  7.5s", " ".repeat(25)));
        assert!(wide.iter().all(|line| width(line) <= 77), "{wide:?}");
    }

    #[test]
    fn a_run_that_waits_says_for_what() {
        let asked = Body::QuestionAsked(Box::new(v1::QuestionAsked {
            question: Some(v1::Question {
                question_id: "q1".to_owned(),
                options: vec!["retry".to_owned()],
                ..v1::Question::default()
            }),
            ..v1::QuestionAsked::default()
        }));
        let paused = Body::RunPaused(v1::RunPaused::default());
        check(
            &fold([accepted(&["a"]), started(), asked, paused]),
            20,
            &[
                "checks (quorum): 0 of 1 settled, 0 succeeded, needs 1/1 (100%)",
                "waits for an answer: answer with `capataz runs resolve 0199 q1 retry`",
                "paused: no new attempts",
                "1 queued",
            ],
        );
    }

    #[test]
    fn many_open_questions_and_long_commands_leave_room_for_the_work() {
        let asked = |number: usize| {
            let question = v1::Question {
                question_id: format!("q{number}"),
                options: vec!["retry".to_owned()],
                ..v1::Question::default()
            };
            let asked = v1::QuestionAsked { question: Some(question), ..v1::QuestionAsked::default() };
            Body::QuestionAsked(Box::new(asked))
        };
        let begun = [accepted(&["a", "b", "c"]), started(), leased(0, 1), leased(1, 1)];
        let run = fold(begun.into_iter().chain((0..12).map(asked)));
        let head = "checks (quorum): 0 of 3 settled, 0 succeeded, needs 2/3 (67%)";
        let note = "waits for an answer: answer with `capataz runs resolve 0199 q0 retry`  … and 11 more";
        let tasks = ["* a  agent-a  attempt 1/3  7.5s", "* b  agent-b  attempt 1/3  6.5s", "1 queued"];
        // The note has two rows of these 80 columns.
        check(&run, 6, &[head, note, tasks[0], tasks[1], tasks[2]]);
        check(&run, 5, &[head, note, "… and 2 more", tasks[2]]);
        // Where a command has no room, the work does not go with it.
        check(&run, 2, &[head, "… and 2 more"]);
        for (rows, columns) in (3..24).flat_map(|rows| (20..140).map(move |columns| (rows, columns))) {
            let lines = screen(&run, "0199", 10_500, rows, columns, Paint::ON);
            let height: usize = lines.iter().map(|line| line.height(columns)).sum();
            assert!(height <= rows, "{rows} of {columns}: {lines:?}");
        }
    }

    #[test]
    fn a_pipeline_shows_where_each_of_its_phases_stands() {
        let phase = |name: &str| v1::Phase { name: name.to_owned(), ..v1::Phase::default() };
        let work = v1::Pipeline {
            name: "review".to_owned(),
            phases: ["read", "tell", "check"].map(phase).into(),
            ..v1::Pipeline::default()
        };
        let accepted = v1::RunAccepted {
            work: Some(v1::run_accepted::Work::Pipeline(work)),
            ..v1::RunAccepted::default()
        };
        let begins = |phase: u32, name: &str| {
            let task =
                v1::Task { name: name.to_owned(), agent: format!("agent-{name}"), ..v1::Task::default() };
            let tasks = v1::Wave { name: Some(name.to_owned()), tasks: vec![task], ..v1::Wave::default() };
            let tasks = Some(tasks);
            Body::PhaseStarted(v1::PhaseStarted { phase, wave: phase, tasks, ..v1::PhaseStarted::default() })
        };
        let completed = Body::PhaseCompleted(v1::PhaseCompleted { phase: 0, summary: None });
        let Body::TaskLeased(mut second) = leased(0, 1) else { panic!("a lease") };
        second.wave = 1;
        let at_work = [
            Body::RunAccepted(Box::new(accepted.clone())),
            begins(0, "read"),
            leased(0, 1),
            settled(0, v1::ResultStatus::Success, 1),
            completed,
            begins(1, "tell"),
            Body::TaskLeased(second),
        ];
        let shown = |run: &Run, rows: usize| {
            let lines = screen(run, "0199", 10_500, rows, 80, Paint::OFF);
            lines.into_iter().map(|line| line.text).collect::<Vec<_>>()
        };
        let lines = shown(&fold(at_work.clone()), 20);
        assert_eq!(lines[1], "read completed, tell in progress, check pending");
        assert!(lines[2].starts_with("tell  agent-tell  attempt 1/"), "{lines:?}");
        let blocked = |phase: u32| {
            let asked = v1::Question {
                question_id: "q1".to_owned(),
                options: vec!["retry".to_owned(), "abort".to_owned()],
                purpose: v1::QuestionPurpose::Phase.into(),
                ..v1::Question::default()
            };
            let asked = v1::QuestionAsked { question: Some(asked), ..v1::QuestionAsked::default() };
            [
                Body::PhaseBlocked(v1::PhaseBlocked { phase, ..v1::PhaseBlocked::default() }),
                Body::QuestionAsked(Box::new(asked)),
            ]
        };
        let note = "capataz pipeline resume 0199";
        let lines = shown(&fold(at_work.into_iter().chain(blocked(1))), 20);
        assert_eq!(lines[1], "read completed, tell blocked, check pending");
        assert!(lines[2].contains(note), "{lines:?}");
        // No wave has begun where the input of the first phase cannot be made.
        let first = fold([Body::RunAccepted(Box::new(accepted))].into_iter().chain(blocked(0)));
        let lines = shown(&first, 20);
        assert_eq!((lines.len(), &*lines[0]), (2, "read blocked, tell pending, check pending"));
        assert!(lines[1].contains(note), "{lines:?}");
        assert_eq!(shown(&first, 1).len(), 1);
    }

    #[test]
    fn a_script_shows_what_its_browser_does() {
        let mut run = Run::default();
        let story = capataz_display::script::tests::story();
        // The events before the end of the running action.
        story.iter().take(11).for_each(|event| run.apply(event));
        let shown: Vec<String> = screen(&run, "0199", 1_300, 20, 60, Paint::OFF)
            .into_iter()
            .map(|line| format!("{}{}", if line.spins { "* " } else { "" }, line.text))
            .collect();
        assert_eq!(shown, ["* 2 of 4: click role=button name=\"Buy\"  1.2s"]);
        run.apply(story.last().expect("the end"));
        assert!(screen(&run, "0199", 1_300, 20, 60, Paint::OFF).is_empty());
    }

    #[test]
    fn nothing_is_shown_before_and_after() {
        check(&fold([accepted(&["a"])]), 20, &[]);
        let finished = Body::RunFinished(v1::RunFinished::default());
        check(&fold([accepted(&["a"]), started(), finished]), 20, &[]);
    }
}
