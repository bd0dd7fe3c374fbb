//! The inputs that a search begins with, out of the project's own examples, fixtures and golden logs. They are committed,
//! because what an example says today is as good a seed when the example has changed. Others in a corpus were written by
//! hand: what is not valid, and what no example has.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use capataz_contracts::plan_file::{self, Format};
use capataz_contracts::v1::{self, connect_request::Frame, start_run_request::Work};
use capataz_contracts::{json, pipeline_file, script_file};
use capataz_engine::RunState;
use capataz_engine::session::SessionState;
use capataz_shard::Output;
use capataz_shard::feed::{self, Cursor, Placed};
use capataz_store::{Mark, Position, Removals, ShardId};
use prost::Message;

use crate::peers::World;
use crate::stored::SEED;

/// A seed and its name.
pub type Seed = (String, Vec<u8>);

/// The seeds of a target.
///
/// # Errors
/// A file of the repository cannot be read.
pub fn of(target: &str, root: &Path) -> io::Result<Vec<Seed>> {
    let files = |folder: &str, end: &str| files(&root.join(folder), end);
    Ok(match target {
        "plan" => {
            let mut seeds = files("examples/plans", ".toml")?;
            seeds.extend(files("examples/plans", ".json")?);
            seeds
        }
        "pipeline" => pipelines(root)?,
        "script" => files("examples/scripts", ".toml")?,
        "configuration" => configurations(root)?,
        "spec_file" => files("specs", ".toml")?,
        "spec_request" => files("crates/contracts/tests/fixtures/spec", ".request.json")?,
        "spec_response" => files("crates/contracts/tests/fixtures/spec", ".response.json")?,
        "schema" => SCHEMAS.iter().map(|(name, text)| texts_of(name, text)).collect(),
        "storage_state" => vec![texts_of("one", STORAGE_STATE)],
        "texts" => TEXTS.iter().map(|(name, text)| texts_of(name, text)).collect(),
        "devtools" => vec![texts_of("talk", DEVTOOLS), texts_of("detached", DETACHED)],
        "web_socket" => web_socket(),
        "cursor" => cursors(),
        "start_request" => start_requests(root)?,
        "worker_frames" => worker_frames(),
        "log" => golden(root)?.into_iter().filter(|(name, _)| name.starts_with("format-3")).collect(),
        "run_snapshot" => snapshots(root, |log| RunState::fold(SEED, log).ok()?.snapshot().ok())?,
        "session_snapshot" => snapshots(root, |log| SessionState::fold(log).ok()?.snapshot().ok())?,
        _ => Vec::new(),
    })
}

fn texts_of(name: &str, text: &str) -> Seed {
    (name.to_owned(), text.as_bytes().to_vec())
}

/// The files of a folder whose names end so, in the order of their names.
fn files(folder: &Path, end: &str) -> io::Result<Vec<Seed>> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.sort();
    let named = paths.iter().filter_map(|path| Some((path.file_name()?.to_str()?.to_owned(), path)));
    let wanted = named.filter(|(name, _)| name.ends_with(end));
    wanted.map(|(name, path)| Ok((name, fs::read(path)?))).collect()
}

fn golden(root: &Path) -> io::Result<Vec<Seed>> {
    files(&root.join("crates/engine/tests/golden"), ".binpb")
}

/// The pipeline that is shipped, and the example.
fn pipelines(root: &Path) -> io::Result<Vec<Seed>> {
    let mut seeds = files(&root.join("pipelines"), ".toml")?;
    seeds.extend(files(&root.join("examples/pipelines"), "told-by-a-model.toml")?);
    Ok(seeds)
}

/// The examples' configurations, by the names of their folders. Behind two zero bytes are the rules that lie beside one.
fn configurations(root: &Path) -> io::Result<Vec<Seed>> {
    let mut seeds = Vec::new();
    for example in ["models", "modes", "pipelines", "telemetry"] {
        let folder = root.join("examples").join(example);
        let mut bytes = fs::read(folder.join("capataz.toml"))?;
        if let Ok(rules) = fs::read(folder.join("rules.toml")) {
            bytes.extend([0, 0]);
            bytes.extend(rules);
        }
        seeds.push((format!("{example}.toml"), bytes));
    }
    Ok(seeds)
}

