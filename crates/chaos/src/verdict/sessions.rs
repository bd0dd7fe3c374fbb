//! Sessions, held against the asks in them: each answered ask is in its session once, one came after the other, each
//! found what was said before it, and their order is that in which they were accepted.

use std::collections::BTreeMap;

use capataz_client::v1;
use capataz_contracts::v1::event::Body;
use serde_json::Value;

use super::logs::{Log, SessionLog};
use super::{Facts, Verdict, inline};
use crate::EVERYTHING;
use crate::records::{Call, ClientRecord, SubscriberRecord};

/// The messages that an ask finds of its session, at most.
const HISTORY: usize = 20;

pub(crate) fn judge(facts: &Facts, verdict: &mut Verdict) {
    let mut turns: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for session in facts.sessions.values() {
        verdict.sessions += 1;
        let name = session.view.session.as_str();
        numbers(session, verdict);
        acceptances(session, facts, verdict);
        turns.insert(name, conversation(session, &facts.logs, verdict));
    }
    for (run, log) in &facts.logs {
        ask(run, log, &turns, verdict);
    }
    let (accepted, told) = (accepted(facts), told(facts));
    for (name, turns) in turns {
        for pair in turns.windows(2) {
            let &[before, after] = pair else { continue };
            let place = || format!("session {name}: ask {after} comes after ask {before}");
            if let (Some(first), Some(second)) = (accepted.get(before), accepted.get(after))
                && second < first
            {
                verdict.wrong.push(format!("{}, and was accepted before it", place()));
            }
        }
        out_of_order(name, &turns, &told, verdict);
    }
}

fn numbers(session: &SessionLog, verdict: &mut Verdict) {
    let name = &session.view.session;
    for (expected, event) in (1..).zip(&session.events) {
        if event.seq != expected {
            verdict.gaps.push(format!("session {name}: event {} where {expected} is due", event.seq));
            return;
        }
        let opens = matches!(&event.body, Some(Body::SessionOpened(body)) if body.session == *name);
        if opens != (expected == 1) {
            verdict.wrong.push(format!("session {name}: event {expected} is not what is due"));
        }
    }
    let last = session.events.last().map_or(0, |event| event.seq);
    if session.view.seq != last {
        verdict.gaps.push(format!("session {name}: shown at event {}, exported to {last}", session.view.seq));
    }
}

/// A suggestion is accepted once, and an acceptance that was acknowledged is in the session.
fn acceptances(session: &SessionLog, facts: &Facts, verdict: &mut Verdict) {
    let name = &session.view.session;
    let mut accepted: BTreeMap<&str, u64> = BTreeMap::new();
    for event in &session.events {
        let Some(Body::SessionTransitionAccepted(body)) = &event.body else { continue };
        verdict.accepted_transitions += 1;
        let first = *accepted.entry(&body.request_id).or_insert(event.seq);
        if first != event.seq {
            let text = format!("session {name}: the suggestion of {} is accepted twice", body.request_id);
            verdict.doubled.push(text);
        }
    }
    for record in facts.clients.values().flatten() {
        let ClientRecord::Accepted { session: of, request, seq, .. } = record else { continue };
        if of == name && accepted.get(request.as_str()) != Some(seq) {
            let text = format!("session {name}: event {seq} was told to accept what {request} suggested");
            verdict.lost.push(format!("{text}, and does not"));
        }
    }
}

/// What is said in the session, ask by ask; their runs in the order of their turns.
fn conversation<'a>(
    session: &'a SessionLog,
    logs: &BTreeMap<String, Log>,
    verdict: &mut Verdict,
) -> Vec<&'a str> {
    let name = &session.view.session;
    let mut said: Vec<v1::SessionMessage> = Vec::new();
    let mut turns: Vec<&str> = Vec::new();
    for event in &session.events {
        let Some(Body::SessionTurn(turn)) = &event.body else { continue };
        let run = turn.run_id.as_str();
        verdict.turns += 1;
        verdict.transitions += turn.transitions.len() as u64;
        if turns.contains(&run) {
            verdict.doubled.push(format!("session {name}: ask {run} is there twice"));
        }
        turns.push(run);
        match logs.get(run).filter(|log| log.session() == Some(name)) {
            Some(log) => {
                found(name, run, log, &said, verdict);
                if !is_told(log, turn) {
                    verdict.wrong.push(format!("session {name}: not what ask {run} said and was answered"));
                }
            }
            None => verdict.wrong.push(format!("session {name}: {run} is not an ask of it")),
        }
        said.extend(turn.messages.iter().cloned());
    }
    if shown(session.view.context.as_ref()) != (said.len() as u64, last(&said)) {
        verdict.gaps.push(format!("session {name}: its messages are not those of its asks"));
    }
    turns
}

