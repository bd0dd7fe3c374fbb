use capataz_contracts::validate::{
    PlanLimits, action, open_browser, propose, script, start_run, storage_state,
};
use capataz_contracts::{json, v1};
use serde_json::{Value, json};

use crate::in_short;

/// Validates a script of these parts beside a name and one good action; expects the violations as `path rule`.
#[track_caller]
fn check(parts: Value, expected: &[&str]) {
    let mut document = json!({"name": "s", "actions": [an_action()]});
    for (key, value) in parts.as_object().unwrap() {
        document[key] = value.clone();
    }
    let typed: v1::Script = json::parse("capataz.v1.Script", &document).unwrap();
    let violations = script(&typed);
    assert_eq!(in_short(&violations), expected, "{violations:#?}");
}

/// Validates a good action with one change.
#[track_caller]
fn check_action(change: impl FnOnce(&mut v1::Action), expected: &[&str]) {
    let mut typed: v1::Action = json::parse("capataz.v1.Action", &an_action()).unwrap();
    change(&mut typed);
    let violations = action(&typed);
    assert_eq!(in_short(&violations), expected, "{violations:#?}");
}

#[track_caller]
fn check_policy(policy: Value, expected: &[&str]) {
    let expected: Vec<String> = expected.iter().map(|violation| format!("policy.{violation}")).collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    check(json!({ "policy": policy }), &expected);
}

fn an_action() -> Value {
    json!({"id": "a", "kind": "click", "target": {"testid": "x"}})
}

#[test]
fn names_and_counts() {
    check(json!({}), &[]);
    check(json!({"name": ""}), &["name required"]);
    check(json!({"name": "ñ".repeat(128)}), &[]);
    check(json!({"name": "x".repeat(129)}), &["name length"]);
    check(json!({"actions": []}), &["actions required"]);
    let actions = |count: usize| -> Value {
        (0..count).map(|number| json!({"id": format!("a{number}"), "kind": "back"})).collect()
    };
    check(json!({"actions": actions(1_000)}), &[]);
    check(json!({"actions": actions(1_001)}), &["actions limit"]);
}

#[test]
fn ids_are_there_and_unique() {
    let of_ids = |ids: &[&str]| -> Value {
        ids.iter().map(|id| json!({"id": id, "kind": "reload"})).collect::<Vec<_>>().into()
    };
    check(json!({"actions": of_ids(&["a", "b.1_x-Y", &"x".repeat(128)])}), &[]);
    check(
        json!({"actions": of_ids(&["a", "a", "", "", "ñ", &"x".repeat(129)])}),
        &[
            "actions[1].id duplicate",
            "actions[2].id required",
            "actions[3].id required",
            "actions[4].id characters",
            "actions[5].id length",
        ],
    );
}

#[test]
fn an_interactive_script_has_no_actions_of_its_own() {
    check(json!({"interactive": true, "actions": [], "idle_timeout": "10m"}), &[]);
    check(json!({"interactive": true}), &["actions fields"]);
    check(json!({"idle_timeout": "10m"}), &["idle_timeout_ms fields"]);
    check(
        json!({"interactive": true, "actions": [], "idle_timeout_ms": 3_600_001}),
        &["idle_timeout_ms range"],
    );
}

#[test]
fn enums_are_known_values() {
    check_action(|action| action.kind = 0, &["kind required"]);
    check_action(|action| action.kind = 99, &["kind enum"]);
    check_action(
        |action| {
            action.criticality = Some(0);
            action.extract = Some(9);
            action.wait_until = Some(-1);
            action.on_failure = Some(3);
            action.dialogs = Some(4);
            action.target.as_mut().unwrap().r#match = Some(0);
        },
        &[
            "criticality enum",
            "extract enum",
            "wait_until enum",
            "on_failure enum",
            "dialogs enum",
            "target.match enum",
        ],
    );
    check_action(
        |action| {
            action.pre = vec![v1::Condition::default()];
            action.post = vec![v1::Condition { kind: 27, ..Default::default() }];
        },
        &["pre[0].kind required", "post[0].kind enum"],
    );
}

#[test]
fn sizes() {
    check_action(|action| action.value = Some("x".repeat(16_000)), &[]);
    check_action(|action| action.value = Some("x".repeat(16 * 1024)), &[" size"]);
    let actions: Vec<Value> = (0..100)
        .map(|number| json!({"id": format!("a{number}"), "kind": "fill", "value": "x".repeat(15_000)}))
        .collect();
    check(json!({"actions": &actions[..60]}), &[]);
    check(json!({ "actions": actions }), &[" size"]);
}

