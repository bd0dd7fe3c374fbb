//! Invalid contents of spec files, and the places of their errors.

use std::fmt::Write as _;

use capataz_router::load::{MAX_ERRORS_PER_FILE, MAX_FILE_BYTES};
use capataz_router::{Catalogue, SpecFileCode as Code, SpecFileError};

/// Six valid lines; a case continues at line 7.
const HEAD: &str = r#"id = "demo"
title = "Demo"
languages = ["es", "en"]
contract_version = "1.0.0"
agent = "somebody"

"#;

fn errors(text: &str) -> Vec<SpecFileError> {
    Catalogue::read(&[("demo.toml", text)]).err().unwrap_or_default()
}

/// Checks that a file has exactly these errors, by code, line and key.
#[track_caller]
fn check_whole(text: &str, expected: &[(Code, usize, &str)]) -> Vec<SpecFileError> {
    let errors = errors(text);
    let found: Vec<(Code, usize, &str)> =
        errors.iter().map(|error| (error.code, error.line, error.key.as_str())).collect();
    assert_eq!(found, expected, "{errors:#?}");
    assert!(
        errors
            .iter()
            .all(|error| error.file == "demo.toml" && error.column >= 1 && !error.message.is_empty())
    );
    errors
}

/// Like [`check_whole`], for text after the head.
#[track_caller]
fn check(body: &str, expected: &[(Code, usize, &str)]) -> Vec<SpecFileError> {
    check_whole(&format!("{HEAD}{body}"), expected)
}

#[test]
fn the_smallest_file_has_defaults_for_all_else() {
    let catalogue = Catalogue::read(&[("demo.toml", HEAD)]).unwrap();
    let spec = catalogue.find("demo").unwrap();
    assert_eq!((spec.tone.as_str(), spec.response_style.as_str()), ("neutral", "plain"));
    assert_eq!((spec.limits.min_characters, spec.limits.max_characters), (1, 20_000));
    assert!(!spec.default && spec.keywords.is_empty() && spec.fallback_pattern.is_none());
    assert!(catalogue.default_spec().is_none());
}

#[test]
fn no_file_at_all_is_an_empty_catalogue() {
    assert!(Catalogue::read::<&str, &[u8]>(&[]).unwrap().specs().is_empty());
}

// S001-RQ-12
#[test]
fn all_that_is_written_is_read() {
    let text = r#"
id = "demo"
title = "Demo"
description = "Shows"
languages = ["es", "en"]
tone = "warm"
response_style = "brief"
contract_version = "1.4.2"
capabilities = ["showing"]
keywords = ["plain", { text = "Heavy", weight = 10 }, { text = "light", weight = 0.5 }]
error_codes = ["NO_SEATS"]
default = true
fallback_pattern = "hello"
limits = { min_characters = 2, max_characters = 50, too_short = { es = "corto" }, too_long = { en = "long" } }

[[patterns]]
name = "hello"
phrases = ["good day"]
expressions = ['\bhi+\b']
transition = { suggest_spec = "other", reason = "why", confidence = 1, auto_transition = true, keywords = ["x"] }
context_update = { emotional_state = "calm", custom = { n = 0x10, f = 1.5, b = false, d = 2026-01-02, l = [1] } }
error = { code = "NO_SEATS", message = { en = "none for {topic}" }, recoverable = false, fallback_spec = "other", below_characters = 9 }

[patterns.templates]
en = ["Hello {text}", { text = "<b>{keyword|you}</b>", format = "html", structured = { a = ["{topic}"] } }]

[[intents]]
name = "greet"
examples = ["hey there", "hello you"]
pattern = "hello"

[[intents]]
name = "leave"
examples = { es = ["adiós"], en = ["bye"] }
"#;
    let catalogue = Catalogue::read(&[("demo.toml", text)]).unwrap();
    let spec = catalogue.default_spec().unwrap();
    assert_eq!((&*spec.title, &*spec.description), ("Demo", "Shows"));
    assert_eq!((&*spec.tone, &*spec.response_style), ("warm", "brief"));
    assert_eq!(spec.keywords.iter().map(|keyword| keyword.weight).collect::<Vec<_>>(), [1.0, 10.0, 0.5]);
    assert_eq!(
        (spec.agent.as_str(), spec.error_codes.as_slice()),
        ("template", ["NO_SEATS".to_owned()].as_slice())
    );
    assert_eq!((spec.limits.min_characters, spec.limits.max_characters), (2, 50));
    assert_eq!(spec.limits.too_short["es"], "corto");
    let pattern = &spec.patterns[0];
    assert!(pattern.expressions[0].is_match("well hiii you"));
    assert_eq!(pattern.templates["en"][1].format, "html");
    assert_eq!(pattern.templates["en"][1].structured.as_ref().unwrap()["a"][0], "{topic}");
    let transition = pattern.transition.as_ref().unwrap();
    assert!(transition.auto_transition && transition.confidence == 1.0 && transition.suggest_spec == "other");
    let update = pattern.context_update.as_ref().unwrap();
    assert_eq!(
        update["custom"],
        serde_json::json!({"n": 16, "f": 1.5, "b": false, "d": "2026-01-02", "l": [1]})
    );
    let refusal = pattern.refusal.as_ref().unwrap();
    assert_eq!((refusal.below_characters, refusal.recoverable), (Some(9), false));
    assert_eq!(spec.intents[0].examples, [(None, "hey there".to_owned()), (None, "hello you".to_owned())]);
    let es = (Some("es".to_owned()), "adiós".to_owned());
    assert!(spec.intents[1].examples.contains(&es));
}

