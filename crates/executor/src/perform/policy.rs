//! Stage `policy`: an action that the script's policy does not allow is not begun.

use capataz_contracts::v1::{Criticality, DialogAnswer};
use capataz_policy::executor::code;
use serde_json::{Value, json};
use url::Url;

use super::step::{Step, read_failed};
use crate::allowlist::Refusal;
use crate::dsl::Action;
use crate::error::{Failure, Phase};
use crate::page::{Element, Page, PageError};

impl<P: Page> Step<'_, P> {
    pub(super) async fn allow(&mut self, action: &Action) -> Result<(), Failure> {
        let answer = action.dialogs.unwrap_or(self.policy.dialogs);
        self.page.answer_dialogs(if answer == DialogAnswer::Unspecified {
            DialogAnswer::Dismiss
        } else {
            answer
        });
        // What the last action caused may have come after it had ended: a blocked request never passes unseen.
        self.absorb();
        self.check_changes(answer)?;
        if let Some(url) = &action.spec.url
            && let Err(refusal) = self.policy.allowlist.check_url(url)
        {
            return Err(self.blocked(&refusal.host(), url));
        }
        // The target is looked at without waiting for it. A target that is not there yet is judged when it is found.
        let glance = match &action.target {
            Some(target) if self.needs_glance(action) => match self.page.look(target).await {
                Err(error @ PageError::Lost { .. }) => return Err(read_failed(&error, Phase::Pre)),
                look => look.ok().and_then(|look| look.element),
            },
            _ => None,
        };
        self.judge(action, glance.as_ref()).await
    }

    fn needs_glance(&self, action: &Action) -> bool {
        action.criticality == Criticality::Critical || !self.policy.critical.is_empty()
    }

    /// Refuses a critical action that may not be performed on this element, or on one that is not known yet.
    pub(super) async fn judge(&mut self, action: &Action, element: Option<&Element>) -> Result<(), Failure> {
        let raised = self.criticality != Criticality::Critical && self.is_raised(action, element).await?;
        if raised {
            self.criticality = Criticality::Critical;
        }
        if self.criticality != Criticality::Critical {
            return Ok(());
        }
        if !action.has_strong_postcondition {
            return Err(critical_blocked(
                "missing_strong_postcondition",
                "the policy makes the action critical, and nothing would prove its effect",
                json!({}),
            ));
        }
        let destination = element.and_then(|element| element.facts.destination.as_deref());
        let Some(destination) = destination else { return Ok(()) };
        match self.policy.allowlist.check_url(destination) {
            Ok(()) => Ok(()),
            // A `javascript:` URL runs in the page itself and leads to no other host.
            Err(Refusal::Scheme { scheme }) if scheme == "javascript" => Ok(()),
            Err(refusal) => {
                let host = refusal.host();
                Err(critical_blocked(
                    "unsafe_domain_escape",
                    &format!("the action would lead to {host}, which is not on the allowlist"),
                    json!({"host": host, "allowlist": self.policy.spec.allowlist}),
                ))
            }
        }
    }

    /// True if a rule of the policy makes the action critical. A rule about names says nothing of an unknown element.
    async fn is_raised(&mut self, action: &Action, element: Option<&Element>) -> Result<bool, Failure> {
        let policy = self.policy;
        for rule in &policy.critical {
            if rule.kind.is_some_and(|kind| kind != action.kind) {
                continue;
            }
            let fits =
                |name: &regex::Regex| element.is_some_and(|element| name.is_match(&element.description.name));
            if rule.name.as_ref().is_some_and(|name| !fits(name)) {
                continue;
            }
            let Some(host) = &rule.host else { return Ok(true) };
            let url = match &action.spec.url {
                Some(url) => url.clone(),
                None => self.page.location().await.map_err(|error| read_failed(&error, Phase::Pre))?.0,
            };
            if host.check_url(&url).is_ok() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// `DOMAIN_BLOCKED`, with the obligatory details and the URL.
    pub(super) fn blocked(&self, host: &str, url: &str) -> Failure {
        let url = self.redactor.text(url);
        let details = json!({"host": host, "allowlist": self.policy.spec.allowlist, "url": url});
        Failure::new(code::DOMAIN_BLOCKED, format!("{host} is not on the allowlist"), details)
    }
}

fn critical_blocked(reason: &str, message: &str, more: Value) -> Failure {
    let mut failure = Failure::new(code::ACTION_CRITICAL_BLOCKED, message, more);
    failure.details.insert("critical_reason".to_owned(), Value::from(reason));
    failure
}

/// The host of a URL with its port where it has one of its own; empty where it has none.
pub(super) fn host_of(url: &str) -> (String, String) {
    let Ok(url) = Url::parse(url) else { return Default::default() };
    let host = url.host_str().unwrap_or_default().to_owned();
    let with_port = match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.clone(),
    };
    (host, with_port)
}
