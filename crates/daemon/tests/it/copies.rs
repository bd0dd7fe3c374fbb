//! A data folder that is copied while its daemon runs, and both used: what one of them gives out, the other refuses, by name.

use std::path::Path;

use bytes::Bytes;
use capataz_contracts::v1::{self, connect_response::Frame as Hear};
use serde_json::json;

use crate::support::{Harness, Worker, code_of, data_dir, json as payload, one_wave};

/// Copies a folder as it is; the lock of the daemon that has it stays its own.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

async fn copied(harness: &Harness) -> Harness {
    let folder = tempfile::tempdir().unwrap();
    copy(&data_dir(&harness.folder), &data_dir(&folder));
    Harness::start_in(folder, |_| ()).await
}

/// The cursor behind everything that there is.
async fn newest(harness: &Harness) -> Bytes {
    let mut stream =
        harness.events.clone().subscribe(v1::SubscribeRequest::default()).await.unwrap().into_inner();
    loop {
        let response = stream.message().await.unwrap().unwrap();
        if response.caught_up {
            return response.cursor;
        }
    }
}

/// The runs of the events after a cursor, or the refusal.
async fn runs_after(harness: &Harness, cursor: Bytes) -> Result<Vec<String>, tonic::Status> {
    let request = v1::SubscribeRequest { cursor, ..Default::default() };
    let mut stream = harness.events.clone().subscribe(request).await?.into_inner();
    let mut runs = Vec::new();
    loop {
        let response = stream.message().await?.unwrap();
        runs.extend(response.events.into_iter().map(|event| event.run_id));
        if response.caught_up {
            return Ok(runs);
        }
    }
}

async fn refusal(worker: &mut Worker, lease: &v1::LeaseRef) -> v1::RefusalReason {
    worker.complete(lease, payload(json!("of the other one"))).await;
    worker
        .hear_until(|frame| match frame {
            Hear::ResultRefused(refused) if refused.lease.as_ref() == Some(lease) => Some(refused.reason()),
            Hear::ResultAccepted(accepted) => panic!("accepted: {accepted:?}"),
            _ => None,
        })
        .await
}

#[tokio::test]
async fn what_one_copy_gives_out_the_other_refuses_by_name() {
    let original = Harness::start().await;
    let mut worker = original.worker("w1", &["a"]).await;
    let common = original.start_run(one_wave(&["a"])).await;
    let shared = worker.assignment().await.lease;

    let copy = copied(&original).await;
    // Both go on.
    worker.complete(&shared, payload(json!("in the original"))).await;
    original.wait(&common).await;
    let of_original = original.start_run(one_wave(&["a"])).await;
    let lost = worker.assignment().await.lease;
    let held = vec![shared.clone(), lost.clone()];
    let mut other = Worker::connect(copy.channel.clone(), "w1", &["a"], held).await;

    // What both have in common goes on in each; what came after the copy is the other one's.
    assert_eq!(other.welcome.reattached, std::slice::from_ref(&shared));
    assert_eq!(refusal(&mut other, &lost).await, v1::RefusalReason::AlreadySettled, "no run of this one");
    other.complete(&shared, payload(json!("in the copy"))).await;
    let result = copy.wait(&common).await;
    assert_eq!(result.tasks[0].output, Some(payload(json!("in the copy"))));
    let of_copy = copy.start_run(one_wave(&["a"])).await;
    let foreign = other.assignment().await.lease;
    assert_eq!(refusal(&mut worker, &foreign).await, v1::RefusalReason::OtherHistory);
    // Also where its place in the log is taken.
    let disguised = v1::LeaseRef { run_id: of_original.clone(), ..foreign };
    assert_eq!(refusal(&mut worker, &disguised).await, v1::RefusalReason::OtherHistory);

    // Cursors likewise, and the refusal says where to go on.
    let cursors = [newest(&original).await, newest(&copy).await];
    let [ours, theirs] = cursors;
    assert_ne!(ours, theirs);
    for (daemon, foreign, own) in [(&copy, &ours, &of_copy), (&original, &theirs, &of_original)] {
        let refused = runs_after(daemon, foreign.clone()).await.unwrap_err();
        assert_eq!((refused.code(), code_of(&refused).as_str()), (tonic::Code::OutOfRange, "CURSOR_UNKNOWN"));
        let valid = refused.metadata().get_bin("capataz-valid-cursor-bin").unwrap().to_bytes().unwrap();
        let runs = runs_after(daemon, valid).await.unwrap();
        assert!(runs.contains(own), "nothing of its own is skipped: {runs:?}");
    }
    // What both had at the copy, both go on from.
    assert_eq!(runs_after(&original, ours).await.unwrap(), Vec::<String>::new());
    assert_eq!(runs_after(&copy, theirs).await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_folder_that_is_set_back_refuses_what_it_has_lost() {
    let daemon = Harness::start().await;
    let mut worker = daemon.worker("w1", &["a"]).await;
    let run = daemon.start_run(one_wave(&["a"])).await;
    let shared = worker.assignment().await.lease;
    let before = newest(&daemon).await;
    let kept = tempfile::tempdir().unwrap();
    copy(&data_dir(&daemon.folder), &data_dir(&kept));
    drop(worker);
    // A claim later, everything that is lost carries a mark that the kept folder does not know.
    let daemon = daemon.restart().await;
    let mut worker = Worker::connect(daemon.channel.clone(), "w1", &["a"], vec![shared.clone()]).await;
    let lost_run = daemon.start_run(one_wave(&["a"])).await;
    let lost = worker.assignment().await.lease;
    let after = newest(&daemon).await;
    drop(worker);
    daemon.stop().await;

    let restored = Harness::start_in(kept, |_| ()).await;
    let mut worker =
        Worker::connect(restored.channel.clone(), "w1", &["a"], vec![shared.clone(), lost.clone()]).await;
    assert_eq!(worker.welcome.reattached, std::slice::from_ref(&shared));
    assert_eq!(refusal(&mut worker, &lost).await, v1::RefusalReason::OtherHistory);
    assert_eq!(code_of(&runs_after(&restored, after).await.unwrap_err()), "CURSOR_UNKNOWN");
    assert!(runs_after(&restored, before).await.is_ok());
    worker.complete(&shared, payload(json!("it goes on"))).await;
    restored.wait(&run).await;
    let gone = v1::GetRunRequest { run_id: lost_run, ..Default::default() };
    assert_eq!(restored.runs.clone().get_run(gone).await.unwrap_err().code(), tonic::Code::NotFound);
}
