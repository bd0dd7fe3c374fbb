//! Profiles: files that declare the agents, commands and resources of one crew (seed 000, contract 1).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::document::Document;
use super::{Config, DeclaredAgent, Problem, text, told};

/// Bytes of a profile.
const PROFILE_BYTES: u64 = 4 * 1024 * 1024;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Profile {
    #[serde(default)]
    agents: Vec<DeclaredAgent>,
    #[serde(default)]
    commands: Vec<String>,
    #[serde(default)]
    resources: Vec<String>,
}

/// Adds what the profiles declare, and returns what is wrong with them; `named` gives a problem of a path of the configuration
/// its place there, if it is to be told. What the configuration says of an agent itself stands; an agent with a command and
/// without a category has that of its profile.
pub(super) fn add(
    config: &mut Config,
    files: &[PathBuf],
    named: impl Fn(&str) -> Option<Problem>,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut declared: Vec<(DeclaredAgent, &Path)> = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let name = file.display().to_string();
        let text = match text::read(file, PROFILE_BYTES) {
            Ok(text) => text,
            Err(error) => {
                problems.extend(named(&format!("profiles[{index}]: {name}: {error}")));
                continue;
            }
        };
        let mut part = match Document::parse(name, &text) {
            Ok(document) => document.read_what_can_be::<Profile>(),
            Err(found) => {
                problems.extend(found);
                continue;
            }
        };
        problems.append(&mut part.problems);
        let Some(profile) = part.value.take() else { continue };
        let names = profile.agents.iter().map(|agent| &agent.name);
        let mut found = wrong(&profile.agents, config);
        found.extend(
            twice(names).map(|(index, name)| format!("agents[{index}].name: {name:?} is there twice")),
        );
        for (key, names) in [("commands", &profile.commands), ("resources", &profile.resources)] {
            found
                .extend(twice(names).map(|(index, name)| format!("{key}[{index}]: {name:?} is there twice")));
        }
        for (index, agent) in profile.agents.into_iter().enumerate() {
            // Nobody knows what is said of it.
            if part.is_of_a_gap(&format!("agents[{index}]")) {
                continue;
            }
            match declared.iter().find(|(other, _)| other.name == agent.name) {
                Some((other, before)) if other.contract_version != agent.contract_version => {
                    found.push(format!(
                        "agents[{index}].contract_version: {:?} speaks contract {:?}, and {:?} in {}",
                        agent.name,
                        agent.contract_version,
                        other.contract_version,
                        before.display(),
                    ));
                }
                Some((other, before)) if other.category != agent.category => found.push(format!(
                    "agents[{index}].category: {:?} has the category {:?}, and {:?} in {}",
                    agent.name,
                    agent.category,
                    other.category,
                    before.display(),
                )),
                // Of one file it is told that the name is there twice.
                Some((other, before)) if *other != agent && *before != file => found.push(format!(
                    "agents[{index}]: {:?} is another agent than in {}",
                    agent.name,
                    before.display(),
                )),
                Some(_) => {}
                None => declared.push((agent, file)),
            }
        }
        found.retain(|problem| !part.is_of_a_gap(problem));
        problems.extend(told(&found, |problem| part.placed(problem)));
        config.commands.extend(profile.commands);
        config.resources.extend(profile.resources);
    }
    for (agent, _) in declared {
        if let Some(own) = config.agents.iter_mut().find(|own| own.name == agent.name) {
            if own.category.is_empty() {
                own.category = agent.category;
            }
        } else if config.declared_agents.iter().all(|own| own.name != agent.name) {
            config.declared_agents.push(agent);
        }
    }
    problems
}

/// What is wrong with the agents of a profile, whatever else there is, each with its path.
fn wrong(agents: &[DeclaredAgent], config: &Config) -> Vec<String> {
    let [_, _, planners, models] = config.named();
    let others: BTreeSet<&str> = planners.1.into_iter().chain(models.1).collect();
    let wrong = agents.iter().enumerate().flat_map(|(index, agent)| {
        let name = &*agent.name;
        let mut problems = agent.check();
        if crate::built_in(name) {
            problems.push(format!("name: {name:?} is a built-in agent; choose another name"));
        } else if others.contains(name) && !name.is_empty() {
            problems.push(format!("name: {name:?} is a planner or a model of the configuration"));
        }
        problems.into_iter().map(move |problem| format!("agents[{index}].{problem}"))
    });
    wrong.collect()
}

