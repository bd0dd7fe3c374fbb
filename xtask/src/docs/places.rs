//! Paths and commands in documents: each has to exist.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::ARCHITECTURE;

/// The beginnings of paths of the repository, as documents and comments write them.
const FOLDERS: [&str; 12] = [
    "crates/",
    "docs/",
    "examples/",
    "fuzz/",
    "proto/",
    "profiles/",
    "schemas/",
    "specs/",
    "xtask/",
    "xtask/src/",
    ".config/",
    ".ci/",
];

const COMMAND: &str = "cargo xtask ";
const CONTRIBUTING: &str = "CONTRIBUTING.md";

/// Checks paths between backticks in documents, and paths with an extension in comments. Returns how many there are.
pub(super) fn check_paths(root: &Path, problems: &mut Vec<String>) -> Result<usize, io::Error> {
    let mut count = 0;
    for file in super::files(root, "md")? {
        let text = fs::read_to_string(&file)?;
        let shown = super::shown(root, &file);
        let mut section = None;
        for (index, line) in super::outside_of_code(&text) {
            if line.starts_with('#') {
                section = line.split('`').nth(1).filter(|path| path.starts_with("crates/"));
            }
            for quoted in line.split('`').skip(1).step_by(2) {
                let found = match (path(quoted), section) {
                    (Some(path), _) => root.join(path),
                    (None, Some(folder)) if shown == ARCHITECTURE && is_source(quoted) => {
                        root.join(folder).join(quoted)
                    }
                    _ => continue,
                };
                count += 1;
                if !found.exists() {
                    problems.push(format!("{shown}:{}: there is no {quoted}", index + 1));
                }
            }
        }
    }
    for folder in ["crates", "xtask"] {
        for file in super::files(&root.join(folder), "rs")? {
            let text = fs::read_to_string(&file)?;
            for (index, comment) in comments(&text) {
                for named in comment.split([' ', '`', '(', ')', ',', ';']).filter_map(path) {
                    if Path::new(named).extension().is_none_or(|extension| extension.len() > 5) {
                        continue;
                    }
                    count += 1;
                    if !root.join(named).exists() && !package(root, &file).join(named).exists() {
                        problems.push(format!(
                            "{}:{}: there is no {named}",
                            super::shown(root, &file),
                            index + 1
                        ));
                    }
                }
            }
        }
    }
    Ok(count)
}

/// The folder of the package that `file` belongs to. Comments may name files relative to it.
fn package(root: &Path, file: &Path) -> PathBuf {
    file.ancestors().find(|folder| folder.join("Cargo.toml").is_file()).unwrap_or(root).to_owned()
}

/// The path in `text`, if it is one of the repository and not a pattern such as `crates/<x>` or `docs/*.md`.
fn path(text: &str) -> Option<&str> {
    let path = text.split("::").next().unwrap_or(text).trim_end_matches(['.', ':']);
    let allowed = |character: char| character.is_alphanumeric() || matches!(character, '/' | '.' | '_' | '-');
    let is_path = FOLDERS.iter().any(|folder| path.starts_with(folder)) && path.chars().all(allowed);
    is_path.then_some(path)
}

/// Returns whether a crate's section of the architecture names a source file or folder of the crate.
fn is_source(text: &str) -> bool {
    let allowed = |character: char| character.is_alphanumeric() || matches!(character, '/' | '.' | '_');
    text.starts_with("src/") && text.chars().all(allowed)
}

/// The lines of comments with their indices. Constants with planted text are not comments, and are not read.
fn comments(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter_map(|(index, line)| Some((index, line.trim_start().strip_prefix("//")?)))
}

/// Checks that every `cargo xtask` command in a document exists, and that the contributing guide names every command.
/// Returns how many are named.
pub(super) fn check_commands(
    root: &Path,
    tasks: &BTreeSet<String>,
    problems: &mut Vec<String>,
) -> Result<usize, io::Error> {
    let mut count = 0;
    for file in super::files(root, "md")? {
        let text = fs::read_to_string(&file)?;
        for (index, line) in text.lines().enumerate() {
            for task in line.split(COMMAND).skip(1).filter_map(task) {
                count += 1;
                if !tasks.contains(task) {
                    problems.push(format!(
                        "{}:{}: there is no task {task}",
                        super::shown(root, &file),
                        index + 1
                    ));
                }
            }
        }
    }
    let guide = fs::read_to_string(root.join(CONTRIBUTING))?;
    let named: BTreeSet<&str> =
        guide.lines().flat_map(|line| line.split(COMMAND).skip(1).filter_map(task)).collect();
    for task in tasks.iter().filter(|task| !named.contains(task.as_str())) {
        problems.push(format!("{CONTRIBUTING} does not describe `{COMMAND}{task}`"));
    }
    Ok(count)
}

/// The name of a task at the beginning of `text`; placeholders such as `NAME` are left out.
fn task(text: &str) -> Option<&str> {
    let end = text
        .find(|character: char| !character.is_ascii_lowercase() && character != '-')
        .unwrap_or(text.len());
    text.get(..end).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for folder in ["crates/engine/src", "xtask/src"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        fs::write(root.path().join("crates/engine/src/lib.rs"), "").unwrap();
        for (name, text) in files {
            fs::write(root.path().join(name), text).unwrap();
        }
        root
    }

    #[track_caller]
    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let root = repository(files);
        let mut problems = Vec::new();
        check_paths(root.path(), &mut problems).unwrap();
        assert_eq!(problems, expected);
    }

    #[test]
    fn paths_that_exist_have_no_problem() {
        check(
            &[(
                "a.md",
                "`crates/engine/src/lib.rs::name`, `crates/<x>`, `docs/*.md`, `src/gone.rs`\n```\n`crates/no`\n```",
            )],
            &[],
        );
        check(&[("crates/engine/src/lib.rs", "//! See `crates/engine/src/lib.rs`.")], &[]);
    }

    #[test]
    fn a_path_that_is_gone_is_found() {
        check(
            &[("a.md", "\nsee `crates/engine/src/gone.rs`")],
            &["a.md:2: there is no crates/engine/src/gone.rs"],
        );
        check(
            &[("crates/engine/src/lib.rs", "//! In docs/gone.md.\n")],
            &["crates/engine/src/lib.rs:1: there is no docs/gone.md"],
        );
    }

    #[test]
    fn the_architecture_names_files_relative_to_the_crate() {
        let section = |name| format!("### `crates/engine`\n\nBegin with `src/{name}`.\n");
        check(&[("ARCHITECTURE.md", &section("lib.rs"))], &[]);
        check(&[("ARCHITECTURE.md", &section("gone.rs"))], &["ARCHITECTURE.md:3: there is no src/gone.rs"]);
    }

    #[test]
    fn a_command_that_is_gone_or_not_described_is_found() {
        let tasks = BTreeSet::from(["docs".to_owned(), "test".to_owned()]);
        let root = repository(&[
            ("CONTRIBUTING.md", "`cargo xtask test`, `cargo xtask NAME`"),
            ("README.md", "```sh\ncargo xtask dance --now\n```"),
        ]);
        let mut problems = Vec::new();
        check_commands(root.path(), &tasks, &mut problems).unwrap();
        assert_eq!(
            problems,
            ["README.md:2: there is no task dance", "CONTRIBUTING.md does not describe `cargo xtask docs`"]
        );
    }
}
