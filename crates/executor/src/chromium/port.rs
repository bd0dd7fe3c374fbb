//! The port, method by method.

use std::sync::Arc;
use std::time::Duration;

use capataz_contracts::v1;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::ChromiumPage;
use super::call::{Failure, READ_LIMIT};
use super::frames::Maybe;
use super::script::function;
use super::sight::{html_with_frames, text_with_frames};
use crate::page::{
    Act, Facts, FailedDocument, Locator, Look, Node, Offset, Outline, Page, PageError, PageLog, Picture,
    Query, SecretsIn, Settled, Sight, Skeleton, SubmittingKeys, WaitUntil,
};

/// Longest wait of one call of `changed`. What changes between a look and the wait leaves no sign that could still be
/// waited for, so the next look must not be far.
const CHANGED_LIMIT: Duration = Duration::from_millis(200);

impl ChromiumPage {
    pub(super) async fn facts_of(&self, node: &Node, attributes: &[String]) -> Result<Facts, PageError> {
        if let Some(lost) = self.lost() {
            return Err(lost);
        }
        let arguments = json!([node.handle, attributes, self.redaction]);
        let facts: Result<Maybe<Facts>, Failure> =
            self.script(&node.frame, function::FACTS, arguments, READ_LIMIT).await;
        let mut facts = facts.map_err(Failure::or_detached)?.here()?;
        let keys = self.keys_told(node, facts.submitting_keys).await;
        facts.submitting_keys = keys.map_err(Failure::or_detached)?;
        self.seen_from_outside(node, &mut facts).await.map_err(Failure::or_detached)?;
        Ok(facts)
    }

    async fn send(&mut self, act: &Act, until: WaitUntil, limit: Duration) -> Result<(), PageError> {
        match act {
            Act::Navigate { url } => self.navigate(url, until, limit).await,
            Act::Back => self.history(-1, until, limit).await,
            Act::Forward => self.history(1, until, limit).await,
            Act::Reload => self.reload(until, limit).await,
            Act::Click { node, how } => self.click(node, how, limit).await,
            Act::Hover { node, at } => self.hover(node, *at, limit).await,
            Act::Drag { node, how, drop } => Box::pin(self.drag(node, how, drop, limit)).await,
            Act::Fill { node, text } => self.fill(node, text, limit).await,
            Act::Type { node, text } => self.type_after(node, text, limit).await,
            Act::Press { node, key, bounds } => self.press(node.as_ref(), key, bounds.as_ref(), limit).await,
            Act::Select { node, values } => self.select(node, values, limit).await,
            Act::Submit { node } => self.submit(node, limit).await,
            Act::Upload { node, files } => self.upload(node, files, limit).await,
            Act::ScrollTo { node } => self.scroll_to(node, limit).await,
        }
    }

    /// The tab that an act is done to.
    fn tab_of(&self, act: &Act) -> Option<String> {
        let state = self.shared.read();
        let of_node = act.node().and_then(|node| state.frame_of_context(&node.frame));
        of_node.map(|(_, tab)| tab).or(state.current()).map(|tab| tab.target.clone())
    }

    /// The act has ended when the document that it has led to has come.
    async fn send_and_follow(
        &mut self,
        act: &Act,
        until: WaitUntil,
        limit: Duration,
    ) -> Result<(), PageError> {
        let deadline = Instant::now() + limit;
        let mut departures = self.departures(self.tab_of(act));
        departures.beside(self.send(act, until, limit), limit, deadline).await?;
        self.followed(departures, limit, deadline).await
    }

    /// Waits for a change in one of the documents, an event of the browser, or the limit, whichever comes first.
    async fn wait_for_change(&self, limit: Duration) {
        let milliseconds = limit.as_millis() as u64;
        let signs = self.looked_at.iter().map(|document| {
            let arguments = json!([milliseconds]);
            Box::pin(self.script::<bool>(document, function::CHANGED, arguments, READ_LIMIT))
        });
        let signs: Vec<_> = signs.collect();
        let sign = async {
            if signs.is_empty() {
                return std::future::pending().await;
            }
            // An error counts as well: a document that went away is a change.
            drop(futures_util::future::select_all(signs).await);
        };
        tokio::select! {
            () = sign => {}
            () = self.shared.changed_since(self.looked_when) => {}
            () = tokio::time::sleep(limit) => {}
        }
    }
}

