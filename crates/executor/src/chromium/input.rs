//! Input: pointer, keys and text, each sent once, and stopped where it would arrive at another element than the one it is
//! meant for.

use std::time::Duration;

use capataz_cdp::patience::within;
use capataz_cdp::{Done, Reply, Session};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::ChromiumPage;
use super::call::{Failure, OTHER_FRAMES_LIMIT, READ_LIMIT};
use super::frames::{Maybe, Place, not_actionable};
use super::script::function;

use crate::keys::{Chord, Stroke};
use crate::page::{Button, Description, KeyBounds, KeyTaker, Node, Offset, PageError, Pointing, Struck};

/// The events of typing, which the guard stops where they would reach another element than the focused one.
const KEY_EVENTS: [&str; 4] = ["keydown", "keypress", "keyup", "beforeinput"];

/// The events of the right button. `contextmenu` is what it is for: what comes after it may go to the menu that the page has
/// opened there.
const RIGHT_CLICK_EVENTS: [&str; 6] =
    ["pointerdown", "mousedown", "pointerup", "mouseup", "auxclick", "contextmenu"];

const TYPING_EVENTS: [&str; 1] = ["beforeinput"];

/// A function that says whether a click on the element submits its form.
const SUBMITS: &str = "function(given) { \
    const element = capataz.node(given[0]); \
    return element instanceof Element && element.matches('button,input') \
        && (element.type === 'submit' || element.type === 'image'); }";

const ANSWERS: &str = "function() { return true; }";

/// What became of the events that a guard was armed for.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Verdict {
    delivered: bool,
    /// The element has received the beginning of a click, and not the rest.
    pressed: bool,
    blocked_by: Option<Description>,
    /// What it was blocked by does not lie over the element.
    moved: bool,
    detached: bool,
    /// An event came to the document, wherever in it.
    seen: bool,
    /// Of a key that has bounds.
    unjudged: Option<Unjudged>,
}

/// What a guard tells of a key while it stands.
#[derive(Debug, Deserialize)]
struct Heard {
    seen: bool,
}

/// What a key was stopped at.
#[derive(Debug, Deserialize)]
struct Unjudged {
    handle: u64,
    #[serde(flatten)]
    used: Struck,
    /// The key's beginning has passed.
    pressed: bool,
}

impl Unjudged {
    fn of(self, document: &str) -> PageError {
        let node = Node { frame: document.to_owned(), handle: self.handle };
        PageError::Unjudged { taker: Box::new(KeyTaker { node, used: self.used }), pressed: self.pressed }
    }
}

/// What the script says after it was asked to do something.
#[derive(Debug, Deserialize)]
struct Outcome {
    #[serde(default)]
    ok: bool,
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
            self.ask(node, function::CLEAR, json!([node.handle]), limit).await?;
            return Ok(());
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
        if now.is_none_or(|now| took(&now)) {
            Ok(())
        } else {
            Err(PageError::NotActionable { reason: "it did not take the text" })
        }
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

    pub(super) async fn press(
        &self,
        node: Option<&Node>,
        key: &str,
        bounds: Option<&KeyBounds>,
        limit: Duration,
    ) -> Result<(), PageError> {
        let unknown = || PageError::Failed(format!("there is no key {key:?}"));
        let chord = Chord::parse(key).ok_or_else(unknown)?;
        let document = match node {
            Some(node) => node.frame.clone(),
            None => self.main_document().await?,
        };
        let session = self.tab_session(&document).ok_or(PageError::Detached)?;
        let deadline = Instant::now() + limit;
        if let Some(node) = node {
            self.ask(node, function::FOCUS, json!([node.handle]), limit).await?;
        }
        // A guard may be left of an act that nobody waits for any more: this one takes its place.
        let guards = self.guard_key(node, &chord, bounds, deadline).await?;
        let mut taken = Ok(());
        let mut sent = strokes_down(&session, &chord);
        if uses_things(&chord) {
            // The key submits with what follows, so that is not sent where no guard would stop it.
            taken = self.taken(&session, std::mem::take(&mut sent), limit).await;
            if taken.is_ok()
                && let Err(error) = self.key_is_seen(&guards).await
            {
                let released = modifiers_up(&session, &chord);
                self.disarm(&guards).await;
                // What became of the key is told already.
                let _ = self.taken(&session, released, limit).await;
                return Err(error);
            }
        }
        if taken.is_ok() {
            sent.extend(strokes_up(&session, &chord));
            taken = self.taken(&session, sent, limit).await;
        }
        let verdict = self.key_verdict(node, &guards).await;
        taken?;
        verdict?;
        match node {
            Some(_) => Ok(()),
            None => self.answers(&document).await,
        }
    }

