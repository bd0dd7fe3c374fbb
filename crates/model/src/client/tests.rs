//! A server that misbehaves, and what becomes of it, in both protocols.

use capataz_testmodel::{Protocol as Spoken, TestModel, Turn};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::said::{Finish, Usage};

const SECRET: &str = "sk-secret-1";
const BOTH: [(Protocol, Spoken); 2] =
    [(Protocol::OpenAi, Spoken::OpenAi), (Protocol::Anthropic, Spoken::Anthropic)];
const LIMITS: Limits =
    Limits { idle: Duration::from_secs(20), total: Duration::from_secs(60), answer_bytes: 1_000 };

fn client(model: &TestModel, (protocol, spoken): (Protocol, Spoken)) -> Client {
    let endpoint = Endpoint {
        protocol,
        base_url: model.base_url(spoken),
        model: "m".to_owned(),
        max_tokens: None,
        temperature: None,
    };
    Client::new(endpoint).unwrap()
}

fn question() -> Ask {
    Ask { user: "why?".to_owned(), ..Ask::default() }
}

/// Asks with a key, and returns the answer with what was said on the way.
async fn asks(client: &Client, ask: &Ask, limits: Limits) -> (Result<Said, ModelError>, String) {
    let mut partial = String::new();
    let key = Key::new(SECRET.to_owned()).unwrap();
    let said = client.ask(Some(&key), ask, limits, &mut |text| partial.push_str(text)).await;
    (said, partial)
}

async fn answer(turn: Turn, both: (Protocol, Spoken)) -> Result<Said, ModelError> {
    let model = TestModel::start([turn]).await;
    let (said, partial) = asks(&client(&model, both), &question(), LIMITS).await;
    if let Ok(said) = &said {
        assert_eq!(said.text, partial, "pieces make the whole");
    }
    said
}

#[tokio::test]
async fn an_answer_comes_in_pieces_or_at_once_with_its_tokens_and_its_end() {
    for both in BOTH {
        for turn in [Turn::say("Because it is, señor. 🚀"), Turn::at_once("Because it is, señor. 🚀")] {
            let said = answer(turn.usage(30, 12), both).await.unwrap();
            assert_eq!((said.text.as_str(), &said.finish), ("Because it is, señor. 🚀", &Finish::Complete));
            assert_eq!((said.usage.input_tokens, said.usage.output_tokens), (Some(30), Some(12)));
            assert_eq!(said.model, "test-model");
        }
        let said = answer(Turn::say("yes").without_usage().finish("a new word"), both).await.unwrap();
        assert_eq!(said.finish, Finish::Other("a new word".to_owned()));
        assert_eq!(said.usage, Usage::default());
        let (length, filtered) = match both.0 {
            Protocol::OpenAi => ("length", "content_filter"),
            Protocol::Anthropic => ("max_tokens", "refusal"),
        };
        assert_eq!(answer(Turn::say("y").finish(length), both).await.unwrap().finish, Finish::Length);
        assert_eq!(answer(Turn::say("y").finish(filtered), both).await.unwrap().finish, Finish::Filtered);
    }
}

#[tokio::test]
async fn the_request_has_what_the_protocol_wants_and_the_key_where_it_belongs() {
    let schema = json!({
        "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"],
        "additionalProperties": false,
    });
    let ask =
        Ask { system: Some("be brief".to_owned()), user: "count".to_owned(), schema: Some(schema.clone()) };
    for both in BOTH {
        let model = TestModel::start([Turn::say("{\"n\":1}"), Turn::at_once("{\"n\":1}")]).await;
        for _ in 0..2 {
            let (said, _) = asks(&client(&model, both), &ask, LIMITS).await;
            assert_eq!(said.unwrap().text, "{\"n\":1}");
        }
        let asked = model.asked().remove(0);
        assert_eq!(asked.body["stream"], true);
        match both.0 {
            Protocol::OpenAi => {
                assert_eq!(asked.header("authorization"), Some("Bearer sk-secret-1"));
                assert_eq!(asked.body["messages"][0]["content"], "be brief");
                let format = &asked.body["response_format"]["json_schema"];
                assert_eq!((&format["schema"], &format["strict"]), (&schema, &json!(true)));
            }
            Protocol::Anthropic => {
                assert_eq!(asked.header("x-api-key"), Some(SECRET));
                assert_eq!(
                    (&asked.body["system"], &asked.body["max_tokens"]),
                    (&json!("be brief"), &json!(4_096))
                );
                assert_eq!(asked.body["tools"][0]["input_schema"], schema);
            }
        }
        let client = client(&model, both);
        assert!(!format!("{client:?}").contains(SECRET));
    }
}

