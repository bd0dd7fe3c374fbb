//! The driver over a shard that is played: real tasks, channels and a clock that only moves when everybody waits.

use std::sync::{Arc, Mutex};

use capataz_contracts::v1::{self, connect_request::Frame as Say, connect_response::Frame as Hear};
use tokio::sync::{mpsc, oneshot};

use super::Host;
use crate::number::HostNumber;
use crate::port::{Connect, Speak};
use crate::serve::{Answer, Order, Reporter, Serve};

/// The shard's end of one connection.
struct Link {
    says: mpsc::Sender<Hear>,
    hears: mpsc::Receiver<Say>,
}

impl Link {
    /// The next frame that is not a heartbeat.
    async fn hear(&mut self) -> Say {
        loop {
            match self.hears.recv().await.unwrap() {
                Say::Heartbeat(_) => {}
                frame => return frame,
            }
        }
    }

    async fn say(&self, frame: Hear) {
        self.says.send(frame).await.unwrap();
    }

    /// Answers the hello; which leases it named.
    async fn welcome(&mut self) -> Vec<v1::LeaseRef> {
        let Say::Hello(hello) = self.hear().await else { panic!("no hello") };
        let reattached = hello.held.clone();
        let heartbeat_interval_ms = 5_000;
        self.say(Hear::Welcome(v1::Welcome { heartbeat_interval_ms, reattached, ..Default::default() }))
            .await;
        hello.held
    }

    async fn progress(&mut self) -> String {
        let frame = self.hear().await;
        let Say::Progress(progress) = frame else { panic!("{frame:?}") };
        progress.message.unwrap_or_default()
    }

    async fn assign(&mut self, token: u64, agent: &str) {
        let (lease, agent) = (Some(reference(token)), agent.to_owned());
        self.say(Hear::Assignment(v1::Assignment { lease, agent, ..Default::default() })).await;
        let Say::Ack(ack) = self.hear().await else { panic!("no acknowledgement") };
        assert_eq!(ack.lease, Some(reference(token)));
    }
}

fn reference(token: u64) -> v1::LeaseRef {
    v1::LeaseRef { run_id: "run".to_owned(), wave: 0, task: 0, lease: token }
}

struct Played(mpsc::Sender<Link>);

struct Speaker(mpsc::Sender<Say>);

impl Connect for Played {
    type Speaker = Speaker;

    async fn connect(&self, slots: usize) -> (mpsc::Receiver<Hear>, Speaker) {
        let (says, frames) = mpsc::channel(slots);
        let (said, hears) = mpsc::channel(slots);
        let _ = self.0.send(Link { says, hears }).await;
        (frames, Speaker(said))
    }
}

impl Speak for Speaker {
    async fn say(&self, frame: Say) -> bool {
        let _ = self.0.send(frame).await;
        true
    }
}

/// Says when its future is dropped.
struct Dropped(Option<oneshot::Sender<()>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        if let Some(dropped) = self.0.take() {
            let _ = dropped.send(());
        }
    }
}

/// Does what the agent's name says.
#[derive(Default)]
struct Work {
    dropped: Mutex<Option<oneshot::Sender<()>>>,
}

impl Serve for Work {
    fn name(&self) -> &'static str {
        "work"
    }

    fn agents(&self) -> Vec<v1::Agent> {
        let agent =
            |name: &str| v1::Agent { name: name.to_owned(), max_concurrency: 8, ..Default::default() };
        ["reports", "waits", "breaks"].map(agent).into()
    }

    async fn perform(
        self: Arc<Self>,
        assignment: v1::Assignment,
        mut orders: mpsc::Receiver<Order>,
        reporter: Reporter,
    ) -> Answer {
        match assignment.agent.as_str() {
            "reports" => {
                for message in ["one", "two", "three"] {
                    reporter.say(message);
                }
                std::future::pending().await
            }
            "waits" => {
                let _dropped = Dropped(self.dropped.lock().unwrap().take());
                reporter.say("begun");
                while let Some(order) = orders.recv().await {
                    if matches!(order, Order::Cancel { .. }) {
                        break;
                    }
                }
                Answer::Cancelled { partial_output: None, log: "heard".to_owned() }
            }
            _ => panic!("a fault of ours"),
        }
    }
}

async fn host(work: Work) -> (Host, mpsc::Receiver<Link>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let number = HostNumber::of_folder(folder.path()).unwrap();
    let (links, connections) = mpsc::channel(1);
    (Host::start(Arc::new(work), number, Played(links)).unwrap(), connections, folder)
}

#[tokio::test(start_paused = true)]
async fn work_is_cancelled_by_an_order_and_its_answer_outlives_connections() {
    let (_host, mut connections, _folder) = host(Work::default()).await;
    let mut link = connections.recv().await.unwrap();
    assert!(link.welcome().await.is_empty());
    link.assign(1, "waits").await;
    assert_eq!(link.progress().await, "begun");
    link.say(Hear::Cancel(v1::Cancel { lease: Some(reference(1)), ..Default::default() })).await;
    let answer = link.hear().await;
    let Say::Cancelled(cancelled) = &answer else { panic!("{answer:?}") };
    assert_eq!(cancelled.log, "heard");
    drop(link);
    let mut link = connections.recv().await.unwrap();
    assert_eq!(link.welcome().await, [reference(1)]);
    assert_eq!(link.hear().await, answer);
}

