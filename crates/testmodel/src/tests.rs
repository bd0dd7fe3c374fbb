//! The server, asked by hand.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{Protocol, TestModel, Turn};

async fn ask(model: &TestModel, protocol: Protocol, body: serde_json::Value) -> String {
    let base = model.base_url(protocol);
    let (host, path) = match protocol {
        Protocol::OpenAi => {
            (base.trim_start_matches("http://").trim_end_matches("/v1"), "/v1/chat/completions")
        }
        Protocol::Anthropic => (base.trim_start_matches("http://"), "/v1/messages"),
    };
    let mut stream = tokio::net::TcpStream::connect(host).await.unwrap();
    let body = body.to_string();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nAnthropic-Version: 1\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn turns_are_said_in_their_order_and_then_the_script_is_over() {
    let model = TestModel::start([Turn::say("one two three"), Turn::cut_after("one two three", 1)]).await;
    let body = json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }], "max_tokens": 9 });
    let said = ask(&model, Protocol::OpenAi, body.clone()).await;
    assert!(
        said.contains("\"one two \"") && said.contains("\"three\"") && said.ends_with("0\r\n\r\n"),
        "{said}"
    );
    let said = ask(&model, Protocol::Anthropic, body.clone()).await;
    assert!(
        said.contains("\"one two \"") && !said.contains("three") && !said.ends_with("0\r\n\r\n"),
        "{said}"
    );
    assert!(ask(&model, Protocol::OpenAi, body).await.starts_with("HTTP/1.1 418"));
    let asked = model.asked_at_least(3).await;
    assert_eq!((asked[1].protocol, asked[1].text().as_str()), (Protocol::Anthropic, "hi"));
}

#[tokio::test]
async fn a_request_that_a_server_would_refuse_is_refused() {
    let model = TestModel::answering(|_| Turn::say("yes")).await;
    for (protocol, body) in [
        (Protocol::OpenAi, json!({ "messages": [] })),
        (Protocol::OpenAi, json!({ "model": "m" })),
        (Protocol::Anthropic, json!({ "model": "m", "messages": [] })),
    ] {
        assert!(ask(&model, protocol, body).await.starts_with("HTTP/1.1 400"));
    }
}
