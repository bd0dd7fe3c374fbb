//! What is told of files that are wrong, and what can be read of them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{Document, InPart, MOST, Problem};

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    listen: String,
    crew: Vec<Member>,
    limits: Limits,
    words: BTreeMap<String, u32>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Limits {
    most: u32,
    strict: bool,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Member {
    name: String,
    #[serde(default)]
    kind: Kind,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    #[default]
    Task,
    Planner,
}

/// All that is told of the text, and the value that it is read as.
fn read<T: DeserializeOwned>(text: &str) -> (Vec<String>, Option<T>) {
    let lines =
        |problems: Vec<Problem>| -> Vec<String> { problems.iter().map(ToString::to_string).collect() };
    match Document::parse("f.toml", text) {
        Ok(document) => {
            let InPart { value, problems, .. } = document.read_what_can_be();
            (lines(problems), value)
        }
        Err(problems) => (lines(problems), None),
    }
}

fn problems(text: &str) -> Vec<String> {
    read::<Settings>(text).0
}

#[test]
fn all_that_is_wrong_is_told_at_once_in_the_order_of_lines() {
    let text = "\
lisen = \"a\"
limits = { most = -1, strict = \"yes\", mots = 1 }

[[crew]]
name = \"a\"
kind = \"planer\"

[[crew]]
kind = \"task\"
nmae = \"b\"

[[crew]]
name = 7

[[crew]]
kind = \"task\"

[words]
one = 1
two = \"two\"
";
    let expected = [
        "f.toml:1:1: lisen: unknown key; did you mean `listen`?",
        "f.toml:2:19: limits.most: here is a number; expected is a whole number from 0 on",
        "f.toml:2:32: limits.strict: here is a string; expected is a boolean",
        "f.toml:2:39: limits.mots: unknown key; did you mean `most`?",
        "f.toml:6:8: crew[0].kind: unknown value; did you mean `planner`?",
        "f.toml:10:1: crew[1].nmae: unknown key; did you mean `name`?",
        "f.toml:13:8: crew[2].name: here is a number; expected is a string",
        "f.toml:15:1: crew[3]: the key `name` is missing",
        "f.toml:20:7: words.two: here is a string; expected is a whole number from 0 on",
    ];
    assert_eq!(problems(text), expected);
}

/// Whatever it has to be: nobody but `serde` knows.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Demanding {
    name: String,
    command: Vec<String>,
    price: f64,
    most: u32,
    strict: bool,
    kind: Kind,
    first: Member,
    #[serde(default)]
    rest: Vec<Member>,
}

#[test]
fn all_keys_that_a_table_lacks_are_told_at_once_and_none_of_what_stands_for_them() {
    let lacking = |keys: &[&str]| -> Vec<String> {
        keys.iter().map(|key| format!("f.toml:1:1: the key `{key}` is missing")).collect()
    };
    let all = lacking(&["name", "command", "price", "most", "strict", "kind", "first"]);
    assert_eq!(read::<Demanding>("").0, all);
    let some = lacking(&["command", "price", "strict", "kind", "first"]);
    assert_eq!(read::<Demanding>("name = \"a\"\nmost = 1\nrest = []\n").0, some);
    // Those of a table within it, too, and what is wrong beside them.
    let text = "\
name = 7
command = []
price = 1
most = 1
kind = \"planner\"
first = {}
[[rest]]
[[rest]]
name = \"b\"
";
    let expected = [
        "f.toml:1:1: the key `strict` is missing",
        "f.toml:1:8: name: here is a number; expected is a string",
        "f.toml:6:9: first: the key `name` is missing",
        "f.toml:7:1: rest[0]: the key `name` is missing",
    ];
    let (told, value) = read::<Demanding>(text);
    assert_eq!(told, expected);
    let value = value.unwrap();
    assert_eq!((value.most, value.kind, value.rest[1].name.as_str()), (1, Kind::Planner, "b"));
}

#[test]
fn what_cannot_be_read_keeps_no_rule_from_its_neighbours_and_is_judged_by_none_itself() {
    let text = "\
listen = 7
[limits]
most = 1
strict = \"yes\"
[[crew]]
kind = \"task\"
[[crew]]
nmae = \"b\"
[words]
one = 1
";
    let document = Document::parse("f.toml", text).unwrap();
    let part = document.read_what_can_be::<Settings>();
    let value = part.value.as_ref().unwrap();
    // A key that is misspelt has what is meant.
    assert_eq!((value.limits.most, value.crew.len(), value.crew[1].name.as_str()), (1, 2, "b"));
    for (told, is_of_a_gap) in [
        ("listen: no", true),
        ("limits.most: no", true),
        ("crew[0]: no", true),
        ("crew[0].name: no", true),
        ("crew[1].name: no", false),
        ("crew[10].name: no", false),
        ("crew: no", false),
        ("words.one: no", false),
        ("listening: no", false),
    ] {
        assert_eq!(part.is_of_a_gap(told), is_of_a_gap, "{told}");
    }
    assert_eq!(part.placed("crew[1].name: no").to_string(), "f.toml:8:1: crew[1].name: no");
    assert_eq!(part.placed("words.one: no").to_string(), "f.toml:10:1: words.one: no");
}

#[test]
fn an_item_that_is_none_leaves_the_others_in_their_places() {
    let (told, value) = read::<Settings>("crew = [7, { name = \"b\" }]\n");
    assert_eq!(told, ["f.toml:1:9: crew[0]: here is a number; expected is a table"]);
    assert_eq!(value.unwrap().crew[1].name, "b");
}

/// A value that nothing neutral can be.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
struct Seven;

impl TryFrom<String> for Seven {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text == "seven" { Ok(Self) } else { Err("not seven") }
    }
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Particular {
    #[serde(default)]
    all: Vec<Item>,
    #[serde(default)]
    most: u32,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Item {
    seven: Seven,
    #[serde(default)]
    most: u32,
}

#[test]
fn a_table_in_which_nothing_neutral_can_stand_is_left_out_and_the_rest_is_told_once() {
    let text = "\
most = \"a\"
[[all]]
[[all]]
seven = \"eight\"
[[all]]
seven = \"seven\"
most = \"b\"
";
    let (told, value) = read::<Particular>(text);
    let expected = [
        "f.toml:1:8: most: here is a string; expected is a whole number from 0 on",
        "f.toml:2:1: all[0]: the key `seven` is missing",
        "f.toml:4:9: all[1].seven: not seven",
        "f.toml:7:8: all[2].most: here is a string; expected is a whole number from 0 on",
    ];
    assert_eq!((told, value), (expected.map(str::to_owned).to_vec(), None));
}

#[test]
fn a_key_that_is_like_none_is_told_what_there_is() {
    assert_eq!(
        problems("[limits]\nzzzzzzzz = 1\n"),
        ["f.toml:2:1: limits.zzzzzzzz: unknown key; known are most, strict"]
    );
}

#[test]
fn each_line_that_is_no_toml_is_told_once() {
    let found = problems("listen = \n[[crew]\nname = \"a\"\n= 7\n");
    let lines: Vec<&str> = found.iter().map(|problem| &problem[..9]).collect();
    assert_eq!(lines, ["f.toml:1:", "f.toml:2:", "f.toml:4:"], "{found:?}");
    assert!(found.iter().all(|problem| problem.contains(": not TOML: ")), "{found:?}");
}

#[test]
fn what_is_right_is_read_behind_a_byte_order_mark_too() {
    let document = Document::parse("f.toml", "\u{feff}listen = \"a\"\n").unwrap();
    let InPart { value, problems, .. } = document.read_what_can_be::<Settings>();
    let expected = Settings { listen: "a".to_owned(), ..Settings::default() };
    assert_eq!((value, problems), (Some(expected), Vec::new()));
}

#[test]
fn a_problem_of_a_value_gets_the_line_of_what_there_is_of_its_path() {
    let text = "listen = \"a\"\n\n[[crew]]\nname = \"a\"\n[[crew]]\nname = \"b\"\n";
    let document = Document::parse("f.toml", text).unwrap();
    for (problem, line) in [
        ("listen: no", "f.toml:1:1: "),
        ("crew[1].name: no", "f.toml:6:1: "),
        ("crew[1].kind: no", "f.toml:5:1: "),
        ("crew[7]: no", "f.toml:3:3: "),
        ("limits.most: no", "f.toml: "),
        ("a text", "f.toml: "),
    ] {
        assert_eq!(document.placed(problem).to_string(), format!("{line}{problem}"));
    }
}

#[test]
fn no_more_than_fifty_are_told_and_however_many_there_are_it_ends() {
    let text: String = (0..500).map(|number| format!("key_{number} = {number}\n")).collect();
    let told = problems(&text);
    let last = "f.toml: there may be more problems, which are looked for once these are mended";
    assert_eq!((told.len(), told.last().map(String::as_str)), (MOST + 1, Some(last)));
    assert_eq!(problems(&format!("listen = {}1{}", "[".repeat(60), "]".repeat(60))).len(), 1);
}
