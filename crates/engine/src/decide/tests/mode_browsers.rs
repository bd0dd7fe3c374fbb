//! The browser of an execution: opened by the first call that needs it, and the run's own (CONTRACTS §5).

use capataz_contracts::browser::{BROWSER_AGENT, BROWSER_MEDIA_TYPE};
use capataz_policy::mode::browser;
use prost::Message;
use serde_json::{Value, json as value};

use super::modes::{act, begin_with};
use super::*;
use v1::ExecutionMode::Simple;
use v1::payload::Data;

const HOST: &str = "host";

/// A run with tools of the browser, and `read`.
fn begins() -> Bench {
    let of_browser = |name: &str| {
        let built_in = browser::tool(name).expect("there is such a tool");
        v1::ModeTool { name: name.to_owned(), undoable: built_in.undoable, ..v1::ModeTool::default() }
    };
    begin_with(Simple, |run| {
        run.tools.truncate(1);
        run.tools.extend(["browser.navigate", "browser.click", "browser.observe"].map(of_browser));
        run.browser_policy = Some(v1::ScriptPolicy::default());
        for tool in &mut run.tools {
            tool.timeouts = None;
        }
    })
}

fn calls(tool: &str) -> Value {
    let mut answer = act(tool, true);
    answer["action"]["parameters"] = match tool {
        "browser.navigate" => value!({ "url": "http://a.example/" }),
        "browser.click" => value!({ "target": { "ref": "d1e2" } }),
        "browser.observe" => value!({ "max_characters": 500 }),
        _ => value!({ "path": "a" }),
    };
    answer
}

/// A page as it is seen after an action.
fn page() -> v1::BrowserOutcome {
    let state = v1::StateSignature {
        url: "http://a.example/".to_owned(),
        title: "A".to_owned(),
        ..v1::StateSignature::default()
    };
    v1::BrowserOutcome { state_after: Some(state), ..v1::BrowserOutcome::default() }
}

fn opened(outcome: v1::BrowserOutcome) -> v1::BrowserOutcome {
    v1::BrowserOutcome { browser: "Chromium 148".to_owned(), keeps: true, ..outcome }
}

impl Bench {
    /// The planner calls this tool.
    #[track_caller]
    fn wants(self, tool: &str) -> Self {
        self.asks().says(&calls(tool))
    }

    /// What the browser's host is given.
    #[track_caller]
    fn host_is_given(&self) -> v1::BrowserTask {
        let name = self.newest();
        let task = self.state.plan().task(self.at(&name)).unwrap();
        assert_eq!(task.agent, BROWSER_AGENT);
        match task.input.as_ref().unwrap().data.as_ref().unwrap() {
            Data::Inline(bytes) => v1::BrowserTask::decode(bytes.clone()).unwrap(),
            Data::Blob(_) => panic!("a blob"),
        }
    }

    /// The host does it, and says this.
    #[track_caller]
    fn host_says(self, outcome: v1::BrowserOutcome) -> Self {
        let name = self.newest();
        self.lease(&name, HOST).host_at_work_says(outcome)
    }

    /// The run is paused while the host is at work; then it waits for so long that its browser is put away, and goes on.
    #[track_caller]
    fn host_says_and_rests(self, outcome: v1::BrowserOutcome) -> Self {
        let name = self.newest();
        let bench = self.lease(&name, HOST).pause().host_at_work_says(outcome).seen(true);
        let bench = bench.after(5 * MINUTE);
        assert!(bench.state.binding().is_some_and(|bound| !bound.is_live));
        bench.resume()
    }

    #[track_caller]
    fn host_at_work_says(self, outcome: v1::BrowserOutcome) -> Self {
        let name = self.newest();
        let output = v1::Payload {
            media_type: BROWSER_MEDIA_TYPE.to_owned(),
            data: Some(Data::Inline(outcome.encode_to_vec().into())),
        };
        self.report(&name, Report::Completed(output))
    }

