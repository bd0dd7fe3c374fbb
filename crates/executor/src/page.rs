//! The port to a browser's page. Nothing here waits for a condition by itself, but for [`Page::changed`] and the limits
//! that are passed in; nothing here knows codes, stages or policies.

use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use capataz_contracts::v1;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::keys::Modifier;

/// One kind of locator with what it looks for, in the order in which they are tried (rule U4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Locator {
    Ref { value: String },
    Testid { value: String },
    Role { role: String, name: Option<String> },
    Label { value: String },
    Css { value: String },
    Xpath { value: String },
    Text { value: String },
}

/// Where to look: the first locator that matches anything decides.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Query {
    pub locators: Vec<Locator>,
    pub nth: Option<u32>,
    /// The one element that all that matches is inside of.
    pub within: Option<Box<Query>>,
    /// A normalised text: what is in the smallest element around it that has any match.
    pub near: Option<String>,
    /// The iframes that lead there, outermost first; each a query of its own.
    #[serde(skip)]
    pub frame: Vec<Query>,
    /// Attributes that are wanted of the element.
    pub attributes: Vec<String>,
}

/// An element that was found. Valid until its document goes away; it never means another element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The id of the frame's document, as the adapter gives it.
    pub frame: String,
    pub handle: u64,
}

/// A rectangle in CSS pixels of the outermost viewport.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Rect {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

/// What a query found.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Look {
    /// The locator that decided: its kind; `None` where nothing matched.
    pub locator: Option<String>,
    /// Kinds that matched nothing, in order.
    pub tried: Vec<String>,
    /// What the deciding locator matched, before `nth`.
    pub count: u32,
    /// At most five of the matches, described without anything secret.
    pub sample: Vec<Description>,
    /// The elements in the sample.
    pub matches: Vec<Node>,
    /// The element, where it is exactly one, after `nth`.
    pub element: Option<Element>,
    /// Index in the frame path of the iframe that was not found, or found more than once; the count is then its.
    pub frame_missing: Option<usize>,
    /// The part of the target, `within` or `near`, that was not found, or found more than once; the count is then its.
    pub part_missing: Option<String>,
    /// The locator cannot be read, such as a CSS selector with a mistake.
    pub invalid: Option<String>,
}

/// An element, described by what is safe to keep.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Description {
    pub tag: String,
    pub role: String,
    /// Accessible name, redacted.
    pub name: String,
    pub testid: Option<String>,
    pub id: Option<String>,
    /// A CSS path from the nearest root, for people.
    pub path: String,
}

/// For people: `button "Send" form > button`.
impl fmt::Display for Description {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.role.is_empty() { &self.tag } else { &self.role };
        write!(formatter, "{what} \"{}\" {}", self.name, self.path)
    }
}

fn named(element: Option<&Description>) -> String {
    element.map_or_else(|| "something else".to_owned(), Description::to_string)
}

/// What is to be known of an element before and after it is acted on.
#[derive(Clone, Debug, PartialEq)]
pub struct Element {
    pub node: Node,
    pub description: Description,
    pub facts: Facts,
}

#[derive(Clone, Debug, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Facts {
    pub attached: bool,
    /// Has a box, and is neither hidden nor fully transparent in `visibility`.
    pub visible: bool,
    pub enabled: bool,
    /// Takes text: an input of text, a textarea, contenteditable; not read-only.
    pub editable: bool,
    /// The state of a check box, radio button, switch or the like; `None` for everything else.
    pub checked: Option<bool>,
    /// As it is read, normalised.
    pub text: String,
    /// The value of an input, textarea or select. Secret values are here too, and must not be kept: see `secret`.
    pub value: Option<String>,
    /// A password input, or declared for redaction.
    pub secret: bool,
    /// Those that were asked for and are there.
    pub attributes: std::collections::BTreeMap<String, String>,
    /// `type` of an input.
    pub input_type: Option<String>,
    /// Labels and values of a select's options.
    pub options: Vec<SelectOption>,
    /// A file input that takes several files; names of the files in a file input.
    pub multiple: bool,
    pub files: Vec<String>,
    /// Accessible names, redacted, of what a click on it is for besides: the button around it, the control of its label.
    pub used_names: Vec<String>,
    /// Where a link or the form of a control leads: an absolute URL.
    pub destination: Option<String>,
    /// A click on it submits a form.
    pub submits: bool,
    /// Keys that are pressed on it, or on what has the focus within it, do.
    #[serde(flatten)]
    pub submitting_keys: SubmittingKeys,
    /// The handle of the visible label of a control that is not visible itself.
    pub label: Option<u64>,
    /// Of a label: the handle of its control.
    pub control: Option<u64>,
    pub rect: Rect,
    /// What lies over its centre where that is not the element itself or within it.
    pub covered_by: Option<Description>,
    pub in_viewport: bool,
}

