//! The router without runs: decisions, explanations, the catalogue, and spec files that change.

use std::path::Path;

use capataz_contracts::v1;
use capataz_daemon::{Config, Daemon};
use prost::Message;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::support::asks::{
    AskExt, SpecAgents, answer_to, eventually, request_of, shipped_specs, text, with_specs,
};
use crate::support::{Harness, code_of, data_dir, json as payload, paths_of};

async fn shipped() -> Harness {
    Harness::start_with(|config| config.specs_dir = Some(shipped_specs())).await
}

fn route(text: &str) -> v1::RouteRequest {
    v1::RouteRequest { text: text.to_owned(), ..Default::default() }
}

async fn routed(harness: &Harness, request: v1::RouteRequest) -> v1::Routing {
    harness.router().route(request).await.unwrap().into_inner().routing.unwrap()
}

#[tokio::test]
async fn a_dry_decision_is_that_of_the_ask_and_leaves_nothing_behind() {
    let harness = shipped().await;
    for said in ["Me siento solo y cansado", "Help me to prioritise my tasks", "qwrtz plmnk"] {
        let dry = routed(&harness, route(said)).await;
        let again = routed(&harness, route(said)).await;
        assert_eq!(dry.encode_to_vec(), again.encode_to_vec(), "{said}: the same to the bit");
        let asked = harness.ask(text(said)).await;
        // A refusal may have sent the ask on; the first call is the router's.
        assert_eq!(asked.specs()[0], dry.spec, "{said}");
        if asked.ask.calls.len() == 1 {
            assert_eq!(asked.ask.routing.as_ref(), Some(&dry), "{said}");
        }
    }
    assert_eq!(harness.run_count().await, 3, "the asks, and nothing else");
    for said in ["qwrtz plmnk", "?!…", "7 7 7"] {
        let lost = routed(&harness, route(said)).await;
        assert_eq!(lost.spec, "whispers-of-the-wave", "the default spec");
        assert!(lost.is_fallback && lost.confidence < 0.5, "{lost:?}");
    }
}

#[tokio::test]
async fn a_conversation_counts_as_context() {
    let harness = shipped().await;
    let first = text("Quiero cambiar de carrera").to("kiro-adaptive-assistance").within("s");
    harness.ask(first).await;
    let alone = routed(&harness, route("¿Y cómo empiezo?")).await;
    let within = v1::RouteRequest { session: Some("s".to_owned()), ..route("¿Y cómo empiezo?") };
    let within = routed(&harness, within).await;
    assert_eq!(within.spec, "kiro-adaptive-assistance");
    assert_eq!(alone.confidence_breakdown.unwrap().context, 0.0, "{alone:?}");
    assert!(within.confidence_breakdown.unwrap().context > 0.0, "{within:?}");
    // A session that is not there yet is one without a conversation.
    let nowhere = v1::RouteRequest { session: Some("nobody".to_owned()), ..route("¿Y cómo empiezo?") };
    assert_eq!(routed(&harness, nowhere).await, alone);
}

#[tokio::test]
async fn an_explanation_adds_up_and_says_what_would_have_changed_it() {
    let harness = shipped().await;
    let request = v1::ExplainRequest {
        text: "No sé qué decidir entre dos opciones".to_owned(),
        ..Default::default()
    };
    let explained = harness.router().explain(request.clone()).await.unwrap().into_inner();
    let routing = explained.routing.unwrap();
    assert_eq!(routing, routed(&harness, route(&request.text)).await);
    assert_eq!(explained.specs[0].spec, routing.spec, "the winner comes first");
    assert_eq!(explained.specs[0].confidence.to_bits(), routing.confidence.to_bits());
    assert_eq!(explained.specs.len(), 2);
    for spec in &explained.specs {
        let sum: f64 = spec.terms.iter().map(|term| term.contribution).sum();
        assert!((sum - spec.score).abs() < 1e-6, "{spec:?}");
        assert!(!spec.terms.is_empty());
    }
    assert!(!explained.counterfactuals.is_empty());
    assert_eq!(harness.run_count().await, 0);
}

