//! The site as a client without any cleverness sees it.

#![expect(clippy::unwrap_used, reason = "tests")]

use capataz_testsite::{Host, PASSWORD, PROBES, SECRETS, Site, USER};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

/// One connection with one request; the answer to its end.
async fn send(host: &str, request: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(host).await.unwrap();
    let head = format!("{request} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
    let length = format!("Content-Length: {}\r\n\r\n", body.len());
    stream.write_all([&head, length.as_str(), body].concat().as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // An end without a farewell is what some pages are for.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

async fn get(site: &Site, path: &str) -> String {
    send(&site.host(), &format!("GET {path}"), "").await
}

#[tokio::test]
async fn every_page_of_the_table_is_answered() {
    let site = Site::start().await.unwrap();
    let without_end = ["/navigate/never", "/navigate/endless", "/download/endless", "/download/slow"];
    // Large, and nothing new.
    let large = ["/download/large", "/big/bytes"];
    let source = include_str!("../src/lib.rs");
    let rows = source.lines().filter_map(|line| line.strip_prefix("//! | `")?.split_once('`'));
    let mut answered = 0;
    for (path, _) in rows.filter(|(path, _)| !without_end.contains(path) && !large.contains(path)) {
        let answer = get(&site, path).await;
        let expected = match path {
            "/navigate/reset" => "",
            "/status/404" => "HTTP/1.1 404",
            "/api/account" => "HTTP/1.1 401",
            "/hit/target" => "HTTP/1.1 204",
            "/account" | "/redirect" | "/secrets/redirect" => "HTTP/1.1 302",
            path if path.starts_with("/navigate/") && !answer.contains("<h1>") => "HTTP/1.1 302",
            _ => "HTTP/1.1 200",
        };
        assert!(answer.starts_with(expected), "{path}: {answer}");
        assert_eq!(answer.is_empty(), expected.is_empty(), "{path}");
        answered += 1;
    }
    assert!(answered > 100, "the table has {answered} rows");
}

#[tokio::test]
async fn hits_are_counted_by_path_and_by_host() {
    let site = Site::start().await.unwrap();
    get(&site, "/plain?first").await;
    get(&site, "/plain?second").await;
    send(&site.other_host(), "GET /plain", "").await;
    assert_eq!((site.hits("/plain"), site.hits_of_other("/plain"), site.hits("/")), (2, 1, 0));
    let requests = site.requests();
    let seen: Vec<_> = requests.iter().map(|one| (one.host, one.query.as_deref())).collect();
    assert_eq!(seen, [(Host::First, Some("first")), (Host::First, Some("second")), (Host::Other, None)]);
    site.until_hits("/plain", 2).await;
}

#[tokio::test]
async fn whoever_comes_near_the_other_host_is_seen() {
    let site = Site::start().await.unwrap();
    assert_eq!(site.other_hits(), 0);
    let port = site.other_host().rsplit_once(':').unwrap().1.to_owned();
    // A connection without a request, and then a datagram.
    let mut silent = TcpStream::connect(format!("127.0.0.1:{port}")).await.unwrap();
    silent.shutdown().await.unwrap();
    let _ = silent.read(&mut [0; 1]).await;
    assert_eq!((site.other_hits(), site.connections(Host::Other)), (1, 1));
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.send_to(b"stun", format!("127.0.0.1:{port}")).await.unwrap();
    site.until_other_hits(2).await;
    assert_eq!(site.hits("/"), 0);
}

#[tokio::test]
async fn who_signs_in_sees_the_account_and_nobody_else_does() {
    let site = Site::start().await.unwrap();
    let form = |password: &str| format!("user={USER}&password={}", password.replace(' ', "+"));
    for (path, refusal) in [
        ("/sign-in", "HTTP/1.1 200"),
        ("/sign-in/401", "HTTP/1.1 401"),
        ("/sign-in/redirect", "location: /login?failed=1"),
    ] {
        let refused = send(&site.host(), &format!("POST {path}"), &form("guess")).await;
        assert!(refused.contains(refusal) && !refused.contains("set-cookie"), "{path}: {refused}");
        let welcome = send(&site.host(), &format!("POST {path}"), &form(PASSWORD)).await;
        assert!(welcome.contains("location: /account"), "{path}: {welcome}");
        let cookie = welcome.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        let cookie = cookie.split(';').next().unwrap();
        let request = format!("GET /account HTTP/1.1\r\nCookie: a=b; {cookie}\r\nX-Rest:");
        assert!(send(&site.host(), &request, "").await.contains("Welcome, ana."), "{path}");
    }
    assert!(get(&site, "/account").await.contains("location: /login"));
}

#[tokio::test]
async fn forms_show_what_they_got_as_text() {
    let site = Site::start().await.unwrap();
    let sent = send(&site.host(), "POST /form/sent", "name=%3Cb%3E&extras=a&extras=b").await;
    assert!(sent.contains("<th scope=\"row\">name</th><td>&lt;b&gt;</td>"), "{sent}");
    assert!(sent.contains("<td>a</td>") && sent.contains("<td>b</td>"), "{sent}");
    let part =
        "--x\r\nContent-Disposition: form-data; name=\"one\"; filename=\"a.txt\"\r\n\r\nhello\r\n--x--\r\n";
    let received = send(&site.host(), "POST /upload/received", part).await;
    assert!(received.contains("<th scope=\"row\">one</th><td>a.txt</td>"), "{received}");
    assert_eq!(site.requests().last().unwrap().body, part);
}

#[tokio::test]
async fn downloads_end_break_off_and_wait_as_they_say() {
    let site = Site::start().await.unwrap();
    assert!(get(&site, "/download/ok").await.ends_with("17,Ana\n18,Berta\n"));
    let aborted = get(&site, "/download/aborted").await;
    assert!(aborted.contains("content-length: 1048576"), "{}", aborted.lines().next().unwrap());
    assert!((64 * 1024..1024 * 1024).contains(&aborted.len()), "{} bytes", aborted.len());
    let slow = async {
        let answer = get(&site, "/download/slow").await;
        answer.split_once("\r\n\r\n").unwrap().1.len()
    };
    let release = async {
        site.until_hits("/download/slow", 1).await;
        site.release();
    };
    assert_eq!(tokio::join!(slow, release).0, 2048);
}

#[tokio::test]
async fn what_never_ends_ends_with_the_site() {
    let site = Site::start().await.unwrap();
    let host = site.host();
    let paths = ["/navigate/never", "/navigate/endless", "/download/endless"];
    let [never, endless, download] = paths.map(|path| {
        let host = host.clone();
        tokio::spawn(async move {
            let mut stream = TcpStream::connect(&host).await.unwrap();
            stream
                .write_all(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())
                .await
                .unwrap();
            let mut block = vec![0; 64 * 1024];
            while stream.read(&mut block).await.is_ok_and(|read| read > 0) {}
        })
    });
    for path in paths {
        site.until_hits(path, 1).await;
    }
    drop(site);
    never.await.unwrap();
    endless.await.unwrap();
    download.await.unwrap();
    assert!(TcpStream::connect(&host).await.is_err());
}

#[tokio::test]
async fn the_secrets_are_planted_and_nowhere_else() {
    let site = Site::start().await.unwrap();
    let page = get(&site, "/secrets").await;
    let redirect = get(&site, "/secrets/redirect").await;
    for secret in SECRETS {
        assert!(page.contains(secret.value), "{} is not on the page", secret.name);
        assert!(!get(&site, "/tables").await.contains(secret.value));
    }
    assert!(redirect.contains("access_token=q8Zr2"), "{redirect}");
}

#[tokio::test]
async fn every_probe_names_the_other_host() {
    let site = Site::start().await.unwrap();
    for probe in PROBES {
        let page = get(&site, &format!("/probe/{}", probe.name)).await;
        let reached = site.other_url(&format!("/reached/{}", probe.name));
        assert!(page.contains(&reached), "{}: {page}", probe.name);
    }
    assert_eq!(site.other_hits(), 0);
}
