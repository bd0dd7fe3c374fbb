//! RouterService: what would answer a text and why, the catalogue, and accepted transitions.

use std::sync::Arc;

use capataz_contracts::v1::router_service_server::RouterService;
use capataz_contracts::{free, v1, validate};
use capataz_engine::Wall;
use capataz_router::{Router, Spec};
use capataz_runtime::Runtime;
use capataz_shard::TransitionReply;
use tonic::{Request, Response, Status};

use super::{listing, sessions};
use crate::specs::{self, Specs};
use crate::status;

/// Specs in one page.
const PAGE_MAX: u32 = 500;
/// Bytes of the specs of one page, unless it has only one.
const PAGE_BYTES: usize = 1024 * 1024;

pub(super) struct Routing {
    runtime: Runtime,
    specs: Specs,
}

impl Routing {
    pub(super) fn new(runtime: Runtime, specs: Specs) -> Self {
        Self { runtime, specs }
    }

    /// What is asked of the router without a run, as an ask, and the conversation that counts as context; none where the session
    /// is not there yet.
    async fn context(&self, mut ask: v1::Ask) -> Result<(v1::Ask, v1::SessionContext), Status> {
        let violations = validate::ask(&ask);
        if !violations.is_empty() {
            return Err(status::invalid(&violations));
        }
        free::tidy_ask(&mut ask);
        let Some(session) = &ask.session else { return Ok((ask, v1::SessionContext::default())) };
        let state = sessions::load(&self.runtime, session).await?;
        let context = state.map(|state| state.context(Wall(self.runtime.now().wall.0))).unwrap_or_default();
        Ok((ask, context))
    }

    /// A suggestion that is still open leads to a spec that there was when it was made, and may be gone by now. A transition that
    /// was accepted before is none of these: accepting it again changes nothing.
    async fn refuse_vanished(&self, session: &str, request_id: &str) -> Result<(), Status> {
        let Some(state) = sessions::load(&self.runtime, session).await? else { return Ok(()) };
        let Some(to) = state.suggested(request_id) else { return Ok(()) };
        let router = self.specs.current();
        let catalogue = router.catalogue();
        if catalogue.find(to).is_some() {
            return Ok(());
        }
        let known = catalogue.specs().iter().map(|spec| spec.id.as_str());
        Err(status::spec_not_found(to, known))
    }

    fn router(&self) -> Result<Arc<Router>, Status> {
        let router = self.specs.current();
        if router.catalogue().specs().is_empty() { Err(status::no_specs()) } else { Ok(router) }
    }
}

#[tonic::async_trait]
impl RouterService for Routing {
    async fn route(&self, request: Request<v1::RouteRequest>) -> Result<Response<v1::RouteResponse>, Status> {
        let v1::RouteRequest { text, session, preferences, preferences_json } = request.into_inner();
        let ask = v1::Ask { text, session, preferences, preferences_json, ..v1::Ask::default() };
        let (ask, context) = self.context(ask).await?;
        let router = self.router()?;
        let history = specs::messages(&context);
        let query = specs::query(&ask.text, &context, &ask.preferences, &history);
        Ok(Response::new(v1::RouteResponse { routing: specs::would_answer(&router, &query) }))
    }

    async fn explain(
        &self,
        request: Request<v1::ExplainRequest>,
    ) -> Result<Response<v1::ExplainResponse>, Status> {
        let v1::ExplainRequest { text, session, preferences, preferences_json } = request.into_inner();
        let ask = v1::Ask { text, session, preferences, preferences_json, ..v1::Ask::default() };
        let (ask, context) = self.context(ask).await?;
        let router = self.router()?;
        let history = specs::messages(&context);
        let query = specs::query(&ask.text, &context, &ask.preferences, &history);
        Ok(Response::new(specs::explained(&router, &query)))
    }

    async fn list_specs(
        &self,
        request: Request<v1::ListSpecsRequest>,
    ) -> Result<Response<v1::ListSpecsResponse>, Status> {
        let v1::ListSpecsRequest { page_size, page_token } = request.into_inner();
        let size = if page_size == 0 { PAGE_MAX } else { page_size.min(PAGE_MAX) };
        let router = self.specs.current();
        // They are ordered by their ids, and a page ends with the one that the next one begins after.
        let rest = router.catalogue().specs().iter().filter(|spec| spec.id.as_str() > page_token.as_str());
        Ok(Response::new(page(rest.map(info), size as usize)))
    }

