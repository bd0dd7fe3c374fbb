use proptest::prelude::*;
use serde_json::json;

use super::*;

fn redactor() -> Redactor {
    Redactor::new(&[Regex::new("customer [0-9]+").unwrap()])
}

#[track_caller]
fn check(text: &str, expected: &str) {
    let redactor = redactor();
    assert_eq!(redactor.text(text), expected);
    assert_eq!(redactor.text(expected), expected, "redacting twice is redacting once");
}

#[test]
fn urls_lose_users_and_values_with_the_names_of_secrets() {
    check("https://ana:pw@example.com/x", "https://«secret»@example.com/x");
    check(
        "https://example.com/cb?code=abc&state=1&access_token=x%20y#id_token=z",
        "https://example.com/cb?code=«secret»&state=1&access_token=«secret»#id_token=«secret»",
    );
    check("/login?next=%2Fa%3Ftoken%3Dabc", "/login?next=%2Fa%3Ftoken%3D«secret»");
    check("<a href=\"/a?x=1&amp;sid=77\">", "<a href=\"/a?x=1&amp;sid=«secret»\">");
    check("https://example.com/a?page=2&sort=name", "https://example.com/a?page=2&sort=name");
}

#[test]
fn tokens_and_keys_are_known_by_their_looks() {
    let jwt = ["eyJhbGciOiJIUzI1NiJ9", "eyJzdWIiOiIxMjM0NTY3ODkwIn0", "dozjgNryP4J3jVmNHl0w5N"].join(".");
    check(&format!("jwt: {jwt}!"), "jwt: «secret»!");
    for key in [
        format!("ghp_{}", "a1".repeat(18)),
        format!("sk-proj-{}", "a1".repeat(12)),
        format!("AKIA{}", "ABCDEFGH12345678"),
        format!("AIza{}", "b2".repeat(18)),
        format!("xoxb-{}", "1234567890-abc"),
    ] {
        check(&format!("the key {key} is"), "the key «secret» is");
    }
    check("Authorization: Basic YW5hOnB3", "Authorization: «secret»");
    check("curl -H 'x' bearer abcdef123456", "curl -H 'x' bearer «secret»");
    check("Cookie: sid=1; theme=dark\nx", "Cookie: «secret»\nx");
    check("api_key=\"0123456789abcdef\"", "api_key=\"«secret»\"");
    check("{\"password\": \"hunter2hunter2\"}", "{\"password\": \"«secret»\"}");
    check("setItem(\"token\", \"s4Gh8Jk2Lm6Np0Qr\");", "setItem(\"token\", \"«secret»\");");
    check("headers.set('X-Api-Key', 'h0pQ1rS2tU3v')", "headers.set('X-Api-Key', '«secret»')");
    let pem = "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----";
    check(&format!("a {pem} b"), "a «secret» b");
}

#[test]
fn plain_text_about_secrets_stays_readable() {
    for text in [
        "Basic information about bearer instruments",
        "Password: required",
        "Token: expired",
        "Your session: active",
        "sk-circle-fade-dots",
        "[\"token\", \"something\"]",
        "Cookie: we like them",
        "Order 4111 of 1999, 2026-11-21, +34 600 100 200",
        "1700000000000",
    ] {
        check(text, text);
    }
}

#[test]
fn card_numbers_are_found_among_other_digits() {
    check("4111111111111111", "«secret»");
    check("card 4111 1111 1111 1111 05/27", "card «secret» 05/27");
    check("12 5500-0000-0000-0004 99", "12 «secret» 99");
    check("378282246310005,", "«secret»,");
    check("4111111111111112", "4111111111111112");
}

#[test]
fn patterns_of_the_policy_are_masked_as_a_whole_or_by_their_group() {
    check("about customer 77.", "about «secret».");
    let redactor = Redactor::new(&[Regex::new("id (?P<secret>[0-9]+)").unwrap(), Regex::new("x*").unwrap()]);
    assert_eq!(redactor.text("id 12"), "id «secret»");
    assert_eq!(redactor.text("axxb"), "a«secret»b");
}

#[test]
fn a_learned_secret_is_masked_in_every_form_in_which_it_comes_back() {
    let mut redactor = redactor();
    redactor.learn("p&ss \"wörd\"/1");
    for form in [
        "p&ss \"wörd\"/1",
        "p%26ss%20%22w%C3%B6rd%22%2F1",
        "p%26ss+%22w%C3%B6rd%22%2F1",
        "p&amp;ss &quot;wörd&quot;/1",
        r#"p&ss \"wörd\"/1"#,
        r#"p&ss \"wörd\"\/1"#,
    ] {
        assert_eq!(redactor.text(&format!("a {form} b")), "a «secret» b");
    }
    let header = "YW5hOnAmc3MgInfDtnJkIi8x";
    assert!(redactor.text(header).contains(MASK), "within the base64 of `ana:…`");
}

#[test]
fn a_short_secret_is_masked_only_where_it_stands_alone() {
    let mut redactor = redactor();
    redactor.learn("42");
    redactor.learn("");
    assert_eq!(redactor.text("42, 1423, a42"), "«secret», 1423, a42");
}

