use super::*;

/// A spec without findings.
const GOOD: &str = r#"id = "ID"
title = "Demo"
description = "Shows"
languages = ["en"]
contract_version = "1.0.0"
default = true
keywords = ["harbour", "lighthouse"]

[[patterns]]
name = "hello"
phrases = ["good day"]
templates.en = ["Hello"]

[[intents]]
name = "greet"
pattern = "hello"
examples.en = ["one boat", "two boats", "three nets", "four sails", "five oars"]
"#;

fn good(id: &str) -> String {
    GOOD.replace("ID", id)
}

fn findings(files: &[String]) -> Vec<Finding> {
    let files: Vec<(String, &String)> =
        files.iter().enumerate().map(|(at, text)| (at.to_string(), text)).collect();
    lint(&Catalogue::read(&files).unwrap())
}

/// Checks that one file has exactly these findings, by rule, severity and key.
#[track_caller]
fn check(file: &str, expected: &[(Rule, Severity, &str)]) {
    let findings = findings(&[file.to_owned()]);
    let found: Vec<(Rule, Severity, &str)> =
        findings.iter().map(|finding| (finding.rule, finding.severity, finding.key.as_str())).collect();
    assert_eq!(found, expected, "{findings:#?}");
    assert!(findings.iter().all(|finding| !finding.message.is_empty() && !finding.advice.is_empty()));
}

#[test]
fn a_good_spec_has_no_findings() {
    check(&good("demo"), &[]);
    assert!(lint(&Catalogue::default()).is_empty());
}

#[test]
fn a_catalogue_without_a_default_says_so() {
    check(&good("demo").replace("default = true\n", ""), &[(Rule::NoDefault, Severity::Warning, "")]);
}

#[test]
fn a_missing_description_is_noted() {
    let file = good("demo").replace("description = \"Shows\"\n", "");
    check(&file, &[(Rule::MissingDescription, Severity::Note, "description")]);
}

#[test]
fn keywords_and_examples_of_two_specs_are_found_however_they_are_written() {
    let other = good("other")
        .replace("default = true\n", "")
        .replace("harbour", "HARBOUR!")
        .replace("lighthouse", "quay")
        .replace("one boat", "One  boat.")
        .replace(
            "\"two boats\", \"three nets\", \"four sails\", \"five oars\"",
            "\"a\", \"b\", \"c\", \"d\", \"e\"",
        );
    let findings = findings(&[good("demo"), other]);
    let found: Vec<(Option<&str>, Rule, &str)> = findings
        .iter()
        .map(|finding| (finding.spec.as_deref(), finding.rule, finding.key.as_str()))
        .collect();
    assert_eq!(
        found,
        [
            (Some("demo"), Rule::SharedKeyword, "keywords[0]"),
            (Some("demo"), Rule::IdenticalExample, "intents[0].examples"),
            (Some("other"), Rule::SharedKeyword, "keywords[0]"),
            (Some("other"), Rule::IdenticalExample, "intents[0].examples"),
        ]
    );
    assert!(findings[0].message.contains("other"), "{}", findings[0].message);
}

#[test]
fn an_example_of_two_intents_of_one_spec_is_found() {
    let file = good("demo")
        + "[[intents]]\nname = \"row\"\nexamples.en = [\"five oars\", \"a\", \"b\", \"c\", \"d\"]\n";
    check(
        &file,
        &[
            (Rule::IdenticalExample, Severity::Warning, "intents[0].examples"),
            (Rule::IdenticalExample, Severity::Warning, "intents[1].examples"),
        ],
    );
}

#[test]
fn a_keyword_that_every_text_has_is_found() {
    let file = good("demo").replace("\"harbour\"", "\"what is\", \"what harbour\"");
    check(&file, &[(Rule::StopWordKeyword, Severity::Warning, "keywords[0]")]);
}

#[test]
fn few_examples_are_found() {
    check(
        &good("demo").replace(", \"five oars\"", ""),
        &[(Rule::FewExamples, Severity::Warning, "intents[0].examples")],
    );
}

#[test]
fn a_spec_that_nothing_leads_to_is_found() {
    let file = "id = \"demo\"\ntitle = \"Demo\"\ndescription = \"x\"\nlanguages = [\"en\"]\n\
                contract_version = \"1.0.0\"\nagent = \"other\"\ndefault = true\n";
    check(file, &[(Rule::NothingToMatch, Severity::Warning, "")]);
}

#[test]
fn a_language_without_examples_or_templates_is_found() {
    let file = good("demo").replace("[\"en\"]", "[\"en\", \"es\"]");
    check(
        &file,
        &[
            (Rule::LanguageWithoutExamples, Severity::Warning, "languages"),
            (Rule::LanguageWithoutTemplates, Severity::Warning, "languages"),
        ],
    );
    // Other agents need no templates, and examples without a language may be in any language.
    let file = file.replace("default", "agent = \"other\"\ndefault").replace("examples.en", "examples");
    check(&file, &[]);
}

