//! An execution: a plan that a person edits and approves, a tool that needs approval, an escalation, checkpoints, and a way back.

use capataz_contracts::v1;
use capataz_engine::{
    Answer, Computed, Input, Observing, Query, QueryAnswer, Report, Verdict, Work, materialise_mode,
};
use serde_json::{Value, json as value};

use super::{Log, Run, SECOND, json};

fn step(id: &str, tool: &str, needs: &[&str]) -> Value {
    value!({
        "id": id, "description": "for the plan", "tool": tool, "parameters": { "of": id },
        "expected": { "contains": "x" }, "dependsOn": needs,
    })
}

pub fn log(seed: u64, before: &Log, decisions: usize) -> Log {
    let tool = |name: &str| v1::ModeTool {
        name: name.to_owned(),
        undoable: name == "look",
        needs_approval: name == "send",
        ..v1::ModeTool::default()
    };
    let mut execution = v1::ModeRun {
        query: "tidy up".to_owned(),
        session: Some("shop".to_owned()),
        planner: "brain".to_owned(),
        tools: ["look", "send"].map(tool).to_vec(),
        run_id: "run".to_owned(),
        ..v1::ModeRun::default()
    };
    materialise_mode(&mut execution).expect("the policies are valid");
    let mut run = Run::start(seed, Work::Mode(Box::new(execution)), before, decisions);
    let chosen = v1::ExecutionMode::Supervised.into();
    run.does(Input::SessionTurn {
        context: v1::SessionContext { chosen_mode: chosen, ..v1::SessionContext::default() },
    });
    let plan = value!({
        "planUpdate": {
            "type": "create", "steps": [step("a", "look", &[])], "estimatedTime": 1, "checkpoints": [],
        },
        "nextAction": { "tool": "look", "parameters": {}, "stepIndex": 0 },
        "replanRequired": false, "reasoning": "so", "confidence": 0.5,
    });
    run.planner_says(&plan);
    let edited = value!({
        "steps": [step("a", "look", &[]), step("b", "send", &["a"]), step("c", "look", &[])], "checkpoints": [0],
    });
    run.person_says("edit", Some(&edited));
    run.after(SECOND);
    run.person_says("approve", None);
    let goes_on = |tool: &str, parameters: Value| {
        value!({
            "decision": "continue",
            "nextAction": { "tool": tool, "parameters": parameters, "justification": "as planned" },
            "planAdherence": 1, "reasoning": "next", "confidence": 1,
        })
    };
    run.planner_says(&goes_on("look", value!({ "of": "a" })));
    run.tool_gives("\"x\"", true);
    run.does(Input::Checkpoint { reason: "looked".to_owned(), request_id: "make".to_owned() });
    // Another call than the approved one, which a person rejects.
    run.planner_says(&goes_on("send", value!({ "of": "somebody" })));
    run.person_says("reject", None);
    run.person_says("continue", None);
    run.does(Input::RollbackExecution { checkpoint: "c2".to_owned(), request_id: "back".to_owned() });
    run.planner_says(&goes_on("send", value!({ "of": "another" })));
    run.person_says("approve", None);
    run.tool_gives("\"x\"", true);
    run.refuses(Input::RollbackExecution { checkpoint: "c2".to_owned(), request_id: "far".to_owned() });
    run.planner_says(&goes_on("look", value!({ "of": "c" })));
    run.tool_gives("\"x\"", true);
    run.ends(v1::RunOutcome::Succeeded)
}