/// What an ask found is what was said before it: so the ask before it had ended, and nothing is missing.
fn found(session: &str, run: &str, log: &Log, said: &[v1::SessionMessage], verdict: &mut Verdict) {
    let begun: Vec<_> = log
        .bodies()
        .filter_map(|body| match body {
            Body::AskBegun(body) => Some(shown(body.context.as_ref())),
            _ => None,
        })
        .collect();
    if begun.len() != 1 {
        verdict.doubled.push(format!("session {session}: ask {run} has begun {} times", begun.len()));
    }
    if begun.first().is_some_and(|found| *found != (said.len() as u64, last(said))) {
        verdict.gaps.push(format!("session {session}: ask {run} did not find what was said before it"));
    }
}

fn shown(context: Option<&v1::SessionContext>) -> (u64, &[v1::SessionMessage]) {
    context.map_or((0, &[]), |context| (context.message_count, context.history.as_slice()))
}

fn last(said: &[v1::SessionMessage]) -> &[v1::SessionMessage] {
    said.get(said.len().saturating_sub(HISTORY)..).unwrap_or_default()
}

/// Whether the turn holds the ask's text, and the answer of its last call where that has one.
fn is_told(log: &Log, turn: &v1::SessionTurn) -> bool {
    let settled = log.bodies().filter_map(|body| match body {
        Body::TaskSettled(body) => Some(body),
        _ => None,
    });
    let answer = settled.last().and_then(|settled| serde_json::from_slice::<Value>(inline(settled)).ok());
    let answer = answer.as_ref().and_then(|answer| answer["response"]["text"].as_str());
    let asked = log.ask().map(|ask| ask.text.as_str());
    let told: Vec<&str> = turn.messages.iter().map(|message| message.text.as_str()).collect();
    told == asked.into_iter().chain(answer).collect::<Vec<_>>()
}

/// An ask that has ended is in its session, unless it was cancelled; one that has not is not.
fn ask(run: &str, log: &Log, turns: &BTreeMap<&str, Vec<&str>>, verdict: &mut Verdict) {
    let Some(session) = log.session() else { return };
    let is_there = turns.get(session).is_some_and(|turns| turns.contains(&run));
    let called = log.bodies().any(|body| matches!(body, Body::TaskSettled(_)));
    let cancelled = log.view.outcome == Some(v1::RunOutcome::Cancelled as i32);
    match log.is_finished() && !cancelled && called {
        true if !is_there => verdict.lost.push(format!("session {session}: ask {run} is not there")),
        false if is_there => {
            verdict.wrong.push(format!("session {session}: ask {run} is there, and was not answered"));
        }
        _ => {}
    }
}

/// Where the start of each run is in the stream of everything.
fn accepted(facts: &Facts) -> BTreeMap<&str, usize> {
    let mut places = BTreeMap::new();
    for (place, record) in facts.subscribers.get(EVERYTHING).into_iter().flatten().enumerate() {
        if let SubscriberRecord::Event { run, seq: 1, .. } = record {
            places.entry(run.as_str()).or_insert(place);
        }
    }
    places
}

/// When the start of a run was sent for the first time, and when it was acknowledged for the first time.
type Told = (u64, u64);

fn told(facts: &Facts) -> BTreeMap<&str, Told> {
    let mut sent: BTreeMap<&str, u64> = BTreeMap::new();
    let mut told = BTreeMap::new();
    for record in facts.clients.values().flatten() {
        match record {
            ClientRecord::Sent { at, call: Call::Start | Call::StartBatch | Call::Execute, key, .. } => {
                sent.entry(key).or_insert(*at);
            }
            ClientRecord::Started { at, key, run, .. } => {
                if let Some(sent) = sent.get(key.as_str()) {
                    told.entry(run.as_str()).or_insert((*sent, *at));
                }
            }
            _ => {}
        }
    }
    told
}

/// An ask that was acknowledged before another one was sent has its turn before it.
fn out_of_order(session: &str, turns: &[&str], told: &BTreeMap<&str, Told>, verdict: &mut Verdict) {
    // The latest first sending among the asks so far, and whose it was.
    let mut latest: Option<(u64, &str)> = None;
    for run in turns {
        let Some((sent, acknowledged)) = told.get(run) else { continue };
        if let Some((later, other)) = latest
            && *acknowledged < later
        {
            let text = format!(
                "session {session}: ask {run} comes after ask {other}, which was sent after its acknowledgement"
            );
            verdict.wrong.push(text);
        }
        if latest.is_none_or(|(later, _)| *sent > later) {
            latest = Some((*sent, run));
        }
    }
}
