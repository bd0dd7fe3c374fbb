//! `capataz sessions list` and `show`: the sessions of a daemon.

use capataz_contracts::{json, v1};
use serde_json::Value;

use super::{Daemon, Outcome};
use crate::args::{Global, SessionsArgs};
use crate::exit::Exit;
use crate::output::Output;
use crate::watch::follow::now_ms;
use capataz_display::session;
use capataz_display::words::{fill, words};

/// Sessions in one answer: the daemon's limit.
const PAGE: u32 = 500;

pub async fn list(args: SessionsArgs, global: &Global, out: &mut Output) -> Outcome {
    let daemon = Daemon::connect(global).await?;
    let mut sessions: Vec<v1::Session> = Vec::new();
    let begins_anew = args.page_token.is_empty();
    let mut page_token = args.page_token;
    loop {
        let left = args.limit.saturating_sub(u32::try_from(sessions.len()).unwrap_or(u32::MAX));
        if left == 0 {
            break;
        }
        let request = v1::ListSessionsRequest { page_size: left.min(PAGE), page_token };
        let page = daemon.client.list_sessions(request).await.map_err(|error| daemon.failure(error))?;
        sessions.extend(page.sessions);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    if out.json {
        let response = v1::ListSessionsResponse { sessions, next_page_token: page_token };
        let mut document = json::print("capataz.v1.ListSessionsResponse", &response);
        // Protobuf's JSON form omits empty lists, but an empty list is the answer here.
        if let Some(object) = document.as_object_mut() {
            object.entry("sessions").or_insert_with(|| Value::Array(Vec::new()));
        }
        out.document(&document);
        return Ok(Exit::Ok);
    }
    if sessions.is_empty() {
        out.line(words().session_views.none);
        return Ok(Exit::Ok);
    }
    // Pages are in the order of ids: only of all sessions can it be said which one changed last.
    if begins_anew && page_token.is_empty() {
        sessions.sort_by_key(|session| std::cmp::Reverse(session.updated_at_ms));
    }
    out.line(&session::list(&sessions, now_ms(), out.paint));
    if !page_token.is_empty() {
        out.note(&fill(words().session_views.more, &[&page_token]));
    }
    Ok(Exit::Ok)
}

pub async fn show(name: &str, global: &Global, out: &mut Output) -> Outcome {
    let daemon = Daemon::connect(global).await?;
    let session = daemon.client.get_session(name).await;
    let session = session.map_err(|error| daemon.failure(error).about_session(name))?;
    if out.json {
        out.document(&json::print("capataz.v1.Session", &session));
    } else {
        out.line(&session::show(&session, now_ms(), out.paint));
    }
    Ok(Exit::Ok)
}
