//! `cargo xtask layers`: checks the direction of dependencies against a committed list.
//!
//! `xtask/layers.txt` lists the project's crates that each crate may depend on, one a line. A new dependency is a
//! difference in this file. The dependency trees of pure crates are searched for runtimes and databases.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value;

use crate::Outcome;
use crate::codegen::project_root;
use crate::engine_rules;

const ALLOWED: &str = "xtask/layers.txt";

/// The pure crates, which decide and have no effects.
const PURE: &[&str] = &[
    "capataz-contracts",
    "capataz-policy",
    "capataz-judge",
    "capataz-engine",
    "capataz-router",
    "capataz-crew",
    "capataz-display",
    "capataz-shard",
];

/// The packages that no pure crate may depend on, directly or indirectly.
const IMPURE: &[&str] = &["tokio", "mio", "rusqlite", "libsqlite3-sys", "hyper", "axum", "reqwest"];

pub fn run() -> Outcome {
    let root = project_root()?;
    let graph = Graph::read()?;
    let allowed = fs::read_to_string(root.join(ALLOWED))?;
    let mut problems = Vec::new();

    let actual = graph.own_edges();
    let written: BTreeSet<&str> =
        allowed.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
    let found: BTreeSet<&str> = actual.iter().map(String::as_str).collect();
    for line in found.difference(&written) {
        problems.push(format!("not in {ALLOWED}: {line}"));
    }
    for line in written.difference(&found) {
        problems.push(format!("only in {ALLOWED}: {line}"));
    }
    for pure in PURE {
        problems.extend(impurities(pure, &tree(pure)?));
    }
    problems.extend(graph.without_lints()?);
    let sources = engine_rules::sources(&root)?;
    problems.extend(engine_rules::problems(&sources));
    if problems.is_empty() {
        println!("layers: {} edges between the project's crates, all of them allowed", found.len());
        println!("layers: {} reach no runtime and no database", PURE.join(", "));
        println!(
            "layers: of {} files {} may match on the kind of a run, and no other one does",
            sources.len(),
            engine_rules::allowed()
        );
        println!("layers: the fold imports no rule");
        return Ok(());
    }
    Err(problems.join("\n       ").into())
}

/// The whole dependency tree of a package, with the features that it asks for itself: one package a line, its name
/// first.
fn tree(package: &str) -> Result<String, Box<dyn std::error::Error>> {
    let arguments = ["tree", "--package", package, "--edges", "normal,build", "--prefix", "none", "--locked"];
    let output = crate::cargo::command().args(arguments).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// What a pure crate must not reach, out of its dependency tree.
fn impurities(pure: &str, tree: &str) -> BTreeSet<String> {
    let reached = tree.lines().filter_map(|line| line.split(' ').next());
    let impure = reached.filter(|name| IMPURE.contains(name));
    impure.map(|name| format!("{pure} is pure, and reaches {name}")).collect()
}

/// The packages and their dependencies.
struct Graph {
    /// The normal and build dependencies, by package name.
    edges: BTreeMap<String, BTreeSet<String>>,
    /// The dependencies of tests alone.
    test_edges: BTreeMap<String, BTreeSet<String>>,
    /// The project's own packages and their manifests.
    own: BTreeMap<String, String>,
}

impl Graph {
    fn read() -> Result<Self, Box<dyn std::error::Error>> {
        // Only default features count, because the stubs of `contracts` are optional.
        let output =
            crate::cargo::command().args(["metadata", "--format-version", "1", "--locked"]).output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        let metadata: Value = serde_json::from_slice(&output.stdout)?;
        let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let members: BTreeSet<&str> = metadata["workspace_members"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let mut names = BTreeMap::new();
        let mut own = BTreeMap::new();
        let mut optional = BTreeSet::new();
        for package in metadata["packages"].as_array().into_iter().flatten() {
            let (id, name) = (text(package, "id"), text(package, "name"));
            if members.contains(id.as_str()) {
                own.insert(name.clone(), text(package, "manifest_path"));
                for dependency in package["dependencies"].as_array().into_iter().flatten() {
                    if dependency["optional"] == Value::Bool(true) {
                        optional.insert((name.clone(), text(dependency, "name")));
                    }
                }
            }
            names.insert(id, name);
        }
        let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut test_edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for node in metadata["resolve"]["nodes"].as_array().into_iter().flatten() {
            let Some(name) = names.get(&text(node, "id")) else { continue };
            for dependency in node["deps"].as_array().into_iter().flatten() {
                let Some(target) = names.get(&text(dependency, "pkg")) else { continue };
                let kinds: Vec<&Value> = dependency["dep_kinds"].as_array().into_iter().flatten().collect();
                let normal = kinds.iter().any(|kind| kind["kind"].as_str() != Some("dev"));
                if optional.contains(&(name.clone(), target.clone())) {
                    continue;
                }
                let list = if normal { &mut edges } else { &mut test_edges };
                list.entry(name.clone()).or_default().insert(target.clone());
            }
        }
        Ok(Self { edges, test_edges, own })
    }

    fn own_edges(&self) -> Vec<String> {
        let lists = [("", &self.edges), (" (tests)", &self.test_edges)];
        let mut lines = Vec::new();
        for (suffix, edges) in lists {
            for name in self.own.keys() {
                for target in
                    edges.get(name).into_iter().flatten().filter(|target| self.own.contains_key(*target))
                {
                    lines.push(format!("{name} -> {target}{suffix}"));
                }
            }
        }
        lines.sort();
        lines
    }

    /// Finds crates that do not inherit the workspace's lints.
    fn without_lints(&self) -> Result<Vec<String>, std::io::Error> {
        let mut problems = Vec::new();
        for (name, manifest) in &self.own {
            if !fs::read_to_string(manifest)?.contains("[lints]\nworkspace = true") {
                problems.push(format!("{name} does not inherit the workspace's lints"));
            }
        }
        Ok(problems)
    }
}

#[cfg(test)]
mod tests {
    use super::{impurities, tree};

    /// A store with its database, as the shard would reach it with one feature more.
    const PLANTED: &str = "capataz-shard v0.1.0 (crates/shard)\nbytes v1.11.0\ncapataz-store v0.1.0 (crates/store)\n\
        rusqlite v0.38.0\nlibsqlite3-sys v0.36.0\ntokio-util v0.7.0\ntokio v1.48.0\nbytes v1.11.0 (*)\n";

    #[test]
    fn a_runtime_and_a_database_in_a_pure_tree_are_found() {
        let found: Vec<String> = impurities("capataz-shard", PLANTED).into_iter().collect();
        let expected = ["libsqlite3-sys", "rusqlite", "tokio"];
        assert_eq!(found, expected.map(|name| format!("capataz-shard is pure, and reaches {name}")));
    }

    #[test]
    fn the_tree_of_a_crate_that_has_effects_is_not_pure() {
        let tree = tree("capataz-runtime").unwrap();
        assert!(tree.starts_with("capataz-runtime "), "{tree}");
        assert_eq!(impurities("capataz-runtime", &tree).len(), 2, "tokio, and mio beneath it");
    }
}