#[test]
fn bytes_that_are_not_text_are_reported_with_their_place() {
    let mut bytes = HEAD.as_bytes().to_vec();
    bytes.extend(b"tone = \"\xff\"");
    let errors = Catalogue::read(&[("demo.toml", &bytes)]).unwrap_err();
    assert_eq!((errors[0].code, errors[0].line, errors[0].column), (Code::NotUtf8, 7, 9));
    assert!(errors[0].message.contains(&format!("byte {}", HEAD.len() + 8)), "{}", errors[0].message);
}

#[test]
fn a_byte_order_mark_is_no_error() {
    assert!(errors(&format!("\u{feff}{HEAD}")).is_empty());
}

#[test]
fn a_file_that_is_too_large_is_not_read() {
    let text = format!("{HEAD}#{}", "x".repeat(MAX_FILE_BYTES));
    check_whole(&text, &[(Code::FileTooLarge, 1, "")]);
}

#[test]
fn syntax_errors_come_alone_and_all_at_once() {
    let errors = check(
        "a = = 1\nb = \"\nkeywrods = 3\nc = ]\n",
        &[(Code::Syntax, 7, ""), (Code::Syntax, 8, ""), (Code::Syntax, 10, "")],
    );
    assert_eq!(errors[0].column, 5);
    check("title = \"again\"\n", &[(Code::Syntax, 7, "")]);
}

#[test]
fn what_a_spec_must_have_is_asked_for() {
    check_whole(
        "",
        &[
            (Code::MissingKey, 1, "id"),
            (Code::MissingKey, 1, "title"),
            (Code::MissingKey, 1, "languages"),
            (Code::MissingKey, 1, "contract_version"),
            // Without an agent, the built-in one is used.
            (Code::NoTemplate, 1, "patterns"),
        ],
    );
    check(
        "\n[[patterns]]\nphrases = [\"x\"]\n[[intents]]\nexamples = []\n",
        &[(Code::MissingKey, 8, "patterns[0].name"), (Code::MissingKey, 10, "intents[0].name")],
    );
}