/// The most bytes of a seed that is made: a search is slow with long ones.
const SNAPSHOT_BYTES: usize = 6 * 1024;

/// Snapshots in the midst of the golden logs, and at their ends.
fn snapshots(root: &Path, snapshot: impl Fn(Vec<v1::Event>) -> Option<Vec<u8>>) -> io::Result<Vec<Seed>> {
    let mut seeds = Vec::new();
    for (name, bytes) in golden(root)?.into_iter().filter(|(name, _)| name.starts_with("format-3")) {
        let events: Result<Vec<v1::Event>, _> =
            feed::split(&Bytes::from(bytes)).map(v1::Event::decode).collect();
        let events = events.unwrap_or_default();
        for (place, count) in [("half", events.len() / 2), ("end", events.len())] {
            let taken = snapshot(events.iter().take(count).cloned().collect());
            let name = format!("{}-{place}", name.trim_end_matches(".binpb"));
            seeds.extend(taken.filter(|bytes| bytes.len() <= SNAPSHOT_BYTES).map(|bytes| (name, bytes)));
        }
    }
    Ok(seeds)
}

/// Frames of a WebSocket, as a browser sends them: its messages, and what may stand between them.
fn web_socket() -> Vec<Seed> {
    let frame = |head: u8, payload: &[u8]| {
        let length = match u8::try_from(payload.len()) {
            Ok(length @ 0..126) => vec![length],
            _ => [&[126][..], &(payload.len() as u16).to_be_bytes()].concat(),
        };
        [&[head], &*length, payload].concat()
    };
    let messages = || DEVTOOLS.split('\0').filter(|message| !message.is_empty()).map(str::as_bytes);
    let whole: Vec<u8> = messages().flat_map(|message| frame(0x81, message)).collect();
    let in_parts = messages().flat_map(|message| {
        let (begin, rest) = message.split_at(message.len() / 2);
        // A ping between the two, and an answer to one that nobody has sent.
        [frame(0x01, begin), frame(0x89, b"Hi"), frame(0x8a, b""), frame(0x80, rest)].concat()
    });
    let in_parts: Vec<u8> = in_parts.chain(frame(0x88, b"\x03\xe8")).collect();
    let event = b"{\"method\":\"Page.frameNavigated\",\"params\":{}}";
    let long =
        [&frame(0x82, event)[..], &[0x81, 127, 0, 0, 0, 0, 0, 0, 0, event.len() as u8], event].concat();
    [("whole", whole), ("in-parts", in_parts), ("lengths", long)]
        .into_iter()
        .map(|(name, bytes)| (name.to_owned(), bytes))
        .collect()
}

fn cursors() -> Vec<Seed> {
    let places = [
        ("beginning", 0, 0, 0, 0),
        ("whole", 4, 0, 0, 7),
        ("partial", 3, 4, 1, 7),
        ("of-a-copy", 5, 0, 0, 8),
        ("ahead", 9, 0, 0, 7),
    ];
    let seeds = places.into_iter().map(|(name, position, partial, sent, mark)| {
        let cursor = Cursor { position: Position(position), partial: Position(partial), sent };
        let placed = Placed { cursor, mark: Mark(mark), removals: Removals(3) };
        (name.to_owned(), placed.encode(ShardId(0)).to_vec())
    });
    seeds.collect()
}

