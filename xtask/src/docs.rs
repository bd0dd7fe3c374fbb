//! `cargo xtask docs`: compares the documents with the source.
//!
//! - Every error code of the source has a page under `docs/errors` and is listed there, and every page is about a code.
//! - Every row of `docs/promises.md` names a test, and every named test exists.
//! - Every crate is described in `ARCHITECTURE.md`, which is not too long to be read.
//! - Relative links in Markdown files lead to a file, and to a heading if they name one.
//! - Numbers in documents equal the constants of the source ([`numbers`]).
//! - Paths and `cargo xtask` commands in documents exist ([`places`]).
//! - Every row of the tables in `docs/seeds` has a test at which its id stands ([`seeds`]).
//!
//! The source is read as text: this program links none of the server.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Outcome;
use crate::codegen::project_root;

mod numbers;
mod places;
mod seeds;

const TABLE: &str = "crates/policy/src/codes.rs";
const PAGES: &str = "docs/errors";
const PROMISES: &str = "docs/promises.md";
const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// The most lines of the architecture. Details belong into `docs/internals`.
const ARCHITECTURE_LINES: usize = 250;

/// Source files in which every upper-case text is a code.
const ANSWERS: &[&str] = &["crates/daemon/src/status.rs", "crates/daemon/src/services"];

/// Where errors of the contract are made beside the table.
const MAKERS: &[&str] = &["crates/engine/src", "crates/hosts/src", "crates/shard/src"];

pub fn run() -> Outcome {
    let root = project_root()?;
    let mut problems = Vec::new();
    let codes = codes(&root)?;
    check_pages(&root, &codes, &mut problems)?;
    let tests = check_promises(&root, &mut problems)?;
    check_crates(&root, &mut problems)?;
    let links = check_links(&root, &mut problems)?;
    let numbers = numbers::check(&root, &mut problems)?;
    let paths = places::check_paths(&root, &mut problems)?;
    let commands = places::check_commands(&root, &crate::tasks(), &mut problems)?;
    let rows = seeds::check(&root, &mut problems)?;
    if problems.is_empty() {
        println!(
            "docs: {} codes, {tests} tests of promises, {links} links, {numbers} numbers, {paths} paths, {commands} \
             commands, {} rows of seeds and {} not done yet: no problems",
            codes.len(),
            rows.done,
            rows.not_done
        );
        return Ok(());
    }
    Err(problems.join("\n       ").into())
}

fn codes(root: &Path) -> Result<BTreeSet<String>, std::io::Error> {
    let table = fs::read_to_string(root.join(TABLE))?;
    let mut codes: BTreeSet<String> = table.lines().filter_map(code_of_row).map(str::to_owned).collect();
    for place in ANSWERS {
        for file in files(&root.join(place), "rs")? {
            let source = without_tests(&fs::read_to_string(file)?);
            codes.extend(texts(&source).filter(|text| is_code(text)).map(str::to_owned));
        }
    }
    for place in MAKERS {
        for file in files(&root.join(place), "rs")? {
            if file.components().any(|part| part.as_os_str() == "tests") {
                continue;
            }
            let source = without_tests(&fs::read_to_string(file)?);
            codes.extend(source.lines().filter_map(made_code).map(str::to_owned));
        }
    }
    Ok(codes)
}

/// A row of the table of codes: `NAME: Severity, …, "advice";`.
fn code_of_row(line: &str) -> Option<&str> {
    let (name, rest) = line.trim().split_once(": ")?;
    (is_code(name) && rest.ends_with("\";")).then_some(name)
}

/// A code in `code: "NAME"`, or a constant whose name is its text.
fn made_code(line: &str) -> Option<&str> {
    let text = texts(line).next().filter(|text| is_code(text))?;
    let is_constant = line.contains(&format!("const {text}: &str"));
    (is_constant || line.contains(&format!("code: \"{text}\""))).then_some(text)
}

fn is_code(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_uppercase() || byte == b'_';
    text.len() > 4 && text.bytes().all(allowed) && text.starts_with(|c: char| c.is_ascii_uppercase())
}

/// The texts between double quotes, line by line.
fn texts(source: &str) -> impl Iterator<Item = &str> {
    source
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| line.split('"').skip(1).step_by(2))
}

fn without_tests(source: &str) -> String {
    source.split("#[cfg(test)]").next().unwrap_or_default().to_owned()
}

fn check_pages(
    root: &Path,
    codes: &BTreeSet<String>,
    problems: &mut Vec<String>,
) -> Result<(), std::io::Error> {
    let list = fs::read_to_string(root.join(PAGES).join("README.md")).unwrap_or_default();
    for code in codes {
        let page = format!("{PAGES}/{code}.md");
        match fs::read_to_string(root.join(&page)) {
            Err(_) => problems.push(format!("{page} is missing: every code has a page")),
            Ok(text) if !text.starts_with(&format!("# {code}\n")) => {
                problems.push(format!("{page} does not begin with its code"));
            }
            Ok(_) => {}
        }
        if !list.contains(&format!("({code}.md)")) {
            problems.push(format!("{PAGES}/README.md does not list {code}"));
        }
    }
    for page in files(&root.join(PAGES), "md")? {
        let name = page.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if name != "README" && !codes.contains(&name) {
            problems.push(format!("{PAGES}/{name}.md is not about a code"));
        }
    }
    Ok(())
}