#[tokio::test(start_paused = true)]
async fn only_the_newest_of_many_reports_is_said() {
    let (_host, mut connections, _folder) = host(Work::default()).await;
    let mut link = connections.recv().await.unwrap();
    link.welcome().await;
    link.assign(1, "reports").await;
    assert_eq!(link.progress().await, "three");
}

#[tokio::test(start_paused = true)]
async fn work_that_breaks_off_is_a_failure_and_the_host_goes_on() {
    let (_host, mut connections, _folder) = host(Work::default()).await;
    let mut link = connections.recv().await.unwrap();
    link.welcome().await;
    for token in [1, 2] {
        link.assign(token, "breaks").await;
        let frame = link.hear().await;
        let Say::Failed(failed) = &frame else { panic!("{frame:?}") };
        assert_eq!(failed.lease, Some(reference(token)));
        assert_eq!(failed.error.as_ref().map(|error| error.code.as_str()), Some("LOGIC_ERROR"));
    }
}

#[tokio::test(start_paused = true)]
async fn work_ends_with_its_lease_and_with_its_host() {
    for by_revocation in [true, false] {
        let (dropped, is_dropped) = oneshot::channel();
        let (host, mut connections, _folder) = host(Work { dropped: Mutex::new(Some(dropped)) }).await;
        let mut link = connections.recv().await.unwrap();
        link.welcome().await;
        link.assign(1, "waits").await;
        assert_eq!(link.progress().await, "begun");
        let host = if by_revocation {
            link.say(Hear::LeaseRevoked(v1::LeaseRevoked { lease: Some(reference(1)) })).await;
            Some(host)
        } else {
            drop(host);
            None
        };
        is_dropped.await.unwrap();
        drop(host);
    }
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_comes_within_the_time_that_the_shard_said() {
    let (_host, mut connections, _folder) = host(Work::default()).await;
    let mut link = connections.recv().await.unwrap();
    link.welcome().await;
    for _ in 0..3 {
        let heard = tokio::time::timeout(std::time::Duration::from_secs(5), link.hears.recv()).await;
        assert!(matches!(heard, Ok(Some(Say::Heartbeat(_)))), "{heard:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_holds_nothing_does_not_come_back_to_a_shard_that_drains() {
    let (_host, mut connections, _folder) = host(Work::default()).await;
    let mut link = connections.recv().await.unwrap();
    link.welcome().await;
    link.say(Hear::Drain(v1::Drain {})).await;
    drop(link);
    assert!(connections.recv().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_host_that_ends_says_that_it_has_no_lease_any_more() {
    let (dropped, is_dropped) = oneshot::channel();
    let (host, mut connections, _folder) = host(Work { dropped: Mutex::new(Some(dropped)) }).await;
    let mut link = connections.recv().await.unwrap();
    link.welcome().await;
    link.assign(1, "waits").await;
    assert_eq!(link.progress().await, "begun");
    link.assign(2, "breaks").await;
    let answer = link.hear().await;
    assert!(matches!(answer, Say::Failed(_)), "{answer:?}");
    let ending = tokio::spawn(host.end());
    is_dropped.await.unwrap();
    let mut link = connections.recv().await.unwrap();
    assert_eq!(link.welcome().await, [reference(2)], "what has an answer is not lost");
    assert_eq!(link.hear().await, answer);
    ending.await.unwrap();
}

/// Serves one agent, and answers with what it is called.
struct Named(&'static str, &'static str);

impl Serve for Named {
    fn name(&self) -> &'static str {
        "named"
    }

    fn agents(&self) -> Vec<v1::Agent> {
        vec![v1::Agent { name: self.0.to_owned(), max_concurrency: 1, ..Default::default() }]
    }

    async fn perform(self: Arc<Self>, _: v1::Assignment, _: mpsc::Receiver<Order>, _: Reporter) -> Answer {
        Answer::Cancelled { partial_output: None, log: self.1.to_owned() }
    }
}

/// Whose work answers an assignment of the agent.
async fn answered_by(link: &mut Link, token: u64, agent: &str) -> String {
    link.assign(token, agent).await;
    let frame = link.hear().await;
    let Say::Cancelled(cancelled) = frame else { panic!("{frame:?}") };
    cancelled.log
}

#[tokio::test(start_paused = true)]
async fn work_that_is_replaced_still_does_what_was_on_its_way() {
    let folder = tempfile::tempdir().unwrap();
    let number = HostNumber::of_folder(folder.path()).unwrap();
    let (links, mut connections) = mpsc::channel(1);
    let (_host, renewal) =
        Host::start_renewable(Arc::new(Named("old", "first")), number, Played(links)).unwrap();
    let mut link = connections.recv().await.unwrap();
    link.welcome().await;
    assert_eq!(answered_by(&mut link, 1, "old").await, "first");
    renewal.serve(Arc::new(Named("new", "second")));
    let Say::Hello(hello) = link.hear().await else { panic!("no hello") };
    assert_eq!(hello.agents[0].name, "new");
    assert_eq!(answered_by(&mut link, 2, "new").await, "second");
    // It was given before the shard had heard of the change.
    assert_eq!(answered_by(&mut link, 3, "old").await, "first");
    renewal.serve(Arc::new(Named("new", "third")));
    link.hear().await;
    assert_eq!(answered_by(&mut link, 4, "new").await, "third", "an agent that has changed is the new one");
}
