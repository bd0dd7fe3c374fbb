//! The browser of an execution: opened by the first call of a tool `browser.*`, and the run's own until its end. Each call is
//! one action, or one look at the page (CONTRACTS §3, §5).

use capataz_contracts::browser::{BROWSER_AGENT, BROWSER_MEDIA_TYPE, OBSERVE_TOOL, TOOL_PREFIX};
use capataz_contracts::v1::{self, ActionKind, AfterFailure, BrowserActivity, event::Body, payload::Data};
use capataz_contracts::{Violation, json, validate};
use capataz_policy::codes;
use capataz_policy::executor::{IDLE_TIMEOUT, code::BROWSER_LOST};
use capataz_policy::mode::browser::{self, OUTLINE, kind_of};
use capataz_policy::severity::Severity;
use prost::Message;
use serde_json::{Value, json as of};

use super::json_text;
use super::state::{Call, ModeState, Stage};
use crate::fold::state::{Moment, RunState};
use crate::input::TaskRef;
use crate::machine::host_error::{self, Asked};
use crate::machine::own_browser::{OwnBrowser, how_lost};
use crate::machine::script::outcome::{evidence_blobs, settled_error};
use crate::machine::{Meaning, Verdict};
use crate::planted::{self, Fault};

/// The output of an action that gives something, where the planner does not name it.
const OUTPUT: &str = "value";
/// The id in an error of a look at the page, which is no action.
const OBSERVATION: &str = "browser:observe";
/// Bytes of an error's details that the planner is told.
const DETAILS_MAX: usize = 2_000;

/// Returns whether a call of this tool is done in the run's browser.
pub(super) fn is_of_browser(tool: &str) -> bool {
    browser::is_tool(tool)
}

/// The action of a call, under its number.
///
/// # Errors
/// All that is wrong with its shape. What an action of its kind needs, and whether it is allowed, the executor says.
pub(super) fn action(tool: &str, parameters: &Value, number: u32) -> Result<v1::Action, Vec<Violation>> {
    let (Some(kind), Some(name)) = (kind_of(tool), tool.strip_prefix(TOOL_PREFIX)) else {
        return Err(vec![Violation::new("", "tool", format!("there is no action {tool:?}"))]);
    };
    let Some(mut fields) = parameters.as_object().cloned() else {
        return Err(vec![Violation::new("", "type", "the parameters are an object".to_owned())]);
    };
    fields.insert("id".to_owned(), format!("act-{number}").into());
    fields.insert("kind".to_owned(), name.into());
    if kind == ActionKind::Extract {
        fields.entry("extract").or_insert_with(|| "text".into());
    }
    if matches!(kind, ActionKind::Extract | ActionKind::Download) {
        fields.entry("output").or_insert_with(|| OUTPUT.into());
    }
    let action: v1::Action = json::parse("capataz.v1.Action", &Value::Object(fields))?;
    let violations = validate::action(&action);
    if violations.is_empty() { Ok(action) } else { Err(violations) }
}

impl ModeState {
    /// What the browser's host is given for the call.
    pub(super) fn browser_task(&self, call: &Call) -> Option<v1::Payload> {
        let parameters: Value = serde_json::from_str(&call.call.parameters).ok()?;
        let number = self.execution.step;
        let observes = call.call.tool == OBSERVE_TOOL;
        let characters = || {
            parameters.get("max_characters").and_then(Value::as_u64).and_then(|most| u32::try_from(most).ok())
        };
        let opens = !matches!(self.browser, OwnBrowser::Open { .. });
        let restore = matches!(self.browser, OwnBrowser::Kept { .. });
        let task = v1::BrowserTask {
            activity: if observes { BrowserActivity::Observe } else { BrowserActivity::Action }.into(),
            step_index: Some(number),
            action: match observes {
                true => None,
                false => Some(action(&call.call.tool, &parameters, number).ok()?),
            },
            name: self.run.title().to_owned(),
            policy: self.run.browser_policy.clone().filter(|_| opens),
            browser: self.run.browser.clone().filter(|_| opens),
            interactive: true,
            open: opens,
            restore,
            show_page: restore && self.shows_again,
            max_characters: observes.then(|| characters().unwrap_or(OUTLINE)),
            ..v1::BrowserTask::default()
        };
        Some(v1::Payload {
            media_type: BROWSER_MEDIA_TYPE.to_owned(),
            data: Some(Data::Inline(task.encode_to_vec().into())),
        })
    }

    /// The call that is at work in this wave, where it is one of the browser's.
    fn in_browser(&self, task: TaskRef) -> Option<&Call> {
        match &self.stage {
            Stage::Called { wave, call } if *wave == task.wave && is_of_browser(&call.call.tool) => {
                Some(call)
            }
            _ => None,
        }
    }