/// The names that a file declares once more, each with its place.
fn twice<'n>(names: impl IntoIterator<Item = &'n String>) -> impl Iterator<Item = (usize, &'n String)> {
    let mut seen = BTreeSet::new();
    names.into_iter().enumerate().filter(move |(_, name)| !seen.insert(*name))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::config::Overrides;

    /// A configuration of these lines beside a profile `crew.toml`, and one `other.toml`.
    fn load(config: &str, crew: &str, other: &str) -> Result<Config, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("capataz.toml");
        fs::write(&file, config).unwrap();
        fs::write(folder.path().join("crew.toml"), crew).unwrap();
        fs::write(folder.path().join("other.toml"), other).unwrap();
        let loaded = Config::load(Some(&file), Overrides::default());
        loaded.map_err(|error| error.to_string().replace(&format!("{}/", folder.path().display()), ""))
    }

    const CREW: &str =
        "commands = [\"plan\"]\n[[agents]]\nname = \"a\"\ncategory = \"one\"\n[[agents]]\nname = \"b\"\n";

    #[test]
    fn a_profile_beside_the_configuration_declares_agents_commands_and_resources() {
        let config = "profiles = [\"crew.toml\", \"other.toml\"]\ncommands = [\"test\"]\n";
        let other = "resources = [\"r\"]\n[[agents]]\nname = \"a\"\ncategory = \"one\"\n";
        let loaded = load(config, CREW, other).unwrap();
        let agent = |name: &str, category: &str| DeclaredAgent::new(name).in_category(category);
        assert_eq!(loaded.declared_agents, [agent("a", "one"), agent("b", "")]);
        assert_eq!(
            (loaded.commands, loaded.resources),
            (vec!["test".into(), "plan".into()], vec!["r".into()])
        );
    }

    #[test]
    fn what_the_configuration_says_itself_stands() {
        let config = "profiles = [\"crew.toml\"]\n[[agents]]\nname = \"a\"\ncommand = [\"true\"]\n\
                      [[declared_agents]]\nname = \"b\"\ncategory = \"own\"\n";
        let loaded = load(config, CREW, "").unwrap();
        assert_eq!(loaded.agents[0].category, "one");
        assert_eq!(loaded.declared_agents.iter().map(|agent| &*agent.category).collect::<Vec<_>>(), ["own"]);
    }

    #[test]
    fn the_contract_that_an_agent_speaks_is_a_semantic_version() {
        let config = "[[agents]]\nname = \"a\"\ncommand = [\"true\"]\ncontract_version = \"2.1.0\"\n\
                      [[declared_agents]]\nname = \"b\"\ncontract_version = \"1.4.0\"\n\
                      [[declared_agents]]\nname = \"c\"\n";
        let loaded = load(config, "", "").unwrap();
        assert_eq!(loaded.agents[0].contract_version, "2.1.0");
        let versions: Vec<&str> =
            loaded.declared_agents.iter().map(|agent| agent.contract_version.as_str()).collect();
        assert_eq!(versions, ["1.4.0", "1.0.0"]);
        let problems = load(&config.replace("1.4.0", "1.4").replace("2.1.0", "two"), "", "").unwrap_err();
        for place in [": agents[0].contract_version: ", ": declared_agents[0].contract_version: "] {
            assert!(problems.contains(place), "{problems}");
        }
    }

    #[test]
    fn all_that_is_wrong_with_profiles_is_told_at_once_with_its_file() {
        let config = "listen = \"0.0.0.0:1\"\nprofiles = [\"crew.toml\", \"other.toml\", \"absent.toml\"]\n";
        let other = "commands = [\"x\", \"x\"]\n[[agents]]\nname = \"a\"\ncategory = \"two\"\n";
        let twice = format!("{CREW}[[agents]]\nname = \"b\"\n");
        let problems = load(config, &twice, other).unwrap_err();
        let lines: Vec<&str> = problems.lines().collect();
        let expected = [
            "capataz.toml:2:40: profiles[2]: absent.toml: No such file or directory (os error 2)",
            "crew.toml:8:1: agents[2].name: \"b\" is there twice",
            "other.toml:1:18: commands[1]: \"x\" is there twice",
            "other.toml:4:1: agents[0].category: \"a\" has the category \"two\", and \"one\" in crew.toml",
        ];
        assert!(lines[0].starts_with("capataz.toml:1:1: listen: "), "{problems}");
        assert_eq!(lines[1..], expected);
    }

    #[test]
    fn an_agent_of_two_profiles_is_one_agent_in_both() {
        let described = "[[agents]]\nname = \"a\"\ncategory = \"one\"\ndescription = \"another\"\n";
        let problems = load("profiles = [\"crew.toml\", \"other.toml\"]\n", CREW, described).unwrap_err();
        assert_eq!(problems.trim(), "other.toml:1:1: agents[0]: \"a\" is another agent than in crew.toml");
    }

    #[test]
    fn a_key_that_no_profile_has_is_refused_with_its_line() {
        let problems =
            load("profiles = [\"crew.toml\"]", "[[agents]]\nname = \"a\"\ncommand = [\"a\"]\n", "");
        let problems = problems.unwrap_err();
        assert_eq!(
            problems,
            "crew.toml:3:1: agents[0].command: unknown key; known are name, category, kind, description, \
             input_schema, undoable, needs_approval, contract_version"
        );
    }
}