#[test]
fn a_schema_is_kept_to_strictly_where_every_object_of_it_is_closed() {
    let closed = |inner: Value| {
        json!({
            "type": "object", "properties": { "a": inner }, "required": ["a"], "additionalProperties": false,
        })
    };
    assert!(openai::is_strict(&closed(json!({ "type": ["string", "null"] }))));
    assert!(openai::is_strict(&closed(closed(json!({ "enum": [1] })))));
    assert!(openai::is_strict(&closed(json!({ "type": "array", "items": closed(json!({})) }))));
    // Names of properties are no keywords.
    let named = json!({
        "type": "object", "properties": { "pattern": { "type": "string" } }, "required": ["pattern"],
        "additionalProperties": false,
    });
    assert!(openai::is_strict(&named));
    assert!(openai::is_strict(&closed(json!({ "anyOf": [{ "type": "null" }, { "$ref": "#/$defs/a" }] }))));
    for open in [
        // A server knows objects as roots, and some of the keywords.
        json!({ "type": "array", "items": closed(json!({})) }),
        closed(json!({ "type": "string", "pattern": "^a" })),
        closed(json!({ "type": "number", "minimum": 1 })),
        closed(json!({ "oneOf": [{ "type": "null" }] })),
        closed(json!(true)),
        closed(json!({ "anyOf": "one" })),
        json!({ "type": "object" }),
        json!({ "type": ["object", "null"], "properties": {} }),
        json!({ "type": "object", "properties": { "a": {} }, "additionalProperties": false }),
        closed(json!({ "properties": {} })),
        json!({ "anyOf": [{ "type": "string" }, { "type": "object" }] }),
    ] {
        assert!(!openai::is_strict(&open), "{open}");
    }
}

