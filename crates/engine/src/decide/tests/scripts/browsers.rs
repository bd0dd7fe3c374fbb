//! A browser is its run's own: one worker has it, its loss is an event, and while the run waits for a person it is closed
//! and opened again.

use super::*;
use crate::NotForked;

const IDLE: i64 = 5 * MINUTE;

impl Scripted {
    /// Opens a browser whose worker keeps its state where it is told to.
    #[track_caller]
    fn opens_to_keep(self) -> Self {
        self.says(v1::BrowserOutcome {
            browser: "Chromium 148".to_owned(),
            keeps: true,
            ..v1::BrowserOutcome::default()
        })
    }

    #[track_caller]
    fn loses_browser(self, reason: v1::BrowserLossReason) -> Self {
        self.does(Input::BrowserLost { worker: "host".to_owned(), reason })
    }

    fn paused(mut self) -> Self {
        self.bench = self.bench.pause();
        self
    }

    fn resumed(mut self) -> Self {
        self.bench = self.bench.resume();
        self
    }

    fn answered_with(mut self, answer: &str) -> Self {
        self.bench = self.bench.answer(answer);
        self
    }

    #[track_caller]
    fn expect_kinds(self, kinds: &[&str]) -> Self {
        Self { bench: self.bench.expect_kinds(kinds) }
    }

    /// The worker is told to close the browser and to keep its state.
    #[track_caller]
    fn expect_put_away(self) -> Self {
        let scripted = self.expect_kinds(&["browser_closed"]);
        assert_eq!(scripted.bench.effects(), [Effect::KeepBrowser { worker: "host".to_owned() }]);
        assert!(scripted.bench.state.binding().is_some_and(|bound| !bound.is_live));
        scripted
    }

    /// The worker that has kept the state is asked to open the browser again, for the action of this number.
    #[track_caller]
    fn expect_opened_again(self) -> Self {
        let asked = self.asked();
        assert_eq!((asked.activity(), asked.restore), (v1::BrowserActivity::Open, true));
        let scripted = self.opens_to_keep();
        let opened =
            scripted.bench.ledger.events.iter().rev().find_map(|event| match event.body.as_ref()? {
                Body::BrowserOpened(opened) => Some(opened.clone()),
                _ => None,
            });
        let opened = opened.expect("a browser was opened");
        assert!(opened.restored && opened.worker == "host", "{opened:?}");
        scripted
    }

    /// The browser's worker has died, and nobody knows what became of the action.
    #[track_caller]
    fn dies_at_work(self) -> Self {
        self.loses_its_host().loses_browser(v1::BrowserLossReason::Restarted)
    }
}

#[test]
fn no_other_worker_gets_what_is_to_be_done_in_the_browser() {
    let scripted = Scripted::opened(&["click send"], v1::ScriptPolicy::default());
    let task = scripted.current();
    assert_eq!(scripted.bench.state.binding(), Some(crate::Binding { worker: "host", is_live: true }));
    let other = Input::Lease {
        output_schema: None,
        cancel_is_final: false,
        mark: 0,
        task,
        worker: "other".to_owned(),
    };
    let bench = scripted.bench.input(other);
    assert_eq!(bench.clone_run().expect_refusal(), Refusal::Outdated);
    let ended = Scripted { bench }.acts(Ends("/thanks")).says(v1::BrowserOutcome::default());
    assert_eq!(ended.bench.state.binding(), None, "the browser is closed");
}

#[test]
fn what_waits_for_a_lost_browser_is_never_done_in_another_one() {
    let lost = Scripted::opened(&["click send"], v1::ScriptPolicy::default())
        .loses_browser(v1::BrowserLossReason::Disconnected)
        .expect_kinds(&["browser_lost", "task_settled", "notice", "browser_activity_started"])
        .expect_asked(Action, "send");
    assert_eq!(lost.bench.state.binding(), None, "anybody may say that it is lost");
    assert_eq!(lost.decided().error_code, "BROWSER_LOST");
    let error = lost.tells().expect_ended_with("BROWSER_LOST");
    assert_eq!((details(&error)["worker"].as_str(), error.action_id.as_str()), (Some("host"), "send"));
}

#[test]
fn a_retry_does_not_wait_for_a_lost_browser() {
    Scripted::opened(&["click send"], retries_on(&["TARGET_NOT_FOUND"]))
        .acts(Fails("TARGET_NOT_FOUND"))
        .loses_browser(v1::BrowserLossReason::Silent)
        .tells()
        .expect_ended_with("BROWSER_LOST");
}

