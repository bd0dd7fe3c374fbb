//! What the rules say to prompts, by the keys of the seed.

use serde_json::{Value, json};

use super::{Rules, RulesFile};

const FILE: &str = r#"
[[rules]]
query = '^copy (?<from>\S+) to (?<to>\S+)$'
checkpoints = [1]
minutes = 2

[[rules.steps]]
id = "read"
description = "read the file"
tool = "cat"
parameters = { path = "${from}" }
expected = { contains = "price" }

[[rules.steps]]
id = "write"
tool = "tee"
parameters = { path = "out/${to}", text = "${last}", lines = ["<${last}>", 3] }
ask = { reason = "the file is there", question = "Is it to be replaced?", options = ["keep"] }

[[rules.otherwise]]
id = "fetch"
tool = "fetch"
parameters = {}

[[rules]]
query = '(?<a>\w+) (?<b>\w+) (?<c>\w+) (?<d>\w+)'
steps = [{ id = "a", tool = "t", parameters = ["${d}", "${a}"] }]

[[rules]]
query = "anything"
steps = [{ id = "a", tool = "t" }, { id = "b", tool = "t", depends_on = [] }]
"#;

fn rules() -> Rules {
    Rules::new(toml::from_str(FILE).unwrap()).unwrap()
}

fn says(prompt: &Value) -> Value {
    rules().answer(prompt).unwrap()
}

fn step(id: &str, tool: &str, parameters: &Value) -> Value {
    json!({ "id": id, "description": id, "tool": tool, "parameters": parameters, "expected": {}, "dependsOn": [] })
}

#[test]
fn in_the_mode_simple_each_step_is_done_once_and_the_last_one_ends_it() {
    let query = "copy a.txt to b.txt";
    let first = says(&json!({ "query": query, "memory": [], "workspace": [], "step": 0, "errorCount": 0 }));
    let expected = json!({
        "action": { "tool": "cat", "parameters": { "path": "a.txt" } },
        "reasoning": "read the file", "continue": true, "confidence": 1,
    });
    assert_eq!(first, expected);
    let last = json!({ "tool": "cat", "output": "price 3", "error": null, "durationMs": 1 });
    let second = says(&json!({ "query": query, "step": 1, "errorCount": 0, "lastResult": last }));
    let parameters = json!({ "path": "out/b.txt", "text": "price 3", "lines": ["<price 3>", 3] });
    assert_eq!(second["action"], json!({ "tool": "tee", "parameters": parameters }));
    assert_eq!((&second["continue"], &second["reasoning"]), (&json!(false), &json!("write")));
    let beyond = says(&json!({ "query": query, "step": 9, "errorCount": 1 }));
    assert_eq!((&beyond["action"]["tool"], &beyond["continue"]), (&json!("tee"), &json!(false)));
}

#[test]
fn a_plan_has_what_the_query_says_and_waits_with_what_results_will_say() {
    let answer = says(&json!({ "query": "COPY a to b", "progress": 0.0, "step": 0, "errorCount": 0 }));
    let update = &answer["planUpdate"];
    assert_eq!(
        (&update["type"], &update["checkpoints"], &update["estimatedTime"]),
        (&json!("create"), &json!([1]), &json!(2.0)),
    );
    assert_eq!(update["steps"][0]["expected"], json!({ "contains": "price" }));
    assert_eq!(update["steps"][1]["parameters"]["text"], json!("${last}"));
    assert_eq!(update["steps"][1]["dependsOn"], json!(["read"]));
    assert_eq!(answer["nextAction"], json!({ "tool": "cat", "parameters": { "path": "a" }, "stepIndex": 0 }));
}

#[test]
fn the_next_step_of_a_plan_is_the_first_that_has_not_succeeded() {
    let steps: Vec<Value> = (0..7).map(|place| step(&format!("s{place}"), "t", &json!(place))).collect();
    for done in 0..7 {
        let progress = f64::from(done) / 7.0;
        let prompt = json!({
            "query": "anything", "progress": progress, "currentPlan": { "steps": steps }, "step": 9,
            "errorCount": 2, "lastResult": { "output": "of the last one" },
        });
        let answer = says(&prompt);
        assert_eq!(answer["nextAction"]["stepIndex"], json!(done));
        assert_eq!(answer["nextAction"]["parameters"], json!(done));
        assert_eq!(answer.get("planUpdate"), None);
    }
}

