//! `cargo xtask docs`: what the documents name has to be there, and what is there has to be named.
//!
//! - Every error code of the source has a page under `docs/errors`, in its list, and every page is that of a code.
//! - Every row of `docs/promises.md` names a test, and every test that it names exists.
//! - Every crate is described in `ARCHITECTURE.md`.
//! - Relative links in Markdown files lead to a file, and to a heading where they name one.
//!
//! The source is read as text: this program links none of the server.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Outcome;
use crate::codegen::project_root;

const TABLE: &str = "crates/policy/src/codes.rs";
const PAGES: &str = "docs/errors";
const PROMISES: &str = "docs/promises.md";
const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// Whose upper-case texts are codes, each and every one.
const ANSWERS: &[&str] = &["crates/daemon/src/status.rs", "crates/daemon/src/services"];

/// Where errors of the contract are made beside the table.
const MAKERS: &[&str] = &["crates/engine/src", "crates/hosts/src", "crates/runtime/src"];

pub fn run() -> Outcome {
    let root = project_root()?;
    let mut problems = Vec::new();
    let codes = codes(&root)?;
    check_pages(&root, &codes, &mut problems)?;
    let tests = check_promises(&root, &mut problems)?;
    check_crates(&root, &mut problems)?;
    let links = check_links(&root, &mut problems)?;
    if problems.is_empty() {
        println!(
            "docs: {} codes, {tests} tests behind promises, {links} links: all of them there",
            codes.len()
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

/// What stands between double quotes, line by line.
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
            problems.push(format!("{PAGES}/{name}.md is the page of no code"));
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
        let shown = file.strip_prefix(root).unwrap_or(&file).display().to_string();
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

/// Line numbers and targets of `[text](target)`, outside of code.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (index, line) in outside_of_code(text) {
        // Every second part stands between backticks.
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

/// Files with this extension, in their order; hidden folders and build results left out. A file stands for itself.
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
