//! ExecutorService: scripts are checked, browser sessions opened, looked at, told what to do next, and closed.
//!
//! A session is a run of kind script to which actions are proposed; what is said here about outcomes is read from the
//! run's own events.

use std::sync::Arc;

use capataz_contracts::v1::event::Body;
use capataz_contracts::v1::executor_service_server::ExecutorService;
use capataz_contracts::v1::{self, propose_response::Outcome};
use capataz_contracts::validate;
use capataz_engine::Input;
use capataz_executor::dsl;
use capataz_hosts::browsers::{Available, Browsers, Handle, StateError};
use capataz_policy::codes;
use capataz_runtime::Runtime;
use tonic::{Code, Request, Response, Status};

use super::follow::follow;
use super::runs::{Runs, answer, parse_run};
use super::starts;
use crate::status;

/// Characters of an outline.
const OUTLINE: u32 = 20_000;
const OUTLINE_MAX: u32 = 200_000;

pub(super) struct Executor {
    runtime: Runtime,
    runs: Arc<Runs>,
    browsers: Arc<Browsers>,
}

impl Executor {
    pub(super) fn new(runtime: Runtime, runs: Arc<Runs>, browsers: Arc<Browsers>) -> Self {
        Self { runtime, runs, browsers }
    }

    /// The open browser of a run.
    async fn browser(&self, run_id: &str) -> Result<Handle, Status> {
        let run = parse_run(run_id)?;
        if let Some(open) = self.browsers.handle(run_id) {
            return Ok(open);
        }
        let row = self.runs.whole(run).await?;
        if row.summary.finished_at.is_some() {
            return Err(status::status(
                Code::FailedPrecondition,
                codes::RUN_FINISHED,
                format!("run {run} has finished"),
            ));
        }
        Err(lost(run_id))
    }
}

fn lost(run_id: &str) -> Status {
    status::status(Code::FailedPrecondition, codes::BROWSER_LOST, format!("run {run_id} has no browser"))
}

/// What became of an action: the first event that says so for good.
fn outcome_of(event: v1::Event, step: u32) -> Option<v1::ProposeResponse> {
    let seq = event.seq;
    let outcome = match event.body? {
        Body::ActionFinished(done)
            if done.step_index == step && done.activity == v1::BrowserActivity::Action as i32 =>
        {
            Outcome::Success(v1::ActionSuccess {
                state_before: done.state_before,
                state_after: done.state_after,
                evidence: done.evidence,
                resolution: done.resolution,
                changes: done.changes,
                output: done.output,
            })
        }
        Body::ActionFailed(failed) if is_final(&failed, step) => Outcome::Error(failed.error?),
        _ => return None,
    };
    Some(v1::ProposeResponse { step_index: step, seq, outcome: Some(outcome) })
}

fn is_final(failed: &v1::ActionFailed, step: u32) -> bool {
    let ends = matches!(failed.next(), v1::AfterFailure::Continue | v1::AfterFailure::Halt);
    let of_step = failed.error.as_ref().is_some_and(|error| error.step_index == Some(step));
    ends && of_step && failed.activity == v1::BrowserActivity::Action as i32
}

#[tonic::async_trait]
impl ExecutorService for Executor {
    async fn check_script(
        &self,
        request: Request<v1::CheckScriptRequest>,
    ) -> Result<Response<v1::CheckScriptResponse>, Status> {
        let script = request.into_inner().script.unwrap_or_default();
        Ok(Response::new(v1::CheckScriptResponse { violations: dsl::check_script(&script) }))
    }

