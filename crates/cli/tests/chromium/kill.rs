//! Scripts whose browsers and whose daemon are killed while they run. Each script ends with a typed outcome or waits
//! for a person, nothing is sent twice, and no process and no profile is left (seed 002).

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::time::Duration;

use capataz_client::Client;
use capataz_contracts::script_file::{self, Format};
use capataz_contracts::v1::{self, event::Body};
use capataz_contracts::validate;
use capataz_testsite::Site;
use tokio::time::Instant;

use crate::served::{Served, browsers};

const SCRIPTS: usize = 100;
/// How often browsers and the daemon are killed, as long as scripts remain.
const BROWSER_KILLS: usize = 30;
const DAEMON_KILLS: usize = 6;
const SEED: u64 = 0x5eed_0002;
/// Fewer browsers than scripts, so that some scripts wait for a browser.
const CONFIG: &str = "[browser]\nmax_open = 3\n";
/// A time limit that only a failing test reaches.
const PATIENCE: Duration = Duration::from_secs(600);
/// The interval between two looks at conditions that have no event to wait for.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A random generator with the same numbers each time (SplitMix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % limit as u64).unwrap()
    }
}

/// A script that types its number into a form, sends the form once, and reads the result.
fn script(site: &Site, number: usize) -> v1::StartRunRequest {
    let toml = format!(
        r#"
        name = "kill-{number}"
        [policy]
        allowlist = ["{host}"]
        [[actions]]
        id = "open"
        kind = "navigate"
        url = "http://{host}/form/get"
        [[actions]]
        id = "fill"
        kind = "fill"
        target = {{ label = "Search" }}
        value = "n{number}"
        [[actions]]
        id = "send"
        kind = "submit"
        target = {{ role = "button", name = "Search" }}
        post = [{{ kind = "url_matches", value = "/echo[?]q=n{number}$" }}]
        [[actions]]
        id = "read"
        kind = "extract"
        target = {{ role = "table" }}
        extract = "table"
        output = "echo"
        "#,
        host = site.host()
    );
    let script = script_file::parse(&toml, Format::Toml).unwrap();
    v1::StartRunRequest::of_script(script)
}

#[derive(Default)]
struct Tally {
    browsers_killed: usize,
    daemons_killed: usize,
    answered: BTreeMap<String, usize>,
    ended: BTreeMap<String, usize>,
}

/// Answers every open question, one way or another. The function notes runs that may then send once more.
async fn answer(client: &Client, chance: &mut Chance, tally: &mut Tally, again: &mut BTreeSet<String>) {
    let waiting = v1::ListRunsRequest {
        status: Some(v1::RunStatus::Waiting as i32),
        page_size: 500,
        ..Default::default()
    };
    for run in client.list_runs(waiting).await.unwrap().runs {
        let whole = v1::GetRunRequest { run_id: run.run_id.clone(), ..Default::default() };
        let Some(run) = client.get_run(whole).await.unwrap().run else { continue };
        for question in run.questions.iter().filter(|question| question.answer.is_none()) {
            let error = question.error.clone().unwrap_or_default();
            assert_eq!(error.code, "OUTCOME_UNKNOWN", "{question:?}");
            let answer = question.options[chance.below(question.options.len())].clone();
            if answer == "retry" {
                again.insert(run.run_id.clone());
            }
            let request = v1::ResolveRequest {
                run_id: run.run_id.clone(),
                question_id: question.question_id.clone(),
                answer: answer.clone(),
                ..Default::default()
            };
            client.resolve(request).await.unwrap();
            *tally.answered.entry(answer).or_default() += 1;
        }
    }
}

async fn finished(client: &Client) -> usize {
    let finished = v1::ListRunsRequest {
        status: Some(v1::RunStatus::Finished as i32),
        page_size: 500,
        ..Default::default()
    };
    client.list_runs(finished).await.unwrap().runs.len()
}