    /// Lets a key go to the element alone, or without one to whatever has the focus, in whichever document, within its
    /// bounds. A key that uses things is not to be sent while a document of the tab cannot stop it: one that does not answer
    /// in time may only be slow. A document that has gone meanwhile gets no key, but the one in its place may.
    async fn guard_key(
        &self,
        node: Option<&Node>,
        chord: &Chord,
        bounds: Option<&KeyBounds>,
        deadline: Instant,
    ) -> Result<Vec<(String, u64)>, PageError> {
        let uses = uses_things(chord);
        let mut asked: Vec<String> = Vec::new();
        let mut guards = Vec::new();
        let mut failed = None;
        while failed.is_none() {
            let left = deadline.saturating_duration_since(Instant::now());
            let outermost = match within(left, self.main_document()).await {
                Some(Ok(outermost)) => outermost,
                Some(Err(lost @ PageError::Lost { .. })) => {
                    failed = Some(lost);
                    break;
                }
                Some(Err(_)) | None => {
                    failed = Some(PageError::Unguarded { reason: "there is no document".to_owned() });
                    break;
                }
            };
            let mut documents = self.documents();
            documents.retain(|document| !asked.contains(document));
            if documents.is_empty() {
                break;
            }
            let tokens = documents.iter().map(async |document| {
                let is_own = node.is_some_and(|node| node.frame == *document);
                let patience = if is_own || *document == outermost { READ_LIMIT } else { OTHER_FRAMES_LIMIT };
                let key = bounds.map(|bounds| in_document(bounds, document));
                let arguments = match node {
                    Some(node) if is_own => json!([node.handle, KEY_EVENTS, key]),
                    Some(_) => armed(0, Some(&KEY_EVENTS)),
                    None => json!([null, KEY_EVENTS, key]),
                };
                let limit = patience.min(deadline.saturating_duration_since(Instant::now()));
                let token = self.script::<u64>(document, function::ARM, arguments, limit).await;
                (is_own, token)
            });
            let tokens = futures_util::future::join_all(tokens).await;
            for (document, (is_own, token)) in documents.into_iter().zip(tokens) {
                match token {
                    Ok(token) => guards.push((document.clone(), token)),
                    Err(Failure::Gone) if is_own => failed = Some(PageError::Detached),
                    Err(Failure::Gone) => {}
                    Err(Failure::Page(lost @ PageError::Lost { .. })) => failed = Some(lost),
                    Err(Failure::Page(error)) if uses || is_own => {
                        failed = Some(PageError::Unguarded { reason: error.to_string() });
                    }
                    Err(Failure::Page(_)) => {}
                }
                asked.push(document);
            }
        }
        match failed {
            None => Ok(guards),
            Some(error) => {
                self.disarm(&guards).await;
                Err(error)
            }
        }
    }

    /// Fails where no guard has seen the beginning of a key. A document that it has led away from has.
    async fn key_is_seen(&self, guards: &[(String, u64)]) -> Result<(), PageError> {
        let asked = guards.iter().map(async |(document, token)| {
            self.script::<Heard>(document, function::HELD, json!([token]), READ_LIMIT).await
        });
        // The one that has seen it is enough: another one may be busy with something else.
        let mut answers: FuturesUnordered<_> = asked.collect();
        let mut failed = PageError::Unseen;
        let mut gone = false;
        while let Some(held) = answers.next().await {
            match held {
                Ok(Heard { seen: true }) => return Ok(()),
                Ok(Heard { seen: false }) => {}
                Err(Failure::Gone) => gone = true,
                Err(Failure::Page(error)) => failed = error,
            }
        }
        if gone { Ok(()) } else { Err(failed) }
    }

    /// Takes the guards of a key away, and says what came of it. A key that no document tells of may have gone anywhere, but
    /// for one that was replaced because of it.
    async fn key_verdict(&self, node: Option<&Node>, guards: &[(String, u64)]) -> Result<(), PageError> {
        let is_own = |document: &String| node.is_some_and(|node| node.frame == *document);
        let verdicts = guards.iter().map(async |(document, token)| {
            let limit = if node.is_none() || is_own(document) { READ_LIMIT } else { OTHER_FRAMES_LIMIT };
            let arguments = json!([token, self.redaction]);
            self.script::<Verdict>(document, function::DISARM, arguments, limit).await
        });
        let verdicts = futures_util::future::join_all(verdicts).await;
        let (mut own, mut by, mut failed) = (None, None, None);
        let (mut seen, mut gone) = (false, false);
        for ((document, _), verdict) in guards.iter().zip(verdicts) {
            match verdict {
                Ok(Verdict { unjudged: Some(unjudged), .. }) => return Err(unjudged.of(document)),
                Ok(verdict) => {
                    seen |= verdict.seen;
                    if is_own(document) {
                        own = Some(verdict);
                    } else {
                        by = by.or(verdict.blocked_by);
                    }
                }
                Err(Failure::Gone) => gone = true,
                Err(Failure::Page(error)) => failed = failed.or(Some(error)),
            }
        }
        let arrived = own.as_ref().is_some_and(|own| own.delivered);
        match failed {
            Some(error) if !arrived => Err(error),
            _ if !seen && gone => Ok(()),
            _ if !seen => Err(PageError::Unseen),
            _ => own.map_or(Ok(()), |own| judged(Ok(own), by)),
        }
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
        let submits = self
            .function::<bool>(&node.frame, SUBMITS, json!([node.handle]), READ_LIMIT)
            .await
            .map_err(Failure::or_detached)?;
        if submits {
            return self.click(node, &Pointing::default(), limit).await;
        }
        self.ask(node, function::SUBMIT, json!([node.handle, self.redaction]), limit).await.map(drop)
    }

