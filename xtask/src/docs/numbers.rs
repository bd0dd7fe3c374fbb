//! Numbers in documents that are constants of the source: both have to be equal.
//!
//! The table [`NUMBERS`] connects a phrase of a document, with its number in braces, with a constant or with the default
//! of a field. The source is searched by name below a folder, so that moving a constant within it changes nothing here.

use std::fs;
use std::io;
use std::path::Path;

mod table;

use table::{NUMBERS, WITHOUT_CONSTANT};

/// The document whose rows all need an entry in [`NUMBERS`].
const LIMITS: &str = "docs/limits.md";

/// A number of a document, and its constant.
pub(super) struct Number {
    document: &'static str,
    /// A part of the document, with the number and its unit in braces.
    phrase: &'static str,
    /// The folder or file of the constant.
    place: &'static str,
    /// The name of a constant or of a field.
    name: &'static str,
}

/// A value without its unit's name: times are in milliseconds, sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Quantity {
    Time(f64),
    Plain(f64),
}

/// Checks the table, and that it covers the limits. Returns how many numbers were compared.
pub(super) fn check(root: &Path, problems: &mut Vec<String>) -> Result<usize, io::Error> {
    check_table(root, NUMBERS, problems)?;
    let limits = fs::read_to_string(root.join(LIMITS))?;
    let of_limits =
        NUMBERS.iter().filter(|number| number.document == LIMITS).map(|number| plain(number.phrase));
    let phrases: Vec<String> =
        of_limits.chain(WITHOUT_CONSTANT.iter().map(|row| (*row).to_owned())).collect();
    check_coverage(&limits, &phrases, problems);
    Ok(NUMBERS.len())
}

fn check_table(root: &Path, numbers: &[Number], problems: &mut Vec<String>) -> Result<(), io::Error> {
    for number in numbers {
        let Number { document, phrase, place, name } = number;
        let text = fs::read_to_string(root.join(document)).unwrap_or_default();
        // A phrase may continue on the next line.
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if !text.contains(plain(phrase).trim_end()) {
            problems.push(format!("{document} does not contain `{}`, which names {name}", plain(phrase)));
            continue;
        }
        let written =
            phrase.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(inner, _)| inner);
        let Some(said) = written.and_then(quantity) else {
            problems.push(format!("the table of numbers has no number in braces in `{phrase}`"));
            continue;
        };
        let found = definitions(&root.join(place), name)?;
        match found.as_slice() {
            [] => problems
                .push(format!("{document}: `{}` names {name}, which {place} does not define", plain(phrase))),
            [first, others @ ..] if others.iter().any(|other| other != first) => {
                problems.push(format!("{place} defines {name} with several values; name its file"));
            }
            [first, ..] if *first != said => {
                problems.push(format!("{document} says `{}`, but {name} is {}", plain(phrase), shown(*first)))
            }
            _ => {}
        }
    }
    Ok(())
}

/// Checks that every row of limits with a digit in its second column has an entry in the table.
fn check_coverage(limits: &str, phrases: &[String], problems: &mut Vec<String>) {
    for (index, line) in limits.lines().enumerate() {
        let Some(limit) = line.strip_prefix("| ").and_then(|row| row.split(" | ").nth(1)) else { continue };
        let has_number = limit.contains(|character: char| character.is_ascii_digit());
        if has_number && !phrases.iter().any(|phrase| line.contains(phrase)) {
            problems.push(format!("{LIMITS}:{}: no constant is named for this limit", index + 1));
        }
    }
}

/// The phrase as the document has it, without braces.
fn plain(phrase: &str) -> String {
    phrase.replace(['{', '}'], "")
}

/// The values of all definitions of `name` below `place`: `const NAME: Type = value;` or `name: value,`.
fn definitions(place: &Path, name: &str) -> Result<Vec<Quantity>, io::Error> {
    let mut found = Vec::new();
    for file in super::files(place, "rs")? {
        if file.components().any(|part| part.as_os_str() == "tests") {
            continue;
        }
        let source = fs::read_to_string(file)?;
        let source = source.split("mod tests {").next().unwrap_or_default();
        for line in source.lines().filter(|line| !line.trim_start().starts_with("//")) {
            found.extend(definition(line, name));
        }
    }
    Ok(found)
}

fn definition(line: &str, name: &str) -> Option<Quantity> {
    let (before, after) = line.split_once(&format!("{name}: "))?;
    if before.ends_with(|character: char| character.is_alphanumeric() || character == '_') {
        return None;
    }
    let value = if before.trim_end().ends_with("const") { after.split_once("= ")?.1 } else { after };
    let end = value.find([',', ';', '}']).unwrap_or(value.len());
    let value = evaluate(value.get(..end)?.trim())?;
    match value {
        Quantity::Plain(number) if name.to_lowercase().ends_with("_ms") => Some(Quantity::Time(number)),
        _ => Some(value),
    }
}

/// The value of an expression of numbers, products, shifts and `Duration` constructors.
fn evaluate(expression: &str) -> Option<Quantity> {
    let expression = expression.trim_start_matches("std::time::");
    for (constructor, milliseconds) in [("Duration::from_secs(", 1_000.0), ("Duration::from_millis(", 1.0)] {
        if let Some(inner) = expression.strip_prefix(constructor) {
            return Some(Quantity::Time(product(inner.strip_suffix(')')?)? * milliseconds));
        }
    }
    product(expression).map(Quantity::Plain)
}