    async fn get_spec(
        &self,
        request: Request<v1::GetSpecRequest>,
    ) -> Result<Response<v1::GetSpecResponse>, Status> {
        let id = request.into_inner().spec;
        let router = self.specs.current();
        let catalogue = router.catalogue();
        let Some(spec) = catalogue.find(&id) else {
            let known = catalogue.specs().iter().map(|spec| spec.id.as_str());
            return Err(status::spec_not_found(&id, known));
        };
        Ok(Response::new(v1::GetSpecResponse { spec: Some(info(spec)) }))
    }

    async fn accept_transition(
        &self,
        request: Request<v1::AcceptTransitionRequest>,
    ) -> Result<Response<v1::AcceptTransitionResponse>, Status> {
        let request = request.into_inner();
        let violations = validate::accept_transition(&request);
        if !violations.is_empty() {
            return Err(status::invalid(&violations));
        }
        let v1::AcceptTransitionRequest { session, request_id } = request;
        self.refuse_vanished(&session, &request_id).await?;
        match self.runtime.accept_transition(session, request_id).await {
            Ok(TransitionReply::Accepted(accepted)) => Ok(Response::new(v1::AcceptTransitionResponse {
                from: accepted.from,
                to: accepted.to,
                seq: accepted.seq,
            })),
            Ok(refused) => Err(status::transition(&refused)),
            Err(declined) => Err(status::declined(&declined)),
        }
    }

    async fn reload_specs(
        &self,
        _: Request<v1::ReloadSpecsRequest>,
    ) -> Result<Response<v1::ReloadSpecsResponse>, Status> {
        let count = self.specs.reload().await.map_err(|error| status::specs(&error))?.count;
        Ok(Response::new(v1::ReloadSpecsResponse { specs: u32::try_from(count).unwrap_or(u32::MAX) }))
    }
}

fn info(spec: &Spec) -> v1::SpecInfo {
    v1::SpecInfo {
        id: spec.id.clone(),
        title: spec.title.clone(),
        description: spec.description.clone(),
        languages: spec.languages.clone(),
        tone: spec.tone.clone(),
        response_style: spec.response_style.clone(),
        contract_version: spec.contract_version.clone(),
        capabilities: spec.capabilities.clone(),
        keywords: spec.keywords.iter().map(|keyword| keyword.text.clone()).collect(),
        patterns: spec.patterns.iter().map(|pattern| pattern.name.clone()).collect(),
        intents: spec.intents.iter().map(|intent| intent.name.clone()).collect(),
        agent: spec.agent.clone(),
        error_codes: spec.error_codes.clone(),
        is_default: spec.default,
    }
}

/// As many of the specs as a page has room for, and one at least.
fn page(specs: impl Iterator<Item = v1::SpecInfo>, most: usize) -> v1::ListSpecsResponse {
    let (specs, more) = listing::fitting(specs, most, PAGE_BYTES);
    let last = specs.last().filter(|_| more).map(|last| last.id.clone());
    v1::ListSpecsResponse { specs, next_page_token: last.unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specs(number: usize, bytes: usize) -> impl Iterator<Item = v1::SpecInfo> {
        let spec = move |number| v1::SpecInfo {
            id: format!("s{number}"),
            title: "x".repeat(bytes),
            ..v1::SpecInfo::default()
        };
        (0..number).map(spec)
    }

    /// How many specs a page has, and what it says of the next one.
    fn paged(number: usize, bytes: usize, most: usize) -> (usize, String) {
        let page = page(specs(number, bytes), most);
        (page.specs.len(), page.next_page_token)
    }

    #[test]
    fn a_page_of_specs_has_a_bound_in_number_and_in_bytes_and_one_at_least() {
        assert_eq!(paged(3, 10, 3), (3, String::new()));
        assert_eq!(paged(3, 10, 2), (2, "s1".to_owned()));
        assert_eq!(paged(9, PAGE_BYTES / 3, 9), (2, "s1".to_owned()));
        assert_eq!(paged(2, 2 * PAGE_BYTES, 9), (1, "s0".to_owned()));
        assert_eq!(paged(0, 0, 9), (0, String::new()));
    }
}