#[tokio::test]
async fn what_a_server_refuses_with_says_whether_it_may_be_asked_again_and_never_the_key() {
    for both in BOTH {
        let echo = format!("the key {SECRET} is wrong, {SECRET}!");
        let told = |error: ModelError| error.to_string();
        let unauthorized = answer(Turn::status(401, "authentication_error", &echo), both).await.unwrap_err();
        assert_eq!(
            told(unauthorized),
            "the model's server does not take the key: the key [redacted] is wrong, [redacted]! (status 401)"
        );
        let retry_after = |error: ModelError| match error {
            ModelError::RateLimited { retry_after, .. } | ModelError::Unavailable { retry_after, .. } => {
                retry_after
            }
            other => panic!("{other:?}"),
        };
        for (turn, expected) in [
            (Turn::rate_limited(Some("7")), Some(7_000)),
            (Turn::rate_limited(Some("1.5")), Some(1_500)),
            (Turn::rate_limited(Some("7")).header("retry-after-ms", "250"), Some(7_000)),
            (Turn::rate_limited(Some("7")).header("retry-after-ms", "7250"), Some(7_250)),
            (Turn::rate_limited(None).header("retry-after-ms", "250"), Some(250)),
            (Turn::rate_limited(Some("soon")), None),
            (Turn::rate_limited(Some("-1")), None),
            (Turn::rate_limited(Some("inf")), None),
            (Turn::rate_limited(Some("1e300")), None),
            (Turn::rate_limited(Some("9999999")), Some(86_400_000)),
            (Turn::rate_limited(None), None),
            (
                Turn::rate_limited(Some("Sun, 06 Nov 1994 08:49:47 GMT"))
                    .header("Date", "Sun, 06 Nov 1994 08:49:37 GMT"),
                Some(10_000),
            ),
            // Where the server does not tell its time, ours counts.
            (Turn::rate_limited(Some("Sun, 06 Nov 1994 08:49:47 GMT")), Some(0)),
            (Turn::rate_limited(Some("Fri, 01 Jan 2100 00:00:00 GMT")), Some(86_400_000)),
            (Turn::status(503, "server_error", "later").header("Retry-After", "3"), Some(3_000)),
            (Turn::status(529, "overloaded_error", "later"), None),
            // Whatever a server calls its own failure.
            (Turn::status(500, "invalid_request_error", "later"), None),
            (Turn::status(502, "authentication_error", "later"), None),
            (Turn::error_in_stream("overloaded_error", "later"), None),
            (Turn::error_in_stream("rate_limit_error", "later"), None),
            (Turn::error_in_stream("a_new_word", "later"), None),
            (Turn::error_in_stream("timeout_error", "later"), None),
            (
                Turn::garbage(
                    "data: {\"type\":\"error\",\"error\":{\"code\":\"503\",\"message\":\"later\"}}\n\n",
                ),
                None,
            ),
        ] {
            let text = format!("{turn:?}");
            let found = retry_after(answer(turn, both).await.unwrap_err());
            assert_eq!(found, expected.map(Duration::from_millis), "{text}");
        }
        for (turn, expected) in [
            (Turn::status(429, "insufficient_quota", "pay"), "refuses the request (429): pay"),
            (Turn::status(400, "invalid_request_error", "no"), "refuses the request (400): no"),
            (Turn::status(413, "request_too_large", "no"), "refuses the request (413): no"),
            (Turn::status(404, "not_found_error", "no model"), "does not know that: no model"),
            (Turn::status(408, "timeout", ""), "gave up waiting"),
            (Turn::error_in_stream("invalid_request_error", "no"), "refuses the request (400)"),
            (Turn::error_in_stream("billing_error", "pay"), "refuses the request (402)"),
            (Turn::error_in_stream("insufficient_quota", "pay"), "refuses the request (429)"),
            (Turn::error_in_stream("request_too_large", "no"), "refuses the request (413)"),
            (Turn::error_in_stream("not_found_error", "no model"), "does not know that: no model"),
            (Turn::error_in_stream("permission_error", "no"), "does not take the key: no"),
            (
                Turn::garbage(
                    "data: {\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"code\":\"invalid_value\",\"message\":\"no\"}}\n\n",
                ),
                "refuses the request (400)",
            ),
            (Turn::status(500, "server_error", &"x".repeat(20_000)), "why in more than 16 KiB (status 500)"),
            (Turn::redirect("https://evil.example/v1"), "points to evil.example"),
            (Turn::redirect(""), "points to nowhere"),
        ] {
            let error = told(answer(turn, both).await.unwrap_err());
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }
}

#[tokio::test]
async fn a_key_that_is_said_back_again_and_again_leaves_no_part_of_itself() {
    let long = format!("sk-{}", "k".repeat(700));
    for both in BOTH {
        for times in [1, 20, 23, 24, 40] {
            let model =
                TestModel::start([Turn::status(400, "invalid_request_error", &long.repeat(times))]).await;
            let key = Key::new(long.clone()).unwrap();
            let said = client(&model, both).ask(Some(&key), &question(), LIMITS, &mut |_| {}).await;
            let error = said.unwrap_err().to_string();
            assert!(!error.contains("sk-k"), "{times}: {error}");
        }
    }
}

/// A stream whose pieces come with so many seconds between them.
async fn hears_slowly(protocol: Protocol, pieces: &[&str], seconds: u64) -> (Result<(), ModelError>, Heard) {
    let pieces: Vec<Bytes> = pieces.iter().map(|piece| Bytes::copy_from_slice(piece.as_bytes())).collect();
    let stream = stream::iter(pieces).then(move |piece| async move {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        Ok(piece)
    });
    hears_of(protocol, stream).await
}

const DONE: &str =
    "data: {\"choices\":[{\"delta\":{\"content\":\"yes\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

#[tokio::test(start_paused = true)]
async fn whatever_comes_is_a_sign_of_life_and_what_says_nothing_is_no_event() {
    let (read, heard) =
        hears_slowly(Protocol::OpenAi, &[": wait\n\n", ": wait", "\r\n", "\n", DONE], 11).await;
    assert_eq!((read, heard.text.as_str()), (Ok(()), "yes"));
    let (read, _) = hears_slowly(Protocol::OpenAi, &[": wait\n\n", DONE], 21).await;
    assert_eq!(read, Err(ModelError::TimedOut { what: "has said nothing for too long" }));
    let (read, _) = hears_slowly(Protocol::OpenAi, &[": wait\n\n"; 10], 15).await;
    assert_eq!(read, Err(ModelError::TimedOut { what: "takes too long for its answer" }));
    // 2 MiB of signs of life.
    for end in ["\n\n", "\r\n\r\n", "\r\r"] {
        let alive = format!(": {}{end}", "x".repeat(64 * 1_024));
        let mut pieces = vec![alive.as_str(); 32];
        pieces.push(DONE);
        let (read, heard) = hears_slowly(Protocol::OpenAi, &pieces, 0).await;
        assert_eq!((read, heard.text.as_str()), (Ok(()), "yes"), "{end:?}");
    }
    // One event of as many lines as there is no end of, however they end.
    for line in ["data: x\n", "data: x\r\n", "data: x\r", ": wait\r\n"] {
        let lines = line.repeat(64 * 1_024);
        let (read, _) = hears_slowly(Protocol::OpenAi, &[lines.as_str(); 16], 0).await;
        assert_eq!(read, Err(ModelError::broken("one event has more than 1 MiB")), "{line:?}");
    }
}

#[tokio::test]
async fn the_input_of_the_tool_is_the_answer_and_what_is_said_beside_it_is_not() {
    let block = |index: u8, block: &str| {
        format!("data: {{\"type\":\"content_block_start\",\"index\":{index},\"content_block\":{block}}}\n\n")
    };
    let delta = |delta: &str| format!("data: {{\"type\":\"content_block_delta\",\"delta\":{delta}}}\n\n");
    let stop = "data: {\"type\":\"message_stop\"}\n\n";
    let aloud = [block(0, "{\"type\":\"text\",\"text\":\"\"}"), delta("{\"text\":\"I think {\"}")].concat();
    let input = block(1, "{\"type\":\"tool_use\",\"name\":\"answer\",\"input\":{}}");
    let piece = delta("{\"partial_json\":\"{\\\"n\\\":1}\"}");
    let whole = block(1, "{\"type\":\"tool_use\",\"input\":{\"n\":1}}");
    for (stream, expected) in [
        ([aloud.as_str(), &input, &piece, &delta("{\"text\":\"done\"}"), stop].concat(), "{\"n\":1}"),
        ([input.as_str(), stop].concat(), "{}"),
        (
            [
                input.as_str(),
                &piece.replace("\"delta\"", "\"index\":1,\"delta\""),
                &input.replace("\"index\":1", "\"index\":2"),
                &piece.replace("\"delta\"", "\"index\":2,\"delta\""),
                stop,
            ]
            .concat(),
            "{\"n\":1}",
        ),
        ([aloud.as_str(), &whole, stop].concat(), "{\"n\":1}"),
        ([aloud.as_str(), stop].concat(), "I think {"),
    ] {
        let (read, heard) = hears(Protocol::Anthropic, stream.as_bytes(), 11).await;
        read.unwrap();
        assert_eq!(heard.said().unwrap().text, expected);
    }
    let body =
        json!({ "content": [{ "type": "text", "text": "so: " }, { "type": "tool_use", "input": {} }] });
    assert_eq!(anthropic::whole(&mut Heard::default(), &body).unwrap(), "{}");
    let body = json!({ "choices": [{ "message": { "content": [{ "type": "text", "text": "a" }, { "text": "b" }] } }] });
    assert_eq!(openai::whole(&mut Heard::default(), &body).unwrap(), "ab");
}

#[test]
fn a_schema_has_a_place_in_both_protocols_where_its_root_is_an_object() {
    assert_eq!(Fit::of(&json!({ "type": "object" })), Fit::Whole);
    let conditional = json!({ "type": "object", "allOf": [{ "required": ["a"] }], "properties": {} });
    assert_eq!(Fit::of(&conditional), Fit::ButConditions);
    let endpoint = Endpoint {
        protocol: Protocol::Anthropic,
        base_url: String::new(),
        model: "m".to_owned(),
        max_tokens: None,
        temperature: None,
    };
    let body = anthropic::body(&endpoint, &Ask { schema: Some(conditional), ..question() });
    assert_eq!(body["tools"][0]["input_schema"], json!({ "type": "object", "properties": {} }));
    for other in [json!(true), json!({}), json!({ "type": "array" }), json!({ "type": ["object", "null"] })] {
        assert!(Fit::of(&other) == Fit::No, "{other}");
    }
}

#[tokio::test]
async fn what_is_no_whole_answer_is_broken() {
    for both in BOTH {
        for turn in [
            Turn::cut_after("one two three four", 1),
            Turn::garbage("data: {\"a\":\n\n"),
            Turn::garbage("data: \u{fffd}\n\n".as_bytes()),
            Turn::garbage(vec![0xff, 0xfe, b'\n', b'\n']),
            Turn::garbage(""),
            Turn::endless(),
            Turn::say("x".repeat(1_001)),
            Turn::at_once("x".repeat(1_001)),
            Turn::at_once("x".repeat(100_000)),
        ] {
            let text = format!("{turn:?}").chars().take(80).collect::<String>();
            let error = answer(turn, both).await.unwrap_err();
            assert!(matches!(error, ModelError::Broken { .. }), "{text}: {error:?}");
        }
        assert_eq!(answer(Turn::say("x".repeat(1_000)), both).await.unwrap().text.len(), 1_000);
    }
}

#[tokio::test]
async fn nobody_waits_longer_than_is_said_and_a_server_that_is_away_is_away() {
    for both in BOTH {
        let model = TestModel::answering(|asked| match asked.text().as_str() {
            "why?" => Turn::stall(),
            _ => Turn::stall_after("one two three", 1),
        })
        .await;
        let client = client(&model, both);
        let short = Limits { idle: Duration::from_millis(50), ..LIMITS };
        let (said, _) = asks(&client, &question(), short).await;
        assert_eq!(said.unwrap_err(), ModelError::TimedOut { what: "has said nothing for too long" });
        let short = Limits { total: Duration::from_millis(300), ..LIMITS };
        let (said, partial) = asks(&client, &Ask { user: "and?".to_owned(), ..question() }, short).await;
        assert_eq!(said.unwrap_err(), ModelError::TimedOut { what: "takes too long for its answer" });
        assert!("one two ".starts_with(&partial), "{partial}");
        drop(model);
        let (said, _) = asks(&client, &question(), LIMITS).await;
        assert!(matches!(said.unwrap_err(), ModelError::Unavailable { .. }));
    }
}

/// A stream of the bytes, in pieces of this size.
async fn hears(protocol: Protocol, bytes: &[u8], size: usize) -> (Result<(), ModelError>, Heard) {
    let pieces: Vec<reqwest::Result<Bytes>> =
        bytes.chunks(size.max(1)).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    hears_of(protocol, stream::iter(pieces)).await
}

async fn hears_of(
    protocol: Protocol,
    bytes: impl Stream<Item = reqwest::Result<Bytes>> + Send,
) -> (Result<(), ModelError>, Heard) {
    let endpoint = Endpoint {
        protocol,
        base_url: "http://127.0.0.1:9/v1".to_owned(),
        model: "m".to_owned(),
        max_tokens: None,
        temperature: None,
    };
    let client = Client::new(endpoint).unwrap();
    let patience = Patience { until: Instant::now() + LIMITS.total, idle: LIMITS.idle };
    let mut heard = Heard::default();
    let read = client.read_stream(bytes, patience, LIMITS, &mut heard, &mut |_| {}).await;
    (read, heard)
}

#[tokio::test]
async fn it_does_not_matter_where_a_stream_is_cut_into_pieces() {
    let streams = [
        (
            Protocol::OpenAi,
            ": a comment\r\n\r\ndata: {\"model\":\"m1\",\"choices\":[{\"delta\":{\"content\":\"¿Qué\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\" 🚀\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":3,\"prompt_tokens_details\":{\"cached_tokens\":2},\"completion_tokens\":4}}\n\ndata: [DONE]\n\n",
        ),
        (
            Protocol::Anthropic,
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m1\",\"usage\":{\"input_tokens\":1,\"cache_read_input_tokens\":2}}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"¿Qué\"}}\n\nevent: brand_new\ndata: {\"type\":\"brand_new\"}\n\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\" 🚀\"}}\n\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":4}}\n\ndata: {\"type\":\"message_stop\"}\n\n",
        ),
    ];
    for (protocol, stream) in streams {
        for size in 1..stream.len() {
            let (read, heard) = hears(protocol, stream.as_bytes(), size).await;
            read.unwrap();
            let said = heard.said().unwrap();
            assert_eq!((said.text.as_str(), said.model.as_str()), ("¿Qué 🚀", "m1"), "{size}");
            let usage = Usage { input_tokens: Some(3), output_tokens: Some(4), cached_tokens: Some(2) };
            assert_eq!((said.usage, said.finish), (usage, Finish::Complete));
        }
        // A server that forgets its last word has said the reason before.
        let end = stream.find("[DONE]").or(stream.find("data: {\"type\":\"message_stop\"")).unwrap();
        let (read, heard) = hears(protocol, &stream.as_bytes()[..end], 7).await;
        read.unwrap();
        assert_eq!(heard.said().unwrap().text, "¿Qué 🚀");
    }
}

proptest! {
    #[test]
    fn no_bytes_of_a_server_make_the_reader_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        tail in "[ -~]{0,60}",
        size in 1_usize..40,
        is_openai in any::<bool>(),
    ) {
        let protocol = if is_openai { Protocol::OpenAi } else { Protocol::Anthropic };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let _ = hears(protocol, &bytes, size).await;
            let json = format!("data: {{\"type\":\"{}\",\"choices\":[{{\"delta\":7}}]}}\n\n", tail.replace(['"', '\\'], ""));
            let _ = hears(protocol, json.as_bytes(), size).await;
        });
    }
}
