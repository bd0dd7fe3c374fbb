//! PipelineService: checkpoints of pipelines, and the way back to one.

use std::sync::Arc;

use capataz_contracts::v1;
use capataz_contracts::v1::pipeline_service_server::PipelineService;
use capataz_engine::Input;
use tonic::{Request, Response, Status};

use super::runs::Runs;

pub(super) struct Pipelines {
    runs: Arc<Runs>,
}

impl Pipelines {
    pub(super) fn new(runs: Arc<Runs>) -> Self {
        Self { runs }
    }
}

#[tonic::async_trait]
impl PipelineService for Pipelines {
    async fn list_checkpoints(
        &self,
        request: Request<v1::ListCheckpointsRequest>,
    ) -> Result<Response<v1::ListCheckpointsResponse>, Status> {
        let v1::ListCheckpointsRequest { run_id, at_seq } = request.into_inner();
        let state = self.runs.state_at(&run_id, (at_seq > 0).then_some(at_seq)).await?;
        let response =
            v1::ListCheckpointsResponse { checkpoints: state.checkpoints(&run_id), seq: state.seq() };
        Ok(Response::new(response))
    }

    async fn rollback_pipeline(
        &self,
        request: Request<v1::RollbackPipelineRequest>,
    ) -> Result<Response<v1::RollbackPipelineResponse>, Status> {
        let v1::RollbackPipelineRequest { run_id, phase, request_id, if_seq } = request.into_inner();
        let input = Input::RollbackPipeline { phase, request_id: request_id.clone() };
        let (seq, ..) = self.runs.command(&run_id, &request_id, if_seq, input).await?;
        Ok(Response::new(v1::RollbackPipelineResponse { seq }))
    }
}

/// The agent that an answer to a question about a blocked phase names.
pub(super) fn named_agent(value: &v1::Payload) -> Option<String> {
    let Some(v1::payload::Data::Inline(text)) = &value.data else { return None };
    let value: serde_json::Value = serde_json::from_slice(text).ok()?;
    value.get("agent")?.as_str().map(str::to_owned)
}