    /// The meaning of what the browser's host says of a call; `None` where the task is none of the browser's.
    pub(super) fn browser_said(
        &self,
        run: &RunState,
        task: TaskRef,
        output: &v1::Payload,
        now: Moment,
    ) -> Option<Verdict> {
        let call = self.in_browser(task)?;
        let outcome = match &output.data {
            Some(Data::Inline(bytes)) => v1::BrowserOutcome::decode(bytes.clone()).ok(),
            Some(Data::Blob(_)) | None => None,
        };
        let Some(outcome) = outcome else {
            return Some(invalid(Vec::new(), "the browser's host gave no outcome"));
        };
        let worker = run.lease_of(task).map(|(_, worker)| worker.to_owned()).unwrap_or_default();
        Some(self.means(run, call, &worker, outcome, now))
    }

    fn means(
        &self,
        run: &RunState,
        call: &Call,
        worker: &str,
        mut outcome: v1::BrowserOutcome,
        now: Moment,
    ) -> Verdict {
        let step_index = self.execution.step;
        let action_id = format!("act-{step_index}");
        let mut record = Vec::new();
        if !outcome.browser.is_empty() {
            record.push(Body::BrowserOpened(v1::BrowserOpened {
                browser: std::mem::take(&mut outcome.browser),
                worker: worker.to_owned(),
                restored: matches!(self.browser, OwnBrowser::Kept { .. }),
                keep_after_ms: outcome
                    .keeps
                    .then(|| i64::try_from(IDLE_TIMEOUT.as_millis()).unwrap_or(i64::MAX)),
                attached: outcome.attached,
                ..v1::BrowserOpened::default()
            }));
        }
        record.extend(std::mem::take(&mut outcome.stages).into_iter().map(|stage| {
            Body::StageFinished(v1::StageFinished {
                step_index,
                action_id: action_id.clone(),
                record: Some(stage),
            })
        }));
        if let Some(mut error) = outcome.error.take() {
            if call.call.tool == OBSERVE_TOOL {
                host_error::name_no_action(&mut error, OBSERVATION.to_owned());
            }
            let parameters = serde_json::from_str(&call.call.parameters).unwrap_or_default();
            let action = action(&call.call.tool, &parameters, step_index).ok();
            let asked = Asked {
                run_id: &self.run.run_id,
                step: step_index,
                action: action.as_ref(),
                last_state: None,
                now,
            };
            return self.fails(run, record, worker, error, &asked, outcome);
        }
        let told = match told(call, &outcome) {
            Ok(told) => told,
            Err(message) => return invalid(record, &message),
        };
        if call.call.tool != OBSERVE_TOOL {
            record.push(Body::ActionFinished(Box::new(v1::ActionFinished {
                step_index,
                action_id,
                activity: BrowserActivity::Action.into(),
                state_before: outcome.state_before,
                state_after: outcome.state_after,
                evidence: outcome.evidence,
                resolution: outcome.resolution,
                changes: outcome.changes,
                // The result of the call has it.
                output: None,
                ..v1::ActionFinished::default()
            })));
        }
        Verdict { record, meaning: Meaning::Done(Some(json_text(told))) }
    }

    fn fails(
        &self,
        run: &RunState,
        mut record: Vec<Body>,
        worker: &str,
        mut error: v1::ExecutorError,
        asked: &Asked<'_>,
        outcome: v1::BrowserOutcome,
    ) -> Verdict {
        let has_it =
            matches!(record.first(), Some(Body::BrowserOpened(_))) || self.browser.binding().is_some();
        if error.error_code == BROWSER_LOST && has_it {
            record.push(lost(worker));
        }
        error.retryable = Some(false);
        // A failure is recorded under the number of its own event.
        error.seq = run.seq().saturating_add(record.len() as u64).saturating_add(1);
        let error = host_error::recorded(error, asked);
        let message = for_planner(&error);
        record.push(Body::ActionFailed(Box::new(v1::ActionFailed {
            error: Some(error),
            // The planner is told, and decides.
            next: AfterFailure::Continue.into(),
            activity: BrowserActivity::Action.into(),
            resolution: outcome.resolution,
            changes: outcome.changes,
            ..v1::ActionFailed::default()
        })));
        Verdict { record, meaning: Meaning::Failed(message) }
    }

    /// The meaning of a failure that the browser's host has no evidence of; `None` where the task is none of the browser's.
    pub(super) fn browser_failed(&self, task: TaskRef, error: &v1::Error) -> Option<Verdict> {
        self.in_browser(task)?;
        let bound = self.browser.binding().filter(|_| error.code == BROWSER_LOST);
        let record = bound.map(|bound| lost(bound.worker)).into_iter().collect();
        Some(Verdict { record, meaning: Meaning::Failed(error.clone()) })
    }

