//! What is secret is nowhere: not in the data folder, the events, the evidence, the outputs or the log, in no form.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use capataz_contracts::json;
use capataz_contracts::v1::{self, event::Body};
use capataz_testsite::{
    FAILING_WITH_SECRETS, TYPED_SECRET, found_in, secrets_alone, secrets_and_success, traces,
};
use prost::Message;

use crate::bench::{Bench, Ended};
use crate::kept_log::{has, kept_log, listen_to_the_log};

/// The daemon goes on meanwhile, and removes what it needs no more: that holds nothing any longer.
fn every_file(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in found(std::fs::read_dir(folder)).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { every_file(&path, files) } else { files.push(path) }
    }
}

/// Nothing where it was removed.
fn found<T>(read: io::Result<T>) -> Option<T> {
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        read => Some(read.unwrap()),
    }
}

/// A daemon whose secret `SHOP` is [`TYPED_SECRET`].
async fn bench() -> Bench {
    listen_to_the_log();
    Bench::start_with(|config, folder| {
        let secrets = folder.join("secrets");
        std::fs::create_dir(&secrets).unwrap();
        std::fs::write(secrets.join("SHOP"), format!("{TYPED_SECRET}\n")).unwrap();
        config.secrets_dir = Some(secrets);
    })
    .await
}

/// Searches everything that is kept of these runs. Returns the evidence, by its kinds.
async fn search(bench: &Bench, ended: &[Ended]) -> BTreeMap<String, Vec<Vec<u8>>> {
    let traces = traces();
    let mut hits = Vec::new();
    let mut evidence: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
    for run in ended {
        for event in &run.events {
            let place = format!("event {} of {}", event.seq, run.run_id);
            hits.extend(found_in(&place, &event.encode_to_vec(), &traces));
            let printed = json::print("capataz.v1.Event", event).to_string();
            hits.extend(found_in(&format!("{place}, printed"), printed.as_bytes(), &traces));
            let refs = match &event.body {
                Some(Body::ActionFailed(failed)) => failed.error.clone().unwrap_or_default().evidence_refs,
                Some(Body::ActionFinished(finished)) => finished.evidence.clone(),
                _ => Vec::new(),
            };
            for piece in refs {
                // What a reference holds itself is in no blob.
                let content = match piece.inline {
                    Some(text) => text.into_bytes(),
                    None => bench.blob(&piece.id).await,
                };
                hits.extend(found_in(&format!("{} of {place}", piece.kind), &content, &traces));
                evidence.entry(piece.kind).or_default().push(content);
            }
        }
        let result = json::print("capataz.v1.RunResult", &run.result).to_string();
        hits.extend(found_in("the result", result.as_bytes(), &traces));
    }
    crate::support::until_no_profile(&bench.data_dir()).await;
    let mut files = Vec::new();
    every_file(&bench.data_dir(), &mut files);
    assert!(files.iter().any(|file| file.ends_with("capataz.db")), "{files:?}");
    for file in files {
        let content = found(std::fs::read(&file)).unwrap_or_default();
        hits.extend(found_in(&file.display().to_string(), &content, &traces));
    }
    let log = kept_log();
    hits.extend(found_in("the log", &log, &traces));
    hits.sort();
    hits.dedup();
    assert!(hits.is_empty(), "{hits:#?}");
    evidence
}

#[tokio::test]
async fn a_script_that_succeeds_keeps_no_secret_and_hides_the_password_in_its_pictures() {
    let bench = bench().await;
    let ended = bench.run(&secrets_and_success()).await.expect_success();
    assert!(ended.output("said").as_str().unwrap().starts_with("You typed "), "the page has shown it");
    assert!(!bench.site.requests().iter().all(|request| request.header("x-api-key").is_none()));
    let is_redirect = |event: &v1::Event| {
        matches!(&event.body, Some(Body::ActionFinished(finished))
        if finished.changes.as_ref().is_some_and(|changes| !changes.redirects.is_empty()))
    };
    assert!(ended.events.iter().any(is_redirect), "the redirect was recorded, without its token");
    let place = ended.finish_of("password").unwrap().resolution.clone().unwrap();
    let evidence = search(&bench, &[ended]).await;
    for picture in &evidence["screenshot"][..1] {
        check_masked(picture, &place);
    }
    // The picture before the click is one of those with the password on them.
    assert!(evidence["screenshot_before"].len() >= 3);
}