/// The end of a run: its outcome, and the code if the run failed.
async fn ending(client: &Client, run: &str) -> String {
    let result = client.wait_run(run, Some(PATIENCE)).await.unwrap().expect("it ends");
    let outcome = result.outcome();
    let script = result.script().cloned().unwrap_or_default();
    let code = match (&script.error, &result.error) {
        (Some(error), _) => {
            assert_eq!(validate::executor_error(error), [], "{error:?}");
            error.error_code.clone()
        }
        // A person ended the run, so that no executor error exists.
        (None, Some(error)) => {
            assert_eq!(error.code, "OUTCOME_UNKNOWN", "{error:?}");
            format!("by hand: {}", error.code)
        }
        (None, None) => String::new(),
    };
    if outcome == v1::RunOutcome::Succeeded {
        assert_eq!((script.succeeded, script.total, code.as_str()), (4, 4, ""), "{result:?}");
    } else {
        assert!(!code.is_empty(), "an outcome is typed: {result:?}");
    }
    let mut events = client.export_run(run).await.unwrap();
    let (mut seq, mut ends) = (0, 0);
    while let Some(event) = events.next().await {
        let event = event.unwrap();
        seq += 1;
        assert_eq!(event.seq, seq, "no gap and nothing twice");
        ends += usize::from(matches!(event.body, Some(Body::RunFinished(_))));
    }
    assert_eq!(ends, 1, "{run}");
    format!("{outcome:?} {code}").trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_killed_every_script_ends_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start().await.unwrap();
    let mut daemon = Served::start(folder.path(), CONFIG);
    let mut client = daemon.client().await;
    let mut runs = Vec::new();
    for number in 0..SCRIPTS {
        runs.push(client.start_run(script(&site, number)).await.unwrap().run_id);
    }
    let mut chance = Chance(SEED);
    let (mut tally, mut again) = (Tally::default(), BTreeSet::new());
    let deadline = Instant::now() + PATIENCE;
    // The next kill comes after this many further requests to the site, which is a random moment of a script.
    let mut next_kill = 5;
    loop {
        assert!(
            Instant::now() < deadline,
            "all scripts end in time; {} of them did",
            finished(&client).await
        );
        answer(&client, &mut chance, &mut tally, &mut again).await;
        if finished(&client).await == SCRIPTS {
            break;
        }
        if site.requests().len() < next_kill {
            tokio::time::sleep(LOOK_AGAIN).await;
            continue;
        }
        next_kill = site.requests().len() + chance.below(9);
        let total = BROWSER_KILLS + DAEMON_KILLS;
        let kills_daemon = chance.below(total) < DAEMON_KILLS;
        if kills_daemon && tally.daemons_killed < DAEMON_KILLS {
            daemon = daemon.kill_and_start();
            client = daemon.client().await;
            tally.daemons_killed += 1;
        } else if tally.browsers_killed < BROWSER_KILLS {
            let open = daemon.browsers().await;
            if !open.is_empty() {
                let process = open[chance.below(open.len())].to_string();
                // The process may have ended by itself in the meantime.
                let _ =
                    Command::new("kill").args(["-KILL", &process]).stderr(Stdio::null()).status().unwrap();
                tally.browsers_killed += 1;
            }
        }
    }
    for run in &runs {
        *tally.ended.entry(ending(&client, run).await).or_default() += 1;
    }
    for (number, run) in runs.iter().enumerate() {
        let query = format!("q=n{number}");
        let sent = site.requests().iter().filter(|request| request.query.as_deref() == Some(&query)).count();
        let most = if again.contains(run) { 2 } else { 1 };
        assert!(sent <= most, "{query} was sent {sent} times");
    }
    println!(
        "{SCRIPTS} scripts; killed: {} browsers, the daemon {} times; answered: {:?}; ended: {:?}",
        tally.browsers_killed, tally.daemons_killed, tally.answered, tally.ended
    );
    assert!(tally.daemons_killed > 0 && tally.browsers_killed > 0);
    assert!(tally.ended.contains_key("Succeeded"), "{:?}", tally.ended);
    browsers::leave_nothing(&folder.path().join("data")).await;
}
