use std::time::Duration;

use capataz_executor::chromium::DOWNLOAD_LIMIT;
use capataz_executor::page::{Act, Page, PageError, WaitUntil};

use crate::support::{Answer, LIMIT, Server, css, open};

async fn site() -> Server {
    Server::start(|request| {
        let attached = |name: &str| format!("content-disposition: attachment; filename=\"{name}\"");
        Some(match request.path.as_str() {
            "/" => Answer::html("<a id=report href=/report>report</a> <a id=large href=/large>large</a> <a id=blob download=made.txt>blob</a>\
                 <script>blob.href = URL.createObjectURL(new Blob(['made here']))</script>"),
            "/report" => Answer::of("application/octet-stream", "a,b\n1,2\n").header(&attached("../re/port.csv")),
            "/large" => Answer::of("application/octet-stream", vec![0; DOWNLOAD_LIMIT as usize + 1]).header(&attached("large.bin")),
            "/form" => Answer::html("<input id=one type=file> <input id=many type=file multiple> <input id=text>\
                 <input id=eager type=file onchange=\"log.textContent = this.files[0].name; this.value = ''\"><p id=log></p>"),
            _ => return None,
        })
    })
    .await
}

#[tokio::test]
async fn a_download_is_waited_for_and_kept_under_a_name_without_folders() {
    let server = site().await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/")).await.unwrap();
    let limit = Duration::from_millis(200);
    assert!(!page.page.downloads_ended(true, limit).await.unwrap());
    assert!(page.page.downloads_ended(false, limit).await.unwrap());
    page.click("#report").await.unwrap();
    assert!(page.page.downloads_ended(true, LIMIT).await.unwrap());
    let [download] = page.page.take_changes().downloads.try_into().unwrap();
    assert!(!download.file_name.contains('/') && download.file_name.ends_with("port.csv"), "{download:?}");
    assert_eq!((download.bytes, download.state.as_str()), (8, "completed"));
    assert_eq!(download.url, server.url("/report"));
    assert_eq!(std::fs::read_to_string(&download.path).unwrap(), "a,b\n1,2\n");

    // By its address, too, and from what a page has made itself.
    page.go(&server.url("/report")).await.unwrap();
    assert!(page.page.downloads_ended(true, LIMIT).await.unwrap());
    page.click("#blob").await.unwrap();
    page.changes(|changes| changes.downloads.iter().any(|download| download.file_name == "made.txt")).await;
}

#[tokio::test]
async fn a_download_beyond_the_limit_is_cancelled() {
    let server = site().await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/")).await.unwrap();
    page.click("#large").await.unwrap();
    assert!(page.page.downloads_ended(true, LIMIT).await.unwrap());
    let [download] = page.page.take_changes().downloads.try_into().unwrap();
    assert_eq!((download.state.as_str(), download.path.as_str()), ("cancelled", ""));
    let kept = std::fs::read_dir(page.folder.path().join("downloads")).unwrap();
    // The browser may remove what it had of the file just now.
    let sizes: u64 = kept.filter_map(|file| Some(file.ok()?.metadata().ok()?.len())).sum();
    assert!(sizes <= DOWNLOAD_LIMIT, "{sizes}");
}

#[tokio::test]
async fn files_are_uploaded_and_read_back() {
    let server = site().await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/form")).await.unwrap();
    let folder = page.folder.path().to_owned();
    let [a, b] = ["a.txt", "b.txt"].map(|name| folder.join(name));
    std::fs::write(&a, "a").unwrap();
    std::fs::write(&b, "b").unwrap();
    let node = page.node("#many").await;
    page.act(Act::Upload { node, files: vec![a.clone(), b.clone()] }, WaitUntil::Load).await.unwrap();
    assert_eq!(page.found(&css("#many")).await.1.files, ["a.txt", "b.txt"]);

    // A page that takes a file at once may empty its input, for the next one.
    let node = page.node("#eager").await;
    page.act(Act::Upload { node, files: vec![a.clone()] }, WaitUntil::Load).await.unwrap();
    page.reads("#log", "a.txt").await;
    assert_eq!(page.found(&css("#eager")).await.1.files, Vec::<String>::new());

    let one = page.node("#one").await;
    let text = page.node("#text").await;
    let takes_one = PageError::NotActionable { reason: "it takes one file" };
    let takes_none = PageError::NotActionable { reason: "it takes no files" };
    let upload = |node, files| Act::Upload { node, files };
    assert_eq!(page.act(upload(one.clone(), vec![a.clone(), b]), WaitUntil::Load).await, Err(takes_one));
    assert_eq!(page.act(upload(text, vec![a]), WaitUntil::Load).await, Err(takes_none));
    for missing in [folder.join("missing"), folder.clone(), "a.txt".into()] {
        let result = page.act(upload(one.clone(), vec![missing]), WaitUntil::Load).await;
        assert!(matches!(result, Err(PageError::Failed(_))), "{result:?}");
    }
    assert_eq!(page.found(&css("#one")).await.1.files, Vec::<String>::new());
}
