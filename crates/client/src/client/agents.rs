//! The calls of the daemon's AgentService.

use capataz_contracts::v1;
use capataz_contracts::v1::agent_service_client::AgentServiceClient;

use super::Client;
use crate::ClientError;

impl Client {
    /// The agents that are known, with their load.
    ///
    /// # Errors
    /// The daemon is not reached.
    pub async fn list_agents(&self) -> Result<Vec<v1::AgentStatus>, ClientError> {
        let mut agents = Vec::new();
        let mut request = v1::ListAgentsRequest::default();
        loop {
            let mut service = AgentServiceClient::new(self.channel());
            let page = service.list_agents(request.clone()).await?.into_inner();
            agents.extend(page.agents);
            // A page that names itself as the next one would never end.
            if page.next_page_token.is_empty() || page.next_page_token == request.page_token {
                return Ok(agents);
            }
            request.page_token = page.next_page_token;
        }
    }

    /// Checks names as a start would, without starting anything.
    ///
    /// # Errors
    /// The daemon is not reached. Unknown names are not an error: the response lists them.
    pub async fn check_agents(
        &self,
        request: v1::CheckAgentsRequest,
    ) -> Result<v1::CheckAgentsResponse, ClientError> {
        Ok(AgentServiceClient::new(self.channel()).check_agents(request).await?.into_inner())
    }
}
