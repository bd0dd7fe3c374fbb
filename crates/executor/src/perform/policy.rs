//! Stage `policy`: an action that the script's policy does not allow is not begun.

use capataz_contracts::v1::{ActionKind, ActionStage, Criticality, DialogAnswer, LowerCriticality};
use capataz_policy::executor::code;
use serde_json::{Value, json};
use url::Url;

use super::Task;
use super::step::{Deadline, Step, read_failed};
use crate::allowlist::Refusal;
use crate::dsl::{Action, Condition, Policy, kind_name};
use crate::error::{Failure, Phase};
use crate::keys::Chord;
use crate::page::{Element, Page, PageError};

impl<P: Page> Step<'_, P> {
    pub(super) async fn allow(&mut self, action: &Action) -> Result<(), Failure> {
        self.limit_reads(self.deadline(action));
        let answer = action.dialogs.unwrap_or(self.policy.dialogs);
        let given = if answer == DialogAnswer::Unspecified { DialogAnswer::Dismiss } else { answer };
        self.page.answer_dialogs(given, action.spec.prompt_text.clone());
        // What the last action caused may have come after it had ended: a blocked request never passes unseen.
        self.absorb();
        if action.traits.navigates {
            // It leads away from whatever has failed.
            self.failed_document = None;
        }
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
        let mut why = "the action is critical";
        if self.criticality != Criticality::Critical {
            if self.is_raised(action, element).await? {
                why = "the policy makes the action critical";
                self.criticality = Criticality::Critical;
            } else if !may_be_lowered(self.policy, self.task) && self.commits(action, element).await? {
                why = "the action submits something, which makes it critical";
                self.criticality = Criticality::Critical;
            }
        }
        if self.criticality != Criticality::Critical {
            return Ok(());
        }
        if !action.has_strong_postcondition {
            return Err(critical_blocked(
                "missing_strong_postcondition",
                &format!("{why}, and nothing would prove its effect"),
                json!({}),
            ));
        }
        let own = element.and_then(|element| element.facts.destination.as_deref());
        let struck = self.struck.as_ref().and_then(|struck| struck.destination.as_deref());
        for destination in own.into_iter().chain(struck) {
            match self.policy.allowlist.check_url(destination) {
                Ok(()) => {}
                // A `javascript:` URL runs in the page itself and leads to no other host.
                Err(Refusal::Scheme { scheme }) if scheme == "javascript" => {}
                Err(refusal) => {
                    let host = refusal.host();
                    return Err(critical_blocked(
                        "unsafe_domain_escape",
                        &format!("the action would lead to {host}, which is not on the allowlist"),
                        json!({"host": host, "allowlist": self.policy.spec.allowlist}),
                    ));
                }
            }
        }
        Ok(())
    }

    /// True if the action submits a form.
    async fn commits(&mut self, action: &Action, element: Option<&Element>) -> Result<bool, Failure> {
        let strikes = self.struck.as_ref().is_some_and(|struck| struck.submits);
        match action.kind {
            // What is let go on the element that it was pressed on is clicked, and so is what a download begins with, and a
            // switch, which may be a button of a form.
            ActionKind::Click
            | ActionKind::DoubleClick
            | ActionKind::Drag
            | ActionKind::Download
            | ActionKind::Check
            | ActionKind::Uncheck => Ok(strikes || element.is_some_and(|element| element.facts.submits)),
            ActionKind::Press if strikes => Ok(true),
            ActionKind::Press => self.submits_by_key(action, element).await,
            _ => Ok(false),
        }
    }

    /// True if the key submits a form, or may: nobody knows of a focus that cannot be read.
    async fn submits_by_key(&mut self, action: &Action, element: Option<&Element>) -> Result<bool, Failure> {
        let chord = Chord::parse(action.spec.key.as_deref().unwrap_or_default());
        let key = chord.as_ref().map_or("", |chord| chord.stroke.key.as_ref());
        if !matches!(key, "Enter" | " ") {
            return Ok(false);
        }
        let keys = match (element, &action.target) {
            (Some(element), _) => element.facts.submitting_keys,
            // It is judged when it is found.
            (None, Some(_)) => return Ok(false),
            // Without a target the key goes to what has the focus.
            (None, None) => match self.page.focused_keys().await {
                Err(error @ PageError::Lost { .. }) => return Err(read_failed(&error, Phase::Pre)),
                Err(_) => return Ok(true),
                Ok(keys) => keys,
            },
        };
        Ok(if key == "Enter" { keys.submits_by_enter } else { keys.submits_by_space })
    }

    /// Refuses a critical action whose strong postconditions hold already: they would hold whatever becomes of it (CONTRACTS
    /// §3, U5). Asked last before the input. A proof that cannot be read now is read again until the deadline: without that
    /// nobody knows that it does not hold.
    pub(super) async fn check_proof(&mut self, action: &Action, deadline: Deadline) -> Result<(), Failure> {
        if self.criticality != Criticality::Critical {
            return Ok(());
        }
        let proofs: Vec<&Condition> = action.post.iter().filter(|condition| condition.strong).collect();
        if proofs.is_empty() {
            return Ok(());
        }
        loop {
            let mut unread = None;
            for proof in &proofs {
                match self.holds(action, proof).await {
                    Ok(true) => {}
                    Ok(false) => return Ok(()),
                    Err(error @ PageError::Lost { .. }) => return Err(read_failed(&error, Phase::Pre)),
                    Err(error) => unread = Some(error),
                }
            }
            let Some(error) = unread else { break };
            if !self.wait(deadline).await.map_err(|error| read_failed(&error, Phase::Pre))? {
                return Err(read_failed(&error, Phase::Pre));
            }
        }
        let kinds: Vec<String> = proofs.iter().map(|proof| kind_name(proof.spec.kind)).collect();
        Err(critical_blocked(
            "postcondition_already_true",
            "what is to prove the action's effect holds before it already",
            json!({"postconditions": kinds}),
        ))
    }

    /// True if a rule of the policy makes the action critical. A rule about names says nothing of an unknown element.
    async fn is_raised(&mut self, action: &Action, element: Option<&Element>) -> Result<bool, Failure> {
        let policy = self.policy;
        for rule in &policy.critical {
            if rule.kind.is_some_and(|kind| kind != action.kind) {
                continue;
            }
            let struck = self.struck.as_ref().map_or(&[][..], |struck| &struck.names);
            let own = element.map_or(&[][..], |element| &element.facts.used_names);
            let fits = |name: &regex::Regex| {
                element.is_some_and(|element| name.is_match(&element.description.name))
                    || struck.iter().chain(own).any(|used| name.is_match(used))
            };
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

/// True if the action is declared normal, and that counts (CONTRACTS §3, U5: `lower_criticality`).
pub(super) fn may_be_lowered(policy: &Policy, task: &Task) -> bool {
    let is_declared = task.action.criticality == Some(Criticality::Normal as i32);
    let forbids = match policy.spec.lower_criticality() {
        LowerCriticality::Allow => false,
        LowerCriticality::Forbid => true,
        LowerCriticality::Unspecified => task.interactive,
    };
    // A recovery is the policy's own.
    is_declared && (!forbids || task.recovers)
}

pub(super) fn critical_blocked(reason: &str, message: &str, more: Value) -> Failure {
    let mut failure = Failure::new(code::ACTION_CRITICAL_BLOCKED, message, more);
    failure.details.insert("critical_reason".to_owned(), Value::from(reason));
    // A target that comes late is judged later, by the same rules.
    failure.stage = Some(ActionStage::Policy);
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
