//! The reports of plans.

use super::*;
use capataz_display::words::Language;

/// A plan of two waves.
fn plan() -> Body {
    let wave = |name: &str, tasks: &[&str]| v1::Wave {
        name: Some(name.to_owned()),
        tasks: tasks.iter().map(|name| task(name)).collect(),
        policy: Some(v1::AggregationPolicy {
            kind: v1::AggregationKind::Quorum.into(),
            ..v1::AggregationPolicy::default()
        }),
    };
    accepted(Work::Plan(v1::Plan {
        name: "nightly".to_owned(),
        waves: vec![wave("checks", &["fetch", "lint"]), wave("report", &["tell"])],
        ..v1::Plan::default()
    }))
}

fn began(wave: u32) -> Body {
    Body::WaveStarted(v1::WaveStarted { wave })
}

fn lost(task: u32) -> Body {
    Body::TaskLeaseLost(v1::TaskLeaseLost {
        task,
        reason: v1::LeaseLossReason::Silent.into(),
        losses: 1,
        ..v1::TaskLeaseLost::default()
    })
}

fn attempt_failed(task: u32, attempt: u32) -> Body {
    Body::TaskAttemptFailed(v1::TaskAttemptFailed {
        task,
        attempt,
        error: Some(error("NETWORK_ERROR", "no route to the host")),
        delay_ms: 2_000,
        ..v1::TaskAttemptFailed::default()
    })
}

fn ended(wave: u32, reason: &str) -> Body {
    let evaluation = Some(v1::Evaluation { reason: reason.to_owned(), ..v1::Evaluation::default() });
    Body::WaveFinished(v1::WaveFinished { wave, evaluation })
}

