//! A host with real commands whose leases are revoked: what begins again begins when nothing of before is alive.
#![allow(clippy::unwrap_used, clippy::panic)]

mod process_support;

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use capataz_contracts::v1::{self, connect_request::Frame as Say, connect_response::Frame as Hear};
use capataz_hosts::commands::{ProcessAgent, ProcessAgents};
use capataz_hosts::port::{Connect, Speak};
use capataz_hosts::{Host, HostNumber, Renewal};
use capataz_store::MemoryStore;
use process_support::{Bench, eventually, is_alive, parent, sh};
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// A time limit that only a failing test reaches.
const PATIENCE: Duration = Duration::from_secs(60);

/// The shard's end of one connection.
struct Link {
    says: mpsc::Sender<Hear>,
    hears: mpsc::Receiver<Say>,
}

impl Link {
    /// The next frame that is neither a heartbeat nor progress.
    async fn hear(&mut self) -> Say {
        loop {
            match timeout(PATIENCE, self.hears.recv()).await.unwrap().unwrap() {
                Say::Heartbeat(_) | Say::Progress(_) => {}
                frame => return frame,
            }
        }
    }

    async fn say(&self, frame: Hear) {
        self.says.send(frame).await.unwrap();
    }

    async fn welcome(&mut self) {
        let Say::Hello(hello) = self.hear().await else { panic!("no hello") };
        assert!(hello.held.is_empty(), "{hello:?}");
        self.say(Hear::Welcome(v1::Welcome { heartbeat_interval_ms: 5_000, ..Default::default() })).await;
    }

    async fn assign(&mut self, agent: &str, task: u32, token: u64) {
        let (lease, agent) = (Some(reference(task, token)), agent.to_owned());
        self.say(Hear::Assignment(v1::Assignment { lease, agent, ..Default::default() })).await;
        let frame = self.hear().await;
        let Say::Ack(ack) = &frame else { panic!("{frame:?}") };
        assert_eq!(ack.lease, Some(reference(task, token)));
    }

    async fn revoke(&self, task: u32, token: u64) {
        self.say(Hear::LeaseRevoked(v1::LeaseRevoked { lease: Some(reference(task, token)) })).await;
    }

    async fn completed(&mut self, task: u32, token: u64) {
        let frame = self.hear().await;
        let Say::Completed(completed) = &frame else { panic!("{frame:?}") };
        assert_eq!(completed.lease, Some(reference(task, token)));
    }
}

