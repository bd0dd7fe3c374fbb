//! Every kind of action does its work, as the site itself has seen it.

use serde_json::json;

use crate::bench::{Bench, Ended};

/// The fields that came with the last form that was sent to this path.
fn sent(bench: &Bench, path: &str) -> Vec<(String, String)> {
    let requests = bench.site.requests();
    let request = requests.iter().rev().find(|request| request.path == path && request.method == "POST");
    let body = String::from_utf8(request.expect("the form came").body.to_vec()).unwrap();
    let field = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap();
        (name.to_owned(), value.replace('+', " ").replace("%40", "@"))
    };
    body.split('&').map(field).collect()
}

#[tokio::test]
async fn a_form_is_filled_selected_checked_and_submitted() {
    let bench = Bench::start().await;
    let ended = bench
        .run(
            r#"
            name = "order"
            [variables]
            customer = "Ana María"
            [[actions]]
            id = "open"
            kind = "navigate"
            url = "http://{site}/form"
            [[actions]]
            id = "name"
            kind = "fill"
            target = { label = "Name" }
            value = "${var:customer}"
            [[actions]]
            id = "mail"
            kind = "fill"
            target = { label = "E-mail" }
            value = "ana@example.com"
            [[actions]]
            id = "amount"
            kind = "fill"
            target = { role = "spinbutton", name = "Amount" }
            value = "3"
            [[actions]]
            id = "day"
            kind = "fill"
            target = { label = "Day" }
            value = "2026-11-21"
            [[actions]]
            id = "notes"
            kind = "fill"
            target = { label = "Notes" }
            value = "ring twice"
            [[actions]]
            id = "size"
            kind = "select"
            target = { label = "Size" }
            options = ["Large"]
            [[actions]]
            id = "extras"
            kind = "select"
            target = { label = "Extras" }
            options = ["nuts", "Salt"]
            [[actions]]
            id = "gift"
            kind = "check"
            target = { label = "As a gift" }
            [[actions]]
            id = "card"
            kind = "check"
            target = { label = "Card" }
            [[actions]]
            id = "read"
            kind = "extract"
            extract = "value"
            output = "notes"
            target = { label = "Notes" }
            [[actions]]
            id = "send"
            kind = "submit"
            target = { testid = "send" }
            [[actions.post]]
            kind = "title_equals"
            value = "Sent"
            "#,
        )
        .await
        .expect_success();
    assert_eq!(ended.output("notes"), "ring twice");
    let fields = sent(&bench, "/form/sent");
    let values = |name: &str| -> Vec<String> {
        fields.iter().filter(|(found, _)| found == name).map(|(_, value)| value.clone()).collect()
    };
    assert_eq!(values("name"), ["Ana Mar%C3%ADa"]);
    assert_eq!(values("email"), ["ana@example.com"]);
    assert_eq!(values("amount"), ["3"]);
    assert_eq!(values("day"), ["2026-11-21"]);
    assert_eq!(values("notes"), ["ring twice"]);
    assert_eq!(values("size"), ["l"]);
    assert_eq!(values("extras"), ["nuts", "salt"]);
    assert_eq!(values("gift"), ["yes"]);
    assert_eq!(values("payment"), ["card"]);
    assert_eq!(bench.site.hits("/form/sent"), 1);
}

#[tokio::test]
async fn what_is_checked_is_unchecked_and_what_is_so_already_is_left_alone() {
    let bench = Bench::start().await;
    let step = |kind: &str, id: u32| {
        let state = format!("{kind}ed");
        format!(
            "[[actions]]\nid = \"{kind}-{id}\"\nkind = \"{kind}\"\ntarget = {{ label = \"As a gift\" }}\n\
             [[actions.post]]\nkind = \"{state}\"\ntarget = {{ label = \"As a gift\" }}\n"
        )
    };
    let steps: String = [step("check", 1), step("check", 2), step("uncheck", 3), step("uncheck", 4)].concat();
    let script = format!(
        "name = \"boxes\"\n[[actions]]\nid = \"open\"\nkind = \"navigate\"\nurl = \"http://{{site}}/form\"\n{steps}"
    );
    let ended = bench.run(&script).await.expect_success();
    assert_eq!(ended.script().succeeded, 5);
}

