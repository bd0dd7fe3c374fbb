//! MemoryService: what execution modes remember is found, shown and forgotten (seed 004).

use std::sync::Arc;

use capataz_contracts::v1::memory_service_server::MemoryService;
use capataz_contracts::{Violation, v1, validate};
use capataz_policy::codes;
use capataz_runtime::Runtime;
use capataz_shard::projection::{mode_name, mode_named};
use capataz_store::{FoundEntry, MAX_MEMORY_NAME, MEMORY_TYPES, MemoryPage, MemorySearch, Millis};
use tonic::{Code, Request, Response, Status};

use super::runs::answer;
use super::starts::refuse;
use crate::status;

/// Entries of a page, where nobody says how many.
const PAGE: u32 = 50;
/// The most entries of a page: each has 2,000 bytes at most, and their names.
const PAGE_MAX: u32 = 200;
/// Entries that are looked at for a page, whether they have the text or not.
const ENTRIES_LOOKED_AT: usize = 1_000;
/// Bytes of a text that is looked for.
const TEXT_MAX: usize = 256;
/// Entries that are forgotten at once.
const FORGET_MAX: usize = 100;

pub(super) struct Memory {
    runtime: Runtime,
}

impl Memory {
    pub(super) fn new(runtime: Runtime) -> Self {
        Self { runtime }
    }
}

#[tonic::async_trait]
impl MemoryService for Memory {
    async fn search_memory(
        &self,
        request: Request<v1::SearchMemoryRequest>,
    ) -> Result<Response<v1::SearchMemoryResponse>, Status> {
        let search = search_of(request.into_inner())?;
        let store = Arc::clone(self.runtime.store());
        let read = move || store.memories(&search).map_err(|error| status::store(&error));
        let MemoryPage { entries, next } = answer(&self.runtime, read).await?;
        let next_page_token = next.map(token_of).unwrap_or_default();
        let entries = entries.into_iter().map(entry).collect();
        Ok(Response::new(v1::SearchMemoryResponse { entries, next_page_token }))
    }

    async fn get_memory_entry(
        &self,
        request: Request<v1::GetMemoryEntryRequest>,
    ) -> Result<Response<v1::GetMemoryEntryResponse>, Status> {
        let id = request.into_inner().entry_id;
        refuse(&entry_id("entry_id", &id))?;
        let store = Arc::clone(self.runtime.store());
        let read = move || {
            let found = store.memory_entry(&id).map_err(|error| status::store(&error))?;
            match found {
                Some(found) => Ok(found),
                None => Err(match store.is_forgotten(&id).map_err(|error| status::store(&error))? {
                    true => not_found(&format!("the entry {id:?} was forgotten")),
                    false => not_found(&format!("there is no entry {id:?}")),
                }),
            }
        };
        let found = answer(&self.runtime, read).await?;
        Ok(Response::new(v1::GetMemoryEntryResponse { entry: Some(entry(found)) }))
    }

    async fn forget_memory(
        &self,
        request: Request<v1::ForgetMemoryRequest>,
    ) -> Result<Response<v1::ForgetMemoryResponse>, Status> {
        let v1::ForgetMemoryRequest { session, entry_ids } = request.into_inner();
        let mut violations = validate::session(&session);
        if !(1..=FORGET_MAX).contains(&entry_ids.len()) {
            let message =
                format!("{} entries; from 1 to {FORGET_MAX} are forgotten at once", entry_ids.len());
            violations.push(Violation::new("entry_ids", "limit", message));
        } else {
            let places = entry_ids.iter().enumerate();
            violations.extend(places.flat_map(|(place, id)| entry_id(&format!("entry_ids[{place}]"), id)));
        }
        refuse(&violations)?;
        let store = Arc::clone(self.runtime.store());
        let of = session.clone();
        let read = move || {
            let (mut there, mut unknown) = (Vec::new(), Vec::new());
            for id in entry_ids {
                let found = store.memory_entry(&id).map_err(|error| status::store(&error))?;
                match found.filter(|found| found.entry.session == of) {
                    Some(_) if !there.contains(&id) => there.push(id),
                    Some(_) => {}
                    None if store.is_forgotten(&id).map_err(|error| status::store(&error))? => {}
                    None => unknown.push(format!("{id:?}")),
                }
            }
            match unknown.is_empty() {
                true => Ok(there),
                false => Err(not_found(&format!("session {of:?} has no entry {}", unknown.join(", none ")))),
            }
        };
        let there = answer(&self.runtime, read).await?;
        let forgotten = u32::try_from(there.len()).unwrap_or(u32::MAX);
        if forgotten > 0 {
            let done = self.runtime.forget(session, there).await;
            done.map_err(|declined| status::declined(&declined))?;
        }
        Ok(Response::new(v1::ForgetMemoryResponse { forgotten }))
    }
}