#[test]
fn variables() {
    let many = |count: usize, bytes: usize| -> Value {
        let entries = (0..count).map(|number| (format!("v{number:03}"), Value::from("x".repeat(bytes))));
        Value::Object(entries.collect())
    };
    check(json!({"variables": {"a.b-c_1": "", "x": "\n"}}), &[]);
    check(
        json!({"variables": {"": "", "a b": ""}}),
        &["variables[\"\"] required", "variables[\"a b\"] characters"],
    );
    check(json!({"variables": many(256, 252)}), &[]);
    check(json!({"variables": many(257, 0)}), &["variables limit"]);
    check(json!({"variables": many(256, 253)}), &["variables size"]);
}

#[test]
fn times_are_at_most_an_hour() {
    check_action(|action| action.timeout_ms = Some(0), &[]);
    check_action(|action| action.timeout_ms = Some(3_600_000), &[]);
    check_action(|action| action.timeout_ms = Some(3_600_001), &["timeout_ms range"]);
    check_action(|action| action.timeout_ms = Some(-1), &["timeout_ms range"]);
    check_policy(
        json!({
            "action_timeout": "2h",
            "navigation_timeout": "2h",
            "backoff": {"base_delay": "2h", "max_delay": "2h"},
        }),
        &[
            "backoff.base_delay_ms range",
            "backoff.max_delay_ms range",
            "action_timeout_ms range",
            "navigation_timeout_ms range",
        ],
    );
}

#[test]
fn depths() {
    let nested = |levels: usize| {
        let innermost = v1::Condition { kind: v1::ConditionKind::UrlEquals as i32, ..Default::default() };
        (1..levels).fold(innermost, |inner, _| v1::Condition {
            kind: v1::ConditionKind::Not as i32,
            condition: Some(Box::new(inner)),
            ..Default::default()
        })
    };
    check_action(|action| action.conditions = vec![nested(8)], &[]);
    let path = format!("conditions[0]{} depth", ".condition".repeat(8));
    check_action(|action| action.conditions = vec![nested(9)], &[&path]);
    check_action(|action| action.conditions = vec![nested(30)], &[&path]);

    let frame =
        |count: usize| vec![v1::Target { css: Some("iframe".to_owned()), ..Default::default() }; count];
    check_action(|action| action.target.as_mut().unwrap().frame = frame(8), &[]);
    check_action(|action| action.target.as_mut().unwrap().frame = frame(9), &["target.frame limit"]);
    check_action(
        |action| {
            let target = v1::Target { frame: frame(1), ..Default::default() };
            action.target.as_mut().unwrap().frame = vec![target];
        },
        &["target.frame[0].frame nested"],
    );
}

#[test]
fn retries_of_an_action() {
    check_action(
        |action| action.retry = Some(v1::ActionRetry { limit: Some(100), on: vec!["X".to_owned()] }),
        &[],
    );
    check_action(
        |action| {
            action.retry =
                Some(v1::ActionRetry { limit: Some(101), on: vec![String::new(), "\u{7}".to_owned()] });
        },
        &["retry.limit range", "retry.on[0] required", "retry.on[1] characters"],
    );
    check_action(
        |action| action.retry = Some(v1::ActionRetry { limit: None, on: vec!["X".to_owned(); 33] }),
        &["retry.on limit"],
    );
    check_action(|action| action.output = Some("a b".to_owned()), &["output characters"]);
}

#[test]
fn lists_of_a_policy() {
    let hosts = |count: usize| vec!["example.com"; count];
    check_policy(json!({"allowlist": hosts(256)}), &[]);
    check_policy(json!({"allowlist": hosts(257)}), &["allowlist limit"]);
    check_policy(
        json!({"allowlist": [" ", "x".repeat(4_097)]}),
        &["allowlist[0] blank", "allowlist[1] length"],
    );
    check_policy(
        json!({"upload_folders": hosts(65), "redaction": {"selectors": hosts(65), "patterns": [""]}}),
        &["upload_folders limit", "redaction.selectors limit", "redaction.patterns[0] blank"],
    );
    let overlays = vec![json!({"css": "x"}); 65];
    check_policy(json!({ "overlays": overlays }), &["overlays limit"]);
    check_policy(json!({"overlays": [{"frame": [{"frame": [{}]}]}]}), &["overlays[0].frame[0].frame nested"]);
    check_policy(json!({"critical": vec![json!({"kind": "click"}); 65]}), &["critical limit"]);
    check_policy(json!({"recovery": vec![json!({}); 65]}), &["recovery limit"]);
}

#[test]
fn entries_of_a_policy_say_something() {
    check_policy(
        json!({"critical": [{}, {"kind": "click"}, {"host": ""}], "recovery": [{"target": {}}]}),
        &[
            "recovery[0].on required",
            "recovery[0].do required",
            "critical[0] required",
            "critical[2].host blank",
        ],
    );
    check_policy(json!({"auth_failed": {}}), &["auth_failed required"]);
    check_policy(json!({"auth_failed": {"status_401": true}}), &[]);
    check_policy(
        json!({"auth_failed": {"texts": [""], "login_url": ""}}),
        &["auth_failed.texts[0] blank", "auth_failed.login_url blank"],
    );
}

