//! Evidence: what is kept of a page so that a failure can be understood without it (seed 002, sections 2, 3 and 6).
//!
//! Everything is redacted before it is hashed and before it is stored. Pieces are collected in memory while an action is
//! performed; all of them are durable before its outcome is reported.

mod signature;

use std::future::Future;

use bytes::Bytes;
use capataz_contracts::v1::{DownloadRecord, EvidenceRef};
use capataz_policy::executor::evidence;

pub(crate) use signature::{Seen, empty_signature, piece as signature_piece};

/// Evidence could not be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("evidence could not be kept: {0}")]
pub struct EvidenceError(pub String);

/// What a store made of a piece of evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// BLAKE3 of the content, lower-case hexadecimal.
    pub id: String,
    /// Bytes.
    pub size: u64,
}

/// Where evidence is kept.
pub trait EvidenceSink: Send {
    /// Keeps the content. When this returns it is durable.
    fn put(
        &mut self,
        media_type: &str,
        content: Bytes,
    ) -> impl Future<Output = Result<Stored, EvidenceError>> + Send;

    /// Keeps a file that the browser has downloaded. When this returns it is durable.
    fn put_download(
        &mut self,
        download: &DownloadRecord,
    ) -> impl Future<Output = Result<Stored, EvidenceError>> + Send;
}

/// A piece of evidence that is not stored yet.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) kind: &'static str,
    pub(crate) media_type: &'static str,
    pub(crate) content: Bytes,
    pub(crate) redacted: bool,
}

pub(crate) const PNG: &str = "image/png";
pub(crate) const JSON: &str = "application/json";
pub(crate) const HTML: &str = "text/html";

/// A reference that holds its content itself, where nothing can be stored.
pub(crate) fn inline_ref(text: &str) -> EvidenceRef {
    EvidenceRef {
        id: blake3::hash(text.as_bytes()).to_hex().to_string(),
        kind: evidence::INLINE.to_owned(),
        media_type: "text/plain".to_owned(),
        bytes: text.len() as u64,
        redacted: false,
        inline: Some(text.to_owned()),
    }
}

/// Stores the pieces in their order. What was stored is in `refs`, whatever becomes of the rest.
pub(crate) async fn store(
    pieces: Vec<Piece>,
    sink: &mut impl EvidenceSink,
    refs: &mut Vec<EvidenceRef>,
) -> Result<(), EvidenceError> {
    for piece in pieces {
        let stored = sink.put(piece.media_type, piece.content).await?;
        let reference = EvidenceRef {
            id: stored.id,
            kind: piece.kind.to_owned(),
            media_type: piece.media_type.to_owned(),
            bytes: stored.size,
            redacted: piece.redacted,
            inline: None,
        };
        if !refs.contains(&reference) {
            refs.push(reference);
        }
    }
    Ok(())
}