fn not_found(message: &str) -> Status {
    status::status(Code::NotFound, codes::MEMORY_NOT_FOUND, message.to_owned())
}

fn entry_id(path: &str, id: &str) -> Vec<Violation> {
    if (1..=MAX_MEMORY_NAME).contains(&id.len()) {
        return Vec::new();
    }
    vec![Violation::new(path, "length", format!("an id has 1 to {MAX_MEMORY_NAME} bytes"))]
}

/// The search that is asked for.
fn search_of(request: v1::SearchMemoryRequest) -> Result<MemorySearch, Status> {
    let v1::SearchMemoryRequest { session, mode, r#type, text, page_size, page_token } = request;
    let mut violations = validate::session(&session);
    let known = v1::ExecutionMode::try_from(mode);
    if known.is_err() {
        let message = "one of simple, planner and supervised, or none".to_owned();
        violations.push(Violation::new("mode", "enum", message));
    }
    if !r#type.is_empty() && !MEMORY_TYPES.contains(&r#type.as_str()) {
        let message = format!("one of {}, or none", MEMORY_TYPES.join(", "));
        violations.push(Violation::new("type", "enum", message));
    }
    if text.len() > TEXT_MAX {
        let message = format!("a text that is looked for has at most {TEXT_MAX} bytes");
        violations.push(Violation::new("text", "length", message));
    }
    let after = match page_token.as_str() {
        "" => None,
        token => {
            let place = place_of(token);
            if place.is_none() {
                violations.push(Violation::new("page_token", "token", "is not a page token".to_owned()));
            }
            place
        }
    };
    refuse(&violations)?;
    let size = if page_size == 0 { PAGE } else { page_size.min(PAGE_MAX) };
    Ok(MemorySearch {
        session,
        mode: mode_name(known.unwrap_or_default()).map(str::to_owned),
        kind: Some(r#type).filter(|kind| !kind.is_empty()),
        text: Some(text).filter(|text| !text.is_empty()),
        after,
        limit: usize::try_from(size).unwrap_or(usize::MAX),
        looked_at: ENTRIES_LOOKED_AT,
    })
}

/// A page ends with the entry that the next one begins after: its time and its id.
fn token_of((at, id): (Millis, String)) -> String {
    format!("{}.{id}", at.0)
}

fn place_of(token: &str) -> Option<(Millis, String)> {
    let (at, id) = token.split_once('.')?;
    let is_id = (1..=MAX_MEMORY_NAME).contains(&id.len());
    Some((Millis(at.parse().ok()?), id.to_owned())).filter(|_| is_id)
}

fn entry(found: FoundEntry) -> v1::MemoryEntry {
    let FoundEntry { id, run, place, relevance, entry } = found;
    v1::MemoryEntry {
        entry_id: id,
        session: entry.session,
        mode: mode_named(&entry.mode).into(),
        r#type: entry.kind,
        at_ms: entry.at.0,
        content: entry.content,
        digest: entry.digest,
        tools: entry.tools,
        files: entry.files,
        related_to: entry.related_to,
        relevance,
        run_id: run.to_string(),
        seq: place.seq,
    }
}