/// The keys that submit a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubmittingKeys {
    pub submits_by_enter: bool,
    pub submits_by_space: bool,
    /// The handle of the element for which alone they may, as nobody can see what has the focus in it.
    pub hidden_in: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SelectOption {
    pub value: String,
    pub label: String,
    pub selected: bool,
    pub disabled: bool,
}

/// What is done to the page. One act is sent once.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    Navigate {
        url: String,
    },
    Back,
    Forward,
    Reload,
    Click {
        node: Node,
        how: Pointing,
    },
    Hover {
        node: Node,
        at: Option<Offset>,
    },
    /// Presses the pointer on the element, moves it, and lets go.
    Drag {
        node: Node,
        how: Pointing,
        drop: Drop,
    },
    /// Replaces the value.
    Fill {
        node: Node,
        text: String,
    },
    /// Adds to what is there, at its end.
    Type {
        node: Node,
        text: String,
    },
    /// A key or a combination; to the element, which is focused first, or to what has the focus.
    Press {
        node: Option<Node>,
        key: String,
        /// What Enter and Space may do; without it, anything.
        bounds: Option<KeyBounds>,
    },
    /// Values of the options to be selected.
    Select {
        node: Node,
        values: Vec<String>,
    },
    /// Submits the form of the element: by a click where the element is a control of it, else as its button would.
    Submit {
        node: Node,
    },
    Upload {
        node: Node,
        files: Vec<PathBuf>,
    },
    ScrollTo {
        node: Node,
    },
}

impl Act {
    /// The element that the act is done to.
    #[must_use]
    pub fn node(&self) -> Option<&Node> {
        match self {
            Self::Navigate { .. } | Self::Back | Self::Forward | Self::Reload => None,
            Self::Press { node, .. } => node.as_ref(),
            Self::Click { node, .. }
            | Self::Hover { node, .. }
            | Self::Drag { node, .. }
            | Self::Fill { node, .. }
            | Self::Type { node, .. }
            | Self::Select { node, .. }
            | Self::Submit { node }
            | Self::Upload { node, .. }
            | Self::ScrollTo { node } => Some(node),
        }
    }
}

/// How the pointer is used on an element.
#[derive(Clone, Debug, PartialEq)]
pub struct Pointing {
    /// How often it is clicked: twice for a double click.
    pub count: u32,
    pub button: Button,
    /// Keys that are held meanwhile.
    pub modifiers: Vec<Modifier>,
    /// The place within the element; its centre where there is none.
    pub at: Option<Offset>,
}

impl Default for Pointing {
    /// One click at the centre.
    fn default() -> Self {
        Self { count: 1, button: Button::Left, modifiers: Vec::new(), at: None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Button {
    Left,
    Right,
}

/// A distance in CSS pixels.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Offset {
    pub x: f64,
    pub y: f64,
}

/// What a key that uses things may do. It is examined when the key arrives, since pages move the focus.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct KeyBounds {
    /// What may use the key besides the element that is named.
    pub judged: Vec<Node>,
    /// The key may submit a form.
    pub may_submit: bool,
}

/// What gets a key: something within the element that is named, or what has the focus where none is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyTaker {
    pub node: Node,
    pub used: Struck,
}

