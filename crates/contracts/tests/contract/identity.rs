//! Print and parse undo each other, and no input is left without an answer.

use capataz_contracts::plan_file::{self, Format};
use capataz_contracts::validate::{PlanLimits, plan, start_run};
use capataz_contracts::{canonical, json, v1};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z${}.]{0,8}".prop_map(Value::from),
        prop_oneof![Just("quorum"), Just("90s"), Just("${tasks.a.output.x}"), Just("HIGH")]
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(8, 64, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(any_key(), inner, 0..6).prop_map(|object| Value::Object(object.into_iter().collect())),
        ]
    })
}

/// Mostly keys of the contract, so that values get deep into it.
fn any_key() -> impl Strategy<Value = String> {
    const KNOWN: &[&str] = &[
        "plan",
        "name",
        "waves",
        "tasks",
        "agent",
        "input",
        "retry",
        "timeouts",
        "timeout",
        "timeout_ms",
        "policy",
        "kind",
        "labels",
        "parent",
        "max_attempts",
        "maxAttempts",
        "severity",
        "effect",
        "$text",
        "$media_type",
        "$blob",
        "$base64",
        "delays_ms",
        "commands",
    ];
    prop_oneof![4 => proptest::sample::select(KNOWN).prop_map(str::to_owned), 1 => "[a-z_$\"]{0,6}"]
}

fn any_input() -> impl Strategy<Value = v1::Payload> {
    let payload = |media_type: String, bytes: Vec<u8>| v1::Payload {
        media_type,
        data: Some(v1::payload::Data::Inline(bytes.into())),
    };
    prop_oneof![
        any_value().prop_filter("null is an absent payload", |value| !value.is_null()).prop_map(
            move |value| { payload("application/json".to_owned(), value.to_string().into_bytes()) }
        ),
        ("[a-z]{1,5}/[a-z]{1,5}", vec(any::<u8>(), 0..20))
            .prop_map(move |(kind, bytes)| payload(kind, bytes)),
        ".{0,20}".prop_map(move |text| payload("text/plain".to_owned(), text.into_bytes())),
    ]
}

prop_compose! {
    fn any_retry()(
        max_attempts in option::of(any::<u32>()),
        base_delay_ms in option::of(0..i64::MAX),
        backoff_multiplier in option::of(-1e9..1e9),
        jitter in option::of(any::<bool>()),
        delays_ms in vec(any::<i64>(), 0..3),
        retryable in vec(".{0,5}", 0..3),
    ) -> v1::RetryPolicy {
        let backoff_multiplier: Option<f64> = backoff_multiplier;
        v1::RetryPolicy {
            max_attempts, base_delay_ms, backoff_multiplier, jitter, delays_ms, retryable, ..Default::default()
        }
    }
}

prop_compose! {
    fn any_task()(
        name in "[a-z]{0,6}",
        agent in ".{0,6}",
        input in option::of(any_input()),
        critical in any::<bool>(),
        effect in option::of(0..3),
        severity in option::of(0..5),
        retry in option::of(any_retry()),
    ) -> v1::Task {
        v1::Task { name, agent, input, critical, effect, severity, retry, ..Default::default() }
    }
}

prop_compose! {
    fn any_request()(
        name in ".{0,6}",
        waves in vec((option::of(".{0,4}"), vec(any_task(), 0..4)), 0..4),
        on_high in option::of(0..3),
        kind in option::of(0..5),
        commands in vec(".{0,6}", 0..3),
        labels in btree_map(".{0,4}", ".{0,4}", 0..4),
        idempotency_key in option::of(".{0,4}"),
    ) -> v1::StartRunRequest {
        let waves = waves.into_iter().map(|(name, tasks)| v1::Wave { name, tasks, policy: None }).collect();
        let policy = kind.map(|kind| v1::AggregationPolicy { kind, ..Default::default() });
        let plan = v1::Plan { name, waves, policy, on_high, commands, ..Default::default() };
        v1::StartRunRequest { labels, idempotency_key, ..v1::StartRunRequest::of_plan(plan) }
    }
}

const REQUEST: &str = "capataz.v1.StartRunRequest";

proptest! {
    #[test]
    fn print_and_parse_undo_each_other(request in any_request()) {
        let printed = json::print(REQUEST, &request);
        let parsed: v1::StartRunRequest = json::parse(REQUEST, &printed).unwrap();
        prop_assert_eq!(&parsed, &request);
        prop_assert_eq!(json::print(REQUEST, &parsed), printed.clone());
        prop_assert_eq!(json::from_str(&printed.to_string()), Ok(printed));
        prop_assert_eq!(canonical(&parsed), canonical(&request));
        let _ = start_run(&request, &PlanLimits::default());
    }

    #[test]
    fn any_json_is_answered(value in any_value()) {
        for name in [REQUEST, "capataz.v1.Plan", "capataz.v1.Payload", "capataz.v1.RetryPolicy"] {
            // Answered, whatever the type: a mismatch is `internal`.
            let _ = json::parse::<v1::StartRunRequest>(name, &value);
        }
        if let Ok(parsed) = json::parse::<v1::Plan>("capataz.v1.Plan", &value) {
            let printed = json::print("capataz.v1.Plan", &parsed);
            prop_assert_eq!(json::parse::<v1::Plan>("capataz.v1.Plan", &printed), Ok(parsed.clone()));
            let _ = plan(&parsed, &PlanLimits::default());
        }
        let _ = plan_file::parse(&value.to_string(), Format::Json);
    }

    #[test]
    fn near_plans_are_answered(value in any_value(), key in any_key(), other in any_value()) {
        let document = json!({"name": "p", "waves": [{"tasks": [{"name": "a", (&key): value}], (key): other}]});
        let _ = plan_file::parse(&document.to_string(), Format::Json);
        let Ok(text) = toml::to_string(&document) else { return Ok(()) };
        let _ = plan_file::parse(&text, Format::Toml);
    }

    #[test]
    fn any_bytes_are_answered(bytes in vec(any::<u8>(), 0..200)) {
        let _ = plan_file::parse_bytes(&bytes, Format::Toml);
        let _ = plan_file::parse_bytes(&bytes, Format::Json);
        let _ = json::print_bytes("capataz.v1.Event", &bytes);
    }
}
