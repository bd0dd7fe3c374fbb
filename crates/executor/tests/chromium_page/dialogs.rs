use capataz_contracts::v1::{DialogAnswer, DialogRecord};
use capataz_executor::page::{Act, Page, PageError, WaitUntil};

use crate::support::{Server, open, open_with};

const PAGE: &str = "<button id=alert onclick=\"alert('hello'); said.textContent = 'after'\">alert</button>
<button id=ask onclick=\"said.textContent = confirm('sure?') + ',' + prompt('name?', 'Ann')\">ask</button>
<button id=many onclick=\"for (let i = 0; i < 50; i++) alert(i); said.textContent = 'all'\">many</button>
<input id=stay><p id=said></p>";

fn record(kind: &str, message: &str, accepted: bool) -> DialogRecord {
    DialogRecord { kind: kind.to_owned(), message: message.to_owned(), accepted }
}

#[tokio::test]
async fn dialogs_are_answered_at_once_as_declared() {
    let server = Server::with(&[("/", PAGE)]).await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/")).await.unwrap();
    page.click("#alert").await.unwrap();
    page.reads("#said", "after").await;
    assert_eq!(page.page.take_changes().dialogs, [record("alert", "hello", false)]);
    page.click("#ask").await.unwrap();
    page.reads("#said", "false,null").await;
    page.page.answer_dialogs(DialogAnswer::Accept, None);
    page.page.take_changes();
    page.click("#ask").await.unwrap();
    page.reads("#said", "true,Ann").await;
    let expected = [record("confirm", "sure?", true), record("prompt", "name?", true)];
    assert_eq!(page.page.take_changes().dialogs, expected);
}

#[tokio::test]
async fn fifty_dialogs_in_a_row_do_not_hold_up_anything() {
    let server = Server::with(&[("/", PAGE)]).await;
    let mut page = open_with(&[&server], |options| options.dialogs = DialogAnswer::Accept).await;
    page.go(&server.url("/")).await.unwrap();
    page.click("#many").await.unwrap();
    page.reads("#said", "all").await;
    assert_eq!(page.page.take_changes().dialogs.len(), 50);
}

#[tokio::test]
async fn a_page_that_wants_to_be_asked_before_it_is_left_is_answered() {
    let stays = format!("{PAGE}<script>onbeforeunload = (event) => event.preventDefault()</script>");
    let server = Server::with(&[("/", &stays), ("/next", "next")]).await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/")).await.unwrap();
    // Without use of the page it is not asked.
    let node = page.node("#stay").await;
    page.act(Act::Fill { node: node.clone(), text: "x".to_owned() }, WaitUntil::Load).await.unwrap();
    page.act(Act::Click { node, how: Default::default() }, WaitUntil::Load).await.unwrap();
    let stayed = page.go(&server.url("/next")).await;
    assert!(matches!(stayed, Err(PageError::NotLoaded { .. })), "{stayed:?}");
    assert_eq!(page.page.take_changes().dialogs[0].kind, "beforeunload");
    page.page.answer_dialogs(DialogAnswer::Accept, None);
    assert_eq!(page.page.location().await.unwrap().0, server.url("/"));
    let left = page.go(&server.url("/next")).await;
    assert_eq!(left, Ok(()), "{:?}", page.page.take_changes());
    page.reads("body", "next").await;
}