#[test]
fn an_unknown_key_gets_its_nearest_neighbour() {
    let errors = check("keyword = [\"x\"]\n", &[(Code::UnknownKey, 7, "keyword")]);
    assert!(errors[0].message.contains("did you mean `keywords`?"), "{}", errors[0].message);
    let errors = check("zzz = 1\n", &[(Code::UnknownKey, 7, "zzz")]);
    assert!(errors[0].message.contains("contract_version"), "{}", errors[0].message);
    check("[[patterns]]\nname = \"p\"\nphrase = [\"x\"]\n", &[(Code::UnknownKey, 9, "patterns[0].phrase")]);
    check(
        "[[intents]]\nname = \"i\"\n[intents.exampels]\nes = []\n",
        &[(Code::UnknownKey, 9, "intents[0].exampels")],
    );
    check("keywords = [{ text = \"x\", wieght = 2 }]\n", &[(Code::UnknownKey, 7, "keywords[0].wieght")]);
    check("limits = { min = 3 }\n", &[(Code::UnknownKey, 7, "limits.min")]);
    check(
        "[[patterns]]\nname = \"p\"\ncontext_update = { mood = \"x\" }\n",
        &[(Code::UnknownKey, 9, "patterns[0].context_update.mood")],
    );
}

#[test]
fn names_are_spelt_as_such() {
    for id in ["", "Demo", "a--b", "-a", "a-", "a_b", "día", &"x".repeat(65)] {
        let text = HEAD.replace("\"demo\"", &format!("\"{id}\""));
        let errors = errors(&text);
        assert_eq!(errors.len(), 1, "{id}");
        assert!(
            matches!(errors[0].code, Code::InvalidName | Code::Empty | Code::TooLong),
            "{id}: {errors:?}"
        );
        assert_eq!((errors[0].line, errors[0].column, errors[0].key.as_str()), (1, 6, "id"));
    }
    assert!(errors(&HEAD.replace("\"demo\"", &format!("\"{}\"", "x".repeat(64)))).is_empty());
    check_whole(&HEAD.replace("\"en\"", "\"EN\""), &[(Code::InvalidName, 3, "languages[1]")]);
    check_whole(&HEAD.replace("\"en\"", "\"es\""), &[(Code::Duplicate, 3, "languages[1]")]);
    check_whole(&HEAD.replace("[\"es\", \"en\"]", "[]"), &[(Code::Empty, 3, "languages")]);
    check("[[patterns]]\nname = \"Two Words\"\n", &[(Code::InvalidName, 8, "patterns[0].name")]);
    check("[[intents]]\nname = \"unclear\"\n", &[(Code::InvalidName, 8, "intents[0].name")]);
    check(
        "error_codes = [\"nope\", \"RATE_LIMIT\", \"A\", \"A\"]\n",
        &[
            (Code::InvalidName, 7, "error_codes[0]"),
            (Code::Duplicate, 7, "error_codes[1]"),
            (Code::Duplicate, 7, "error_codes[3]"),
        ],
    );
    check_whole(&HEAD.replace("somebody", "some body"), &[(Code::InvalidName, 5, "agent")]);
}

// S001-VE-05
#[test]
fn only_the_same_major_version_of_the_contract_is_compatible() {
    for (version, code) in [
        ("2.0.0", Code::IncompatibleVersion),
        ("0.9.0", Code::IncompatibleVersion),
        ("one", Code::InvalidValue),
    ] {
        check_whole(&HEAD.replace("1.0.0", version), &[(code, 4, "contract_version")]);
    }
    assert!(errors(&HEAD.replace("1.0.0", "1.7.3")).is_empty());
}

#[test]
fn values_have_their_types() {
    check(
        "description = 3\nkeywords = \"x\"\ndefault = \"yes\"\npatterns = {}\n\n[[intents]]\nname = []\n",
        &[
            (Code::WrongType, 7, "description"),
            (Code::WrongType, 8, "keywords"),
            (Code::WrongType, 9, "default"),
            (Code::WrongType, 10, "patterns"),
            (Code::WrongType, 13, "intents[0].name"),
        ],
    );
    check(
        "keywords = [1, { text = \"x\", weight = \"2\" }]\n",
        &[(Code::WrongType, 7, "keywords[0]"), (Code::WrongType, 7, "keywords[1].weight")],
    );
}