/// Returns how many tests are named.
fn check_promises(root: &Path, problems: &mut Vec<String>) -> Result<usize, std::io::Error> {
    let text = fs::read_to_string(root.join(PROMISES))?;
    let mut count = 0;
    for (index, line) in text.lines().enumerate() {
        let mut named = 0;
        for quoted in line.split('`').skip(1).step_by(2) {
            let Some((file, test)) = quoted.split_once(".rs::") else { continue };
            named += 1;
            let file = format!("{file}.rs");
            let source = fs::read_to_string(root.join(&file)).unwrap_or_default();
            if !source.contains(&format!("fn {test}(")) && !source.contains(&format!("fn {test}<")) {
                problems.push(format!("{PROMISES}:{}: there is no {file}::{test}", index + 1));
            }
        }
        let is_row = line.starts_with("| ") && !line.starts_with("| what fails");
        if is_row && named == 0 {
            problems.push(format!("{PROMISES}:{}: a promise without a test", index + 1));
        }
        count += named;
    }
    Ok(count)
}

fn check_crates(root: &Path, problems: &mut Vec<String>) -> Result<(), std::io::Error> {
    let text = fs::read_to_string(root.join(ARCHITECTURE))?;
    let lines = text.lines().count();
    if lines > ARCHITECTURE_LINES {
        problems.push(format!("{ARCHITECTURE} has {lines} lines, more than {ARCHITECTURE_LINES}"));
    }
    for entry in fs::read_dir(root.join("crates"))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.join("Cargo.toml").is_file() && !text.contains(&format!("`crates/{name}`")) {
            problems.push(format!("{ARCHITECTURE} does not describe crates/{name}"));
        }
    }
    Ok(())
}

/// Returns how many relative links there are.
fn check_links(root: &Path, problems: &mut Vec<String>) -> Result<usize, std::io::Error> {
    let mut count = 0;
    for file in files(root, "md")? {
        let text = fs::read_to_string(&file)?;
        let shown = shown(root, &file);
        for (line, target) in links(&text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            count += 1;
            let (path, heading) = target.split_once('#').unwrap_or((target, ""));
            let folder = file.parent().unwrap_or(root);
            let found = if path.is_empty() { file.clone() } else { folder.join(path) };
            if !found.exists() {
                problems.push(format!("{shown}:{line}: {target} leads nowhere"));
            } else if !heading.is_empty()
                && found.extension().is_some_and(|extension| extension == "md")
                && !headings(&fs::read_to_string(&found)?).contains(heading)
            {
                problems.push(format!("{shown}:{line}: {target} names no heading"));
            }
        }
    }
    Ok(count)
}

fn shown(root: &Path, file: &Path) -> String {
    file.strip_prefix(root).unwrap_or(file).display().to_string()
}

/// The line numbers and targets of `[text](target)`, outside of code.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (index, line) in outside_of_code(text) {
        // Every second part is between backticks.
        for part in line.split('`').step_by(2) {
            let after = part.split("](").skip(1);
            found.extend(after.filter_map(|rest| Some((index + 1, rest.split_once(')')?.0))));
        }
    }
    found
}

fn headings(text: &str) -> BTreeSet<String> {
    let lines = outside_of_code(text).filter_map(|(_, line)| line.strip_prefix('#'));
    let slug = |heading: &str| -> String {
        let kept = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    lines.map(slug).collect()
}

fn outside_of_code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !in_code && !fence
    })
}

/// The files with this extension in a folder, sorted, without hidden folders and build results. For a file, the file
/// itself.
fn files(place: &Path, extension: &str) -> Result<Vec<PathBuf>, std::io::Error> {
    if place.is_file() {
        return Ok(vec![place.to_owned()]);
    }
    let mut found = Vec::new();
    let mut open = vec![place.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with('.') || name == "target" || name == "node_modules" {
                continue;
            }
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_without_a_description_and_a_long_architecture_are_found() {
        let root = tempfile::tempdir().unwrap();
        let package = root.path().join("crates/engine");
        fs::create_dir_all(&package).unwrap();
        fs::write(package.join("Cargo.toml"), "").unwrap();
        let mut problems = Vec::new();
        fs::write(root.path().join(ARCHITECTURE), "### `crates/engine`\n").unwrap();
        check_crates(root.path(), &mut problems).unwrap();
        assert_eq!(problems, Vec::<String>::new());
        fs::write(root.path().join(ARCHITECTURE), "\n".repeat(ARCHITECTURE_LINES + 1)).unwrap();
        check_crates(root.path(), &mut problems).unwrap();
        assert_eq!(
            problems,
            [
                "ARCHITECTURE.md has 251 lines, more than 250",
                "ARCHITECTURE.md does not describe crates/engine"
            ]
        );
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a.md"), "# A title\n[a](#a-title) [b](b.md) [c](a.md#gone)\n").unwrap();
        let mut problems = Vec::new();
        check_links(root.path(), &mut problems).unwrap();
        assert_eq!(problems, ["a.md:2: b.md leads nowhere", "a.md:2: a.md#gone names no heading"]);
    }
}
