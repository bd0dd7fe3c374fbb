//! What the server says: turns of a script, as bytes of either protocol.

use serde_json::{Value, json};

use crate::{Asked, Protocol};

/// Characters of a piece of a streamed answer.
const PIECE: usize = 8;

/// How a request is answered.
#[derive(Clone, Debug)]
pub struct Turn {
    kind: Kind,
    /// Tokens that were read and written, where they are told.
    usage: Option<(u64, u64)>,
    /// The protocol's word for the end; `None` for the usual one.
    finish: Option<String>,
}

#[derive(Clone, Debug)]
enum Kind {
    /// In pieces, or as one object.
    Say {
        text: String,
        end: End,
        at_once: bool,
    },
    Status {
        status: u16,
        headers: Vec<(String, String)>,
        body: String,
    },
    /// Instead of a stream.
    Garbage(Vec<u8>),
    ErrorInStream {
        kind: String,
        message: String,
    },
    Endless,
    Stall,
}

/// How a stream ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Whole,
    /// After so many pieces the connection is closed.
    CutAfter(usize),
    /// After so many pieces nothing comes.
    StallAfter(usize),
}

/// What is written.
#[derive(Clone, Debug)]
pub enum Reply {
    Bytes(Vec<u8>),
    /// Nothing more, until the client goes away.
    Silence,
    /// These, again and again.
    Endless(Vec<u8>),
}

impl Turn {
    fn of(kind: Kind) -> Self {
        Self { kind, usage: Some((11, 7)), finish: None }
    }

    /// The answer, in pieces.
    #[must_use]
    pub fn say(text: impl Into<String>) -> Self {
        Self::of(Kind::Say { text: text.into(), end: End::Whole, at_once: false })
    }

    /// The answer as one object, as of a server that does not stream.
    #[must_use]
    pub fn at_once(text: impl Into<String>) -> Self {
        Self::of(Kind::Say { text: text.into(), end: End::Whole, at_once: true })
    }

    /// The answer breaks off after so many pieces.
    #[must_use]
    pub fn cut_after(text: impl Into<String>, pieces: usize) -> Self {
        Self::of(Kind::Say { text: text.into(), end: End::CutAfter(pieces), at_once: false })
    }

    /// Nothing follows after so many pieces, and the connection stays.
    #[must_use]
    pub fn stall_after(text: impl Into<String>, pieces: usize) -> Self {
        Self::of(Kind::Say { text: text.into(), end: End::StallAfter(pieces), at_once: false })
    }

    /// Nothing at all.
    #[must_use]
    pub fn stall() -> Self {
        Self::of(Kind::Stall)
    }

    /// An error of this kind.
    #[must_use]
    pub fn status(status: u16, kind: &str, message: &str) -> Self {
        let body = json!({ "type": "error", "error": { "type": kind, "code": kind, "message": message } });
        Self::of(Kind::Status { status, headers: Vec::new(), body: body.to_string() })
    }

    /// 429, with `Retry-After` where it is said.
    #[must_use]
    pub fn rate_limited(retry_after: Option<&str>) -> Self {
        let turn = Self::status(429, "rate_limit_error", "too many requests");
        retry_after.into_iter().fold(turn, |turn, wait| turn.header("Retry-After", wait))
    }

    /// Sends the client to another address.
    #[must_use]
    pub fn redirect(to: &str) -> Self {
        Self::status(307, "redirect", "elsewhere").header("Location", to)
    }

    /// An event stream of what is no event of the protocol.
    #[must_use]
    pub fn garbage(bytes: impl Into<Vec<u8>>) -> Self {
        Self::of(Kind::Garbage(bytes.into()))
    }

    /// One line without an end.
    #[must_use]
    pub fn endless() -> Self {
        Self::of(Kind::Endless)
    }