fn product(expression: &str) -> Option<f64> {
    if let Some((left, right)) = expression.split_once(" << ") {
        return Some(number(left)? * number(right)?.exp2());
    }
    expression.split(" * ").map(number).product()
}

fn number(text: &str) -> Option<f64> {
    let digits = text.trim().replace('_', "");
    let is_number = digits.starts_with(|character: char| character.is_ascii_digit());
    if is_number { digits.parse().ok() } else { None }
}

/// The quantity that a document says: `50,000`, `10 s`, `4 MiB`, `five`.
fn quantity(text: &str) -> Option<Quantity> {
    const WORDS: [&str; 21] = [
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
        "twenty",
    ];
    const TIMES: [(&str, f64); 10] = [
        ("ms", 1.0),
        ("s", 1_000.0),
        ("second", 1_000.0),
        ("seconds", 1_000.0),
        ("min", 60_000.0),
        ("minutes", 60_000.0),
        ("hour", 3_600_000.0),
        ("hours", 3_600_000.0),
        ("day", 86_400_000.0),
        ("days", 86_400_000.0),
    ];
    let (amount, unit) = text.split_once(' ').unwrap_or((text, ""));
    let by_word = WORDS.iter().position(|word| *word == amount).and_then(|index| u32::try_from(index).ok());
    let amount = by_word.map(f64::from).or_else(|| number(&amount.replace(',', "")))?;
    if let Some((_, milliseconds)) = TIMES.iter().find(|(name, _)| *name == unit) {
        return Some(Quantity::Time(amount * milliseconds));
    }
    match unit {
        "" | "bytes" => Some(Quantity::Plain(amount)),
        "KiB" => Some(Quantity::Plain(amount * 1024.0)),
        "MiB" => Some(Quantity::Plain(amount * 1024.0 * 1024.0)),
        _ => None,
    }
}

fn shown(quantity: Quantity) -> String {
    match quantity {
        Quantity::Time(milliseconds) => format!("{milliseconds} ms"),
        Quantity::Plain(number) => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The problems with one entry of the table, for a document and a source file with these contents.
    #[track_caller]
    fn check(document: &str, phrase: &'static str, source: &str, name: &'static str, expected: &[&str]) {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("limits.md"), document).unwrap();
        fs::create_dir(root.path().join("src")).unwrap();
        fs::write(root.path().join("src/lib.rs"), source).unwrap();
        let mut problems = Vec::new();
        let number = Number { document: "limits.md", phrase, place: "src", name };
        check_table(root.path(), &[number], &mut problems).unwrap();
        assert_eq!(problems, expected);
    }

    #[test]
    fn equal_numbers_have_no_problem() {
        check(
            "| wait | 10 s |",
            "| wait | {10 s} |",
            "const WAIT: Duration = Duration::from_secs(10);",
            "WAIT",
            &[],
        );
        check("| size | 4 MiB |", "{4 MiB}", "pub(super) const SIZE: usize = 4 * 1024 * 1024;", "SIZE", &[]);
        check("at most 50,000", "{50,000}", "Self { max_tasks: 50_000, max_waves: 1 }", "max_tasks", &[]);
        check("three times", "{three} times", "pub const TIMES: u32 = 3;", "TIMES", &[]);
        check("after 1 hour", "{1 hour}", "wait_ms: 3_600_000,", "wait_ms", &[]);
    }

    #[test]
    fn a_changed_constant_is_found() {
        check(
            "| wait | 10 s |",
            "{10 s}",
            "const WAIT: Duration = Duration::from_secs(12);",
            "WAIT",
            &["limits.md says `10 s`, but WAIT is 12000 ms"],
        );
        check(
            "| size | 4 MiB |",
            "{4 MiB}",
            "const SIZE: usize = 1 << 20;",
            "SIZE",
            &["limits.md says `4 MiB`, but SIZE is 1048576"],
        );
    }

    #[test]
    fn a_time_is_not_a_number() {
        check(
            "5 s",
            "{5 s}",
            "const TURNS: u32 = 5_000;",
            "TURNS",
            &["limits.md says `5 s`, but TURNS is 5000"],
        );
    }

    #[test]
    fn a_changed_document_is_found() {
        check(
            "| wait | 20 s |",
            "| wait | {10 s} |",
            "const WAIT: Duration = Duration::from_secs(10);",
            "WAIT",
            &["limits.md does not contain `| wait | 10 s |`, which names WAIT"],
        );
    }

    #[test]
    fn a_missing_constant_and_an_ambiguous_one_are_found() {
        check(
            "5",
            "{5}",
            "const OTHER_LIMIT: u32 = 5;",
            "LIMIT",
            &["limits.md: `5` names LIMIT, which src does not define"],
        );
        check(
            "5",
            "{5}",
            "const LIMIT: u32 = 5;\nconst LIMIT: u32 = 6;",
            "LIMIT",
            &["src defines LIMIT with several values; name its file"],
        );
    }

    #[test]
    fn a_limit_without_a_constant_is_found() {
        let limits =
            "| what | limit | beyond |\n|---|---|---|\n| tasks | 5 | no |\n| names | see below | no |\n";
        let mut problems = Vec::new();
        check_coverage(limits, &["| tasks | 5 |".to_owned()], &mut problems);
        assert_eq!(problems, Vec::<String>::new());
        check_coverage(limits, &[], &mut problems);
        assert_eq!(problems, ["docs/limits.md:3: no constant is named for this limit"]);
    }
}
