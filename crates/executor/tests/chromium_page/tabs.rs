use capataz_contracts::v1::NewTabs;
use capataz_executor::page::Page;

use crate::support::{Server, open, open_with};

const PAGES: [(&str, &str); 4] = [
    (
        "/",
        "<p id=where>first</p><a id=link href=/linked target=_blank>link</a>\
           <button id=open onclick=\"window.open('/opened')\">open</button>\
           <button id=alert onclick=\"window.open('/alerts')\">alert</button>",
    ),
    ("/linked", "<p id=where>linked</p>"),
    ("/opened", "<p id=where>opened</p><button id=close onclick='window.close()'>close</button>"),
    ("/alerts", "<script>alert('at once')</script><p id=where>alerts</p>"),
];

#[tokio::test]
async fn a_new_tab_is_followed_and_when_it_closes_the_one_before_is_back() {
    let server = Server::with(&PAGES).await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/")).await.unwrap();
    page.page.take_changes();
    page.click("#open").await.unwrap();
    page.reads("#where", "opened").await;
    assert_eq!(page.page.take_changes().new_tabs, [server.url("/opened")]);
    page.click("#close").await.unwrap();
    page.reads("#where", "first").await;
    page.click("#link").await.unwrap();
    page.reads("#where", "linked").await;
    assert_eq!(page.page.take_changes().new_tabs, [server.url("/linked")]);
}

#[tokio::test]
async fn everything_is_in_place_before_a_new_tab_runs() {
    let server = Server::with(&PAGES).await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/")).await.unwrap();
    page.click("#alert").await.unwrap();
    page.reads("#where", "alerts").await;
    assert_eq!(page.page.take_changes().dialogs[0].message, "at once");
}

#[tokio::test]
async fn new_tabs_are_closed_where_they_are_not_wanted() {
    let server = Server::with(&PAGES).await;
    let mut page = open_with(&[&server], |options| options.new_tabs = NewTabs::Close).await;
    page.go(&server.url("/")).await.unwrap();
    for (button, path) in [("#open", "/opened"), ("#link", "/linked")] {
        page.click(button).await.unwrap();
        let changes = page.changes(|changes| !changes.new_tabs.is_empty()).await;
        assert_eq!(changes.new_tabs, [server.url(path)]);
        assert_eq!(page.text_of("#where").await, "first");
        assert_eq!(server.hits(path), 0);
    }
}

#[tokio::test]
async fn a_page_cannot_open_tabs_without_end() {
    let flood = "<p id=where>flood</p><button id=go onclick=\"for (let i = 0; i < 24; i++) \
                 window.open('about:blank')\">go</button>";
    let server = Server::with(&[("/", flood)]).await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/")).await.unwrap();
    page.click("#go").await.unwrap();
    page.changes(|changes| changes.new_tabs.len() == 24).await;
    // The last one that was followed still answers.
    assert_eq!(page.page.location().await.unwrap().0, "about:blank");
}
