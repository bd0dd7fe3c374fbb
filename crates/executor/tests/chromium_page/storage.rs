use capataz_executor::chromium::{OriginStorage, StorageState, StoredItem};

use crate::support::{Answer, Server, open, open_with};

const PAGE: &str = "<p id=said></p><script>said.textContent = document.cookie + '|' + (localStorage.who ?? 'nobody'); \
    localStorage.who = 'Ann'; document.cookie = 'theme=dark'</script>";

#[tokio::test]
async fn who_was_signed_in_is_signed_in_again_without_a_request() {
    let server = Server::start(|request| {
        let page = Answer::html(PAGE).header("set-cookie: session=abc; HttpOnly");
        (request.path == "/app").then_some(page)
    })
    .await;
    let mut first = open(&[&server]).await;
    first.go(&server.url("/app")).await.unwrap();
    first.reads("#said", "|nobody").await;
    let before = server.hits("/app") + server.hits("/");
    let state = first.browser.storage_state().await.unwrap();
    assert_eq!(server.hits("/app") + server.hits("/"), before);
    assert_eq!(state.cookies.len(), 2);
    let who = StoredItem { name: "who".to_owned(), value: "Ann".to_owned() };
    let origin = server.url("");
    assert_eq!(state.origins, [OriginStorage { origin, local_storage: vec![who] }]);

    // It travels as JSON, and keeps what this run may not use.
    let mut state: StorageState = serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap();
    let elsewhere = OriginStorage { origin: "http://elsewhere.example".to_owned(), local_storage: vec![] };
    state.origins.push(elsewhere.clone());
    let mut second = open_with(&[&server], |options| options.storage_state = Some(state)).await;
    assert_eq!(server.hits("/app") + server.hits("/"), before);
    second.go(&server.url("/app")).await.unwrap();
    second.reads("#said", "theme=dark|Ann").await;
    let newest = server.seen().requests.into_iter().rfind(|request| request.path == "/app").unwrap();
    assert!(newest.head.contains("session=abc"), "{}", newest.head);
    let kept = second.browser.storage_state().await.unwrap();
    assert!(kept.origins.contains(&elsewhere));
}

#[tokio::test]
async fn the_page_goes_on_when_its_storage_was_read() {
    let server = Server::start(|request| (request.path == "/app").then(|| Answer::html(PAGE))).await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/app")).await.unwrap();
    page.reads("#said", "|nobody").await;
    for _ in 0..2 {
        page.browser.storage_state().await.unwrap();
        page.reads("#said", "|nobody").await;
    }
}

#[tokio::test]
async fn what_is_stored_is_not_shown_by_mistake() {
    let item = StoredItem { name: "token".to_owned(), value: "hunter2".to_owned() };
    let origins = vec![OriginStorage { origin: "http://h".to_owned(), local_storage: vec![item.clone()] }];
    let state =
        StorageState { cookies: vec![serde_json::json!({ "value": "hunter2" })], origins: origins.clone() };
    assert!(!format!("{state:?} {origins:?} {item:?}").contains("hunter2"));
}
