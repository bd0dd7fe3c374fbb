//! Health checks, and what is kept of work whose time is over (seed 000, contract 3).

use std::time::Duration;

use capataz_contracts::v1::{
    self, connect_request::Frame as Say, connect_response::Frame as Hear, event::Body,
};
use capataz_daemon::{Config, DeclaredAgent, HealthChecks, Overrides, ProcessAgent};
use capataz_hosts::commands::ShimCommand;
use serde_json::json as value;
use tonic::Streaming;

use crate::support::{Harness, PATIENCE, code_of, error, json, one_wave, plan, shim};

/// What a subscriber of one run is told of its running work.
pub struct Frames(Streaming<v1::SubscribeResponse>);

impl Frames {
    pub async fn of(harness: &Harness, run: &str) -> Self {
        let filter = v1::EventFilter { run_id: Some(run.to_owned()), ..Default::default() };
        let request = v1::SubscribeRequest { filter: Some(filter), progress: true, ..Default::default() };
        Self(harness.events.clone().subscribe(request).await.unwrap().into_inner())
    }

    /// The first frame of which this is true.
    pub async fn until(&mut self, mut is_it: impl FnMut(&v1::ProgressFrame) -> bool) -> v1::ProgressFrame {
        loop {
            let response = tokio::time::timeout(PATIENCE, self.0.message()).await.expect("a frame in time");
            let frames = response.unwrap().expect("the stream goes on").progress;
            if let Some(frame) = frames.into_iter().find(|frame| is_it(frame)) {
                return frame;
            }
        }
    }
}

#[test]
fn the_interval_of_health_checks_and_how_many_may_find_nothing_are_configured() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("capataz.toml");
    let load = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let loaded = Config::load(Some(&file), Overrides::default());
        loaded.map(|config| config.health_checks).map_err(|error| error.to_string())
    };
    let checks = |seconds, missed| Ok(HealthChecks { interval: Duration::from_secs(seconds), missed });
    assert_eq!(load("[health_checks]\ninterval = \"2s\"\nmissed = 4\n"), checks(2, 4));
    assert_eq!(load(""), checks(5, 3), "as the contract has it");
    for (wrong, told) in [
        ("interval = \"499ms\"", "health_checks.interval: from 500ms to 1m"),
        ("interval = \"61s\"", "health_checks.interval: from 500ms to 1m"),
        ("missed = 1", "health_checks.missed: from 2 to 100"),
        ("missed = 101", "health_checks.missed: from 2 to 100"),
    ] {
        let refused = load(&format!("[health_checks]\n{wrong}\n")).unwrap_err();
        assert!(refused.contains(told), "{wrong}: {refused}");
    }
}

// S000-C3-05, S000-C3-06, S000-C3-08
#[tokio::test]
async fn checks_are_counted_over_attempts_and_heartbeats_are_what_they_find() {
    let interval = Duration::from_millis(500);
    let harness =
        Harness::start_with(|config| config.health_checks = HealthChecks { interval, missed: 60 }).await;
    let mut worker = harness.worker("w", &["a"]).await;
    assert_eq!((worker.welcome.heartbeat_interval_ms, worker.welcome.silence_limit_ms), (500, 30_000));
    let run = harness.start_run(one_wave(&["a"])).await;
    let mut frames = Frames::of(&harness, &run).await;

    let first = worker.assignment().await;
    let begun = frames.until(|frame| frame.health_checks == 1).await;
    worker.say(Say::Heartbeat(v1::Heartbeat {})).await;
    let heard = begun.last_health_check_ms.unwrap();
    // The same moment, told twice, may differ by the millisecond that two clocks round.
    let is_later = |frame: &v1::ProgressFrame| frame.last_health_check_ms > Some(heard + 1);
    let later = frames.until(|frame| is_later(frame) && frame.health_checks > 1).await;
    // Half an hour, of which a few seconds are over.
    assert!(later.time_used > begun.time_used && later.time_used < 0.1, "{}", later.time_used);
    let shown = harness.get(&run).await.waves[0].tasks[0].health_checks.clone().expect("it is at work");
    assert!(
        shown.count >= later.health_checks && shown.last_at_ms.map(|at| at + 1) >= later.last_health_check_ms,
        "{shown:?} after {later:?}"
    );
    assert!(shown.time_used >= later.time_used && shown.time_used < 0.1, "{}", shown.time_used);

    worker
        .say(Say::Failed(v1::Failed {
            lease: Some(first.lease),
            error: Some(error("NETWORK_ERROR", "down")),
            ..Default::default()
        }))
        .await;
    worker.say(Say::Heartbeat(v1::Heartbeat {})).await;
    let second = worker.assignment().await;
    assert_eq!(second.assignment.attempt, 2);
    // The first of its checks is counted after those of the attempt before.
    let checked = frames.until(|frame| frame.lease == second.lease.lease && frame.health_checks > 0).await;
    assert!(checked.health_checks >= later.health_checks, "{checked:?} after {later:?}");
    worker.complete(&second.lease, json(value!(1))).await;
    harness.wait(&run).await;
    assert_eq!(harness.get(&run).await.waves[0].tasks[0].health_checks, None);
}

