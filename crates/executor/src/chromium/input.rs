//! Input: pointer and text, each sent once, and stopped where it would arrive at another element than the one it is
//! meant for.

use std::time::Duration;

use capataz_cdp::{Done, Reply, Session};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::ChromiumPage;
use super::call::{Failure, OTHER_FRAMES_LIMIT, READ_LIMIT};
use super::frames::{Maybe, Place, not_actionable};
use super::script::function;

use crate::page::{Button, Description, KeyTaker, Node, Offset, PageError, Pointing, Struck, SubmittingKeys};

/// The events of the right button. `contextmenu` is what it is for: what comes after it may go to the menu that the page has
/// opened there.
const RIGHT_CLICK_EVENTS: [&str; 6] =
    ["pointerdown", "mousedown", "pointerup", "mouseup", "auxclick", "contextmenu"];

const TYPING_EVENTS: [&str; 1] = ["beforeinput"];

const ANSWERS: &str = "function() { return true; }";

/// What became of the events that a guard was armed for.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Verdict {
    pub(super) delivered: bool,
    /// The element has received the beginning of a click, and not the rest.
    pressed: bool,
    pub(super) blocked_by: Option<Description>,
    /// What it was blocked by does not lie over the element.
    moved: bool,
    detached: bool,
    /// An event came to the document, wherever in it.
    pub(super) seen: bool,
    /// Of a key that has bounds.
    pub(super) unjudged: Option<Unjudged>,
}

/// What a key was stopped at.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Unjudged {
    handle: u64,
    #[serde(flatten)]
    used: Struck,
    /// The key's beginning has passed.
    pressed: bool,
    /// As of [`SubmittingKeys`].
    hidden_in: Option<u64>,
}

impl ChromiumPage {
    /// The error of a key that was stopped in a document.
    pub(super) async fn unjudged(&self, document: &str, stopped: Unjudged, key: &str) -> PageError {
        let Unjudged { handle, mut used, pressed, hidden_in } = stopped;
        let node = Node { frame: document.to_owned(), handle };
        if hidden_in.is_some() {
            let told = SubmittingKeys { submits_by_enter: true, submits_by_space: true, hidden_in };
            // Of what has gone away meanwhile, it is as the page's script said.
            if let Ok(keys) = self.keys_told(&node, told).await {
                used.submits = if key == "Enter" { keys.submits_by_enter } else { keys.submits_by_space };
            }
        }
        PageError::Unjudged { taker: Box::new(KeyTaker { node, used }), pressed }
    }
}

/// What the script says after it was asked to do something.
#[derive(Debug, Deserialize)]
pub(super) struct Outcome {
    #[serde(default)]
    ok: bool,
    /// Of [`function::SUBMIT`].
    #[serde(default)]
    direct: bool,
    reason: Option<String>,
    token: Option<u64>,
    before: Option<Entered>,
}