#[test]
fn what_is_at_work_answers_for_itself_and_is_not_done_again() {
    let scripted = Scripted::opened(&["extract title"], v1::ScriptPolicy::default())
        .lease()
        .loses_browser(v1::BrowserLossReason::Silent)
        .expect_kinds(&["browser_lost"]);
    let (lease, _) = scripted.bench.state.lease_of(scripted.current()).unwrap();
    let task = scripted.current();
    let lost = scripted.does(Input::LeaseLost { task, lease, reason: v1::LeaseLossReason::Silent });
    assert_eq!(lost.decided().error_code, "BROWSER_LOST");
    lost.tells().expect_ended_with("BROWSER_LOST");
}

#[test]
fn an_answer_that_says_that_the_browser_is_lost_is_its_loss() {
    Scripted::opened(&["click send"], v1::ScriptPolicy::default())
        .acts(Fails("BROWSER_LOST"))
        .expect_kinds(&["stage_finished", "browser_lost", "action_failed", "task_settled", "run_finished"])
        .expect_ended_with("BROWSER_LOST");
}

#[test]
fn an_unknown_outcome_is_still_a_persons_and_nothing_goes_on_without_the_browser() {
    let asked =
        || Scripted::opened(&["click send", "click more"], v1::ScriptPolicy::default()).dies_at_work();
    let open = |scripted: &Scripted| scripted.bench.open().len();
    assert_eq!(open(&asked()), 1);
    assert!(!asked().bench.state.has_open_browser(), "nothing keeps the script in memory while it waits");
    for (answer, action) in [("retry", "send"), ("succeeded", "more"), ("failed", "send")] {
        let answered = asked().answered_with(answer).expect_asked(Action, action);
        assert_eq!(answered.decided().error_code, "BROWSER_LOST", "{answer}");
        answered.tells().expect_ended_with("BROWSER_LOST");
    }
}

#[test]
fn a_session_that_waits_for_a_proposal_hears_of_the_loss_at_once() {
    let session = interactive().loses_browser(v1::BrowserLossReason::Ended).expect_asked(Close, "");
    assert!(!session.awaits_a_proposal());
    let error = session.tells().expect_ended_with("BROWSER_LOST");
    assert_eq!(error.action_id, "browser:close");
}

#[test]
fn the_loss_of_what_a_worker_does_not_have_is_nothing() {
    let outdated = |scripted: Scripted, worker: &str| {
        let reason = v1::BrowserLossReason::Ended;
        let bench = scripted.bench.input(Input::BrowserLost { worker: worker.to_owned(), reason });
        assert_eq!(bench.expect_refusal(), Refusal::Outdated);
    };
    let opened = || Scripted::opened(&["click send"], v1::ScriptPolicy::default());
    outdated(opened(), "other");
    outdated(Scripted::start(script(&["click send"], v1::ScriptPolicy::default())), "host");
    outdated(opened().loses_browser(v1::BrowserLossReason::Ended), "host");
    outdated(Scripted { bench: opened().lease().bench.cancel() }, "host");
}

#[test]
fn the_browser_of_a_paused_script_is_put_away_and_opened_again_when_it_goes_on() {
    let paused = Scripted::start(script(&["click a", "click b"], v1::ScriptPolicy::default()))
        .opens_to_keep()
        .acts(Ends("/a"))
        .paused()
        .after(IDLE - 1);
    assert!(paused.bench.state.binding().is_some_and(|bound| bound.is_live));
    let kept = paused.after(1).expect_put_away();
    kept.after(10 * IDLE)
        .resumed()
        .expect_kinds(&["run_resumed", "task_settled", "notice", "browser_activity_started"])
        .expect_opened_again()
        .expect_asked(Action, "b")
        .acts(Ends("/b"))
        .expect_asked(Close, "")
        .says(v1::BrowserOutcome::default())
        .expect_ended(v1::RunOutcome::Succeeded);
}

#[test]
fn a_person_lets_an_unknown_action_run_again_in_the_browser_that_was_kept() {
    let asked = || {
        Scripted::start(script(&["click send", "click more"], v1::ScriptPolicy::default()))
            .opens_to_keep()
            .loses_its_host()
            .after(IDLE)
            .expect_put_away()
    };
    asked().answered_with("retry").expect_opened_again().expect_asked(Action, "send");
    asked().answered_with("succeeded").expect_opened_again().expect_asked(Action, "more");
    let failed = asked().answered_with("failed").expect_asked(Action, "send");
    assert_eq!(failed.decided().error_code, "BROWSER_LOST");
    failed.tells().expect_ended_with("BROWSER_LOST");
}