    /// What the planner is told of the call.
    fn planner_is_told(&self) -> Value {
        let output = self.task(&self.newest()).output.expect("it has succeeded").data;
        let Some(Data::Inline(bytes)) = output else { panic!("{output:?}") };
        serde_json::from_slice(&bytes).unwrap()
    }
}

#[test]
fn the_first_call_opens_the_browser_and_those_after_it_are_for_the_worker_that_has_it() {
    let bench = begins().wants("browser.navigate");
    let task = bench.host_is_given();
    assert_eq!((task.activity(), task.open, task.restore), (v1::BrowserActivity::Action, true, false));
    assert!(task.policy.is_some() && task.interactive);
    let action = task.action.unwrap();
    assert_eq!((action.id.as_str(), action.kind()), ("act-0", v1::ActionKind::Navigate));
    assert_eq!(bench.state.binding(), None);
    let bench = bench.host_says(opened(page()));
    assert_eq!(&bench.kinds()[..2], ["browser_opened", "action_finished"]);
    assert_eq!(bench.planner_is_told(), value!({ "url": "http://a.example/", "title": "A" }));
    assert!(bench.state.binding().is_some_and(|bound| bound.is_live && bound.worker == HOST));
    let bench = bench.seen(true).wants("browser.click");
    assert_eq!((bench.host_is_given().open, bench.host_is_given().policy), (false, None));
    let name = bench.newest();
    let task = bench.at(&name);
    let lease = |worker: &str| Input::Lease {
        task,
        worker: worker.to_owned(),
        mark: 0,
        output_schema: None,
        cancel_is_final: false,
    };
    bench.clone_run().input(lease("another")).expect_refusal();
    // A tool that is none of the browser's, and the planner, are anybody's.
    let bench = bench.host_says(page()).seen(true).wants("read");
    bench.tool_gives("1", true).asks();
}

#[test]
fn a_look_at_the_page_is_no_action_and_its_outline_is_the_result() {
    let bench = begins().wants("browser.observe");
    let task = bench.host_is_given();
    assert_eq!((task.activity(), task.max_characters), (v1::BrowserActivity::Observe, Some(500)));
    let outline = v1::ActionOutput { value: "\"- heading\"".to_owned(), ..v1::ActionOutput::default() };
    let bench = bench.host_says(opened(v1::BrowserOutcome { output: Some(outline), ..page() }));
    assert_eq!(bench.planner_is_told()["outline"], "- heading");
    assert_eq!(bench.count("action_finished"), 0);
    // More than a prompt takes is cut, and says so; what an action gives is not cut.
    let output =
        v1::ActionOutput { value: format!("\"{}\"", "x".repeat(40_000)), ..v1::ActionOutput::default() };
    let bench = bench.seen(true).wants("browser.observe");
    let bench = bench.host_says(v1::BrowserOutcome { output: Some(output.clone()), ..page() });
    let told = bench.planner_is_told();
    assert_eq!(told["truncated"], true);
    assert_eq!(told["outline"].as_str().unwrap().len(), 30_000);
    let bench = bench.seen(true).wants("browser.click");
    let bench = bench.host_says(v1::BrowserOutcome { output: Some(output.clone()), ..page() });
    assert_eq!(bench.error(&bench.newest()).code, "INVALID_OUTPUT");
    // A page whose title alone is more than that leaves nothing to cut.
    let title = v1::StateSignature { title: "t".repeat(40_000), ..v1::StateSignature::default() };
    let outcome = v1::BrowserOutcome { output: Some(output), state_after: Some(title), ..page() };
    let bench = bench.seen(true).wants("browser.observe").host_says(outcome);
    assert_eq!(bench.error(&bench.newest()).code, "INVALID_OUTPUT");
}

#[test]
fn a_planner_is_told_where_a_value_was_masked() {
    let output = |redacted| v1::ActionOutput {
        value: "\"«secret»\"".to_owned(),
        redacted,
        ..v1::ActionOutput::default()
    };
    let outcome = |redacted| v1::BrowserOutcome { output: Some(output(redacted)), ..page() };
    let bench = begins().wants("browser.observe").host_says(opened(outcome(true)));
    assert_eq!(bench.planner_is_told()["redacted"], true);
    let bench = bench.seen(true).wants("browser.click").host_says(outcome(true));
    assert_eq!(bench.planner_is_told()["redacted"], true);
    let bench = bench.seen(true).wants("browser.click").host_says(outcome(false));
    assert_eq!(bench.planner_is_told().get("redacted"), None);
}

