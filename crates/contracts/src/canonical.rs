//! One encoding for each request, so that equal requests can be told by their hash.

use prost::Message;
use serde_json::Value;

use crate::json::is_json;
use crate::v1;
use crate::v1::payload::Data;

/// The request as bytes that are the same for each way of writing it: JSON inputs without white space and with sorted
/// keys, maps sorted, the idempotency key left out. Two requests under one idempotency key are the same request exactly
/// if these bytes are equal.
pub fn canonical(request: &v1::StartRunRequest) -> Vec<u8> {
    let mut request = request.clone();
    request.idempotency_key = None;
    let work_goes_first = request.work_goes_first();
    let plan = request.plan_mut().into_iter();
    let tasks = plan.flat_map(|plan| &mut plan.waves).flat_map(|wave| &mut wave.tasks);
    tasks.filter_map(|task| task.input.as_mut()).for_each(canonical_payload);
    let mut bytes = Vec::with_capacity(request.encoded_len());
    let work = request.work.take();
    let encode_work = |bytes: &mut Vec<u8>| {
        if let Some(work) = &work {
            work.encode(bytes);
        }
    };
    if work_goes_first {
        encode_work(&mut bytes);
    }
    request.encode_raw(&mut bytes);
    if !work_goes_first {
        encode_work(&mut bytes);
    }
    bytes
}

/// What is not JSON stays as it is.
fn canonical_payload(payload: &mut v1::Payload) {
    if let Some(Data::Inline(bytes)) = &mut payload.data
        && is_json(&payload.media_type)
        && let Ok(mut value) = serde_json::from_slice::<Value>(bytes)
    {
        value.sort_all_objects();
        *bytes = value.to_string().into();
    }
}
