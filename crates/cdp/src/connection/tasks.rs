//! The task that reads and the one that writes.

use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use super::Shared;
use super::message::{Incoming, TERMINATOR};
use crate::error::Loss;

/// Most bytes of one message from the browser. A longer one ends the connection: otherwise a page could fill our memory
/// with one result.
pub const MESSAGE_LIMIT: usize = 256 * 1024 * 1024;

/// Room that is made before each read.
pub(super) const READ_SIZE: usize = 64 * 1024;

/// Longest message whose memory is used again for the next ones.
pub(super) const KEPT_MEMORY: usize = 1024 * 1024;

pub(super) async fn read(mut reader: impl AsyncRead + Unpin, shared: Arc<Shared>) {
    let loss = read_until_lost(&mut reader, &shared).await;
    shared.lose(loss);
}

async fn read_until_lost(reader: &mut (impl AsyncRead + Unpin), shared: &Shared) -> Loss {
    let mut received = BytesMut::new();
    loop {
        // What was received before this read holds no terminator.
        let mut searched = received.len();
        received.reserve(READ_SIZE);
        match reader.read_buf(&mut received).await {
            Ok(0) => return Loss::BrowserGone,
            Ok(_) => {}
            Err(_) => return Loss::Broken,
        }
        while let Some(offset) = memchr::memchr(TERMINATOR, received.get(searched..).unwrap_or_default()) {
            let message = received.split_to(searched + offset + 1).freeze();
            let message = message.slice(..message.len() - 1);
            searched = 0;
            if message.len() > KEPT_MEMORY {
                // Otherwise the memory of this message would be used again, and so be kept for ever.
                received = BytesMut::from(&*received);
            }
            match Incoming::parse(&message) {
                Some(message) => shared.deliver(message),
                None => return Loss::NoMessage,
            }
        }
        if received.len() > MESSAGE_LIMIT {
            return Loss::MessageTooLarge;
        }
    }
}

/// Ends when the last [`Connection`](super::Connection) is gone; the pipe closes with it.
pub(super) async fn write(
    mut writer: impl AsyncWrite + Unpin,
    mut commands: mpsc::Receiver<Bytes>,
    shared: Arc<Shared>,
) {
    while let Some(mut command) = commands.recv().await {
        if let Err(error) = writer.write_all_buf(&mut command).await {
            // The reader sees the end, too, but perhaps later.
            return shared.lose(write_failed(&error));
        }
    }
}

pub(super) fn write_failed(error: &io::Error) -> Loss {
    let gone = error.kind() == io::ErrorKind::BrokenPipe;
    if gone { Loss::BrowserGone } else { Loss::Broken }
}
