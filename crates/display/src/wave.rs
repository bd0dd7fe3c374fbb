//! PARALLEL EXECUTION COMPLETE: the box of one wave.

use std::collections::BTreeMap;

use capataz_contracts::v1;

use crate::format;
use crate::frame::Frame;
use crate::paint::{Paint, Tone};
use crate::words::{counted, fill, words};

/// Maximum number of tasks with a line of their own. Beyond this number, successes are only counted; as many further
/// failures still get a line.
const MOST_LINES: usize = 50;

/// The box of `wave`.
pub fn wave_box(wave: &v1::WaveView, paint: Paint) -> String {
    let texts = &words().wave_box;
    let total = wave.tasks.len();
    let mut frame = Frame::heavy(paint)
        .toned(texts.title, Tone::Strong)
        .under_title()
        .text(&fill(texts.policy, &[policy_name(wave.policy())]))
        .text(&counted(total as u64, texts.total_one, texts.total_many))
        .blank();
    for line in task_lines(wave) {
        frame = frame.hanging(line.mark, &line.text, line.tone);
    }
    frame = frame.blank();
    let succeeded = wave.tasks.iter().filter(|task| is_success(task)).count();
    let (successes, of) = match &wave.evaluation {
        Some(evaluation) => (u64::from(evaluation.successes), u64::from(evaluation.total)),
        None => (succeeded as u64, total as u64),
    };
    let continues = wave.evaluation.as_ref().is_some_and(|evaluation| evaluation.should_continue);
    let mut result = fill(texts.result, &[&format::share(successes, of)]);
    if let Some(evaluation) = &wave.evaluation {
        let met = evaluation.quorum_met.unwrap_or(evaluation.should_continue);
        let met = if met { texts.met } else { texts.not_met };
        result.push_str(&format!(" - {} {met}", policy_name(wave.policy()).to_uppercase()));
    }
    let status = if continues { texts.continuing } else { texts.stopping };
    let tone = if continues { Tone::Good } else { Tone::Bad };
    frame.text(&result).toned(&fill(texts.status, &[status]), tone).finish()
}

struct Line {
    mark: &'static str,
    text: String,
    tone: Tone,
}

fn task_lines(wave: &v1::WaveView) -> Vec<Line> {
    let texts = &words().wave_box;
    let mut agents: BTreeMap<&str, usize> = BTreeMap::new();
    for task in &wave.tasks {
        *agents.entry(task.agent.as_str()).or_default() += 1;
    }
    let everything = wave.tasks.len() <= MOST_LINES;
    let mut lines = Vec::new();
    let (mut more_successes, mut more_failures) = (0_u64, 0_u64);
    for (index, task) in wave.tasks.iter().enumerate() {
        let success = is_success(task);
        if !everything && success {
            more_successes += 1;
        } else if lines.len() >= MOST_LINES {
            more_failures += 1;
        } else {
            // If several tasks have the same agent, only the task's name distinguishes them.
            let shared = agents.get(task.agent.as_str()).is_some_and(|count| *count > 1);
            let name = if shared { &task.name } else { &task.agent };
            let text = fill(texts.agent, &[&(index + 1).to_string(), name, &verdict(task)]);
            let (mark, tone) = if success { ("OK ", Tone::Good) } else { ("X  ", Tone::Bad) };
            lines.push(Line { mark, text, tone });
        }
    }
    for (count, what) in [(more_failures, texts.failed), (more_successes, texts.success)] {
        if count > 0 {
            let text = fill(texts.more, &[&format::thousands(count), what]);
            lines.push(Line { mark: "", text, tone: Tone::Plain });
        }
    }
    lines
}

fn is_success(task: &v1::TaskView) -> bool {
    task.status() == v1::ResultStatus::Success
}

/// The result of one task: `SUCCESS (45s)`, `FAILED (timeout)`.
fn verdict(task: &v1::TaskView) -> String {
    let texts = &words().wave_box;
    match task.status() {
        v1::ResultStatus::Success => match (task.started_at_ms, task.settled_at_ms) {
            (Some(started), Some(settled)) => {
                format!("{} ({})", texts.success, format::took(settled.saturating_sub(started)))
            }
            _ => texts.success.to_owned(),
        },
        v1::ResultStatus::Timeout => format!("{} ({})", texts.failed, texts.timeout),
        v1::ResultStatus::Error => format!("{} ({})", texts.failed, texts.error),
        v1::ResultStatus::Cancelled if task.started_at_ms.is_none() => texts.not_started.to_owned(),
        v1::ResultStatus::Cancelled => texts.cancelled.to_owned(),
        v1::ResultStatus::Unspecified if task.started_at_ms.is_none() => texts.not_started.to_owned(),
        v1::ResultStatus::Unspecified => texts.unfinished.to_owned(),
    }
}

