//! Going to a document, back, and loading it again.

use std::future::Future;
use std::time::Duration;

use capataz_cdp::{Done, Session};
use serde_json::json;

use super::ChromiumPage;
use super::call::Failure;
use super::protocol::{Navigated, NavigationHistory};
use super::state::{Reached, State, Tab};
use crate::page::{PageError, WaitUntil};

/// Chromium's name for an answer that has a status of failure and no content. It shows a page of its own then, which
/// counts as the document.
const NO_CONTENT: &str = "net::ERR_HTTP_RESPONSE_CODE_FAILURE";

/// Longest wait for the page that Chromium shows in the place of one that did not come.
const FAILURE_PAGE_LIMIT: Duration = Duration::from_secs(2);

/// Where a tab was before a navigation.
struct Before {
    session: Session,
    tab: String,
    document: u64,
    begun: u64,
    same_document: u64,
}

impl ChromiumPage {
    pub(super) async fn navigate(
        &self,
        url: &str,
        until: WaitUntil,
        limit: Duration,
    ) -> Result<(), PageError> {
        if let Some(refused) = self.filter.refuse(url, "document") {
            return Err(PageError::Blocked(Box::new(refused)));
        }
        let before = self.before()?;
        self.within(&before, limit, self.navigate_from(&before, url, until)).await
    }

    async fn navigate_from(&self, before: &Before, url: &str, until: WaitUntil) -> Result<(), PageError> {
        let params = json!({ "url": url, "transitionType": "typed" });
        let navigated: Navigated =
            self.command(&before.session, "Page.navigate", params, Duration::MAX).await.map_err(ended)?;
        match navigated.error_text.as_deref() {
            None | Some("") if navigated.loader_id.is_none() => {
                // The event that reports the move comes after the answer.
                let moved = |tab: &Tab| tab.same_document > before.same_document;
                let is_there = |state: &State| {
                    let tab = state.tabs.iter().find(|tab| tab.target == before.tab);
                    tab.is_none_or(moved).then_some(())
                };
                self.shared.find(is_there).await;
                self.lost().map_or(Ok(()), Err)
            }
            None | Some("" | NO_CONTENT) => self.arrived(before, until).await,
            Some(_) if navigated.is_download => Ok(()),
            Some(error) => {
                // The failure page comes after the answer; whoever looks at the tab next is to see that page.
                let failed = |state: &State| state.tabs.iter().any(|tab| is_new(before, tab)).then_some(());
                if error != "net::ERR_ABORTED" {
                    self.shared.find_within(FAILURE_PAGE_LIMIT, failed).await;
                }
                Err(self.refused_since(before).unwrap_or_else(|| self.not_loaded(before, error, Some(url))))
            }
        }
    }

    /// Goes so many pages on in the history of the tab; back, where negative.
    pub(super) async fn history(
        &self,
        steps: isize,
        until: WaitUntil,
        limit: Duration,
    ) -> Result<(), PageError> {
        let before = self.before()?;
        let going = async {
            let history: NavigationHistory = self
                .command(&before.session, "Page.getNavigationHistory", (), Duration::MAX)
                .await
                .map_err(ended)?;
            let index = history.current_index.checked_add_signed(steps);
            // Each tab begins with a blank page, which nobody has visited.
            let entry = index.and_then(|index| Some((index, history.entries.get(index)?)));
            let entry = entry.filter(|(index, entry)| *index > 0 || entry.url != "about:blank");
            let Some((_, entry)) = entry else {
                let side = if steps < 0 { "before" } else { "after" };
                return Err(PageError::NotLoaded {
                    reason: format!("there is no page {side} this one"),
                    url: None,
                });
            };
            let params = json!({ "entryId": entry.id });
            self.command::<Done>(&before.session, "Page.navigateToHistoryEntry", params, Duration::MAX)
                .await
                .map_err(ended)?;
            self.arrived(&before, until).await
        };
        self.within(&before, limit, going).await
    }

