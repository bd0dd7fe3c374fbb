//! Stage `evidence`: everything that the outcome has to prove is taken and durable before anybody learns of it.

use std::sync::Arc;

use capataz_contracts::v1::{
    self, ActionKind, ActionStage, BrowserOutcome, Criticality, EvidenceRef, PageLog, Pictures,
};
use capataz_policy::executor::{code, evidence};
use serde_json::{Value, json};

use super::policy::may_be_lowered;
use super::precondition::evidence_failed;
use super::stages::record;
use super::step::{Failed, Step, read_failed};
use super::{Clock, Performer, Task};
use crate::error::{Context, Failure, Phase, Retry, criticality_of, executor_error};
use crate::evidence::{
    EvidenceError, EvidenceSink, HTML, JSON, PNG, Piece, Seen, empty_signature, inline_ref, signature_piece,
    store,
};
use crate::page::{self, Node, PAGE_MASK, Page, PageError};
use crate::redact::Redactor;
use crate::text::shortened;

/// The longest text of a line of a page's log, in characters.
const LOGGED_TEXT_MAX: usize = 2_000;

/// The longest text that an inline reference has, in characters.
const INLINE_MAX: usize = 1_000;

impl<P: Page> Step<'_, P> {
    pub(super) async fn finish<E: EvidenceSink>(
        mut self,
        result: Result<(), Box<Failed>>,
        sink: &mut E,
    ) -> BrowserOutcome {
        let begun = self.clock.monotonic();
        self.page.limit_reads(None);
        self.absorb_changes();
        let log = self.page.take_log().await;
        if self.keeps_log(result.is_err()) {
            self.pieces.extend(self.log_piece(&log));
        }
        let mut stored = Vec::new();
        let failed = match result {
            Ok(()) => match Box::pin(self.keep_success(sink, &mut stored)).await {
                Ok(()) => None,
                // The stage `evidence` itself is what failed.
                Err(failure) => {
                    Some(self.keep_failure((ActionStage::Evidence, failure), sink, &mut stored).await)
                }
            },
            Err(failed) => Some(self.keep_failure(*failed, sink, &mut stored).await),
        };
        self.look_ahead();
        let was_kept = failed.as_ref().is_none_or(|(stage, _)| *stage != ActionStage::Evidence);
        let duration = self.clock.monotonic().saturating_sub(begun);
        self.stages.push(record(ActionStage::Evidence, was_kept, duration));
        self.outcome(failed, stored)
    }

    /// Begins the picture of the page for the next action: nobody waits for it now.
    fn look_ahead(&mut self) {
        let redactor = self.redactor.clone();
        self.page.look_ahead(Arc::new(move |text: &str| redactor.found(text)));
    }

    fn outcome(mut self, failed: Option<Failed>, stored: Vec<EvidenceRef>) -> BrowserOutcome {
        let mut changes = self.recorded_changes();
        // What was stored already knows its blobs.
        for (recorded, kept) in changes.downloads.iter_mut().zip(&self.changes.downloads) {
            recorded.blob.clone_from(&kept.blob);
        }
        let mut outcome = BrowserOutcome {
            stages: std::mem::take(&mut self.stages),
            state_before: self.before.as_ref().map(|seen| seen.signature.clone()),
            state_after: self.after.as_ref().map(|seen| seen.signature.clone()),
            resolution: self.resolution.take(),
            changes: Some(changes),
            touched: self.touched,
            ..BrowserOutcome::default()
        };
        match failed {
            None => {
                outcome.evidence = stored;
                outcome.output = self.output.take();
            }
            Some((stage, failure)) => {
                let mut stored = stored;
                let last = || self.task.last_state.clone().unwrap_or_else(empty_signature);
                let state_before = outcome.state_before.clone().unwrap_or_else(last);
                never_empty(&mut stored, &failure, &state_before, self.redactor);
                let context = Context {
                    action: &self.task.action,
                    target_is_secret: self.element.as_ref().is_some_and(|element| element.facts.secret),
                    criticality: self.criticality,
                    step_index: self.task.step_index,
                    stage,
                    retry: retry(&self.task.action, self.policy.spec()),
                    now_ms: self.clock.now_ms(),
                    state_before,
                    state_after: outcome.state_after.clone(),
                    evidence: stored,
                    debug: debug_of(&outcome),
                };
                outcome.error = Some(executor_error(failure, context, self.redactor));
            }
        }
        outcome
    }

    /// The pictures, files and values of an action that succeeded, and what the page is like now.
    async fn keep_success<E: EvidenceSink>(
        &mut self,
        sink: &mut E,
        stored: &mut Vec<EvidenceRef>,
    ) -> Result<(), Failure> {
        let mut pieces: Vec<Piece> =
            self.before_picture().filter(|_| self.keeps_picture()).into_iter().collect();
        pieces.append(&mut self.pieces);
        if self.touched {
            // After a halt, or the loss of the browser, the snapshot is the only evidence of the page.
            let state = self.page.state(&self.nodes()).await;
            let (skeleton, snapshot) = state.map_err(|error| taking_failed(&error))?;
            let after = Seen::new(skeleton, self.redactor);
            pieces.push(self.snapshot_piece(snapshot));
            pieces.push(after.piece());
            self.after = Some(after);
        }
        store(pieces, sink, stored).await.map_err(keeping_failed)?;
        for index in 0..self.changes.downloads.len() {
            let Some(download) = self.changes.downloads.get_mut(index) else { break };
            if download.state != "completed" || download.blob.is_some() {
                continue;
            }
            let kept = sink.put_download(download).await.map_err(keeping_failed)?;
            stored.push(EvidenceRef {
                id: kept.id.clone(),
                kind: evidence::DOWNLOAD.to_owned(),
                media_type: "application/octet-stream".to_owned(),
                bytes: kept.size,
                redacted: false,
                inline: None,
            });
            download.blob = Some(v1::BlobRef::new(kept.id, kept.size));
        }
        self.output_of_download();
        Ok(())
    }

    /// A download's output: its file name, bytes, and the blob that has them.
    fn output_of_download(&mut self) {
        let (Some(name), true) =
            (&self.task.action.output, self.task.action.kind == ActionKind::Download as i32)
        else {
            return;
        };
        let Some(download) = self.changes.downloads.iter().rev().find(|download| download.blob.is_some())
        else {
            return;
        };
        let mut value = json!({
            "file_name": download.file_name,
            "bytes": download.bytes,
            "blake3": download.blob.as_ref().map(|blob| blob.blake3.as_str()),
        });
        let redacted = self.redactor.json(&mut value);
        self.output = Some(v1::ActionOutput { name: name.clone(), value: value.to_string(), redacted });
    }

    /// The evidence of a failure. Where it cannot be taken or kept, that is another failure.
    async fn keep_failure<E: EvidenceSink>(
        &mut self,
        failed: Failed,
        sink: &mut E,
        stored: &mut Vec<EvidenceRef>,
    ) -> Failed {
        let (mut stage, mut failure) = failed;
        let mut pieces = std::mem::take(&mut self.pieces);
        let mut taken = Ok(());
        if failure.rules().evidence_can_be_taken() {
            taken = Box::pin(self.take_evidence(stage, &failure, &mut pieces)).await;
        }
        match taken {
            Ok(()) => {}
            Err(PageError::Lost { reason }) => {
                let original = failure.code;
                failure = Failure::lost(&reason);
                failure.details.insert("original_code".to_owned(), original.into());
            }
            Err(error) => {
                failure = evidence_failed(&error.to_string(), Some(&failure));
                stage = ActionStage::Evidence;
            }
        }
        if !failure.rules().evidence_can_be_taken() {
            self.last_evidence(&mut pieces);
            self.name_last_evidence(stored);
        }
        if let Err(error) = store(pieces, sink, stored).await {
            if failure.code != code::EVIDENCE_FAILED {
                failure = evidence_failed(&error.to_string(), Some(&failure));
                self.name_last_evidence(stored);
            }
            stage = ActionStage::Evidence;
        }
        (stage, failure)
    }

    /// The evidence that the table of codes asks for, in its order.
    async fn take_evidence(
        &mut self,
        stage: ActionStage,
        failure: &Failure,
        pieces: &mut Vec<Piece>,
    ) -> Result<(), PageError> {
        let rules = failure.rules();
        let kinds = rules.obligatory_evidence(stage, self.criticality);
        match &mut self.before {
            Some(before) if before.picture.is_some() => {}
            // Nothing was sent yet: the page is as it was before.
            _ => self.before = Some(self.see(true).await?),
        }
        let is_pictured = kinds.contains(&evidence::SCREENSHOT_AFTER);
        // Where nothing was sent there is no state after the action, and the second picture is that of the failure.
        let was_sent = stage >= ActionStage::Execution;
        let mut of_failure = None;
        if was_sent || rules.state_after {
            self.after = Some(self.see(is_pictured).await?);
        } else if is_pictured {
            of_failure = Some(self.see(true).await?);
        }
        for kind in kinds {
            let piece = match kind {
                evidence::DOM_SNAPSHOT => Some(self.snapshot().await?),
                evidence::STATE_SIGNATURE => self.before.as_ref().map(Seen::piece),
                evidence::HTML => Some(self.html().await?),
                evidence::SCREENSHOT_BEFORE => self.before_picture(),
                evidence::SCREENSHOT_AFTER => {
                    picture(evidence::SCREENSHOT_AFTER, self.after.as_ref().or(of_failure.as_ref()))
                }
                _ => None,
            };
            pieces.extend(piece);
        }
        Ok(())
    }

    /// True if the policy keeps the picture of an action that has succeeded.
    fn keeps_picture(&self) -> bool {
        match self.policy.spec().pictures() {
            Pictures::Unspecified | Pictures::Always => true,
            Pictures::Critical => self.criticality == Criticality::Critical,
            Pictures::OnFailure => false,
        }
    }

    fn keeps_log(&self, has_failed: bool) -> bool {
        match self.policy.spec().page_log() {
            PageLog::Unspecified | PageLog::Off => false,
            PageLog::OnFailure => has_failed,
            PageLog::Always => true,
        }
    }

    /// What the page has written since the action before; `None` if that is nothing.
    fn log_piece(&self, log: &page::PageLog) -> Option<Piece> {
        if *log == page::PageLog::default() {
            return None;
        }
        let mut log = log.clone();
        let mut redacted = false;
        let texts = log.console.iter_mut().flat_map(|line| [&mut line.text, &mut line.url]);
        for text in texts.chain(log.requests.iter_mut().map(|request| &mut request.url)) {
            // A part of a secret would not be known for one.
            redacted |= self.redactor.string(text);
            *text = shortened(text, LOGGED_TEXT_MAX);
        }
        let content = serde_json::to_value(log).ok()?;
        Some(Piece {
            kind: evidence::PAGE_LOG,
            media_type: JSON,
            content: content.to_string().into(),
            redacted,
        })
    }

    fn before_picture(&self) -> Option<Piece> {
        picture(evidence::SCREENSHOT_BEFORE, self.before.as_ref())
    }

    async fn snapshot(&mut self) -> Result<Piece, PageError> {
        let snapshot = self.page.snapshot(&self.nodes()).await?;
        Ok(self.snapshot_piece(snapshot))
    }

    /// The target, or all that could be it.
    fn nodes(&self) -> Vec<Node> {
        let node = self.element.as_ref().map(|element| element.node.clone());
        node.into_iter().chain(self.matches.clone()).collect()
    }

    fn snapshot_piece(&self, mut snapshot: Value) -> Piece {
        let mut redacted = self.redactor.json(&mut snapshot);
        let content = snapshot.to_string();
        // Of a secret field a snapshot says only whether it is filled; quotes within texts are escaped.
        redacted |= content.contains(PAGE_MASK) || content.contains(r#""filled":true"#);
        Piece { kind: evidence::DOM_SNAPSHOT, media_type: JSON, content: content.into(), redacted }
    }

    async fn html(&mut self) -> Result<Piece, PageError> {
        let mut html = self.page.html().await?;
        let redacted = self.redactor.string(&mut html) || html.contains(PAGE_MASK);
        Ok(Piece { kind: evidence::HTML, media_type: HTML, content: html.into(), redacted })
    }

    /// Adds the evidence that was taken before this action; a page that fails later cannot take it away.
    fn name_last_evidence(&self, stored: &mut Vec<EvidenceRef>) {
        for piece in &self.task.last_evidence {
            if !stored.contains(piece) {
                stored.push(piece.clone());
            }
        }
    }

    /// Adds the evidence that can still be had when the page is gone: what this action, or one before it, saw last.
    fn last_evidence(&mut self, pieces: &mut Vec<Piece>) {
        pieces.extend(last_snapshot(self.task, self.before.as_ref().map(|before| &before.signature)));
        match &self.before {
            Some(before) => pieces.push(before.piece()),
            None => pieces.push(last_signature(self.task)),
        }
        pieces.extend(self.before_picture());
    }
}

