//! A click reaches the element that was meant, or nothing at all; and what is reported is what happened.

use crate::bench::Bench;

/// What one click on the element with the test id `target` came to.
#[derive(Debug, PartialEq)]
struct Came {
    /// The code of the click's error; empty where it succeeded.
    code: String,
    /// What the page says of itself: its handlers write into the element `status`, synchronously.
    says: String,
}

/// Opens the page, clicks, and has the page say what was clicked. A script for itself, so that the browser is a fresh one.
async fn click(bench: &Bench, path: &str, limit: &str) -> Came {
    let ended = bench
        .run(&format!(
            r#"
            name = "race"
            [policy]
            allowlist = ["{{site}}", "{{other}}"]
            [[actions]]
            id = "open"
            kind = "navigate"
            url = "http://{{site}}{path}"
            [[actions]]
            id = "click"
            kind = "click"
            target = {{ testid = "target" }}
            timeout = "{limit}"
            on_failure = "continue"
            [[actions]]
            id = "says"
            kind = "extract"
            target = {{ testid = "status" }}
            extract = "text"
            output = "says"
            "#
        ))
        .await;
    let code = ended.code_of("click").to_owned();
    assert_eq!(ended.finish_of("click").is_none(), !code.is_empty(), "{path}: it either failed or succeeded");
    assert!(ended.finish_of("says").is_some(), "{path}: {:?}", ended.result);
    Came { code, says: ended.output("says").as_str().unwrap().to_owned() }
}

/// What is not to be clicked for as long as this; all of it is waited.
const IN_VAIN: &str = "4s";

/// Far longer than it takes until it is known what became of a click.
const IN_TIME: &str = "120s";

/// Each page is opened and clicked within a limit. `wanted` has the codes that are right, none where the click has to arrive.
async fn check(pages: &[(&str, &str, &[&str])]) {
    let bench = Bench::start().await;
    let mut wrong = Vec::new();
    for (path, limit, wanted) in pages {
        let before = bench.site.hits("/hit/target");
        let came = click(&bench, path, limit).await;
        let is_right = match wanted {
            [] => came.code.is_empty() && came.says == "saved",
            codes => codes.contains(&came.code.as_str()) && came.says.is_empty(),
        };
        // Handlers count their clicks by requests, which come when they come: for one that was clicked it is waited.
        if wanted.is_empty() && is_right {
            bench.site.until_hits("/hit/target", before + 1).await;
        }
        if !is_right {
            wrong.push(format!("{path}: {came:?}, wanted {wanted:?}"));
        }
        assert_eq!(
            bench.site.hits("/hit/target"),
            before + usize::from(wanted.is_empty()),
            "{path}: {came:?}"
        );
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    for stranger in ["overlay", "replacement", "wrong"] {
        let path = format!("/hit/{stranger}");
        assert_eq!(bench.site.hits(&path) + bench.site.hits_of_other(&path), 0, "{stranger} was clicked");
    }
}

const NOT_THERE: &str = "TARGET_NOT_FOUND";
const COVERED: &str = "OVERLAY_BLOCKING";
const NOT_READY: &str = "PRECONDITION_FAILED";

#[tokio::test]
async fn a_target_that_moves_goes_or_is_exchanged_is_clicked_or_nothing_is() {
    check(&[
        ("/button/moving", IN_VAIN, &[NOT_READY]),
        ("/button/moving-stops", IN_TIME, &[]),
        ("/button/late", IN_TIME, &[]),
        ("/button/late-enabled", IN_TIME, &[]),
        ("/button/replaced-on-hover", IN_VAIN, &[NOT_THERE]),
        ("/button/replaced-on-mousedown", IN_TIME, &[COVERED]),
        // What is stopped at the other button is tried again where the target is now.
        ("/button/shifts", IN_TIME, &[]),
        ("/button/detaches", IN_VAIN, &[NOT_THERE]),
    ])
    .await;
}

#[tokio::test]
async fn what_lies_over_the_target_gets_nothing_and_is_named_as_the_reason() {
    check(&[
        ("/overlay/banner", IN_VAIN, &[COVERED]),
        ("/overlay/transparent", IN_VAIN, &[COVERED]),
        ("/overlay/partial", IN_VAIN, &[COVERED]),
        ("/overlay/shadow", IN_VAIN, &[COVERED]),
        ("/overlay/passes-through", IN_TIME, &[]),
    ])
    .await;
}

#[tokio::test]
async fn an_overlay_that_comes_with_the_pointer_gets_nothing() {
    check(&[
        ("/overlay/at-pointermove", IN_VAIN, &[COVERED]),
        ("/overlay/at-pointerdown", IN_TIME, &[COVERED]),
    ])
    .await;
}

#[tokio::test]
async fn an_iframe_over_the_target_gets_nothing_whoever_it_belongs_to() {
    check(&[("/overlay/iframe", IN_VAIN, &[COVERED]), ("/overlay/cross-iframe", IN_VAIN, &[COVERED])]).await;
}

#[tokio::test]
async fn an_overlay_is_named_so_that_a_person_finds_it() {
    let bench = Bench::start().await;
    let ended = bench
        .run(
            r#"
            name = "covered"
            [[actions]]
            id = "open"
            kind = "navigate"
            url = "http://{site}/overlay/banner"
            [[actions]]
            id = "click"
            kind = "click"
            target = { testid = "target" }
            timeout = "2s"
            "#,
        )
        .await;
    let error = ended.error();
    assert_eq!(error.error_code, COVERED);
    let details = crate::support::details(&error);
    assert!(details["overlay_selector"].as_str().unwrap().contains("#banner"), "{details}");
    assert_eq!(details["overlay_text"], "Cookies");
    let kinds: Vec<&str> = error.evidence_refs.iter().map(|piece| piece.kind.as_str()).collect();
    assert!(kinds.contains(&"screenshot_before"), "{kinds:?}");
    assert_eq!(bench.site.hits("/hit/overlay") + bench.site.hits("/hit/target"), 0);
}