/// What is in an element that takes text: its value, or its text where it has none.
#[derive(Debug, Deserialize)]
struct Entered {
    value: Option<String>,
    text: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Filled {
    verdict: Verdict,
    now: Option<Entered>,
}

enum Ready {
    /// The field is focused, and this was its content before.
    Armed(Guards, Entered),
    /// The field does not take typed characters, so its value is set directly.
    Direct,
}

impl Outcome {
    fn ok(self) -> Result<Self, PageError> {
        if self.ok { Ok(self) } else { Err(not_actionable(self.reason.as_deref())) }
    }
}

/// Guards that stand in the documents of a tab until they are taken away.
pub(super) struct Guards {
    /// Each document with its token.
    others: Vec<(String, u64)>,
    pub(super) token: u64,
}

impl ChromiumPage {
    pub(super) async fn click(
        &mut self,
        node: &Node,
        how: &Pointing,
        limit: Duration,
    ) -> Result<(), PageError> {
        let deadline = Instant::now() + limit;
        let place = self.place(node, how.at, limit).await?;
        let session = self.input_session(node)?;
        let types = (how.button == Button::Right).then_some(RIGHT_CLICK_EVENTS.as_slice());
        let guards = self.guard(node, types).await?;
        let pointer = Pointer::new(&session, how);
        let mut sent = pointer.arrive(&place);
        for click in 1..=how.count.max(1) {
            sent.push(pointer.press(place.point(), click));
            sent.push(pointer.release(place.point(), click));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let taken = self.taken(&session, sent, left).await;
        let verdict = self.verdict(node, guards).await;
        taken?;
        verdict
    }

    pub(super) async fn hover(
        &mut self,
        node: &Node,
        at: Option<Offset>,
        limit: Duration,
    ) -> Result<(), PageError> {
        let place = self.place(node, at, limit).await?;
        let session = self.input_session(node)?;
        let pointer = Pointer::new(&session, &Pointing::default());
        self.taken(&session, pointer.arrive(&place), limit).await?;
        self.answers(&node.frame).await
    }

    pub(super) async fn fill(&self, node: &Node, text: &str, limit: Duration) -> Result<(), PageError> {
        let session = self.input_session(node)?;
        if text.is_empty() {
            return match self.ask(node, function::CLEAR, json!([node.handle]), limit).await {
                // It was emptied, and the page has put something there.
                Err(PageError::NotActionable { reason: "still has a value" }) => Err(not_taken()),
                cleared => cleared.map(drop),
            };
        }
        match self.ready_to_fill(node, false, limit).await? {
            Ready::Armed(guards, before) => self.insert(node, text, (guards, before), session, limit).await,
            Ready::Direct => {
                self.ask(node, function::SET_VALUE, json!([node.handle, text]), limit).await?;
                Ok(())
            }
        }
    }

    /// Types at the end of what is in the element.
    pub(super) async fn type_after(&self, node: &Node, text: &str, limit: Duration) -> Result<(), PageError> {
        let session = self.input_session(node)?;
        match self.ready_to_fill(node, true, limit).await? {
            // Nothing to type, and the element could have taken it.
            Ready::Armed(guards, _) if text.is_empty() => {
                self.disarm(&[(node.frame.clone(), guards.token)]).await;
                self.disarm(&guards.others).await;
                Ok(())
            }
            Ready::Armed(guards, before) => self.insert(node, text, (guards, before), session, limit).await,
            Ready::Direct => Err(PageError::NotActionable { reason: "it takes no characters" }),
        }
    }

    async fn insert(
        &self,
        node: &Node,
        text: &str,
        (guards, before): (Guards, Entered),
        session: Session,
        limit: Duration,
    ) -> Result<(), PageError> {
        let typed = session.send::<Done>("Input.insertText", json!({ "text": text }));
        let taken = self.taken(&session, vec![typed], limit).await;
        let arguments = json!([node.handle, guards.token, self.redaction]);
        let (own, others) = tokio::join!(
            self.script::<Filled>(&node.frame, function::FILLED, arguments, READ_LIMIT),
            self.disarm(&guards.others),
        );
        let (own, now) = match own {
            Ok(filled) => (Ok(filled.verdict), filled.now),
            Err(failure) => (Err(failure), None),
        };
        let verdict = judged(own, others);
        taken?;
        verdict?;
        // A page may give the text another form, but the content must have changed.
        let took = |now: &Entered| match (&now.value, &before.value) {
            (Some(now), Some(before)) => now != before || now == text,
            _ => now.text != before.text || now.text.as_ref().is_some_and(|now| now.contains(text.trim())),
        };
        // The element is gone where the text led to another page, as that of a search field may.
        if now.is_none_or(|now| took(&now)) { Ok(()) } else { Err(not_taken()) }
    }

    /// Focuses the element, selects what is in it, or goes to its end where the text `adds` to it, and arms it for typing; all that in one call, beside those that close
    /// the other frames.
    async fn ready_to_fill(&self, node: &Node, adds: bool, limit: Duration) -> Result<Ready, PageError> {
        let arguments = json!([node.handle, TYPING_EVENTS, adds]);
        let (own, others) = tokio::join!(
            self.script::<Maybe<Outcome>>(&node.frame, function::READY_TO_FILL, arguments, limit),
            self.guard_others(node, Some(&TYPING_EVENTS)),
        );
        let ready = match own.map_err(Failure::or_detached).and_then(Maybe::here).and_then(Outcome::ok) {
            Ok(Outcome { token: Some(token), before: Some(before), .. }) => {
                return Ok(Ready::Armed(Guards { others, token }, before));
            }
            Ok(_) => Ok(Ready::Direct),
            Err(error) => Err(error),
        };
        self.disarm(&others).await;
        ready
    }

    pub(super) async fn select(
        &self,
        node: &Node,
        values: &[String],
        limit: Duration,
    ) -> Result<(), PageError> {
        self.ask(node, function::SELECT_OPTIONS, json!([node.handle, values]), limit).await.map(drop)
    }

    pub(super) async fn submit(&mut self, node: &Node, limit: Duration) -> Result<(), PageError> {
        let arguments = json!([node.handle, self.redaction]);
        if self.ask(node, function::SUBMIT, arguments, limit).await?.direct {
            return self.click(node, &Pointing::default(), limit).await;
        }
        Ok(())
    }

    /// Waits for an answer of the document, which comes after all that the document did about the input. A document
    /// that went away does nothing more.
    pub(super) async fn answers(&self, document: &str) -> Result<(), PageError> {
        match self.function::<bool>(document, ANSWERS, Value::Null, READ_LIMIT).await {
            Ok(_) | Err(Failure::Gone) => Ok(()),
            Err(Failure::Page(error)) => Err(error),
        }
    }

    /// Lets the script do something to an element, once.
    pub(super) async fn ask(
        &self,
        node: &Node,
        function: &'static str,
        arguments: Value,
        limit: Duration,
    ) -> Result<Outcome, PageError> {
        let outcome: Maybe<Outcome> =
            self.script(&node.frame, function, arguments, limit).await.map_err(Failure::or_detached)?;
        outcome.here()?.ok()
    }

    /// Where the element is: where it settled, if that was the last thing done, and else where it settles now.
    async fn place(&mut self, node: &Node, at: Option<Offset>, limit: Duration) -> Result<Place, PageError> {
        match self.settled.take() {
            Some((settled, settled_at, place)) if settled == *node && settled_at == at => Ok(place),
            _ => self.settle_place(node, at, limit).await,
        }
    }

    /// The session of the tab that shows a document: all input goes through it, and the browser finds the frame.
    pub(super) fn tab_session(&self, document: &str) -> Option<Session> {
        let state = self.shared.read();
        let (_, tab) = state.frame_of_context(document)?;
        Some(self.connection.session(&tab.session))
    }

    pub(super) fn input_session(&self, node: &Node) -> Result<Session, PageError> {
        if let Some(lost) = self.lost() {
            return Err(lost);
        }
        self.tab_session(&node.frame).ok_or(PageError::Detached)
    }

    /// Lets events of these types, of clicks if none are named, pass at the element alone; in the documents of all other
    /// frames nothing passes.
    pub(super) async fn guard(&self, node: &Node, types: Option<&[&str]>) -> Result<Guards, PageError> {
        let (own, others) = tokio::join!(
            self.script::<u64>(&node.frame, function::ARM, armed(node.handle, types), READ_LIMIT),
            self.guard_others(node, types),
        );
        match own {
            Ok(token) => Ok(Guards { others, token }),
            Err(failure) => {
                self.disarm(&others).await;
                Err(failure.or_detached())
            }
        }
    }

    /// Lets nothing pass in the documents of all other frames. One that does not answer in time does not handle events of the
    /// pointer either; of keys that use things, `guard_key` makes sure.
    pub(super) async fn guard_others(&self, node: &Node, types: Option<&[&str]>) -> Vec<(String, u64)> {
        let mut documents = self.documents();
        documents.retain(|document| *document != node.frame);
        let tokens =
            self.scripts::<u64>(&documents, function::ARM, armed(0, types), OTHER_FRAMES_LIMIT).await;
        let armed = documents.into_iter().zip(tokens);
        armed.filter_map(|(document, token)| Some((document, token.ok()?))).collect()
    }

    /// Takes the guards away, and says what came of the events.
    pub(super) async fn verdict(&self, node: &Node, guards: Guards) -> Result<(), PageError> {
        let arguments = json!([guards.token, self.redaction]);
        let (own, others) = tokio::join!(
            self.script::<Verdict>(&node.frame, function::DISARM, arguments, READ_LIMIT),
            self.disarm(&guards.others),
        );
        judged(own, others)
    }

    /// Returns what an event was stopped at. All frames are asked at once.
    pub(super) async fn disarm(&self, guards: &[(String, u64)]) -> Option<Description> {
        let verdicts = guards.iter().map(async |(document, token)| {
            let arguments = json!([token, self.redaction]);
            let verdict: Result<Verdict, Failure> =
                self.script(document, function::DISARM, arguments, OTHER_FRAMES_LIMIT).await;
            verdict.ok().and_then(|verdict| verdict.blocked_by)
        });
        futures_util::future::join_all(verdicts).await.into_iter().flatten().next()
    }

    /// Waits until the page has taken the events that were sent. A tab that has closed takes no more, so there the wait
    /// ends.
    pub(super) async fn taken(
        &self,
        session: &Session,
        sent: Vec<Reply<Done>>,
        limit: Duration,
    ) -> Result<(), PageError> {
        let deadline = Instant::now() + limit;
        for reply in sent {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.answer(session, reply, left).await {
                Ok(Done {}) | Err(Failure::Gone) => {}
                Err(Failure::Page(PageError::Unanswered { .. })) => {
                    return Err(PageError::Unanswered {
                        waiting_for: "a sign that the page has taken the input",
                        limit,
                    });
                }
                Err(Failure::Page(error)) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The page has received the text, and may have had an effect of it.
fn not_taken() -> PageError {
    PageError::Failed("the field did not take the text".to_owned())
}

pub(super) fn armed(handle: u64, types: Option<&[&str]>) -> Value {
    match types {
        Some(types) => json!([handle, types]),
        None => json!([handle]),
    }
}

/// What came of the events, by the element's own document and by what they were stopped at in others.
pub(super) fn judged(own: Result<Verdict, Failure>, others: Option<Description>) -> Result<(), PageError> {
    match own {
        Ok(Verdict { delivered: true, .. }) => Ok(()),
        Ok(Verdict { pressed: true, blocked_by, .. }) => {
            Err(PageError::Interrupted { by: blocked_by.or(others).map(Box::new) })
        }
        // The events met another element in the target's place, but none lay over the target.
        Ok(Verdict { detached: true, .. }) => Err(PageError::Detached),
        Ok(Verdict { blocked_by: Some(by), moved: true, .. }) => {
            Err(PageError::Moved { by: Some(Box::new(by)) })
        }
        Ok(Verdict { blocked_by: Some(by), .. }) => Err(PageError::Covered { by: Some(Box::new(by)) }),
        Ok(_) => match others {
            Some(by) => Err(PageError::Covered { by: Some(Box::new(by)) }),
            None => Err(PageError::NotActionable { reason: "the event did not arrive" }),
        },
        // The document that the event arrived in led on to another one, or closed its tab.
        Err(Failure::Gone) => Ok(()),
        Err(Failure::Page(error)) => Err(error),
    }
}

/// The pressure of a button that is down, of a device that measures none (Pointer Events, `pressure`).
const PRESSURE: f64 = 0.5;

/// The pointer of a tab, with the button that is used and the keys that are held.
pub(super) struct Pointer<'a> {
    session: &'a Session,
    button: Button,
    modifiers: u8,
}

impl<'a> Pointer<'a> {
    pub(super) fn new(session: &'a Session, how: &Pointing) -> Self {
        let modifiers = how.modifiers.iter().fold(0, |held, modifier| held | modifier.bit());
        Self { session, button: how.button, modifiers }
    }

    /// It comes in several moves, as that of a hand, all of them within the element; the last one is to the point.
    pub(super) fn arrive(&self, place: &Place) -> Vec<Reply<Done>> {
        let (x, y) = place.point();
        let step = |part: f64| (x - place.rect.width * part, y - place.rect.height * part);
        [step(0.25), step(0.125), (x, y)].map(|point| self.go(point, false)).into()
    }

    /// `held`: the button is down.
    pub(super) fn go(&self, point: (f64, f64), held: bool) -> Reply<Done> {
        self.event("mouseMoved", point, 0, held)
    }

    /// `click`: which one in a row.
    pub(super) fn press(&self, point: (f64, f64), click: u32) -> Reply<Done> {
        self.event("mousePressed", point, click, true)
    }

    pub(super) fn release(&self, point: (f64, f64), click: u32) -> Reply<Done> {
        self.event("mouseReleased", point, click, false)
    }

    /// What is dragged is brought to a point, or dropped there.
    pub(super) fn carry(&self, kind: &str, (x, y): (f64, f64), data: &Value) -> Reply<Done> {
        let event = json!({ "type": kind, "x": x, "y": y, "data": data, "modifiers": self.modifiers });
        self.session.send("Input.dispatchDragEvent", event)
    }

    fn event(&self, kind: &str, (x, y): (f64, f64), click: u32, down: bool) -> Reply<Done> {
        let (name, bit) = match self.button {
            Button::Left => ("left", 1),
            Button::Right => ("right", 2),
        };
        let event = json!({
            "type": kind,
            "x": x,
            "y": y,
            "button": if click == 0 && !down { "none" } else { name },
            "buttons": if down { bit } else { 0 },
            "clickCount": click,
            "modifiers": self.modifiers,
            "force": if down { PRESSURE } else { 0.0 },
            "pointerType": "mouse",
        });
        self.session.send("Input.dispatchMouseEvent", event)
    }
}
