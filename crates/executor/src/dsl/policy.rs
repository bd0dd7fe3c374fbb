//! What a script may do, read once for a run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use capataz_contracts::v1::{self, ActionKind, BlockedRequests, DialogAnswer, ScriptViolation};
use capataz_contracts::validate::script_limits::{
    ALLOWLIST_MAX, ITEMS_MAX, MULTIPLIER_MAX, RETRIES_MAX, STEPS_MAX,
};
use capataz_policy::executor::{ACTION_TIMEOUT, NAVIGATION_TIMEOUT};
use regex::Regex;

use super::defaults::materialise_policy;
use super::reader::{Form, Reader};
use super::target::Purpose;
use crate::allowlist::Allowlist;
use crate::page::{PageRedaction, Query};
use crate::text::normalised;

/// A script's policy that keeps every rule, with every default filled in.
#[derive(Clone, Debug)]
pub struct Policy {
    pub(crate) spec: v1::ScriptPolicy,
    pub(crate) allowlist: Allowlist,
    pub(crate) blocked_requests: BlockedRequests,
    pub(crate) dialogs: DialogAnswer,
    pub(crate) critical: Vec<CriticalRule>,
    pub(crate) auth: AuthSignals,
    pub(crate) upload_folders: Vec<PathBuf>,
    pub(crate) patterns: Vec<Regex>,
    pub(crate) overlays: Vec<Query>,
    pub(crate) action_timeout: Duration,
    pub(crate) navigation_timeout: Duration,
}

/// A rule that makes actions critical: those that match every field that is given.
#[derive(Clone, Debug)]
pub(crate) struct CriticalRule {
    pub(crate) kind: Option<ActionKind>,
    /// An allowlist of the one host.
    pub(crate) host: Option<Allowlist>,
    pub(crate) name: Option<Regex>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct AuthSignals {
    /// Normalised.
    pub(crate) texts: Vec<String>,
    pub(crate) login_url: Option<Regex>,
    pub(crate) status_401: bool,
}

impl Default for Policy {
    /// The policy of a script that declares none: no host may be reached.
    fn default() -> Self {
        let mut spec = v1::ScriptPolicy::default();
        super::materialise_policy(&mut spec);
        Self {
            blocked_requests: spec.blocked_requests(),
            dialogs: spec.dialogs(),
            spec,
            allowlist: Allowlist::default(),
            critical: Vec::new(),
            auth: AuthSignals::default(),
            upload_folders: Vec::new(),
            patterns: Vec::new(),
            overlays: Vec::new(),
            action_timeout: capataz_policy::executor::ACTION_TIMEOUT,
            navigation_timeout: capataz_policy::executor::NAVIGATION_TIMEOUT,
        }
    }
}

impl Policy {
    /// Reads a policy and fills its defaults in. Paths of violations are from the policy.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn new(policy: &v1::ScriptPolicy) -> Result<Self, Vec<ScriptViolation>> {
        let mut reader = Reader::new(Form::Fixed);
        let read = reader.policy(policy);
        let violations = reader.findings.into_vec();
        match read {
            Some(policy) if violations.is_empty() => Ok(policy),
            _ => Err(violations),
        }
    }

    /// Hosts that may be reached; what a browser is started with.
    #[must_use]
    pub fn allowlist(&self) -> &Allowlist {
        &self.allowlist
    }

    /// The parts of a page that must never leave it unmasked.
    #[must_use]
    pub fn page_redaction(&self) -> PageRedaction {
        let selectors = self.spec.redaction.as_ref().map(|redaction| redaction.selectors.clone());
        PageRedaction { selectors: selectors.unwrap_or_default() }
    }

    /// The attribute that testids are in.
    #[must_use]
    pub fn testid_attribute(&self) -> &str {
        self.spec.testid_attribute()
    }

    /// Whether anything of the page's console and its failed requests may be kept.
    #[must_use]
    pub fn listens(&self) -> bool {
        !matches!(self.spec.page_log(), v1::PageLog::Unspecified | v1::PageLog::Off)
    }

    /// The policy as the contract has it, with every default.
    #[must_use]
    pub fn spec(&self) -> &v1::ScriptPolicy {
        &self.spec
    }
}