/// An action that may be repeated, as its author says.
fn repeatable(line: &str) -> v1::Action {
    v1::Action { repeatable: Some(true), ..action(line) }
}

fn critical(line: &str) -> v1::Action {
    v1::Action { criticality: Some(v1::Criticality::Critical as i32), ..repeatable(line) }
}

/// The first `done` of these actions were performed before the browser was put away; whether it comes back on its page.
#[track_caller]
fn shows_its_page_again(actions: Vec<v1::Action>, done: usize) -> bool {
    let script = v1::Script { actions, ..script(&[], v1::ScriptPolicy::default()) };
    let mut scripted = Scripted::start(script).opens_to_keep();
    for _ in 0..done {
        scripted = scripted.acts(Ends("/page"));
    }
    let asked = scripted.paused().after(IDLE).expect_put_away().resumed().asked();
    assert!(asked.restore, "it is opened again");
    asked.show_page
}

#[test]
fn a_page_is_loaded_again_only_where_all_that_has_led_to_it_may_be_repeated() {
    let go = || repeatable("navigate go");
    let next = || action("extract next");
    assert!(shows_its_page_again(vec![go(), next()], 1));
    assert!(shows_its_page_again(vec![go(), repeatable("click menu"), next()], 2));
    assert!(shows_its_page_again(vec![action("click pay"), go(), next()], 2), "it was left for this page");
    // What waits has done nothing yet.
    assert!(shows_its_page_again(vec![go(), critical("submit pay")], 1));

    assert!(!shows_its_page_again(vec![critical("navigate confirm"), next()], 1));
    assert!(
        !shows_its_page_again(vec![action("navigate confirm"), next()], 1),
        "nobody has said that it may"
    );
    assert!(!shows_its_page_again(vec![go(), action("click pay"), next()], 2));
    assert!(!shows_its_page_again(vec![go(), critical("submit pay"), next()], 2));
    // The page is still the one that the click has led to.
    let looked = vec![go(), action("click pay"), action("extract title"), repeatable("click menu"), next()];
    assert!(!shows_its_page_again(looked, 4));
    let back = vec![critical("navigate confirm"), go(), repeatable("back back"), next()];
    assert!(!shows_its_page_again(back, 3), "nobody knows which page that is");
    assert!(!shows_its_page_again(vec![next()], 0), "nothing was shown");
}

#[test]
fn a_page_is_not_loaded_again_where_nobody_knows_what_became_of_an_action() {
    let asked = |unknown: v1::Action| {
        let actions = vec![repeatable("navigate go"), unknown, action("click more")];
        Scripted::start(v1::Script { actions, ..script(&[], v1::ScriptPolicy::default()) })
            .opens_to_keep()
            .acts(Ends("/go"))
            .loses_its_host()
            .after(IDLE)
            .expect_put_away()
    };
    for answer in ["retry", "succeeded"] {
        for unknown in [critical("navigate confirm"), action("click send")] {
            let opens = asked(unknown).answered_with(answer).asked();
            assert_eq!((opens.restore, opens.show_page), (true, false), "{answer}");
        }
    }
}

#[test]
fn a_navigation_that_has_failed_says_nothing_of_the_page_that_is_shown() {
    let opens_after = |before: v1::Action| {
        let go = v1::Action { on_failure: Some(v1::OnFailure::Continue as i32), ..repeatable("navigate go") };
        let actions = vec![before, go, action("extract next")];
        let script = v1::Script { actions, ..script(&[], v1::ScriptPolicy::default()) };
        let opens = Scripted::start(script)
            .opens_to_keep()
            .acts(Ends("/before"))
            .acts(Fails("NAVIGATION_FAILED"))
            .expect_asked(Action, "next")
            .paused()
            .after(IDLE)
            .expect_put_away()
            .resumed()
            .asked();
        (opens.restore, opens.show_page)
    };
    assert_eq!(opens_after(action("click pay")), (true, false), "the page may still be that of the click");
    assert_eq!(opens_after(repeatable("navigate home")), (true, true));
}

