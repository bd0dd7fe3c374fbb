//! The report of a script as `capataz runs report` writes it: it contains no secret, in no form (seed 002).

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use capataz_contracts::script_file::{self, Format};
use capataz_contracts::v1::{self, event::Body};
use capataz_testsite::{
    FAILING_WITH_SECRETS, Site, TYPED_SECRET, Trace, found_in, secrets_and_success, traces,
};

use crate::served::Served;

/// A daemon whose secret `SHOP` is [`TYPED_SECRET`].
fn daemon(folder: &Path) -> Served {
    let secrets = folder.join("secrets");
    std::fs::create_dir(&secrets).unwrap();
    std::fs::write(secrets.join("SHOP"), format!("{TYPED_SECRET}\n")).unwrap();
    Served::start(folder, &format!("secrets_dir = {secrets:?}\n"))
}

/// Performs the script, and returns its run and the code of its error, which is empty after a success.
async fn performed(daemon: &Served, site: &Site, toml: &str) -> (String, String) {
    let script = script_file::parse(&toml.replace("{site}", &site.host()), Format::Toml).unwrap();
    let request = v1::StartRunRequest::of_script(script);
    let client = daemon.client().await;
    let run = client.start_run(request).await.unwrap().run_id;
    let result = client.wait_run(&run, None).await.unwrap().expect("it ends");
    let error = result.script().and_then(|script| script.error.clone());
    (run, error.map(|error| error.error_code).unwrap_or_default())
}

/// The output of `capataz runs report`.
fn report(daemon: &Served, folder: &Path, run: &str) -> String {
    let file = folder.join("report.html");
    let made = Command::new(env!("CARGO_BIN_EXE_capataz"))
        .env("LC_ALL", "C")
        .args(["runs", "report", run, "--addr", &daemon.url(), "-o"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    std::fs::read_to_string(file).unwrap()
}

/// The pictures that the run's events name.
async fn pictures(daemon: &Served, run: &str) -> BTreeSet<Vec<u8>> {
    let client = daemon.client().await;
    let mut events = client.export_run(run).await.unwrap();
    let mut pictures = BTreeSet::new();
    while let Some(event) = events.next().await {
        let pieces = match event.unwrap().body {
            Some(Body::ActionFailed(failed)) => failed.error.unwrap_or_default().evidence_refs,
            Some(Body::ActionFinished(finished)) => finished.evidence,
            _ => Vec::new(),
        };
        for piece in pieces.iter().filter(|piece| piece.media_type == "image/png") {
            pictures.insert(client.get_blob(&piece.id).await.unwrap().to_vec());
        }
    }
    pictures
}

/// The embedded data of the page, decoded.
fn embedded(html: &str) -> Vec<Vec<u8>> {
    let addresses = html.split("\"data:").skip(1).filter_map(|rest| rest.split('"').next());
    let encoded = addresses.map(|address| address.split_once(";base64,").expect("it is base64").1);
    encoded.map(|encoded| STANDARD.decode(encoded).unwrap()).collect()
}

/// Searches the report and its embedded data for secrets. An embedded picture must equal the stored one, which was
/// masked when it was taken, so that no secret can have returned.
fn search(html: &str, kept: &BTreeSet<Vec<u8>>, traces: &[Trace]) -> Vec<String> {
    let mut hits = found_in("the report", html.as_bytes(), traces);
    let shown = embedded(html);
    for picture in &shown {
        assert!(kept.contains(picture), "a picture of the report is one that was kept as evidence");
        hits.extend(found_in("a picture of the report", picture, traces));
    }
    assert_eq!(shown.into_iter().collect::<BTreeSet<_>>(), *kept, "every picture is in the report");
    hits
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reports_of_successes_and_failures_have_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start().await.unwrap();
    let daemon = daemon(folder.path());
    let traces = traces();

    let (run, code) = performed(&daemon, &site, &secrets_and_success()).await;
    assert_eq!(code, "");
    let html = report(&daemon, folder.path(), &run);
    assert!(html.contains("You typed ") && html.contains("«secret»"), "the outputs are there, and masked");
    let kept = pictures(&daemon, &run).await;
    assert!(kept.len() >= 3, "the page has been pictured, the password on it");
    let mut hits = search(&html, &kept, &traces);

    for script in FAILING_WITH_SECRETS {
        let (run, code) = performed(&daemon, &site, &script.toml()).await;
        assert_eq!(code, script.code);
        let html = report(&daemon, folder.path(), &run);
        assert!(
            html.contains("Password") && html.contains("«secret»"),
            "{code}: the page is there, and masked"
        );
        hits.extend(search(&html, &pictures(&daemon, &run).await, &traces));
    }
    assert!(hits.is_empty(), "{hits:#?}");
}