/// Where something is dragged to.
#[derive(Clone, Debug, PartialEq)]
pub enum Drop {
    On(Node),
    By(Offset),
}

/// What is waited for after a navigation, within the act's limit.
pub use v1::WaitUntil;

/// Why an act or a look did not come about.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PageError {
    /// The event would have gone, or went and was stopped, at another element: nothing received it.
    #[error("the element is covered by {}", named(.by.as_deref()))]
    Covered { by: Option<Box<Description>> },
    /// The event went to where the element was, and was stopped at what is there now: nothing received it.
    #[error("the element has moved away, and {} is where it was", named(.by.as_deref()))]
    Moved { by: Option<Box<Description>> },
    /// The element has received the press of a click or a drag, and was then covered, replaced or removed, or what it was to
    /// be dropped on was: the rest was stopped, and nothing else received it.
    #[error("the element was pressed, and the rest was stopped at {}", named(.by.as_deref()))]
    Interrupted { by: Option<Box<Description>> },
    /// A key was stopped where it would have gone beyond its bounds. `pressed`: the page has received the key's beginning,
    /// and has moved the focus then.
    #[error("the key would be used by {}", .taker.used.names.first().map_or("something else", String::as_str))]
    Unjudged { taker: Box<KeyTaker>, pressed: bool },
    /// A document of the page could not be made ready to stop the key: nothing was sent.
    #[error("the key was not sent, since nothing could have stopped it in a document of the page: {reason}")]
    Unguarded { reason: String },
    /// A key was sent, and no document of the page tells of it: it may have had any effect.
    #[error("nobody can tell what has received the key")]
    Unseen,
    /// The element or its document is gone. Nothing was sent.
    #[error("the element is no longer in the page")]
    Detached,
    /// It has no box, moves, or cannot be scrolled into view.
    #[error("the element cannot be acted on: {reason}")]
    NotActionable { reason: &'static str },
    /// The document did not come in time; loading was stopped.
    #[error("{waiting_for} did not come within {} ms", .limit.as_millis())]
    TooSlow { waiting_for: &'static str, limit: Duration },
    /// The page, or the browser, did not answer in time. What was sent may have had its effect.
    #[error("{waiting_for} did not come within {} ms", .limit.as_millis())]
    Unanswered { waiting_for: &'static str, limit: Duration },
    /// The browser refused the navigation: a network error, in Chromium's words.
    #[error("the page could not be loaded: {reason}")]
    NotLoaded {
        reason: String,
        /// The document that did not come, where the browser names it.
        url: Option<String>,
    },
    /// A navigation, sub-request or redirect that the allowlist refuses.
    #[error("{} is not on the allowlist", .0.host)]
    Blocked(Box<v1::BlockedRequest>),
    /// The tab has crashed, or the browser is gone.
    #[error("the browser is lost: {reason}")]
    Lost { reason: String },
    /// What the page answered makes no sense, or is too large.
    #[error("{0}")]
    Failed(String),
}

/// What the page looks like, for its signature: canonical texts, redacted, to be hashed.
#[derive(Clone, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Skeleton {
    pub url: String,
    pub title: String,
    /// The visible interactive skeleton: a line for each element, with role, name and state, whatever the target.
    pub dom: String,
    pub anchors: String,
    /// Names and values of fields; for a secret field, only whether it is filled.
    pub inputs: String,
}

/// What stands in texts of a page in the place of what is secret by its element.
pub const PAGE_MASK: &str = "[redacted]";

/// A document that the network did not give, in whose place the browser shows a page of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedDocument {
    pub url: String,
    /// The browser's name for the error.
    pub net_error: String,
}

/// The parts of a page that must never leave it unmasked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PageRedaction {
    /// CSS selectors of the script's policy.
    pub selectors: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// PNG, with masks over everything secret.
    pub png: Bytes,
    pub masked: bool,
}