#[test]
fn a_pattern_without_templates_in_one_of_the_languages_is_noted() {
    let file = good("demo")
        .replace("[\"en\"]", "[\"en\", \"es\"]")
        .replace("examples.en", "examples")
        .replace("[[intents]]", "[[patterns]]\nname = \"bye\"\nphrases = [\"bye\"]\ntemplates.es = [\"Adiós\"]\n\
                                 error = { code = \"RATE_LIMIT\", message = { en = \"later\" } }\n\n[[intents]]");
    check(
        &file,
        &[
            (Rule::LanguageWithoutTemplates, Severity::Note, "patterns[1].templates"),
            (Rule::LanguageWithoutTemplates, Severity::Note, "patterns[0].templates"),
            (Rule::LanguageWithoutTemplates, Severity::Note, "patterns[1].error.message"),
        ],
    );
}

#[test]
fn a_pattern_that_an_earlier_one_hides_is_found() {
    let hidden = "[[patterns]]\nname = \"late\"\nphrases = [\"A good day, sailor\"]\n\n[[intents]]";
    check(
        &good("demo").replace("[[intents]]", hidden),
        &[(Rule::SubsumedPattern, Severity::Warning, "patterns[1].phrases")],
    );
    // A different phrase, an expression or the other order is enough.
    for pattern in [
        hidden.replace("\"A good", "\"ahoy\", \"A good"),
        hidden.replace("phrases", "expressions = ['ahoy+']\nphrases"),
        hidden.replace("good day", "goods day"),
    ] {
        check(&good("demo").replace("[[intents]]", &pattern), &[]);
    }
}

#[test]
fn a_pattern_that_nothing_leads_to_is_found() {
    let lonely = "[[patterns]]\nname = \"lonely\"\n\n[[intents]]";
    let file = good("demo").replace("[[intents]]", lonely);
    check(&file, &[(Rule::UnreachablePattern, Severity::Warning, "patterns[1]")]);
    check(&file.replace("pattern = \"hello\"", "pattern = \"lonely\""), &[]);
}

#[test]
fn an_expression_that_folded_text_cannot_match_is_found() {
    for (expression, is_found) in [
        ("día", true),
        ("Day", true),
        ("what's", true),
        ("(dia|día)", false),
        (r"\bd[ií]a\b", false),
        ("(?i)Day", false),
        ("good day", false),
        ("day!?", false),
    ] {
        let file =
            good("demo").replace("phrases = ", &format!("expressions = ['''{expression}''']\nphrases = "));
        let found = findings(&[file]).iter().any(|finding| finding.rule == Rule::UnmatchableExpression);
        assert_eq!(found, is_found, "{expression}");
    }
}

// S001-BP-04
#[test]
fn transitions_that_lead_nowhere_or_do_nothing_are_found() {
    let with = |transition: &str| {
        good("demo").replace(
            "templates.en",
            &format!("transition = {{ reason = \"x\", {transition} }}\ntemplates.en"),
        )
    };
    let to_other = |rest: &str| [with(&format!("suggest_spec = \"other\", {rest}")), other()];
    check(
        &with("suggest_spec = \"other\", confidence = 0.7"),
        &[(Rule::UnknownSpec, Severity::Warning, "patterns[0].transition.suggest_spec")],
    );
    assert!(findings(&to_other("confidence = 0.6")).is_empty());
    assert!(findings(&to_other("confidence = 0.81, auto_transition = true")).is_empty());
    for weak in ["confidence = 0.59", "confidence = 0.8, auto_transition = true"] {
        let findings = findings(&to_other(weak));
        assert_eq!(findings.len(), 1, "{weak}");
        assert_eq!(
            (findings[0].rule, findings[0].key.as_str()),
            (Rule::WeakTransition, "patterns[0].transition")
        );
    }
    let fallback = "error = { code = \"RATE_LIMIT\", message = { en = \"x\" }, fallback_spec = \"nobody\" }\ntemplates.en";
    check(
        &good("demo").replace("templates.en", fallback),
        &[(Rule::UnknownSpec, Severity::Warning, "patterns[0].error.fallback_spec")],
    );
}

/// A second spec without findings, which shares nothing with [`GOOD`].
fn other() -> String {
    good("other")
        .replace("default = true\n", "")
        .replace("harbour", "mountain")
        .replace("lighthouse", "valley")
        .replace("boat", "hut")
        .replace("three nets", "ropes")
        .replace("four sails", "peaks")
        .replace("five oars", "snow")
}

#[test]
fn many_findings_of_a_kind_are_counted() {
    let intents: String = (0..30).map(|at| format!("[[intents]]\nname = \"i{at}\"\n")).collect();
    let findings = findings(&[good("demo") + &intents]);
    assert_eq!(findings.len(), MOST_OF_A_RULE + 1);
    assert_eq!(findings.last().unwrap().message, "and 10 more of the same kind");
    let intents: String =
        (0..5).map(|at| format!("[[intents]]\nname = \"i{at}\"\nexamples.en = [\"one boat\"]\n")).collect();
    let shared = &self::findings(&[good("demo") + &intents])[0];
    assert_eq!(shared.message, "`one boat` is an example of demo (i0), demo (i1), demo (i2) and 2 more too");
}

#[test]
fn a_finding_is_one_line_and_serialises_with_stable_names() {
    let finding = &findings(&[good("demo").replace("description = \"Shows\"\n", "")])[0];
    assert_eq!(
        finding.to_string(),
        "note: demo: description: no description; say in a sentence what it is for; the explanation of a decision \
         shows it"
    );
    let json = serde_json::to_value(finding).unwrap();
    assert_eq!(json["rule"], "MISSING_DESCRIPTION");
    assert_eq!(json["severity"], "note");
}