#[tokio::test]
async fn the_pointer_and_the_keyboard_reach_what_they_are_meant_for() {
    let bench = Bench::start().await;
    let ended = bench
        .run(
            r#"
            name = "pointer and keyboard"
            [[actions]]
            id = "open-double"
            kind = "navigate"
            url = "http://{site}/button/double"
            [[actions]]
            id = "double"
            kind = "double_click"
            target = { testid = "target" }
            [[actions.post]]
            kind = "text_equals"
            target = { testid = "status" }
            value = "opened"
            [[actions]]
            id = "open-hover"
            kind = "navigate"
            url = "http://{site}/hover"
            [[actions]]
            id = "hover"
            kind = "hover"
            target = { testid = "opener" }
            [[actions.pre]]
            kind = "hidden"
            target = { role = "link", name = "Prices" }
            [[actions.post]]
            kind = "visible"
            target = { role = "link", name = "Prices" }
            [[actions]]
            id = "open-keys"
            kind = "navigate"
            url = "http://{site}/keyboard"
            [[actions]]
            id = "search"
            kind = "fill"
            target = { testid = "search" }
            value = "boats"
            [[actions]]
            id = "letter"
            kind = "press"
            key = "Shift+A"
            target = { testid = "search" }
            [[actions]]
            id = "enter"
            kind = "press"
            key = "Enter"
            [[actions.post]]
            kind = "text_contains"
            target = { testid = "status" }
            value = "searched for"
            [[actions]]
            id = "keys"
            kind = "extract"
            extract = "text"
            output = "keys"
            target = { testid = "keys" }
            [[actions]]
            id = "open-far"
            kind = "navigate"
            url = "http://{site}/button/far"
            [[actions]]
            id = "scroll"
            kind = "scroll_to"
            target = { testid = "bottom" }
            [[actions]]
            id = "click"
            kind = "click"
            target = { testid = "target" }
            [[actions.post]]
            kind = "text_equals"
            target = { testid = "status" }
            value = "saved"
            "#,
        )
        .await
        .expect_success();
    bench.site.until_hits("/hit/target", 2).await;
    bench.site.until_hits("/hit/click", 2).await;
    assert_eq!((bench.site.hits("/hit/target"), bench.site.hits("/hit/click")), (2, 2));
    let keys = ended.output("keys").as_str().unwrap().to_owned();
    assert!(keys.contains("shift A KeyA") && keys.contains("Enter Enter"), "{keys}");
}

#[tokio::test]
async fn one_goes_back_and_loads_a_page_anew() {
    let bench = Bench::start().await;
    let ended = bench
        .run(
            r#"
            name = "back and forth"
            [[actions]]
            id = "first"
            kind = "navigate"
            url = "http://{site}/plain"
            [[actions]]
            id = "second"
            kind = "navigate"
            url = "http://{site}/navigate/chain"
            [[actions.post]]
            kind = "url_equals"
            value = "http://{site}/navigate/arrived"
            [[actions]]
            id = "back"
            kind = "back"
            [[actions.post]]
            kind = "title_equals"
            value = "Plain page"
            [[actions]]
            id = "again"
            kind = "reload"
            [[actions.post]]
            kind = "title_equals"
            value = "Plain page"
            "#,
        )
        .await
        .expect_success();
    let finished = ended.finished();
    let redirects = &finished[1].changes.as_ref().unwrap().redirects;
    let paths = ["/navigate/chain", "/navigate/chain/2", "/navigate/chain/3"];
    assert_eq!(redirects, &paths.map(|path| bench.site.url(path)));
    assert_eq!(finished[1].changes.as_ref().unwrap().status, Some(200));
    assert!(bench.site.hits("/plain") >= 2, "the page was loaded anew");
}

