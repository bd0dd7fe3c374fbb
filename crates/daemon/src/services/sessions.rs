//! SessionService: sessions as they stand.

use std::sync::Arc;

use capataz_contracts::v1::session_service_server::SessionService;
use capataz_contracts::{Violation, v1, validate};
use capataz_engine::Wall;
use capataz_engine::session::SessionState;
use capataz_policy::session as policy;
use capataz_runtime::Runtime;
use capataz_shard::journal::load_session;
use capataz_shard::{ImportReply, ImportSession, TransitionReply, session_stream};
use capataz_store::{RunId, RunQuery};
use tonic::{Code, Request, Response, Status};

use super::listing;
use super::runs::{answer, unreadable};
use crate::status;

/// Repairs that are told with a state at most, and the bytes of each.
const MAX_REPAIRS: usize = 100;
const MAX_REPAIR_BYTES: usize = 1_000;

const DEFAULT_PAGE: u32 = 50;
const MAX_PAGE: u32 = 500;

pub(super) struct Sessions {
    runtime: Runtime,
}

impl Sessions {
    pub(super) fn new(runtime: Runtime) -> Self {
        Self { runtime }
    }
}

/// A session by its name; `None` where nothing was ever said in it.
pub(super) async fn load(runtime: &Runtime, session: &str) -> Result<Option<SessionState>, Status> {
    let store = Arc::clone(runtime.store());
    let stream = session_stream(session);
    let of_read = runtime.clone();
    answer(runtime, move || load_session(&*store, stream).map_err(|error| unreadable(&of_read, &error))).await
}

/// The state as it is kept: a JSON object without what separates its parts.
///
/// # Errors
/// It is too large, or not a valid state; every violation is told.
fn importable(session: &str, state: &str, repairs: &[String]) -> Result<String, Status> {
    let mut violations = validate::session(session);
    if state.len() > policy::MAX_IMPORT_BYTES {
        let message =
            format!("the state has {} bytes; at most {} are allowed", state.len(), policy::MAX_IMPORT_BYTES);
        violations.push(Violation::new("state", "length", message));
    }
    if repairs.len() > MAX_REPAIRS {
        let message = format!("{} repairs; at most {MAX_REPAIRS} are allowed", repairs.len());
        violations.push(Violation::new("repairs", "limit", message));
    }
    let too_long =
        repairs.iter().take(MAX_REPAIRS).enumerate().filter(|(_, text)| text.len() > MAX_REPAIR_BYTES);
    violations.extend(too_long.map(|(index, text)| {
        let message = format!("the text has {} bytes; at most {MAX_REPAIR_BYTES} are allowed", text.len());
        Violation::new(format!("repairs[{index}]"), "length", message)
    }));
    if !violations.is_empty() {
        return Err(status::invalid(&violations));
    }
    let state = policy::parse(state.as_bytes())
        .map_err(|error| status::contract(Code::InvalidArgument, &error, |_| Some("state".to_owned())))?;
    let violations: Vec<Violation> = policy::violations(&state)
        .into_iter()
        .map(|violation| Violation { path: format!("state.{}", violation.path), ..violation })
        .collect();
    match violations.as_slice() {
        [] => Ok(serde_json::Value::Object(state).to_string()),
        violations => Err(status::invalid_state(violations)),
    }
}

#[tonic::async_trait]
impl SessionService for Sessions {
    async fn get_session(
        &self,
        request: Request<v1::GetSessionRequest>,
    ) -> Result<Response<v1::GetSessionResponse>, Status> {
        let session = request.into_inner().session;
        let violations = validate::session(&session);
        if !violations.is_empty() {
            return Err(status::invalid(&violations));
        }
        let state = load(&self.runtime, &session).await?;
        let state = state.ok_or_else(|| status::transition(&TransitionReply::SessionNotFound))?;
        let view = state.view(session_stream(&session).to_string(), Wall(self.runtime.now().wall.0));
        Ok(Response::new(v1::GetSessionResponse { session: Some(view) }))
    }