#[test]
fn weights_are_above_zero_and_at_most_ten() {
    for weight in ["0", "-1", "10.001", "nan", "inf", "1e400", "99999999999999999999"] {
        let body = format!("keywords = [\n  \"good\",\n  {{ text = \"x\", weight = {weight} }},\n]\n");
        check(&body, &[(Code::OutOfRange, 9, "keywords[1].weight")]);
    }
}

#[test]
fn texts_that_match_nothing_are_refused() {
    let body = "keywords = [\"\", \"  \", \"!!\", \"Sí\", \"si\"]\n[[patterns]]\nname = \"p\"\nphrases = [\"...\"]\n\
                [[intents]]\nname = \"i\"\nexamples = [\"fine\", \"¿?\"]\n";
    check(
        body,
        &[
            (Code::Empty, 7, "keywords[0]"),
            (Code::Empty, 7, "keywords[1]"),
            (Code::Empty, 7, "keywords[2]"),
            (Code::Duplicate, 7, "keywords[4]"),
            (Code::Empty, 10, "patterns[0].phrases[0]"),
            (Code::Empty, 13, "intents[0].examples[1]"),
        ],
    );
}

#[test]
fn names_within_a_file_are_different_and_known() {
    let body = r#"fallback_pattern = "helo"

[[patterns]]
name = "hello"
[[patterns]]
name = "hello"

[[intents]]
name = "a"
pattern = "hallo"
[[intents]]
name = "a"
"#;
    let errors = check(
        body,
        &[
            (Code::UnknownPattern, 7, "fallback_pattern"),
            (Code::Duplicate, 12, "patterns[1].name"),
            (Code::UnknownPattern, 16, "intents[0].pattern"),
            (Code::Duplicate, 18, "intents[1].name"),
        ],
    );
    assert!(errors[2].message.contains("did you mean `hello`?"), "{}", errors[2].message);
}

#[test]
fn a_consequence_of_an_error_is_not_an_error() {
    let patterns: String = (0..201).fold(String::new(), |mut text, number| {
        writeln!(text, "[[patterns]]\nname = \"p{number}\"").unwrap();
        text
    });
    let errors = errors(&format!("{HEAD}{patterns}[[intents]]\nname = \"a\"\npattern = \"p7\"\n"));
    assert_eq!(errors.iter().map(|error| error.code).collect::<Vec<_>>(), [Code::TooMany]);
    let text =
        HEAD.replace("\"en\"", "\"EN\"") + "[[intents]]\nname = \"a\"\n[intents.examples]\nen = [\"x\"]\n";
    check_whole(&text, &[(Code::InvalidName, 3, "languages[1]")]);
}

#[test]
fn ten_thousand_keywords_are_one_clear_error() {
    let words: Vec<String> = (0..10_000).map(|number| format!("\"word {number}\"")).collect();
    let errors = check(&format!("keywords = [{}]\n", words.join(",")), &[(Code::TooMany, 7, "keywords")]);
    assert!(errors[0].message.contains("10000 items, at most 2000"), "{}", errors[0].message);
}

