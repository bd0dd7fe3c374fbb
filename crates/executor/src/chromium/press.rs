//! Keys, each sent once. Enter and Space use what has the focus, so they go no further than where a guard stands.

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
use super::input::{Verdict, armed, judged};
use super::script::function;
use crate::keys::{Chord, Stroke};
use crate::page::{KeyBounds, Node, PageError};

/// The events of typing, which the guard stops where they would reach another element than the focused one.
const KEY_EVENTS: [&str; 4] = ["keydown", "keypress", "keyup", "beforeinput"];

/// What a guard tells of a key while it stands.
#[derive(Debug, Deserialize)]
struct Heard {
    seen: bool,
}

impl ChromiumPage {
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
            // A form is submitted by the rest of the key, which is not sent where no guard would stop it.
            taken = self.taken(&session, std::mem::take(&mut sent), limit).await;
            if taken.is_ok()
                && let Err(error) = self.key_is_seen(node, &guards).await
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
        let verdict = self.key_verdict(node, &guards, chord.stroke.key.as_ref()).await;
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
            // Without a guard for the element's own document nothing would tell that the key did not arrive.
            documents.extend(node.map(|node| node.frame.clone()).filter(|own| !documents.contains(own)));
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
    async fn key_is_seen(&self, node: Option<&Node>, guards: &[(String, u64)]) -> Result<(), PageError> {
        let asked = guards.iter().map(async |(document, token)| {
            let held = self.script::<Heard>(document, function::HELD, json!([token]), READ_LIMIT).await;
            (may_have_had(node, document), held)
        });
        // The one that has seen it is enough: another one may be busy with something else.
        let mut answers: FuturesUnordered<_> = asked.collect();
        let mut failed = PageError::Unseen;
        let mut gone = false;
        while let Some((may_have_had, held)) = answers.next().await {
            match held {
                Ok(Heard { seen: true }) => return Ok(()),
                Ok(Heard { seen: false }) => {}
                Err(Failure::Gone) => gone |= may_have_had,
                Err(Failure::Page(error)) => failed = error,
            }
        }
        if gone { Ok(()) } else { Err(failed) }
    }

    /// Takes the guards of a key away, and says what came of it. A key that no document tells of may have gone anywhere, but
    /// for one that was replaced because of it.
    async fn key_verdict(
        &self,
        node: Option<&Node>,
        guards: &[(String, u64)],
        key: &str,
    ) -> Result<(), PageError> {
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
                Ok(Verdict { unjudged: Some(unjudged), .. }) => {
                    return Err(self.unjudged(document, unjudged, key).await);
                }
                Ok(verdict) => {
                    seen |= verdict.seen;
                    if is_own(document) {
                        own = Some(verdict);
                    } else {
                        by = by.or(verdict.blocked_by);
                    }
                }
                Err(Failure::Gone) => gone |= may_have_had(node, document),
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
}

/// Whether a key may have gone to this document, and so have led away from it: one that was meant for an element goes to no
/// other document than its own, and another that is gone is gone for a reason of its own.
fn may_have_had(node: Option<&Node>, document: &str) -> bool {
    node.is_none_or(|node| node.frame == document)
}

/// The bounds of a key for the guard of a document.
fn in_document(bounds: &KeyBounds, document: &str) -> Value {
    let here = bounds.judged.iter().filter(|node| node.frame == document);
    let judged: Vec<u64> = here.map(|node| node.handle).collect();
    json!({ "judged": judged, "maySubmit": bounds.may_submit })
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