#[test]
fn a_plan_that_has_to_be_made_anew_is_the_other_one_where_there_is_one() {
    let known = json!({ "steps": [step("read", "cat", &json!({}))] });
    let deviates = json!({ "impactedSteps": [0] });
    let prompt = |query: &str| json!({ "query": query, "progress": 0, "currentPlan": known, "deviationAnalysis": deviates });
    let other = says(&prompt("copy a to b"));
    assert_eq!(other["planUpdate"]["steps"][0]["tool"], "fetch");
    assert_eq!(other["planUpdate"]["checkpoints"], json!([]));
    assert_eq!(other["nextAction"]["tool"], "fetch");
    assert_eq!(other["planUpdate"]["type"], "create");
    let mut half_done = prompt("anything");
    half_done["progress"] = json!(0.5);
    half_done["currentPlan"] = json!({ "steps": [step("a", "t", &json!({})), step("b", "t", &json!({}))] });
    // Steps of the same ids that do something else are others.
    assert_eq!(says(&half_done)["planUpdate"]["type"], "create");
    half_done["currentPlan"] =
        json!({ "steps": [step("a", "t", &json!(null)), step("b", "t", &json!(null))] });
    let goes_on = says(&half_done);
    assert_eq!(
        (&goes_on["planUpdate"]["type"], &goes_on["nextAction"]["stepIndex"]),
        (&json!("modify"), &json!(1))
    );
    // Where all of them have succeeded, and one is not what was expected, doing them again would help nobody.
    half_done["progress"] = json!(1);
    let refused = rules().answer(&half_done).unwrap_err();
    assert!(refused.message.contains("no other plan"), "{}", refused.message);
    let same = says(&prompt("anything"));
    let ids = [&same["planUpdate"]["steps"][0]["id"], &same["planUpdate"]["steps"][1]["id"]];
    assert_eq!(ids, [&json!("a"), &json!("b")]);
    assert_eq!(same["planUpdate"]["steps"][1]["dependsOn"], json!([]));
}

#[test]
fn an_approved_plan_is_kept_to_and_what_is_to_be_asked_is_asked_once() {
    let write = step("write", "tee", &json!({ "path": "out/b", "text": "${last}" }));
    let prompt = |history: Value, step: Value| {
        json!({
            "query": "copy a to b", "memory": [], "validatedPlan": { "steps": [] }, "autonomyLevel": 0.3,
            "adherenceCheck": { "planStep": step, "actualResult": { "output": { "n": 1 } } },
            "escalationHistory": history,
        })
    };
    let asks = says(&prompt(json!(["the file is therefore: no"]), write.clone()));
    assert_eq!(asks["decision"], "escalate");
    assert_eq!(asks["escalation"]["suggestedOptions"], json!(["keep"]));
    let goes_on = says(&prompt(json!(["the file is there: keep"]), write));
    assert_eq!(goes_on["decision"], "continue");
    assert_eq!(goes_on["nextAction"]["parameters"], json!({ "path": "out/b", "text": { "n": 1 } }));
    assert_eq!(goes_on["planAdherence"], json!(1));
    assert_eq!(says(&prompt(json!([]), Value::Null))["decision"], "complete");
}

#[test]
fn what_a_query_says_is_never_taken_for_a_mark() {
    let query = "copy ${last} to ${from}";
    let result = json!({ "success": true, "output": "the result" });
    let act = says(&json!({ "query": query, "step": 1, "lastResult": result }));
    let expected = json!({ "path": "out/${from}", "text": "the result", "lines": ["<the result>", 3] });
    assert_eq!(act["action"]["parameters"], expected);
    // The same through a plan, which has the query's words in it.
    let plan = says(&json!({ "query": query, "progress": 0 }))["planUpdate"]["steps"].clone();
    assert_eq!(plan[1]["parameters"]["path"], "out/${from}");
    let next = says(
        &json!({ "query": query, "progress": 0.5, "currentPlan": { "steps": plan }, "lastResult": result }),
    );
    assert_eq!(next["nextAction"]["parameters"], expected);
    // A part of the result, or none.
    let part = |parameters: &Value| {
        let step = json!({ "id": "mine", "tool": "tee", "parameters": parameters });
        let result = json!({ "output": { "output": [{ "n": 7 }], "a": "A" } });
        let check = json!({ "planStep": step, "actualResult": result });
        says(&json!({ "query": query, "validatedPlan": {}, "adherenceCheck": check }))["nextAction"]["parameters"].clone()
    };
    let parts = json!(["${last.output.0.n}", "<${last.a}>", "${last.none}", "${lastly}"]);
    assert_eq!(part(&parts), json!([7, "<A>", null, "${lastly}"]));
    // What a person has written into the plan may name the last result, and no group.
    let edited = json!({ "id": "write", "tool": "tee", "parameters": "${to}: ${last}" });
    let check = json!({ "planStep": edited, "actualResult": result });
    let history = ["the file is there: keep"];
    let next = says(&json!({
        "query": query, "validatedPlan": {}, "adherenceCheck": check, "escalationHistory": history,
    }));
    assert_eq!(next["nextAction"]["parameters"], "${to}: the result");
}