#[test]
fn lists_and_texts_are_bounded() {
    #[track_caller]
    fn list(body: &str, count: usize, item: impl Fn(usize) -> String, key: &str) {
        let fill = |count: usize| (0..count).map(&item).collect::<Vec<_>>().join(",");
        let errors_of = |count: usize| errors(&format!("{HEAD}{}", body.replace("ITEMS", &fill(count))));
        assert_eq!(errors_of(count), [], "{key}");
        let beyond = errors_of(count + 1);
        let found: Vec<(Code, &str)> = beyond.iter().map(|error| (error.code, error.key.as_str())).collect();
        assert_eq!(found, [(Code::TooMany, key)]);
    }
    let word = |number: usize| format!("\"w{number}\"");
    list("keywords = [ITEMS]\n", 2_000, word, "keywords");
    list("capabilities = [ITEMS]\n", 100, word, "capabilities");
    list("patterns = [ITEMS]\n", 200, |number| format!("{{ name = \"w{number}\" }}"), "patterns");
    list("intents = [ITEMS]\n", 500, |number| format!("{{ name = \"w{number}\" }}"), "intents");
    list("[[patterns]]\nname = \"p\"\nphrases = [ITEMS]\n", 200, word, "patterns[0].phrases");
    list("[[patterns]]\nname = \"p\"\nexpressions = [ITEMS]\n", 50, word, "patterns[0].expressions");
    list("[[patterns]]\nname = \"p\"\ntemplates.es = [ITEMS]\n", 50, word, "patterns[0].templates.es");
    let two =
        "[[intents]]\nname = \"a\"\nexamples = [\"one\"]\n[[intents]]\nname = \"b\"\nexamples = [ITEMS]\n";
    list(two, 9_999, word, "intents[1].examples");

    #[track_caller]
    fn text(body: &str, characters: usize, key: &str) {
        let errors_of = |count: usize| errors(&format!("{HEAD}{}", body.replace("TEXT", &"é".repeat(count))));
        assert_eq!(errors_of(characters), [], "{key}");
        let beyond = errors_of(characters + 1);
        let found: Vec<(Code, &str)> = beyond.iter().map(|error| (error.code, error.key.as_str())).collect();
        assert_eq!(found, [(Code::TooLong, key)]);
    }
    text("description = \"TEXT\"\n", 2_000, "description");
    text("tone = \"TEXT\"\n", 100, "tone");
    text("keywords = [\"TEXT\"]\n", 100, "keywords[0]");
    text("[[patterns]]\nname = \"p\"\nphrases = [\"TEXT\"]\n", 200, "patterns[0].phrases[0]");
    text("[[patterns]]\nname = \"p\"\nexpressions = [\"TEXT\"]\n", 500, "patterns[0].expressions[0]");
    text("[[patterns]]\nname = \"p\"\ntemplates.es = [\"TEXT\"]\n", 10_000, "patterns[0].templates.es[0]");
    text("[[intents]]\nname = \"a\"\nexamples = [\"TEXT\"]\n", 1_000, "intents[0].examples[0]");
}

#[test]
fn expressions_are_bounded_over_the_whole_spec() {
    let pattern = |number: usize, count: usize| {
        let expressions: Vec<String> = (0..count).map(|at| format!("'x{at}'")).collect();
        format!("[[patterns]]\nname = \"p{number}\"\nexpressions = [{}]\n", expressions.join(","))
    };
    let full: String = (0..4).map(|number| pattern(number, 50)).collect();
    assert!(errors(&format!("{HEAD}{full}")).is_empty());
    check(&(full + &pattern(4, 1)), &[(Code::TooMany, 21, "patterns[4].expressions")]);
}

#[test]
fn an_expression_is_reported_at_its_place() {
    let body = "[[patterns]]\nname = \"p\"\nexpressions = ['fine', 'día (', \"a)\"]\n";
    let errors = check(
        body,
        &[
            (Code::InvalidExpression, 9, "patterns[0].expressions[1]"),
            (Code::InvalidExpression, 9, "patterns[0].expressions[2]"),
        ],
    );
    // Within a literal string, the column is that of the character itself.
    assert_eq!(errors[0].column, "expressions = ['fine', 'día (".chars().count());
    assert!(errors[0].message.contains("at character 5"), "{}", errors[0].message);
    assert_eq!(errors[1].column, "expressions = ['fine', 'día (', \"".chars().count());
}

