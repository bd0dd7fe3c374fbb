//! Workers whose connection is dead at one end only, over real sockets and in a time that the test moves on.

use capataz_contracts::v1::{
    self, connect_request::Frame as Say, connect_response::Frame as Hear, event::Body,
};
use tonic::transport::Channel;

use crate::proxy::Proxy;
use crate::support::asks::{Hands, heard_all};
use crate::support::worker::Assigned;
use crate::support::{Harness, Worker, json, one_wave};

/// Within this time a half-open connection is noticed.
const NOTICED_MS: i64 = 20_000;

async fn harness(hands: &Hands) -> Harness {
    let clock = hands.clock();
    Harness::start_with(|config| config.clock = clock).await
}

/// Who seems silent is looked at again after so long.
const LOOK_AGAIN_MS: i64 = 100;

/// Lets time pass, and returns when the daemon has done what is due then.
async fn passes(harness: &Harness, hands: &Hands, milliseconds: i64) {
    hands.advance(milliseconds);
    harness.agents.clone().list_agents(v1::ListAgentsRequest::default()).await.unwrap();
}

#[tokio::test]
async fn work_behind_a_dead_connection_goes_to_another_worker_within_20_s() {
    let hands = Hands::new();
    let harness = harness(&hands).await;
    let proxy = Proxy::start(harness.daemon.address()).await;
    let channel = Channel::from_shared(proxy.endpoint()).unwrap().connect().await.unwrap();
    let mut gone = Worker::connect(channel, "w1", &["a"], Vec::new()).await;
    assert!(gone.welcome.silence_limit_ms <= NOTICED_MS);
    let run = harness.start_run(one_wave(&["a"])).await;
    let lost = gone.assignment().await;
    heard_all(&mut gone).await;
    proxy.silence();
    let silent_since = hands.now();

    // Another one hears the daemon in every interval, and says that it does.
    let mut other = harness.worker("w2", &["a"]).await;
    let interval = other.welcome.heartbeat_interval_ms;
    let mut taken: Option<Assigned> = None;
    passes(&harness, &hands, LOOK_AGAIN_MS).await;
    while hands.now() < silent_since + NOTICED_MS {
        passes(&harness, &hands, interval - LOOK_AGAIN_MS).await;
        loop {
            match other.hear().await {
                Some(Hear::Heartbeat(_)) => break,
                Some(Hear::Assignment(assignment)) => taken = Some(accept(&other, assignment).await),
                frame => panic!("{frame:?}"),
            }
        }
        other.say(Say::Heartbeat(v1::Heartbeat {})).await;
        passes(&harness, &hands, LOOK_AGAIN_MS).await;
    }
    let taken = match taken {
        Some(taken) => taken,
        None => other.assignment().await,
    };
    assert!(taken.lease.lease > lost.lease.lease);
    other.complete(&taken.lease, json(serde_json::json!("done"))).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
    let losses: Vec<v1::LeaseLossReason> = harness
        .export(&run)
        .await
        .iter()
        .filter_map(|event| match &event.body {
            Some(Body::TaskLeaseLost(lost)) => {
                assert!(event.at_ms - silent_since <= NOTICED_MS, "{event:?}");
                Some(lost.reason())
            }
            _ => None,
        })
        .collect();
    assert_eq!(losses, [v1::LeaseLossReason::Silent]);
    assert_eq!(proxy.connections(), 1);
    drop(gone);
}

async fn accept(worker: &Worker, assignment: v1::Assignment) -> Assigned {
    let lease = assignment.lease.clone().unwrap();
    worker.say(Say::Ack(v1::Ack { lease: Some(lease.clone()) })).await;
    Assigned { lease, assignment }
}

#[tokio::test]
async fn a_worker_that_was_given_up_is_no_longer_listened_to() {
    let hands = Hands::new();
    let harness = harness(&hands).await;
    let mut silent = harness.worker("w1", &["a"]).await;
    let (since, interval) = (hands.now(), silent.welcome.heartbeat_interval_ms);
    // It hears the daemon in every interval, and says nothing.
    passes(&harness, &hands, interval).await;
    loop {
        passes(&harness, &hands, LOOK_AGAIN_MS).await;
        assert!(hands.now() - since <= NOTICED_MS, "it is given up in time");
        match silent.hear().await {
            Some(Hear::Heartbeat(_)) => {}
            Some(frame) => panic!("{frame:?}"),
            None => break,
        }
        passes(&harness, &hands, interval - LOOK_AGAIN_MS).await;
    }
    // Its half of the stream ends as well, though it has not closed it.
    silent.unheard().await;
}
