//! Scripts for the pages that hold secrets, as TOML; `{site}` stands for the first host with its port, and the secret
//! `SHOP` for what is typed. They lead to every kind of evidence there is.

/// With all the time that actions need; those that are to run into their limit have one of their own.
const POLICY: &str = r#"[policy]
allowlist = ["{site}"]
action_timeout = "120s"
navigation_timeout = "120s"
"#;

/// Opens the page that holds every secret there is, and types one more into its password field.
const ON_A_PAGE_FULL_OF_SECRETS: &str = r#"
[[actions]]
id = "open"
kind = "navigate"
url = "http://{site}/secrets"
[[actions]]
id = "password"
kind = "fill"
target = { label = "Password" }
value = "${secret:SHOP}"
"#;

/// Ends well: pictures, texts, an attribute and an address of the pages with secrets, links and a redirect with tokens, and
/// a page that shows what is typed. The outputs are `card`, `key`, `href`, `address` and `said`.
#[must_use]
pub fn secrets_and_success() -> String {
    format!("name = \"success\"\n{POLICY}{ON_A_PAGE_FULL_OF_SECRETS}{AND_ON}")
}

/// Only opens the page with all the secrets, and types one.
#[must_use]
pub fn secrets_alone() -> String {
    format!("name = \"secrets\"\n{POLICY}{ON_A_PAGE_FULL_OF_SECRETS}")
}

const AND_ON: &str = r#"
[[actions]]
id = "picture"
kind = "screenshot"
full_page = true
[[actions]]
id = "card"
kind = "extract"
target = { css = "p.card" }
extract = "text"
output = "card"
[[actions]]
id = "key"
kind = "extract"
target = { testid = "holder" }
extract = "attribute"
attribute = "data-api-key"
output = "key"
[[actions]]
id = "href"
kind = "extract"
target = { testid = "link" }
extract = "attribute"
attribute = "href"
output = "href"
[[actions]]
id = "click"
kind = "click"
target = { testid = "target" }
[[actions]]
id = "follow"
kind = "click"
target = { testid = "link" }
[[actions]]
id = "address"
kind = "extract"
target = { testid = "address" }
extract = "text"
output = "address"
[[actions]]
id = "redirect"
kind = "navigate"
url = "http://{site}/secrets/redirect"
[[actions]]
id = "after"
kind = "screenshot"
[[actions]]
id = "echo"
kind = "navigate"
url = "http://{site}/secrets/echo"
[[actions]]
id = "typed"
kind = "fill"
target = { testid = "password" }
value = "${secret:SHOP}"
[[actions]]
id = "said"
kind = "extract"
target = { testid = "status" }
extract = "text"
output = "said"
[[actions]]
id = "click-echo"
kind = "press"
key = "Tab"
"#;

/// A script that fails on the page with all the secrets.
#[derive(Clone, Copy, Debug)]
pub struct FailingScript {
    /// The stage of the error, as the contract of errors spells it.
    pub stage: &'static str,
    pub code: &'static str,
    policy: &'static str,
    action: &'static str,
}

impl FailingScript {
    #[must_use]
    pub fn toml(&self) -> String {
        let Self { policy, action, .. } = self;
        format!(
            "name = \"failure\"\n{POLICY}{policy}\n{ON_A_PAGE_FULL_OF_SECRETS}\
             [[actions]]\nid = \"a\"\n{action}\n"
        )
    }
}

/// One or more for each stage in which an action may fail.
pub const FAILING_WITH_SECRETS: &[FailingScript] = &[
    FailingScript {
        stage: "proposal_validation",
        code: "INVALID_ACTIONSPEC",
        policy: "",
        action: r#"kind = "click"
        target = { css = "p:unheard-of(" }"#,
    },
    FailingScript {
        stage: "policy",
        code: "ACTION_CRITICAL_BLOCKED",
        policy: "critical = [{ name_matches = \"Save\" }]",
        action: r#"kind = "click"
        target = { testid = "target" }"#,
    },
    FailingScript {
        stage: "precondition",
        code: "PRECONDITION_FAILED",
        policy: "",
        action: r#"kind = "click"
        target = { testid = "target" }
        timeout = "1s"
        criticality = "critical"
        pre = [
            { kind = "text_equals", target = { css = "p.card" }, value = "no card" },
            { kind = "value_equals", target = { label = "Password" }, value = "no password" },
            { kind = "attribute_equals", target = { testid = "holder" }, attribute = "data-api-key", value = "no key" },
            { kind = "attribute_equals", target = { testid = "link" }, attribute = "href", value = "no link" },
            { kind = "attribute_equals", target = { css = "input[name=csrf]" }, attribute = "value", value = "no token" },
            { kind = "text_contains", value = "nothing of the kind" },
        ]
        post = [{ kind = "text_equals", target = { testid = "status" }, value = "saved" }]"#,
    },
    FailingScript {
        stage: "precondition",
        code: "TARGET_NOT_UNIQUE",
        policy: "",
        action: r#"kind = "click"
        target = { css = "p, input" }"#,
    },
    FailingScript {
        stage: "execution",
        code: "NAVIGATION_TIMEOUT",
        policy: "",
        action: r#"kind = "navigate"
        url = "http://{site}/navigate/never"
        timeout = "1s""#,
    },
    FailingScript {
        stage: "postcondition",
        code: "POSTCONDITION_FAILED",
        policy: "",
        action: r#"kind = "fill"
        target = { label = "Password" }
        value = "${secret:SHOP}"
        timeout = "1s"
        post = [
            { kind = "value_equals", target = { label = "Password" }, value = "no password" },
            { kind = "value_equals", target = { label = "Code" }, value = "no code" },
            { kind = "text_matches", target = { css = "main" }, value = "nothing of the kind" },
        ]"#,
    },
];
