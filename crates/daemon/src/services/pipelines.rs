//! PipelineService: checkpoints of pipelines, and the way back to one.

use std::collections::BTreeMap;
use std::sync::Arc;

use capataz_contracts::v1;
use capataz_contracts::v1::pipeline_service_server::PipelineService;
use capataz_contracts::v1::run_service_server::RunService;
use capataz_engine::Input;
use capataz_policy::codes;
use prost::Message;
use tonic::{Request, Response, Status};

use super::listing::MAX_ANSWER_BYTES;
use super::runs::Runs;
use super::starts::PRODUCT_LABEL;
use crate::status;

/// Runs whose checkpoints are on one page: each of them is folded.
const MOST_RUNS: u32 = 20;

pub(super) struct Pipelines {
    runs: Arc<Runs>,
}

impl Pipelines {
    pub(super) fn new(runs: Arc<Runs>) -> Self {
        Self { runs }
    }

    /// The checkpoints of a product, a page of its runs at a time.
    async fn of_product(
        &self,
        request: v1::ListCheckpointsRequest,
    ) -> Result<v1::ListCheckpointsResponse, Status> {
        let v1::ListCheckpointsRequest { run_id, at_seq, product_id, page_size, page_token } = request;
        if !run_id.is_empty() || at_seq != 0 {
            let message = "checkpoints are those of a run or of a product, not both";
            return Err(status::invalid_field("product_id", "exclusive", message));
        }
        let page_size = if page_size == 0 { MOST_RUNS } else { page_size.min(MOST_RUNS) };
        let listed = v1::ListRunsRequest {
            labels: BTreeMap::from([(PRODUCT_LABEL.to_owned(), product_id)]),
            page_size,
            page_token,
            ..v1::ListRunsRequest::default()
        };
        let listed = RunService::list_runs(&*self.runs, Request::new(listed)).await?.into_inner();
        let (mut checkpoints, mut bytes) = (Vec::new(), 0_usize);
        let mut last = String::new();
        for run in listed.runs {
            let of_run = self.of_listed(&run.run_id).await?;
            bytes = of_run.iter().map(Message::encoded_len).fold(bytes, usize::saturating_add);
            if bytes > MAX_ANSWER_BYTES && !checkpoints.is_empty() {
                // The next page begins with this run.
                return Ok(v1::ListCheckpointsResponse { checkpoints, seq: 0, next_page_token: last });
            }
            checkpoints.extend(of_run);
            last = run.run_id;
        }
        let next_page_token = listed.next_page_token;
        Ok(v1::ListCheckpointsResponse { checkpoints, seq: 0, next_page_token })
    }

    /// The checkpoints of a run that was listed a moment ago. What is removed or damaged by now has none.
    async fn of_listed(&self, run_id: &str) -> Result<Vec<v1::Checkpoint>, Status> {
        let has_none = [codes::RUN_NOT_FOUND, codes::LOG_DAMAGED];
        match self.runs.state_at(run_id, None).await {
            Ok(state) => Ok(state.checkpoints(run_id)),
            Err(error) if has_none.into_iter().any(|code| status::is(&error, code)) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

#[tonic::async_trait]
impl PipelineService for Pipelines {
    async fn list_checkpoints(
        &self,
        request: Request<v1::ListCheckpointsRequest>,
    ) -> Result<Response<v1::ListCheckpointsResponse>, Status> {
        let request = request.into_inner();
        if !request.product_id.is_empty() {
            return self.of_product(request).await.map(Response::new);
        }
        let v1::ListCheckpointsRequest { run_id, at_seq, .. } = request;
        let state = self.runs.state_at(&run_id, (at_seq > 0).then_some(at_seq)).await?;
        let response = v1::ListCheckpointsResponse {
            checkpoints: state.checkpoints(&run_id),
            seq: state.seq(),
            ..Default::default()
        };
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
