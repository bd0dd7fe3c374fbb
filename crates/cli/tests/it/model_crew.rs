//! The crew of examples/models/crew, as it is shipped: two models that the daemon asks, and one behind a command in Python.

use std::fs;
use std::path::Path;

use crate::served::Served;
use capataz_contracts::plan_file::{self, Format};
use capataz_contracts::v1;
use capataz_testmodel::{Asked, Protocol, TestModel, Turn};

const CREW: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/models/crew");

/// The crew in a folder of its own, with its models at this server.
fn crew(folder: &Path, server: &TestModel) -> Served {
    let read = |name: &str| fs::read_to_string(Path::new(CREW).join(name)).unwrap();
    fs::copy(Path::new(CREW).join("ask.py"), folder.join("ask.py")).unwrap();
    let config = read("capataz.toml");
    let shipped = "http://127.0.0.1:11434/v1";
    assert_eq!(config.matches(shipped).count(), 3, "each of the three is somewhere else in the test");
    let config = config.replace(shipped, &server.base_url(Protocol::OpenAi));
    // The program is found beside the configuration, wherever the daemon is started.
    Served::start(folder, &config)
}

fn plan() -> v1::Plan {
    let text = fs::read_to_string(Path::new(CREW).join("plan.toml")).unwrap();
    plan_file::parse(&text, Format::Toml).unwrap()
}

fn is_of_the_command(asked: &Asked) -> bool {
    asked.text().starts_with("Review in a sentence")
}

fn output(result: &v1::RunResult, task: &str) -> String {
    let task = result.tasks.iter().find(|of| of.name == task).unwrap();
    match task.output.clone().unwrap().data {
        Some(v1::payload::Data::Inline(bytes)) => String::from_utf8(bytes.to_vec()).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn three_models_review_at_once_and_each_answer_is_an_output() {
    let folder = tempfile::tempdir().unwrap();
    let server = TestModel::answering(|asked| {
        // The command asks for an answer in one piece.
        match is_of_the_command(asked) {
            true => Turn::at_once("said by an outsider"),
            false => Turn::say("said by one of the crew"),
        }
    })
    .await;
    let daemon = crew(folder.path(), &server);
    let done = daemon.client().await.execute_run(v1::StartRunRequest::of_plan(plan()), None).await.unwrap();
    let result = done.result.unwrap();
    assert_eq!(result.outcome(), v1::RunOutcome::Succeeded, "{result:?}");
    let outputs = ["fault", "merit", "outside"].map(|task| output(&result, task));
    assert_eq!(outputs, ["said by one of the crew", "said by one of the crew", "\"said by an outsider\""]);
}

#[tokio::test]
async fn two_of_three_are_enough() {
    let folder = tempfile::tempdir().unwrap();
    let server = TestModel::answering(|asked| match is_of_the_command(asked) {
        true => Turn::status(400, "invalid_request_error", "not today"),
        false => Turn::say("fine"),
    })
    .await;
    let daemon = crew(folder.path(), &server);
    let done = daemon.client().await.execute_run(v1::StartRunRequest::of_plan(plan()), None).await.unwrap();
    let result = done.result.unwrap();
    assert_eq!(result.outcome(), v1::RunOutcome::SucceededWithFailures, "{result:?}");
    let failed = result.tasks.iter().find(|task| task.name == "outside").unwrap();
    // What the command has said last is what its people see of it.
    let cause = failed.error.clone().unwrap().cause.unwrap();
    assert_eq!(cause.message, "exit code 1: urllib.error.HTTPError: HTTP Error 400: Status");
    assert_eq!(["fault", "merit"].map(|task| output(&result, task)), ["fine"; 2]);
}
