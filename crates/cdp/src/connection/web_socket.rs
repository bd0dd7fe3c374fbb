//! The same messages over a WebSocket (RFC 6455), as a browser's DevTools port speaks it.
//!
//! Nothing is between the two ends: the port is on this machine. So bytes need no hiding from caches and proxies, and every
//! mask is zero. No extension is asked for, and none is taken. What a library would take over, the frames of one text protocol,
//! is about a hundred lines here, and its buffers, limits and random masks would have to be kept from doing more.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};

use super::message::Incoming;
use super::tasks::{KEPT_MEMORY, MESSAGE_LIMIT, READ_SIZE, write_failed};
use super::{Connection, Shared, WAITING_COMMANDS};
use crate::error::Loss;
use crate::patience::within;

/// Pings that wait for their answers. The browser sends none; what sends more gets no answer to them.
const WAITING_PONGS: usize = 8;

/// Longest wait for a browser to take the last frame.
const GOODBYE_LIMIT: Duration = Duration::from_secs(1);

/// Most bytes of a frame that is no message, by the RFC.
const CONTROL_LIMIT: usize = 125;

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

const LAST: u8 = 0x80;
const RESERVED: u8 = 0x70;
const OPCODE: u8 = 0x0f;
const MASKED: u8 = 0x80;
const LENGTH: u8 = 0x7f;
const NO_MASK: [u8; 4] = [0; 4];

impl Connection {
    /// Speaks the protocol over the two directions of a WebSocket whose handshake is over; `received` is what came after
    /// it. Ends when the sender of `hung_up` is gone. Must be called within a tokio runtime.
    pub fn over_web_socket(
        reader: impl AsyncRead + Unpin + Send + 'static,
        writer: impl AsyncWrite + Unpin + Send + 'static,
        received: BytesMut,
        hung_up: watch::Receiver<()>,
    ) -> Self {
        let shared = Arc::new(Shared::default());
        let (outgoing, commands) = mpsc::channel(WAITING_COMMANDS);
        let (answer_pings, pings) = mpsc::channel(WAITING_PONGS);
        let decoder = Decoder { received, message: None };
        tokio::spawn(read(reader, decoder, answer_pings, hung_up.clone(), Arc::clone(&shared)));
        tokio::spawn(write(writer, commands, pings, hung_up, Arc::clone(&shared)));
        Self { shared, outgoing }
    }
}

/// What has come as a whole.
#[derive(Debug, PartialEq, Eq)]
enum Arrived {
    Message(Bytes),
    Ping(Bytes),
    Close,
}

/// What was received, from the first byte that is not taken yet.
#[derive(Debug, Default)]
struct Decoder {
    received: BytesMut,
    /// The frames so far of a message that comes in several.
    message: Option<BytesMut>,
}

impl Decoder {
    /// `None` until more is received.
    fn next(&mut self) -> Result<Option<Arrived>, Loss> {
        while let Some((head, payload)) = self.frame()? {
            let is_last = head & LAST != 0;
            match (head & OPCODE, self.message.take()) {
                (CONTINUATION, Some(mut message)) => {
                    message.extend_from_slice(&payload);
                    if is_last {
                        return Ok(Some(Arrived::Message(message.freeze())));
                    }
                    self.message = Some(message);
                }
                (TEXT | BINARY, None) if is_last => return Ok(Some(Arrived::Message(payload))),
                (TEXT | BINARY, None) => self.message = Some(BytesMut::from(&*payload)),
                (CLOSE, _) => return Ok(Some(Arrived::Close)),
                // They may come between the frames of a message.
                (PING, message) => {
                    self.message = message;
                    return Ok(Some(Arrived::Ping(payload)));
                }
                (PONG, message) => self.message = message,
                _ => return Err(Loss::NoMessage),
            }
        }
        Ok(None)
    }

    /// The first byte and the payload of the next frame.
    fn frame(&mut self) -> Result<Option<(u8, Bytes)>, Loss> {
        let [head, second, rest @ ..] = &*self.received else { return Ok(None) };
        let head = *head;
        let (length, extended) = match (second & LENGTH, rest) {
            (126, [a, b, ..]) => (u64::from(u16::from_be_bytes([*a, *b])), 2),
            (127, [a, b, c, d, e, f, g, h, ..]) => (u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]), 8),
            (126 | 127, _) => return Ok(None),
            (length, _) => (u64::from(length), 0),
        };
        if head & RESERVED != 0 || second & MASKED != 0 {
            return Err(Loss::NoMessage);
        }
        let length = usize::try_from(length).map_err(|_| Loss::MessageTooLarge)?;
        let before = self.message.as_ref().map_or(0, BytesMut::len);
        if length > MESSAGE_LIMIT.saturating_sub(before) {
            return Err(Loss::MessageTooLarge);
        }
        let is_control = head & OPCODE >= CLOSE;
        if is_control && (length > CONTROL_LIMIT || head & LAST == 0) {
            return Err(Loss::NoMessage);
        }
        let header = 2 + extended;
        if self.received.len() < header + length {
            return Ok(None);
        }
        self.received.advance(header);
        let payload = self.received.split_to(length).freeze();
        if length > KEPT_MEMORY {
            // Otherwise the memory of this message would be used again, and so be kept for ever.
            self.received = BytesMut::from(&*self.received);
        }
        Ok(Some((head, payload)))
    }
}

