//! A page that notes how long each of its operations takes, and that can leave pictures out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use capataz_contracts::v1;
use capataz_executor::chromium::ChromiumPage;
use capataz_executor::page::{
    Act, Facts, FailedDocument, Locator, Look, Node, Offset, Outline, Page, PageError, PageLog, Picture,
    Query, SecretsIn, Settled, Sight, Skeleton, SubmittingKeys, WaitUntil,
};
use serde_json::Value;

use super::times::Times;
use crate::Outcome;

/// Operations by their names in the port.
#[derive(Debug)]
pub(super) struct Parts {
    empty: Times,
    times: BTreeMap<&'static str, Times>,
    /// What the present action has spent on settling.
    settling: Duration,
}

impl Parts {
    pub(super) fn new() -> Outcome<Self> {
        Ok(Self { empty: Times::new()?, times: BTreeMap::new(), settling: Duration::ZERO })
    }

    pub(super) fn forget(&mut self) {
        self.times.clear();
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, &Times)> {
        self.times.iter().map(|(name, times)| (*name, times))
    }

    /// What was spent on settling since the last call.
    pub(super) fn take_settling(&mut self) -> Duration {
        std::mem::take(&mut self.settling)
    }

    fn part(&mut self, name: &'static str) -> &mut Times {
        let Self { empty, times, .. } = self;
        times.entry(name).or_insert_with(|| empty.clone())
    }
}

#[derive(Debug)]
pub(super) struct Watched<'a> {
    pub(super) page: &'a mut ChromiumPage,
    pub(super) parts: &'a mut Parts,
    /// True when pictures are taken; if not, they are empty.
    pub(super) pictured: bool,
}

const NO_PICTURE: Picture = Picture { png: Bytes::new(), masked: false };

impl Page for Watched<'_> {
    async fn unreadable(&mut self, locators: &[&Locator]) -> Result<Vec<Option<String>>, PageError> {
        self.parts.part("unreadable").of(self.page.unreadable(locators)).await
    }

    async fn look(&mut self, query: &Query) -> Result<Look, PageError> {
        self.parts.part("look").of(self.page.look(query)).await
    }

    async fn facts(&mut self, node: &Node, attributes: &[String]) -> Result<Facts, PageError> {
        self.parts.part("facts").of(self.page.facts(node, attributes)).await
    }

    async fn focused_keys(&mut self) -> Result<SubmittingKeys, PageError> {
        self.parts.part("focused_keys").of(self.page.focused_keys()).await
    }

    async fn table(&mut self, node: &Node) -> Result<Vec<Vec<String>>, PageError> {
        self.page.table(node).await
    }

    async fn changed(&mut self, limit: Duration) -> Result<(), PageError> {
        self.parts.part("changed").of(self.page.changed(limit)).await
    }

    async fn settle(
        &mut self,
        node: &Node,
        at: Option<Offset>,
        limit: Duration,
        secrets_in: Option<&SecretsIn<'_>>,
    ) -> Result<Settled, PageError> {
        let secrets_in = secrets_in.filter(|_| self.pictured);
        let begun = Instant::now();
        let mut settled = self.parts.part("settle").of(self.page.settle(node, at, limit, secrets_in)).await?;
        self.parts.settling += begun.elapsed();
        if let (Some(sight), false) = (&mut settled.sight, self.pictured) {
            sight.picture = Some(NO_PICTURE);
        }
        Ok(settled)
    }

    async fn act(&mut self, act: Act, until: WaitUntil, limit: Duration) -> Result<(), PageError> {
        self.parts.part("act").of(self.page.act(act, until, limit)).await
    }

    async fn downloads_ended(&mut self, expected: bool, limit: Duration) -> Result<bool, PageError> {
        self.page.downloads_ended(expected, limit).await
    }

    fn answer_dialogs(&mut self, answer: v1::DialogAnswer, prompt: Option<String>) {
        self.page.answer_dialogs(answer, prompt);
    }

    fn pending_downloads(&mut self) -> Vec<String> {
        self.page.pending_downloads()
    }

    fn take_changes(&mut self) -> v1::PageChanges {
        self.page.take_changes()
    }

    fn take_failed_document(&mut self) -> Option<FailedDocument> {
        self.page.take_failed_document()
    }

    fn limit_reads(&mut self, limit: Option<Duration>) {
        self.page.limit_reads(limit);
    }

    async fn take_log(&mut self) -> PageLog {
        self.page.take_log().await
    }

    async fn location(&mut self) -> Result<(String, String), PageError> {
        self.parts.part("location").of(self.page.location()).await
    }

    async fn text(&mut self) -> Result<String, PageError> {
        self.parts.part("text").of(self.page.text()).await
    }

    async fn whole_text(&mut self) -> Result<String, PageError> {
        self.parts.part("text").of(self.page.whole_text()).await
    }

    async fn skeleton(&mut self) -> Result<Skeleton, PageError> {
        self.parts.part("skeleton").of(self.page.skeleton()).await
    }

    async fn snapshot(&mut self, nodes: &[Node]) -> Result<Value, PageError> {
        self.parts.part("snapshot").of(self.page.snapshot(nodes)).await
    }

    async fn state(&mut self, nodes: &[Node]) -> Result<(Skeleton, Value), PageError> {
        self.parts.part("state").of(self.page.state(nodes)).await
    }

    async fn html(&mut self) -> Result<String, PageError> {
        self.parts.part("html").of(self.page.html()).await
    }

    async fn screenshot(
        &mut self,
        full_page: bool,
        secrets_in: &SecretsIn<'_>,
    ) -> Result<Picture, PageError> {
        if !self.pictured {
            return Ok(NO_PICTURE);
        }
        self.parts.part("screenshot").of(self.page.screenshot(full_page, secrets_in)).await
    }

    async fn sight(&mut self, secrets_in: Option<&SecretsIn<'_>>) -> Result<Sight, PageError> {
        let secrets_in = secrets_in.filter(|_| self.pictured);
        let mut sight = self.parts.part("sight").of(self.page.sight(secrets_in)).await?;
        if !self.pictured {
            sight.picture = Some(NO_PICTURE);
        }
        Ok(sight)
    }

    fn look_ahead(&mut self, secrets_in: Arc<SecretsIn<'static>>) {
        if self.pictured {
            self.page.look_ahead(secrets_in);
        }
    }

    async fn outline(
        &mut self,
        max_characters: usize,
        longest: Option<Duration>,
    ) -> Result<Outline, PageError> {
        self.page.outline(max_characters, longest).await
    }
}
