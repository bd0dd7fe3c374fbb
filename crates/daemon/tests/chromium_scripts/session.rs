//! A session to which actions are proposed one by one, as its caller has it.

use std::cell::Cell;

use capataz_contracts::script_file::{self, Format};
use capataz_contracts::v1;
use capataz_contracts::v1::propose_response::Outcome;
use tonic::Status;

use crate::bench::Bench;

/// An open session with the site on its allowlist.
pub struct Session<'b> {
    bench: &'b Bench,
    pub run_id: String,
    proposals: Cell<u32>,
}

impl<'b> Session<'b> {
    /// `toml` is the rest of a script: its policy and its browser.
    pub async fn open(bench: &'b Bench, toml: &str) -> Self {
        let script = bench.script(&format!("name = \"session\"\n{toml}"));
        let request = v1::OpenBrowserRequest {
            name: script.name,
            policy: script.policy,
            browser: script.browser,
            idle_timeout_ms: script.idle_timeout_ms,
            ..Default::default()
        };
        let opened = bench.executor.clone().open_browser(request).await.unwrap().into_inner();
        assert!(opened.browser.contains("Chrom"), "{}", opened.browser);
        Self { bench, run_id: opened.run_id, proposals: Cell::new(0) }
    }

    /// An action in TOML, without its id.
    #[track_caller]
    pub fn action(&self, toml: &str) -> v1::Action {
        let toml =
            toml.replace("{site}", &self.bench.site.host()).replace("{other}", &self.bench.site.other_host());
        let script = script_file::parse(&format!("[[actions]]\nid = \"a\"\n{toml}"), Format::Toml);
        script.expect("the action can be read").actions.remove(0)
    }

    pub async fn propose_as(&self, request_id: &str, toml: &str) -> Result<v1::ProposeResponse, Status> {
        let request = v1::ProposeRequest {
            run_id: self.run_id.clone(),
            action: Some(self.action(toml)),
            request_id: request_id.to_owned(),
            if_seq: None,
        };
        Ok(self.bench.executor.clone().propose(request).await?.into_inner())
    }

    pub async fn propose(&self, toml: &str) -> Result<v1::ProposeResponse, Status> {
        self.proposals.set(self.proposals.get() + 1);
        self.propose_as(&format!("proposal-{}", self.proposals.get()), toml).await
    }

    pub async fn succeeds(&self, toml: &str) -> v1::ActionSuccess {
        match self.propose(toml).await.unwrap().outcome {
            Some(Outcome::Success(success)) => success,
            other => panic!("{toml}: {other:?}"),
        }
    }

    pub async fn fails(&self, toml: &str) -> v1::ExecutorError {
        match self.propose(toml).await.unwrap().outcome {
            Some(Outcome::Error(error)) => error,
            other => panic!("{toml}: {other:?}"),
        }
    }

    pub async fn observe(&self) -> v1::ObserveResponse {
        let request = v1::ObserveRequest { run_id: self.run_id.clone(), max_characters: None };
        self.bench.executor.clone().observe(request).await.unwrap().into_inner()
    }

    /// Closes the browser; the session ends well.
    pub async fn close(&self) {
        let request = v1::CloseBrowserRequest { run_id: self.run_id.clone(), request_id: "close".to_owned() };
        self.bench.executor.clone().close_browser(request).await.unwrap();
        let request = v1::WaitRunRequest { run_id: self.run_id.clone(), timeout_ms: Some(120_000) };
        let ended = self.bench.runs.clone().wait_run(request).await.unwrap().into_inner();
        let result = ended.result.expect("the session ends in time");
        assert_ne!(result.outcome(), v1::RunOutcome::Failed, "{result:?}");
    }
}
