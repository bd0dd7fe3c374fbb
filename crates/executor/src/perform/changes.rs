//! Changes of the page, and those among them that fail the action.

use capataz_contracts::v1::{self, ActionKind, ActionStage, BlockedRequests, DialogAnswer, NavigationKind};
use capataz_policy::executor::code;
use serde_json::json;

use super::step::{Step, read_failed};
use crate::dsl::Action;
use crate::error::{Failure, Phase};
use crate::page::{FailedDocument, Page, PageError};
use crate::text::normalised;

/// The most changes of one kind that are recorded. A page can open dialogs without end.
const RECORDED: usize = 100;

const UNAUTHORIZED: u32 = 401;

impl<P: Page> Step<'_, P> {
    /// Takes over what happened since the last time.
    pub(super) fn absorb(&mut self) {
        self.absorb_changes();
        self.failed_document = self.page.take_failed_document().or(self.failed_document.take());
    }

    /// The same at the end of the action: a document that has failed meanwhile is told to the next one.
    pub(super) fn absorb_changes(&mut self) {
        let new = self.page.take_changes();
        let all = &mut self.changes;
        all.navigation = all.navigation.max(new.navigation);
        all.status = new.status.or(all.status);
        extend(&mut all.redirects, new.redirects);
        extend(&mut all.dialogs, new.dialogs);
        extend(&mut all.new_tabs, new.new_tabs);
        extend(&mut all.blocked, new.blocked);
        extend(&mut all.downloads, new.downloads);
        extend(&mut all.unauthorized, new.unauthorized);
    }

    /// Fails the action for requests that the allowlist refused, for a document that did not come, and for dialogs that must
    /// not come.
    pub(super) fn check_changes(&self, answer: DialogAnswer) -> Result<(), Failure> {
        let fails = |request: &&v1::BlockedRequest| match request.kind.as_str() {
            "document" => true,
            // A refused connection without a request may be the browser's own, such as for the time of day.
            "connection" => false,
            _ => self.policy.blocked_requests != BlockedRequests::Record,
        };
        if let Some(request) = self.changes.blocked.iter().find(fails) {
            let mut failure = self.blocked(&request.host, &request.url);
            failure.details.insert("request_kind".to_owned(), request.kind.clone().into());
            return Err(failure);
        }
        if let Some(FailedDocument { url, net_error }) = &self.failed_document {
            return Err(navigation_failed(net_error, url));
        }
        match self.changes.dialogs.first() {
            Some(dialog) if answer == DialogAnswer::Fail => {
                let args = json!({"observed": {"kind": dialog.kind, "message": dialog.message}});
                Err(Failure::of_condition(Phase::Post, "no_dialog", args))
            }
            _ => Ok(()),
        }
    }

    /// The signals of a failed sign-in that the script declares.
    pub(super) async fn check_auth(&mut self, action: &Action) -> Result<(), Failure> {
        let signals = &self.policy.auth;
        let is_refused = self.changes.status == Some(UNAUTHORIZED) || !self.changes.unauthorized.is_empty();
        if signals.status_401 && is_refused {
            return Err(auth_failed("status_401"));
        }
        let has_loaded = self.changes.navigation == NavigationKind::Document as i32;
        // A page of one document goes to its login page without loading anything.
        let has_moved = self.changes.navigation == NavigationKind::SameDocument as i32;
        if let Some(login) = signals.login_url.as_ref().filter(|_| has_loaded || has_moved) {
            let (url, _) = readable(self.page.location().await)?;
            let goes_there = action.kind == ActionKind::Navigate
                && action.spec.url.as_ref().is_some_and(|url| login.is_match(url));
            let was_there = has_moved && login.is_match(&self.url_before);
            if login.is_match(&url) && !goes_there && !was_there {
                return Err(auth_failed("login_url"));
            }
        }
        if !signals.texts.is_empty() {
            let text = normalised(&readable(self.page.whole_text().await)?);
            // A signal that was there before proves nothing, unless the page was loaded anew.
            let is_new = |signal: &&String| has_loaded || !self.auth_texts_before.contains(signal);
            let shown = signals.texts.iter().filter(is_new).find(|signal| text.contains(signal.as_str()));
            if let Some(signal) = shown {
                return Err(auth_failed(&format!("text: {signal}")));
            }
        }
        Ok(())
    }

    /// What happened, redacted, for the record.
    pub(super) fn recorded_changes(&self) -> v1::PageChanges {
        let mut changes = self.changes.clone();
        if changes.navigation == NavigationKind::Unspecified as i32 {
            changes.navigation = NavigationKind::None as i32;
        }
        let texts = changes
            .redirects
            .iter_mut()
            .chain(&mut changes.new_tabs)
            .chain(&mut changes.unauthorized)
            .chain(changes.dialogs.iter_mut().map(|dialog| &mut dialog.message))
            .chain(changes.blocked.iter_mut().map(|request| &mut request.url))
            .chain(
                changes
                    .downloads
                    .iter_mut()
                    .flat_map(|download| [&mut download.url, &mut download.file_name]),
            );
        for text in texts {
            self.redactor.string(text);
        }
        changes
    }
}

/// The failure of a navigation that ended without a document, whoever finds it.
pub(super) fn navigation_failed(net_error: &str, url: &str) -> Failure {
    let details = json!({"net_error": net_error, "url": url});
    let mut failure = Failure::new(code::NAVIGATION_FAILED, "the page could not be loaded", details);
    failure.stage = Some(ActionStage::Execution);
    failure
}

/// What was read; `None` if the page cannot be read just now.
fn readable<T: Default>(read: Result<T, PageError>) -> Result<T, Failure> {
    match read {
        Err(error @ PageError::Lost { .. }) => Err(read_failed(&error, Phase::Post)),
        read => Ok(read.unwrap_or_default()),
    }
}

fn auth_failed(signal: &str) -> Failure {
    Failure::new(code::AUTH_FAILED, "signing in has failed", json!({"auth_signal": signal}))
}

fn extend<T>(all: &mut Vec<T>, new: Vec<T>) {
    let room = RECORDED.saturating_sub(all.len());
    all.extend(new.into_iter().take(room));
}