impl Reader<'_> {
    /// Reads a policy; `None` if a part of it is refused for which there is no default.
    pub(super) fn policy(&mut self, policy: &v1::ScriptPolicy) -> Option<Policy> {
        let before = self.findings.count();
        let allowlist = self.allowlist("allowlist", &policy.allowlist);
        let blocked_requests = self.optional_enum("blocked_requests", policy.blocked_requests);
        let dialogs = self.optional_enum("dialogs", policy.dialogs);
        self.optional_enum::<v1::NewTabs>("new_tabs", policy.new_tabs);
        self.optional_enum::<v1::LowerCriticality>("lower_criticality", policy.lower_criticality);
        self.optional_enum::<v1::Pictures>("pictures", policy.pictures);
        self.optional_enum::<v1::PageLog>("page_log", policy.page_log);
        self.testid_attribute(policy.testid_attribute.as_deref());
        self.limits(policy);
        self.check_codes("retry_on", &policy.retry_on);
        self.backoff(policy.backoff.as_ref());
        self.recoveries(&policy.recovery);
        let critical = self.critical_rules(&policy.critical);
        let auth = self.auth_signals(policy.auth_failed.as_ref());
        let upload_folders = self.upload_folders(&policy.upload_folders);
        let patterns = self.redaction(policy.redaction.as_ref());
        let overlays = self.overlays(&policy.overlays);
        let action_timeout = self.limit("action_timeout_ms", policy.action_timeout_ms, ACTION_TIMEOUT);
        let navigation_timeout =
            self.limit("navigation_timeout_ms", policy.navigation_timeout_ms, NAVIGATION_TIMEOUT);
        if self.findings.count() > before {
            return None;
        }
        let mut spec = policy.clone();
        materialise_policy(&mut spec);
        Some(Policy {
            spec,
            allowlist: allowlist?,
            blocked_requests: blocked_requests.unwrap_or(BlockedRequests::Fail),
            dialogs: dialogs.unwrap_or(DialogAnswer::Dismiss),
            critical,
            auth,
            upload_folders,
            patterns,
            overlays,
            action_timeout,
            navigation_timeout,
        })
    }

    fn allowlist(&mut self, path: &str, entries: &[String]) -> Option<Allowlist> {
        if entries.len() > ALLOWLIST_MAX {
            self.refuse(path, "limit", format!("{} entries; at most {ALLOWLIST_MAX}", entries.len()));
            return None;
        }
        match Allowlist::parse(entries) {
            Ok(allowlist) => Some(allowlist),
            Err(errors) => {
                for error in errors {
                    let entry = crate::text::shortened(&error.entry, 64);
                    let message = format!("{entry:?} {}", error.problem);
                    self.refuse(&format!("{path}[{}]", error.index), "allowlist", message);
                }
                None
            }
        }
    }

    /// What the page shows of an element may be compared and kept, what somebody has typed into it may not.
    fn testid_attribute(&mut self, name: Option<&str>) {
        let Some(name) = name else { return };
        let is_plain = |name: &str| {
            name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        };
        let is_data = name.strip_prefix("data-").is_some_and(|rest| !rest.is_empty() && is_plain(rest));
        if name.len() > 64 || !(is_data || name == "id") {
            self.refuse(
                "testid_attribute",
                "attribute",
                "is `id` or a name that begins with `data-`, of small letters, digits and `-`",
            );
        }
    }

    fn limits(&mut self, policy: &v1::ScriptPolicy) {
        let limits = [
            ("max_steps", policy.max_steps, 1, STEPS_MAX),
            ("same_state_revisit", policy.same_state_revisit, 0, STEPS_MAX),
            ("retry_limit", policy.retry_limit, 0, RETRIES_MAX),
            ("recovery_limit", policy.recovery_limit, 0, RETRIES_MAX),
        ];
        for (field, value, least, most) in limits {
            if value.is_some_and(|value| !(least..=most).contains(&value)) {
                self.refuse(field, "range", format!("must be from {least} to {most}"));
            }
        }
    }

    fn backoff(&mut self, backoff: Option<&v1::ScriptBackoff>) {
        let Some(backoff) = backoff else { return };
        let delays = [("base_delay_ms", backoff.base_delay_ms), ("max_delay_ms", backoff.max_delay_ms)];
        for (field, delay) in delays {
            // A delay of zero is allowed.
            if delay != Some(0) {
                self.limit(&format!("backoff.{field}"), delay, Duration::ZERO);
            }
        }
        if backoff.multiplier.is_some_and(|multiplier| !(1.0..=MULTIPLIER_MAX).contains(&multiplier)) {
            self.refuse("backoff.multiplier", "range", format!("must be from 1 to {MULTIPLIER_MAX}"));
        }
    }

    fn recoveries(&mut self, recoveries: &[v1::Recovery]) {
        if self.is_too_long("recovery", recoveries.len()) {
            return;
        }
        for (index, recovery) in recoveries.iter().enumerate() {
            let path = format!("recovery[{index}]");
            if recovery.on.is_empty() {
                self.refuse(&format!("{path}.on"), "required", "names no code");
            }
            self.check_codes(&format!("{path}.on"), &recovery.on);
            let kind = self.optional_enum::<v1::RecoveryKind>(&format!("{path}.do"), Some(recovery.r#do));
            let closes = kind == Some(v1::RecoveryKind::CloseOverlay);
            let target_path = format!("{path}.target");
            match &recovery.target {
                Some(target) if closes => {
                    self.target(&target_path, target, Purpose::Element);
                }
                None if closes => {
                    self.refuse(&target_path, "required", "close_overlay needs what is clicked");
                }
                Some(_) if kind.is_some() => {
                    self.refuse(&target_path, "fields", "only close_overlay has a target");
                }
                _ => {}
            }
        }
    }

    fn critical_rules(&mut self, rules: &[v1::CriticalRule]) -> Vec<CriticalRule> {
        if self.is_too_long("critical", rules.len()) {
            return Vec::new();
        }
        let mut read = Vec::new();
        for (index, rule) in rules.iter().enumerate() {
            let path = format!("critical[{index}]");
            if rule.kind.is_none() && rule.host.is_none() && rule.name_matches.is_none() {
                self.refuse(&path, "required", "names neither a kind, a host nor a name");
            }
            let kind = self.optional_enum(&format!("{path}.kind"), rule.kind);
            let host = rule.host.as_ref().and_then(|host| {
                let host = Allowlist::parse([host]).map_err(|errors| {
                    let problem = errors.first().map_or("is not a host", |error| error.problem);
                    self.refuse(&format!("{path}.host"), "allowlist", problem);
                });
                host.ok()
            });
            let name = self.fixed_pattern(&format!("{path}.name_matches"), rule.name_matches.as_ref());
            read.push(CriticalRule { kind, host, name });
        }
        read
    }

    fn auth_signals(&mut self, signals: Option<&v1::AuthSignals>) -> AuthSignals {
        let Some(signals) = signals else { return AuthSignals::default() };
        let login_url = self.fixed_pattern("auth_failed.login_url", signals.login_url.as_ref());
        let mut texts = Vec::new();
        if !self.is_too_long("auth_failed.texts", signals.texts.len()) {
            for (index, text) in signals.texts.iter().enumerate() {
                let path = format!("auth_failed.texts[{index}]");
                if !self.is_clean(&path, text) {
                    continue;
                }
                let text = normalised(text);
                if text.is_empty() {
                    self.refuse(&path, "blank", "is empty");
                }
                texts.push(text);
            }
        }
        AuthSignals { texts, login_url, status_401: signals.status_401 }
    }

    fn upload_folders(&mut self, folders: &[String]) -> Vec<PathBuf> {
        if self.is_too_long("upload_folders", folders.len()) {
            return Vec::new();
        }
        for (index, folder) in folders.iter().enumerate() {
            let path = format!("upload_folders[{index}]");
            if self.is_clean(&path, folder) && !Path::new(folder).is_absolute() {
                self.refuse(&path, "upload_folder", "must be absolute");
            }
        }
        folders.iter().map(PathBuf::from).collect()
    }

    fn redaction(&mut self, redaction: Option<&v1::Redaction>) -> Vec<Regex> {
        let Some(redaction) = redaction else { return Vec::new() };
        if !self.is_too_long("redaction.selectors", redaction.selectors.len()) {
            for (index, selector) in redaction.selectors.iter().enumerate() {
                let path = format!("redaction.selectors[{index}]");
                if self.is_clean(&path, selector) && selector.trim().is_empty() {
                    self.refuse(&path, "blank", "is empty");
                }
            }
        }
        if self.is_too_long("redaction.patterns", redaction.patterns.len()) {
            return Vec::new();
        }
        let patterns = redaction.patterns.iter().enumerate();
        patterns
            .filter_map(|(index, pattern)| {
                self.fixed_pattern(&format!("redaction.patterns[{index}]"), Some(pattern))
            })
            .collect()
    }

    fn overlays(&mut self, overlays: &[v1::Target]) -> Vec<Query> {
        if self.is_too_long("overlays", overlays.len()) {
            return Vec::new();
        }
        let overlays = overlays.iter().enumerate();
        overlays
            .filter_map(|(index, overlay)| {
                self.target(&format!("overlays[{index}]"), overlay, Purpose::Element)
            })
            .collect()
    }

    /// A regular expression of a policy. `${` has no meaning in one, and hardly anybody means it.
    fn fixed_pattern(&mut self, path: &str, source: Option<&String>) -> Option<Regex> {
        let source = source?;
        if !self.is_clean(path, source) {
            return None;
        }
        self.pattern(path, source)
    }

    fn is_too_long(&mut self, path: &str, length: usize) -> bool {
        if length > ITEMS_MAX {
            self.refuse(path, "limit", format!("{length} of them; at most {ITEMS_MAX}"));
        }
        length > ITEMS_MAX
    }
}