impl Page for ChromiumPage {
    async fn unreadable(&mut self, locators: &[&Locator]) -> Result<Vec<Option<String>>, PageError> {
        self.read(function::UNREADABLE, json!([locators])).await
    }

    fn limit_reads(&mut self, limit: Option<Duration>) {
        self.reads_until = limit.map(|limit| Instant::now() + limit);
    }

    async fn look(&mut self, query: &Query) -> Result<Look, PageError> {
        self.looked_when = self.shared.version();
        let (look, documents) = self.repeated(async || Box::pin(self.look_once(query)).await).await?;
        self.looked_at = documents;
        Ok(look)
    }

    async fn facts(&mut self, node: &Node, attributes: &[String]) -> Result<Facts, PageError> {
        self.looked_when = self.shared.version();
        self.facts_of(node, attributes).await
    }

    async fn focused_keys(&mut self) -> Result<SubmittingKeys, PageError> {
        // One document has the focus at a time, and those around it have it in their iframes.
        let read = async || {
            let mut all = SubmittingKeys::default();
            let documents = self.documents();
            let told = self.scripts(&documents, function::FOCUSED_KEYS, json!([]), READ_LIMIT).await;
            for (document, told) in documents.iter().zip(told) {
                let told: SubmittingKeys = told?;
                // What may hide the focus has it.
                let told = match told.hidden_in {
                    Some(handle) => self.keys_told(&Node { frame: document.clone(), handle }, told).await?,
                    None => told,
                };
                all.submits_by_enter |= told.submits_by_enter;
                all.submits_by_space |= told.submits_by_space;
            }
            Ok(all)
        };
        let all = self.repeated(read).await?;
        self.lost().map_or(Ok(all), Err)
    }

    async fn table(&mut self, node: &Node) -> Result<Vec<Vec<String>>, PageError> {
        let table: Value = self
            .script(&node.frame, function::TABLE, json!([node.handle]), READ_LIMIT)
            .await
            .map_err(Failure::or_detached)?;
        if table.get("detached").is_some() {
            return Err(PageError::Detached);
        }
        serde_json::from_value(table).map_err(|_| PageError::NotActionable { reason: "it is not a table" })
    }

    async fn changed(&mut self, limit: Duration) -> Result<(), PageError> {
        if let Some(lost) = self.lost() {
            return Err(lost);
        }
        if self.looked_at.is_empty() {
            self.looked_at = vec![self.main_document().await?];
        }
        self.wait_for_change(limit.min(CHANGED_LIMIT)).await;
        self.looked_when = self.shared.version();
        self.lost().map_or(Ok(()), Err)
    }

    async fn settle(
        &mut self,
        node: &Node,
        at: Option<Offset>,
        limit: Duration,
        secrets_in: Option<&SecretsIn<'_>>,
    ) -> Result<Settled, PageError> {
        if let Some(lost) = self.lost() {
            return Err(lost);
        }
        // Most elements rest, and all that there is to wait for is a frame: time enough to see the page.
        let mut ahead = self.ahead.take();
        let (place, sight) = tokio::join!(
            Box::pin(self.settle_place(node, at, limit)),
            Box::pin(self.seen(&mut ahead, secrets_in)),
        );
        // The event that tells of scrolling comes with the next frame only, and that of a frame in another process later.
        self.ahead = ahead.filter(|_| place.as_ref().is_ok_and(|place| !place.scrolled));
        let place = place?;
        let sight = sight.ok().filter(|_| place.rested);
        let settled = Settled { rect: place.rect, sight, struck: place.struck.clone() };
        self.settled = Some((node.clone(), at, place));
        // A page that could not be seen now can be looked at again.
        Ok(settled)
    }

