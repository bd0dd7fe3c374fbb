//! A page that is a list of elements, in a time of its own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use capataz_contracts::v1;
use serde_json::json;

use crate::page::{
    Act, Description, Element, Facts, FailedDocument, Locator, Look, Node, Offset, Outline, Page, PageError,
    PageLog, Picture, Query, Rect, SecretsIn, Settled, Sight, Skeleton, Struck, SubmittingKeys, WaitUntil,
};
use crate::perform::Clock;

/// Milliseconds that pass only where somebody waits.
#[derive(Clone, Debug, Default)]
pub struct Time(Arc<AtomicU64>);

impl Clock for Time {
    fn now_ms(&self) -> i64 {
        1_800_000_000_000 + i64::try_from(self.0.load(Ordering::Relaxed)).unwrap()
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

impl Time {
    fn pass(&self, time: Duration) {
        self.0.fetch_add(u64::try_from(time.as_millis()).unwrap(), Ordering::Relaxed);
    }
}

/// Everything that was asked of the page and of the sink, in order.
pub type Log = Arc<Mutex<Vec<String>>>;

pub type Reaction = Box<dyn FnOnce(&mut FakePage) -> Result<(), PageError> + Send>;

#[derive(Clone, Debug)]
pub struct Fake {
    /// Locators that match it.
    pub matches: Vec<Locator>,
    pub facts: Facts,
    pub name: String,
    pub tag: String,
}

/// A visible, enabled element that is found by its testid.
pub fn element(testid: &str) -> Fake {
    let facts = Facts { attached: true, visible: true, enabled: true, ..Facts::default() };
    Fake {
        matches: vec![Locator::Testid { value: testid.to_owned() }],
        facts,
        name: testid.to_owned(),
        tag: "button".to_owned(),
    }
}

impl Fake {
    pub fn with(mut self, change: impl FnOnce(&mut Facts)) -> Self {
        change(&mut self.facts);
        self
    }
}

pub struct FakePage {
    pub time: Time,
    pub log: Log,
    pub url: String,
    pub title: String,
    pub text: String,
    /// Of an iframe.
    pub frame_text: String,
    pub elements: Vec<Fake>,
    /// The reactions to the next acts, in order; later acts succeed and change nothing.
    pub reactions: Vec<Reaction>,
    /// What happens by itself, each after so many milliseconds.
    pub later: Vec<(u64, Reaction)>,
    pub changes: v1::PageChanges,
    pub failed_document: Option<FailedDocument>,
    /// What the page has written to its console.
    pub written: PageLog,
    /// Paths of downloads that have begun and not ended.
    pub pending: Vec<String>,
    /// Acts fail with this after the reactions.
    pub stops: Option<PageError>,
    pub settles: Result<(), PageError>,
    /// What lies within every element at its centre.
    pub struck: Option<Arc<Struck>>,
    /// Of what has the focus.
    pub focused_keys: SubmittingKeys,
    /// Elements rest from the beginning, so that the page is seen while they are watched.
    pub rests: bool,
    /// Methods that fail, and how.
    pub broken: Vec<(&'static str, PageError)>,
}

impl FakePage {
    pub fn new(elements: Vec<Fake>) -> Self {
        Self {
            time: Time::default(),
            log: Log::default(),
            url: "https://example.com/form".to_owned(),
            title: "Form".to_owned(),
            text: "A form".to_owned(),
            frame_text: String::new(),
            elements,
            reactions: Vec::new(),
            later: Vec::new(),
            changes: v1::PageChanges::default(),
            failed_document: None,
            written: PageLog::default(),
            pending: Vec::new(),
            stops: None,
            settles: Ok(()),
            struck: None,
            focused_keys: SubmittingKeys::default(),
            rests: false,
            broken: Vec::new(),
        }
    }

    pub fn note(&self, what: impl Into<String>) {
        self.log.lock().unwrap().push(what.into());
    }

    fn fails(&self, method: &str) -> Result<(), PageError> {
        match self.broken.iter().find(|(broken, _)| *broken == method) {
            Some((_, error)) => Err(error.clone()),
            None => Ok(()),
        }
    }

    fn element(&self, index: usize) -> Element {
        let fake = &self.elements[index];
        Element {
            node: Node { frame: "main".to_owned(), handle: index as u64 },
            description: self.description(index),
            facts: fake.facts.clone(),
        }
    }

    fn description(&self, index: usize) -> Description {
        let fake = &self.elements[index];
        Description {
            tag: fake.tag.clone(),
            role: fake.tag.clone(),
            name: fake.name.clone(),
            path: format!("body > :nth-child({index})"),
            ..Description::default()
        }
    }
}

pub fn kind(locator: &Locator) -> String {
    let value = serde_json::to_value(locator).unwrap();
    value["kind"].as_str().unwrap().to_owned()
}

fn reason(locator: &Locator) -> Option<String> {
    let is_unreadable = matches!(locator, Locator::Css { value } if value.contains("!!"));
    is_unreadable.then(|| format!("{locator:?} cannot be read"))
}

impl Page for FakePage {
    async fn unreadable(&mut self, locators: &[&Locator]) -> Result<Vec<Option<String>>, PageError> {
        self.fails("unreadable")?;
        Ok(locators.iter().map(|locator| reason(locator)).collect())
    }

    fn limit_reads(&mut self, _: Option<Duration>) {}

    async fn look(&mut self, query: &Query) -> Result<Look, PageError> {
        self.fails("look")?;
        let mut look = Look::default();
        for locator in &query.locators {
            look.invalid = reason(locator);
            if look.invalid.is_some() {
                return Ok(look);
            }
            let matching = |(_, fake): &(usize, &Fake)| fake.matches.contains(locator);
            let found: Vec<usize> =
                self.elements.iter().enumerate().filter(matching).map(|(index, _)| index).collect();
            if found.is_empty() {
                look.tried.push(kind(locator));
                continue;
            }
            look.locator = Some(kind(locator));
            look.count = u32::try_from(found.len()).unwrap();
            look.sample = found.iter().take(5).map(|index| self.description(*index)).collect();
            let place = match query.nth {
                Some(nth) => found.get(nth as usize),
                None => found.first().filter(|_| found.len() == 1),
            };
            look.element = place.map(|index| self.element(*index));
            break;
        }
        Ok(look)
    }

    async fn facts(&mut self, node: &Node, _: &[String]) -> Result<Facts, PageError> {
        self.fails("facts")?;
        let fake = self.elements.get(usize::try_from(node.handle).unwrap());
        fake.map(|fake| fake.facts.clone()).ok_or(PageError::Detached)
    }

    async fn focused_keys(&mut self) -> Result<SubmittingKeys, PageError> {
        self.fails("focused_keys")?;
        Ok(self.focused_keys)
    }

    async fn table(&mut self, _: &Node) -> Result<Vec<Vec<String>>, PageError> {
        self.fails("table")?;
        Ok(vec![vec!["Ana".to_owned(), "4111 1111 1111 1111".to_owned()]])
    }

    async fn changed(&mut self, limit: Duration) -> Result<(), PageError> {
        self.fails("changed")?;
        let now = self.time.monotonic();
        let next = self.later.iter().position(|(at, _)| Duration::from_millis(*at) <= now + limit);
        match next {
            Some(index) => {
                let (at, happens) = self.later.remove(index);
                self.time.pass(Duration::from_millis(at).saturating_sub(now));
                happens(self)
            }
            None => {
                self.time.pass(limit);
                Ok(())
            }
        }
    }

    async fn settle(
        &mut self,
        _: &Node,
        _: Option<Offset>,
        _: Duration,
        secrets_in: Option<&SecretsIn<'_>>,
    ) -> Result<Settled, PageError> {
        self.note("settle");
        self.settles.clone()?;
        let rect = Rect { x: 1.0, y: 2.0, width: 3.0, height: 4.0 };
        if !self.rests {
            return Ok(Settled { rect, sight: None, struck: self.struck.clone() });
        }
        Ok(Settled { rect, sight: Some(self.sight(secrets_in).await?), struck: self.struck.clone() })
    }

    async fn act(&mut self, act: Act, _: WaitUntil, _: Duration) -> Result<(), PageError> {
        self.note(format!("act {act:?}"));
        match self.stops.clone() {
            _ if !self.reactions.is_empty() => self.reactions.remove(0)(self),
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    async fn downloads_ended(&mut self, _: bool, limit: Duration) -> Result<bool, PageError> {
        self.fails("downloads_ended")?;
        let ended = !self.changes.downloads.is_empty();
        if !ended {
            self.time.pass(limit);
        }
        Ok(ended)
    }

    fn pending_downloads(&mut self) -> Vec<String> {
        self.pending.clone()
    }

    fn answer_dialogs(&mut self, answer: v1::DialogAnswer, prompt: Option<String>) {
        self.note(format!("dialogs {answer:?} {prompt:?}"));
    }

    fn take_changes(&mut self) -> v1::PageChanges {
        std::mem::take(&mut self.changes)
    }

    fn take_failed_document(&mut self) -> Option<FailedDocument> {
        self.failed_document.take()
    }

    async fn take_log(&mut self) -> PageLog {
        std::mem::take(&mut self.written)
    }

    async fn location(&mut self) -> Result<(String, String), PageError> {
        self.fails("location")?;
        Ok((self.url.clone(), self.title.clone()))
    }

    async fn text(&mut self) -> Result<String, PageError> {
        self.fails("text")?;
        Ok(self.text.clone())
    }

    async fn whole_text(&mut self) -> Result<String, PageError> {
        Ok(format!("{}\n{}", self.text().await?, self.frame_text))
    }

    async fn skeleton(&mut self) -> Result<Skeleton, PageError> {
        self.fails("skeleton")?;
        let names: Vec<&str> = self.elements.iter().map(|fake| fake.name.as_str()).collect();
        Ok(Skeleton {
            url: self.url.clone(),
            title: self.title.clone(),
            dom: names.join("\n"),
            ..Skeleton::default()
        })
    }

    async fn snapshot(&mut self, nodes: &[Node]) -> Result<serde_json::Value, PageError> {
        self.fails("snapshot")?;
        Ok(json!({"url": self.url, "title": self.title, "targets": nodes.len(), "text": self.text}))
    }

    async fn state(&mut self, nodes: &[Node]) -> Result<(Skeleton, serde_json::Value), PageError> {
        Ok((self.skeleton().await?, self.snapshot(nodes).await?))
    }

    async fn html(&mut self) -> Result<String, PageError> {
        self.fails("html")?;
        Ok(format!("<title>{}</title>{}", self.title, self.text))
    }

    async fn screenshot(
        &mut self,
        full_page: bool,
        secrets_in: &SecretsIn<'_>,
    ) -> Result<Picture, PageError> {
        self.fails("screenshot")?;
        self.note("screenshot");
        let masked = !secrets_in(&self.text).is_empty();
        let acts = self.log.lock().unwrap().iter().filter(|entry| entry.starts_with("act")).count();
        Ok(Picture { png: format!("png {full_page} after {acts} acts").into(), masked })
    }

    async fn sight(&mut self, secrets_in: Option<&SecretsIn<'_>>) -> Result<Sight, PageError> {
        let skeleton = self.skeleton().await?;
        let picture = match secrets_in {
            Some(secrets_in) => Some(self.screenshot(false, secrets_in).await?),
            None => None,
        };
        Ok(Sight { skeleton, picture })
    }

    fn look_ahead(&mut self, _: Arc<SecretsIn<'static>>) {
        self.note("look ahead");
    }

    async fn outline(&mut self, _: usize, _: Option<Duration>) -> Result<Outline, PageError> {
        Ok(Outline { text: self.text.clone(), truncated: false })
    }
}