    pub(super) async fn reload(&self, until: WaitUntil, limit: Duration) -> Result<(), PageError> {
        let before = self.before()?;
        let loading = async {
            self.command::<Done>(&before.session, "Page.reload", (), Duration::MAX).await.map_err(ended)?;
            self.arrived(&before, until).await
        };
        self.within(&before, limit, loading).await
    }

    fn before(&self) -> Result<Before, PageError> {
        if let Some(lost) = self.lost() {
            return Err(lost);
        }
        let mut state = self.shared.read();
        let Some(tab) = state.current_mut() else { return Err(closed()) };
        tab.refused = None;
        Ok(Before {
            session: self.connection.session(&tab.session),
            tab: tab.target.clone(),
            document: tab.document.number,
            begun: tab.begun,
            same_document: tab.same_document,
        })
    }

    /// Stops the loading where it takes too long.
    async fn within(
        &self,
        before: &Before,
        limit: Duration,
        navigating: impl Future<Output = Result<(), PageError>>,
    ) -> Result<(), PageError> {
        match tokio::time::timeout(limit, navigating).await {
            Ok(result) => result,
            Err(_) => {
                super::tabs::send(&before.session, "Page.stopLoading", ());
                Err(PageError::TooSlow { waiting_for: "the document", limit })
            }
        }
    }

    /// Waits until the newest document since then has come as far as is wanted. It may be another one than was asked for:
    /// pages lead on.
    async fn arrived(&self, before: &Before, until: WaitUntil) -> Result<(), PageError> {
        let wanted = match until {
            WaitUntil::Commit => Reached::Commit,
            WaitUntil::Dom => Reached::Dom,
            WaitUntil::Load | WaitUntil::Unspecified => Reached::Load,
        };
        let arrived = self.shared.find(|state| {
            let Some(tab) = state.tabs.iter().find(|tab| tab.target == before.tab) else {
                return Some(Err(None));
            };
            if state.lost.is_some() || tab.crashed {
                return Some(Err(None));
            }
            let is_failed = tab.document.unreachable.is_some();
            let failed = is_new(before, tab) && is_failed && tab.began_after(before.begun);
            if failed && !tab.was_answered() {
                return Some(Err(Some(tab.net_error().to_owned())));
            }
            // An earlier navigation that fails only now is not the one that was asked for.
            let came = is_new(before, tab) && (!is_failed || tab.began_after(before.begun));
            let here = came && tab.document.reached >= wanted;
            let moved = tab.document.number == before.document && tab.same_document > before.same_document;
            (here || moved).then_some(Ok(()))
        });
        match arrived.await {
            Ok(()) => Ok(()),
            Err(Some(reason)) => {
                Err(self.refused_since(before).unwrap_or_else(|| self.not_loaded(before, &reason, None)))
            }
            Err(None) => Err(self.lost().unwrap_or_else(closed)),
        }
    }

    /// The document may be another one than was asked for: that of a redirect.
    fn not_loaded(&self, before: &Before, reason: &str, asked: Option<&str>) -> PageError {
        let state = self.shared.read();
        let tab = state.tabs.iter().find(|tab| is_new(before, tab));
        let shown = tab.and_then(|tab| tab.document.unreachable.clone());
        PageError::NotLoaded { reason: reason.to_owned(), url: shown.or(asked.map(str::to_owned)) }
    }

    /// The allowlist's refusal of the document, where that is why it did not come.
    fn refused_since(&self, before: &Before) -> Option<PageError> {
        let state = self.shared.read();
        let tab = state.tabs.iter().find(|tab| tab.target == before.tab)?;
        Some(PageError::Blocked(Box::new(tab.refused.clone()?)))
    }
}

fn is_new(before: &Before, tab: &Tab) -> bool {
    tab.target == before.tab && tab.document.number > before.document
}

/// The tab went away under the navigation.
fn closed() -> PageError {
    PageError::NotLoaded { reason: "the tab was closed".to_owned(), url: None }
}

fn ended(failure: Failure) -> PageError {
    match failure {
        Failure::Gone => closed(),
        Failure::Page(error) => error,
    }
}
