//! Checks that the names in a plan exist (seed 000, contract 1). A run starts only if all of them do.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};

use capataz_contracts::v1;

use crate::codes::{self, Code, owned};
use crate::near::{Effort, Names};

/// The maximum edit distance of a suggestion for an agent, a resource or a task.
const AGENT_DISTANCE: usize = 5;
/// The maximum edit distance of a suggestion for a command.
const COMMAND_DISTANCE: usize = 4;
/// The maximum number of unknown names in one batch that get suggestions.
const MOST_SUGGESTED_FOR: usize = 100;
const COMMAND_PREFIX: &str = "/elsabro:";

/// Returns at most three of `names` within a distance of 5, ignoring case: the nearest first, ties by name.
pub fn suggest_agents(input: &str, names: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<String> {
    suggest(input, names, AGENT_DISTANCE)
}

/// Returns at most three of `names` within a distance of 4, ignoring case and the prefix `/elsabro:` of the input: the
/// nearest first, ties by name.
pub fn suggest_commands(input: &str, names: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<String> {
    suggest(command_name(input), names, COMMAND_DISTANCE)
}

fn suggest(input: &str, names: impl IntoIterator<Item = impl AsRef<str>>, farthest: usize) -> Vec<String> {
    let names: Vec<_> = names.into_iter().collect();
    Names::of(names.iter().map(AsRef::as_ref)).nearest(input, farthest, &mut Effort::default())
}

fn command_name(input: &str) -> &str {
    input.strip_prefix(COMMAND_PREFIX).unwrap_or(input)
}

/// The known names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registry {
    /// The category of each agent, by the agent's name.
    pub agents: BTreeMap<String, String>,
    /// The commands, without the prefix `/elsabro:`.
    pub commands: BTreeSet<String>,
    /// The skills and profiles.
    pub resources: BTreeSet<String>,
}

impl Registry {
    /// Checks all names of a plan. A name that occurs several times counts once.
    pub fn check_all(
        &self,
        agents: impl IntoIterator<Item = impl AsRef<str>>,
        commands: impl IntoIterator<Item = impl AsRef<str>>,
        resources: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Batch {
        self.check_within(&mut Effort::default(), agents, commands, resources)
    }

    /// The same, with so much effort for suggestions.
    fn check_within(
        &self,
        effort: &mut Effort,
        agents: impl IntoIterator<Item = impl AsRef<str>>,
        commands: impl IntoIterator<Item = impl AsRef<str>>,
        resources: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Batch {
        let mut batch = Batch::default();
        // Names are looked at as a whole once, and only where one of them is needed.
        let known = LazyCell::new(|| Names::of(self.agents.keys().map(String::as_str)));
        for name in distinct(agents) {
            let nearest = |name: &str| known.nearest(name, AGENT_DISTANCE, effort);
            let found = self.agents.get(&name).map(|category| Some(category.clone()));
            batch.count(Sort::Agent, name, found, nearest);
        }
        batch.agents = (batch.total, batch.invalid);
        let known = LazyCell::new(|| Names::of(self.commands.iter().map(String::as_str)));
        for name in distinct(commands) {
            let nearest = |name: &str| known.nearest(command_name(name), COMMAND_DISTANCE, effort);
            let found = self.commands.contains(command_name(&name)).then_some(None);
            batch.count(Sort::Command, name, found, nearest);
        }
        let known = LazyCell::new(|| Names::of(self.resources.iter().map(String::as_str)));
        for name in distinct(resources) {
            let nearest = |name: &str| known.nearest(name, AGENT_DISTANCE, effort);
            let found = self.resources.contains(&name).then_some(None);
            batch.count(Sort::Resource, name, found, nearest);
        }
        batch.can_proceed = batch.invalid == 0;
        batch
    }
}

fn distinct(names: impl IntoIterator<Item = impl AsRef<str>>) -> BTreeSet<String> {
    names.into_iter().map(|name| name.as_ref().to_owned()).collect()
}

/// What a plan may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sort {
    Agent,
    Command,
    Resource,
}

impl Sort {
    /// What is said of a name that is not known.
    #[must_use]
    pub fn not_known(self, name: &str) -> String {
        format!("there is no {} {name:?}", self.word())
    }

    /// What it is called, as `NameCheck.kind` says it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Command => "command",
            Self::Resource => "resource",
        }
    }

    /// The code of an unknown one.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::Agent => codes::AGENT_NOT_FOUND,
            Self::Command => codes::COMMAND_NOT_FOUND,
            Self::Resource => codes::RESOURCE_NOT_FOUND,
        }
    }

    const fn suggested_action(self) -> &'static str {
        match self {
            Self::Agent => "correct the agent's name, declare it, or connect a worker that serves it",
            Self::Command => "correct the command's name, or declare it",
            Self::Resource => "correct the resource's name, or declare it",
        }
    }
}

