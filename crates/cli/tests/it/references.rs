//! What tasks are given of large outputs of earlier ones, through the real program.

use std::process::Command;

use capataz_client::worker::{Task, TaskOutput, Worker};
use capataz_contracts::plan_file::{self, Format};
use capataz_contracts::v1;
use capataz_testmodel::{Asked, Protocol, TestModel, Turn};
use serde_json::{Value, json};

use crate::data_folder::until_served;
use crate::served::Served;

const PROGRAM: &str = env!("CARGO_BIN_EXE_capataz");

const AGENTS: &str = r#"
[[agents]]
name = "large"
output = "text"
command = ["/bin/sh", "-c", "cat > /dev/null; head -c 46080 /dev/zero | tr '\\000' a"]

[[agents]]
name = "medium"
command = ["/bin/sh", "-c", "cat > /dev/null; printf '\"'; head -c 20000 /dev/zero | tr '\\000' b; printf '\"'"]

[[agents]]
name = "count"
command = ["wc", "-c"]
"#;

const PLAN: &str = r#"
name = "large outputs"
[[waves]]
tasks = [{ name = "a", agent = "large" }, { name = "b", agent = "medium" }]
[[waves]]
tasks = [
  { name = "of-a-blob", agent = "count", input = { text = "${tasks.a.output}" } },
  { name = "of-two", agent = "count", input = ["${tasks.b.output}", "${tasks.b.output}"] },
  { name = "of-one", agent = "count", input = ["${tasks.b.output}"] },
]
"#;

#[test]
fn a_command_is_given_all_of_the_large_outputs_that_its_input_refers_to() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path(), AGENTS);
    let plan = folder.path().join("plan.toml");
    std::fs::write(&plan, PLAN).unwrap();
    let ran = Command::new(PROGRAM)
        .args(["run", plan.to_str().unwrap(), "--json", "--addr", served.address()])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{told}{}", String::from_utf8_lossy(&ran.stderr));
    let shown = Command::new(PROGRAM)
        .args(["runs", "show", "latest", "--outputs", "--json", "--addr", served.address()])
        .output()
        .unwrap();
    let run: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let output = |task: usize| run["waves"][1]["tasks"][task]["output"].clone();
    // `{"text":"…"}` has 11 bytes beside the text, `["…","…"]` 7 beside two, and `["…"]` 4 beside one.
    let expected = [46_080 + 11, 2 * 20_000 + 7, 20_000 + 4];
    for (task, bytes) in expected.into_iter().enumerate() {
        assert!(output(task).to_string().contains(&bytes.to_string()), "{task}: {}", output(task));
    }
}

const FOR_OTHERS: &str = r#"
name = "large outputs for others"
[[waves]]
tasks = [{ name = "a", agent = "large" }]
[[waves]]
tasks = [
  { name = "whole-for-a-model", agent = "model", input = "${tasks.a.output}" },
  { name = "part-for-a-model", agent = "model", input = { text = "${tasks.a.output}" } },
  { name = "whole-for-a-worker", agent = "worker", input = "${tasks.a.output}" },
  { name = "part-for-a-worker", agent = "worker", input = { text = "${tasks.a.output}" } },
]
"#;

#[tokio::test]
async fn a_model_and_a_worker_are_given_all_of_a_large_output_alone_and_inside_an_object() {
    let folder = tempfile::tempdir().unwrap();
    let server = TestModel::answering(|_| Turn::say("read")).await;
    let model = format!(
        "[[models]]\nname = \"model\"\nprotocol = \"openai\"\nbase_url = {:?}\nmodel = \"m\"\n",
        server.base_url(Protocol::OpenAi),
    );
    let served = Served::start(folder.path(), &format!("{AGENTS}{model}"));
    let client = served.client().await;
    let counts = |task: Task| async move { TaskOutput::json(task.input_bytes().len()) };
    let worker = Worker::new(served.url()).id("w1").slots(2).agent("worker", counts);
    let worker = tokio::spawn(worker.run_until(std::future::pending::<()>()));
    until_served(&client, &["worker"]).await;
    let plan = plan_file::parse(FOR_OTHERS, Format::Toml).unwrap();
    let ran = client.execute_run(v1::StartRunRequest::of_plan(plan), None).await.unwrap();
    worker.abort();
    let result = ran.result.unwrap();
    assert_eq!(result.outcome(), v1::RunOutcome::Succeeded, "{result:?}");

    let letters = "a".repeat(46_080);
    let mut asked: Vec<String> = server.asked().iter().map(Asked::text).collect();
    asked.sort();
    // A text is asked as it is; `a` comes before `{`.
    let expected = [letters.clone(), json!({ "text": letters }).to_string()];
    let sizes: Vec<usize> = asked.iter().map(String::len).collect();
    assert!(asked == expected, "{sizes:?}");
    let said = |name: &str| {
        let task = result.tasks.iter().find(|task| task.name == name).unwrap();
        task.output.clone().unwrap().data.unwrap()
    };
    let number = |text: &'static str| v1::payload::Data::Inline(text.into());
    assert_eq!(said("whole-for-a-worker"), number("46080"));
    // `{"text":"…"}` has 11 bytes beside the text.
    assert_eq!(said("part-for-a-worker"), number("46091"));
}
