use super::*;

/// A run of one wave whose tasks are named `a`, `b` … with the agents `agent-a`, `agent-b` …
pub fn accepted(tasks: &[&str]) -> Body {
    accepted_with(tasks, |_| {})
}

/// The same, with another plan.
pub fn accepted_with(tasks: &[&str], change: impl FnOnce(&mut v1::Plan)) -> Body {
    let tasks = tasks.iter().map(|name| v1::Task {
        name: (*name).to_owned(),
        agent: format!("agent-{name}"),
        ..v1::Task::default()
    });
    let mut plan = v1::Plan {
        name: "nightly".to_owned(),
        waves: vec![v1::Wave {
            name: Some("checks".to_owned()),
            tasks: tasks.collect(),
            ..v1::Wave::default()
        }],
        ..v1::Plan::default()
    };
    change(&mut plan);
    Body::RunAccepted(Box::new(v1::RunAccepted {
        work: Some(v1::run_accepted::Work::Plan(plan)),
        ..v1::RunAccepted::default()
    }))
}

pub fn leased(task: u32, attempt: u32) -> Body {
    Body::TaskLeased(v1::TaskLeased {
        task,
        attempt,
        worker: "process".to_owned(),
        ..v1::TaskLeased::default()
    })
}

pub fn attempt_failed(task: u32, attempt: u32, delay_ms: i64) -> Body {
    Body::TaskAttemptFailed(v1::TaskAttemptFailed {
        task,
        attempt,
        delay_ms,
        retry_at_ms: 10_000 + delay_ms,
        error: Some(v1::Error {
            code: "SERVICE_UNAVAILABLE".to_owned(),
            message: "exit code 75: busy".to_owned(),
            ..v1::Error::default()
        }),
        ..v1::TaskAttemptFailed::default()
    })
}

pub fn settled(task: u32, status: v1::ResultStatus, attempts: u32) -> Body {
    Body::TaskSettled(Box::new(v1::TaskSettled {
        task,
        status: status as i32,
        attempts,
        duration_ms: 1_500,
        ..v1::TaskSettled::default()
    }))
}

/// The end of a task that was at work, with its log.
pub fn settled_with_log(task: u32, status: v1::ResultStatus, log: &str) -> Body {
    Body::TaskSettled(Box::new(v1::TaskSettled {
        task,
        status: status.into(),
        attempts: 1,
        lease: Some(1),
        log: log.to_owned(),
        ..v1::TaskSettled::default()
    }))
}

/// Wraps the bodies as events of one run, one second apart.
pub fn events(bodies: impl IntoIterator<Item = Body>) -> Vec<v1::Event> {
    let numbered = bodies.into_iter().zip(1..);
    numbered
        .map(|(body, seq)| v1::Event {
            seq,
            at_ms: seq as i64 * 1_000,
            format: 2,
            elapsed_ms: 0,
            body: Some(body),
        })
        .collect()
}

pub fn fold(bodies: impl IntoIterator<Item = Body>) -> Run {
    let mut run = Run::default();
    events(bodies).iter().for_each(|event| run.apply(event));
    run
}

pub fn started() -> Body {
    Body::WaveStarted(v1::WaveStarted::default())
}

#[test]
fn a_task_goes_through_its_attempts() {
    let mut run = fold([accepted(&["a"]), started(), leased(0, 1), attempt_failed(0, 1, 1_000)]);
    assert_eq!(run.task(0, 0).map(|task| task.step.clone()), Some(Step::Retrying { at_ms: 11_000 }));
    for event in events([
        Body::TaskRetryDue(v1::TaskRetryDue::default()),
        leased(0, 2),
        settled(0, v1::ResultStatus::Success, 2),
    ]) {
        run.apply(&event);
    }
    let attempts = run.task(0, 0).map(|task| task.attempts.clone()).unwrap_or_default();
    assert_eq!(
        attempts,
        [
            Attempt {
                number: 1,
                failure: Some(Cause::Said("exit code 75".to_owned())),
                delay_ms: Some(1_000)
            },
            Attempt { number: 2, failure: None, delay_ms: None },
        ]
    );
}

#[test]
fn a_wave_counts_its_tasks() {
    let run = fold([
        accepted(&["a", "b", "c"]),
        started(),
        leased(0, 1),
        settled(0, v1::ResultStatus::Success, 1),
        settled(1, v1::ResultStatus::Timeout, 1),
    ]);
    let wave = &run.waves[0];
    assert_eq!((wave.settled, wave.succeeded), (2, 1));
    assert_eq!(wave.active.iter().copied().collect::<Vec<_>>(), [2]);
}