#[test]
fn a_secret_that_is_a_part_of_the_mask_does_not_make_masks_grow() {
    let mut redactor = redactor();
    redactor.learn("secret");
    assert_eq!(redactor.text("a secret «secret»"), "a «secret» «secret»");
}

#[test]
fn json_is_redacted_in_texts_and_under_the_names_of_secrets() {
    let mut value = json!({"a": ["https://u:p@h/"], "csrfToken": "x", "password": "y", "n": 1, "token": 2});
    assert!(redactor().json(&mut value));
    assert_eq!(
        value,
        json!({"a": ["https://«secret»@h/"], "csrfToken": "«secret»", "password": "«secret»", "n": 1, "token": 2})
    );
    assert!(!redactor().json(&mut value));
}

#[test]
fn what_is_found_is_told_as_it_stands_in_the_text() {
    let mut redactor = redactor();
    redactor.learn("horse");
    let check = |text: &str, expected: &[&str]| {
        let found: Vec<&str> = redactor.found(text).into_iter().map(|range| &text[range]).collect();
        assert_eq!(found, expected, "{text}");
    };
    check("nothing here", &[]);
    check("ñ a horse, 4111 1111 1111 1111, /cb?code=1 and «secret»", &["horse", "4111 1111 1111 1111", "1"]);
    // The pattern of the policy finds the mask of what was found before it, and what stands beside that.
    let redactor = Redactor::new(&[Regex::new("key .* end").unwrap()]);
    let text = "a key 4111111111111111 end 378282246310005";
    let found: Vec<&str> = redactor.found(text).into_iter().map(|range| &text[range]).collect();
    assert_eq!(found, ["key 4111111111111111 end", "378282246310005"]);
}

/// Pieces out of which secrets, addresses and plain words come about.
fn any_text() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        ".{0,6}",
        Just("token=".to_owned()),
        Just("password: ".to_owned()),
        Just("https://".to_owned()),
        Just("@".to_owned()),
        Just("Bearer ".to_owned()),
        Just("Cookie: a=".to_owned()),
        Just("?code=".to_owned()),
        Just("«secret»".to_owned()),
        Just("eyJhbGciOiJ.abcd1234.x".to_owned()),
        "[0-9]{1,8}[ -]?",
        "[a-z0-9]{8,20}",
        Just("4111 1111 1111 1111".to_owned()),
        Just("\"".to_owned()),
        Just("-----BEGIN PRIVATE KEY-----".to_owned()),
    ];
    proptest::collection::vec(pieces, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn nothing_makes_it_panic_and_twice_is_once(text in any_text(), secret in ".{0,12}") {
        let mut redactor = redactor();
        redactor.learn(&secret);
        let once = redactor.text(&text).into_owned();
        prop_assert_eq!(redactor.text(&once).into_owned(), once.clone());
    }

    #[test]
    fn all_that_is_masked_is_found_and_nothing_else(text in any_text(), secret in ".{0,12}") {
        let mut redactor = redactor();
        redactor.learn(&secret);
        let mut rebuilt = String::new();
        let mut copied = 0;
        for range in redactor.found(&text) {
            prop_assert!(!range.is_empty() && range.start >= copied);
            rebuilt.push_str(&text[copied..range.start]);
            rebuilt.push_str(MASK);
            copied = range.end;
        }
        rebuilt.push_str(&text[copied..]);
        prop_assert_eq!(rebuilt, redactor.text(&text).into_owned());
    }

    /// Texts of one value are looked at together first; none of them may hide another's secrets.
    #[test]
    fn texts_of_a_value_are_redacted_as_each_would_be_alone(
        texts in proptest::collection::vec(any_text(), 1..6),
        secret in ".{0,12}",
        has_patterns in any::<bool>(),
    ) {
        let mut redactor = if has_patterns { redactor() } else { Redactor::new(&[]) };
        redactor.learn(&secret);
        let each: Vec<String> = texts.iter().map(|text| redactor.text(text).into_owned()).collect();
        let mut together = json!(texts);
        let redacted = redactor.json(&mut together);
        prop_assert_eq!(&together, &json!(each));
        prop_assert_eq!(redacted, each != texts);
    }

    #[test]
    fn a_planted_secret_never_stays(before in any_text(), after in any_text(), secret in "[!-~ñé ]{4,20}") {
        prop_assume!(!secret.trim().is_empty() && !MASK.contains(secret.trim()));
        let mut redactor = redactor();
        redactor.learn(&secret);
        for form in [secret.clone(), serde_json::Value::from(secret.as_str()).to_string()] {
            let text = format!("{before}{form}{after}");
            let redacted = redactor.text(&text).into_owned();
            prop_assert!(!redacted.contains(&secret), "{redacted}");
        }
    }
}

#[test]
fn only_what_is_long_or_peculiar_is_a_secret_wherever_it_appears() {
    for peculiar in
        ["hunter2", "a-b-c", "correct horse", "Tr0ub4dor-y-tres", "12345!", "anticonstitutionnellement"]
    {
        assert!(is_peculiar(peculiar), "{peculiar}");
    }
    for common in ["", "1234", "test", "secret", "Password", "123456", "a1", "ana maría", "my house"] {
        assert!(!is_peculiar(common), "{common}");
    }
}
