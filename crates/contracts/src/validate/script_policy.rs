//! The shape of a script's policy and of what it asks of its browser. What an entry of the allowlist or a regular
//! expression means is the executor's to check.

use super::optional_enum;
use super::script::{RETRIES_MAX, at_most, codes, duration, required_enum, target};
use crate::path::Path;
use crate::reference::is_task_name;
use crate::v1;
use crate::violation::Violations;

/// The maximum number of entries of an allowlist.
pub const ALLOWLIST_MAX: usize = 256;
/// The maximum number of items of each other list of a policy.
pub const ITEMS_MAX: usize = 64;
/// The maximum length of an item of a list. A host has at most 253 bytes, a path 4,096.
const ITEM_BYTES_MAX: usize = 4 * 1024;
/// The maximum of steps, and of how often a state is seen.
pub const STEPS_MAX: u32 = 10_000;
/// The maximum of what a delay is multiplied by.
pub const MULTIPLIER_MAX: f64 = 100.0;
/// CSS pixels. A picture of a page that size is large already.
const SIDE_MAX: u32 = 8_192;
const LOCALE_MAX: usize = 35;
const TIMEZONE_MAX: usize = 64;

pub fn check(policy: &v1::ScriptPolicy, path: &Path<'_>, violations: &mut Violations) {
    texts(&policy.allowlist, ALLOWLIST_MAX, &path.key("allowlist"), violations);
    optional_enum::<v1::BlockedRequests>(policy.blocked_requests, &path.key("blocked_requests"), violations);
    optional_enum::<v1::DialogAnswer>(policy.dialogs, &path.key("dialogs"), violations);
    optional_enum::<v1::NewTabs>(policy.new_tabs, &path.key("new_tabs"), violations);
    optional_enum::<v1::LowerCriticality>(
        policy.lower_criticality,
        &path.key("lower_criticality"),
        violations,
    );
    optional_enum::<v1::Pictures>(policy.pictures, &path.key("pictures"), violations);
    optional_enum::<v1::PageLog>(policy.page_log, &path.key("page_log"), violations);
    counts(policy, path, violations);
    codes(&policy.retry_on, &path.key("retry_on"), violations);
    backoff(policy.backoff.as_ref(), &path.key("backoff"), violations);
    recoveries(&policy.recovery, &path.key("recovery"), violations);
    critical_rules(&policy.critical, &path.key("critical"), violations);
    if let Some(signals) = &policy.auth_failed {
        auth_signals(signals, &path.key("auth_failed"), violations);
    }
    texts(&policy.upload_folders, ITEMS_MAX, &path.key("upload_folders"), violations);
    if let Some(redaction) = &policy.redaction {
        let path = &path.key("redaction");
        texts(&redaction.selectors, ITEMS_MAX, &path.key("selectors"), violations);
        texts(&redaction.patterns, ITEMS_MAX, &path.key("patterns"), violations);
    }
    duration(policy.action_timeout_ms, &path.key("action_timeout_ms"), violations);
    duration(policy.navigation_timeout_ms, &path.key("navigation_timeout_ms"), violations);
    let path = &path.key("overlays");
    if within(policy.overlays.len(), ITEMS_MAX, path, violations) {
        for (index, overlay) in policy.overlays.iter().enumerate() {
            target(overlay, &path.index(index), violations);
        }
    }
}

fn counts(policy: &v1::ScriptPolicy, path: &Path<'_>, violations: &mut Violations) {
    if policy.max_steps == Some(0) {
        let message = "with 0 no action could begin; at least 1";
        violations.push(&path.key("max_steps"), "range", message);
    }
    at_most(policy.max_steps, STEPS_MAX, &path.key("max_steps"), violations);
    let revisits = &path.key("same_state_revisit");
    at_most(policy.same_state_revisit, STEPS_MAX, revisits, violations);
    at_most(policy.retry_limit, RETRIES_MAX, &path.key("retry_limit"), violations);
    at_most(policy.recovery_limit, RETRIES_MAX, &path.key("recovery_limit"), violations);
}

fn backoff(backoff: Option<&v1::ScriptBackoff>, path: &Path<'_>, violations: &mut Violations) {
    let Some(backoff) = backoff else { return };
    duration(backoff.base_delay_ms, &path.key("base_delay_ms"), violations);
    duration(backoff.max_delay_ms, &path.key("max_delay_ms"), violations);
    if let Some(multiplier) = backoff.multiplier
        && !(1.0..=MULTIPLIER_MAX).contains(&multiplier)
    {
        let message = format!("{multiplier} is not between 1 and {MULTIPLIER_MAX}");
        violations.push(&path.key("multiplier"), "range", message);
    }
}

