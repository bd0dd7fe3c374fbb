//! Spec files of any form: nothing panics, every error has a place, and written values are read back.

use capataz_router::Catalogue;
use proptest::prelude::*;

/// Values that occur in spec files, and values that should not occur.
fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("1".to_owned()),
        Just("-0.0".to_owned()),
        Just("nan".to_owned()),
        Just("true".to_owned()),
        Just("2026-01-01".to_owned()),
        Just("\"es\"".to_owned()),
        Just("\"{text}\"".to_owned()),
        Just("'(a|'".to_owned()),
        "\"[a-zé{}| ]{0,12}\"",
    ];
    let key = prop_oneof![
        Just("text"),
        Just("name"),
        Just("es"),
        Just("weight"),
        Just("code"),
        Just("message"),
        Just("templates"),
        Just("examples"),
        Just("structured"),
        Just("custom"),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::btree_map(key.clone(), inner, 0..4).prop_map(|entries| {
                let entries: Vec<String> =
                    entries.into_iter().map(|(key, value)| format!("{key} = {value}")).collect();
                format!("{{ {} }}", entries.join(", "))
            }),
        ]
    })
}

fn top_level_key() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "id",
        "title",
        "description",
        "languages",
        "tone",
        "response_style",
        "contract_version",
        "capabilities",
        "keywords",
        "patterns",
        "intents",
        "agent",
        "error_codes",
        "default",
        "fallback_pattern",
        "limits",
    ])
}

/// A text that can be matched, with any other characters that a person may type.
fn text() -> impl Strategy<Value = String> {
    "[a-zñé][^\\p{C}]{0,30}"
}

proptest! {
    #[test]
    fn what_is_written_as_toml_is_what_is_read(
        id in "[a-z0-9]{1,8}(-[a-z0-9]{1,8}){0,3}",
        title in text(),
        words in prop::collection::btree_map("[a-z]{1,12}", 0.001f64..=10.0, 0..8),
        examples in prop::collection::vec(text(), 0..8),
        template in text(),
        structured in text(),
        min_characters in 1usize..50,
    ) {
        let braces = |text: &str| text.replace('{', "{{").replace('}', "}}");
        let keywords: Vec<toml::Table> = words
            .iter()
            .map(|(word, weight)| toml::toml! { text = (word.clone()) weight = (*weight) })
            .collect();
        let document = toml::toml! {
            id = (id.clone())
            title = (title.clone())
            languages = ["es"]
            contract_version = "1.0.0"
            keywords = (keywords)
            limits = { min_characters = (i64::try_from(min_characters).unwrap_or(1)) }
            [[patterns]]
            name = "p"
            [[patterns.templates.es]]
            text = (braces(&template))
            structured = { part = (braces(&structured)) }
            [[intents]]
            name = "i"
            examples = { es = (examples.clone()) }
        };
        let file = toml::to_string(&document).unwrap();
        let catalogue = Catalogue::read(&[("x.toml", file)]).map_err(|errors| TestCaseError::fail(format!("{errors:?}")))?;
        let spec = catalogue.find(&id).unwrap();
        prop_assert_eq!(&spec.title, &title);
        let read: std::collections::BTreeMap<String, f64> =
            spec.keywords.iter().map(|keyword| (keyword.text.clone(), keyword.weight)).collect();
        prop_assert_eq!(read, words);
        let read: Vec<String> = spec.intents[0].examples.iter().map(|(_, example)| example.clone()).collect();
        prop_assert_eq!(read, examples);
        prop_assert_eq!(&spec.patterns[0].templates["es"][0].text, &braces(&template));
        prop_assert_eq!(spec.limits.min_characters, min_characters);
        // An escaped value is answered in its original form.
        let request = serde_json::json!({
            "id": "r", "timestamp": 0, "spec": id, "text": "x".repeat(min_characters),
            "routing": { "confidence": 1 }, "context": {},
        });
        let answer = capataz_router::template::answer(spec, &request, 0);
        prop_assert_eq!(answer["response"]["text"].as_str(), Some(template.as_str()));
        prop_assert_eq!(answer["response"]["structured"]["part"].as_str(), Some(structured.as_str()));
    }

    #[test]
    fn any_bytes_are_a_catalogue_or_errors(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        if let Err(errors) = Catalogue::read(&[("x.toml", bytes)]) {
            prop_assert!(!errors.is_empty());
        }
    }

    #[test]
    fn any_document_is_a_catalogue_or_errors_with_places(
        entries in prop::collection::btree_map(top_level_key(), value(), 0..10),
        damage in prop::option::of((0usize..300, any::<char>())),
    ) {
        let mut text: String = entries.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        if let Some((place, letter)) = damage {
            let place = text.floor_char_boundary(place);
            text.insert(place, letter);
        }
        let lines = text.lines().count().max(1) + 1;
        if let Err(errors) = Catalogue::read(&[("x.toml", &text)]) {
            prop_assert!(!errors.is_empty());
            for error in errors {
                prop_assert!(error.line >= 1 && error.line <= lines && error.column >= 1, "{error}");
            }
        }
    }
}
