//! The calls of the daemon's RouterService.

use capataz_contracts::v1;
use capataz_contracts::v1::router_service_client::RouterServiceClient;

use super::Client;
use crate::ClientError;
use crate::retry::Attempts;

impl Client {
    /// What would answer a text, without asking it.
    ///
    /// # Errors
    /// The daemon refuses the text, has no specs, or is not reached.
    pub async fn route(&self, request: v1::RouteRequest) -> Result<v1::Routing, ClientError> {
        let response = RouterServiceClient::new(self.channel()).route(request).await?.into_inner();
        Ok(response.routing.unwrap_or_default())
    }

    /// Every term of a routing decision.
    ///
    /// # Errors
    /// As [`route`](Self::route).
    pub async fn explain(&self, request: v1::ExplainRequest) -> Result<v1::ExplainResponse, ClientError> {
        Ok(RouterServiceClient::new(self.channel()).explain(request).await?.into_inner())
    }

    /// The catalogue.
    ///
    /// # Errors
    /// The daemon is not reached.
    pub async fn list_specs(&self) -> Result<Vec<v1::SpecInfo>, ClientError> {
        let mut specs = Vec::new();
        let mut request = v1::ListSpecsRequest::default();
        loop {
            let mut service = RouterServiceClient::new(self.channel());
            let page = service.list_specs(request.clone()).await?.into_inner();
            specs.extend(page.specs);
            // A page that names itself as the next one would never end.
            if page.next_page_token.is_empty() || page.next_page_token == request.page_token {
                return Ok(specs);
            }
            request.page_token = page.next_page_token;
        }
    }

    /// One spec of the catalogue.
    ///
    /// # Errors
    /// There is no such spec, or the daemon is not reached.
    pub async fn get_spec(&self, spec: &str) -> Result<v1::SpecInfo, ClientError> {
        let request = v1::GetSpecRequest { spec: spec.to_owned() };
        let response = RouterServiceClient::new(self.channel()).get_spec(request).await?.into_inner();
        Ok(response.spec.unwrap_or_default())
    }

    /// Has the daemon read its spec files again; how many specs there are. An invalid file changes nothing.
    ///
    /// # Errors
    /// A file is invalid, each error with its place; or the daemon is not reached.
    pub async fn reload_specs(&self) -> Result<u32, ClientError> {
        let request = v1::ReloadSpecsRequest {};
        Ok(RouterServiceClient::new(self.channel()).reload_specs(request).await?.into_inner().specs)
    }

    /// Moves a session to the spec that the answer to an ask has suggested. Accepting again changes nothing, so the call
    /// is repeated like one with a key.
    ///
    /// # Errors
    /// No such suggestion is open, or the daemon is not reached.
    pub async fn accept_transition(
        &self,
        session: &str,
        request_id: &str,
    ) -> Result<v1::AcceptTransitionResponse, ClientError> {
        let mut attempts = Attempts::new(&self.retry);
        loop {
            let request = v1::AcceptTransitionRequest {
                session: session.to_owned(),
                request_id: request_id.to_owned(),
            };
            match RouterServiceClient::new(self.channel()).accept_transition(request).await {
                Ok(response) => return Ok(response.into_inner()),
                Err(status) => attempts.after(status.into()).await?,
            }
        }
    }
}