    async fn open_browser(
        &self,
        request: Request<v1::OpenBrowserRequest>,
    ) -> Result<Response<v1::OpenBrowserResponse>, Status> {
        let caller = starts::caller_of(&request);
        let request = request.into_inner();
        let name = if request.name.is_empty() { "session".to_owned() } else { request.name };
        let script = v1::Script {
            name,
            policy: request.policy,
            browser: request.browser,
            idle_timeout_ms: request.idle_timeout_ms,
            variables: request.variables,
            interactive: true,
            ..v1::Script::default()
        };
        let start = v1::StartRunRequest {
            labels: request.labels,
            idempotency_key: request.idempotency_key,
            ..v1::StartRunRequest::of_script(script)
        };
        let (run, _) = self.runs.start(start, caller).await?;
        let opened = follow(&self.runtime, run, 0, |event| match event.body? {
            Body::BrowserOpened(opened) => Some(Ok(opened.browser)),
            Body::ActionFailed(failed) => Some(Err(failed.error.unwrap_or_default())),
            _ => None,
        });
        match opened.await? {
            Some(Ok(browser)) => {
                Ok(Response::new(v1::OpenBrowserResponse { run_id: run.to_string(), browser }))
            }
            Some(Err(error)) => {
                let cause = error.cause.unwrap_or(error.message);
                let message = format!("the browser of run {run} did not open: {cause}");
                Err(status::told(Code::FailedPrecondition, &error.error_code, message))
            }
            None => Err(status::status(
                Code::FailedPrecondition,
                codes::RUN_FINISHED,
                format!("run {run} has ended"),
            )),
        }
    }

    async fn observe(
        &self,
        request: Request<v1::ObserveRequest>,
    ) -> Result<Response<v1::ObserveResponse>, Status> {
        let request = request.into_inner();
        let characters = request.max_characters.unwrap_or(OUTLINE);
        if !(1..=OUTLINE_MAX).contains(&characters) {
            let message = format!("from 1 to {OUTLINE_MAX}");
            return Err(status::invalid_field("max_characters", "limit", message));
        }
        let open = self.browser(&request.run_id).await?;
        let observed = open.observe(characters as usize).await.ok_or_else(|| lost(&request.run_id))?;
        let observed = observed.map_err(|problem| {
            let message = format!("the page of run {} cannot be read: {problem}", request.run_id);
            status::status(Code::FailedPrecondition, codes::BROWSER_LOST, message)
        })?;
        Ok(Response::new(observed))
    }

    async fn propose(
        &self,
        request: Request<v1::ProposeRequest>,
    ) -> Result<Response<v1::ProposeResponse>, Status> {
        let request = request.into_inner();
        let violations = validate::propose(&request);
        if !violations.is_empty() {
            return Err(status::invalid(&violations));
        }
        let run = parse_run(&request.run_id)?;
        let mut action = request.action.unwrap_or_default();
        let policy = match self.browsers.handle(&request.run_id) {
            Some(open) => Some(open.about.policy.clone()),
            // A proposal that is repeated when its browser is gone is the action that it was.
            None => self.runs.state_at(&request.run_id, None).await?.script_policy().cloned(),
        };
        dsl::materialise_action(&mut action, &policy.unwrap_or_default());
        let input = Input::Propose { action: Box::new(action), request_id: request.request_id.clone() };
        let (seq, ..) =
            self.runs.command(&request.run_id, &request.request_id, request.if_seq, input).await?;
        // The proposal's own event says which step it became.
        let mut step = None;
        let outcome = follow(&self.runtime, run, seq.saturating_sub(1), |event| {
            if let (true, Some(Body::ActionProposed(proposed))) = (event.seq == seq, &event.body) {
                step = Some(proposed.step_index);
            }
            outcome_of(event, step?)
        });
        match outcome.await? {
            Some(outcome) => Ok(Response::new(outcome)),
            None => {
                let message = format!("run {run} ended before anything became of the action");
                Err(status::status(Code::FailedPrecondition, codes::RUN_FINISHED, message))
            }
        }
    }

    async fn close_browser(
        &self,
        request: Request<v1::CloseBrowserRequest>,
    ) -> Result<Response<v1::CloseBrowserResponse>, Status> {
        let v1::CloseBrowserRequest { run_id, request_id } = request.into_inner();
        let input = Input::CloseBrowser { request_id: request_id.clone() };
        let (seq, ..) = self.runs.command(&run_id, &request_id, None, input).await?;
        Ok(Response::new(v1::CloseBrowserResponse { seq }))
    }