#[test]
fn an_expression_may_not_cost_too_much_nor_match_everything() {
    for (expression, code) in [
        (r"(\w{50}){50}", Code::ExpressionTooLarge),
        (r"((a{100}){100}){100}", Code::ExpressionTooLarge),
        (&format!("{}a{}", "(".repeat(100), ")".repeat(100)), Code::InvalidExpression),
        ("a*", Code::InvalidExpression),
        ("^$", Code::InvalidExpression),
        (r"(?=x)", Code::InvalidExpression),
        (r"(a)\1", Code::InvalidExpression),
    ] {
        let body = format!("[[patterns]]\nname = \"p\"\nexpressions = ['{expression}']\n");
        check(&body, &[(code, 9, "patterns[0].expressions[0]")]);
    }
}

#[test]
fn templates_are_read_before_anybody_needs_them() {
    let body = r#"[[patterns]]
name = "p"

[patterns.templates]
es = [
    "{txet}",
    "{text",
    { text = "{keyword}", format = "pdf" },
    { format = "html" },
    { text = "ok", structured = { list = ["{nope}"], title = "}" } },
    { text = "ok", structured = "x" },
]
fr = ["salut"]
en = []
"#;
    let errors = check(
        body,
        &[
            (Code::UnknownPlaceholder, 12, "patterns[0].templates.es[0]"),
            (Code::InvalidTemplate, 13, "patterns[0].templates.es[1]"),
            (Code::InvalidTemplate, 14, "patterns[0].templates.es[2].text"),
            (Code::InvalidValue, 14, "patterns[0].templates.es[2].format"),
            (Code::MissingKey, 15, "patterns[0].templates.es[3].text"),
            (Code::UnknownPlaceholder, 16, "patterns[0].templates.es[4].structured.list[0]"),
            (Code::InvalidTemplate, 16, "patterns[0].templates.es[4].structured.title"),
            (Code::WrongType, 17, "patterns[0].templates.es[5].structured"),
            (Code::UndeclaredLanguage, 19, "patterns[0].templates.fr"),
            (Code::Empty, 20, "patterns[0].templates.en"),
        ],
    );
    assert!(errors[0].message.contains("did you mean `text`?"), "{}", errors[0].message);
    assert!(errors[2].message.contains("{keyword|something}"), "{}", errors[2].message);
}

// S001-BP-02
#[test]
fn transitions_and_refusals_are_whole() {
    let body = r#"[[patterns]]
name = "p"
transition = { suggest_spec = "demo", confidence = 1.5 }
error = { code = "INSUFICIENT_CONTEXT", message = {}, below_characters = 0, fallback_spec = "Not An Id" }
[[patterns]]
name = "q"
error = { code = "VALIDATION_ERROR", message = { en = "short" }, below_characters = 5 }
"#;
    let errors = check(
        body,
        &[
            (Code::MissingKey, 9, "patterns[0].transition.reason"),
            (Code::InvalidValue, 9, "patterns[0].transition.suggest_spec"),
            (Code::OutOfRange, 9, "patterns[0].transition.confidence"),
            (Code::InvalidValue, 10, "patterns[0].error.code"),
            (Code::Empty, 10, "patterns[0].error.message"),
            (Code::OutOfRange, 10, "patterns[0].error.below_characters"),
            (Code::InvalidName, 10, "patterns[0].error.fallback_spec"),
            (Code::NoTemplate, 13, "patterns[1].error"),
        ],
    );
    assert!(errors[3].message.contains("did you mean `INSUFFICIENT_CONTEXT`?"), "{}", errors[3].message);
}

#[test]
fn limits_leave_room_for_a_text() {
    check(
        "limits = { min_characters = 10, max_characters = 9 }\n",
        &[(Code::OutOfRange, 7, "limits.max_characters")],
    );
    check(
        "limits = { min_characters = -1, too_short = { fr = \"x\" } }\n",
        &[
            (Code::OutOfRange, 7, "limits.min_characters"),
            (Code::UndeclaredLanguage, 7, "limits.too_short.fr"),
        ],
    );
}