#[test]
fn numbers_of_a_policy() {
    check_policy(json!({"max_steps": 10_000, "same_state_revisit": 0, "retry_limit": 0}), &[]);
    check_policy(
        json!({
            "max_steps": 0,
            "same_state_revisit": 10_001,
            "retry_limit": 101,
            "recovery_limit": 101,
            "backoff": {"multiplier": 0.9},
        }),
        &[
            "max_steps range",
            "same_state_revisit range",
            "retry_limit range",
            "recovery_limit range",
            "backoff.multiplier range",
        ],
    );
    let mut typed: v1::Script =
        json::parse("capataz.v1.Script", &json!({"name": "s", "actions": [an_action()], "policy": {}}))
            .unwrap();
    let backoff = v1::ScriptBackoff { multiplier: Some(f64::NAN), ..Default::default() };
    typed.policy.as_mut().unwrap().backoff = Some(backoff);
    assert_eq!(in_short(&script(&typed)), ["policy.backoff.multiplier range"]);
}

#[test]
fn options_of_the_browser() {
    let good = json!({"width": 1, "height": 8_192, "storage_state": "shop.1", "locale": "zh-Hant-TW", "timezone": "Etc/GMT+3"});
    check(json!({ "browser": good }), &[]);
    check(
        json!({"browser": {"width": 0, "height": 8_193, "storage_state": "../x", "locale": "", "timezone": "a b"}}),
        &[
            "browser.width range",
            "browser.height range",
            "browser.storage_state storage_state",
            "browser.locale locale",
            "browser.timezone timezone",
        ],
    );
    for name in ["", ".", "..", ".hidden", "a/b", "a\0b"] {
        assert_eq!(in_short(&storage_state(name)), ["name storage_state"], "{name:?}");
    }
    assert_eq!(storage_state("shop"), []);
}

#[test]
fn a_run_has_one_of_a_plan_an_ask_and_a_script() {
    #[track_caller]
    fn check(document: Value, expected: &[&str]) {
        let request: v1::StartRunRequest = json::parse("capataz.v1.StartRunRequest", &document).unwrap();
        assert_eq!(in_short(&start_run(&request, &PlanLimits::default())), expected);
    }
    let script = json!({"name": "s", "actions": [an_action()]});
    let plan = json!({"name": "p", "waves": [{"tasks": [{"name": "a", "agent": "x"}]}]});
    let ask = json!({"text": "x"});
    check(json!({ "script": script }), &[]);
    check(
        json!({"script": {"name": "s", "actions": [{}]}}),
        &["script.actions[0].id required", "script.actions[0].kind required"],
    );
    // Two of them cannot be told in protobuf: the last one counts there.
    let refused = |document: Value| {
        json::parse::<v1::StartRunRequest>("capataz.v1.StartRunRequest", &document).is_err()
    };
    assert!(refused(json!({"script": script, "plan": plan})));
    assert!(refused(json!({"script": script, "ask": ask})));
    assert!(refused(json!({"script": script, "ask": ask, "plan": plan})));
    assert!(refused(json!({"ask": ask, "plan": plan})));
}

#[test]
fn requests_that_open_a_browser() {
    #[track_caller]
    fn check(document: Value, expected: &[&str]) {
        let request = json::parse("capataz.v1.OpenBrowserRequest", &document).unwrap();
        let violations = open_browser(&request);
        assert_eq!(in_short(&violations), expected, "{violations:#?}");
    }
    check(json!({}), &[]);
    check(json!({"name": "x".repeat(129), "idle_timeout": "2h"}), &["name length", "idle_timeout_ms range"]);
    check(
        json!({
            "policy": {"allowlist": [""]},
            "browser": {"width": 0},
            "labels": {"capataz.x": "1"},
            "idempotency_key": "",
            "variables": {"": ""},
        }),
        &[
            "policy.allowlist[0] blank",
            "browser.width range",
            "idempotency_key length",
            "labels[\"capataz.x\"] reserved",
            "variables[\"\"] required",
        ],
    );
}

#[test]
fn requests_that_propose_an_action() {
    #[track_caller]
    fn check(document: Value, expected: &[&str]) {
        let request = json::parse("capataz.v1.ProposeRequest", &document).unwrap();
        assert_eq!(in_short(&propose(&request)), expected);
    }
    check(json!({"run_id": "r", "request_id": "q", "action": an_action()}), &[]);
    check(json!({}), &["run_id required", "request_id length", "action required"]);
    check(
        json!({"run_id": "r", "request_id": "q".repeat(257), "action": {"id": "a b", "kind": "click"}}),
        &["request_id length", "action.id characters"],
    );
}