/// Every pixel of the element has the one colour of masks.
fn check_masked(picture: &[u8], place: &v1::ResolutionRecord) {
    let mut reader = png::Decoder::new(io::Cursor::new(picture)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let frame = reader.next_frame(&mut pixels).unwrap();
    let channels = frame.color_type.samples();
    let (left, top) = (place.x.unwrap().ceil() as usize, place.y.unwrap().ceil() as usize);
    let right = (place.x.unwrap() + place.width.unwrap()).floor() as usize;
    let bottom = (place.y.unwrap() + place.height.unwrap()).floor() as usize;
    assert!(right > left + 50 && bottom > top + 10, "the password field has a size: {place:?}");
    for row in top..bottom {
        for column in left..right {
            let at = row * frame.line_size + column * channels;
            assert_eq!(pixels[at..at + 3], [0xd0, 0x00, 0xd0], "pixel {column}, {row}");
        }
    }
}

#[tokio::test]
async fn a_script_that_fails_keeps_no_secret_whatever_the_stage() {
    let bench = bench().await;
    let mut ended = Vec::new();
    for script in FAILING_WITH_SECRETS {
        let run = bench.run(&script.toml()).await;
        let error = run.error();
        let stage = error.stage().as_str_name().trim_start_matches("ACTION_STAGE_").to_ascii_lowercase();
        assert_eq!((error.error_code.as_str(), stage.as_str()), (script.code, script.stage), "{error:?}");
        ended.push(run);
    }
    // The page's own text is there, so it is the secrets that are not.
    let evidence = search(&bench, &ended).await;
    for kind in ["html_full", "dom_snapshot_partial"] {
        let is_there = |content: &Vec<u8>| has(content, "Password") && has(content, "«secret»");
        assert!(evidence[kind].iter().any(is_there), "{kind}");
    }
    assert!(evidence["html_full"].iter().any(|html| has(html, "Data attribute")));
}

#[tokio::test]
async fn evidence_that_cannot_be_kept_leaves_no_secret_behind() {
    let bench = bench().await;
    let blobs = bench.data_dir().join("blobs");
    std::fs::rename(&blobs, bench.folder.path().join("aside")).unwrap();
    std::fs::write(&blobs, "").unwrap();
    let ended = bench.run(&secrets_alone()).await;
    assert_eq!(ended.error().error_code, "EVIDENCE_FAILED");
    std::fs::remove_file(&blobs).unwrap();
    std::fs::rename(bench.folder.path().join("aside"), &blobs).unwrap();
    search(&bench, &[ended]).await;
}

#[tokio::test]
async fn what_a_session_observes_has_no_secret() {
    let bench = bench().await;
    let policy = bench.script("name = \"session\"").policy;
    let open = v1::OpenBrowserRequest { policy, ..Default::default() };
    let mut client = bench.executor.clone();
    let run = client.open_browser(open).await.unwrap().into_inner().run_id;
    let action = |kind, id: &str| v1::Action { id: id.to_owned(), kind: kind as i32, ..Default::default() };
    let open =
        v1::Action { url: Some(bench.site.url("/secrets")), ..action(v1::ActionKind::Navigate, "open") };
    let label = v1::Target { label: Some("Password".to_owned()), ..Default::default() };
    let value = Some("${secret:SHOP}".to_owned());
    let fill = v1::Action { target: Some(label), value, ..action(v1::ActionKind::Fill, "fill") };
    let mut seen = Vec::new();
    for (number, action) in [open, fill].into_iter().enumerate() {
        let request_id = format!("r{number}");
        let request =
            v1::ProposeRequest { run_id: run.clone(), action: Some(action), request_id, if_seq: None };
        let answer = client.propose(request).await.unwrap().into_inner();
        assert!(matches!(answer.outcome, Some(v1::propose_response::Outcome::Success(_))), "{answer:?}");
        seen.extend(answer.encode_to_vec());
        let request = v1::ObserveRequest { run_id: run.clone(), max_characters: None };
        let observed = client.observe(request).await.unwrap().into_inner();
        assert!(observed.outline.contains("Password"), "{}", observed.outline);
        seen.extend(observed.encode_to_vec());
        let browsers = client.list_browsers(v1::ListBrowsersRequest {}).await.unwrap().into_inner();
        seen.extend(browsers.encode_to_vec());
    }
    let close = v1::CloseBrowserRequest { run_id: run.clone(), request_id: "close".to_owned() };
    client.close_browser(close).await.unwrap();
    let hits = found_in("what the session said", &seen, &traces());
    assert!(hits.is_empty(), "{hits:#?}");
    let ended = bench.ended(run).await;
    search(&bench, &[ended]).await;
}
