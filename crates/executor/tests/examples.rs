//! The scripts that are shipped and those in the guide keep every rule that can be checked without a page.
#![expect(clippy::panic, reason = "tests fail by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use capataz_contracts::script_file::{Format, parse};
use capataz_contracts::v1;
use capataz_executor::dsl::check_script;

fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

#[track_caller]
fn read(text: &str, source: &str) -> v1::Script {
    parse(text, Format::Toml).unwrap_or_else(|violations| panic!("{source}: {violations:#?}"))
}

#[test]
fn the_examples_keep_the_rules() {
    let mut count = 0;
    for entry in fs::read_dir(project("examples/scripts")).unwrap() {
        let file = entry.unwrap().path();
        let script = read(&fs::read_to_string(&file).unwrap(), &file.display().to_string());
        assert_eq!(check_script(&script), [], "{}", file.display());
        count += 1;
    }
    assert!(count >= 4, "{count}");
}

#[test]
fn what_the_guide_shows_keeps_the_rules() {
    let guide = fs::read_to_string(project("docs/actions.md")).unwrap();
    let blocks = guide.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut count = 0;
    for block in blocks {
        // A part of a script is checked as the script that it is a part of.
        let head = if block.starts_with("name = ") { "" } else { "name = \"part\"\n" };
        let mut script = read(&format!("{head}{block}"), block);
        if script.actions.is_empty() {
            let kind = v1::ActionKind::Reload as i32;
            script.actions.push(v1::Action { id: "reload".to_owned(), kind, ..Default::default() });
        }
        assert_eq!(check_script(&script), [], "{block}");
        count += 1;
    }
    assert!(count >= 15, "{count}");
}