    /// Waits for an answer of the document, which comes after all that the document did about the input. A document
    /// that went away does nothing more.
    async fn answers(&self, document: &str) -> Result<(), PageError> {
        match self.function::<bool>(document, ANSWERS, Value::Null, READ_LIMIT).await {
            Ok(_) | Err(Failure::Gone) => Ok(()),
            Err(Failure::Page(error)) => Err(error),
        }
    }

    /// Lets the script do something to an element, once.
    async fn ask(
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
    fn tab_session(&self, document: &str) -> Option<Session> {
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

/// The bounds of a key for the guard of a document.
fn in_document(bounds: &KeyBounds, document: &str) -> Value {
    let here = bounds.judged.iter().filter(|node| node.frame == document);
    let judged: Vec<u64> = here.map(|node| node.handle).collect();
    json!({ "judged": judged, "maySubmit": bounds.may_submit })
}

fn armed(handle: u64, types: Option<&[&str]>) -> Value {
    match types {
        Some(types) => json!([handle, types]),
        None => json!([handle]),
    }
}

/// What came of the events, by the element's own document and by what they were stopped at in others.
fn judged(own: Result<Verdict, Failure>, others: Option<Description>) -> Result<(), PageError> {
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

/// True of a key that uses what has the focus: a button, a link, the form of a field.
fn uses_things(chord: &Chord) -> bool {
    matches!(chord.stroke.key.as_ref(), "Enter" | " ")
}

/// The beginning of a key. Modifiers go down first and up last. A key that uses things types nothing yet.
fn strokes_down(session: &Session, chord: &Chord) -> Vec<Reply<Done>> {
    let mut held = 0;
    let mut sent = Vec::new();
    for modifier in &chord.modifiers {
        held |= modifier.bit();
        sent.push(key(session, "rawKeyDown", &modifier.stroke(), held));
    }
    let types = chord.stroke.text.is_some() && !uses_things(chord);
    sent.push(if types {
        key(session, "keyDown", &chord.stroke, held)
    } else {
        key(session, "rawKeyDown", &untyped(&chord.stroke), held)
    });
    sent
}

/// The rest of a key, with what it types where that was left out of its beginning.
fn strokes_up(session: &Session, chord: &Chord) -> Vec<Reply<Done>> {
    let held = chord.modifiers.iter().fold(0, |held, modifier| held | modifier.bit());
    let mut sent = Vec::new();
    if chord.stroke.text.is_some() && uses_things(chord) {
        sent.push(key(session, "char", &chord.stroke, held));
    }
    sent.push(key(session, "keyUp", &untyped(&chord.stroke), held));
    sent.extend(modifiers_up(session, chord));
    sent
}

fn modifiers_up(session: &Session, chord: &Chord) -> Vec<Reply<Done>> {
    let mut held = chord.modifiers.iter().fold(0, |held, modifier| held | modifier.bit());
    let released = chord.modifiers.iter().rev().map(|modifier| {
        held &= !modifier.bit();
        key(session, "keyUp", &modifier.stroke(), held)
    });
    released.collect()
}

fn untyped(stroke: &Stroke) -> Stroke {
    Stroke { text: None, ..stroke.clone() }
}

fn key(session: &Session, kind: &str, stroke: &Stroke, modifiers: u8) -> Reply<Done> {
    let mut event = json!({
        "type": kind,
        "key": stroke.key,
        "code": stroke.code,
        "windowsVirtualKeyCode": stroke.number,
        "modifiers": modifiers,
        "location": stroke.location,
    });
    if let (Some(text), Some(event)) = (&stroke.text, event.as_object_mut()) {
        event.insert("text".to_owned(), text.as_str().into());
        event.insert("unmodifiedText".to_owned(), text.as_str().into());
    }
    session.send("Input.dispatchKeyEvent", event)
}
