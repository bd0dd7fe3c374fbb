//! A pipeline: outputs that are rejected and corrected, a phase that is blocked and goes on with another agent, and ways back.

use capataz_contracts::v1::{self, SchemaViolation};
use capataz_engine::{Computed, Input, QueryAnswer, Report, Verdict, Work, materialise_pipeline};

use super::{Log, Run, SECOND, json};

fn phase(name: &str, for_each: Option<&str>) -> v1::Phase {
    v1::Phase {
        name: name.to_owned(),
        agent: format!("{name}-agent"),
        for_each: for_each.map(str::to_owned),
        output: Some(v1::OutputRule {
            schema: Some(r#"{"type":"object","required":["kind"]}"#.to_owned()),
            checks: Vec::new(),
        }),
        summary: vec!["kind".to_owned()],
        ..v1::Phase::default()
    }
}

pub fn log(seed: u64, before: &Log, decisions: usize) -> Log {
    let mut pipeline = v1::Pipeline {
        name: "pipeline".to_owned(),
        product_id: Some("product".to_owned()),
        phases: vec![
            phase("sources", Some("${input.sources}")),
            phase("domains", None),
            phase("story", None),
        ],
        input: Some(json(r#"{"sources":[1,2]}"#)),
        ..v1::Pipeline::default()
    };
    materialise_pipeline(&mut pipeline).expect("the policies are valid");
    let mut run = Run::start(seed, Work::Pipeline(pipeline), before, decisions);
    run.learns(Computed::Inputs(vec![json("1"), json("2")]));
    run.gives("sources.0", "{\"kind\":\"docs\"}", None);
    // One of two is rejected until nothing is left.
    for delay in [500, 1_500, 3_000] {
        run.gives("sources.1", "{}", Some("required"));
        run.after(delay);
    }
    run.gives("sources.1", "{}", Some("required"));
    run.after(SECOND);
    run.answers_with("retry", r#"{"agent":"careful","input":{"n":2}}"#);
    run.learns(Computed::Inputs(vec![json("{\"n\":2}")]));
    run.gives("sources.1.again-2", "{\"kind\":\"infra\"}", None);
    run.learns(Computed::Summary(json(r#"[{"kind":"docs"},{"kind":"infra"}]"#)));
    run.learns(Computed::Inputs(vec![json("\"domains\"")]));
    run.gives("domains", "{\"kind\":\"two\"}", None);
    run.learns(Computed::Summary(json("{\"kind\":\"two\"}")));
    // It goes back while a worker is at work.
    run.learns(Computed::Inputs(vec![json("\"story\"")]));
    let at_work = run.state.plan().find("story").expect("there is the task");
    let lease = run.takes(at_work, "slow");
    run.after(SECOND);
    run.goes_back("domains", "back-1");
    run.says(at_work, lease, "slow", Report::Failed(v1::Error::default()));
    run.learns(Computed::Inputs(vec![json("\"domains\"")]));
    run.gives("domains.again-2", "{\"kind\":\"three\"}", None);
    run.learns(Computed::Summary(json("{\"kind\":\"three\"}")));
    run.learns(Computed::Failed(v1::Error {
        code: "INPUT_UNRESOLVED".to_owned(),
        message: "nothing to tell".to_owned(),
        ..v1::Error::default()
    }));
    run.refuses(Input::RollbackPipeline { phase: "sources".to_owned(), request_id: "back-2".to_owned() });
    run.answers("rollback");
    run.learns(Computed::Inputs(vec![json("\"story\"")]));
    run.gives("story.again-2", "{\"kind\":\"end\"}", None);
    run.learns(Computed::Summary(json("{\"kind\":\"end\"}")));
    run.ends(v1::RunOutcome::Succeeded)
}

impl Run<'_> {
    /// What the run asked about a phase is answered.
    #[track_caller]
    fn learns(&mut self, computed: Computed) {
        let query = self.state.open_query().map(|(query, _)| query).unwrap_or_default();
        self.does(Input::Answered { query, answer: QueryAnswer::Computed(computed) });
    }

    /// A worker takes the task and gives this back, which breaks that rule.
    #[track_caller]
    fn gives(&mut self, name: &str, output: &str, rule: Option<&str>) {
        let task = self.state.plan().find(name).expect("there is the task");
        let lease = self.takes(task, "worker");
        let output = json(output);
        let Some(judged) = self.state.output_to_judge(task, lease, "worker", &output) else {
            // It is in the log before.
            return self.says(task, lease, "worker", Report::Completed(output));
        };
        let violation = |rule: &str| SchemaViolation {
            path: "/kind".to_owned(),
            rule: rule.to_owned(),
            expected: "the key".to_owned(),
            found: "nothing".to_owned(),
        };
        let mut verdict = Verdict::on(judged, rule.map(violation).into_iter().collect());
        verdict.corrected = rule.map(|rule| json(&format!("{{\"correction\":{rule:?}}}")));
        self.says(task, lease, "worker", Report::Judged(output, Box::new(verdict)));
    }

    #[track_caller]
    fn goes_back(&mut self, phase: &str, request_id: &str) {
        let (phase, request_id) = (phase.to_owned(), request_id.to_owned());
        self.does(Input::RollbackPipeline { phase, request_id });
    }

    /// Answers the newest question with a value that passes its schema.
    #[track_caller]
    fn answers_with(&mut self, option: &str, value: &str) {
        let question_id = self.newest_question();
        let mut answer = capataz_engine::Answer { value: Some(json(value)), ..option.into() };
        let request_id = format!("answer-{option}");
        let asked = Input::Resolve {
            question_id: question_id.clone(),
            answer: answer.clone(),
            request_id: request_id.clone(),
        };
        answer.verdict = self.state.to_judge(&asked).map(|judged| Box::new(Verdict::on(judged, Vec::new())));
        self.does(Input::Resolve { question_id, answer, request_id });
    }
}
