//! `capataz pipeline …`, against the program as people start it.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use capataz_client::Client;
use capataz_client::worker::{Task, TaskOutput, Worker};
use capataz_contracts::v1;
use serde_json::{Value, json};

use crate::served::Served;

/// A time limit that only a failing test reaches.
const PATIENCE: Duration = Duration::from_secs(60);

const REVIEW: &str = r#"
name = "review"
product_id = "shop"

[[phases]]
name = "read"
agent = "reader"
output.schema = "schemas/title.json"
summary = ["title"]
retry = { delays_ms = [0] }

[[phases]]
name = "tell"
agent = "teller"
retry = { delays_ms = [0] }
"#;

const TITLE: &str =
    r#"{"type": "object", "required": ["title"], "properties": {"title": {"type": "string"}}}"#;

/// The agents: `reader` gives no title, `careful` does, `teller` gives back what it is given.
const AGENTS: &str = r#"
[[agents]]
name = "reader"
command = ["echo", '{"title": 7}']
[[agents]]
name = "careful"
command = ["echo", '{"title": "the sea"}']
[[agents]]
name = "teller"
command = ["cat"]
"#;

/// A folder with the pipeline and its schema.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let pipelines = folder.path().join("pipelines");
    std::fs::create_dir_all(pipelines.join("schemas")).unwrap();
    std::fs::write(pipelines.join("review.toml"), REVIEW).unwrap();
    std::fs::write(pipelines.join("schemas/title.json"), TITLE).unwrap();
    folder
}

/// `capataz pipeline …` in this folder.
fn pipeline(folder: &Path, arguments: &[&str]) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_capataz"));
    program.arg("pipeline").args(arguments).current_dir(folder).env("LC_ALL", "C");
    program
}

/// Runs the command, which ends with this exit code and says this on stdout and on stderr.
#[track_caller]
fn check(mut command: Command, exit: i32, stdout: &str, stderr: &str) -> Output {
    let output = command.output().unwrap();
    let told = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(exit), "{told:?}");
    assert!(told.0.contains(stdout) && told.1.contains(stderr), "{command:?} {told:?}");
    output
}