    /// An error in the middle of a stream.
    #[must_use]
    pub fn error_in_stream(kind: &str, message: &str) -> Self {
        Self::of(Kind::ErrorInStream { kind: kind.to_owned(), message: message.to_owned() })
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        if let Kind::Status { headers, .. } = &mut self.kind {
            headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// Tokens that were read, and written.
    #[must_use]
    pub fn usage(mut self, input: u64, output: u64) -> Self {
        self.usage = Some((input, output));
        self
    }

    #[must_use]
    pub fn without_usage(mut self) -> Self {
        self.usage = None;
        self
    }

    /// The protocol's word for the end.
    #[must_use]
    pub fn finish(mut self, word: &str) -> Self {
        self.finish = Some(word.to_owned());
        self
    }

    /// What is written for it.
    pub(crate) fn replies(self, asked: &Asked) -> Vec<Reply> {
        let Self { kind, usage, finish } = self;
        let voice = Voice { asked, usage, finish };
        match kind {
            Kind::Say { text, at_once: true, .. } => vec![document(200, &[], &voice.whole(&text))],
            Kind::Say { text, end, at_once: false } => voice.stream(&text, end),
            Kind::Status { status, headers, body } => vec![document(status, &headers, &body)],
            Kind::Garbage(bytes) => {
                vec![Reply::Bytes(head(200, "text/event-stream", &[])), chunk(&bytes), last()]
            }
            Kind::ErrorInStream { kind, message } => {
                let error = json!({ "type": "error", "error": { "type": kind, "message": message } });
                let mut replies = voice.begin();
                replies.push(voice.event("error", &error));
                replies.push(last());
                replies
            }
            Kind::Endless => {
                vec![
                    Reply::Bytes(head(200, "text/event-stream", &[])),
                    chunk(b"data: "),
                    Reply::Endless(chunked(&[b'x'; 4_096])),
                ]
            }
            Kind::Stall => vec![Reply::Silence],
        }
    }
}

/// How the protocol says it.
struct Voice<'a> {
    asked: &'a Asked,
    usage: Option<(u64, u64)>,
    finish: Option<String>,
}

impl Voice<'_> {
    fn stream(&self, text: &str, end: End) -> Vec<Reply> {
        let characters: Vec<char> = text.chars().collect();
        let pieces: Vec<String> = characters.chunks(PIECE).map(|piece| piece.iter().collect()).collect();
        let (most, then) = match end {
            End::Whole => (pieces.len(), None),
            End::CutAfter(pieces) => (pieces, Some(Vec::new())),
            End::StallAfter(pieces) => (pieces, Some(vec![Reply::Silence])),
        };
        let mut replies = self.begin();
        replies.extend(pieces.iter().take(most).map(|piece| self.piece(piece)));
        replies.extend(then.unwrap_or_else(|| self.end()));
        replies
    }

    fn is_tool(&self) -> bool {
        self.asked.body.get("tool_choice").is_some()
    }

    fn begin(&self) -> Vec<Reply> {
        let mut replies = vec![Reply::Bytes(head(200, "text/event-stream", &[]))];
        if self.asked.protocol == Protocol::Anthropic {
            let usage = self.usage.map(|(input, _)| json!({ "input_tokens": input, "output_tokens": 1 }));
            let message =
                json!({ "model": "test-model", "role": "assistant", "content": [], "usage": usage });
            replies
                .push(self.event("message_start", &json!({ "type": "message_start", "message": message })));
            let block = match self.is_tool() {
                true => json!({ "type": "tool_use", "id": "t", "name": "answer", "input": {} }),
                false => json!({ "type": "text", "text": "" }),
            };
            let start = json!({ "type": "content_block_start", "index": 0, "content_block": block });
            replies.push(self.event("content_block_start", &start));
            replies.push(self.event("ping", &json!({ "type": "ping" })));
        }
        replies
    }

    fn piece(&self, text: &str) -> Reply {
        match self.asked.protocol {
            Protocol::OpenAi => self.event(
                "",
                &json!({
                    "object": "chat.completion.chunk", "model": "test-model",
                    "choices": [{ "index": 0, "delta": { "content": text }, "finish_reason": null }],
                }),
            ),
            Protocol::Anthropic => {
                let delta = match self.is_tool() {
                    true => json!({ "type": "input_json_delta", "partial_json": text }),
                    false => json!({ "type": "text_delta", "text": text }),
                };
                let event = json!({ "type": "content_block_delta", "index": 0, "delta": delta });
                self.event("content_block_delta", &event)
            }
        }
    }