#[tokio::test]
async fn the_end_of_what_a_task_has_put_out_is_in_its_frames_until_an_attempt_begins_anew() {
    let interval = Duration::from_millis(500);
    let harness =
        Harness::start_with(|config| config.health_checks = HealthChecks { interval, missed: 60 }).await;
    let mut worker = harness.worker("w", &["a"]).await;
    let run = harness.start_run(one_wave(&["a"])).await;
    let mut frames = Frames::of(&harness, &run).await;
    let first = worker.assignment().await;
    let progress = |lease: &v1::LeaseRef, output: Option<v1::Payload>, tail: Option<&str>| {
        Say::Progress(v1::Progress {
            lease: Some(lease.clone()),
            partial_output: output,
            partial_tail: tail.map(str::to_owned),
            ..Default::default()
        })
    };
    worker.say(progress(&first.lease, Some(json(value!({ "found": ["one", "two"] }))), None)).await;
    let tail = r#"{"found":["one","two"]}"#;
    let shown = frames.until(|frame| frame.partial_tail.is_some()).await;
    assert_eq!(shown.partial_tail.as_deref(), Some(tail));
    // A health check tells what is known, too.
    let checks = shown.health_checks;
    let checked = frames.until(|frame| frame.health_checks > checks).await;
    assert_eq!(checked.partial_tail.as_deref(), Some(tail));
    // Of a long output only the end, without what would act on a terminal.
    let long = format!("{}\u{1b}[2Jthe end", "line\n".repeat(5_000));
    let data = Some(v1::payload::Data::Inline(long.into()));
    let text = v1::Payload { media_type: "text/plain".to_owned(), data };
    worker.say(progress(&first.lease, Some(text), None)).await;
    let shown = frames.until(|frame| frame.partial_tail.as_deref() != Some(tail)).await;
    assert_eq!(shown.partial_tail.as_deref(), Some("line\nline\nthe end"));
    // What is too large for a frame is shown by the worker itself.
    worker.say(progress(&first.lease, None, Some("99,999 of 100,000"))).await;
    frames.until(|frame| frame.partial_tail.as_deref() == Some("99,999 of 100,000")).await;

    worker
        .say(Say::Failed(v1::Failed {
            lease: Some(first.lease),
            error: Some(error("NETWORK_ERROR", "down")),
            ..Default::default()
        }))
        .await;
    let second = worker.assignment().await;
    let anew = frames.until(|frame| frame.partial_tail.is_none()).await;
    assert_eq!((anew.wave, anew.task), (0, 0));
    worker.complete(&second.lease, json(value!(1))).await;
    harness.wait(&run).await;
}

// S000-C3-15
#[tokio::test]
async fn what_a_command_has_written_is_kept_when_it_is_ended_by_force() {
    let script = "trap '' TERM; echo '[1, 2,'; while :; do sleep 1; done";
    let harness = Harness::start_with(|config| {
        config.shim = Some(ShimCommand { program: shim(), args: Vec::new() });
        config.agents = vec![ProcessAgent::new("deaf", ["sh", "-c", script])];
    })
    .await;
    let run = harness
        .start_run(plan(
            r#"
            name = "deaf"
            [[tasks]]
            name = "deaf"
            agent = "deaf"
            timeouts = { timeout = "2s", grace = "2s" }
            "#,
        ))
        .await;
    let result = harness.wait(&run).await;
    let detail = result.tasks[0].error.clone().unwrap().timeout.unwrap();
    let written = v1::Payload {
        media_type: "text/plain".to_owned(),
        data: Some(v1::payload::Data::Inline("[1, 2,\n".into())),
    };
    assert_eq!(detail.partial_output, Some(written));
}

/// The agent's command goes on after it was told to end, for as long as it likes.
#[tokio::test]
async fn a_command_in_its_grace_gets_no_more_time_and_is_not_offered_any() {
    let folder = tempfile::tempdir().unwrap();
    let enough = folder.path().join("enough");
    let script = format!("trap '' TERM; while ! [ -e {} ]; do sleep 0.05; done; exit 1", enough.display());
    let harness = Harness::start_with(|config| {
        config.shim = Some(ShimCommand { program: shim(), args: Vec::new() });
        config.agents = vec![ProcessAgent::new("deaf", ["sh", "-c", &script])];
    })
    .await;
    let run = harness
        .start_run(plan(
            r#"
            name = "deaf"
            [[tasks]]
            name = "deaf"
            agent = "deaf"
            timeouts = { timeout = "500ms", grace = "10m" }
            "#,
        ))
        .await;
    let asked = async {
        loop {
            if let [question] = harness.get(&run).await.questions.as_slice() {
                return question.clone();
            }
        }
    };
    let question = tokio::time::timeout(PATIENCE, asked).await.expect("it is asked in time");
    assert_eq!(question.options, ["terminate", "retry", "abort"]);
    let request = v1::ExtendTaskRequest {
        run_id: run.clone(),
        task: "deaf".to_owned(),
        request_id: "more".to_owned(),
        ..v1::ExtendTaskRequest::default()
    };
    let before = harness.export(&run).await;
    let refused = harness.runs.clone().extend_task(request).await.unwrap_err();
    assert_eq!(code_of(&refused), "TASK_ENDING");
    assert_eq!(
        refused.message(),
        "task \"deaf\" was told to end, and its agent \"deaf\" cannot go on after that"
    );
    assert_eq!(harness.export(&run).await, before);
    let is_final = before.iter().any(|event| match &event.body {
        Some(Body::TaskLeased(leased)) => leased.cancel_is_final,
        _ => false,
    });
    assert!(is_final, "the log says what the refusal goes by");
    std::fs::write(&enough, "").unwrap();
    let result = harness.wait(&run).await;
    assert_eq!(result.tasks[0].status(), v1::ResultStatus::Timeout);
}

