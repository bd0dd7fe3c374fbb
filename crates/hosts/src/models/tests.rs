//! What a configuration may say of a model, and what its tokens cost.

use capataz_model::Usage;

use super::ModelAgent;

fn parsed(more: &str) -> Result<ModelAgent, String> {
    let text = format!(
        "name = \"brain\"\nprotocol = \"openai\"\nbase_url = \"https://api.example/v1\"\nmodel = \"m\"\n{more}"
    );
    toml::from_str(&text).map_err(|error| error.to_string())
}

#[test]
fn all_that_is_wrong_with_a_model_is_told() {
    assert_eq!(parsed("").unwrap().validate(), []);
    assert_eq!(parsed("key = \"${secret:KEY}\"\nsilence_ms = \"2m\"").unwrap().validate(), []);
    let wrong = parsed(
        "key = \"sk-in-clear-text\"\ntemperature = 3.0\nmax_tokens = 0\nsilence_ms = 0\nmax_concurrency = 0\n\
         price = { input = -1.0, output = inf, currency = \"dollars\" }",
    );
    let violations = wrong.unwrap().validate();
    let paths: Vec<&str> = violations.iter().map(|violation| violation.path.as_str()).collect();
    let expected = [
        "max_tokens",
        "temperature",
        "key",
        "silence_ms",
        "max_concurrency",
        "price.input",
        "price.output",
        "price.currency",
    ];
    assert_eq!(paths, expected);
    assert!(!format!("{violations:?}").contains("sk-in-clear-text"));
    for unknown in ["api_key = \"x\"", "protocol = \"gopher\"", "silence_ms = \"soon\"", "kind = \"spec\""] {
        assert!(parsed(unknown).is_err(), "{unknown}");
    }
    for key in ["${secret:}", "${secret:A B}", "x${secret:A}", "${secret:A}\n"] {
        let agent = ModelAgent { key: Some(key.to_owned()), ..parsed("").unwrap() };
        assert_eq!(agent.validate().len(), 1, "{key:?}");
    }
}

#[test]
fn tokens_cost_what_a_million_of_them_costs_and_those_from_a_cache_are_not_paid_twice() {
    let agent = parsed("price = { input = 0.25, output = 2.0, cached = 0.025, currency = \"USD\" }").unwrap();
    let usage = Usage { input_tokens: Some(1_000), output_tokens: Some(10), cached_tokens: Some(400) };
    let used = agent.used(usage).unwrap();
    let cost = used.cost.unwrap();
    // 600 × 0.25 + 400 × 0.025 + 10 × 2 millionths: 180 of them, in billionths.
    assert_eq!((cost.nanos, cost.currency.as_str()), (180_000, "USD"));
    assert_eq!(agent.used(Usage::default()), None, "nobody has counted");
    let without = parsed("").unwrap().used(usage).unwrap();
    assert_eq!((without.input_tokens, without.cost), (Some(1_000), None));
}