#[test]
fn a_task_that_is_taken_back_waits_again_and_later_waves_have_not_begun() {
    let mut plan = v1::Plan::default();
    for name in ["a", "b"] {
        let task = v1::Task { name: name.to_owned(), ..v1::Task::default() };
        let waits = v1::Task { name: format!("{name}-waits"), ..v1::Task::default() };
        plan.waves.push(v1::Wave { tasks: vec![task, waits], ..v1::Wave::default() });
    }
    let accepted = v1::RunAccepted { work: Some(v1::run_accepted::Work::Plan(plan)), ..Default::default() };
    let of_second = |task| v1::TaskLeased { wave: 1, task, attempt: 1, ..v1::TaskLeased::default() };
    let taken = |wave| v1::TaskTakenBack { wave, activation: 2, ..v1::TaskTakenBack::default() };
    let run = fold([
        Body::RunAccepted(Box::new(accepted)),
        started(),
        leased(0, 1),
        settled(0, v1::ResultStatus::Success, 1),
        leased(1, 1),
        settled(1, v1::ResultStatus::Success, 1),
        Body::WaveStarted(v1::WaveStarted { wave: 1 }),
        Body::TaskLeased(of_second(0)),
        Body::TaskRolledBack(v1::TaskRolledBack {
            taken_back: vec![taken(0), taken(1)],
            cascade: true,
            ..v1::TaskRolledBack::default()
        }),
    ]);
    let steps: Vec<Step> = run.tasks().map(|task| task.step.clone()).collect();
    let kept = Step::Settled { status: v1::ResultStatus::Success };
    assert_eq!(steps, [Step::Queued, kept, Step::Planned, Step::Planned]);
    assert_eq!((run.waves[0].settled, run.waves[1].settled, run.waves[1].active.len()), (1, 0, 0));
    assert_eq!(run.wave, Some(0));
}

#[test]
fn a_retry_by_hand_takes_the_result_back() {
    let run = fold([
        accepted(&["a"]),
        started(),
        leased(0, 1),
        settled(0, v1::ResultStatus::Error, 1),
        Body::TaskReactivated(v1::TaskReactivated { activation: 2, ..v1::TaskReactivated::default() }),
    ]);
    assert_eq!((run.waves[0].settled, run.waves[0].active.len()), (0, 1));
    assert!(run.waves[0].tasks[0].attempts.is_empty());
}

#[test]
fn a_withdrawn_cancel_lets_the_task_run_on() {
    let cancel = Body::TaskCancelRequested(v1::TaskCancelRequested::default());
    let stopping = fold([accepted(&["a"]), started(), leased(0, 1), cancel.clone()]);
    assert_eq!(stopping.waves[0].tasks[0].step, Step::Stopping { since_ms: 3_000 });
    let withdrawn =
        Body::TaskExtended(v1::TaskExtended { cancel_withdrawn: true, ..v1::TaskExtended::default() });
    let running = fold([accepted(&["a"]), started(), leased(0, 1), cancel, withdrawn]);
    assert_eq!(running.waves[0].tasks[0].step, Step::Running { since_ms: 3_000 });
}

#[test]
fn questions_stay_until_they_are_answered() {
    let asked = Body::QuestionAsked(Box::new(v1::QuestionAsked {
        question: Some(v1::Question { question_id: "q1".to_owned(), ..v1::Question::default() }),
        ..v1::QuestionAsked::default()
    }));
    let answered = Body::QuestionAnswered(v1::QuestionAnswered {
        question_id: "q1".to_owned(),
        ..v1::QuestionAnswered::default()
    });
    assert_eq!(fold([accepted(&["a"]), asked.clone()]).questions.len(), 1);
    assert!(fold([accepted(&["a"]), asked, answered]).questions.is_empty());
}

#[test]
fn events_that_do_not_fit_change_nothing() {
    let run = fold([leased(7, 1), settled(0, v1::ResultStatus::Success, 1), started()]);
    assert!(run.waves.is_empty() && !run.is_finished());
}

#[test]
fn a_task_has_the_log_of_the_attempt_that_has_failed_last() {
    let with_log = |log: &str| {
        let Body::TaskAttemptFailed(failed) = attempt_failed(0, 1, 1_000) else { unreachable!() };
        Body::TaskAttemptFailed(v1::TaskAttemptFailed { log: log.to_owned(), ..failed })
    };
    let before = || [accepted(&["a"]), started(), leased(0, 1), with_log("busy")];
    let log = |end: Body| {
        let run = fold(before().into_iter().chain([end]));
        run.task(0, 0).map(|task| task.log.clone()).unwrap_or_default()
    };
    assert_eq!(log(leased(0, 2)), ["busy"]);
    assert_eq!(log(settled_with_log(0, v1::ResultStatus::Error, "broken")), ["broken"]);
    // The last attempt has logged nothing; or there was none, because it was given up before.
    assert_eq!(log(settled_with_log(0, v1::ResultStatus::Error, "")), Vec::<String>::new());
    assert_eq!(log(settled(0, v1::ResultStatus::Cancelled, 1)), ["busy"]);
    assert_eq!(log(settled_with_log(0, v1::ResultStatus::Success, "done")), Vec::<String>::new());
    assert_eq!(log(Body::TaskReactivated(v1::TaskReactivated::default())), Vec::<String>::new());
}