#[tokio::test]
async fn what_is_read_becomes_outputs_for_later_actions_and_for_the_result() {
    let bench = Bench::start().await;
    let ended = bench
        .run(
            r#"
            name = "read"
            [[actions]]
            id = "texts"
            kind = "navigate"
            url = "http://{site}/text"
            [[actions]]
            id = "spaced"
            kind = "extract"
            extract = "text"
            output = "spaced"
            target = { testid = "spaced" }
            [[actions]]
            id = "decomposed"
            kind = "extract"
            extract = "text"
            output = "decomposed"
            target = { testid = "decomposed" }
            [[actions]]
            id = "alt"
            kind = "extract"
            extract = "attribute"
            attribute = "alt"
            output = "alt"
            target = { testid = "image" }
            [[actions]]
            id = "none"
            kind = "extract"
            extract = "attribute"
            attribute = "title"
            output = "none"
            target = { testid = "image" }
            [[actions]]
            id = "tables"
            kind = "navigate"
            url = "http://{site}/tables"
            [[actions]]
            id = "orders"
            kind = "extract"
            extract = "table"
            output = "orders"
            target = { testid = "orders" }
            [[actions]]
            id = "search"
            kind = "navigate"
            url = "http://{site}/form/get"
            [[actions]]
            id = "fill"
            kind = "fill"
            target = { label = "Search" }
            value = "${output:alt}"
            [[actions]]
            id = "send"
            kind = "submit"
            target = { role = "button", name = "Search" }
            [[actions.post]]
            kind = "text_contains"
            target = { testid = "echo" }
            value = "q=A+red+square"
            "#,
        )
        .await
        .expect_success();
    assert_eq!(ended.output("spaced"), "white space");
    assert_eq!(ended.output("decomposed"), "caf\u{e9}");
    assert_eq!(ended.output("alt"), "A red square");
    assert_eq!(ended.output("none"), json!(null));
    let orders = ended.output("orders");
    let rows = orders.as_array().unwrap();
    assert_eq!(rows[0], json!(["Number", "Customer", "Total"]));
    assert_eq!(rows[2], json!(["18", "Berta & Carla", ""]));
    assert_eq!(rows.len(), 4);
}

#[tokio::test]
async fn files_go_up_and_come_down() {
    let bench = Bench::start_with(|config, folder| {
        let files = folder.join("files");
        std::fs::create_dir(&files).unwrap();
        std::fs::write(files.join("one.txt"), "1").unwrap();
        std::fs::write(files.join("two.txt"), "22").unwrap();
        config.browser.upload_folders.push(files);
    })
    .await;
    let script = r#"
        name = "files"
        [policy]
        upload_folders = ["{files}"]
        [[actions]]
        id = "open"
        kind = "navigate"
        url = "http://{site}/upload"
        [[actions]]
        id = "choose"
        kind = "upload"
        target = { testid = "several" }
        files = ["{files}/one.txt", "{files}/two.txt"]
        [[actions.post]]
        kind = "upload_listed"
        target = { testid = "files" }
        [[actions]]
        id = "send"
        kind = "submit"
        target = { testid = "send" }
        [[actions.post]]
        kind = "title_equals"
        value = "Received"
        [[actions]]
        id = "received"
        kind = "extract"
        extract = "table"
        output = "received"
        target = { testid = "received" }
        [[actions]]
        id = "downloads"
        kind = "navigate"
        url = "http://{site}/downloads"
        [[actions]]
        id = "by-click"
        kind = "download"
        target = { testid = "ok" }
        output = "report"
        [[actions.post]]
        kind = "download_completed"
        value = "report.csv"
        [[actions]]
        id = "by-url"
        kind = "download"
        url = "http://{site}/download/hostile"
        output = "hostile"
        [[actions]]
        id = "by-script"
        kind = "download"
        target = { testid = "blob" }
        output = "made"
        "#;
    let files = bench.folder.path().join("files").display().to_string();
    let ended = bench.run(&script.replace("{files}", &files)).await.expect_success();
    let received = ended.output("received").to_string();
    assert!(received.contains("one.txt") && received.contains("two.txt"), "{received}");

    let report = ended.output("report");
    assert_eq!(report["file_name"], "report.csv");
    let content = bench.blob(report["blake3"].as_str().unwrap()).await;
    assert_eq!(content, b"number,customer\n17,Ana\n18,Berta\n");
    assert_eq!(report["bytes"], content.len());
    let hostile = ended.output("hostile");
    let name = hostile["file_name"].as_str().unwrap();
    assert!(!name.contains('/') && !name.contains('\\'), "{name}");
    assert_eq!(bench.blob(hostile["blake3"].as_str().unwrap()).await, [b'.'; 1024]);
    let made = ended.output("made");
    assert_eq!(bench.blob(made["blake3"].as_str().unwrap()).await, b"made here\n");
    assert_eq!(downloads_of(&ended), ["report.csv", name, "made.txt"]);
}

