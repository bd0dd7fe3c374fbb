//! Bad asks, and specs that answer badly: one clear error with every violation and its path, and nothing stored; or the
//! next spec's answer, with the reason why the first one's did not count.

use capataz_contracts::v1::blob_service_client::BlobServiceClient;
use capataz_contracts::v1::{
    self, RunOutcome, connect_response::Frame as Hear, event::Body, start_runs_item::Result as Item,
};
use capataz_daemon::DeclaredAgent;
use serde_json::{Value, json};
use tokio_stream::iter;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::support::asks::{
    AskExt, Does, Hands, SpecAgents, answer_to, heard_all, request_of, shipped_specs, text, transition,
    with_specs,
};
use crate::support::{Harness, code_of, error, json as payload, one_wave, paths_of};

type Starts = v1::StartRunRequest;

fn asking(ask: v1::Ask) -> Starts {
    Starts::of_ask(ask)
}

fn in_session(session: &str) -> Starts {
    asking(text("hello").within(session))
}

fn labelled(key: &str) -> Starts {
    Starts { labels: [(key.to_owned(), "x".to_owned())].into(), ..asking(text("hello")) }
}

/// What each way of starting a run says to the request.
async fn refusals(harness: &Harness, start: &Starts) -> [(String, Vec<String>); 3] {
    let said = |status: Status| (code_of(&status), paths_of(&status));
    let mut runs = harness.runs.clone();
    let started = runs.start_run(start.clone()).await.map(|run| run.into_inner().run_id);
    let request = v1::ExecuteRunRequest { start: Some(start.clone()), timeout_ms: Some(10_000) };
    let executed = runs.execute_run(request).await.map(|run| run.into_inner().run_id);
    let items = runs.start_runs(v1::StartRunsRequest { runs: vec![start.clone()] }).await.unwrap();
    let batch = match items.into_inner().items.remove(0).result.unwrap() {
        Item::Error(error) => error.code,
        Item::Started(started) => format!("started {}", started.run_id),
    };
    let started = said(started.expect_err("StartRun refuses it"));
    let executed = said(executed.expect_err("ExecuteRun refuses it"));
    // In a batch, an error of the contract stands for the status: it has the code.
    let batch = (batch, started.1.clone());
    [started, executed, batch]
}

