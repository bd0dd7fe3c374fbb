//! The profile that comes with the program: the agents and commands of seed 000, contract 1.

use std::collections::BTreeMap;

use capataz_contracts::v1;
use capataz_contracts::v1::agent_service_client::AgentServiceClient;
use capataz_daemon::{Config, DeclaredAgent, Overrides};
use serde_json::Value;

use crate::support::{Harness, code_of, one_wave};

/// Taken from the seed.
const FACTS: &str = include_str!("../../../policy/tests/fixtures/registry.json");

fn words(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

async fn daemon_of_the_profile() -> Harness {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("capataz.toml");
    let profile = concat!(env!("CARGO_MANIFEST_DIR"), "/../../profiles/elsabro.toml");
    std::fs::write(&file, format!("profiles = [{profile:?}]\n")).unwrap();
    let loaded = Config::load(Some(&file), Overrides::default()).unwrap();
    Harness::start_with(|config| {
        config.declared_agents = loaded.declared_agents;
        config.commands = loaded.commands;
    })
    .await
}

// S000-C1-01, S000-C1-02
#[tokio::test]
async fn every_agent_and_command_of_the_seed_is_known_with_its_category() {
    let facts: Value = serde_json::from_str(FACTS).unwrap();
    let mut expected = BTreeMap::new();
    for (category, names) in facts["agents"].as_object().unwrap() {
        expected.extend(words(names).into_iter().map(|name| (name, Some(category.clone()))));
    }
    let commands = words(&facts["commands"]);
    assert_eq!((expected.len(), commands.len()), (18, 27));

    let harness = daemon_of_the_profile().await;
    let mut agents = AgentServiceClient::new(harness.channel.clone());
    let prefixed = commands.iter().map(|command| format!("/elsabro:{command}"));
    let request = v1::CheckAgentsRequest {
        agents: expected.keys().cloned().collect(),
        commands: prefixed.collect(),
        resources: Vec::new(),
    };
    let checked = agents.check_agents(request).await.unwrap().into_inner();
    assert_eq!((checked.total, checked.valid, checked.invalid, checked.can_proceed), (45, 45, 0, true));
    let (of_agents, of_commands): (Vec<_>, Vec<_>) =
        checked.details.into_iter().partition(|check| check.kind == "agent");
    assert_eq!(
        of_agents.into_iter().map(|check| (check.name, check.category)).collect::<BTreeMap<_, _>>(),
        expected
    );
    assert!(of_commands.iter().all(|check| check.valid && check.category.is_none()));
}

// S000-C1-04, S000-CL-02
#[tokio::test]
async fn a_plan_of_the_profile_starts_and_one_with_an_unknown_name_does_not() {
    let harness = daemon_of_the_profile().await;
    harness.start_run(one_wave(&["elsabro-executor", "Explore"])).await;
    let refusal = harness.try_start(one_wave(&["elsabro-executor", "elsabro-executer"])).await.unwrap_err();
    assert_eq!(code_of(&refusal), "AGENT_NOT_FOUND");
    assert!(refusal.message().contains("elsabro-executer"), "{refusal}");
}

#[tokio::test]
async fn a_plan_may_name_the_resources_of_a_profile_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("capataz.toml");
    std::fs::write(folder.path().join("crew.toml"), "resources = [\"staging\"]\n").unwrap();
    std::fs::write(&file, "profiles = [\"crew.toml\"]\nresources = [\"licence\"]\n").unwrap();
    let loaded = Config::load(Some(&file), Overrides::default()).unwrap();
    let harness = Harness::start_with(|config| {
        config.declared_agents = vec![DeclaredAgent::new("known")];
        config.resources = loaded.resources;
    })
    .await;
    let naming = |resources: &[&str]| v1::Plan {
        resources: resources.iter().map(|&name| name.to_owned()).collect(),
        ..one_wave(&["known"])
    };
    harness.start_run(naming(&["staging", "licence"])).await;
    let refusal = harness.try_start(naming(&["stagnig"])).await.unwrap_err();
    assert_eq!(code_of(&refusal), "RESOURCE_NOT_FOUND");
    assert!(format!("{refusal:?}").contains("staging"), "the nearest name is suggested");
}