/// `fetch` loses its worker and fails once, then succeeds; `lint` fails; `tell` was never begun.
pub fn story() -> Vec<(i64, Body)> {
    let log = (1..=20).map(|line| format!("line {line}\n")).collect::<String>();
    vec![
        (0, plan()),
        (100, began(0)),
        (200, leased(0, 0, 1)),
        (250, leased(0, 1, 1)),
        (2_000, lost(0)),
        (2_500, leased(0, 0, 1)),
        (4_000, attempt_failed(0, 1)),
        (6_000, Body::TaskRetryDue(v1::TaskRetryDue::default())),
        (6_100, leased(0, 0, 2)),
        (7_000, good(0, 0, r#"{"pages":[1,2]}"#)),
        (8_000, bad(0, 1, error("TESTS_FAILED", "3 tests failed"), &log)),
        (8_000, ended(0, "1 of 2 succeeded")),
        (8_000, finished(v1::RunOutcome::Failed, Some(error("QUORUM_NOT_MET", "too few succeeded")))),
    ]
}

#[test]
fn what_failed_stands_first_with_the_next_step_and_the_end_of_its_log() {
    let page = page(story());
    is_whole(&page);
    shows(
        &page,
        &[
            "<title>nightly: failed</title>",
            "<h1>nightly <span class=\"badge bad\">failed</span>",
            "Tasks: 1 of 3 succeeded, in 8s.",
            "<strong>QUORUM_NOT_MET</strong>",
            "too few succeeded",
            "What to do: ",
            "href=\"#task-1-2\">lint</a>",
            "<strong>TESTS_FAILED</strong>",
            "3 tests failed",
            "<dl class=\"facts\">",
            "datetime=\"2026-03-21T09:00:00Z\">2026-03-21 09:00:00Z</time>",
            "What failed",
            "id=\"task-1-2\"",
            "Wave 1 of 2: checks · agent agent-lint",
            "What to do: ",
            "The end of its log",
            "line 9\n",
            "line 20",
            "The log, 20 lines",
            "line 1\n",
            "Timeline",
        ],
    );
    assert!(!page.contains("0199</code></dd>\n</dl>\n</header>"), "ids are behind a disclosure");
}

#[test]
fn the_timeline_has_a_row_for_each_task_with_its_tries_and_its_waits() {
    let page = page(story());
    let timeline = page.split("id=\"timeline\"").nth(1).and_then(|rest| rest.split("</section>").next());
    shows(
        timeline.unwrap(),
        &[
            "8s from the first event to the last",
            "Wave 1 of 2: checks",
            "1 of 2 succeeded",
            "<b>fetch</b>",
            "succeeded · 1 lost lease · 6.8s",
            "<title>waited 0.1s for a worker</title>",
            "<g class=\"lost\">",
            "<title>attempt 1 worker lost (silent) after 1.8s (w1)</title>",
            "<title>waited 0.5s for a worker</title>",
            "<g class=\"bad\">",
            "<title>attempt 1 failed (NETWORK_ERROR) after 1.5s (w1)</title>",
            "<g class=\"backoff\">",
            "<title>waited 2s before the next attempt</title>",
            "<g class=\"good\">",
            "<title>attempt 2 succeeded after 0.9s (w1)</title>",
            "href=\"#task-1-2\">lint</a>",
            "failed · 7.8s",
        ],
    );
    // Drawn where it was: 2.0 s of 8.0 s.
    shows(&page, &["attempt 1 worker lost (silent)", "x=\"2.50%\" y=\"3\" width=\"22.50%\""]);
}

#[test]
fn successes_are_folded_and_their_outputs_are_laid_out() {
    let page = page(story());
    shows(
        &page,
        &[
            "id=\"tasks\"",
            "Wave 1 of 2: checks",
            "1 of 2 succeeded",
            ">lint</a>",
            "<summary>1 that succeeded</summary>",
            "fetch",
            "never begun",
            "id=\"outputs\"",
            "<details open=\"\">",
            "<code>fetch</code>",
            "{\n  &quot;pages&quot;: [\n    1,\n    2\n  ]\n}",
        ],
    );
}

#[test]
fn a_run_that_goes_on_says_so_and_shows_what_waits_for_a_person() {
    let question = v1::Question {
        question_id: "q1".to_owned(),
        text: "Is it to be tried again?".to_owned(),
        options: vec!["retry".to_owned(), "abort".to_owned()],
        holds: v1::QuestionHold::Run.into(),
        task: Some("lint".to_owned()),
        ..v1::Question::default()
    };
    let asked = Body::QuestionAsked(Box::new(v1::QuestionAsked {
        question: Some(question),
        wave: Some(0),
        task: Some(1),
    }));
    let mut bodies = story();
    bodies.truncate(11);
    bodies.push((8_100, asked));
    let page = page(bodies);
    is_whole(&page);
    shows(
        &page,
        &[
            "badge plain\">still going on",
            "This run still goes on. The page shows it as it was after event 12.",
            "TESTS_FAILED",
            "Open questions",
            "q1: Is it to be tried again?",
            "capataz runs resolve 0199 q1 retry",
            "<b>The run</b>",
            "<g class=\"person\">",
            "waited 0s for an answer",
            "Questions to people",
            "not answered yet",
        ],
    );
}

#[test]
fn pauses_and_answers_are_in_the_row_of_the_run() {
    let question = v1::Question {
        question_id: "q1".to_owned(),
        text: "Is it to be tried again?".to_owned(),
        ..v1::Question::default()
    };
    let asked =
        Body::QuestionAsked(Box::new(v1::QuestionAsked { question: Some(question), ..Default::default() }));
    let answered = Body::QuestionAnswered(v1::QuestionAnswered {
        question_id: "q1".to_owned(),
        answer: "retry".to_owned(),
        ..v1::QuestionAnswered::default()
    });
    let page = page([
        (0, plan()),
        (100, began(0)),
        (200, Body::RunPaused(v1::RunPaused::default())),
        (1_200, Body::RunResumed(v1::RunResumed::default())),
        (2_000, asked),
        (5_000, answered),
        (
            6_000,
            Body::RunCancelRequested(v1::RunCancelRequested {
                reason: "late".to_owned(),
                ..Default::default()
            }),
        ),
        (6_000, finished(v1::RunOutcome::Cancelled, None)),
    ]);
    shows(
        &page,
        &[
            "<b>The run</b>",
            "paused for 1s",
            "waited 3s for an answer",
            "answered: retry",
            "cancelled: late",
            "Questions to people",
            "Is it to be tried again?",
            "answered: retry",
            ", answered after 3s",
        ],
    );
}

#[test]
fn hostile_texts_stay_texts() {
    let named = v1::Task { name: HOSTILE.to_owned(), agent: HOSTILE.to_owned(), ..v1::Task::default() };
    let wave = v1::Wave { name: Some(HOSTILE.to_owned()), tasks: vec![named.clone(), named], policy: None };
    let work = Work::Plan(v1::Plan { name: HOSTILE.to_owned(), waves: vec![wave], ..v1::Plan::default() });
    let label = [(HOSTILE.to_owned(), HOSTILE.to_owned())].into();
    let accepted = v1::RunAccepted { work: Some(work), labels: label, ..v1::RunAccepted::default() };
    let lease = |task| match leased(0, task, 1) {
        Body::TaskLeased(lease) => Body::TaskLeased(v1::TaskLeased { worker: HOSTILE.to_owned(), ..lease }),
        other => other,
    };
    let question = v1::Question {
        question_id: HOSTILE.to_owned(),
        text: HOSTILE.to_owned(),
        options: vec![HOSTILE.to_owned()],
        ..v1::Question::default()
    };
    let output = serde_json::json!({ HOSTILE: [HOSTILE] }).to_string();
    let page = page([
        (0, Body::RunAccepted(Box::new(accepted))),
        (1, began(0)),
        (2, lease(0)),
        (3, lease(1)),
        (4, bad(0, 0, error(HOSTILE, HOSTILE), HOSTILE)),
        (5, good(0, 1, &output)),
        (
            6,
            Body::QuestionAsked(Box::new(v1::QuestionAsked {
                question: Some(question),
                ..Default::default()
            })),
        ),
    ]);
    is_harmless(&page);
}

#[test]
fn five_thousand_tasks_make_a_page_of_less_than_two_megabytes() {
    let tasks = (0..5_000).map(|number| task(&format!("task-{number}"))).collect();
    let wave = v1::Wave { tasks, ..v1::Wave::default() };
    let work = Work::Plan(v1::Plan { name: "wide".to_owned(), waves: vec![wave], ..v1::Plan::default() });
    let log = "a line of a log that says little\n".repeat(100);
    let output = serde_json::json!({ "text": "x".repeat(10_000) }).to_string();
    let mut bodies = vec![(0, accepted(work)), (1, began(0))];
    for number in 0..5_000 {
        bodies.push((2 + i64::from(number), leased(0, number, 1)));
        // Each fiftieth one fails.
        bodies.push((
            3 + i64::from(number),
            match number % 50 {
                0 => bad(0, number, error("TESTS_FAILED", "no"), &log),
                _ => good(0, number, &output),
            },
        ));
    }
    bodies.push((9_000, finished(v1::RunOutcome::SucceededWithFailures, None)));
    let page = page(bodies);
    assert!(page.len() < 2 * 1024 * 1024, "{}", page.len());
    assert_eq!(page.matches("<div class=\"row\">").count(), 200);
    shows(
        &page,
        &["and 95 more that failed", "… and 4800 that succeeded", "4600 more tasks", "more outputs"],
    );
    assert!(page.contains(">task-4950</a>"), "every failure has a row");
}

#[test]
fn an_output_that_is_long_is_cut_and_its_size_is_said() {
    let long = serde_json::json!("y".repeat(40_000)).to_string();
    let page = page([(0, plan()), (1, began(0)), (2, leased(0, 0, 1)), (3, good(0, 0, &long))]);
    shows(&page, &["id=\"outputs\"", "yyyy", "Cut after 32000 characters; it has 39.1 KiB."]);
    assert!(!page.contains(&"y".repeat(32_001)), "no more than that");
}

/// A plan of two waves of so many tasks, each of which succeeds with the output that it is given.
fn two_waves(counts: [u32; 2], output: impl Fn(u32, u32) -> v1::Payload) -> Vec<(i64, Body)> {
    let waves = counts.iter().map(|count| v1::Wave {
        tasks: (0..*count).map(|number| task(&format!("t-{number}"))).collect(),
        ..v1::Wave::default()
    });
    let plan = v1::Plan { name: "wide".to_owned(), waves: waves.collect(), ..v1::Plan::default() };
    let mut bodies = vec![(0, accepted(Work::Plan(plan)))];
    for (wave, count) in (0..).zip(counts) {
        bodies.push((1, began(wave)));
        for number in 0..count {
            let settled = v1::TaskSettled {
                output: Some(output(wave, number)),
                ..settled(wave, number, v1::ResultStatus::Success)
            };
            bodies.push((2, leased(wave, number, 1)));
            bodies.push((3, Body::TaskSettled(Box::new(settled))));
        }
    }
    bodies.push((9, finished(v1::RunOutcome::Succeeded, None)));
    bodies
}

/// An output of 30,000 bytes.
fn long(name: &str) -> String {
    serde_json::json!({ name: "x".repeat(30_000) }).to_string()
}

#[test]
fn what_a_run_has_come_to_is_kept_whatever_came_before_it() {
    let page = page(two_waves([200, 1], |wave, _| json(&long(["before", "result"][wave as usize]))));
    shows(&page, &["id=\"outputs\"", "&quot;result&quot;", "the page has no room", "… and 1 more output"]);
}

#[test]
fn what_was_taken_back_takes_no_room() {
    let mut bodies = two_waves([1, 0], |_, _| json("1"));
    bodies.truncate(2);
    for activation in 1..200 {
        let taken = v1::TaskTakenBack { activation, ..v1::TaskTakenBack::default() };
        let back = Body::TaskRolledBack(v1::TaskRolledBack { taken_back: vec![taken], ..Default::default() });
        bodies.extend([(2, leased(0, 0, 1)), (3, good(0, 0, &long("before"))), (4, back)]);
    }
    bodies.extend([(5, leased(0, 0, 1)), (6, good(0, 0, &long("result")))]);
    shows(&page(bodies), &["id=\"outputs\"", "&quot;result&quot;"]);
}

#[test]
fn outputs_of_the_last_wave_are_fetched_first() {
    let id = |wave, number| format!("{wave}-{number}");
    let bodies = two_waves([60, 2], |wave, number| v1::Payload {
        media_type: "text/plain".to_owned(),
        data: Some(v1::payload::Data::Blob(v1::BlobRef {
            blake3: id(wave, number),
            size: 40_000,
            answer: None,
        })),
    });
    let wanted = wanted_outputs(&story_of(&at(bodies)));
    assert_eq!(wanted[..3], [id(1, 0), id(1, 1), id(0, 0)]);
    assert_eq!(wanted.len(), 50);
}

#[test]
fn a_table_keeps_within_the_length_of_an_output() {
    let of = |rows: serde_json::Value| page(two_waves([1, 0], |_, _| json(&rows.to_string())));
    // Each row has a cell of 9,999 characters.
    let long = of(serde_json::Value::from(vec![vec!["y".repeat(9_999)]; 5]));
    assert_eq!(long.matches(&"y".repeat(9_999)).count(), 3);
    shows(&long, &["<table>", "</table>", "... and 2 more"]);
    // No row fits.
    for (row, said) in [(vec!["z".repeat(40_000)], "39.1 KiB"), (vec![String::new(); 40_000], " KiB")] {
        let cut = of(serde_json::Value::from(vec![row]));
        shows(&cut, &["id=\"outputs\"", "<pre>[\n", "Cut after 32000 characters; it has ", said]);
        assert!(cut.len() < 300_000, "{}", cut.len());
    }
    // Cells have to be counted that are empty.
    let empty = of(serde_json::Value::from(vec![vec![""; 100]; 900]));
    assert_eq!(empty.matches("<td></td>").count(), 32_000);
}

#[test]
fn all_outputs_together_keep_within_their_room() {
    // Escaped, each of them is six times as long.
    let quotes = "\"".repeat(15_000);
    let page = page(two_waves([100, 0], |_, _| json(&serde_json::json!(quotes).to_string())));
    assert!(page.len() < 1_300_000, "{}", page.len());
    shows(&page, &["id=\"outputs\"", "&quot;&quot;", "the page has no room"]);
}

#[test]
fn what_is_kept_apart_is_shown_where_it_was_fetched() {
    let blob = v1::BlobRef { blake3: "ab".repeat(32), size: 40_000, answer: None };
    let output =
        v1::Payload { media_type: "text/plain".to_owned(), data: Some(v1::payload::Data::Blob(blob)) };
    let settled = v1::TaskSettled { output: Some(output), ..settled(0, 0, v1::ResultStatus::Success) };
    let events =
        at([(0, plan()), (1, began(0)), (2, leased(0, 0, 1)), (3, Body::TaskSettled(Box::new(settled)))]);
    let mut report = report(&events);
    assert_eq!(wanted_outputs(&report.story), ["ab".repeat(32)]);
    shows(
        &html(&report),
        &["Not shown: 39.1 KiB, kept apart; save it with `capataz runs output 0199 fetch -o FILE`."],
    );
    report.evidence.insert("ab".repeat(32), Content::Here("a long text".into()));
    shows(&html(&report), &["id=\"outputs\"", "a long text"]);
}

#[test]
fn parents_children_and_costs_are_told() {
    let cost = Some(v1::Cost { nanos: 3_100_000, currency: "USD".to_owned() });
    let usage =
        v1::Usage { input_tokens: Some(1_234), output_tokens: Some(56), cost, ..v1::Usage::default() };
    let settled = v1::TaskSettled { usage: Some(usage.clone()), ..settled(0, 0, v1::ResultStatus::Success) };
    let failed = v1::TaskAttemptFailed { usage: Some(usage), ..v1::TaskAttemptFailed::default() };
    let events = at([
        (0, plan()),
        (1, began(0)),
        (2, leased(0, 0, 1)),
        (3, Body::TaskAttemptFailed(failed)),
        (4, leased(0, 0, 2)),
        (5, Body::TaskSettled(Box::new(settled))),
    ]);
    let mut report = report(&events);
    report.story.parent =
        Some(v1::ParentRef { run_id: "0198".to_owned(), task: "all".to_owned(), ..v1::ParentRef::default() });
    let child = v1::ChildView {
        run_id: "0200".to_owned(),
        task: "fetch".to_owned(),
        outcome: Some(v1::RunOutcome::Failed.into()),
        ..v1::ChildView::default()
    };
    report.run =
        Some(v1::Run { children: vec![child], session: Some("shop".to_owned()), ..v1::Run::default() });
    shows(
        &html(&report),
        &[
            "Models took",
            // Of both attempts.
            "2468 tokens in, 112 out; 0.0062 USD",
            "0198 (all)",
            "shop",
            "Runs of its tasks",
            "fetch",
            "badge bad\">failed",
            "0200",
        ],
    );
}

#[test]
fn the_page_is_in_the_language_in_use() {
    let page = Language::Spanish.within(|| page(story()));
    is_whole(&page);
    shows(
        &page,
        &[
            "<html lang=\"es\">",
            "<title>nightly: fallida</title>",
            "Tareas: 1 de 3 con éxito, en 8s.",
            "Qué hacer: ",
            "Qué falló",
            "El final de su log",
            "Cronología",
            "Ola 1 de 2: checks",
            "esperó 2s hasta el intento siguiente",
            "Detalles técnicos",
        ],
    );
    for english in ["Timeline", "attempt 1", "Attempt ", "What ", "worker lost", "waits for", "Wave "] {
        assert!(!page.contains(english), "{english} in\n{page}");
    }
}

#[test]
fn a_task_that_was_taken_back_waits_again() {
    let taken = v1::TaskTakenBack { activation: 2, ..v1::TaskTakenBack::default() };
    let back = Body::TaskRolledBack(v1::TaskRolledBack { taken_back: vec![taken], ..Default::default() });
    let page =
        page([(0, plan()), (100, began(0)), (200, leased(0, 0, 1)), (5_000, back), (6_000, leased(0, 0, 1))]);
    shows(
        &page,
        &[
            "<b>fetch</b>",
            "at work",
            "attempt 1 taken back after 4.8s",
            "waited 1s for a worker",
            "<g class=\"open\">",
        ],
    );
}