    async fn act(&mut self, act: Act, until: WaitUntil, limit: Duration) -> Result<(), PageError> {
        if let Some(lost) = self.lost() {
            return Err(lost);
        }
        self.ahead = None;
        let tab = self.tab_of(&act);
        self.shared.change(|state| state.act_begins(tab));
        let done = match &act {
            // Navigations wait for their own document.
            Act::Navigate { .. } | Act::Back | Act::Forward | Act::Reload => {
                Box::pin(self.send(&act, until, limit)).await
            }
            _ => Box::pin(self.send_and_follow(&act, until, limit)).await,
        };
        self.settled = None;
        done
    }

    async fn downloads_ended(&mut self, expected: bool, limit: Duration) -> Result<bool, PageError> {
        let ended = self.shared.find_within(limit, |state| {
            // The downloads of a tab that has crashed do not end, either.
            if state.lost.is_some() || state.current().is_some_and(|tab| tab.crashed) {
                return Some(false);
            }
            let (begun, all_ended) = state.downloads.summary();
            (all_ended && (begun > 0 || !expected)).then_some(true)
        });
        match ended.await {
            Some(true) => Ok(true),
            _ => self.lost().map_or(Ok(false), Err),
        }
    }

    fn pending_downloads(&mut self) -> Vec<String> {
        self.shared.read().downloads.pending()
    }

    fn answer_dialogs(&mut self, answer: v1::DialogAnswer, prompt: Option<String>) {
        self.shared.change(|state| {
            state.dialogs = answer;
            state.prompt = prompt;
        });
    }

    fn take_changes(&mut self) -> v1::PageChanges {
        self.shared.change(|state| {
            let mut changes = state.changes.take();
            changes.downloads = state.downloads.take_ended();
            changes
        })
    }

    fn take_failed_document(&mut self) -> Option<FailedDocument> {
        self.shared.change(|state| state.failed.take()).map(|(_, failed)| failed)
    }

    async fn take_log(&mut self) -> PageLog {
        match &self.log {
            Some(log) => log.take().await,
            None => PageLog::default(),
        }
    }

    async fn location(&mut self) -> Result<(String, String), PageError> {
        self.repeated(async || {
            let document = self.main_document().await?;
            let location = "function() { return [location.href, document.title]; }";
            self.function(&document, location, Value::Null, READ_LIMIT).await
        })
        .await
    }

    async fn text(&mut self) -> Result<String, PageError> {
        self.looked_when = self.shared.version();
        self.read(function::PAGE_TEXT, json!([])).await
    }

    async fn whole_text(&mut self) -> Result<String, PageError> {
        self.looked_when = self.shared.version();
        let (whole, frames) = self.read_all::<String>(function::PAGE_TEXT, |_| json!([])).await?;
        Ok(text_with_frames(whole, frames))
    }

    async fn skeleton(&mut self) -> Result<Skeleton, PageError> {
        self.whole_skeleton().await
    }

    async fn snapshot(&mut self, nodes: &[Node]) -> Result<Value, PageError> {
        self.whole_snapshot(nodes).await
    }

    async fn state(&mut self, nodes: &[Node]) -> Result<(Skeleton, Value), PageError> {
        self.whole_state(nodes).await
    }

    async fn html(&mut self) -> Result<String, PageError> {
        let reading = self.read_all::<String>(function::HTML, |_| json!([self.redaction]));
        let (whole, frames) = reading.await?;
        Ok(html_with_frames(whole, frames))
    }

    async fn screenshot(
        &mut self,
        full_page: bool,
        secrets_in: &SecretsIn<'_>,
    ) -> Result<Picture, PageError> {
        self.picture(full_page, secrets_in).await
    }

    async fn sight(&mut self, secrets_in: Option<&SecretsIn<'_>>) -> Result<Sight, PageError> {
        let mut ahead = self.ahead.take();
        let seen = Box::pin(self.seen(&mut ahead, secrets_in)).await;
        self.ahead = ahead;
        seen
    }

    fn look_ahead(&mut self, secrets_in: Arc<SecretsIn<'static>>) {
        self.take_ahead(secrets_in);
    }

    async fn outline(
        &mut self,
        max_characters: usize,
        longest: Option<Duration>,
    ) -> Result<Outline, PageError> {
        self.outlined(max_characters, longest).await
    }
}