async fn read(
    mut reader: impl AsyncRead + Unpin,
    decoder: Decoder,
    pings: mpsc::Sender<Bytes>,
    mut hung_up: watch::Receiver<()>,
    shared: Arc<Shared>,
) {
    let loss = tokio::select! {
        loss = read_until_lost(&mut reader, decoder, pings, &shared) => loss,
        _ = hung_up.changed() => Loss::Closed,
    };
    shared.lose(loss);
}

async fn read_until_lost(
    reader: &mut (impl AsyncRead + Unpin),
    mut decoder: Decoder,
    pings: mpsc::Sender<Bytes>,
    shared: &Shared,
) -> Loss {
    loop {
        loop {
            match decoder.next() {
                Ok(Some(Arrived::Message(message))) => match Incoming::parse(&message) {
                    Some(message) => shared.deliver(message),
                    None => return Loss::NoMessage,
                },
                Ok(Some(Arrived::Ping(payload))) => drop(pings.try_send(payload)),
                Ok(Some(Arrived::Close)) => return Loss::BrowserGone,
                Ok(None) => break,
                Err(loss) => return loss,
            }
        }
        decoder.received.reserve(READ_SIZE);
        match reader.read_buf(&mut decoder.received).await {
            Ok(0) => return Loss::BrowserGone,
            Ok(_) => {}
            Err(_) => return Loss::Broken,
        }
    }
}

/// Says goodbye when nobody sends any more; the browser then closes what it has opened for this connection. A browser that
/// reads nothing holds up a frame, and not the end.
async fn write(
    mut writer: impl AsyncWrite + Unpin,
    mut commands: mpsc::Receiver<Bytes>,
    mut pings: mpsc::Receiver<Bytes>,
    mut hung_up: watch::Receiver<()>,
    shared: Arc<Shared>,
) {
    loop {
        let (opcode, payload) = tokio::select! {
            biased;
            _ = hung_up.changed() => break,
            Some(payload) = pings.recv() => (PONG, payload),
            command = commands.recv() => match command {
                // The byte that ends each message in a pipe is none of a WebSocket's.
                Some(mut command) => (TEXT, command.split_to(command.len().saturating_sub(1))),
                None => break,
            },
        };
        tokio::select! {
            biased;
            written = write_frame(&mut writer, opcode, &payload) => {
                if let Err(error) = written {
                    return shared.lose(write_failed(&error));
                }
            }
            // What follows half of a frame is no goodbye.
            _ = hung_up.changed() => return,
        }
    }
    let goodbye = async {
        // The browser may be gone.
        let _ = write_frame(&mut writer, CLOSE, &[]).await;
        let _ = writer.shutdown().await;
    };
    within(GOODBYE_LIMIT, goodbye).await;
}