fn start_requests(root: &Path) -> io::Result<Vec<Seed>> {
    let mut seeds = Vec::new();
    let request = |work| v1::StartRunRequest { work: Some(work), ..Default::default() }.encode_to_vec();
    for (name, bytes) in files(&root.join("examples/plans"), ".toml")? {
        let plan = plan_file::parse_bytes(&bytes, Format::Toml);
        seeds.extend(plan.ok().map(|plan| (name, request(Work::Plan(plan)))));
    }
    for (name, bytes) in files(&root.join("examples/scripts"), ".toml")? {
        let script = script_file::parse_bytes(&bytes, Format::Toml);
        seeds.extend(script.ok().map(|script| (name, request(Work::Script(Box::new(script))))));
    }
    for (name, bytes) in pipelines(root)? {
        let mut schema = |_: &str| Ok::<_, String>(b"{\"type\":\"object\"}".to_vec());
        let pipeline = pipeline_file::parse_bytes(&bytes, Format::Toml, &mut schema);
        seeds.extend(pipeline.ok().map(|pipeline| (name, request(Work::Pipeline(pipeline)))));
    }
    let ask = v1::Ask { text: "hello".to_owned(), session: Some("s".to_owned()), ..Default::default() };
    seeds.push(("ask".to_owned(), request(Work::Ask(ask))));
    seeds.push(("execution".to_owned(), request(Work::Mode(execution()))));
    Ok(seeds)
}

fn execution() -> v1::ModeRun {
    let tool = |name: &str| v1::ModeTool {
        name: name.to_owned(),
        needs_approval: name == "send",
        ..v1::ModeTool::default()
    };
    v1::ModeRun {
        query: "tidy up".to_owned(),
        mode: Some(v1::ExecutionMode::Planner.into()),
        session: Some("s".to_owned()),
        planner: "brain".to_owned(),
        tools: ["read", "send", "plan.run"].map(tool).to_vec(),
        workspace: vec!["a.txt".to_owned()],
        current_file: Some("a.txt".to_owned()),
        autonomy_level: Some(0.5),
        max_steps: Some(9),
        ..v1::ModeRun::default()
    }
}

/// Each kind of frame, about the lease that the worker has got.
fn worker_frames() -> Vec<Seed> {
    let agent = v1::Agent { name: "a".to_owned(), max_concurrency: 1, ..Default::default() };
    let hello = v1::Hello {
        worker_id: "w".to_owned(),
        agents: vec![agent],
        slots: 1,
        protocol: 1,
        ..Default::default()
    };
    let lease = lease(&hello);
    let text = Bytes::from_static(b"\"done\"");
    let output = v1::Payload {
        media_type: json::JSON_MEDIA_TYPE.to_owned(),
        data: Some(v1::payload::Data::Inline(text)),
    };
    let error = v1::Error { code: "AGENT_FAILED".to_owned(), message: "no".to_owned(), ..Default::default() };
    let progress = v1::Progress {
        lease: lease.clone(),
        fraction: Some(0.5),
        message: Some("half".to_owned()),
        partial_output: Some(output.clone()),
        partial_tail: None,
        log: Some(v1::LogTail { lines: 9, text: "one\ntwo\n".to_owned() }),
    };
    let usage = v1::Usage { input_tokens: Some(3), ..Default::default() };
    let said = [
        ("ack", Frame::Ack(v1::Ack { lease: lease.clone() })),
        ("heartbeat", Frame::Heartbeat(v1::Heartbeat {})),
        ("progress", Frame::Progress(progress)),
        (
            "completed",
            Frame::Completed(v1::Completed {
                lease: lease.clone(),
                output: Some(output.clone()),
                log: "log".to_owned(),
                usage: Some(usage),
            }),
        ),
        (
            "failed",
            Frame::Failed(v1::Failed {
                lease: lease.clone(),
                error: Some(error),
                log: String::new(),
                usage: None,
            }),
        ),
        (
            "cancelled",
            Frame::Cancelled(v1::Cancelled {
                lease: lease.clone(),
                partial_output: Some(output),
                log: String::new(),
            }),
        ),
        ("drain", Frame::Drain(v1::DrainRequested {})),
        ("returned", Frame::Returned(v1::Returned { lease: lease.clone() })),
        ("browser-gone", Frame::BrowserGone(v1::BrowserGone { run_id: crate::peers::run().to_string() })),
    ];
    let ack = Frame::Ack(v1::Ack { lease });
    let seeds = said.into_iter().map(|(name, frame)| {
        let frames = [Frame::Hello(hello.clone()), ack.clone(), frame];
        let bytes = frames
            .into_iter()
            .flat_map(|frame| v1::ConnectRequest { frame: Some(frame) }.encode_length_delimited_to_vec());
        (name.to_owned(), bytes.collect())
    });
    seeds.collect()
}