    async fn list_browsers(
        &self,
        _: Request<v1::ListBrowsersRequest>,
    ) -> Result<Response<v1::ListBrowsersResponse>, Status> {
        let mut browsers = Vec::new();
        for (run_id, open) in self.browsers.all() {
            let (url, title) = open.location().await.unwrap_or_default();
            let about = open.about;
            browsers.push(v1::OpenBrowserInfo {
                run_id,
                name: about.name.clone(),
                interactive: about.interactive,
                url,
                title,
                opened_at_ms: about.opened_at_ms,
                process_id: about.process_id,
            });
        }
        Ok(Response::new(v1::ListBrowsersResponse { browsers, limit: self.browsers.limit() }))
    }

    async fn describe_browser(
        &self,
        _: Request<v1::DescribeBrowserRequest>,
    ) -> Result<Response<v1::DescribeBrowserResponse>, Status> {
        Ok(Response::new(match self.browsers.find().await {
            Ok(Available::Program(found)) => v1::DescribeBrowserResponse {
                found: true,
                program: found.program.display().to_string(),
                version: found.version,
                ..v1::DescribeBrowserResponse::default()
            },
            Ok(Available::Running(running)) => v1::DescribeBrowserResponse {
                found: true,
                program: running.endpoint.to_string(),
                version: running.version,
                attached: true,
                ..v1::DescribeBrowserResponse::default()
            },
            Err(problem) => v1::DescribeBrowserResponse {
                problem: problem.to_string(),
                ..v1::DescribeBrowserResponse::default()
            },
        }))
    }

    async fn list_storage_states(
        &self,
        _: Request<v1::ListStorageStatesRequest>,
    ) -> Result<Response<v1::ListStorageStatesResponse>, Status> {
        let states = self.browsers.states();
        let list = move || states.list().map_err(|error| unreadable(&error));
        let states = answer(&self.runtime, list).await?;
        Ok(Response::new(v1::ListStorageStatesResponse { states }))
    }

    async fn delete_storage_state(
        &self,
        request: Request<v1::DeleteStorageStateRequest>,
    ) -> Result<Response<v1::DeleteStorageStateResponse>, Status> {
        let name = request.into_inner().name;
        let violations = validate::storage_state(&name);
        if !violations.is_empty() {
            return Err(status::invalid(&violations));
        }
        let states = self.browsers.states();
        let of_state = name.clone();
        let delete = move || states.delete(&of_state).map_err(|error| unreadable(&error));
        let deleted = answer(&self.runtime, delete).await?;
        if deleted {
            Ok(Response::new(v1::DeleteStorageStateResponse { deleted }))
        } else {
            let message = StateError::NotFound(name).to_string();
            Err(status::status(Code::NotFound, codes::STORAGE_STATE_NOT_FOUND, message))
        }
    }
}

fn unreadable(error: &std::io::Error) -> Status {
    tracing::error!(%error, "storage states cannot be read");
    status::unavailable()
}

/// A script as it is started: checked by every rule, with every default filled in.
pub(super) fn prepare_script(script: &mut v1::Script) -> Result<(), Status> {
    let violations = dsl::check_script(script);
    if !violations.is_empty() {
        return Err(status::invalid_script(&violations));
    }
    dsl::materialise(script);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_says_of_an_action_is_the_outcome_of_its_proposal() {
        let told = |activity: v1::BrowserActivity, step_index| {
            // Nobody has seen the page.
            let done = v1::ActionFinished { step_index, activity: activity.into(), ..Default::default() };
            v1::Event { seq: 9, body: Some(Body::ActionFinished(Box::new(done))), ..Default::default() }
        };
        let outcome = outcome_of(told(v1::BrowserActivity::Action, 1), 1);
        let success = Outcome::Success(v1::ActionSuccess::default());
        assert_eq!(outcome, Some(v1::ProposeResponse { step_index: 1, seq: 9, outcome: Some(success) }));
        assert_eq!(outcome_of(told(v1::BrowserActivity::Action, 0), 1), None);
        assert_eq!(outcome_of(told(v1::BrowserActivity::Recovery, 1), 1), None);
    }
}