async fn write_frame(
    writer: &mut (impl AsyncWrite + Unpin),
    opcode: u8,
    payload: &[u8],
) -> std::io::Result<()> {
    let mut header = Vec::with_capacity(14);
    header.push(LAST | opcode);
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(length), _) if length < 126 => header.push(MASKED | length),
        (_, Ok(length)) => {
            header.push(MASKED | 126);
            header.extend_from_slice(&length.to_be_bytes());
        }
        (_, Err(_)) => {
            header.push(MASKED | 127);
            header.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        }
    }
    header.extend_from_slice(&NO_MASK);
    writer.write_all(&header).await?;
    writer.write_all(payload).await?;
    writer.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8]) -> Vec<Result<Option<Arrived>, Loss>> {
        let mut decoder = Decoder { received: BytesMut::from(bytes), message: None };
        let mut all = Vec::new();
        loop {
            let next = decoder.next();
            let goes_on = matches!(next, Ok(Some(_)));
            all.push(next);
            if !goes_on {
                return all;
            }
        }
    }

    fn message(text: &'static str) -> Result<Option<Arrived>, Loss> {
        Ok(Some(Arrived::Message(Bytes::from_static(text.as_bytes()))))
    }

    #[test]
    fn a_message_is_one_frame_or_several_with_others_between_them() {
        // The examples of RFC 6455, section 5.7, and a ping within a message.
        assert_eq!(decoded(b"\x81\x05Hello"), [message("Hello"), Ok(None)]);
        assert_eq!(decoded(b"\x01\x03Hel\x80\x02lo"), [message("Hello"), Ok(None)]);
        let ping = Ok(Some(Arrived::Ping(Bytes::from_static(b"Hi"))));
        assert_eq!(decoded(b"\x01\x03Hel\x89\x02Hi\x8a\x00\x80\x02lo"), [ping, message("Hello"), Ok(None)]);
        assert_eq!(decoded(b"\x88\x02\x03\xe8")[0], Ok(Some(Arrived::Close)));
    }

    #[test]
    fn lengths_have_one_three_or_nine_bytes() {
        for length in [0_usize, 125, 126, 65_535, 65_536] {
            let mut frame = match length {
                0..126 => vec![0x81, length as u8],
                126..65_536 => vec![0x81, 126, (length >> 8) as u8, length as u8],
                _ => vec![0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0],
            };
            frame.extend(std::iter::repeat_n(b'a', length));
            let whole = Ok(Some(Arrived::Message(Bytes::from(vec![b'a'; length]))));
            assert_eq!(decoded(&frame)[0], whole, "{length}");
            assert_eq!(decoded(&frame[..frame.len() - 1]), [Ok(None)], "{length}");
        }
    }

    #[test]
    fn what_no_browser_sends_ends_the_connection() {
        let masked = b"\x81\x85\0\0\0\0Hello";
        let compressed = b"\xc1\x01a";
        let continuation = b"\x80\x01a";
        let within = b"\x01\x01a\x01\x01a";
        let unknown = b"\x83\x01a";
        let long_ping = b"\x89\x7e\x01\x00";
        let ping_in_parts = b"\x09\x01a";
        for bytes in [&masked[..], compressed, continuation, within, unknown, long_ping, ping_in_parts] {
            assert_eq!(decoded(bytes), [Err(Loss::NoMessage)], "{bytes:x?}");
        }
    }

    #[test]
    fn a_message_that_is_too_large_is_never_waited_for() {
        let announced = (MESSAGE_LIMIT as u64 + 1).to_be_bytes();
        let frame = [&[0x81, 127][..], &announced].concat();
        assert_eq!(decoded(&frame), [Err(Loss::MessageTooLarge)]);
        let rest = [&b"\x01\x01a\x80\x7f"[..], &(MESSAGE_LIMIT as u64).to_be_bytes()].concat();
        assert_eq!(decoded(&rest), [Err(Loss::MessageTooLarge)]);
    }

    #[tokio::test]
    async fn what_is_sent_is_masked_and_ends_with_a_goodbye() {
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        let (reader, writer) = tokio::io::split(ours);
        let (hang_up, hung_up) = watch::channel(());
        let connection = Connection::over_web_socket(reader, writer, BytesMut::new(), hung_up);
        let reply = connection.browser().send::<super::super::Done>("A.a", ());
        let mut received = [0; 41];
        theirs.read_exact(&mut received).await.expect("a command");
        assert_eq!(&received, b"\x81\xa3\0\0\0\0{\"id\":1,\"method\":\"A.a\",\"params\":{}}");
        theirs.write_all(b"\x89\x02Hi\x81\x14{\"id\":1,\"result\":{}}").await.expect("room");
        reply.await.expect("an answer");
        let mut pong = [0; 8];
        theirs.read_exact(&mut pong).await.expect("a pong");
        assert_eq!(&pong, b"\x8a\x82\0\0\0\0Hi");
        drop(hang_up);
        let mut rest = Vec::new();
        theirs.read_to_end(&mut rest).await.expect("the end");
        assert_eq!(rest, b"\x88\x80\0\0\0\0");
        let called = connection.browser().call::<super::super::Done>("A.b", ()).await;
        assert!(matches!(called, Err(crate::CallError::Lost { loss: Loss::Closed, .. })), "{called:?}");
    }

    #[tokio::test]
    async fn a_browser_that_reads_nothing_does_not_hold_the_hang_up_up() {
        let (ours, theirs) = tokio::io::duplex(64);
        let (_, nobody_speaks) = tokio::io::duplex(64);
        let (hang_up, hung_up) = watch::channel(());
        let connection = Connection::over_web_socket(nobody_speaks, ours, BytesMut::new(), hung_up);
        let long = serde_json::json!({ "text": "x".repeat(4096) });
        let reply = connection.browser().send::<super::super::Done>("A.a", long);
        let mut theirs = tokio::io::BufReader::new(theirs);
        let mut first = [0; 2];
        theirs.read_exact(&mut first).await.expect("the frame has begun");
        drop(hang_up);
        let mut rest = Vec::new();
        theirs.read_to_end(&mut rest).await.expect("the end");
        assert!(rest.len() < 4096, "{} bytes of the frame were written after the hang-up", rest.len());
        reply.await.expect_err("no answer");
    }
}