#[tokio::test]
async fn whoever_follows_a_run_gets_no_frames_of_others_and_logs_where_they_are_asked_for() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w", &["coder"]).await;
    let mut begin = async || {
        let run = harness.start_run(one_wave(&["coder"])).await;
        (run, worker.assignment().await.lease)
    };
    let (other, followed) = (begin().await, begin().await);
    let filter = v1::EventFilter { run_id: Some(followed.0.clone()), ..Default::default() };
    let request =
        v1::SubscribeRequest { filter: Some(filter), progress: true, logs: true, ..Default::default() };
    let with_logs = harness.events.clone().subscribe(request).await.unwrap().into_inner();
    let (mut with_logs, mut without) = (Frames(with_logs), Frames::of(&harness, &followed.0).await);
    for (run, lease) in [&other, &followed] {
        let log = Some(v1::LogTail { lines: 1, text: format!("{run}\n") });
        worker
            .say(Say::Progress(v1::Progress { lease: Some(lease.clone()), log, ..Default::default() }))
            .await;
    }
    let first = with_logs.until(|_| true).await;
    assert_eq!((&first.run_id, first.lease), (&followed.0, followed.1.lease));
    assert_eq!(first.log, Some(v1::LogTail { lines: 1, text: format!("{}\n", followed.0) }));
    let first = without.until(|_| true).await;
    assert_eq!((&first.run_id, first.log), (&followed.0, None));
}

#[tokio::test]
async fn a_task_that_waits_says_what_keeps_it_from_its_agent() {
    let harness = Harness::start_with(|config| {
        config.declared_agents = vec![DeclaredAgent::new("absent")];
        config.shim = Some(ShimCommand { program: shim(), args: Vec::new() });
        // One at a time.
        config.agents = vec![ProcessAgent::new("slow", ["sleep", "1000"])];
    })
    .await;
    let waits_for = async |run: &str| harness.get(run).await.waves[0].tasks[0].waits_for;
    let of_worker = v1::WaitForAgent { workers: 1, ..Default::default() };

    let unserved = harness.start_run(one_wave(&["absent"])).await;
    assert_eq!(
        waits_for(&unserved).await,
        Some(v1::WaitForAgent { queued: 1, ahead: Some(0), ..Default::default() })
    );

    harness.start_run(one_wave(&["slow"])).await;
    let waits = harness.start_run(one_wave(&["slow"])).await;
    let slot = waits_for(&waits).await.expect("there is one slot, and it is in use");
    let seen = slot.last_seen_ms.is_some();
    assert_eq!((seen, slot.workers, slot.running, slot.queued, slot.held_for_ms), (true, 1, 1, 1, None));
    let later = harness.start_run(one_wave(&["slow"])).await;
    let ahead =
        [waits_for(&waits).await, waits_for(&later).await].map(|slot| slot.and_then(|slot| slot.ahead));
    assert_eq!(ahead, [Some(0), Some(1)], "in the order of their turns");

    // A run that is held waits for people, whatever its agent does.
    let request_id = "r".to_owned();
    let pause = v1::PauseRunRequest { run_id: waits.clone(), request_id, ..Default::default() };
    harness.runs.clone().pause_run(pause).await.unwrap();
    assert_eq!(waits_for(&waits).await, None);

    let mut worker = harness.worker("w", &["coder"]).await;
    let limited = harness.start_run(one_wave(&["coder"])).await;
    let assigned = worker.assignment().await;
    assert_eq!(waits_for(&limited).await, None, "it is at work");
    let retry_after_ms = Some(3_600_000);
    let error = v1::Error { code: "RATE_LIMIT".to_owned(), retry_after_ms, ..Default::default() };
    worker.fail(&assigned.lease, error).await;
    worker.hear_until(|heard| matches!(heard, Hear::ResultAccepted(_)).then_some(())).await;
    assert_eq!(waits_for(&limited).await, None, "it waits for its next attempt, which is told already");
    let other = harness.start_run(one_wave(&["coder"])).await;
    let held = waits_for(&other).await.expect("nobody gets a task of a held agent");
    assert!(held.held_for_ms.is_some_and(|for_ms| (1..=3_600_000).contains(&for_ms)), "{held:?}");
    assert_eq!(
        v1::WaitForAgent { last_seen_ms: None, held_for_ms: None, ..held },
        v1::WaitForAgent { queued: 1, ahead: Some(0), ..of_worker }
    );
}