// S001-VA-02
#[tokio::test]
async fn bad_asks_are_refused_with_their_paths_and_nothing_is_stored() {
    let harness = Harness::start_with(|config| config.specs_dir = Some(shipped_specs())).await;
    // 10,000 entries `"key-0000":"xxxxxxxxxxxxxxxx",` of 30 bytes are more than 256 KiB.
    let many: std::collections::BTreeMap<String, String> =
        (0..10_000).map(|number| (format!("key-{number:04}"), "x".repeat(16))).collect();
    let many_json = json!(many).to_string();
    let of_preferences = |json: &str| v1::Ask { preferences_json: Some(json.to_owned()), ..text("hello") };
    let of_custom = |json: &str| v1::Ask { custom_json: Some(json.to_owned()), ..text("hello") };
    // `"k":"xx…",` has 7 bytes beside the xs, and `"a":1,` has 6.
    let of_bytes = |bytes: usize| json!({ "k": "x".repeat(bytes - 7) }).to_string();
    let deep = |levels: usize| format!("{{\"k\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
    let invalid = |start: Starts, path: &'static str| (start, "VALIDATION_ERROR", vec![path]);
    let rows: Vec<(Starts, &str, Vec<&str>)> = vec![
        invalid(asking(text("")), "ask.text"),
        invalid(asking(text(" \t\r\n\u{a0}\u{3000}")), "ask.text"),
        invalid(asking(text(&"x".repeat(16 * 1024 + 1))), "ask.text"),
        invalid(asking(text(&"ñ".repeat(8 * 1024 + 1))), "ask.text"),
        invalid(asking(text(&"\"".repeat(8 * 1024 + 1))), "ask.text"),
        invalid(asking(text(&"\u{1}".repeat(16 * 1024 / 6 + 1))), "ask.text"),
        invalid(asking(text(&"x".repeat(1024 * 1024))), "ask.text"),
        invalid(in_session(""), "ask.session"),
        invalid(in_session("two words"), "ask.session"),
        invalid(in_session("a/b"), "ask.session"),
        invalid(in_session("sesión"), "ask.session"),
        invalid(in_session("a\0b"), "ask.session"),
        invalid(in_session(&"s".repeat(129)), "ask.session"),
        invalid(asking(text("hello").to("")), "ask.spec"),
        invalid(Starts::default(), "plan"),
        invalid(labelled("capataz.session"), "labels[\"capataz.session\"]"),
        invalid(labelled("capataz.anything"), "labels[\"capataz.anything\"]"),
        invalid(asking(v1::Ask { request_id: Some(String::new()), ..text("hello") }), "ask.request_id"),
        invalid(asking(v1::Ask { preferences: many.clone(), ..text("hello") }), "ask.preferences"),
        invalid(asking(v1::Ask { custom: many, ..text("hello") }), "ask.custom"),
        invalid(asking(of_preferences(&many_json)), "ask.preferences_json"),
        invalid(asking(of_custom(&of_bytes(256 * 1024 + 1))), "ask.custom_json"),
        invalid(
            asking(v1::Ask { custom_json: Some(of_bytes(256 * 1024 - 5)), ..of_preferences(r#"{"a":1}"#) }),
            "ask.custom_json",
        ),
        invalid(asking(of_custom(&" ".repeat(1024 * 1024))), "ask.custom_json"),
        invalid(asking(of_custom("[]")), "ask.custom_json"),
        invalid(asking(of_custom("null")), "ask.custom_json"),
        invalid(asking(of_custom("")), "ask.custom_json"),
        invalid(asking(of_preferences(r#"{"a": 1, "a": 2}"#)), "ask.preferences_json"),
        invalid(asking(of_preferences(r#"{"a": [123456789012345678901]}"#)), "ask.preferences_json.a[0]"),
        invalid(asking(of_custom(&deep(62))), "ask.custom_json.k"),
        invalid(Starts { idempotency_key: Some(String::new()), ..asking(text("hello")) }, "idempotency_key"),
        (
            Starts { idempotency_key: Some(String::new()), ..asking(text(" ").to("").within("a b")) },
            "VALIDATION_ERROR",
            vec!["idempotency_key", "ask.text", "ask.session", "ask.spec"],
        ),
        (asking(text("hello").to("whispers-of-the-waves")), "SPEC_NOT_FOUND", vec![]),
        (asking(text("hello").to("Whispers-Of-The-Wave")), "SPEC_NOT_FOUND", vec![]),
        (asking(text("hello").to("zzz")), "SPEC_NOT_FOUND", vec![]),
    ];
    for (index, (start, code, paths)) in rows.into_iter().enumerate() {
        for (said, named) in refusals(&harness, &start).await {
            assert_eq!(
                (said.as_str(), &named),
                (code, &paths.iter().map(|path| (*path).to_owned()).collect()),
                "row {index}"
            );
        }
    }
    assert_eq!(harness.run_count().await, 0);
    let sessions = harness.sessions().list_sessions(v1::ListSessionsRequest::default()).await.unwrap();
    assert_eq!(sessions.into_inner().sessions.len(), 0);
    let near = asking(text("hello").to("whispers-of-the-waves"));
    let refusal = harness.runs.clone().start_run(near).await.unwrap_err();
    assert_eq!(refusal.code(), Code::NotFound);
    assert!(refusal.message().contains("similar: whispers-of-the-wave"), "{refusal}");
}

#[tokio::test]
async fn an_unknown_key_of_an_ask_is_named() {
    let read = |ask: Value| {
        let document = json!({ "ask": ask });
        capataz_contracts::json::parse::<Starts>("capataz.v1.StartRunRequest", &document)
    };
    assert!(read(json!({ "text": "hello", "session": "s" })).is_ok());
    let violations = read(json!({ "text": "hello", "sesion": "s", "spec": 7 })).unwrap_err();
    let paths: Vec<&str> = violations.iter().map(|violation| violation.path.as_str()).collect();
    assert_eq!(paths, ["ask.sesion", "ask.spec"], "{violations:?}");
}

#[tokio::test]
async fn the_largest_context_of_an_ask_arrives_whole_and_what_the_session_has_no_room_for_is_named() {
    let harness = Harness::start_with(with_specs(&["home"])).await;
    let agents = SpecAgents::start(&harness, &["home"], |request| {
        let mut answer = answer_to(request, "here");
        if request["text"] == "hello" {
            let many: serde_json::Map<String, Value> =
                (0..1_000).map(|number| (format!("key-{number:04}"), json!(null))).collect();
            answer["context_update"] = json!({ "custom": many, "emotional_state": "calm" });
        }
        Does::Says(answer)
    })
    .await;
    // `"size":7,` and `"notes":"xx…",` have 9 and 11 bytes beside the xs: 262,143 in all.
    let preferences = json!({ "size": 7, "notes": "x".repeat(256 * 1024 - 21) });
    let ask = v1::Ask { preferences_json: Some(preferences.to_string()), ..text("hello").within("s") };
    let answered = harness.ask(ask).await;
    let request = agents.requests().remove(0);
    assert_eq!(request["user"]["preferences"], preferences);
    let left_out = answered.ask.left_out.unwrap();
    let names = |number: usize| format!("custom.key-{number:04}");
    let expected: Vec<String> = (0..1_000).map(names).chain(["emotional_state".to_owned()]).collect();
    assert_eq!((left_out.keys, left_out.more), (expected, 0));
    let context = harness.session("s").await.context.unwrap();
    assert_eq!(context.preferences_json.as_deref(), Some(r#"{"size":7}"#));
    assert_eq!(context.preferences["notes"].len(), 256 * 1024 - 21);
    harness.ask(text("again").within("s")).await;
    assert_eq!(agents.requests().remove(1)["user"]["preferences"], preferences);
}

#[tokio::test]
async fn questions_to_the_router_keep_the_same_rules() {
    let harness = Harness::start_with(|config| config.specs_dir = Some(shipped_specs())).await;
    let mut router = harness.router();
    for (said, session, path) in
        [(" ", None, "text"), ("x", Some("a b"), "session"), (&*"x".repeat(16 * 1024 + 1), None, "text")]
    {
        let session: Option<String> = session.map(str::to_owned);
        let route =
            v1::RouteRequest { text: said.to_owned(), session: session.clone(), ..Default::default() };
        assert_eq!(paths_of(&router.route(route).await.unwrap_err()), [path]);
        let explain = v1::ExplainRequest { text: said.to_owned(), session, ..Default::default() };
        assert_eq!(paths_of(&router.explain(explain).await.unwrap_err()), [path]);
    }
    let refusal = harness.accept("a b", "r").await.unwrap_err();
    assert_eq!(paths_of(&refusal), ["session"]);
}

#[tokio::test]
async fn without_specs_every_ask_is_refused_and_plans_run() {
    let harness = Harness::start().await;
    let said = refusals(&harness, &asking(text("hello"))).await;
    assert!(said.iter().all(|(code, _)| code == "SPEC_NOT_AVAILABLE"), "{said:?}");
    let route = v1::RouteRequest { text: "hello".to_owned(), ..Default::default() };
    let refusal = harness.router().route(route).await.unwrap_err();
    assert_eq!(refusal.code(), Code::FailedPrecondition);
    assert_eq!(code_of(&refusal), "SPEC_NOT_AVAILABLE");
    let details = refusal.get_error_details();
    let advice = details.error_info().and_then(|info| info.metadata.get("advice"));
    assert!(advice.is_some_and(|advice| advice.contains("capataz serve --specs")), "{advice:?}");
    assert_eq!(harness.router().reload_specs(v1::ReloadSpecsRequest {}).await.unwrap().into_inner().specs, 0);
    let mut worker = harness.worker("w1", &["a"]).await;
    let run = harness.start_run(one_wave(&["a"])).await;
    let assigned = worker.assignment().await;
    worker.complete(&assigned.lease, payload(json!(1))).await;
    assert_eq!(harness.wait(&run).await.outcome(), RunOutcome::Succeeded);
    assert_eq!(harness.run_count().await, 1);
}

// S001-RQ-03
#[tokio::test]
async fn strange_texts_reach_the_spec_as_they_were_written_and_are_answered() {
    let shipped = Harness::start_with(|config| config.specs_dir = Some(shipped_specs())).await;
    let own = Harness::start_with(with_specs(&["home"])).await;
    let agents =
        SpecAgents::start(&own, &["home"], |request| Does::Says(answer_to(request, "understood"))).await;
    let rows = [
        "bell \u{7} null \0 escape \u{1b}[31m delete \u{7f}".to_owned(),
        "hello привет 你好 שלום مرحبا γειά".to_owned(),
        "أشعر بالضياع ولا أعرف ماذا أفعل".to_owned(),
        "\u{202e}txet desrever\u{202c} and \u{200b}nothing\u{200d}".to_owned(),
        "e\u{301}\u{301}\u{301} 👩‍👩‍👧‍👦 \u{fffd} \u{10ffff}".to_owned(),
        "\u{200b}".to_owned(),
        "{\"id\":\"x\",\"spec\":\"y\"}".to_owned(),
        // As JSON both have 16 KiB at most.
        "\"\\".repeat(4 * 1024),
        "\u{1}".repeat(16 * 1024 / 6),
        "x".repeat(16 * 1024),
        format!("{}\nend", "word ".repeat(3_000)),
    ];
    for said in rows {
        let shown: String = said.chars().take(20).collect();
        let answered = own.ask(text(&said).within("s")).await;
        assert_eq!(answered.outcome, RunOutcome::Succeeded, "{shown:?}: {:?}", answered.error);
        assert_eq!(agents.last_request()["text"].as_str(), Some(said.as_str()), "{shown:?}");
        let answered = shipped.ask(text(&said)).await;
        assert_eq!(answered.outcome, RunOutcome::Succeeded, "{shown:?}: {:?}", answered.error);
        assert!(!answered.text().is_empty(), "{shown:?}");
    }
}

#[tokio::test]
async fn the_last_20_messages_of_a_long_conversation_are_in_a_request() {
    let harness = Harness::start_with(with_specs(&["home"])).await;
    let agents =
        SpecAgents::start(&harness, &["home"], |request| Does::Says(answer_to(request, &"y".repeat(5_000))))
            .await;
    for _ in 0..12 {
        harness.ask(text(&"x".repeat(5_000)).within("s")).await;
    }
    let request = agents.last_request();
    let history = request["conversation"]["history"].as_array().unwrap();
    assert_eq!(history.len(), 20);
    assert_eq!(history[0]["text"].as_str().map(str::len), Some(4 * 1024), "each is cut");
    assert_eq!(history.last().unwrap()["role"], "assistant", "the newest are kept");
    assert_eq!(request["conversation"]["message_count"], 22);
}

/// An answer whose JSON has so many bytes.
fn answer_of(request: &Value, bytes: usize) -> Value {
    let length = answer_to(request, "").to_string().len();
    answer_to(request, &"y".repeat(bytes - length))
}

/// An answer, and what the reason for its refusal has to name.
type Nonsense = (&'static str, fn(&Value) -> Does, &'static str);

fn changed(request: &Value, change: impl FnOnce(&mut Value)) -> Does {
    let mut answer = answer_to(request, "odd");
    change(&mut answer);
    Does::Says(answer)
}

fn bytes(media_type: &str, bytes: Vec<u8>) -> Does {
    let data = Some(v1::payload::Data::Inline(bytes.into()));
    Does::Gives(v1::Payload { media_type: media_type.to_owned(), data })
}

fn blob(size: u64) -> Does {
    let blob = v1::BlobRef::new("ab".repeat(32), size);
    let data = Some(v1::payload::Data::Blob(blob));
    Does::Gives(v1::Payload { media_type: "application/json".to_owned(), data })
}

const NONSENSE: &[Nonsense] = &[
    ("no JSON, and said to be JSON", |_| bytes("application/json", b"hello".to_vec()), "not JSON"),
    ("a text", |_| bytes("text/plain", b"hello".to_vec()), "syntax"),
    ("nothing", |_| bytes("text/plain", Vec::new()), "syntax"),
    ("no UTF-8", |_| bytes("application/octet-stream", vec![0xff, 0xfe]), ""),
    (
        "no UTF-8, and said to be JSON",
        |request| {
            let mut answer = answer_to(request, "odd").to_string().into_bytes();
            let place = answer.windows(5).position(|five| five == b"\"odd\"").unwrap() + 1;
            answer[place] = 0xff;
            bytes("application/json", answer)
        },
        "not JSON",
    ),
    ("a list", |_| Does::Says(json!([])), ""),
    ("null", |_| Does::Says(Value::Null), ""),
    ("nesting", |_| bytes("text/plain", ["[".repeat(9_000), "]".repeat(9_000)].concat().into()), ""),
    ("an empty object", |_| Does::Says(json!({})), "request_id"),
    (
        "another request",
        |request| changed(request, |answer| answer["request_id"] = json!("other")),
        "request_id",
    ),
    ("another spec", |request| changed(request, |answer| answer["spec"] = json!("home")), "spec"),
    (
        "an answer and an error",
        |request| {
            let error = json!({ "code": "FATAL_ERROR", "message": "m", "recoverable": false });
            changed(request, |answer| answer["error"] = error)
        },
        "error",
    ),
    ("neither", |request| changed(request, |answer| answer["response"] = Value::Null), "response"),
    (
        "a failure without an error",
        |request| changed(request, |answer| answer["success"] = json!(false)),
        "error",
    ),
    (
        "an unknown format",
        |request| changed(request, |answer| answer["response"]["format"] = json!("rtf")),
        "format",
    ),
    (
        "more than sure",
        |request| changed(request, |answer| answer["metadata"]["confidence"] = json!(2)),
        "confidence",
    ),
    (
        "an unsure transition",
        |request| Does::Says(transition(answer_to(request, "odd"), "home", 1.5, true)),
        "transition.confidence",
    ),
    (
        "half a transition",
        |request| changed(request, |answer| answer["transition"] = json!({ "suggest_spec": "home" })),
        "transition.confidence",
    ),
    ("an unknown key", |request| changed(request, |answer| answer["mood"] = json!("odd")), "mood"),
    (
        "another major version",
        |request| changed(request, |answer| answer["contract_version"] = json!("2.0.0")),
        "contract_version",
    ),
    ("3 MB", |request| Does::Says(answer_to(request, &"y".repeat(3_000_000))), "at most 1048576"),
    (
        "a byte too much",
        |request| Does::Says(answer_of(request, 1024 * 1024 + 1)),
        "the document has 1048577 bytes, at most 1048576",
    ),
    (
        "much that is no UTF-8",
        |request| {
            let mut answer = answer_of(request, 100_000).to_string().into_bytes();
            answer[50_000] = 0xff;
            bytes("application/json", answer)
        },
        "syntax",
    ),
    (
        "much nesting",
        |request| {
            let nested = ["[".repeat(40_000), "]".repeat(40_000)].concat();
            let answer = answer_of(request, 100_000).to_string();
            bytes(
                "application/json",
                answer.replace("\"response\":{", &format!("\"response\":{{\"structured\":{nested},")).into(),
            )
        },
        "",
    ),
    (
        "much, and a key twice",
        |request| {
            let answer = answer_of(request, 100_000).to_string();
            bytes("application/json", answer.replacen('{', "{\"spec\":\"odd\",", 1).into())
        },
        "spec",
    ),
    (
        "10,000 unknown keys",
        |request| {
            changed(request, |answer| {
                for number in 0..10_000 {
                    answer[format!("key-{number}")] = json!(number);
                }
            })
        },
        "unknown_key",
    ),
    ("a large blob that is not there", |_| blob(1024 * 1024), "not there"),
    ("a blob that is not there", |_| blob(10), "not there"),
];

// S001-ER-07
#[tokio::test]
async fn an_answer_that_breaks_the_contract_is_fatal_and_another_spec_answers() {
    for (name, act, named) in NONSENSE {
        let harness = Harness::start_with(with_specs(&["home", "odd"])).await;
        let agents =
            SpecAgents::start(&harness, &["home", "odd"], |request| match request["spec"].as_str() {
                Some("odd") => act(request),
                _ => Does::Says(answer_to(request, "home answers")),
            })
            .await;
        let answered = harness.ask(text("hello").to("odd").within("s")).await;
        assert_eq!(answered.outcome, RunOutcome::Succeeded, "{name}: {answered:?}");
        assert_eq!(answered.text(), "home answers", "{name}");
        assert_eq!(
            (answered.specs(), answered.codes()),
            (vec!["odd", "home"], vec!["FATAL_ERROR", ""]),
            "{name}"
        );
        assert_eq!(answered.attempts(), [1, 1], "{name}: it is not tried again");
        let message = &answered.ask.calls[0].error.as_ref().unwrap().message;
        assert!(message.contains("\"odd\"") && message.contains(named), "{name}: {message}");
        assert_eq!(agents.requests().len(), 2, "{name}");
        // The session shows the text and the answer that counts, and the run can be read.
        let context = harness.session("s").await.context.unwrap();
        assert_eq!(context.history.len(), 2, "{name}");
        assert_eq!(harness.get(&answered.run).await.status(), v1::RunStatus::Finished, "{name}");
    }
}

/// An answer that its agent has uploaded.
fn uploaded(mut blobs: BlobServiceClient<Channel>, answer: String) -> Does {
    let chunk = v1::PutBlobRequest { chunk: answer.into() };
    let blob = tokio::task::block_in_place(|| {
        tokio::runtime::Handle::current().block_on(blobs.put_blob(iter([chunk])))
    });
    let blob = blob.unwrap().into_inner().blob.unwrap();
    let data = Some(v1::payload::Data::Blob(blob));
    Does::Gives(v1::Payload { media_type: "application/json".to_owned(), data })
}

/// A key with ten letters as its value is `"key-0000":"xxxxxxxxxx",`: 24 bytes, 240,000 in all, and 262,144 are there. With
/// sixteen letters it has 30 bytes, and there is room for 8,738 keys.
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_keys_of_an_answer_are_kept_where_they_fit_and_else_those_left_out_are_named() {
    let harness = Harness::start_with(with_specs(&["home"])).await;
    let blobs = BlobServiceClient::new(harness.channel.clone());
    let agents = SpecAgents::start(&harness, &["home"], move |request| {
        let mut answer = answer_to(request, "here");
        let Some((letters, way)) = request["text"].as_str().unwrap().split_once(' ') else {
            return Does::Says(answer);
        };
        let value = json!("x".repeat(letters.parse().unwrap()));
        let many: serde_json::Map<String, Value> =
            (0..10_000).map(|number| (format!("key-{number:04}"), value.clone())).collect();
        answer["context_update"] = json!({ "custom": many });
        match way {
            "inline" => bytes("application/json", answer.to_string().into()),
            _ => uploaded(blobs.clone(), answer.to_string()),
        }
    })
    .await;
    for (said, kept) in [("10 inline", 10_000), ("10 blob", 10_000), ("16 inline", 8_738), ("16 blob", 8_738)]
    {
        let session = said.replace(' ', "-");
        let answered = harness.ask(text(said).within(&session)).await;
        assert_eq!(answered.outcome, RunOutcome::Succeeded, "{said}: {:?}", answered.error);
        let expected: Vec<String> = (kept..10_000).map(|number| format!("custom.key-{number:04}")).collect();
        let left_out = answered.ask.left_out.unwrap_or_default();
        assert_eq!((left_out.keys, left_out.more), (expected, 0), "{said}");
        // The next request has each of those that were kept.
        harness.ask(text("next").within(&session)).await;
        let request = agents.requests().pop().unwrap();
        let custom = request["metadata"]["custom"].as_object().unwrap();
        assert!(custom.keys().cloned().eq((0..kept).map(|number| format!("key-{number:04}"))), "{said}");
    }
}

// S001-RS-18
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_a_mebibyte_arrives_whole_inline_or_as_a_blob() {
    let harness = Harness::start_with(with_specs(&["home"])).await;
    let blobs = BlobServiceClient::new(harness.channel.clone());
    let put = blobs.clone();
    let agents = SpecAgents::start(&harness, &["home"], move |request| {
        let mut answer = answer_of(request, 1024 * 1024 - 200);
        answer["context_update"] = json!({ "custom": { "topic": "the sea" } });
        let padding = 1024 * 1024 - answer.to_string().len();
        let answer = format!("{}{}", answer, " ".repeat(padding));
        assert_eq!(answer.len(), 1024 * 1024);
        if request["text"] != "as a blob" {
            return bytes("application/json", answer.into());
        }
        uploaded(put.clone(), answer)
    })
    .await;
    for said in ["inline", "as a blob"] {
        let answered = harness.ask(text(said).within("s")).await;
        assert_eq!(answered.outcome, RunOutcome::Succeeded, "{said}: {:?}", answered.error);
        assert_eq!(answered.attempts(), [1], "{said}");
        let Some(v1::payload::Data::Blob(blob)) = answered.ask.response.and_then(|response| response.data)
        else {
            panic!("{said}: it is a blob")
        };
        assert_eq!(blob.size, 1024 * 1024, "{said}");
        let mut chunks =
            blobs.clone().get_blob(v1::GetBlobRequest { blake3: blob.blake3 }).await.unwrap().into_inner();
        let mut content = Vec::new();
        while let Some(v1::GetBlobResponse { chunk }) = chunks.message().await.unwrap() {
            content.extend_from_slice(&chunk);
        }
        let response = capataz_contracts::spec::parse_response(&content).unwrap();
        assert!(response.response.unwrap().text.unwrap().len() > 1_000_000, "{said}");
        // The session goes by it.
        let context = harness.session("s").await.context.unwrap();
        assert_eq!(context.history.last().unwrap().text, format!("{} […]", "y".repeat(4_090)), "{said}");
        assert_eq!(context.custom.as_ref(), br#"{"topic":"the sea"}"#, "{said}");
    }
    assert_eq!(agents.requests()[1]["metadata"]["custom"], json!({ "topic": "the sea" }));
}

// S001-BP-08
#[tokio::test]
async fn who_gets_no_valid_answer_is_told_so_in_the_language_of_the_text() {
    let harness = Harness::start_with(with_specs(&["odd"])).await;
    let _agents = SpecAgents::start(&harness, &["odd"], |request| {
        changed(request, |answer| answer["mood"] = json!("odd"))
    })
    .await;
    // The texts of the seed's examples are the first four.
    for (said, begins) in [
        ("Me siento perdido", "Algo salió mal"),
        ("Necesito decidir entre dos opciones", "Algo salió mal"),
        ("Ayuda", "Algo salió mal"),
        ("¿Y cómo empiezo?", "Algo salió mal"),
        ("no sé qué hacer con mi vida", "Algo salió mal"),
        ("hola", "Algo salió mal"),
        ("what should I do with my life", "Something went wrong"),
        ("help", "Something went wrong"),
    ] {
        let answered = harness.ask(text(said)).await;
        assert_eq!((answered.outcome, answered.code()), (RunOutcome::Failed, "FATAL_ERROR"));
        let response = answered.response();
        capataz_contracts::spec::parse_response(response.to_string().as_bytes()).expect("it is a whole one");
        assert_eq!((&response["spec"], &response["error"]["code"]), (&json!("odd"), &json!("FATAL_ERROR")));
        let message = response["error"]["message"].as_str().unwrap();
        assert!(message.starts_with(begins), "{message}");
        assert!(response["error"]["details"].as_str().unwrap().contains("mood"), "{response}");
    }
}

#[tokio::test]
async fn all_violations_of_an_answer_are_told_at_once() {
    let harness = Harness::start_with(with_specs(&["odd"])).await;
    let _agents = SpecAgents::start(&harness, &["odd"], |request| {
        changed(request, |answer| {
            answer["response"] = json!({ "text": 1, "format": "rtf" });
            answer["metadata"] = json!({ "confidence": -1 });
            answer["mood"] = json!("odd");
        })
    })
    .await;
    let answered = harness.ask(text("hello")).await;
    assert_eq!((answered.outcome, answered.code()), (RunOutcome::Failed, "FATAL_ERROR"));
    let message = answered.error.unwrap().message;
    for path in
        ["response.text", "response.format", "metadata.confidence", "metadata.processing_time_ms", "mood"]
    {
        assert!(message.contains(path), "{path} in {message}");
    }
}

// S001-VE-03
#[tokio::test]
async fn a_newer_minor_version_may_say_more() {
    let harness = Harness::start_with(with_specs(&["home"])).await;
    let _agents = SpecAgents::start(&harness, &["home"], |request| {
        changed(request, |answer| {
            answer["contract_version"] = json!("1.9.0");
            answer["mood"] = json!({ "of": "the sea" });
        })
    })
    .await;
    let answered = harness.ask(text("hello")).await;
    assert_eq!(answered.outcome, RunOutcome::Succeeded, "{answered:?}");
    assert_eq!(answered.response()["mood"], json!({ "of": "the sea" }), "kept as it was said");
}

#[tokio::test]
async fn a_code_that_would_abort_a_plan_sends_an_ask_to_another_spec() {
    for code in ["AGENT_NOT_FOUND", "SESSION_CORRUPTED"] {
        let harness = Harness::start_with(with_specs(&["home", "odd"])).await;
        let _agents =
            SpecAgents::start(&harness, &["home", "odd"], move |request| match request["spec"].as_str() {
                Some("odd") => Does::Fails(Box::new(error(code, "out of paper"))),
                _ => Does::Says(answer_to(request, "home answers")),
            })
            .await;
        let answered = harness.ask(text("hello").to("odd")).await;
        assert_eq!(answered.text(), "home answers", "{answered:?}");
        assert_eq!((answered.codes(), answered.attempts()), (vec![code, ""], vec![1, 1]));
    }
}

#[tokio::test]
async fn a_spec_whose_agent_speaks_another_major_version_is_refused_and_another_one_answers() {
    let worker_of = |version: &str, agent: &str| v1::Hello {
        worker_id: format!("worker-of-{agent}"),
        agents: vec![v1::Agent {
            name: agent.to_owned(),
            kind: v1::AgentKind::Task as i32,
            contract_version: version.to_owned(),
            max_concurrency: 1,
            ..v1::Agent::default()
        }],
        slots: 1,
        protocol: 1,
        ..v1::Hello::default()
    };
    let harness = Harness::start_with(|config| {
        with_specs(&["home", "later", "declared"])(config);
        let declared = DeclaredAgent::new("declared");
        config.declared_agents = vec![DeclaredAgent { contract_version: "2.0.0".to_owned(), ..declared }];
    })
    .await;
    let _home = SpecAgents::echoing(&harness, &["home"]).await;
    let worker = crate::support::Worker::with_hello(harness.channel.clone(), worker_of("2.3.0", "later"));
    let worker = worker.await.unwrap();
    for (spec, version) in [("later", "2.3.0"), ("declared", "2.0.0")] {
        let answered = harness.ask(text("hello").to(spec)).await;
        assert_eq!(answered.specs(), [spec, "home"], "{answered:?}");
        assert_eq!(answered.codes(), ["INCOMPATIBLE_VERSION", ""], "{spec}");
        assert_eq!(answered.attempts(), [0, 1], "{spec}: nobody is asked");
        let refusal = answered.ask.calls[0].error.as_ref().unwrap();
        assert!(refusal.message.contains(version), "{refusal:?}");
    }
    drop(worker);
    let worker = crate::support::Worker::with_hello(harness.channel.clone(), worker_of("1.3.0", "declared"));
    let mut worker = worker.await.unwrap();
    let run = harness.begin(text("hello").to("declared")).await;
    let assigned = worker.assignment().await;
    let answer = answer_to(&request_of(&assigned), "what a worker says itself stands");
    worker.complete(&assigned.lease, crate::support::json(answer)).await;
    assert_eq!(harness.ended(&run).await.text(), "what a worker says itself stands");
}

async fn with_clock(specs: &'static [&'static str], declared: &[&str]) -> (Harness, Hands) {
    let hands = Hands::new();
    let clock = hands.clock();
    let harness = Harness::start_with(|config| {
        with_specs(specs)(config);
        config.clock = clock;
        config.declared_agents = declared.iter().map(|name| DeclaredAgent::new(*name)).collect();
    })
    .await;
    (harness, hands)
}

// S001-ER-01
#[tokio::test]
async fn a_spec_that_is_too_late_three_times_is_given_up_and_its_answers_count_no_more() {
    let (harness, hands) = with_clock(&["home", "slow"], &[]).await;
    let mut worker = harness.worker("w1", &["home", "slow"]).await;
    let run = harness.begin(text("hello").to("slow")).await;
    for attempt in 1..=3 {
        let assigned = worker.assignment().await;
        assert_eq!((assigned.assignment.attempt, assigned.assignment.agent.as_str()), (attempt, "slow"));
        let began = hands.now();
        // In steps that leave the worker the time to say that it is alive.
        while hands.now() < began + 30_000 - 1 {
            hands.advance((began + 30_000 - 1 - hands.now()).min(4_000));
            heard_all(&mut worker).await;
        }
        let failed = |events: &[v1::Event]| {
            let failed = events.iter().filter(|event| matches!(event.body, Some(Body::TaskAttemptFailed(_))));
            failed.count()
        };
        assert_eq!(failed(&harness.export(&run).await) + 1, attempt as usize, "30 s are not over");
        hands.advance(1);
        worker
            .hear_until(|frame| match frame {
                Hear::Cancel(cancel) => (cancel.lease.as_ref() == Some(&assigned.lease)).then_some(()),
                _ => None,
            })
            .await;
        // It does not listen, and is no longer waited for.
        if attempt == 3 {
            break;
        }
        heard_all(&mut worker).await;
        worker.complete(&assigned.lease, payload(answer_to(&request_of(&assigned), "too late"))).await;
        worker
            .hear_until(|frame| match frame {
                Hear::ResultRefused(refused) => {
                    (refused.lease.as_ref() == Some(&assigned.lease)).then_some(())
                }
                _ => None,
            })
            .await;
        hands.advance(if attempt == 1 { 1_000 } else { 2_000 });
    }
    let assigned = worker.assignment().await;
    assert_eq!(assigned.assignment.agent, "home");
    worker.complete(&assigned.lease, payload(answer_to(&request_of(&assigned), "in time"))).await;
    let answered = harness.ended(&run).await;
    assert_eq!(answered.text(), "in time");
    assert_eq!((answered.codes(), answered.attempts()), (vec!["PROCESSING_TIMEOUT", ""], vec![3, 1]));
}

#[tokio::test]
async fn a_spec_that_nobody_serves_is_waited_for_5_s() {
    // One agent is declared and absent; of the other, nobody has ever heard.
    for declared in [&["absent"][..], &[]] {
        let (harness, hands) = with_clock(&["home", "absent"], declared).await;
        let agents = SpecAgents::echoing(&harness, &["home"]).await;
        let run = harness.begin(text("hello").to("absent")).await;
        hands.advance(4_999);
        let mut other = harness.worker("w2", &["other"]).await;
        heard_all(&mut other).await;
        assert_eq!(agents.requests().len(), 0, "another worker may still come");
        hands.advance(1);
        let answered = harness.ended(&run).await;
        assert_eq!(answered.text(), "TEXT: hello", "{answered:?}");
        assert_eq!(
            (answered.specs(), answered.codes()),
            (vec!["absent", "home"], vec!["SPEC_NOT_AVAILABLE", ""])
        );
    }
}

#[tokio::test]
async fn a_spec_whose_agent_is_unknown_is_not_waited_for_once_workers_had_the_time_to_come() {
    let (harness, hands) = with_clock(&["home", "unknown"], &[]).await;
    hands.advance(15_000);
    let _agents = SpecAgents::echoing(&harness, &["home"]).await;
    let began = hands.now();
    let answered = harness.ask(text("hello").to("unknown")).await;
    assert_eq!(
        (answered.specs(), answered.codes()),
        (vec!["unknown", "home"], vec!["SPEC_NOT_AVAILABLE", ""])
    );
    assert_eq!(hands.now(), began, "no time has passed");
    let message = &answered.ask.calls[0].error.as_ref().unwrap().message;
    assert!(message.contains("an agent that nobody knows"), "{message}");
}

#[tokio::test]
async fn a_spec_that_crashes_is_asked_again_and_one_that_always_does_is_given_up() {
    for crashes in [1, usize::MAX] {
        let harness = Harness::start_with(with_specs(&["home", "odd"])).await;
        let mut left = crashes;
        let _agents =
            SpecAgents::start(&harness, &["home", "odd"], move |request| match request["spec"].as_str() {
                Some("odd") if left > 0 => {
                    left -= 1;
                    Does::Crashes
                }
                _ => Does::Says(answer_to(request, "here")),
            })
            .await;
        let answered = harness.ask(text("hello").to("odd").within("s")).await;
        assert_eq!((answered.outcome, answered.text().as_str()), (RunOutcome::Succeeded, "here"));
        if crashes == 1 {
            assert_eq!(
                (answered.specs(), answered.attempts()),
                (vec!["odd"], vec![1]),
                "no attempt was made"
            );
        } else {
            assert_eq!((answered.specs(), answered.codes()), (vec!["odd", "home"], vec!["WORKER_LOST", ""]));
        }
        assert_eq!(harness.session("s").await.context.unwrap().message_count, 2);
    }
}

#[tokio::test]
async fn an_answer_of_an_uploaded_blob_is_no_answer() {
    let harness = Harness::start_with(with_specs(&["home", "odd"])).await;
    let mut blobs = v1::blob_service_client::BlobServiceClient::new(harness.channel.clone());
    let chunk = v1::PutBlobRequest { chunk: vec![b'x'; 40_000].into() };
    let put = blobs.put_blob(iter([chunk])).await.unwrap().into_inner().blob.unwrap();
    let _agents =
        SpecAgents::start(&harness, &["home", "odd"], move |request| match request["spec"].as_str() {
            Some("odd") => Does::Gives(v1::Payload {
                media_type: "application/json".to_owned(),
                data: Some(v1::payload::Data::Blob(put.clone())),
            }),
            _ => Does::Says(answer_to(request, "home answers")),
        })
        .await;
    let answered = harness.ask(text("hello").to("odd")).await;
    assert_eq!((answered.codes(), answered.text().as_str()), (vec!["FATAL_ERROR", ""], "home answers"));
}

#[tokio::test]
async fn a_session_that_is_full_says_when_to_come_back_and_others_are_served() {
    // A slow machine takes longer for all the starts than a worker may be silent: in this time nobody is.
    let (harness, _hands) = with_clock(&["home"], &[]).await;
    let mut worker = harness.worker("w1", &["home"]).await;
    let mut runs = harness.runs.clone();
    let keyed = v1::StartRunRequest { idempotency_key: Some("k".to_owned()), ..in_session("s") };
    let first = runs.start_run(keyed.clone()).await.unwrap().into_inner().run_id;
    let held = worker.assignment().await;
    for _ in 0..256 {
        harness.begin(text("waiting").within("s")).await;
    }
    let refusal = runs.start_run(in_session("s")).await.unwrap_err();
    assert_eq!((refusal.code(), code_of(&refusal).as_str()), (Code::ResourceExhausted, "OVERLOADED"));
    // The key comes first: whoever repeats a request is no new one.
    let again = runs.start_run(keyed.clone()).await.unwrap().into_inner();
    assert_eq!((again.run_id, again.created), (first.clone(), false));
    let execute = v1::ExecuteRunRequest { start: Some(keyed.clone()), timeout_ms: Some(0) };
    let executed = runs.execute_run(execute).await.unwrap().into_inner();
    assert_eq!((executed.run_id, executed.created), (first.clone(), false));
    // Another request under the key is one, and a key that nobody has used is none.
    let labels = [("team".to_owned(), "a".to_owned())].into();
    for start in [
        v1::StartRunRequest { labels, ..keyed.clone() },
        v1::StartRunRequest { idempotency_key: Some("another".to_owned()), ..keyed },
    ] {
        assert_eq!(code_of(&runs.start_run(start).await.unwrap_err()), "OVERLOADED");
    }
    let other = harness.begin(text("hello").within("t")).await;
    let assigned = worker.assignment().await;
    worker.complete(&assigned.lease, payload(answer_to(&request_of(&assigned), "here"))).await;
    assert_eq!(harness.ended(&other).await.outcome, RunOutcome::Succeeded);
    worker.complete(&held.lease, payload(answer_to(&request_of(&held), "here"))).await;
    harness.ended(&first).await;
    // One has its turn, so there is room for one more.
    worker.assignment().await;
    harness.begin(text("one more").within("s")).await;
}

#[tokio::test]
async fn the_template_agent_names_every_rule_that_its_input_breaks() {
    let harness = Harness::start_with(|config| config.specs_dir = Some(shipped_specs())).await;
    let fails = async |input: Value| {
        let mut plan = one_wave(&["template"]);
        plan.waves[0].tasks[0].input = Some(payload(input));
        let run = harness.start_run(plan).await;
        let error = harness.wait(&run).await.tasks.remove(0).error.unwrap();
        let cause = error.cause.as_deref().cloned().unwrap_or(error);
        (cause.code, cause.message)
    };
    let (code, message) = fails(json!({ "id": "", "mood": 1, "text": "hello" })).await;
    assert_eq!(code, "INVALID_REQUEST");
    for place in ["id", "timestamp", "spec", "routing", "context", "mood"] {
        assert!(message.contains(&format!("{place}: ")), "{place} is missing in: {message}");
    }
    let (code, message) = fails(json!([])).await;
    assert_eq!(code, "INVALID_REQUEST");
    assert!(message.starts_with("the input is not a SpecRequest: "), "{message}");
}