/// An execution whose plan a person rejects.
pub fn log_of_a_rejected_plan(seed: u64, before: &Log, decisions: usize) -> Log {
    let tool = v1::ModeTool { name: "look".to_owned(), undoable: true, ..v1::ModeTool::default() };
    let mut execution = v1::ModeRun {
        query: "tidy up".to_owned(),
        mode: Some(v1::ExecutionMode::Supervised.into()),
        planner: "brain".to_owned(),
        tools: vec![tool],
        run_id: "run".to_owned(),
        ..v1::ModeRun::default()
    };
    materialise_mode(&mut execution).expect("the policies are valid");
    let mut run = Run::start(seed, Work::Mode(Box::new(execution)), before, decisions);
    run.planner_says(&value!({
        "planUpdate": {
            "type": "create", "steps": [step("a", "look", &[])], "estimatedTime": 1, "checkpoints": [],
        },
        "nextAction": { "tool": "look", "parameters": {}, "stepIndex": 0 },
        "replanRequired": false, "reasoning": "so", "confidence": 0.5,
    }));
    run.person_says("reject", None);
    run.ends(v1::RunOutcome::Cancelled)
}

/// An execution that is without one of its tools for a while.
pub fn log_of_a_missed_tool(seed: u64, before: &Log, decisions: usize) -> Log {
    let tool = |name: &str| v1::ModeTool { name: name.to_owned(), undoable: true, ..v1::ModeTool::default() };
    let mut execution = v1::ModeRun {
        query: "tidy up".to_owned(),
        mode: Some(v1::ExecutionMode::Planner.into()),
        planner: "brain".to_owned(),
        tools: ["look", "find"].map(tool).to_vec(),
        run_id: "run".to_owned(),
        ..v1::ModeRun::default()
    };
    materialise_mode(&mut execution).expect("the policies are valid");
    let mut run = Run::start(seed, Work::Mode(Box::new(execution)), before, decisions);
    let plan = |steps: &[Value], tool: &str| {
        value!({
            "planUpdate": { "type": "create", "steps": steps, "estimatedTime": 1, "checkpoints": [] },
            "nextAction": { "tool": tool, "parameters": {}, "stepIndex": 0 },
            "replanRequired": false, "reasoning": "so", "confidence": 0.5,
        })
    };
    run.planner_says(&plan(&[step("a", "look", &[]), step("b", "find", &["a"])], "look"));
    run.tool_gives("\"x\"", true);
    run.is_without(&["find"]);
    // Its planner insists.
    run.planner_says_without(&plan(&[step("c", "find", &[])], "find"), &["find"]);
    run.is_without(&[]);
    run.planner_says(&plan(&[step("d", "find", &[])], "find"));
    run.tool_gives("\"x\"", true);
    run.ends(v1::RunOutcome::Succeeded)
}

/// An execution in a browser of its own, which is put away, opened again, and lost.
pub fn log_in_a_browser(seed: u64, before: &Log, decisions: usize) -> Log {
    let tool = |name: &str| v1::ModeTool {
        name: name.to_owned(),
        undoable: name != "browser.click",
        ..v1::ModeTool::default()
    };
    let mut execution = v1::ModeRun {
        query: "look it up".to_owned(),
        planner: "brain".to_owned(),
        tools: ["browser.navigate", "browser.click", "browser.observe"].map(tool).to_vec(),
        browser_policy: Some(v1::ScriptPolicy {
            allowlist: vec!["a.example".to_owned()],
            ..v1::ScriptPolicy::default()
        }),
        run_id: "run".to_owned(),
        ..v1::ModeRun::default()
    };
    materialise_mode(&mut execution).expect("the policies are valid");
    let mut run = Run::start(seed, Work::Mode(Box::new(execution)), before, decisions);
    let calls = |tool: &str, parameters: Value, goes_on: bool| {
        value!({
            "action": { "tool": tool, "parameters": parameters },
            "reasoning": "so", "continue": goes_on, "confidence": 0.5,
        })
    };
    let opened = |mut outcome: v1::BrowserOutcome| {
        (outcome.browser, outcome.keeps) = ("Chromium 148".to_owned(), true);
        outcome
    };
    run.planner_says(&calls("browser.navigate", value!({ "url": "http://a.example/" }), true));
    run.browser_says(&opened(page()));
    run.planner_says(&calls("browser.observe", value!({}), true));
    let outline = v1::ActionOutput { value: "\"- button\"".to_owned(), ..v1::ActionOutput::default() };
    run.browser_says(&v1::BrowserOutcome { output: Some(outline), ..page() });
    run.stands_still(400 * SECOND);
    let click = || calls("browser.click", value!({ "target": { "ref": "d1e1" } }), true);
    run.planner_says(&click());
    run.browser_says(&opened(page()));
    run.does(Input::BrowserLost { worker: "host".to_owned(), reason: v1::BrowserLossReason::Ended });
    run.planner_says(&click());
    run.browser_says(&opened(page()));
    run.planner_says(&click());
    run.fails_with("TARGET_NOT_FOUND", false);
    run.observed(false);
    run.planner_says(&calls("browser.navigate", value!({ "url": "http://a.example/" }), false));
    run.browser_says(&page());
    run.ends(v1::RunOutcome::Succeeded)
}