fn last_signature(task: &Task) -> Piece {
    let signature = task.last_state.clone().unwrap_or_else(empty_signature);
    signature_piece(&signature, false)
}

/// How far an action came. How long its stages took is in their records: the same failure says the same.
fn debug_of(outcome: &BrowserOutcome) -> String {
    let stages = outcome.stages.iter().map(|record| {
        let name = record.stage().as_str_name().trim_start_matches("ACTION_STAGE_").to_ascii_lowercase();
        let end = if record.passed { "passed" } else { "failed" };
        format!("{name} {end}")
    });
    let stages: Vec<String> = stages.collect();
    let element = match &outcome.resolution {
        Some(found) => format!("found by {}: {}", found.locator, found.element),
        None => "no element was found".to_owned(),
    };
    let input = if outcome.touched { "input was sent" } else { "no input was sent" };
    format!("{}; {element}; {input}", stages.join(", "))
}

/// What is known of the page that was seen last, in the form of a snapshot; `None` where a snapshot of it was kept.
fn last_snapshot(task: &Task, seen: Option<&v1::StateSignature>) -> Option<Piece> {
    let is_snapshot = |piece: &EvidenceRef| piece.kind == evidence::DOM_SNAPSHOT;
    if task.last_evidence.iter().any(is_snapshot) {
        return None;
    }
    let empty = empty_signature();
    let state = seen.or(task.last_state.as_ref()).unwrap_or(&empty);
    // Nothing is known of its elements.
    let snapshot =
        json!({"url": state.url, "title": state.title, "targets": [], "anchors": [], "inputs": []});
    let content = snapshot.to_string().into();
    Some(Piece { kind: evidence::DOM_SNAPSHOT, media_type: JSON, content, redacted: false })
}

