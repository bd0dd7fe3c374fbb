//! Inputs and outputs that are too large to travel inline, as blobs of the store.

use std::sync::Arc;

use bytes::Bytes;
use capataz_contracts::v1::{self, payload::Data};
use capataz_contracts::validate::INLINE_MAX;
use capataz_policy::codes::{self, Code};
use capataz_store::{BlobHash, Millis, Store};

use crate::patience::patiently;

/// The contents of an input of at most so many bytes; `null` where there is none.
///
/// # Errors
/// The code, and what is wrong. A store that cannot be read now is not a fault of the input.
pub(crate) async fn read(
    store: &Arc<dyn Store>,
    input: Option<v1::Payload>,
    most: usize,
) -> Result<Bytes, (Code, String)> {
    let too_large =
        |size: u64| (codes::VALIDATION_ERROR, format!("the input has {size} bytes, more than {most}"));
    match input.and_then(|input| input.data) {
        None => Ok(Bytes::from_static(b"null")),
        Some(Data::Inline(bytes)) if bytes.len() > most => Err(too_large(bytes.len() as u64)),
        Some(Data::Inline(bytes)) => Ok(bytes),
        Some(Data::Blob(blob)) => {
            let unresolved = |message: String| (codes::INPUT_UNRESOLVED, message);
            let hash: BlobHash = blob
                .blake3
                .parse()
                .map_err(|_| unresolved("the input's blob reference is not a hash".to_owned()))?;
            let length = usize::try_from(blob.size).unwrap_or(usize::MAX);
            if length > most {
                return Err(too_large(blob.size));
            }
            match patiently(store, move |store| store.read_blob(hash, 0, length)).await {
                Ok(Some(bytes)) => Ok(bytes),
                Ok(None) => Err(unresolved(format!("blob {} is gone", blob.blake3))),
                Err(error) => Err((codes::SERVICE_UNAVAILABLE, error.to_string())),
            }
        }
    }
}

/// Inline where it is small, else a blob that is durable before anything names it.
///
/// # Errors
/// The store cannot keep it.
pub(crate) async fn write(
    store: &Arc<dyn Store>,
    media_type: String,
    bytes: Bytes,
    now_ms: i64,
) -> Result<v1::Payload, String> {
    if bytes.len() <= INLINE_MAX {
        return Ok(v1::Payload { media_type, data: Some(Data::Inline(bytes)) });
    }
    let size = bytes.len() as u64;
    let put = patiently(store, move |store| store.put_blob(&bytes, Millis(now_ms))).await;
    let hash = put.map_err(|error| error.to_string())?;
    Ok(v1::Payload { media_type, data: Some(Data::Blob(v1::BlobRef::new(hash.to_string(), size))) })
}