#[tokio::test]
async fn the_catalogue_can_be_read() {
    let harness = shipped().await;
    let mut router = harness.router();
    let mut request = v1::ListSpecsRequest { page_size: 1, ..v1::ListSpecsRequest::default() };
    let mut specs = Vec::new();
    loop {
        let page = router.list_specs(request.clone()).await.unwrap().into_inner();
        assert_eq!(page.specs.len(), 1);
        specs.extend(page.specs);
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    let all = router.list_specs(v1::ListSpecsRequest::default()).await.unwrap().into_inner();
    assert_eq!((&all.specs, all.next_page_token.as_str()), (&specs, ""));
    let ids: Vec<&str> = specs.iter().map(|spec| spec.id.as_str()).collect();
    assert_eq!(ids, ["kiro-adaptive-assistance", "whispers-of-the-wave"]);
    let defaults: Vec<bool> = specs.iter().map(|spec| spec.is_default).collect();
    assert_eq!(defaults, [false, true]);
    for spec in specs {
        assert_eq!((spec.agent.as_str(), spec.contract_version.as_str()), ("template", "1.0.0"));
        assert_eq!(spec.languages, ["es", "en"]);
        let one = router.get_spec(v1::GetSpecRequest { spec: spec.id.clone() }).await.unwrap();
        assert_eq!(one.into_inner().spec, Some(spec));
    }
    let refusal = router.get_spec(v1::GetSpecRequest { spec: "whispers-of-the-waves".to_owned() }).await;
    let refusal = refusal.unwrap_err();
    assert_eq!((refusal.code(), code_of(&refusal).as_str()), (Code::NotFound, "SPEC_NOT_FOUND"));
    assert!(refusal.message().contains("similar: whispers-of-the-wave"), "{refusal}");
}

const DESK: &str = r#"
id = "desk"
title = "Desk"
languages = ["en"]
contract_version = "1.0.0"
default = true
[[patterns]]
name = "any"
templates.en = ["the desk answers"]
"#;

fn pool(answer: &str) -> String {
    format!(
        "id = \"pool\"\ntitle = \"Pool\"\nlanguages = [\"en\"]\ncontract_version = \"1.0.0\"\n\
         keywords = [\"swimming pool\", \"lifeguard\"]\n[[patterns]]\nname = \"any\"\n\
         templates.en = [\"{answer}\"]\n"
    )
}

struct Files {
    folder: tempfile::TempDir,
    harness: Harness,
}

impl Files {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("desk.toml"), DESK).unwrap();
        let specs_dir = Some(folder.path().to_owned());
        let harness = Harness::start_with(|config| config.specs_dir = specs_dir).await;
        Self { folder, harness }
    }

    fn write(&self, name: &str, content: &str) {
        std::fs::write(self.folder.path().join(name), content).unwrap();
    }

    fn remove(&self, name: &str) {
        std::fs::remove_file(self.folder.path().join(name)).unwrap();
    }

    async fn reload(&self) -> Result<u32, Status> {
        Ok(self.harness.router().reload_specs(v1::ReloadSpecsRequest {}).await?.into_inner().specs)
    }

    async fn ids(&self) -> Vec<String> {
        let listed =
            self.harness.router().list_specs(v1::ListSpecsRequest::default()).await.unwrap().into_inner();
        listed.specs.into_iter().map(|spec| spec.id).collect()
    }

    async fn said(&self, said: &str) -> String {
        self.harness.ask(text(said)).await.text()
    }
}