/// Where nothing could be stored, the reference itself says so: an error is never without evidence.
fn never_empty(
    stored: &mut Vec<EvidenceRef>,
    failure: &Failure,
    state: &v1::StateSignature,
    redactor: &Redactor,
) {
    if !stored.is_empty() {
        return;
    }
    let reason = failure.cause.as_deref().unwrap_or(&failure.message);
    let text =
        format!("no evidence could be stored: {reason}; the page was {} \"{}\"", state.url, state.title);
    stored.push(inline_ref(&shortened(&redactor.text(&text), INLINE_MAX)));
}

fn picture(kind: &'static str, seen: Option<&Seen>) -> Option<Piece> {
    let picture = seen?.picture.as_ref()?;
    Some(Piece { kind, media_type: PNG, content: picture.png.clone(), redacted: picture.masked })
}

fn taking_failed(error: &PageError) -> Failure {
    match error {
        PageError::Lost { .. } => read_failed(error, Phase::Post),
        error => evidence_failed(&error.to_string(), None),
    }
}

fn keeping_failed(error: EvidenceError) -> Failure {
    evidence_failed(&error.to_string(), None)
}

/// The action's own retries, else the policy's.
fn retry<'a>(action: &'a v1::Action, policy: &'a v1::ScriptPolicy) -> Retry<'a> {
    let own = action.retry.as_ref();
    let limit = own.and_then(|retry| retry.limit).or(policy.retry_limit).unwrap_or_default();
    let on = own.map(|retry| retry.on.as_slice()).filter(|on| !on.is_empty());
    Retry { on: on.unwrap_or(&policy.retry_on), limit }
}