#[test]
fn what_a_planner_gets_wrong_about_an_action_goes_back_to_it() {
    let mut answer = calls("browser.click");
    answer["action"]["parameters"] = value!({ "target": { "colour": "red" } });
    let bench = begins().asks().says(&answer);
    let Body::OutputRejected(rejected) = bench.newest_event("output_rejected") else { panic!() };
    assert_eq!(rejected.violations[0].path, "/action/parameters/target/colour");
}

#[test]
fn a_call_that_waits_for_a_lost_browser_fails_and_the_next_one_opens_another() {
    let bench = begins().wants("browser.navigate").host_says(opened(page())).seen(true);
    let bench = bench.wants("browser.click");
    let waits = bench.newest();
    let lost = Input::BrowserLost { worker: HOST.to_owned(), reason: v1::BrowserLossReason::Ended };
    assert!(bench.state.has_open_browser());
    let bench = bench.does(lost).expect_failed(&waits, "BROWSER_LOST").seen(false);
    assert!(!bench.state.has_open_browser(), "nothing keeps the run in memory");
    let bench = bench.wants("browser.click");
    assert!(bench.host_is_given().open && !bench.host_is_given().restore);
    // One that opens its browser itself waits for none.
    let waits = bench.newest();
    let bench = bench.expect_unsettled(&waits);
    // A host that has lost it says so itself.
    let bench = bench.host_says(opened(page())).seen(true).wants("browser.observe");
    let name = bench.newest();
    let gone = v1::Error { code: "BROWSER_LOST".to_owned(), ..v1::Error::default() };
    let bench = bench.lease(&name, HOST).report(&name, Report::Failed(gone));
    assert_eq!(bench.kinds()[0], "browser_lost");
    assert_eq!(bench.state.binding(), None);
}

#[test]
fn a_browser_is_put_away_while_a_person_is_waited_for_and_shows_its_page_again_where_it_may() {
    let navigated = || begins().wants("browser.navigate").host_says_and_rests(opened(page()));
    let bench = navigated();
    let bench = bench.wants("browser.click");
    let task = bench.host_is_given();
    assert_eq!((task.open, task.restore, task.show_page), (true, true, true));
    let bench = bench.host_says_and_rests(opened(page()));
    let Body::BrowserOpened(again) = bench.newest_event("browser_opened") else { panic!() };
    assert!(again.restored);
    // Where nothing was kept after all, the next call opens a blank one.
    let lost = navigated().wants("browser.click");
    let name = lost.newest();
    let gone = v1::Error { code: "BROWSER_LOST".to_owned(), ..v1::Error::default() };
    let lost =
        lost.lease(&name, HOST).report(&name, Report::Failed(gone)).seen(false).wants("browser.observe");
    assert_eq!((lost.host_is_given().open, lost.host_is_given().restore), (true, false));
    // What was clicked since is not sent again.
    let bench = bench.wants("browser.observe");
    assert_eq!((bench.host_is_given().restore, bench.host_is_given().show_page), (true, false));
}

#[test]
fn a_run_goes_back_behind_a_look_and_not_behind_a_click_and_is_not_forked_with_a_browser() {
    let bench = begins().keeps("before").wants("browser.navigate").host_says(opened(page())).seen(true);
    assert!(!bench.state.may_be_forked());
    let bench = bench.goes_back_to("c1").expect_kinds(&["mode_rolled_back"]);
    assert!(bench.state.binding().is_some(), "the browser stays where it is");
    let bench = bench.wants("browser.click").host_says(page()).seen(true);
    bench.goes_back_to("c1").expect_refusal();
    assert!(begins().state.may_be_forked());
}