fn recoveries(recoveries: &[v1::Recovery], path: &Path<'_>, violations: &mut Violations) {
    if !within(recoveries.len(), ITEMS_MAX, path, violations) {
        return;
    }
    for (index, recovery) in recoveries.iter().enumerate() {
        let path = &path.index(index);
        let on = &path.key("on");
        if recovery.on.is_empty() {
            violations.push(on, "required", "a recovery names the codes after which it is done");
        }
        codes(&recovery.on, on, violations);
        required_enum::<v1::RecoveryKind>(recovery.r#do, "what is done", &path.key("do"), violations);
        if let Some(what) = &recovery.target {
            target(what, &path.key("target"), violations);
        }
    }
}

fn critical_rules(rules: &[v1::CriticalRule], path: &Path<'_>, violations: &mut Violations) {
    if !within(rules.len(), ITEMS_MAX, path, violations) {
        return;
    }
    for (index, rule) in rules.iter().enumerate() {
        let path = &path.index(index);
        if rule.kind.is_none() && rule.host.is_none() && rule.name_matches.is_none() {
            let message = "a rule says which actions it is about: kind, host or name_matches";
            violations.push(path, "required", message);
        }
        optional_enum::<v1::ActionKind>(rule.kind, &path.key("kind"), violations);
        for (key, given) in [("host", &rule.host), ("name_matches", &rule.name_matches)] {
            if let Some(given) = given {
                text(given, &path.key(key), violations);
            }
        }
    }
}

fn auth_signals(signals: &v1::AuthSignals, path: &Path<'_>, violations: &mut Violations) {
    if signals.texts.is_empty() && signals.login_url.is_none() && !signals.status_401 {
        let message = "nothing tells that signing in has failed: texts, login_url or status_401";
        violations.push(path, "required", message);
    }
    texts(&signals.texts, ITEMS_MAX, &path.key("texts"), violations);
    if let Some(login_url) = &signals.login_url {
        text(login_url, &path.key("login_url"), violations);
    }
}

pub fn check_browser(browser: &v1::BrowserOptions, path: &Path<'_>, violations: &mut Violations) {
    for (key, side) in [("width", browser.width), ("height", browser.height)] {
        if let Some(pixels) = side
            && !(1..=SIDE_MAX).contains(&pixels)
        {
            let message = format!("{pixels} is not between 1 and {SIDE_MAX} CSS pixels");
            violations.push(&path.key(key), "range", message);
        }
    }
    if let Some(state) = &browser.storage_state {
        storage_state(state, &path.key("storage_state"), violations);
    }
    let allowed = |text: &str, more: &[char], most: usize| {
        (1..=most).contains(&text.len())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(&c))
    };
    if let Some(locale) = &browser.locale
        && !allowed(locale, &['-'], LOCALE_MAX)
    {
        violations.push(&path.key("locale"), "locale", "a locale is a tag such as `en-US` or `es`");
    }
    if let Some(timezone) = &browser.timezone
        && !allowed(timezone, &['/', '_', '-', '+'], TIMEZONE_MAX)
    {
        let message = "a time zone is a name such as `Europe/Madrid` or `UTC`";
        violations.push(&path.key("timezone"), "timezone", message);
    }
}

/// The daemon keeps it in a file of this name.
pub fn storage_state(state: &str, path: &Path<'_>, violations: &mut Violations) {
    if !is_task_name(state) || state.starts_with('.') {
        let message =
            "a storage state's name has 1 to 128 letters, digits, `.`, `_` or `-`, and begins with no `.`";
        violations.push(path, "storage_state", message);
    }
}

fn texts(items: &[String], most: usize, path: &Path<'_>, violations: &mut Violations) {
    if within(items.len(), most, path, violations) {
        for (index, item) in items.iter().enumerate() {
            text(item, &path.index(index), violations);
        }
    }
}

fn text(text: &str, path: &Path<'_>, violations: &mut Violations) {
    if text.trim().is_empty() {
        violations.push(path, "blank", "the text is missing or blank");
    } else if text.len() > ITEM_BYTES_MAX {
        let message = format!("{} bytes; at most {ITEM_BYTES_MAX} are allowed", text.len());
        violations.push(path, "length", message);
    }
}

fn within(count: usize, most: usize, path: &Path<'_>, violations: &mut Violations) -> bool {
    if count > most {
        violations.push(path, "limit", format!("{count} entries; at most {most} are allowed"));
    }
    count <= most
}