#[test]
fn a_page_is_not_loaded_again_after_a_second_wait_either() {
    let actions = vec![repeatable("navigate go"), action("click pay"), action("click more")];
    let kept = || {
        Scripted::start(v1::Script { actions: actions.clone(), ..script(&[], v1::ScriptPolicy::default()) })
            .opens_to_keep()
            .acts(Ends("/go"))
            .acts(Ends("/paid"))
            .paused()
            .after(IDLE)
            .expect_put_away()
            .resumed()
            .expect_opened_again()
    };
    let opens = kept().paused().after(IDLE).expect_put_away().resumed().asked();
    assert_eq!((opens.restore, opens.show_page), (true, false));
}

#[test]
fn nothing_is_put_away_while_something_is_at_work_or_the_run_goes_on() {
    let opened =
        || Scripted::start(script(&["extract a", "click b"], v1::ScriptPolicy::default())).opens_to_keep();
    let is_live = |scripted: &Scripted| scripted.bench.state.binding().is_some_and(|bound| bound.is_live);
    assert!(is_live(&opened().after(10 * IDLE)));
    let working = opened().lease().paused().after(MINUTE);
    let (lease, _) = working.bench.state.lease_of(working.current()).unwrap();
    let task = working.current();
    let idle = working.does(Input::LeaseLost { task, lease, reason: v1::LeaseLossReason::Silent });
    let idle = idle.after(IDLE - 1);
    assert!(is_live(&idle), "its time begins when nothing is at work any more");
    idle.after(1).expect_put_away();
}

#[test]
fn what_a_worker_cannot_keep_stays_open() {
    let paused = Scripted::opened(&["click send"], v1::ScriptPolicy::default()).paused();
    assert_eq!(paused.bench.state.next_deadline(), None);
    paused.resumed().expect_asked(Action, "send");
}

#[test]
fn a_browser_that_does_not_come_back_ends_the_script() {
    let fails = || {
        let error = whole(&v1::BrowserTask::default(), "BROWSER_LOST", "before");
        v1::BrowserOutcome { error: Some(error), ..v1::BrowserOutcome::default() }
    };
    let kept = || {
        Scripted::start(script(&["click send"], v1::ScriptPolicy::default()))
            .opens_to_keep()
            .paused()
            .after(IDLE)
            .expect_put_away()
            .resumed()
    };
    kept().says(fails()).expect_ended_with("BROWSER_LOST");
    // Whoever has kept it does not come back either.
    let lost = kept().loses_browser(v1::BrowserLossReason::Disconnected);
    lost.expect_asked(v1::BrowserActivity::Open, "").tells().expect_ended_with("BROWSER_LOST");
}

#[test]
fn a_session_whose_browser_was_put_away_is_closed_when_nobody_has_used_it_and_keeps_what_has_a_name() {
    let put_away = |storage_state: Option<&str>| {
        let mut session = script(&[], v1::ScriptPolicy::default());
        session.interactive = true;
        let storage_state = storage_state.map(str::to_owned);
        session.browser = Some(v1::BrowserOptions { storage_state, ..v1::BrowserOptions::default() });
        Scripted::start(session).opens_to_keep().after(MINUTE).paused().after(IDLE)
    };
    put_away(None)
        .expect_kinds(&["browser_closed", "browser_close_requested", "run_finished"])
        .expect_ended(v1::RunOutcome::Succeeded);
    let closing = put_away(Some("shop"))
        .expect_kinds(&["browser_closed", "browser_close_requested", "browser_activity_started"])
        .resumed()
        .expect_opened_again()
        .expect_asked(Close, "");
    assert!(closing.asked().keep_storage);
}

/// What is recorded where a person says that an action is done, and nothing is to be done next.
const GIVEN: [&str; 3] = ["question_answered", "action_finished", "task_settled"];

/// A session with one action, of which nobody knows what became.
#[track_caller]
fn asked_in_a_session() -> Scripted {
    let mut session = script(&[], v1::ScriptPolicy::default());
    session.interactive = true;
    Scripted::start(session).opens_to_keep().does(propose("click send", "1")).loses_its_host()
}

