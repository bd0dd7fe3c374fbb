//! The tables of `docs/seeds`: each row of a seed has its test, and each id at a test its row.
//!
//! The ids of a test's rows stand in comments of their own right above it, among its attributes and other comments. Only
//! the rows of `deviations.md` name their tests without standing at them: most of these tests show a row of a seed as well.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

const TABLES: &str = "docs/seeds";

/// The first cell of a table's header.
const HEADER: &str = "row";

/// The heading above the rows that are not done.
const NOT_DONE: &str = "## Not done yet";

/// The most rows of one test. A test for more shows none of them well.
const ROWS_OF_A_TEST: usize = 5;

/// How many rows there are.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) done: usize,
    pub(super) not_done: usize,
}

/// A row of a table.
struct Row {
    /// The table's file and line.
    place: String,
    is_done: bool,
    /// Whether the row's id stands at its tests.
    is_at_tests: bool,
    /// The tests that the row names, as `file.rs::name`.
    tests: BTreeSet<String>,
}

/// A function under an attribute that makes it a test, or ids that stand above no test.
#[derive(Default)]
struct Test {
    is_ignored: bool,
    ids: Vec<String>,
}

pub(super) fn check(root: &Path, problems: &mut Vec<String>) -> Result<Counts, io::Error> {
    let rows = rows(root, problems)?;
    let tests = tests(root, problems)?;
    for (id, row) in &rows {
        for name in &row.tests {
            match tests.get(name) {
                None => problems.push(format!("{}: there is no test {name}", row.place)),
                Some(test) if test.is_ignored => {
                    problems.push(format!("{}: {name} is ignored", row.place));
                }
                Some(test) if row.is_at_tests && !test.ids.contains(id) => {
                    problems.push(format!("{}: {id} does not stand at {name}", row.place));
                }
                Some(_) => {}
            }
        }
    }
    for (name, test) in &tests {
        let named = rows.values().filter(|row| !row.is_at_tests && row.tests.contains(name)).count();
        for count in [test.ids.len(), named] {
            if count > ROWS_OF_A_TEST {
                problems.push(format!("{name} is the test of {count} rows, more than {ROWS_OF_A_TEST}"));
            }
        }
        for id in &test.ids {
            match rows.get(id) {
                None => problems.push(format!("{name}: no table has a row {id}")),
                Some(row) if row.is_done && !row.tests.contains(name) => {
                    problems.push(format!("{name}: the row {id} does not name this test"));
                }
                Some(row) if !row.is_done => {
                    problems.push(format!("{name}: {id} has a test and stands under \"Not done yet\""));
                }
                Some(_) => {}
            }
        }
    }
    let done = rows.values().filter(|row| row.is_done).count();
    Ok(Counts { done, not_done: rows.len() - done })
}

/// The rows of all tables by their ids.
fn rows(root: &Path, problems: &mut Vec<String>) -> Result<BTreeMap<String, Row>, io::Error> {
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    let folder = root.join(TABLES);
    let files = if folder.is_dir() { super::files(&folder, "md")? } else { Vec::new() };
    for file in files {
        let text = fs::read_to_string(&file)?;
        let shown = super::shown(root, &file);
        let mut is_done = true;
        for (index, line) in super::outside_of_code(&text) {
            if line.starts_with('#') {
                is_done = line != NOT_DONE;
            }
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            let first = cells.first().copied().filter(|_| line.starts_with("| "));
            let Some(id) = first.and_then(|cell| id(cell).or_else(|| deviation(cell))) else {
                if first.is_some_and(|cell| cell != HEADER) {
                    problems.push(format!("{shown}:{}: a row without an id", index + 1));
                }
                continue;
            };
            let place = format!("{shown}:{}", index + 1);
            let row = row(place, id, is_done, &cells, problems);
            if let Some(other) = rows.get(id) {
                problems.push(format!("{}: {id} is a row at {}, too", row.place, other.place));
                continue;
            }
            rows.insert(id.to_owned(), row);
        }
    }
    Ok(rows)
}

fn row(place: String, id: &str, is_done: bool, cells: &[&str], problems: &mut Vec<String>) -> Row {
    let named = |cell: Option<&&str>| -> BTreeSet<String> {
        let quoted = cell.into_iter().flat_map(|cell| cell.split('`').skip(1).step_by(2));
        quoted.map(str::to_owned).collect()
    };
    let columns = if is_done { 4 } else { 3 };
    if cells.len() != columns || cells.iter().any(|cell| cell.is_empty()) {
        problems.push(format!("{place}: a row of {columns} cells has {}, or an empty one", cells.len()));
    }
    let mut tests = BTreeSet::new();
    if is_done {
        tests = named(cells.get(3)).into_iter().filter(|name| name.contains(".rs::")).collect();
        if tests.is_empty() {
            problems.push(format!("{place}: a row without a test"));
        }
        if named(cells.get(2)).is_empty() {
            problems.push(format!("{place}: a row that names no file where it is done"));
        }
    }
    Row { place, is_done, is_at_tests: deviation(id).is_none(), tests }
}

