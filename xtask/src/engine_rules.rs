//! Two rules of the engine that only its source shows: who may ask of which kind a run is, and what the fold may import.
//! Part of `cargo xtask layers`.

use std::fs;
use std::path::{Path, PathBuf};

/// The files that may match on the kind of a run: where a start is parsed, where a result is shown, and the door to the
/// kinds. The folder of a kind may name its own.
const MAY_MATCH: &[&str] = &[
    "crates/cli/src/commands/fetch.rs",
    "crates/cli/src/commands/runs.rs",
    "crates/contracts/src/validate/request.rs",
    "crates/contracts/src/work.rs",
    "crates/daemon/src/services/starts.rs",
    "crates/engine/src/decide/start.rs",
    "crates/engine/src/fold/upcast/format_1.rs",
    "crates/engine/src/machine/mod.rs",
];

/// The enums whose variants are kinds of runs, and the names under which files import them.
const ENUMS: &[&str] = &["RunKind", "Machine", "Work", "Accepted", "Asked", "Child", "Started", "Ended"];
const KINDS: &[(&str, &str)] = &[("Plan", "plan"), ("Ask", "ask"), ("Script", "script")];

/// The crates of the program. Development programs drive each kind on purpose.
const PROGRAM: &[&str] = &[
    "cli",
    "client",
    "contracts",
    "crew",
    "daemon",
    "disk",
    "display",
    "engine",
    "executor",
    "hosts",
    "judge",
    "policy",
    "router",
    "runtime",
    "shard",
    "store",
];

/// The values of policies that events record and the state keeps. Whatever else `policy` has is a rule.
const VALUES: &[&str] = &[
    "aggregation::AggregationPolicy",
    "aggregation::ResultStatus",
    "aggregation::Tally",
    "aggregation::TaskOutcome",
    "lifecycle::TaskState",
    "retry::RetryPolicy",
    "severity::Severity",
    "timeout::TimeoutPolicy",
];

/// The modules of the engine that decide.
const DECIDES: &[&str] = &["crate::decide", "crate::session", "crate::effect", "crate::query", "crate::view"];

/// The source files of the program, by their paths from the root.
pub fn sources(root: &Path) -> Result<Vec<(String, String)>, std::io::Error> {
    let mut files = Vec::new();
    for name in PROGRAM {
        let mut open = vec![root.join("crates").join(name).join("src")];
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(&folder)? {
                let path: PathBuf = entry?.path();
                if path.is_dir() {
                    open.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let text = fs::read_to_string(&path)?;
                    let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
                    files.push((name, text));
                }
            }
        }
    }
    files.sort();
    Ok(files)
}

/// What is wrong with the files, each problem in a line.
pub fn problems(files: &[(String, String)]) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, text) in files {
        if is_test(name) || name.contains("/generated/") {
            continue;
        }
        problems.extend(kinds_in(name, text));
        if is_fold(name) {
            problems.extend(rules_in(name, text));
        }
    }
    problems
}

/// The number of files that may match on the kind.
pub fn allowed() -> usize {
    MAY_MATCH.len()
}

fn is_test(name: &str) -> bool {
    name.contains("/tests/") || name.ends_with("/tests.rs")
}

/// The fold: its own modules, the plan that it keeps, and each kind's part of the state.
fn is_fold(name: &str) -> bool {
    let Some(inner) = name.strip_prefix("crates/engine/src/") else { return false };
    inner.starts_with("fold/")
        || inner == "plan/mod.rs"
        || inner.starts_with("machine/") && inner.ends_with("/state.rs")
}

fn kinds_in(name: &str, text: &str) -> Vec<String> {
    if MAY_MATCH.contains(&name) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (number, line) in code_lines(text) {
        for of in ENUMS {
            for (kind, folder) in KINDS {
                let own = name.starts_with(&format!("crates/engine/src/machine/{folder}/"));
                let pattern = format!("{of}::{kind}");
                if !own && mentions(line, &pattern) {
                    found.push(format!("{name}:{number} asks of which kind a run is ({pattern})"));
                }
            }
        }
        // Who reads the work of one kind takes it; who only looks whether it is there asks of which kind the run is.
        for (_, kind) in KINDS {
            for question in [format!("{kind}().is_some"), format!("{kind}().is_none"), format!("is_{kind}")] {
                if mentions(line, &question) {
                    found.push(format!("{name}:{number} asks of which kind a run is ({question})"));
                }
            }
        }
    }
    found
}