fn page() -> v1::BrowserOutcome {
    let state = v1::StateSignature {
        url: "http://a.example/".to_owned(),
        title: "A".to_owned(),
        ..v1::StateSignature::default()
    };
    v1::BrowserOutcome { state_after: Some(state), ..v1::BrowserOutcome::default() }
}

impl Run<'_> {
    #[track_caller]
    fn planner_says(&mut self, answer: &Value) {
        self.planner_says_without(answer, &[]);
    }

    /// The prompt is made while nobody serves these tools.
    #[track_caller]
    fn is_without(&mut self, absent: &[&str]) {
        let (query, prompt) = match self.state.open_query() {
            Some((query, Query::Prompt(asked))) => (query, json(&asked.prompt)),
            // It is in the log before.
            _ => Default::default(),
        };
        let recalled = v1::Recalled { entries: vec!["run-9-0".to_owned()], tokens: 7, ..Default::default() };
        let absent = absent.iter().map(|tool| (*tool).to_owned()).collect();
        let computed = Computed::Prompt { prompt, recalled, absent };
        self.does(Input::Answered { query, answer: QueryAnswer::Computed(computed) });
    }

    #[track_caller]
    fn planner_says_without(&mut self, answer: &Value, absent: &[&str]) {
        self.is_without(absent);
        let task = self.newest();
        let lease = self.takes(task, "brain-1");
        let output = json(&answer.to_string());
        let judged = self.state.output_to_judge(task, lease, "brain-1", &output);
        let report = match judged {
            Some(judged) => Report::Judged(output, Box::new(Verdict::on(judged, Vec::new()))),
            None => Report::Completed(output),
        };
        self.says(task, lease, "brain-1", report);
    }

    #[track_caller]
    fn tool_gives(&mut self, output: &str, as_expected: bool) {
        let task = self.newest();
        let lease = self.takes(task, "hand");
        self.says(task, lease, "hand", Report::Completed(json(output)));
        self.observed(as_expected);
    }

    #[track_caller]
    fn browser_says(&mut self, outcome: &v1::BrowserOutcome) {
        self.tells(outcome.clone());
        self.observed(true);
    }

    #[track_caller]
    fn observed(&mut self, as_expected: bool) {
        let query = self.state.open_query().map(|(query, _)| query).unwrap_or_default();
        let seen = Observing { as_expected, content: "all".to_owned(), digest: "few".to_owned() };
        let answer = QueryAnswer::Computed(Computed::Observed(seen));
        self.does(Input::Answered { query, answer });
    }

    #[track_caller]
    fn person_says(&mut self, option: &str, value: Option<&Value>) {
        let question_id = self.newest_question();
        let mut answer = Answer { value: value.map(|value| json(&value.to_string())), ..option.into() };
        let request_id = format!("answer-{question_id}");
        let asked = Input::Resolve {
            question_id: question_id.clone(),
            answer: answer.clone(),
            request_id: request_id.clone(),
        };
        answer.verdict = self.state.to_judge(&asked).map(|judged| Box::new(Verdict::on(judged, Vec::new())));
        self.does(Input::Resolve { question_id, answer, request_id });
    }
}