/// The lease that a worker gets after its hello.
fn lease(hello: &v1::Hello) -> Option<v1::LeaseRef> {
    let mut world = World::new()?;
    world.says(Frame::Hello(hello.clone()));
    world.outputs.into_iter().find_map(|output| match output {
        Output::Frame { frame: v1::connect_response::Frame::Assignment(assignment), .. } => assignment.lease,
        _ => None,
    })
}

const SCHEMAS: &[(&str, &str)] = &[
    (
        "object",
        "{\"type\":\"object\",\"required\":[\"a\"],\"properties\":{\"a\":{\"type\":\"integer\",\"minimum\":1}}}\0{\"a\":0}",
    ),
    (
        "list",
        "{\"type\":\"array\",\"prefixItems\":[{\"const\":1}],\"items\":{\"enum\":[2,3]},\"uniqueItems\":true}\0[1,2,3]",
    ),
    ("text", "{\"pattern\":\"^a+(b|c)*$\",\"minLength\":2,\"maxLength\":9}\0\"aabc\""),
    ("refers", "{\"$defs\":{\"n\":{\"multipleOf\":0.01}},\"$ref\":\"#/$defs/n\"}\x001.25"),
    (
        "in-place",
        "{\"allOf\":[{\"not\":{\"type\":\"null\"}},{\"if\":{\"type\":\"string\"},\"then\":{\"minLength\":1},\"else\":false}],\"unevaluatedProperties\":false}\0\"x\"",
    ),
    (
        "recursive",
        "{\"properties\":{\"next\":{\"$ref\":\"#\"}},\"propertyNames\":{\"pattern\":\"^n\"}}\0{\"next\":{\"next\":{}}}",
    ),
];

const STORAGE_STATE: &str = r#"{"cookies":[{"name":"sid","value":"1","domain":"example.com","path":"/"}],"origins":[{"origin":"https://example.com","local_storage":[{"name":"k","value":"v"}]}]}"#;

const TEXTS: &[(&str, &str)] = &[
    ("duration", "1d 2h 30m 1.5s 250ms"),
    ("reference", "${tasks.a.output.b.0} and $${ and ${tasks.c.output}"),
    ("placeholder", "${var:name} ${output:row} ${secret:pin}"),
    ("version", "1.2.3-rc.1+build.5"),
    ("hash", "06b62119259718008d516e4d1a41aa5796851f81f73a5359d179a4d9713ff6fe"),
    ("run", "0192f0c1-2345-7abc-8def-0123456789ab"),
    ("keys", "Control+Shift+ArrowLeft"),
    ("addresses", "*.example.com\nhttps://a.example.com:443/x?y#z"),
    ("address", "[::1]:80\nhttp://[::1]/"),
    ("rows", "text\tlabel\tsplit\nhello\tgreet\ttrain\nbye\tleave\n"),
];

const DEVTOOLS: &str = "{\"id\":1,\"result\":{\"product\":\"x\"}}\0{\"method\":\"Page.loadEventFired\",\"sessionId\":\"S\",\"params\":{\"timestamp\":1.5}}\0{\"id\":2,\"error\":{\"code\":-32000,\"message\":\"no\",\"data\":\"why\"},\"sessionId\":\"S\"}\0{\"error\":{\"code\":1,\"message\":\"?\"}}\0";

const DETACHED: &str = "{\"method\":\"Target.detachedFromTarget\",\"params\":{\"sessionId\":\"S\"}}\0{\"method\":\"Inspector.targetCrashed\",\"sessionId\":\"S\",\"params\":{}}\0{\"id\":1,\"result\":{\"text\":\"\\ud800\"}}\0";