/// A name that was checked.
#[derive(Clone, Debug, PartialEq)]
struct Check {
    sort: &'static str,
    name: String,
    /// Only of an agent.
    category: Option<String>,
    valid: bool,
}

/// The result of checking all names of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// The number of distinct names that were checked.
    pub total: u32,
    pub valid: u32,
    pub invalid: u32,
    /// One error for each unknown name: agents, commands, resources, each group sorted by name. After the first
    /// hundred, and beyond what comparing may take, errors come without suggestions.
    pub details: Vec<v1::Error>,
    pub can_proceed: bool,
    /// The numbers of checked agents and of unknown agents; the latter come first in `details`.
    agents: (u32, u32),
    /// Every name, in the order of `details`: agents, commands, resources.
    checks: Vec<Check>,
}

impl Batch {
    /// Counts a name that was `found`, an agent with its category.
    fn count(
        &mut self,
        sort: Sort,
        name: String,
        found: Option<Option<String>>,
        nearest: impl FnOnce(&str) -> Vec<String>,
    ) {
        self.total += 1;
        if found.is_some() {
            self.valid += 1;
        } else {
            let suggestions =
                if self.details.len() < MOST_SUGGESTED_FOR { nearest(&name) } else { Vec::new() };
            self.details.push(not_found(sort, &name, suggestions));
            self.invalid += 1;
        }
        let valid = found.is_some();
        self.checks.push(Check { sort: sort.word(), name, category: found.flatten(), valid });
    }

    /// The batch as the contract's message, with every name.
    #[must_use]
    pub fn to_proto(&self) -> v1::CheckAgentsResponse {
        let mut errors = self.details.iter();
        let details = self.checks.iter().map(|check| {
            let error = if check.valid { None } else { errors.next() };
            v1::NameCheck {
                kind: check.sort.to_owned(),
                name: check.name.clone(),
                valid: check.valid,
                category: check.category.clone(),
                suggestions: error.map(|error| error.suggestions.clone()).unwrap_or_default(),
                code: error.map(|error| error.code.clone()),
            }
        });
        v1::CheckAgentsResponse {
            total: self.total,
            valid: self.valid,
            invalid: self.invalid,
            details: details.collect(),
            can_proceed: self.can_proceed,
        }
    }

    /// The reason why no run may start, or `None`. A single unknown name gives its own error. Several unknown agents
    /// give AGENTS_VALIDATION_FAILED, with every unknown name in `details`. In all other cases, the first error is
    /// returned, with the others in its `details`.
    #[must_use]
    pub fn error(&self) -> Option<v1::Error> {
        let (first, others) = self.details.split_first()?;
        let (agents, unknown_agents) = self.agents;
        if unknown_agents > 1 {
            return Some(v1::Error {
                details: self.details.clone(),
                ..codes::error(
                    codes::AGENTS_VALIDATION_FAILED,
                    format!("{unknown_agents} of {agents} agents are unknown"),
                )
            });
        }
        Some(v1::Error { details: others.to_vec(), ..first.clone() })
    }
}