#[test]
fn a_session_waits_no_longer_than_its_idle_time_after_an_outcome_that_a_person_has_given() {
    let waits = |asked: Scripted| {
        let answered = asked.answered_with("succeeded").expect_kinds(&GIVEN);
        let told = v1::ActionFinished {
            action_id: "send".to_owned(),
            activity: Action as i32,
            idle_at_ms: Some(answered.bench.now.0 + IDLE),
            idle_in_ms: Some(IDLE),
            ..v1::ActionFinished::default()
        };
        assert_eq!(answered.finished(), [told], "it is what has become of the proposal");
        let waits = answered.after(IDLE - 1);
        assert!(waits.awaits_a_proposal());
        waits.after(1)
    };
    let succeeded = |ended: Scripted| {
        let result = ended.expect_ended(v1::RunOutcome::Succeeded).result().script().unwrap().clone();
        assert_eq!((result.succeeded, result.failed, result.total), (1, 0, 1));
    };
    let open = waits(asked_in_a_session().after(MINUTE))
        .expect_kinds(&["browser_close_requested", "browser_activity_started"])
        .expect_asked(Close, "");
    succeeded(open.says(v1::BrowserOutcome::default()));
    let kept = waits(asked_in_a_session().after(IDLE).expect_put_away());
    succeeded(kept.expect_kinds(&["browser_close_requested", "run_finished"]));
}

#[test]
fn a_session_whose_browser_is_lost_waits_for_no_proposal_after_an_outcome_that_a_person_has_given() {
    let lost = || asked_in_a_session().loses_browser(v1::BrowserLossReason::Restarted);
    let idle = |answered: &Scripted| answered.finished().pop().expect("it is told").idle_in_ms;
    let goes_on = lost().answered_with("succeeded").expect_asked(Close, "");
    assert_eq!(idle(&goes_on), None);
    goes_on.tells().expect_ended_with("BROWSER_LOST");
    // It waits for the run to go on, and not for a time.
    let closes = [&GIVEN[..], &["browser_activity_started"]].concat();
    let paused = lost().paused().answered_with("succeeded").expect_kinds(&closes);
    assert_eq!((idle(&paused), paused.bench.state.next_deadline()), (None, None));
    paused.resumed().expect_asked(Close, "");
}

#[test]
fn a_session_whose_browser_was_put_away_goes_on_and_opens_it_again_for_the_next_proposal() {
    let kept = asked_in_a_session().after(IDLE).expect_put_away();
    // Nothing is opened or closed for a session that only waits.
    let waits = kept.answered_with("succeeded").expect_kinds(&GIVEN);
    waits
        .does(propose("click more", "2"))
        .expect_kinds(&["action_proposed", "browser_activity_started"])
        .expect_opened_again()
        .expect_asked(Action, "more");
}

#[test]
fn a_snapshot_holds_a_browser_that_was_put_away_or_is_about_to_be() {
    let paused =
        Scripted::start(script(&["click send"], v1::ScriptPolicy::default())).opens_to_keep().paused();
    for waited in [MINUTE, IDLE] {
        let mut state = Scripted { bench: paused.bench.clone_run() }.after(waited).bench.state;
        let bytes = state.snapshot().unwrap();
        state.loaded();
        assert_eq!(RunState::from_snapshot(&bytes).unwrap(), state);
    }
}

/// What a script has done is in its browser: before that is open there is nothing of it anywhere.
#[test]
fn a_script_is_forked_until_its_browser_is_open_and_never_after() {
    let waits = || Scripted::start(script(&["click send"], v1::ScriptPolicy::default()));
    // A browser that is being opened is opened once more for the fork, and not taken from the other run.
    for before in [waits(), waits().lease(), waits().loses_its_host()] {
        assert_eq!(before.bench.state.not_forked(), None);
        let fork = Scripted { bench: before.bench.forks_later(SECOND) };
        let fork = fork.expect_asked(v1::BrowserActivity::Open, "");
        let fork = fork.opens().expect_asked(Action, "send").acts(Ends("/sent"));
        fork.says(v1::BrowserOutcome::default()).expect_ended(v1::RunOutcome::Succeeded);
    }
    let opened = || waits().opens_to_keep();
    let closing = || opened().acts(Ends("/sent")).expect_asked(Close, "");
    for after in [
        opened(),
        opened().lease(),
        opened().acts(Ends("/sent")),
        closing().lease(),
        opened().paused().after(IDLE).expect_put_away(),
        opened().loses_browser(v1::BrowserLossReason::Ended),
    ] {
        assert_eq!(after.bench.state.not_forked(), Some(NotForked::InBrowser));
        let refused = start(SEED, after.bench.forked(None), Wall(START));
        assert!(matches!(refused, Err(Refusal::Outdated)), "{refused:?}");
    }
}