#[tokio::test]
async fn a_file_that_changes_is_routed_by_without_a_restart() {
    let files = Files::start().await;
    assert_eq!(files.said("where is the swimming pool").await, "the desk answers");
    files.write("pool.toml", &pool("the pool answers"));
    eventually("the new spec answers", || async {
        files.said("where is the swimming pool").await == "the pool answers"
    })
    .await;
    files.write("pool.toml", &pool("the pool answers anew"));
    eventually("the changed spec answers", || async {
        files.said("where is the swimming pool").await == "the pool answers anew"
    })
    .await;
    files.remove("pool.toml");
    eventually("the spec is gone", || async { files.ids().await == ["desk"] }).await;
    assert_eq!(files.said("where is the swimming pool").await, "the desk answers");
}

#[tokio::test]
async fn an_invalid_file_changes_nothing_and_is_named_with_line_and_key() {
    let files = Files::start().await;
    files.write("pool.toml", &pool("the pool answers"));
    assert_eq!(files.reload().await.unwrap(), 2);
    // Of two files, one has become better and one is broken: neither counts.
    files.write("desk.toml", &DESK.replace("the desk answers", "the desk answers anew"));
    files.write("pool.toml", &pool("never").replace("keywords", "keyword"));
    let refusal = files.reload().await.unwrap_err();
    assert_eq!(refusal.code(), Code::FailedPrecondition, "{refusal}");
    assert_eq!(code_of(&refusal), "SPEC_FILE_INVALID");
    let place = format!("{}:5:1", files.folder.path().join("pool.toml").display());
    assert_eq!(paths_of(&refusal), [place]);
    let details = refusal.get_error_details();
    let told = &details.bad_request().unwrap().field_violations[0].description;
    assert!(told.starts_with("keyword: ") && told.ends_with("(UNKNOWN_KEY)"), "{told}");
    assert_eq!(files.said("hello").await, "the desk answers");
    assert_eq!(files.said("where is the swimming pool").await, "the pool answers");
    // What is put right counts, and the other file with it.
    files.write("pool.toml", &pool("the pool is back"));
    eventually("both files count", || async {
        files.said("hello").await == "the desk answers anew"
            && files.said("where is the swimming pool").await == "the pool is back"
    })
    .await;
}

#[tokio::test]
async fn every_error_of_every_file_is_told_and_a_folder_that_is_gone_changes_nothing() {
    let files = Files::start().await;
    files.write("a.toml", "id = \n");
    files.write("b.toml", &DESK.replace("\"desk\"", "\"other\""));
    files.write("c.toml", &DESK.replace("default = true", ""));
    files.write("d.toml", &pool("x").replace("keywords", "colour = \"red\"\nkeywords"));
    let refusal = files.reload().await.unwrap_err();
    let details = refusal.get_error_details();
    let told = details.bad_request().unwrap().field_violations.iter();
    let told: Vec<String> = told.map(|violation| format!("{violation:?}")).collect();
    for (file, code) in [
        ("a.toml", "SYNTAX"),
        ("b.toml", "SECOND_DEFAULT"),
        ("c.toml", "DUPLICATE_ID"),
        ("d.toml", "UNKNOWN_KEY"),
    ] {
        let named = told.iter().any(|told| told.contains(file) && told.contains(code))
            || (code != "SYNTAX" && told.iter().any(|told| told.contains(code)));
        assert!(named, "{file} {code} in {told:#?}");
    }
    std::fs::remove_dir_all(files.folder.path()).unwrap();
    assert!(files.reload().await.is_err());
    assert_eq!(files.ids().await, ["desk"]);
    assert_eq!(files.said("hello").await, "the desk answers");
}

