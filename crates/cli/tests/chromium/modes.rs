//! The example of examples/modes with a real Chromium: a form is filled in, and what the page says is noted, in each mode.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::served::Served;
use capataz_contracts::v1::{self, ExecutionMode};

#[tokio::test(flavor = "multi_thread")]
async fn the_example_registers_by_a_page_and_notes_what_it_says_once_a_person_has_said_so() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/modes");
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().display().to_string();
    let config = fs::read_to_string(own.join("capataz.toml")).unwrap().replace("/tmp/capataz-scratch", &here);
    fs::copy(own.join("rules.toml"), folder.path().join("rules.toml")).unwrap();
    let daemon = Served::start(folder.path(), &config);
    let site = daemon.address();
    let client = daemon.client().await;
    for (number, mode) in
        (1..).zip([ExecutionMode::Simple, ExecutionMode::Planner, ExecutionMode::Supervised])
    {
        let name = format!("{mode:?}").to_lowercase();
        let mut program = Command::new(env!("CARGO_BIN_EXE_capataz"));
        program.args(["mode", "run", &format!("register Ada at {site}"), "--allow", site, "--mode", &name]);
        program.args(["--detach", "--json", "--addr", &daemon.url()]);
        let output = program.output().unwrap();
        let started: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it has started");
        let run_id = started["run_id"].as_str().unwrap().to_owned();
        // It asks once: about the plan, or about what is written.
        let result = loop {
            if let Some(result) = client.wait_run(&run_id, Some(Duration::from_millis(100))).await.unwrap() {
                break result;
            }
            let request = v1::GetRunRequest { run_id: run_id.clone(), ..v1::GetRunRequest::default() };
            let run = client.get_run(request).await.unwrap().run.unwrap();
            for question in run.questions.into_iter().filter(|question| question.answer.is_none()) {
                let request = v1::ResolveRequest {
                    run_id: run_id.clone(),
                    request_id: question.question_id.clone(),
                    question_id: question.question_id,
                    answer: "approve".to_owned(),
                    ..v1::ResolveRequest::default()
                };
                client.resolve(request).await.unwrap();
            }
        };
        assert_eq!(result.outcome(), v1::RunOutcome::Succeeded, "{mode:?}: {:?}", result.error);
        let notes = fs::read_to_string(folder.path().join("notes.jsonl")).unwrap();
        assert_eq!(notes.lines().count(), number);
        assert!(notes.lines().all(|line| line == "{\"note\":\"Ada: R-06632\"}"), "{notes}");
    }
}