/// The tests below `crates` by `file.rs::name`.
fn tests(root: &Path, problems: &mut Vec<String>) -> Result<BTreeMap<String, Test>, io::Error> {
    let mut tests = BTreeMap::new();
    for file in super::files(&root.join("crates"), "rs")? {
        let text = fs::read_to_string(&file)?;
        let shown = super::shown(root, &file);
        let (mut above, mut is_test) = (Test::default(), false);
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if let Some(comment) = line.strip_prefix("//") {
                above.ids.extend(comment.split([' ', ',']).filter_map(id).map(str::to_owned));
            } else if line.starts_with("#[") {
                is_test |= attribute(line).ends_with("test");
                above.is_ignored |= line.contains("ignore");
            } else {
                let above = std::mem::take(&mut above);
                let name = function(line).filter(|_| std::mem::take(&mut is_test));
                match name {
                    Some(name) => {
                        tests.insert(format!("{shown}::{name}"), above);
                    }
                    None if !above.ids.is_empty() => {
                        let ids = above.ids.join(", ");
                        problems.push(format!("{shown}:{index}: {ids} at no test"));
                    }
                    None => {}
                }
            }
        }
    }
    Ok(tests)
}

/// The path of an attribute: `tokio::test` of `#[tokio::test(flavor = "multi_thread")]`.
fn attribute(line: &str) -> &str {
    let path = line.trim_start_matches("#[");
    path.split(['(', ']', ' ', '=']).next().unwrap_or(path)
}

fn function(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let line = line.strip_prefix("async ").unwrap_or(line);
    line.strip_prefix("fn ")?.split(['(', '<']).next()
}

/// A row's id, such as `S000-C3-04`: the seed, a part of it, a number.
fn id(text: &str) -> Option<&str> {
    let mut parts = text.strip_prefix('S')?.split('-');
    let (seed, part, number) = (parts.next()?, parts.next()?, parts.next()?);
    let digits = |text: &str, count| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_part = !part.is_empty()
        && part.starts_with(|first: char| first.is_ascii_uppercase())
        && part.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    (digits(seed, 3) && is_part && digits(number, 2) && parts.next().is_none()).then_some(text)
}