    fn end(&self) -> Vec<Reply> {
        let word = |usual: &str| self.finish.clone().unwrap_or_else(|| usual.to_owned());
        match self.asked.protocol {
            Protocol::OpenAi => {
                let choice = json!({ "index": 0, "delta": {}, "finish_reason": word("stop") });
                let end =
                    json!({ "object": "chat.completion.chunk", "model": "test-model", "choices": [choice] });
                let mut replies = vec![self.event("", &end)];
                let wanted = self.asked.body["stream_options"]["include_usage"] == true;
                if let Some((input, output)) = self.usage.filter(|_| wanted) {
                    let usage = json!({ "prompt_tokens": input, "completion_tokens": output });
                    replies.push(self.event("", &json!({ "choices": [], "usage": usage })));
                }
                replies.push(chunk(b"data: [DONE]\n\n"));
                replies.push(last());
                replies
            }
            Protocol::Anthropic => {
                let usual = if self.is_tool() { "tool_use" } else { "end_turn" };
                let usage = self.usage.map(|(_, output)| json!({ "output_tokens": output }));
                let delta = json!({ "stop_reason": word(usual), "stop_sequence": null });
                vec![
                    self.event("content_block_stop", &json!({ "type": "content_block_stop", "index": 0 })),
                    self.event(
                        "message_delta",
                        &json!({ "type": "message_delta", "delta": delta, "usage": usage }),
                    ),
                    self.event("message_stop", &json!({ "type": "message_stop" })),
                    last(),
                ]
            }
        }
    }

    fn whole(&self, text: &str) -> String {
        let word = |usual: &str| self.finish.clone().unwrap_or_else(|| usual.to_owned());
        let (input, output) = self.usage.unwrap_or_default();
        let answer = match self.asked.protocol {
            Protocol::OpenAi => json!({
                "object": "chat.completion", "model": "test-model",
                "choices": [{ "index": 0, "message": { "role": "assistant", "content": text },
                    "finish_reason": word("stop") }],
                "usage": { "prompt_tokens": input, "completion_tokens": output },
            }),
            Protocol::Anthropic => {
                let block = match self.is_tool() {
                    true => {
                        let input: Value = serde_json::from_str(text).unwrap_or(Value::Null);
                        json!({ "type": "tool_use", "id": "t", "name": "answer", "input": input })
                    }
                    false => json!({ "type": "text", "text": text }),
                };
                json!({
                    "type": "message", "model": "test-model", "content": [block], "stop_reason": word("end_turn"),
                    "usage": { "input_tokens": input, "output_tokens": output },
                })
            }
        };
        answer.to_string()
    }

    fn event(&self, name: &str, data: &Value) -> Reply {
        let name = match self.asked.protocol {
            Protocol::OpenAi => String::new(),
            Protocol::Anthropic => format!("event: {name}\n"),
        };
        chunk(format!("{name}data: {data}\n\n").as_bytes())
    }
}

fn document(status: u16, headers: &[(String, String)], body: &str) -> Reply {
    let mut all = headers.to_vec();
    all.push(("Content-Length".to_owned(), body.len().to_string()));
    let mut bytes = start(status, "application/json", &all);
    bytes.extend_from_slice(body.as_bytes());
    Reply::Bytes(bytes)
}

fn head(status: u16, kind: &str, headers: &[(String, String)]) -> Vec<u8> {
    let chunked = ("Transfer-Encoding".to_owned(), "chunked".to_owned());
    start(status, kind, &[headers, &[chunked]].concat())
}

fn start(status: u16, kind: &str, headers: &[(String, String)]) -> Vec<u8> {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("HTTP/1.1 {status} Status\r\nContent-Type: {kind}\r\nConnection: close\r\n{headers}\r\n")
        .into_bytes()
}

fn chunk(bytes: &[u8]) -> Reply {
    Reply::Bytes(chunked(bytes))
}

fn chunked(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

fn last() -> Reply {
    Reply::Bytes(b"0\r\n\r\n".to_vec())
}
