//! Documents of other versions of the contract.

use serde_json::{Value, json};

use crate::{Kind, check, fixture, with};

/// The document with an unknown key in each of its objects that the contract describes.
fn with_additions(kind: Kind, version: &str) -> Value {
    let objects: &[&str] = match kind {
        Kind::Request => &[
            "",
            "/routing",
            "/routing/alternatives/0",
            "/context",
            "/context/confidence_breakdown",
            "/conversation",
            "/conversation/history/0",
            "/conversation/history/1",
            "/user",
            "/metadata",
        ],
        Kind::Response => &["", "/response", "/metadata", "/transition", "/context_update"],
    };
    let document = with(fixture("full", kind), "/contract_version", json!(version));
    objects.iter().fold(document, |document, object| {
        let value = json!({"at": object, "list": [0, -0.0, "", null, u64::MAX, {}]});
        with(with(document, &format!("{object}/added"), value), &format!("{object}/extra"), json!([]))
    })
}

// S001-VE-03
#[test]
fn what_a_newer_minor_version_adds_is_kept_in_its_place() {
    for kind in [Kind::Request, Kind::Response] {
        for version in ["1.1.0", "1.20.3", "1.1.0-beta.1+build"] {
            let document = with_additions(kind, version);
            assert_eq!(kind.print_again(document.to_string().as_bytes()), Ok(document));
        }
    }
    let failure = with(fixture("recoverable-error", Kind::Response), "/contract_version", json!("1.1.0"));
    let failure = crate::without(with(failure, "/error/retry_in", json!(5)), "/metadata/pattern_used");
    assert_eq!(Kind::Response.print_again(failure.to_string().as_bytes()), Ok(failure));
}

// S001-VE-01, S001-VE-04
#[test]
fn the_same_minor_version_adds_nothing() {
    for version in ["1.0.0", "1.0.1", "1.0.0-rc.1"] {
        let document = with(fixture("full", Kind::Response), "/contract_version", json!(version));
        check(Kind::Response, &document, &[]);
        check(Kind::Response, &with(document, "/metadata/added", json!(1)), &["metadata.added unknown_key"]);
    }
    check(
        Kind::Response,
        &with_additions(Kind::Response, "1.0.0"),
        &[
            "added unknown_key",
            "context_update.added unknown_key",
            "context_update.extra unknown_key",
            "extra unknown_key",
            "metadata.added unknown_key",
            "metadata.extra unknown_key",
            "response.added unknown_key",
            "response.extra unknown_key",
            "transition.added unknown_key",
            "transition.extra unknown_key",
        ],
    );
}

#[test]
fn a_newer_minor_version_keeps_the_rules_of_this_one() {
    let document = with(fixture("full", Kind::Request), "/contract_version", json!("1.1.0"));
    check(
        Kind::Request,
        &with(document.clone(), "/routing/confidence", json!(2)),
        &["routing.confidence range"],
    );
    check(Kind::Request, &with(document.clone(), "/text", json!("")), &["text blank"]);
    check(Kind::Request, &with(document, "/spec", json!(1)), &["spec type"]);
}

// S001-VE-02
#[test]
fn another_major_version_is_told_so_and_nothing_else() {
    let document = json!({"contract_version": "2.0.0", "messages": []});
    check(Kind::Request, &document, &["contract_version INCOMPATIBLE_VERSION"]);
    check(Kind::Response, &document, &["contract_version INCOMPATIBLE_VERSION"]);
}
