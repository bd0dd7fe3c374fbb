//! `capataz memory …`.

use capataz_contracts::{json, v1};
use capataz_display::error;
use capataz_display::memory as display;
use capataz_display::words::{counted, fill, words};
use serde_json::Value;

use super::{Daemon, Outcome};
use crate::args::{Global, MemoryCommand, MemorySearchArgs};
use crate::exit::Exit;
use crate::output::Output;
use crate::watch::follow::now_ms;

/// Entries in one answer: the daemon's limit.
const PAGE: u32 = 200;

pub async fn memory(command: MemoryCommand, global: &Global, out: &mut Output) -> Outcome {
    let daemon = Daemon::connect(global).await?;
    match command {
        MemoryCommand::Search(args) => search(&daemon, args, out).await,
        MemoryCommand::Show { entry } => {
            let request = v1::GetMemoryEntryRequest { entry_id: entry };
            let response = daemon.client.get_memory_entry(request).await;
            let response = response.map_err(|error| daemon.failure(error))?;
            if out.json {
                out.document(&json::print("capataz.v1.GetMemoryEntryResponse", &response));
            } else {
                out.line(&display::show(&response.entry.unwrap_or_default(), now_ms()));
            }
            Ok(Exit::Ok)
        }
        MemoryCommand::Forget { entries, session } => {
            let request = v1::ForgetMemoryRequest { session: session.clone(), entry_ids: entries };
            let response = daemon.client.forget_memory(request).await;
            let response = response.map_err(|error| daemon.failure(error))?;
            if out.json {
                out.document(&json::print("capataz.v1.ForgetMemoryResponse", &response));
                return Ok(Exit::Ok);
            }
            let texts = &words().memory;
            let entries = counted(response.forgotten.into(), texts.one, texts.many);
            out.line(&error::ok(&fill(texts.forgotten, &[&session, &entries]), out.paint));
            Ok(Exit::Ok)
        }
    }
}

async fn search(daemon: &Daemon, args: MemorySearchArgs, out: &mut Output) -> Outcome {
    let mut entries: Vec<v1::MemoryEntry> = Vec::new();
    let mut page_token = args.page_token;
    loop {
        let left = args.limit.saturating_sub(u32::try_from(entries.len()).unwrap_or(u32::MAX));
        if left == 0 {
            break;
        }
        let request = v1::SearchMemoryRequest {
            session: args.session.clone(),
            mode: args.mode.map(|mode| v1::ExecutionMode::from(mode).into()).unwrap_or_default(),
            r#type: args.kind.clone().unwrap_or_default(),
            text: args.text.clone(),
            page_size: left.min(PAGE),
            page_token,
        };
        let page = daemon.client.search_memory(request).await.map_err(|error| daemon.failure(error))?;
        entries.extend(page.entries);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    if out.json {
        let response = v1::SearchMemoryResponse { entries, next_page_token: page_token };
        let mut document = json::print("capataz.v1.SearchMemoryResponse", &response);
        // Protobuf's JSON form omits empty lists, but an empty list is the answer here.
        if let Some(object) = document.as_object_mut() {
            object.entry("entries").or_insert_with(|| Value::Array(Vec::new()));
        }
        out.document(&document);
        return Ok(Exit::Ok);
    }
    if entries.is_empty() {
        out.line(&fill(words().memory.none, &[&args.session]));
        return Ok(Exit::Ok);
    }
    out.line(&display::list(&entries, now_ms(), out.paint));
    if !page_token.is_empty() {
        out.note(&fill(words().session_views.more, &[&page_token]));
    }
    Ok(Exit::Ok)
}