/// The policy's name, spelled as in plan files.
pub fn policy_name(policy: v1::AggregationKind) -> &'static str {
    match policy {
        v1::AggregationKind::FailFast => "fail_fast",
        v1::AggregationKind::Quorum | v1::AggregationKind::Unspecified => "quorum",
        v1::AggregationKind::ContinueAll => "continue_all",
        v1::AggregationKind::CriticalPath => "critical_path",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(agent: &str, status: v1::ResultStatus, seconds: i64) -> v1::TaskView {
        v1::TaskView {
            name: format!("task-of-{agent}"),
            agent: agent.to_owned(),
            status: Some(status as i32),
            started_at_ms: Some(1_000),
            settled_at_ms: Some(1_000 + seconds * 1_000),
            ..v1::TaskView::default()
        }
    }

    fn wave(tasks: Vec<v1::TaskView>, met: bool) -> v1::WaveView {
        let successes = tasks.iter().filter(|task| is_success(task)).count() as u32;
        let evaluation = v1::Evaluation {
            should_continue: met,
            successes,
            total: tasks.len() as u32,
            quorum_met: Some(met),
            ..v1::Evaluation::default()
        };
        v1::WaveView {
            name: "wave-1".to_owned(),
            policy: v1::AggregationKind::Quorum as i32,
            tasks,
            evaluation: Some(evaluation),
        }
    }

    // S000-C5-19, S000-C5-20
    #[test]
    fn as_the_contract_draws_it() {
        use v1::ResultStatus::{Success, Timeout};
        let tasks = vec![
            task("code-reviewer", Success, 45),
            task("typescript-pro", Success, 32),
            task("silent-failure", Timeout, 60),
            task("test-analyzer", Success, 28),
        ];
        let expected = "\
+======================================================+
|  PARALLEL EXECUTION COMPLETE                         |
+======================================================+
|  Policy: quorum                                      |
|  Total: 4 agents                                     |
|                                                      |
|  OK Agent 1 (code-reviewer): SUCCESS (45s)           |
|  OK Agent 2 (typescript-pro): SUCCESS (32s)          |
|  X  Agent 3 (silent-failure): FAILED (timeout)       |
|  OK Agent 4 (test-analyzer): SUCCESS (28s)           |
|                                                      |
|  Result: 3/4 (75%) - QUORUM MET                      |
|  Status: CONTINUING                                  |
+======================================================+";
        assert_eq!(wave_box(&wave(tasks, true), Paint::OFF), expected);
    }

    // S000-C5-20
    #[test]
    fn a_quorum_that_is_not_met() {
        use v1::ResultStatus::{Error, Success, Timeout};
        let tasks = vec![
            v1::TaskView { settled_at_ms: None, ..task("code-reviewer", Success, 0) },
            task("typescript-pro", Timeout, 1),
            task("silent-failure", Error, 1),
            task("test-analyzer", Timeout, 1),
        ];
        let expected = "\
+======================================================+
|  PARALLEL EXECUTION COMPLETE                         |
+======================================================+
|  Policy: quorum                                      |
|  Total: 4 agents                                     |
|                                                      |
|  OK Agent 1 (code-reviewer): SUCCESS                 |
|  X  Agent 2 (typescript-pro): FAILED (timeout)       |
|  X  Agent 3 (silent-failure): FAILED (error)         |
|  X  Agent 4 (test-analyzer): FAILED (timeout)        |
|                                                      |
|  Result: 1/4 (25%) - QUORUM NOT MET                  |
|  Status: STOPPING                                    |
+======================================================+";
        assert_eq!(wave_box(&wave(tasks, false), Paint::OFF), expected);
    }

    #[test]
    fn tasks_of_one_agent_are_told_apart() {
        use v1::ResultStatus::Success;
        let mut tasks = vec![task("same", Success, 1), task("same", Success, 1)];
        tasks[1].name = "other".to_owned();
        let shown = wave_box(&wave(tasks, true), Paint::OFF);
        assert!(shown.contains("Agent 1 (task-of-same)") && shown.contains("Agent 2 (other)"), "{shown}");
    }

    #[test]
    fn a_large_wave_lists_its_failures() {
        use v1::ResultStatus::{Error, Success};
        let mut tasks: Vec<_> = (0..1_999).map(|_| task("many", Success, 1)).collect();
        tasks.push(task("broken", Error, 1));
        let shown = wave_box(&wave(tasks, true), Paint::OFF);
        assert!(shown.contains("X  Agent 2000 (broken): FAILED (error)"), "{shown}");
        assert!(shown.contains("... and 1,999 more: SUCCESS"), "{shown}");
        assert!(shown.lines().count() < 20, "{shown}");
    }

    #[test]
    fn no_clock_of_a_task_is_too_far_ahead_or_behind() {
        let told = |started: i64, settled: i64| {
            verdict(&v1::TaskView {
                started_at_ms: Some(started),
                settled_at_ms: Some(settled),
                ..task("a", v1::ResultStatus::Success, 0)
            })
        };
        assert_eq!(told(i64::MIN, i64::MAX), "SUCCESS (106751991167d 7h)");
        assert_eq!(told(i64::MAX, i64::MIN), "SUCCESS (0s)");
    }

    #[test]
    fn a_wave_without_verdict() {
        let unfinished = v1::TaskView { status: None, ..task("a", v1::ResultStatus::Success, 1) };
        let never = v1::TaskView { started_at_ms: None, ..task("b", v1::ResultStatus::Cancelled, 1) };
        let wave = v1::WaveView { evaluation: None, ..wave(vec![unfinished, never], true) };
        let shown = wave_box(&wave, Paint::OFF);
        assert!(shown.contains("UNFINISHED") && shown.contains("NOT STARTED"), "{shown}");
        assert!(shown.contains("Result: 0/2 (0%)  "), "{shown}");
    }
}