fn not_found(sort: Sort, name: &str, suggestions: Vec<String>) -> v1::Error {
    v1::Error {
        options: owned(&["abort"]),
        suggestions,
        suggested_action: Some(sort.suggested_action().to_owned()),
        ..codes::error(sort.code(), sort.not_known(name))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::near::MOST_COMPARED;

    const NOTHING: [&str; 0] = [];

    fn registry() -> Registry {
        let agents = ["elsabro-executor", "elsabro-verifier", "elsabro-analyst", "Explore", "Plan"];
        Registry {
            agents: agents.map(|name| (name.to_owned(), "implementation".to_owned())).into(),
            commands: ["plan", "execute", "verify", "verify-work"].map(str::to_owned).into(),
            resources: ["profile-balanced"].map(str::to_owned).into(),
        }
    }

    // S000-C1-12
    #[test]
    fn the_nearest_names_come_first_and_ties_by_name() {
        #[track_caller]
        fn check(input: &str, names: &[&str], expected: &[&str]) {
            assert_eq!(suggest_agents(input, names), expected, "{input}");
        }
        check("elsabro-executer", &["elsabro-executor", "elsabro-analyst"], &["elsabro-executor"]);
        check("elsabro-nonexistent", &["elsabro-executor", "elsabro-verifier"], &[]);
        check("EXPLORE", &["Explore"], &["Explore"]);
        check("ab", &["ad", "ac", "abcd", "ab", "aa"], &["ab", "aa", "ac"]);
        check("", &["abcde", "abcdef"], &["abcde"]);
        check("año", &["ano"], &["ano"]);
    }

    // S000-C1-09, S000-C1-11
    #[test]
    fn commands_are_compared_without_their_prefix_and_more_strictly() {
        #[track_caller]
        fn check(input: &str, names: &[&str], expected: &[&str]) {
            assert_eq!(suggest_commands(input, names), expected, "{input}");
        }
        check("/elsabro:exeucte", &["execute", "plan"], &["execute"]);
        check("abcde", &["a", "", "abcdefghi", "abcdefghij"], &["a", "abcdefghi"]);
        check("/other:execute", &["execute"], &[]);
    }

    #[test]
    fn very_long_names_get_no_suggestions() {
        let long = "a".repeat(256);
        assert_eq!(suggest_agents(&long, [&long]).len(), 1);
        let longer = "a".repeat(257);
        assert_eq!(suggest_agents(&longer, [&longer]), NOTHING);
    }

    // S000-C1-06, S000-C1-07, S000-C1-08
    #[test]
    fn one_name_is_checked_with_its_own_code() {
        let registry = registry();
        let known = registry.check_all(["Plan"], ["/elsabro:plan", "plan"], ["profile-balanced"]);
        assert_eq!(known.error(), None);

        #[track_caller]
        fn check(error: Option<v1::Error>, code: &str, message: &str, suggestions: &[&str]) {
            let error = error.unwrap_or_default();
            assert_eq!((error.code.as_str(), error.message.as_str()), (code, message));
            assert_eq!(error.suggestions, suggestions);
            assert_eq!((error.severity, error.can_continue), (v1::Severity::Critical as i32, Some(false)));
        }
        let agent = registry.check_all(["plan"], NOTHING, NOTHING).error();
        check(agent, "AGENT_NOT_FOUND", "there is no agent \"plan\"", &["Plan", "Explore"]);
        let command = registry.check_all(NOTHING, ["/elsabro:verfy"], NOTHING).error();
        check(command, "COMMAND_NOT_FOUND", "there is no command \"/elsabro:verfy\"", &["verify"]);
        let resource = registry.check_all(NOTHING, NOTHING, ["profile-balance"]).error();
        check(
            resource,
            "RESOURCE_NOT_FOUND",
            "there is no resource \"profile-balance\"",
            &["profile-balanced"],
        );
    }

    // S000-C1-15
    #[test]
    fn a_batch_of_known_names_can_proceed() {
        let batch =
            registry().check_all(["Plan", "Plan", "Explore"], ["/elsabro:plan"], ["profile-balanced"]);
        assert_eq!((batch.total, batch.valid, batch.invalid, batch.can_proceed), (4, 4, 0, true));
        assert_eq!(batch.error(), None);
    }

    // S000-C1-03
    #[test]
    fn every_name_of_a_batch_is_there_with_what_was_found() {
        let batch = registry().check_all(["x", "Plan"], ["/elsabro:plan", "verfy"], ["profile-balanced"]);
        let checks: Vec<_> = batch.to_proto().details;
        let shown = checks.iter().map(|check| {
            let category = check.category.as_deref();
            (&*check.kind, &*check.name, check.valid, category, check.code.as_deref())
        });
        let expected = [
            ("agent", "Plan", true, Some("implementation"), None),
            ("agent", "x", false, None, Some("AGENT_NOT_FOUND")),
            ("command", "/elsabro:plan", true, None, None),
            ("command", "verfy", false, None, Some("COMMAND_NOT_FOUND")),
            ("resource", "profile-balanced", true, None, None),
        ];
        assert_eq!(shown.collect::<Vec<_>>(), expected);
        assert_eq!(checks[3].suggestions, ["verify"]);
    }

    // S000-C1-13
    #[test]
    fn one_unknown_agent_speaks_for_itself_and_several_are_listed() {
        #[track_caller]
        fn check(agents: &[&str], commands: &[&str], resources: &[&str], code: &str, details: &[&str]) {
            let batch = registry().check_all(agents, commands, resources);
            assert!(!batch.can_proceed);
            let error = batch.error().unwrap_or_default();
            let listed: Vec<_> = error.details.iter().map(|detail| detail.code.as_str()).collect();
            assert_eq!((error.code.as_str(), listed.as_slice()), (code, details));
            assert_eq!((error.severity, error.can_continue), (v1::Severity::Critical as i32, Some(false)));
        }
        let (agent, command, resource) = ("AGENT_NOT_FOUND", "COMMAND_NOT_FOUND", "RESOURCE_NOT_FOUND");
        check(&["Plan", "x", "x"], &[], &[], agent, &[]);
        check(&["x", "y", "Plan"], &[], &[], "AGENTS_VALIDATION_FAILED", &[agent, agent]);
        check(&["x", "y"], &["z"], &[], "AGENTS_VALIDATION_FAILED", &[agent, agent, command]);
        check(&["x"], &["z"], &["q"], agent, &[command, resource]);
        check(&[], &["z", "y"], &[], command, &[command]);
        check(&[], &[], &["z"], resource, &[]);
    }

    // S000-C1-13
    #[test]
    fn the_top_error_of_several_agents_counts_agents_alone() {
        let error = registry().check_all(["x", "y", "Plan"], ["z"], NOTHING).error().unwrap_or_default();
        assert_eq!(error.message, "2 of 3 agents are unknown");
    }

    #[test]
    fn a_batch_lists_every_unknown_name_and_suggests_for_the_first_hundred() {
        let names: Vec<_> = (100..350).map(|number| format!("plan{number}")).collect();
        let batch = registry().check_all(&names, NOTHING, NOTHING);
        assert_eq!(batch.details.len(), 250);
        assert_eq!(batch.details.iter().filter(|detail| !detail.suggestions.is_empty()).count(), 100);
    }

    /// So many names of so many characters, which differ from each other in few places.
    fn alike(count: usize, length: usize) -> impl Iterator<Item = String> {
        (0..count).map(move |number| {
            let number = format!("{number:05}");
            number + &"a".repeat(length - 5)
        })
    }

    fn compared(known: usize, asked: impl Iterator<Item = String>) -> (Batch, usize) {
        let agents = alike(known, 128).map(|name| (name, "utility".to_owned())).collect();
        let registry = Registry { agents, ..Registry::default() };
        let mut effort = Effort::default();
        let batch = registry.check_within(&mut effort, asked, NOTHING, NOTHING);
        (batch, MOST_COMPARED - effort.left)
    }

    #[test]
    fn what_suggestions_take_is_bounded_whatever_is_known_and_asked_for() {
        let asked = || alike(1_000, 127).map(|name| name + "b");
        let (batch, all) = compared(10_000, asked());
        assert_eq!((batch.invalid, all), (1_000, MOST_COMPARED));
        // What is nowhere near takes a few characters of each.
        let (_, unlike) = compared(10_000, asked().take(10).map(|name| name.replace('a', "c")));
        assert!(unlike < 10 * 10_000 * 80, "{unlike}");
        let (_, shorter) = compared(10_000, alike(100, 122));
        assert_eq!(shorter, 0);
    }

    #[test]
    fn one_name_gets_its_suggestions_however_much_is_known() {
        let (batch, compared) = compared(10_000, alike(1, 127).map(|name| name + "b"));
        let nearest: Vec<String> = alike(3, 128).collect();
        assert_eq!(batch.details.first().map(|error| &error.suggestions), Some(&nearest));
        assert!(compared < MOST_COMPARED, "{compared}");
    }

    proptest! {
        // S000-C1-10, S000-C1-12
        #[test]
        fn suggestions_are_near_few_sorted_and_known(
            input in "[a-cA-C-]{0,8}", names in proptest::collection::btree_set("[a-cA-C-]{0,8}", 0..12),
        ) {
            let distance = |name: &String| strsim::levenshtein(&input.to_lowercase(), &name.to_lowercase());
            let suggestions = suggest_agents(&input, &names);
            let keys: Vec<_> = suggestions.iter().map(|name| (distance(name), name.clone())).collect();
            prop_assert!(keys.is_sorted());
            prop_assert!(suggestions.len() <= 3);
            let near = names.iter().filter(|name| distance(name) <= 5).count();
            prop_assert_eq!(suggestions.len(), near.min(3));
            let nearest = names.iter().map(|name| (distance(name), name.clone())).min();
            prop_assert_eq!(keys.first(), nearest.as_ref().filter(|(distance, _)| *distance <= 5));
        }

        // S000-C1-14
        #[test]
        fn a_batch_agrees_with_checks_of_single_names(
            agents in proptest::collection::btree_set("[a-c]{1,2}", 0..6),
            known in proptest::collection::btree_set("[a-c]{1,2}", 0..6),
        ) {
            let known = known.into_iter().map(|name| (name, "utility".to_owned())).collect();
            let registry = Registry { agents: known, ..Registry::default() };
            let batch = registry.check_all(&agents, NOTHING, NOTHING);
            let errors: Vec<_> = agents.iter().filter_map(|name| registry.check_all([name], NOTHING, NOTHING).error()).collect();
            prop_assert_eq!(&batch.details, &errors);
            prop_assert_eq!(batch.total, batch.valid + batch.invalid);
            prop_assert_eq!(batch.can_proceed, batch.error().is_none());
        }
    }
}