#[track_caller]
fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The questions of a run, once there are so many.
async fn questions(client: &Client, run: &str, count: usize) -> Vec<v1::Question> {
    let asked = async {
        loop {
            let request =
                v1::GetRunRequest { run_id: run.to_owned(), summary_only: true, ..Default::default() };
            let questions = client.get_run(request).await.unwrap().run.unwrap().questions;
            if questions.len() == count {
                return questions;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.unwrap()
}

/// Starts the pipeline. The daemon does not know its agents until their worker has said hello.
async fn start(client: &Client, pipeline: &v1::Pipeline) -> String {
    loop {
        match client.start_run(v1::StartRunRequest::of_pipeline(pipeline.clone())).await {
            Ok(started) => return started.run_id,
            Err(error) => assert!(error.code().is_some_and(|code| code.starts_with("AGENT")), "{error:?}"),
        }
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_pipeline_is_checked_with_its_schemas_and_without_a_daemon() {
    let folder = folder();
    let lint = |arguments: &[&str]| pipeline(folder.path(), &[&["lint"], arguments].concat());
    check(lint(&["review"]), 0, "review is a valid pipeline: 2 phases", "");
    check(lint(&["pipelines/review.toml"]), 0, "is a valid pipeline: 2 phases", "");
    check(lint(&["review", "--lang", "es"]), 0, "es un proceso válido: 2 fases", "");
    let valid = document(&check(lint(&["review", "--json"]), 0, "", ""));
    assert_eq!(
        (&valid["kind"], &valid["valid"], &valid["violations"]),
        (&json!("pipeline"), &json!(true), &json!([]))
    );

    let bad = REVIEW
        .replace("summary = [\"title\"]", "summary = [\"title\", \"title\"]")
        .replace("\"tell\"", "\"read\"");
    std::fs::write(folder.path().join("bad.toml"), bad.replace("schemas/", "pipelines/schemas/")).unwrap();
    let told = check(lint(&["bad.toml"]), 2, "", "phases[1].name: there is another phase `read` (duplicate)");
    assert!(String::from_utf8_lossy(&told.stderr).contains("phases[0].summary[1]"), "{told:?}");
    check(lint(&["bad.toml", "--lang", "es"]), 2, "", "phases[1].name: hay otra fase `read` (duplicate)");
    let told = document(&check(lint(&["bad.toml", "--json"]), 2, "", ""));
    let paths: Vec<&Value> = told["violations"].as_array().unwrap().iter().map(|at| &at["path"]).collect();
    assert_eq!(paths, ["phases[0].summary[1]", "phases[1].name"]);

    std::fs::remove_file(folder.path().join("pipelines/schemas/title.json")).unwrap();
    check(lint(&["review"]), 2, "", "phases[0].output.schema: `schemas/title.json`: ");
    let told = document(&check(lint(&["review", "--json"]), 2, "", ""));
    assert_eq!(told["violations"][0]["rule"], "schema");
    std::fs::write(folder.path().join("pipelines/schemas/title.json"), r#"{"type": "text"}"#).unwrap();
    check(lint(&["review"]), 2, "", "phases[0].output.schema/type: ");
    std::fs::write(folder.path().join("pipelines/schemas/title.json"), r#"{"type": "#).unwrap();
    check(lint(&["review"]), 2, "", "phases[0].output.schema: `schemas/title.json`: ");
    let huge = format!("{{\"title\": \"{}\"}}", "a".repeat(64 * 1024));
    std::fs::write(folder.path().join("pipelines/schemas/title.json"), huge).unwrap();
    check(lint(&["review"]), 2, "", "`schemas/title.json`: more than 65536 bytes");
    check(lint(&["review", "--lang", "es"]), 2, "", "`schemas/title.json`: más de 65536 bytes");
    check(
        lint(&["nothing"]),
        2,
        "",
        "there is no pipeline nothing: neither a file of this name nor pipelines/nothing.toml",
    );
    check(lint(&["nothing", "--lang", "es"]), 2, "", "no existe el proceso nothing");
    check(lint(&["no-such.toml"]), 2, "", "cannot read no-such.toml");
}

#[test]
fn what_has_no_form_and_what_breaks_rules_is_told_at_once() {
    let folder = folder();
    let bad = r#"
name = "bad"
[[phases]]
naem = "read"
agent = "reader"
output.schema = "schemas/away.json"
retry = { max_attempts = 0 }
[[phases]]
name = "a b"
agent = 5
input = { of = "${phases.read.summary}" }
"#;
    std::fs::write(folder.path().join("pipelines/bad.toml"), bad).unwrap();
    let expected = [
        "phases[0].naem unknown_key",
        "phases[1].agent type",
        "phases[0].output.schema schema",
        "phases[1].name name",
        "phases[0].retry.max_attempts range",
    ];
    let told = check(pipeline(folder.path(), &["lint", "bad"]), 2, "", "5 violations\n");
    let text = String::from_utf8_lossy(&told.stderr).into_owned();
    for violation in expected {
        let (path, rule) = violation.split_once(' ').unwrap();
        let line = text.lines().find(|line| line.trim_start().starts_with(&format!("{path}: ")));
        assert!(line.is_some_and(|line| line.ends_with(&format!("({rule})"))), "{violation} in {text}");
    }
    let told = document(&check(pipeline(folder.path(), &["lint", "bad", "--json"]), 2, "", ""));
    let violations = told["violations"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let found: Vec<String> =
        violations.map(|one| format!("{} {}", text(&one["path"]), text(&one["rule"]))).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_pipeline_that_breaks_rules_is_told_the_agents_that_the_daemon_does_not_know_as_well() {
    let folder = folder();
    let daemon = Served::start(folder.path(), AGENTS);
    let bad = REVIEW.replace("\"tell\"", "\"read\"").replace("\"teller\"", "\"tellr\"");
    std::fs::write(folder.path().join("pipelines/bad.toml"), bad).unwrap();
    let told = |addr: &str| {
        let run = pipeline(folder.path(), &["run", "bad", "--json", "--addr", addr]);
        let answer = document(&check(run, 2, "", ""));
        let violations = answer["error"]["violations"].as_array().unwrap().clone();
        violations.iter().map(|one| format!("{} {}", one["path"], one["rule"])).collect::<Vec<_>>()
    };
    let both = [r#""phases[1].name" "duplicate""#, r#""phases[1].agent" "AGENT_NOT_FOUND""#];
    assert_eq!(told(daemon.address()), both);
    // Without a daemon there is what needs none.
    assert_eq!(told("http://127.0.0.1:1"), both[..1]);
}

#[test]
fn pipelines_with_a_name_are_listed_with_those_that_are_not_valid() {
    let folder = folder();
    std::fs::write(folder.path().join("pipelines/broken.toml"), "name = ").unwrap();
    std::fs::write(folder.path().join("pipelines/notes.md"), "no pipeline").unwrap();
    let listed = check(pipeline(folder.path(), &["list"]), 0, "PIPELINE", "");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let review = listed.lines().find(|line| line.starts_with("review")).unwrap();
    assert!(review.contains("read → tell") && review.contains("pipelines/review.toml"), "{listed}");
    assert!(listed.lines().any(|line| line.starts_with("broken")) && !listed.contains("notes"), "{listed}");
    check(pipeline(folder.path(), &["list", "--lang", "es"]), 0, "PROCESO", "");
    let listed = document(&check(pipeline(folder.path(), &["list", "--json"]), 0, "", ""));
    let of = |name: &str| {
        let all = listed["pipelines"].as_array().unwrap();
        all.iter().find(|known| known["name"] == name).unwrap().clone()
    };
    let review = json!({ "name": "review", "file": "pipelines/review.toml", "phases": 2, "valid": true });
    assert_eq!(of("review"), review);
    assert_eq!(of("broken")["valid"], false);
    // The pipeline of seed 003 is built in.
    let analysis = json!({ "name": "product-analysis", "file": null, "phases": 4, "valid": true });
    assert_eq!(of("product-analysis"), analysis);
}

/// A product with a site, infrastructure and documentation, as files: 195 in four folders, and three at the top.
fn monorepo(folder: &Path) {
    let write = |path: String, text: &str| {
        let file = folder.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    };
    for (count, of, ending) in [
        (119, "apps/app/src", "ts"),
        (40, "apps/website/pages", "tsx"),
        (20, "docs", "md"),
        (15, "infra/modules", "tf"),
    ] {
        (0..count).for_each(|index| write(format!("{of}/f{index:03}.{ending}"), ""));
    }
    write("apps/app/package.json".to_owned(), r#"{"name": "@org/app"}"#);
    for top in ["README.md", "package.json", ".gitignore"] {
        write(top.to_owned(), "");
    }
}

/// What the first phase of an analysis gives back for its only source.
#[track_caller]
fn classified(ended: &Value) -> &Value {
    let tasks = ended["result"]["tasks"].as_array().unwrap();
    let of = tasks.iter().find(|task| task["name"] == "surface-classification.0");
    &of.ok_or(ended).unwrap()["output"]
}

#[test]
fn the_example_with_a_model_is_valid_and_has_the_phases_of_the_analysis() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let example = "examples/pipelines/told-by-a-model.toml";
    check(pipeline(&root, &["lint", example]), 0, "is a valid pipeline: 4 phases", "");
    let read = |file: &str| std::fs::read_to_string(root.join(file)).unwrap().parse::<toml::Table>().unwrap();
    let (mut shipped, told) = (read("pipelines/product-analysis.toml"), read(example));
    // Another agent, and the way to the schemas.
    let phases = shipped["phases"].as_array_mut().unwrap();
    phases[3]["agent"] = "narrator".into();
    for phase in phases {
        let schema = phase["output"]["schema"].as_str().unwrap().to_owned();
        phase["output"]["schema"] = format!("../{schema}").into();
    }
    assert_eq!(told["phases"], shipped["phases"]);
    let models = read("examples/pipelines/capataz.toml");
    assert_eq!(models["models"][0]["name"].as_str(), Some("narrator"));
}

// S003-OU-13
#[test]
fn a_product_is_analysed_without_a_model() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Served::start(folder.path(), "");
    let shop = folder.path().join("shop");
    monorepo(&shop);
    let run = |source: &Path, arguments: &[&str]| {
        let path = format!("path={}", source.display());
        let run = ["--addr", &daemon.url(), "run", "product-analysis", "--input", &path];
        pipeline(folder.path(), &[&run, arguments].concat())
    };
    let ended = document(&check(run(&shop, &["--json"]), 0, "", ""));
    let checkpoints = ended["result"]["pipeline"]["checkpoints"].as_array().unwrap();
    let told: Vec<_> = checkpoints
        .iter()
        .map(|at| (at["phase"].as_str().unwrap(), at["status"].as_str().unwrap()))
        .collect();
    // The phases as the seed names them.
    assert_eq!(
        told,
        [
            ("surface-classification", "completed"),
            ("domain-mapping", "completed"),
            ("feature-extraction", "completed"),
            ("narrative", "completed"),
        ]
    );
    let output = classified(&ended);
    assert_eq!(output["classification"], "product_core");
    let buckets = json!([
        {"surface": "product_core", "pathPrefix": "apps/app", "signalCount": 120},
        {"surface": "marketing_surface", "pathPrefix": "apps/website", "signalCount": 40},
        {"surface": "docs", "pathPrefix": "docs", "signalCount": 20},
        {"surface": "infra", "pathPrefix": "infra", "signalCount": 15},
    ]);
    assert_eq!(output["surfaceBuckets"], buckets);
    let summary = &checkpoints[0]["payload"];
    let counts: Vec<_> = summary["summary"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["surface"].as_str().unwrap(), row["signalCount"].as_u64().unwrap()))
        .collect();
    // The three files at the top count for what most of the source is.
    assert_eq!(counts, [("docs", 20), ("infra", 15), ("marketing_surface", 40), ("product_core", 123)]);
    assert_eq!(summary["surfaces"][0]["sourceId"], "shop");
    // 123 of 198.
    assert_eq!(summary["surfaces"][0]["confidence"], json!(0.6212));

    let told = check(run(&shop, &[]), 0, "product-analysis: succeeded", "");
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let rows: Vec<Vec<&str>> = told.lines().map(|line| line.split_whitespace().collect()).collect();
    for phase in ["surface-classification", "domain-mapping", "feature-extraction", "narrative"] {
        let row = rows.iter().find(|row| row.starts_with(&[phase, "completed"]));
        assert!(row.is_some(), "{phase}: {told}");
    }

    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let ended = document(&check(run(&repository, &["--json"]), 0, "", ""));
    let output = classified(&ended);
    assert_eq!(output["classification"], "product_core");
    for (prefix, surface) in [("crates", "product_core"), ("docs", "docs")] {
        let buckets = output["surfaceBuckets"].as_array().unwrap();
        let bucket = buckets.iter().find(|bucket| bucket["pathPrefix"] == prefix);
        assert_eq!(bucket.map(|bucket| &bucket["surface"]), Some(&json!(surface)), "{prefix}: {output}");
    }
}

#[tokio::test]
async fn a_blocked_pipeline_says_what_can_be_done_and_goes_on_with_another_agent() {
    let folder = folder();
    let daemon = Served::start(folder.path(), AGENTS);
    let with =
        |arguments: &[&str]| pipeline(folder.path(), &[&["--addr", &daemon.url()], arguments].concat());
    let started = with(&["run", "review", "--input", "repo=org/shop", "--watch", "--exit-on-question"]);
    let watched = check(started, 5, "pipeline review accepted: 2 phases", "");
    let watched = String::from_utf8_lossy(&watched.stdout).into_owned();
    for told in [
        "phase read begins",
        "attempt 1: the output breaks its rule at /title: ",
        "(type)",
        "the phase \"read\" is blocked: ",
        "continue with `capataz pipeline resume ",
    ] {
        assert!(watched.contains(told), "{told}: {watched}");
    }
    assert!(!watched.contains("capataz pipeline rollback"), "there is nothing to go back to: {watched}");

    let shown = document(&check(with(&["checkpoints", "latest", "--json"]), 0, "", ""));
    let (read, tell) = (&shown["checkpoints"][0], &shown["checkpoints"][1]);
    assert_eq!(
        (&read["productId"], &read["phase"], &read["status"]),
        (&json!("shop"), &json!("read"), &json!("blocked"))
    );
    assert_eq!((&read["checkpointVersion"], &tell["status"]), (&json!("v1.0"), &json!("pending")));
    assert!(read["errorMessage"].as_str().is_some_and(|why| why.contains("/title")), "{read}");
    assert_eq!(read["payload"]["failed"][0]["attempts"], 2, "{read}");
    let blocked = shown["seq"].as_u64().unwrap();
    check(with(&["checkpoints", "latest"]), 0, "blocked", "");
    let spanish = check(with(&["checkpoints", "latest", "--lang", "es"]), 0, "bloqueada", "");
    let spanish = String::from_utf8_lossy(&spanish.stdout).into_owned();
    assert!(spanish.contains("FASE") && spanish.contains("la fase \"read\" está bloqueada"), "{spanish}");

    check(with(&["rollback", "latest"]), 1, "", "CHECKPOINT_NOT_FOUND");
    check(with(&["rollback", "latest", "told"]), 1, "", "PHASE_NOT_FOUND");
    check(with(&["rollback", "latest", "told", "--lang", "es"]), 1, "", "no hay ninguna fase");
    check(with(&["resume", "latest", "--input", "{"]), 2, "", "is not JSON");
    check(with(&["resume", "latest", "--agent", "careful"]), 0, "goes on.", "");
    check(with(&["resume", "latest"]), 1, "", "no phase of run ");

    let client = daemon.client().await;
    let run = client.list_runs(v1::ListRunsRequest::default()).await.unwrap().runs.remove(0).run_id;
    let result = client.wait_run(&run, Some(PATIENCE)).await.unwrap().unwrap();
    assert_eq!(result.outcome(), v1::RunOutcome::Succeeded);
    let shown = document(&check(with(&["checkpoints", "latest", "--json"]), 0, "", ""));
    assert_eq!(shown["checkpoints"][0]["payload"], json!({ "title": "the sea" }));
    assert_eq!(shown["checkpoints"][1]["status"], "completed");
    let at = blocked.to_string();
    let then = document(&check(with(&["checkpoints", "latest", "--at", &at, "--json"]), 0, "", ""));
    assert_eq!((&then["checkpoints"][0]["status"], &then["seq"]), (&json!("blocked"), &json!(blocked)));
    check(with(&["rollback", "latest", "tell"]), 1, "", "RUN_FINISHED");

    // What the checkpoints were then, and what they are.
    check(with(&["diff", "latest", "latest"]), 0, "", "");
    let then = format!("latest@{blocked}");
    let shown =
        check(with(&["diff", &then, "latest"]), 1, "status\n  - \"blocked\"\n  + \"completed\"\n", "");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(!shown.contains("_at_ms"), "when it came about is not compared: {shown}");
    let differences = document(&check(with(&["diff", &then, "latest", "--json"]), 1, "", ""));
    let changed = differences["differences"].as_array().unwrap().iter();
    let statuses: Vec<_> = changed.filter(|at| at["path"].as_str().unwrap().ends_with("status")).collect();
    assert_eq!(
        statuses,
        [
            &json!({ "path": "[0].status", "before": "blocked", "after": "completed" }),
            &json!({ "path": "[1].status", "before": "pending", "after": "completed" }),
        ]
    );
    // Those of the product, with the run above them.
    let listed = check(with(&["checkpoints", "--product", "shop"]), 0, &run, "");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let rows: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().take(2).collect()).collect();
    assert_eq!(
        rows,
        [vec![&*run], vec!["PHASE", "STATUS"], vec!["read", "completed"], vec!["tell", "completed"]]
    );
    let listed = document(&check(with(&["checkpoints", "--product", "shop", "--json"]), 0, "", ""));
    let of: Vec<_> = listed["checkpoints"].as_array().unwrap().iter().map(|at| &at["runId"]).collect();
    assert_eq!(of, [&json!(run), &json!(run)]);
    check(with(&["checkpoints", "--product", "mill"]), 0, "No checkpoints.", "");
}

/// Runs of a product whose checkpoints are shown.
const SHOWN: usize = 20;
/// Phases of each of these runs: with a summary of 30,000 bytes each, they have more than the daemon puts into one answer.
const PHASES: usize = 8;

#[tokio::test]
async fn the_checkpoints_of_a_products_newest_runs_are_shown_whatever_answers_they_come_in() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Served::start(folder.path(), "");
    let with =
        |arguments: &[&str]| pipeline(folder.path(), &[&["--addr", &daemon.url()], arguments].concat());
    let large = |_: Task| async { TaskOutput::json(json!({ "text": "x".repeat(30_000) })) };
    let worker = Worker::new(daemon.url()).id("w1").slots(4).agent("reader", large);
    let worker = tokio::spawn(worker.run_until(std::future::pending::<()>()));
    let phase = |number: usize| v1::Phase {
        name: format!("p{number}"),
        agent: "reader".to_owned(),
        input: Some("{}".to_owned()),
        summary: vec!["text".to_owned()],
        ..v1::Phase::default()
    };
    let asked = v1::Pipeline {
        name: "large".to_owned(),
        product_id: Some("shop".to_owned()),
        phases: (0..PHASES).map(phase).collect(),
        ..v1::Pipeline::default()
    };
    let client = daemon.client().await;
    let mut runs = Vec::new();
    // One more than is shown.
    for _ in 0..=SHOWN {
        runs.push(start(&client, &asked).await);
    }
    for run in &runs {
        let result = client.wait_run(run, Some(PATIENCE)).await.unwrap().unwrap();
        assert_eq!(result.outcome(), v1::RunOutcome::Succeeded);
    }
    let request =
        v1::ListCheckpointsRequest { product_id: "shop".to_owned(), page_size: 20, ..Default::default() };
    let answer = client.list_checkpoints(request).await.unwrap();
    assert!(answer.checkpoints.len() < SHOWN * PHASES, "one answer has no room for them");

    let shown = document(&check(with(&["checkpoints", "--product", "shop", "--json"]), 0, "", ""));
    let shown = shown["checkpoints"].as_array().unwrap();
    let shown: Vec<&str> = shown.iter().map(|at| at["runId"].as_str().unwrap()).collect();
    let newest = runs.iter().rev().take(SHOWN).flat_map(|run| [run.as_str(); PHASES]);
    assert_eq!(shown, newest.collect::<Vec<_>>());
    worker.abort();
}

#[tokio::test]
async fn a_blocked_pipeline_goes_on_with_another_input() {
    let folder = folder();
    let daemon = Served::start(folder.path(), AGENTS);
    let with =
        |arguments: &[&str]| pipeline(folder.path(), &[&["--addr", &daemon.url()], arguments].concat());
    // What is read is what is given.
    std::fs::write(folder.path().join("pipelines/review.toml"), REVIEW.replace("reader", "teller")).unwrap();
    let started = with(&["run", "review", "--input", "title:=7", "--exit-on-question"]);
    check(started, 5, "", "capataz pipeline resume ");
    let resumed = with(&["resume", "latest", "--input", r#"{"title": "the sea"}"#, "--json"]);
    assert!(document(&check(resumed, 0, "", ""))["seq"].is_u64());
    let client = daemon.client().await;
    let run = client.list_runs(v1::ListRunsRequest::default()).await.unwrap().runs.remove(0).run_id;
    let result = client.wait_run(&run, Some(PATIENCE)).await.unwrap().unwrap();
    assert_eq!(result.outcome(), v1::RunOutcome::Succeeded);
    let shown = document(&check(with(&["checkpoints", "latest", "--json"]), 0, "", ""));
    assert_eq!(shown["checkpoints"][0]["payload"], json!({ "title": "the sea" }));
}

/// The second phase is at work when the run goes back: it begins anew, and the first one is not done again.
#[tokio::test]
async fn a_pipeline_at_work_goes_back_to_its_checkpoint() {
    let folder = folder();
    let daemon = Served::start(folder.path(), AGENTS);
    let with =
        |arguments: &[&str]| pipeline(folder.path(), &[&["--addr", &daemon.url()], arguments].concat());
    let (started, mut begun) = tokio::sync::mpsc::channel(8);
    let (finish, finished) = tokio::sync::watch::channel(false);
    let slow = move |_: Task| {
        let (started, mut finished) = (started.clone(), finished.clone());
        async move {
            let _ = started.send(()).await;
            let _ = finished.wait_for(|finished| *finished).await;
            TaskOutput::json(json!({ "told": true }))
        }
    };
    let worker = Worker::new(daemon.url()).id("w1").slots(2).agent("slow", slow);
    let worker = tokio::spawn(worker.run_until(std::future::pending::<()>()));
    let review = REVIEW.replace("\"reader\"", "\"careful\"").replace("\"teller\"", "\"slow\"");
    std::fs::write(folder.path().join("pipelines/review.toml"), review).unwrap();
    // The daemon does not know the agent until the worker has said hello.
    while with(&["run", "review", "--detach"]).output().unwrap().status.code() != Some(0) {
        tokio::task::yield_now().await;
    }
    begun.recv().await.unwrap();
    let statuses = || {
        let shown = document(&check(with(&["checkpoints", "latest", "--json"]), 0, "", ""));
        let of = |place: usize| shown["checkpoints"][place]["status"].as_str().unwrap().to_owned();
        (of(0), of(1), shown["checkpoints"][0].clone())
    };
    let (read, tell, before) = statuses();
    assert_eq!((&*read, &*tell), ("completed", "in_progress"));

    check(with(&["rollback", "latest"]), 0, "goes on from its checkpoint.", "");
    begun.recv().await.unwrap();
    let (read, tell, after) = statuses();
    assert_eq!((&*read, &*tell), ("completed", "in_progress"));
    assert_eq!(after, before, "field by field");
    let back = document(&check(with(&["rollback", "latest", "tell", "--json"]), 0, "", ""));
    assert!(back["seq"].is_u64(), "{back}");
    begun.recv().await.unwrap();
    finish.send_replace(true);
    let client = daemon.client().await;
    let run = client.list_runs(v1::ListRunsRequest::default()).await.unwrap().runs.remove(0).run_id;
    let result = client.wait_run(&run, Some(PATIENCE)).await.unwrap().unwrap();
    assert_eq!(result.outcome(), v1::RunOutcome::Succeeded);
    // It was told three times, and read once.
    let names: Vec<&str> = result.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["read", "tell", "tell.again-2", "tell.again-3"]);
    assert!(begun.try_recv().is_err());
    worker.abort();
}

#[tokio::test]
async fn a_changed_file_changes_no_run() {
    let folder = folder();
    let daemon = Served::start(folder.path(), AGENTS);
    let with =
        |arguments: &[&str]| pipeline(folder.path(), &[&["--addr", &daemon.url()], arguments].concat());
    check(with(&["run", "review", "--exit-on-question"]), 5, "", "capataz pipeline resume ");
    std::fs::write(folder.path().join("pipelines/schemas/title.json"), "true").unwrap();
    std::fs::write(folder.path().join("pipelines/review.toml"), REVIEW.replace("reader", "teller")).unwrap();
    check(with(&["resume", "latest"]), 0, "", "");
    let client = daemon.client().await;
    let run = client.list_runs(v1::ListRunsRequest::default()).await.unwrap().runs.remove(0).run_id;
    // It asks a second time.
    questions(&client, &run, 2).await;
    let shown = document(&check(with(&["checkpoints", "latest", "--json"]), 0, "", ""));
    assert_eq!(shown["checkpoints"][0]["status"], "blocked");
    assert!(shown["checkpoints"][0]["errorMessage"].as_str().unwrap().contains("/title"), "{shown}");
}

#[tokio::test]
async fn a_pipeline_that_succeeds_or_is_aborted_says_so_by_its_exit_code() {
    let folder = folder();
    let daemon = Served::start(folder.path(), AGENTS);
    let with =
        |arguments: &[&str]| pipeline(folder.path(), &[&["--addr", &daemon.url()], arguments].concat());
    let careful = REVIEW.replace("\"reader\"", "\"careful\"").replace("schemas/", "pipelines/schemas/");
    std::fs::write(folder.path().join("careful.toml"), careful).unwrap();
    let run = with(&["run", "careful.toml", "--input", "repo=org/shop", "--product", "mill", "--json"]);
    let ended = document(&check(run, 0, "", ""));
    let checkpoints = ended["result"]["pipeline"]["checkpoints"].as_array().unwrap();
    let told = |key: &str| checkpoints.iter().map(|at| at[key].clone()).collect::<Vec<_>>();
    assert_eq!(told("status"), [json!("completed"), json!("completed")]);
    assert_eq!(told("productId"), [json!("mill"), json!("mill")]);

    let detached = with(&["run", "review", "--detach", "--json"]);
    let run = document(&check(detached, 0, "", ""))["run_id"].as_str().unwrap().to_owned();
    let client = daemon.client().await;
    let question = questions(&client, &run, 1).await.remove(0).question_id;
    let capataz = |arguments: &[&str]| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_capataz"));
        program.args(["--addr", &daemon.url()]).args(arguments).env("LC_ALL", "C");
        program
    };
    check(capataz(&["runs", "resolve", &run, &question, "abort"]), 0, "", "");
    check(capataz(&["runs", "watch", &run]), 1, "run finished: blocked", "");
    check(with(&["run", "review", "--input", "path"]), 2, "", "is not KEY=VALUE");
    check(with(&["run", "review", "--input", "a:={"]), 2, "", "the input a is not JSON");
    check(with(&["run", "review", "--input", "a=1", "--input", "a=2"]), 2, "", "the input a is given twice");
}

/// A worker that is asked for a title gives one only where it is told what was wrong.
#[tokio::test]
async fn a_pipeline_goes_on_after_a_kill_and_no_output_is_asked_for_again() {
    let folder = folder();
    let daemon = Served::start(folder.path(), "");
    let given = Arc::new(Mutex::new(Vec::new()));
    let (started, mut begun) = tokio::sync::mpsc::channel(8);
    let (finish, finished) = tokio::sync::watch::channel(false);
    let reader = {
        let given = Arc::clone(&given);
        move |task: Task| {
            let given = Arc::clone(&given);
            async move {
                let input: Value = task.input_json()?;
                let is_corrected = input["correction"]["violations"][0]["path"] == "/title";
                given.lock().unwrap().push(input);
                TaskOutput::json(if is_corrected {
                    json!({ "title": "the sea" })
                } else {
                    json!({ "title": 7 })
                })
            }
        }
    };
    let teller = move |task: Task| {
        let (started, mut finished) = (started.clone(), finished.clone());
        async move {
            let input: Value = task.input_json()?;
            let _ = started.send(input).await;
            let _ = finished.wait_for(|finished| *finished).await;
            TaskOutput::json(json!({ "told": true }))
        }
    };
    let worker = Worker::new(daemon.url()).id("w1").slots(2).agent("reader", reader).agent("teller", teller);
    let worker = tokio::spawn(worker.run_until(std::future::pending::<()>()));
    let read = |schema: &str| Ok(std::fs::read(folder.path().join("pipelines").join(schema)).unwrap());
    let format = capataz_contracts::pipeline_file::Format::Toml;
    let asked =
        capataz_contracts::pipeline_file::parse_bytes(REVIEW.as_bytes(), format, &mut { read }).unwrap();
    let client = daemon.client().await;
    let run = start(&client, &asked).await;
    let input = begun.recv().await.unwrap();
    assert_eq!(input["phases"], json!({ "read": { "title": "the sea" } }));
    let daemon = daemon.kill_and_start();
    finish.send_replace(true);
    let client = daemon.client().await;
    let result = client.wait_run(&run, Some(PATIENCE)).await.unwrap().unwrap();
    assert_eq!(result.outcome(), v1::RunOutcome::Succeeded);
    assert_eq!(given.lock().unwrap().len(), 2, "it was asked twice, as before the kill");
    assert!(begun.try_recv().is_err(), "the work was begun once");
    worker.abort();
}