/// The id of a row of deviations, such as `D0-12`: a seed's last digit and a number; or of bad input, such as `B-3`.
fn deviation(text: &str) -> Option<&str> {
    let (part, number) = text.split_once('-')?;
    let is_number = number.len() <= 3
        && number.starts_with(|first: char| matches!(first, '1'..='9'))
        && number.bytes().all(|byte| byte.is_ascii_digit());
    (matches!(part, "D0" | "D1" | "D2" | "B") && is_number).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# Seed\n\n| row | line | done in | test |\n|---|---|---|---|\n";
    const DONE: &str = "| S000-C1-01 | names | `crates/a/src/lib.rs` | `crates/a/src/lib.rs::works` |\n";
    const TEST: &str = "// S000-C1-01\n#[test]\nfn works() {}\n";

    #[track_caller]
    fn check_of(table: &str, source: &str, expected: &[&str]) -> Counts {
        let root = tempfile::tempdir().unwrap();
        for folder in [TABLES, "crates/a/src"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        fs::write(root.path().join(TABLES).join("000.md"), format!("{TABLE}{table}")).unwrap();
        fs::write(root.path().join("crates/a/src/lib.rs"), source).unwrap();
        let mut problems = Vec::new();
        let counts = check(root.path(), &mut problems).unwrap();
        assert_eq!(problems, expected);
        counts
    }

    #[test]
    fn rows_with_their_tests_have_no_problem_and_are_counted() {
        let counts = check_of(
            &format!(
                "{DONE}| S000-C1-02 | more | `crates/a` | `crates/a/src/lib.rs::works` \
                 `crates/a/src/lib.rs::goes` |\n\n{NOT_DONE}\n\n| S000-C1-03 | less | all of it |\n"
            ),
            "/// What it shows.\n// S000-C1-01, S000-C1-02\n#[test]\nfn works() {}\n\n#[tokio::test(flavor = \
             \"multi_thread\")]\n// S000-C1-02\nasync fn goes() {}\n",
            &[],
        );
        assert_eq!(counts, Counts { done: 2, not_done: 1 });
    }

    #[test]
    fn a_row_without_a_test_or_a_place_is_found() {
        check_of(
            "| S000-C1-01 | names | `crates/a` | none |\n| S000-C1-02 | names | | |\n",
            "",
            &[
                "docs/seeds/000.md:5: a row without a test",
                "docs/seeds/000.md:6: a row of 4 cells has 3, or an empty one",
                "docs/seeds/000.md:6: a row without a test",
                "docs/seeds/000.md:6: a row that names no file where it is done",
            ],
        );
    }

    #[test]
    fn a_test_that_is_not_there_or_is_none_is_found() {
        let gone = "docs/seeds/000.md:5: there is no test crates/a/src/lib.rs::works";
        check_of(DONE, "", &[gone]);
        let helper = "// S000-C1-01\nfn works() {}\n";
        check_of(DONE, helper, &["crates/a/src/lib.rs:1: S000-C1-01 at no test", gone]);
    }

    #[test]
    fn a_test_without_the_rows_id_is_found() {
        check_of(
            DONE,
            "#[test]\nfn works() {}\n",
            &["docs/seeds/000.md:5: S000-C1-01 does not stand at crates/a/src/lib.rs::works"],
        );
    }

    #[test]
    fn an_ignored_test_is_found() {
        let ignored = "docs/seeds/000.md:5: crates/a/src/lib.rs::works is ignored";
        for attribute in ["#[ignore]", "#[ignore = \"slow\"]", "#[cfg_attr(unix, ignore)]"] {
            check_of(DONE, &format!("// S000-C1-01\n#[test]\n{attribute}\nfn works() {{}}\n"), &[ignored]);
        }
    }

    #[test]
    fn an_id_of_no_row_and_a_test_that_its_row_does_not_name_are_found() {
        check_of(
            DONE,
            &format!("{TEST}\n// S000-C1-01\n// S000-C9-01\n#[test]\nfn other() {{}}\n"),
            &[
                "crates/a/src/lib.rs::other: the row S000-C1-01 does not name this test",
                "crates/a/src/lib.rs::other: no table has a row S000-C9-01",
            ],
        );
    }

    #[test]
    fn a_test_for_more_than_five_rows_is_found() {
        let row = |number: usize| {
            format!("| S000-C1-0{number} | names | `crates/a` | `crates/a/src/lib.rs::works` |\n")
        };
        let ids = |count: usize| -> String {
            (1..=count).map(|number| format!("// S000-C1-0{number}\n")).collect()
        };
        let test = |count| format!("{}#[test]\nfn works() {{}}\n", ids(count));
        check_of(&(1..=5).map(row).collect::<String>(), &test(5), &[]);
        check_of(
            &(1..=6).map(row).collect::<String>(),
            &test(6),
            &["crates/a/src/lib.rs::works is the test of 6 rows, more than 5"],
        );
    }

    #[test]
    fn an_id_that_stands_twice_is_found() {
        check_of(
            &format!("{DONE}{DONE}"),
            TEST,
            &["docs/seeds/000.md:6: S000-C1-01 is a row at docs/seeds/000.md:5, too"],
        );
        check_of(
            &format!("{DONE}\n{NOT_DONE}\n\n| S000-C1-01 | names | all of it |\n"),
            TEST,
            &["docs/seeds/000.md:9: S000-C1-01 is a row at docs/seeds/000.md:5, too"],
        );
    }

    #[test]
    fn a_row_that_is_not_done_and_has_a_test_is_found() {
        check_of(
            &format!("{NOT_DONE}\n\n| S000-C1-01 | names | all of it |\n"),
            TEST,
            &["crates/a/src/lib.rs::works: S000-C1-01 has a test and stands under \"Not done yet\""],
        );
    }

    #[test]
    fn a_row_whose_id_has_another_form_is_found() {
        let of_seeds = ["S000-C1-1", "S00-C1-01", "S000-c1-01", "S000-C1", "S000-C1-01-02"];
        let of_deviations = ["D0-01", "D3-1", "D0", "D0-", "D0-1-2", "D0-1000", "B1-1", "E-1"];
        for wrong in of_seeds.into_iter().chain(of_deviations) {
            check_of(
                &format!("| {wrong} | names | `crates/a` | `crates/a/src/lib.rs::works` |\n"),
                "",
                &["docs/seeds/000.md:5: a row without an id"],
            );
        }
    }

    #[test]
    fn a_deviation_names_tests_without_standing_at_them() {
        let row = |id: &str| format!("| {id} | names | `crates/a` | `crates/a/src/lib.rs::works` |\n");
        let test = "#[test]\nfn works() {}\n";
        let counts = check_of(&format!("{}{}{}", row("D0-1"), row("D1-12"), row("B-3")), test, &[]);
        assert_eq!(counts, Counts { done: 3, not_done: 0 });
        check_of(&row("D2-1"), "", &["docs/seeds/000.md:5: there is no test crates/a/src/lib.rs::works"]);
        check_of(
            &row("B-1"),
            "#[test]\n#[ignore]\nfn works() {}\n",
            &["docs/seeds/000.md:5: crates/a/src/lib.rs::works is ignored"],
        );
        check_of(
            "| D0-1 | names | `crates/a` | none |\n",
            "",
            &["docs/seeds/000.md:5: a row without a test"],
        );
        check_of(
            &(1..=6).map(|number| row(&format!("D0-{number}"))).collect::<String>(),
            test,
            &["crates/a/src/lib.rs::works is the test of 6 rows, more than 5"],
        );
    }
}