fn reference(task: u32, lease: u64) -> v1::LeaseRef {
    v1::LeaseRef { run_id: "run".to_owned(), wave: 0, task, lease }
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

/// The agent `copies`, so many at once, and the agent `quick`. A copy writes down which processes of others are alive. The first
/// one then works on for ever with a child in a session of its own, both deaf to SIGTERM; each other one ends.
fn agents(bench: &Bench, max_concurrency: u32) -> Arc<ProcessAgents> {
    let journal = bench.path("journal");
    let script = format!(
        "trap '' TERM; \
         for pid in $(sed -n 's/^pid //p' {journal}); do \
             if grep -qs . /proc/$pid/cmdline; then echo alive $pid >> {journal}; fi; \
         done; \
         echo start >> {journal}; \
         if [ $(grep -c start {journal}) -ge 2 ]; then echo 1; exit 0; fi; \
         setsid sh -c 'echo pid $$ >> {journal}; sleep 600; :' & \
         echo pid $$ >> {journal}; \
         until [ $(grep -c pid {journal}) -eq 2 ]; do sleep 0.01; done; \
         {ready}; while :; do sleep 600; done",
        ready = bench.mark("ready"),
    );
    let copies = ProcessAgent { name: "copies".to_owned(), max_concurrency, ..sh(&script) };
    let quick = ProcessAgent { name: "quick".to_owned(), ..sh("echo 1") };
    let store = Arc::new(MemoryStore::new());
    ProcessAgents::new(vec![copies, quick], bench.context.clone(), store, Arc::new(|| 0_i64))
}

/// A host with a first copy, the work of task 0 by the lease 1, whose shim stands still, so that the copy outlives its lease for
/// as long as the test wants.
struct Scene {
    bench: Bench,
    host: Host,
    renewal: Renewal<ProcessAgents>,
    connections: mpsc::Receiver<Link>,
    link: Link,
    shim: Option<Stopped>,
}

/// A process that stands still, until this is dropped.
struct Stopped(Pid);

impl Stopped {
    fn new(process: i32) -> Self {
        let process = Pid::from_raw(process).unwrap();
        kill_process(process, Signal::STOP).unwrap();
        Self(process)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

impl Scene {
    async fn new(max_concurrency: u32) -> Self {
        let bench = Bench::new();
        fs::write(bench.path("journal"), "").unwrap();
        let number = HostNumber::of_folder(bench.folder()).unwrap();
        let (links, mut connections) = mpsc::channel(1);
        let work = agents(&bench, max_concurrency);
        let (host, renewal) = Host::start_renewable(work, number, Played(links)).unwrap();
        let mut link = connections.recv().await.unwrap();
        link.welcome().await;
        link.assign("copies", 0, 1).await;
        eventually(|| bench.is_marked("ready")).await;
        let shim = Some(Stopped::new(parent(bench.marked("ready")).unwrap()));
        Self { bench, host, renewal, connections, link, shim }
    }

    /// Whatever the host begins at once has begun after this.
    async fn quick(&mut self) {
        self.link.assign("quick", 9, 9).await;
        self.link.completed(9, 9).await;
    }

    fn go_on(&mut self) {
        self.shim = None;
    }

    /// The lines of the journal that begin so.
    fn lines(&self, beginning: &str) -> usize {
        let journal = fs::read_to_string(self.bench.path("journal")).unwrap();
        journal.lines().filter(|line| line.starts_with(beginning)).count()
    }
}

#[tokio::test]
async fn a_task_begins_again_when_nothing_of_its_revoked_lease_is_alive() {
    let mut scene = Scene::new(2).await;
    scene.link.revoke(0, 1).await;
    scene.link.assign("copies", 0, 2).await;
    scene.quick().await;
    assert_eq!(scene.lines("start"), 1);
    scene.go_on();
    scene.link.completed(0, 2).await;
    assert_eq!((scene.lines("start"), scene.lines("alive")), (2, 0));
}

#[tokio::test]
async fn a_place_of_an_agent_is_free_when_nothing_of_the_lease_before_is_alive() {
    let mut scene = Scene::new(1).await;
    // What is alive counts also where the agents were read again meanwhile.
    scene.renewal.serve(agents(&scene.bench, 1));
    let hello = scene.link.hear().await;
    assert!(matches!(hello, Say::Hello(_)), "{hello:?}");
    scene.link.revoke(0, 1).await;
    scene.link.assign("copies", 1, 2).await;
    scene.quick().await;
    assert_eq!(scene.lines("start"), 1);
    scene.go_on();
    scene.link.completed(1, 2).await;
    assert_eq!((scene.lines("start"), scene.lines("alive")), (2, 0));
}

#[tokio::test]
async fn neither_a_cancel_nor_the_end_of_the_host_waits_for_what_was_let_go() {
    let mut scene = Scene::new(2).await;
    scene.link.revoke(0, 1).await;
    scene.link.assign("copies", 0, 2).await;
    let lease = Some(reference(0, 2));
    scene.link.say(Hear::Cancel(v1::Cancel { lease: lease.clone(), ..Default::default() })).await;
    let frame = scene.link.hear().await;
    let Say::Cancelled(cancelled) = &frame else { panic!("{frame:?}") };
    assert_eq!(cancelled.lease, lease);
    scene.link.say(Hear::ResultAccepted(v1::ResultAccepted { lease })).await;

    scene.link.assign("copies", 0, 3).await;
    let Scene { bench, host, mut connections, shim, .. } = scene;
    let ending = tokio::spawn(host.end());
    connections.recv().await.unwrap().welcome().await;
    timeout(PATIENCE, ending).await.unwrap().unwrap();
    let copy = bench.marked("ready");
    assert!(is_alive(copy));
    drop(shim);
    eventually(|| !is_alive(copy)).await;
}