/// A browser that is gone, whatever the engine has decided meanwhile.
fn lost_failure(task: &Task, reason: &str, original_code: Option<&str>) -> Failure {
    let Some(decided) = &task.failure else {
        let mut failure = Failure::lost(reason);
        if let Some(original_code) = original_code {
            failure.details.insert("original_code".to_owned(), original_code.into());
        }
        return failure;
    };
    let decided = Failure::decided(decided);
    if decided.code == code::BROWSER_LOST {
        return decided;
    }
    let mut failure = Failure::lost(reason);
    failure.details.insert("original_code".to_owned(), decided.code.into());
    failure
}

/// The error of a browser that was lost while no action was being performed.
pub(super) async fn lost<E: EvidenceSink>(
    performer: &Performer,
    task: &Task,
    reason: &str,
    original_code: Option<&str>,
    sink: &mut E,
    clock: &dyn Clock,
) -> BrowserOutcome {
    let begun = clock.monotonic();
    let mut stage = ActionStage::Execution;
    let mut failure = lost_failure(task, reason, original_code);
    let mut stored = task.last_evidence.clone();
    let pieces = last_snapshot(task, None).into_iter().chain([last_signature(task)]).collect();
    if let Err(error) = store(pieces, sink, &mut stored).await {
        failure = evidence_failed(&error.to_string(), Some(&failure));
        stage = ActionStage::Evidence;
    }
    let redactor: &Redactor = &performer.redactor;
    let state_before = task.last_state.clone().unwrap_or_else(empty_signature);
    never_empty(&mut stored, &failure, &state_before, redactor);
    let context = Context {
        action: &task.action,
        target_is_secret: false,
        criticality: criticality_of(&task.action, may_be_lowered(&performer.policy, task)),
        step_index: task.step_index,
        stage,
        retry: retry(&task.action, performer.policy.spec()),
        now_ms: clock.now_ms(),
        state_before,
        state_after: None,
        evidence: stored,
        debug: "no action was being performed".to_owned(),
    };
    let duration = clock.monotonic().saturating_sub(begun);
    BrowserOutcome {
        stages: vec![record(ActionStage::Evidence, stage != ActionStage::Evidence, duration)],
        state_before: task.last_state.clone(),
        error: Some(executor_error(failure, context, redactor)),
        ..BrowserOutcome::default()
    }
}