#[tokio::test]
async fn a_session_whose_spec_vanishes_is_routed_anew() {
    let files = Files::start().await;
    files.write("pool.toml", &pool("the pool answers"));
    files.reload().await.unwrap();
    let harness = &files.harness;
    let asked = harness.ask(text("the lifeguard, please").within("s")).await;
    assert_eq!(asked.specs(), ["pool"]);
    files.remove("pool.toml");
    assert_eq!(files.reload().await.unwrap(), 1);
    let asked = harness.ask(text("are you there").within("s")).await;
    assert_eq!((asked.specs(), asked.reasons()), (vec!["desk"], vec![v1::CallReason::Routed]));
    // The default spec holds nothing, so that the next message is routed afresh as well.
    let asked = harness.ask(text("and now").within("s")).await;
    assert_eq!((asked.specs(), asked.reasons()), (vec!["desk"], vec![v1::CallReason::Routed]));
}

#[tokio::test]
async fn a_spec_that_vanishes_while_it_works_answers_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("desk.toml"), DESK).unwrap();
    let own = pool("unused").replace("keywords", "agent = \"attendant\"\nkeywords");
    std::fs::write(folder.path().join("pool.toml"), own).unwrap();
    let specs_dir = Some(folder.path().to_owned());
    let harness = Harness::start_with(|config| config.specs_dir = specs_dir).await;
    let mut worker = harness.worker("w1", &["attendant"]).await;
    let run = harness.begin(text("the lifeguard, please").within("s")).await;
    let assigned = worker.assignment().await;
    let waiting = harness.begin(text("and where is the sun").within("s")).await;
    std::fs::remove_file(folder.path().join("pool.toml")).unwrap();
    harness.router().reload_specs(v1::ReloadSpecsRequest {}).await.unwrap();
    let answer = answer_to(&request_of(&assigned), "on my way");
    worker.complete(&assigned.lease, payload(answer)).await;
    assert_eq!(harness.ended(&run).await.text(), "on my way");
    assert_eq!(harness.ended(&waiting).await.text(), "the desk answers");
}

#[tokio::test]
async fn in_a_held_session_route_explain_and_the_answer_say_both_who_answers_and_whom_the_router_would_choose()
 {
    let harness = Harness::start_with(|config| config.specs_dir = Some(shipped_specs())).await;
    let said = "Me siento muy perdida y triste, necesito que alguien me escuche";
    let (kiro, whispers) = ("kiro-adaptive-assistance", "whispers-of-the-wave");
    let route = |session: Option<&str>| v1::RouteRequest {
        text: said.to_owned(),
        session: session.map(str::to_owned),
        ..v1::RouteRequest::default()
    };
    let free = harness.router().route(route(None)).await.unwrap().into_inner().routing.unwrap();
    assert_eq!((free.spec.as_str(), free.alone), (whispers, None), "nobody holds it");
    assert_eq!(free.language, "es");
    harness.ask(text("Ayúdame a decidir entre dos ofertas de trabajo").to(kiro).within("s")).await;
    let held = harness.router().route(route(Some("s"))).await.unwrap().into_inner().routing.unwrap();
    let alone = held.alone.unwrap();
    assert_eq!((held.spec.as_str(), alone.spec.as_str()), (kiro, whispers));
    assert!(alone.confidence >= 0.6 && held.confidence < alone.confidence, "{alone:?}");
    let request = v1::ExplainRequest {
        text: said.to_owned(),
        session: Some("s".to_owned()),
        ..v1::ExplainRequest::default()
    };
    let explained = harness.router().explain(request).await.unwrap().into_inner();
    let routing = explained.routing.unwrap();
    assert_eq!((routing.spec.as_str(), routing.alone.unwrap()), (kiro, alone.clone()));
    assert_eq!(explained.specs[0].spec, whispers, "the sums are the router's");
    let asked = harness.ask(text(said).within("s")).await;
    assert_eq!((asked.specs(), asked.reasons()), (vec![kiro], vec![v1::CallReason::Continued]));
    let offered = asked.transition();
    assert!(offered.by_router, "{offered:?}");
    assert_eq!((offered.to.as_str(), offered.verdict()), (whispers, v1::TransitionVerdict::Suggested));
    assert_eq!(harness.accept("s", &asked.ask.request_id).await.unwrap().to, whispers);
}

