//! A Chromium that a person has started with a DevTools port, with a tab of the person's own.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use capataz_executor::browsers;
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

pub struct PersonsBrowser {
    process: Child,
    port: u16,
    /// The profile; it goes with this.
    _folder: tempfile::TempDir,
}

/// A target as the port lists it.
#[derive(Debug, Deserialize)]
struct Listed {
    id: String,
    url: String,
    title: String,
    #[serde(rename = "type")]
    kind: String,
}

impl PersonsBrowser {
    #[expect(clippy::disallowed_methods, reason = "tests look for the browser as the daemon does")]
    pub async fn start() -> Self {
        let (named, path) = (std::env::var_os("CAPATAZ_CHROMIUM"), std::env::var_os("PATH"));
        let found = browsers::find(named.as_deref().map(Path::new), path.as_deref()).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let profile = folder.path().join("profile");
        let mut command = Command::new(found.program);
        command
            .args(["--remote-debugging-port=0", "--headless=new", "--no-first-run", "--disable-gpu"])
            .args(["--disable-dev-shm-usage", "--disable-background-networking"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .args(browsers::user().1.then_some("--no-sandbox"))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut process = command.spawn().unwrap();
        let mut said = process.stderr.take().unwrap();
        let mut text = String::new();
        // It says its address when the port is open, and other things before that.
        let port = loop {
            let mut part = [0; 4096];
            let length = said.read(&mut part).await.unwrap();
            assert!(length > 0, "the browser ended at its start: {text}");
            text.push_str(&String::from_utf8_lossy(&part[..length]));
            let address = text.split_once("DevTools listening on ws://127.0.0.1:");
            if let Some((port, _)) = address.and_then(|(_, rest)| rest.split_once('/')) {
                break port.parse().unwrap();
            }
        };
        // Whoever reads nothing would stop it some day.
        tokio::spawn(async move { tokio::io::copy(&mut said, &mut tokio::io::sink()).await });
        Self { process, port, _folder: folder }
    }

    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Opens a tab as the person does. Returns when it shows this title.
    pub async fn open(&self, url: &str, title: &str) {
        let opened: Listed = self.ask("PUT", &format!("/json/new?{url}")).await;
        loop {
            let listed: Vec<Listed> = self.ask("GET", "/json/list").await;
            if listed.iter().any(|tab| tab.id == opened.id && tab.title == title) {
                return;
            }
        }
    }

    /// The tabs, by their ids, with what they show.
    pub async fn tabs(&self) -> BTreeMap<String, String> {
        let listed: Vec<Listed> = self.ask("GET", "/json/list").await;
        listed.into_iter().filter(|tab| tab.kind == "page").map(|tab| (tab.id, tab.url)).collect()
    }

    /// Waits until there are these tabs and no others.
    pub async fn until_tabs(&self, tabs: &BTreeMap<String, String>) {
        while self.tabs().await != *tabs {}
    }

    /// Ends as if it had crashed. Returns when it has ended.
    pub async fn kill(&mut self) {
        self.process.kill().await.unwrap();
    }

    pub fn is_alive(&mut self) -> bool {
        self.process.try_wait().unwrap().is_none()
    }

    async fn ask<T: serde::de::DeserializeOwned>(&self, method: &str, path: &str) -> T {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let request = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", self.port);
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        loop {
            assert!(stream.read_buf(&mut answer).await.unwrap() > 0, "{}", String::from_utf8_lossy(&answer));
            let text = String::from_utf8_lossy(&answer);
            if let Some(value) =
                text.split_once("\r\n\r\n").and_then(|(_, body)| serde_json::from_str(body).ok())
            {
                return value;
            }
        }
    }
}