/// What a page has written to its console, and its requests that have failed; bounded, and not redacted.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct PageLog {
    pub console: Vec<ConsoleLine>,
    pub requests: Vec<FailedRequest>,
    /// Entries for which there was no room.
    pub left_out: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct ConsoleLine {
    /// The console's function, such as `log` or `error`; `exception` for what no script has caught.
    pub level: String,
    pub text: String,
    /// The script that wrote it, and its line, from 1.
    pub url: String,
    pub line: u32,
    /// How often it was written, one after the other.
    pub count: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct FailedRequest {
    /// Such as `fetch`, `image` or `document`.
    pub kind: String,
    pub url: String,
    /// Chromium's words, or the HTTP status.
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    pub text: String,
    pub truncated: bool,
}

/// An element that rests where it can receive events.
#[derive(Clone, Debug, PartialEq)]
pub struct Settled {
    /// The box in the outermost viewport; its centre is the point that receives events.
    pub rect: Rect,
    /// The page, seen while the element was watched. Only where it rested from the beginning, in view: what else
    /// was to be waited for, or scrolled, changed what the page looks like.
    pub sight: Option<Sight>,
    /// What the pointer would use there, where that is something of its own within the element.
    pub struck: Option<Arc<Struck>>,
}

/// What receives an event within an element, such as a button in a form: at the point of the pointer, or by the focus. What
/// is done to the element is done to this.
#[derive(Clone, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Struck {
    /// Accessible names, redacted, from the innermost outward.
    pub names: Vec<String>,
    /// As of [`Facts`].
    pub submits: bool,
    pub destination: Option<String>,
}

/// What the whole page looks like.
#[derive(Clone, Debug, PartialEq)]
pub struct Sight {
    pub skeleton: Skeleton,
    /// Where one was asked for.
    pub picture: Option<Picture>,
}

/// Tells where in a text something is secret by its looks: ranges of bytes, in order, none within another.
pub type SecretsIn<'a> = dyn Fn(&str) -> Vec<Range<usize>> + Send + Sync + 'a;

/// A page in a browser, and the tabs that it opens.
pub trait Page: Send {
    /// For each locator, the reason why its selector or expression cannot be read, or `None`. Only CSS and XPath are examined.
    fn unreadable(
        &mut self,
        locators: &[&Locator],
    ) -> impl Future<Output = Result<Vec<Option<String>>, PageError>> + Send;

    /// What is read of the page from now on fails where it has not come within this time from now. `None`: each read has a limit
    /// of its own.
    fn limit_reads(&mut self, limit: Option<Duration>);

    /// Finds elements; one round trip for each frame of the path. Never waits.
    fn look(&mut self, query: &Query) -> impl Future<Output = Result<Look, PageError>> + Send;

    /// Looks at an element that was found before. [`PageError::Detached`] where it is gone.
    fn facts(
        &mut self,
        node: &Node,
        attributes: &[String],
    ) -> impl Future<Output = Result<Facts, PageError>> + Send;

    /// The keys that submit a form when they are pressed on what has the focus, in whichever frame.
    fn focused_keys(&mut self) -> impl Future<Output = Result<SubmittingKeys, PageError>> + Send;

    /// Rows of a table, each a list of texts.
    fn table(&mut self, node: &Node) -> impl Future<Output = Result<Vec<Vec<String>>, PageError>> + Send;

    /// Waits until something on the page may have changed, or until the limit. Never fails by the limit.
    fn changed(&mut self, limit: Duration) -> impl Future<Output = Result<(), PageError>> + Send;

    /// Waits until the element has the same box in two frames one after the other, is scrolled into view, and would
    /// receive an event at this place in it, else at its centre. With `secrets_in`, the sight has a picture, as of [`Page::screenshot`].
    fn settle(
        &mut self,
        node: &Node,
        at: Option<Offset>,
        limit: Duration,
        secrets_in: Option<&SecretsIn<'_>>,
    ) -> impl Future<Output = Result<Settled, PageError>> + Send;