#[tokio::test]
async fn a_suggestion_of_a_spec_that_does_not_exist_is_recorded_and_not_offered() {
    let harness = Harness::start_with(with_specs(&["home"])).await;
    let _agents = SpecAgents::start(&harness, &["home"], |request| {
        let answer = answer_to(request, "here");
        crate::support::asks::Does::Says(crate::support::asks::transition(answer, "gone", 0.9, false))
    })
    .await;
    let asked = harness.ask(text("hello").to("home").within("s")).await;
    let transition = asked.transition();
    assert_eq!(transition.verdict(), v1::TransitionVerdict::Ignored);
    assert!(transition.note.contains("gone"), "{transition:?}");
    assert_eq!(harness.session("s").await.suggestions, []);
    let refusal = harness.accept("s", &asked.ask.request_id).await.unwrap_err();
    assert_eq!(code_of(&refusal), "TRANSITION_NOT_FOUND");
    assert_eq!(harness.current_spec("s").await.as_deref(), Some("home"));
}

#[tokio::test]
async fn a_suggestion_of_a_spec_that_has_vanished_since_cannot_be_accepted() {
    let files = Files::start().await;
    files.write("pool.toml", &pool("the pool answers"));
    let own =
        DESK.replace("id = \"desk\"", "id = \"porter\"\nagent = \"porter\"").replace("default = true", "");
    files.write("porter.toml", &own);
    files.reload().await.unwrap();
    let harness = &files.harness;
    let mut worker = harness.worker("w1", &["porter"]).await;
    let suggested = async |worker: &mut crate::support::Worker, session: &str| {
        let run = harness.begin(text("hello").to("porter").within(session)).await;
        let assigned = worker.assignment().await;
        let answer = answer_to(&request_of(&assigned), "ask at the pool");
        let answer = crate::support::asks::transition(answer, "pool", 0.7, false);
        worker.complete(&assigned.lease, payload(answer)).await;
        harness.ended(&run).await.ask.request_id
    };
    let accepted = suggested(&mut worker, "s").await;
    harness.accept("s", &accepted).await.unwrap();
    let open = suggested(&mut worker, "t").await;
    files.remove("pool.toml");
    files.reload().await.unwrap();
    let refusal = harness.accept("t", &open).await.unwrap_err();
    assert_eq!(code_of(&refusal), "SPEC_NOT_FOUND", "{refusal}");
    assert_eq!(harness.current_spec("t").await.as_deref(), Some("porter"), "nothing has changed");
    harness.accept("s", &accepted).await.expect("what was accepted before stays accepted");
}

#[tokio::test]
async fn a_daemon_does_not_start_with_an_invalid_spec() {
    let folder = tempfile::tempdir().unwrap();
    let specs = folder.path().join("specs");
    std::fs::create_dir(&specs).unwrap();
    std::fs::write(specs.join("desk.toml"), DESK.replace("title", "titel")).unwrap();
    let error = start_with(&folder, &specs).await.unwrap_err();
    let told = format!("{:?}", error.to_string()) + &source_of(&error);
    assert!(told.contains("desk.toml:3:1: titel: "), "{told}");
    assert!(told.contains("MISSING_KEY"), "all of it is told: {told}");
    std::fs::write(specs.join("desk.toml"), DESK).unwrap();
    start_with(&folder, &specs).await.expect("the data folder is free again").shutdown().await;
    assert!(start_with(&folder, &folder.path().join("nowhere")).await.is_err());
}

async fn start_with(folder: &tempfile::TempDir, specs: &Path) -> Result<Daemon, capataz_daemon::DaemonError> {
    let mut config = Config::embedded(data_dir(folder));
    config.specs_dir = Some(specs.to_owned());
    Daemon::start(config).await
}

fn source_of(error: &dyn std::error::Error) -> String {
    error.source().map(ToString::to_string).unwrap_or_default()
}