    /// The error of a call that waits for a browser that is not there any more. The planner is told, and the next call opens
    /// one.
    pub(super) fn no_browser(&self, run: &RunState, task: TaskRef) -> Option<v1::Error> {
        let message = match &self.browser {
            OwnBrowser::None | OwnBrowser::Open { .. } => return None,
            OwnBrowser::Kept { .. } => {
                "the browser was closed before it had begun, while the run waited".to_owned()
            }
            OwnBrowser::Lost { worker, reason } => how_lost(worker, *reason),
        };
        let declared = run.plan.task(task).filter(|declared| declared.agent == BROWSER_AGENT)?;
        let given = match declared.input.as_ref()?.data.as_ref()? {
            Data::Inline(bytes) => v1::BrowserTask::decode(bytes.clone()).ok()?,
            Data::Blob(_) => return None,
        };
        // One that opens its browser itself needs none.
        if given.open || planted::is(Fault::CallWaitsForALostBrowser) {
            return None;
        }
        Some(v1::Error {
            code: BROWSER_LOST.to_owned(),
            message,
            severity: Severity::High.to_proto().into(),
            can_continue: Some(true),
            ..v1::Error::default()
        })
    }
}

/// The failure as the error of a call. Its details say what to do about it: which rule is broken, which elements there are.
fn for_planner(error: &v1::ExecutorError) -> v1::Error {
    let mut told = settled_error(error);
    if let Some(details) = error.details.as_deref().filter(|details| !details.is_empty()) {
        told.message.push_str(": ");
        told.message.push_str(details.get(..details.floor_char_boundary(DETAILS_MAX)).unwrap_or(details));
    }
    told
}

/// Whoever had the browser, or what was kept of it, says that it is gone.
fn lost(worker: &str) -> Body {
    let reason = v1::BrowserLossReason::Ended.into();
    Body::BrowserLost(v1::BrowserLost { worker: worker.to_owned(), reason })
}

fn invalid(record: Vec<Body>, message: &str) -> Verdict {
    let error = codes::error(codes::INVALID_OUTPUT, message.to_owned());
    Verdict { record, meaning: Meaning::Failed(error) }
}

/// What the planner is told of an action that succeeded, as JSON: where the page is now, what the action gave, whether something
/// in that was masked, and what the page did meanwhile.
///
/// # Errors
/// It is too large for a prompt.
fn told(call: &Call, outcome: &v1::BrowserOutcome) -> Result<String, String> {
    let mut told = of!({});
    let mut set = |key: &str, value: Value| {
        if let Some(told) = told.as_object_mut() {
            told.insert(key.to_owned(), value);
        }
    };
    let state = outcome.state_after.as_ref().or(outcome.state_before.as_ref());
    if let Some(state) = state {
        set("url", state.url.as_str().into());
        set("title", state.title.as_str().into());
    }
    if let Some(output) = &outcome.output {
        let value = serde_json::from_str(&output.value).unwrap_or_else(|_| output.value.as_str().into());
        match (call.call.tool == OBSERVE_TOOL, value) {
            (true, Value::Object(seen)) => seen.into_iter().for_each(|(key, value)| set(&key, value)),
            (true, outline) => set("outline", outline),
            (false, output) => set("output", output),
        }
        // A mask is not to be taken for what the page has.
        if output.redacted {
            set("redacted", true.into());
        }
    }
    if let Some(changes) = &outcome.changes {
        let dialogs = changes.dialogs.iter();
        let dialogs: Vec<Value> = dialogs
            .map(
                |dialog| of!({ "kind": dialog.kind, "message": dialog.message, "accepted": dialog.accepted }),
            )
            .collect();
        for (key, list) in [("dialogs", Value::Array(dialogs)), ("newTabs", of!(changes.new_tabs))] {
            if list.as_array().is_some_and(|list| !list.is_empty()) {
                set(key, list);
            }
        }
        if let Some(status) = changes.status {
            set("status", status.into());
        }
    }
    let mut text = told.to_string();
    // An outline is cut, as it is where it has too many characters.
    while text.len() > validate::INLINE_MAX
        && let Some(Value::String(outline)) = told.get_mut("outline")
        && !outline.is_empty()
    {
        outline.truncate(outline.floor_char_boundary(outline.len() / 4 * 3));
        if let Some(told) = told.as_object_mut() {
            told.insert("truncated".to_owned(), true.into());
        }
        text = told.to_string();
    }
    match text.len() > validate::INLINE_MAX {
        true => {
            Err(format!("the page gave {} bytes; at most {} are taken", text.len(), validate::INLINE_MAX))
        }
        false => Ok(text),
    }
}

/// The blobs that an answer of the browser's host names.
pub(super) fn blobs_of(output: &v1::Payload) -> Vec<v1::BlobRef> {
    if output.media_type == BROWSER_MEDIA_TYPE { evidence_blobs(output) } else { Vec::new() }
}