    /// Performs the act, once. Clicks check what really receives the event when it arrives, and stop it where that is
    /// not the element.
    fn act(
        &mut self,
        act: Act,
        until: WaitUntil,
        limit: Duration,
    ) -> impl Future<Output = Result<(), PageError>> + Send;

    /// Waits until every download that began since the last [`Page::take_changes`] has ended; at least one where
    /// `expected`. `false`: none began, or not all of them ended, within the limit.
    fn downloads_ended(
        &mut self,
        expected: bool,
        limit: Duration,
    ) -> impl Future<Output = Result<bool, PageError>> + Send;

    /// The paths of the downloads that have begun and not ended.
    fn pending_downloads(&mut self) -> Vec<String>;

    /// How dialogs are answered from now on, and with which text prompts that are accepted; without one, with their own.
    fn answer_dialogs(&mut self, answer: v1::DialogAnswer, prompt: Option<String>);

    /// What happened since the last call: navigations, redirects, dialogs, tabs, downloads, blocked requests. URLs and
    /// texts are as the page has them: redaction is the caller's.
    fn take_changes(&mut self) -> v1::PageChanges;

    /// The document that a tab of the last act, or the current tab, did not get since the last call and since that act. Not
    /// one that the allowlist refused, of which the changes tell, and not one in whose place another one has come.
    fn take_failed_document(&mut self) -> Option<FailedDocument>;

    /// What the page has written, and which of its requests have failed, since the last call; empty where nobody listens.
    fn take_log(&mut self) -> impl Future<Output = PageLog> + Send;

    /// URL and title, as they are.
    fn location(&mut self) -> impl Future<Output = Result<(String, String), PageError>> + Send;

    /// The text of the whole page as it is read.
    fn text(&mut self) -> impl Future<Output = Result<String, PageError>> + Send;

    /// The same with the texts of its frames.
    fn whole_text(&mut self) -> impl Future<Output = Result<String, PageError>> + Send;

    fn skeleton(&mut self) -> impl Future<Output = Result<Skeleton, PageError>> + Send;

    /// The `dom_snapshot_partial` of seed 002, section 3: url, title, the nodes with ancestors and siblings, visible
    /// anchors and inputs. A JSON object.
    fn snapshot(&mut self, nodes: &[Node]) -> impl Future<Output = Result<Value, PageError>> + Send;

    /// The skeleton and the snapshot of the same moment.
    fn state(&mut self, nodes: &[Node]) -> impl Future<Output = Result<(Skeleton, Value), PageError>> + Send;

    /// The document as HTML, and after it those of its frames, without values of secret inputs.
    fn html(&mut self) -> impl Future<Output = Result<String, PageError>> + Send;

    /// What is secret by its element is masked, and what is secret by the text that the page shows.
    fn screenshot(
        &mut self,
        full_page: bool,
        secrets_in: &SecretsIn<'_>,
    ) -> impl Future<Output = Result<Picture, PageError>> + Send;

    /// What the whole page looks like; with `secrets_in`, with a picture, as of [`Page::screenshot`]. It may be one that
    /// was begun by [`Page::look_ahead`], where the page has shown no sign of change since.
    fn sight(
        &mut self,
        secrets_in: Option<&SecretsIn<'_>>,
    ) -> impl Future<Output = Result<Sight, PageError>> + Send;

    /// Begins to take a picture for the next [`Page::sight`] or [`Page::settle`], as soon as the page rests, and does not
    /// wait for it. Whatever is done to the page makes it worthless.
    fn look_ahead(&mut self, secrets_in: Arc<SecretsIn<'static>>);

    /// The page for a model to read; elements that can be named have references for [`Locator::Ref`].
    /// What comes after `longest` is left out of a document; without one, after the adapter's own time.
    fn outline(
        &mut self,
        max_characters: usize,
        longest: Option<Duration>,
    ) -> impl Future<Output = Result<Outline, PageError>> + Send;
}