#[test]
fn words_in_any_alphabet_are_found_by_several_groups() {
    let answer = says(&json!({ "query": "один zwei τρία 四", "step": 0 }));
    assert_eq!(answer["action"]["parameters"], json!(["四", "один"]));
}

#[test]
fn what_is_no_prompt_or_nobodys_query_is_refused() {
    for (prompt, message) in [
        (json!(null), "the input is no prompt of an execution"),
        (json!({ "query": 3 }), "the input is no prompt of an execution"),
        (
            json!({ "query": "copy a" }),
            "no rule is about this query; there are rules about /^copy (?<from>\\S+) to (?<to>\\S+)$/, \
             /(?<a>\\w+) (?<b>\\w+) (?<c>\\w+) (?<d>\\w+)/, /anything/",
        ),
    ] {
        let error = rules().answer(&prompt).unwrap_err();
        assert_eq!((error.code.as_str(), error.message.as_str()), ("INVALID_ARGUMENT", message));
    }
}

#[test]
fn a_file_is_refused_with_everything_that_is_wrong_with_it() {
    let file: RulesFile = toml::from_str(
        r#"
        [[rules]]
        query = "("
        steps = []
        minutes = -1.0
        checkpoints = [0]
        [[rules]]
        query = "x"
        steps = [
            { id = "a", tool = "", depends_on = ["b"] },
            { id = "b", tool = "t" },
            { id = "b", tool = "t" },
        ]
        "#,
    )
    .unwrap();
    let problems = Rules::new(file).unwrap_err();
    let places: Vec<&str> = problems.iter().map(|problem| problem.split(": ").next().unwrap()).collect();
    let expected = [
        "rules[0].steps",
        "rules[0].checkpoints[0]",
        "rules[0].minutes",
        "rules[0].query",
        "rules[1].steps[0]",
        "rules[1].steps[0].depends_on[0]",
        "rules[1].steps[2].id",
    ];
    assert_eq!(places, expected);
    assert!(Rules::new(RulesFile { rules: Vec::new() }).is_err());
    let more = r#"
        [[rules]]
        query = "(?<last>x)"
        steps = [
            { id = "a", tool = "t", parameters = { list = ["${last}", "a ${who} b ${who"] }, expected = { maybe = 1 } },
            { id = "b", tool = "t", expected = { contains = "" }, ask = { reason = " ", question = "?", options = [""] } },
        ]
        [[rules]]
        query = "x"
        steps = [{ id = "ID", tool = "TOOL", description = "WORDS" }]
    "#;
    let long = more
        .replace("ID", &"i".repeat(129))
        .replace("TOOL", &"t".repeat(129))
        .replace("WORDS", &"w".repeat(2_001));
    let problems = Rules::new(toml::from_str(&long).unwrap()).unwrap_err();
    let places: Vec<&str> = problems.iter().map(|problem| problem.split(": ").next().unwrap()).collect();
    let expected = [
        "rules[0].query",
        "rules[0].steps[0].expected",
        "rules[0].steps[0].parameters.list[1]",
        "rules[0].steps[1].ask",
        "rules[0].steps[1].ask.options[0]",
        "rules[0].steps[1].expected",
        "rules[1].steps[0].id",
        "rules[1].steps[0].tool",
        "rules[1].steps[0].description",
    ];
    assert_eq!(places, expected);
    assert!(problems[2].ends_with("${who} is none of ${last}"), "{}", problems[2]);
    assert!(toml::from_str::<RulesFile>("[[rules]]\nquery = \"a\"\nsteps = []\nmore = 1").is_err());
}