#[test]
fn the_agent_template_needs_a_template() {
    let own = HEAD.replace("somebody", "template");
    check_whole(&own, &[(Code::NoTemplate, 5, "patterns")]);
    check_whole(
        &(own.clone() + "[[patterns]]\nname = \"p\"\nphrases = [\"x\"]\n"),
        &[(Code::NoTemplate, 7, "patterns")],
    );
    // The error is reported together with other errors, but not if the templates themselves are invalid.
    check_whole(
        &(own.clone() + "zzz = 1\n"),
        &[(Code::NoTemplate, 5, "patterns"), (Code::UnknownKey, 7, "zzz")],
    );
    let broken = "[[patterns]]\nname = \"p\"\ntemplates = 3\n";
    check_whole(&(own.clone() + broken), &[(Code::WrongType, 9, "patterns[0].templates")]);
    let two = "fallback_pattern = \"p\"\n[[patterns]]\nname = \"p\"\n[[patterns]]\nname = \"q\"\ntemplates.en = [\"x\"]\n";
    check_whole(&(own + two), &[(Code::NoTemplate, 7, "fallback_pattern")]);
}

#[test]
fn rules_between_files_name_the_file_that_came_second() {
    let first = format!("{HEAD}default = true\n");
    let files = [
        ("a.toml", first.clone()),
        ("b.toml", first.clone()),
        ("c.toml", first.replace("\"demo\"", "\"other\"")),
    ];
    let errors = Catalogue::read(&files).unwrap_err();
    let found: Vec<(&str, Code, usize, &str)> = errors
        .iter()
        .map(|error| (error.file.as_str(), error.code, error.line, error.key.as_str()))
        .collect();
    assert_eq!(
        found,
        [
            ("b.toml", Code::DuplicateId, 1, "id"),
            ("b.toml", Code::SecondDefault, 7, "default"),
            ("c.toml", Code::SecondDefault, 7, "default"),
        ]
    );
    assert!(errors[0].message.contains("a.toml"));
}

#[test]
fn every_file_is_read_whatever_the_others_say() {
    let files = [("a.toml", "= 1"), ("b.toml", HEAD), ("c.toml", "id = 3\n"), ("d.toml", HEAD)];
    let errors = Catalogue::read(&files).unwrap_err();
    let files: Vec<&str> = errors.iter().map(|error| error.file.as_str()).collect();
    assert_eq!(files, ["a.toml", "c.toml", "c.toml", "c.toml", "c.toml", "c.toml", "d.toml"]);
}

#[test]
fn a_flood_of_errors_is_counted_and_not_printed() {
    let keys: String = (0..1_000).fold(String::new(), |mut text, number| {
        writeln!(text, "k{number} = 1").unwrap();
        text
    });
    let errors = errors(&format!("{HEAD}{keys}"));
    assert_eq!(errors.len(), MAX_ERRORS_PER_FILE + 1);
    let last = errors.last().unwrap();
    assert_eq!(last.code, Code::MoreErrors);
    assert!(last.message.contains("and 900 more errors"), "{}", last.message);
}

#[test]
fn an_error_is_printed_as_compilers_do() {
    let errors = check("keyword = [\"x\"]\n", &[(Code::UnknownKey, 7, "keyword")]);
    assert_eq!(
        errors[0].to_string(),
        "demo.toml:7:1: keyword: there is no key `keyword` here; did you mean `keywords`? (UNKNOWN_KEY)"
    );
    let json = serde_json::to_value(&errors[0]).unwrap();
    assert_eq!((json["code"].as_str(), json["line"].as_u64()), (Some("UNKNOWN_KEY"), Some(7)));
}

#[test]
fn a_catalogue_is_sorted_by_id_whatever_the_order_of_the_files() {
    let file = |id: &str| (format!("{id}.toml"), HEAD.replace("demo", id));
    let catalogue = Catalogue::read(&[file("beta"), file("alpha")]).unwrap();
    let ids: Vec<&str> = catalogue.specs().iter().map(|spec| spec.id.as_str()).collect();
    assert_eq!(ids, ["alpha", "beta"]);
}