fn rules_in(name: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in code_lines(text) {
        for imported in line.split("capataz_policy::").skip(1) {
            for path in paths(imported) {
                if !VALUES.contains(&path.as_str()) {
                    found.push(format!("{name}:{number} is part of the fold, and imports the rule {path}"));
                }
            }
        }
        for module in DECIDES {
            if mentions(line, module) {
                found.push(format!("{name}:{number} is part of the fold, and imports {module}"));
            }
        }
    }
    found
}

/// The lines of the code, with their numbers, without comments.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let code = |line: &'_ str| line.split_once("//").map_or(line.len(), |(code, _)| code.len());
    text.lines().enumerate().map(move |(index, line)| (index + 1, &line[..code(line)]))
}

/// Finds a path that neither begins nor ends in the middle of a name.
fn mentions(line: &str, path: &str) -> bool {
    let is_name = |character: Option<char>| character.is_some_and(|it| it.is_alphanumeric() || it == '_');
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + path.len()..].chars().next();
        !is_name(before) && !is_name(after)
    })
}

/// The paths of an import after `capataz_policy::`: one, or those of a list in braces.
fn paths(imported: &str) -> Vec<String> {
    let end = imported.find([';', ' ', '(', ')', ',', '<', '>']).unwrap_or(imported.len());
    match imported.split_once('{') {
        Some((module, rest))
            if module.len() < end || !imported[..end].contains(';') && module.ends_with("::") =>
        {
            let inner = rest.split('}').next().unwrap_or_default();
            inner
                .split(',')
                .map(|item| item.trim().trim_end_matches("::self").trim_end_matches("self"))
                .map(|item| format!("{module}{item}"))
                .collect()
        }
        _ => {
            let whole: Vec<&str> = imported[..end].split("::").take(2).collect();
            vec![whole.join("::")]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, text: &str, expected: &[&str]) {
        let found = problems(&[(name.to_owned(), text.to_owned())]);
        assert_eq!(found, expected);
    }

    #[test]
    fn a_test_of_the_kind_outside_the_list_is_found() {
        check(
            "crates/shard/src/commits.rs",
            "// Machine::Plan in a comment is not code.\nif kind == v1::RunKind::Script {",
            &["crates/shard/src/commits.rs:2 asks of which kind a run is (RunKind::Script)"],
        );
        check(
            "crates/engine/src/machine/ask/mod.rs",
            "Machine::Ask(ask) => 1,\nMachine::Script(script) => 2,",
            &["crates/engine/src/machine/ask/mod.rs:2 asks of which kind a run is (Machine::Script)"],
        );
        check("crates/engine/src/machine/mod.rs", "Machine::Plan(plan) => plan,", &[]);
        check("crates/engine/src/decide/tests/asks.rs", "Work::Ask(ask)", &[]);
        check("crates/hosts/src/host.rs", "let work = OtherWork::Planned;", &[]);
        check(
            "crates/cli/src/watch/lines.rs",
            "if let Some(ask) = accepted.ask() {\nif accepted.ask().is_some() {\nif is_script(run) {",
            &[
                "crates/cli/src/watch/lines.rs:2 asks of which kind a run is (ask().is_some)",
                "crates/cli/src/watch/lines.rs:3 asks of which kind a run is (is_script)",
            ],
        );
    }

    #[test]
    fn a_rule_in_the_fold_is_found() {
        check(
            "crates/engine/src/fold/mod.rs",
            "use capataz_policy::aggregation::{Tally, WaveDecision};\nuse capataz_policy::severity::Severity;",
            &[
                "crates/engine/src/fold/mod.rs:1 is part of the fold, and imports the rule aggregation::WaveDecision",
            ],
        );
        check(
            "crates/engine/src/machine/script/state.rs",
            "use capataz_policy::executor::kind_traits;",
            &[
                "crates/engine/src/machine/script/state.rs:1 is part of the fold, and imports the rule executor::kind_traits",
            ],
        );
        check(
            "crates/engine/src/plan/mod.rs",
            "    crate::decide::call_policies(absent)",
            &["crates/engine/src/plan/mod.rs:1 is part of the fold, and imports crate::decide"],
        );
        check("crates/engine/src/decide/settle.rs", "use capataz_policy::severity::aborts_run;", &[]);
    }

    #[test]
    fn at_most_eight_files_may_match_on_the_kind() {
        assert!(allowed() <= 8);
    }
}