/// Names of what was downloaded, as the events have them.
fn downloads_of(ended: &Ended) -> Vec<String> {
    let finished = ended.finished();
    let changes = finished.iter().filter_map(|done| done.changes.as_ref());
    changes.flat_map(|changes| &changes.downloads).map(|download| download.file_name.clone()).collect()
}

#[tokio::test]
async fn pictures_are_taken_of_what_is_visible_and_of_the_whole_page() {
    let bench = Bench::start().await;
    let ended = bench
        .run(
            r#"
            name = "pictures"
            [browser]
            width = 800
            height = 600
            [[actions]]
            id = "open"
            kind = "navigate"
            url = "http://{site}/button/far"
            [[actions]]
            id = "visible"
            kind = "screenshot"
            [[actions]]
            id = "whole"
            kind = "screenshot"
            full_page = true
            "#,
        )
        .await
        .expect_success();
    let mut sizes = Vec::new();
    for done in &ended.finished()[1..] {
        let reference = done.evidence.iter().find(|piece| piece.kind == "screenshot").unwrap();
        let png = bench.blob(&reference.id).await;
        crate::proof::check_content(reference, &png);
        // Width and height stand in the header, after signature, length and name.
        let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
        sizes.push((number(16), number(20)));
    }
    assert_eq!(sizes[0], (800, 600));
    assert_eq!(sizes[1].0, 800);
    assert!(sizes[1].1 > 3000, "{sizes:?}");
}

#[tokio::test]
async fn what_comes_late_is_waited_for_and_what_comes_now_is_asserted() {
    let bench = Bench::start().await;
    bench
        .run(
            r#"
            name = "wait"
            [[actions]]
            id = "open"
            kind = "navigate"
            url = "http://{site}/button/late"
            [[actions]]
            id = "not-yet"
            kind = "wait_for"
            [[actions.conditions]]
            kind = "visible"
            target = { testid = "target" }
            [[actions]]
            id = "now"
            kind = "assert"
            [[actions.conditions]]
            kind = "text_equals"
            target = { testid = "target" }
            value = "Save"
            [[actions.conditions]]
            kind = "element_count_equals"
            target = { role = "button" }
            count = 1
            [[actions]]
            id = "enabled-late"
            kind = "navigate"
            url = "http://{site}/button/late-enabled"
            [[actions]]
            id = "save"
            kind = "click"
            target = { testid = "target" }
            [[actions.post]]
            kind = "text_equals"
            target = { testid = "status" }
            value = "saved"
            "#,
        )
        .await
        .expect_success();
}

#[tokio::test]
async fn zz_blob() {
    let bench = Bench::start().await;
    for prefix in [
        "",
        "[[actions]]\nid = \"x\"\nkind = \"download\"\ntarget = { testid = \"ok\" }\n",
        "[[actions]]\nid = \"x\"\nkind = \"download\"\nurl = \"http://{site}/download/hostile\"\n",
    ] {
        let script = format!(
            "name = \"b\"\n[policy]\nnavigation_timeout_ms = 8000\n[[actions]]\nid = \"open\"\nkind = \"navigate\"\nurl = \"http://{{site}}/downloads\"\n{prefix}[[actions]]\nid = \"by-script\"\nkind = \"download\"\ntarget = {{ testid = \"blob\" }}\noutput = \"made\"\n"
        );
        let ended = bench.run(&script).await;
        println!(
            "ZZ {prefix:?} {:?} {:?}",
            ended.result.outcome(),
            ended.events.iter().rev().find_map(|e| match &e.body {
                Some(capataz_contracts::v1::event::Body::ActionFailed(f)) => Some(f.changes.clone()),
                _ => None,
            })
        );
    }
    panic!();
}