    async fn import_session(
        &self,
        request: Request<v1::ImportSessionRequest>,
    ) -> Result<Response<v1::ImportSessionResponse>, Status> {
        let v1::ImportSessionRequest { session, state, repairs } = request.into_inner();
        let state = importable(&session, &state, &repairs)?;
        let import = ImportSession { session: session.clone(), state, repairs };
        match self.runtime.import_session(import).await {
            Ok(ImportReply::Imported { seq, changed }) => {
                Ok(Response::new(v1::ImportSessionResponse { seq, changed }))
            }
            Ok(ImportReply::Busy { run }) => Err(status::session_busy(&session, run)),
            Err(declined) => Err(status::declined(&declined)),
        }
    }

    async fn list_sessions(
        &self,
        request: Request<v1::ListSessionsRequest>,
    ) -> Result<Response<v1::ListSessionsResponse>, Status> {
        let v1::ListSessionsRequest { page_size, page_token } = request.into_inner();
        let before: Option<RunId> = match page_token.as_str() {
            "" => None,
            token => Some(
                token
                    .parse()
                    .map_err(|_| status::invalid_field("page_token", "token", "is not a page token"))?,
            ),
        };
        let size = if page_size == 0 { DEFAULT_PAGE } else { page_size.min(MAX_PAGE) };
        let kind = Some(v1::RunKind::Session as i32);
        let query = RunQuery { kind, before, limit: size, ..RunQuery::default() };
        let store = Arc::clone(self.runtime.store());
        let list = move || {
            listing::of_runs(&*store, query, listing::LOOKED_AT).map_err(|error| status::store(&error))
        };
        let (rows, next) = answer(&self.runtime, list).await?;
        let sessions = rows.into_iter().map(|row| v1::Session {
            session: row.name,
            context: None,
            seq: row.last_seq,
            created_at_ms: row.created_at.0,
            updated_at_ms: row.summary.updated_at.0,
            suggestions: Vec::new(),
            stream_id: row.run.to_string(),
            state: None,
            backup: None,
        });
        Ok(Response::new(v1::ListSessionsResponse {
            sessions: sessions.collect(),
            next_page_token: next.map(|next| next.to_string()).unwrap_or_default(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use capataz_crew::Known;
    use capataz_runtime::Options;
    use capataz_store::builders::{Shape, beginning};
    use capataz_store::{Append, Mark, MemoryStore, Store};

    use super::*;
    use crate::SHARD;

    /// Something of this kind that has ended, with one event.
    fn ended(number: u128, kind: v1::RunKind) -> Append {
        let run = RunId(uuid::Uuid::from_u128(number));
        beginning(run).kind(kind.into()).named(&format!("n{number}")).created_at(1).ended_at(1)
    }

    #[tokio::test]
    async fn a_page_of_sessions_looks_at_so_many_runs_and_the_next_one_goes_on_there() {
        let store = MemoryStore::new();
        let runs = (2..).take(listing::LOOKED_AT as usize).map(|number| ended(number, Default::default()));
        let all: Vec<Append> = runs.chain([ended(1, v1::RunKind::Session)]).collect();
        store.claim(SHARD, Mark(1)).unwrap().commit(&all).unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        let runtime = Runtime::start(vec![SHARD], store, Known::default(), Options::default()).await.unwrap();
        let sessions = Sessions::new(runtime);
        let page = async |page_token: String| {
            let request = v1::ListSessionsRequest { page_size: 0, page_token };
            sessions.list_sessions(Request::new(request)).await.unwrap().into_inner()
        };
        let first = page(String::new()).await;
        assert_eq!(first.sessions, []);
        assert_ne!(first.next_page_token, "");
        let second = page(first.next_page_token).await;
        let names: Vec<&str> = second.sessions.iter().map(|session| session.session.as_str()).collect();
        assert_eq!((names.as_slice(), second.next_page_token.as_str()), (&["n1"][..], ""));
    }
}
