//! Stage `proposal_validation`: an action that breaks a rule sends nothing to the page.

use capataz_contracts::placeholder::{Placeholder, Segment, placeholders};
use capataz_contracts::v1::{ActionKind, ScriptViolation};

use super::step::{Step, read_failed};
use crate::dsl::{Action, Condition, Test, read_action};
use crate::error::{Failure, Phase};
use crate::page::{Locator, Page, PageError, Query};

impl<P: Page> Step<'_, P> {
    pub(super) async fn validate(&mut self) -> Result<Action, Failure> {
        let task = self.task;
        let action = read_action(&task.action, task.interactive)
            .map_err(|violations| Failure::of_violations(&violations))?;
        let mut violations = self.missing_secrets(&action);
        violations.extend(self.unreadable_selectors(&action).await?);
        if violations.is_empty() { Ok(action) } else { Err(Failure::of_violations(&violations)) }
    }

    fn missing_secrets(&self, action: &Action) -> Vec<ScriptViolation> {
        if action.kind != ActionKind::Fill {
            return Vec::new();
        }
        let value = action.spec.value.as_deref().unwrap_or_default();
        let segments = placeholders(value).unwrap_or_default();
        let missing = segments.into_iter().filter_map(|segment| match segment {
            Segment::Placeholder(Placeholder::Secret(name)) if !self.secrets.has(name) => {
                Some(violation(action, "value", "secret", format!("there is no secret `{name}`")))
            }
            _ => None,
        });
        missing.collect()
    }

    /// Selectors and paths that the browser cannot read. Only the browser can tell; it is asked for all of them before
    /// anything is sent, so that a mistake in a postcondition is not found when it is too late.
    async fn unreadable_selectors(&mut self, action: &Action) -> Result<Vec<ScriptViolation>, Failure> {
        let mut found = Vec::new();
        if let Some(target) = &action.target
            && !self.is_readable(target).await?
        {
            selectors("target".to_owned(), target, &mut found);
        }
        if let Some(to) = &action.to {
            selectors("to".to_owned(), to, &mut found);
        }
        for (list, conditions) in
            [("conditions", &action.conditions), ("pre", &action.pre), ("post", &action.post)]
        {
            for (index, condition) in conditions.iter().enumerate() {
                of_condition(format!("{list}[{index}]"), condition, &mut found);
            }
        }
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let locators: Vec<&Locator> = found.iter().map(|(_, locator)| *locator).collect();
        let reasons = match self.page.unreadable(&locators).await {
            Ok(reasons) => reasons,
            // Whatever else is wrong with the page concerns a later stage.
            Err(error @ PageError::Lost { .. }) => return Err(read_failed(&error, Phase::Pre)),
            Err(_) => return Ok(Vec::new()),
        };
        let invalid = found.into_iter().zip(reasons).filter_map(|((path, locator), reason)| {
            let reason = self.redactor.text(&reason?).into_owned();
            Some(violation(action, &path, selector_field(locator)?, reason))
        });
        Ok(invalid.collect())
    }

    /// True if a target is known to be readable. A target of a single selector is looked up right away: that look shows
    /// whether the selector can be read, and finds the target as well.
    async fn is_readable(&mut self, target: &Query) -> Result<bool, Failure> {
        let [locator] = target.locators.as_slice() else { return Ok(false) };
        if selector_field(locator).is_none() || !target.frame.is_empty() || target.within.is_some() {
            return Ok(false);
        }
        match self.page.look(target).await {
            Ok(look) if look.invalid.is_none() => {
                self.first_look = Some(look);
                Ok(true)
            }
            Err(error @ PageError::Lost { .. }) => Err(read_failed(&error, Phase::Pre)),
            Ok(_) | Err(_) => Ok(false),
        }
    }
}

fn violation(action: &Action, path: &str, rule: &str, message: String) -> ScriptViolation {
    ScriptViolation {
        path: path.to_owned(),
        action_id: action.spec.id.clone(),
        rule: rule.to_owned(),
        message,
    }
}

/// The field of a target that has such a locator, where it is one that can be unreadable.
fn selector_field(locator: &Locator) -> Option<&'static str> {
    match locator {
        Locator::Css { .. } => Some("css"),
        Locator::Xpath { .. } => Some("xpath"),
        _ => None,
    }
}

/// The selectors of a query, with their paths in the action. Those within frames are read in the page itself, which reads
/// them alike.
fn selectors<'a>(path: String, query: &'a Query, found: &mut Vec<(String, &'a Locator)>) {
    for locator in &query.locators {
        if let Some(field) = selector_field(locator) {
            found.push((format!("{path}.{field}"), locator));
        }
    }
    if let Some(container) = &query.within {
        selectors(format!("{path}.within"), container, found);
    }
    for (index, frame) in query.frame.iter().enumerate() {
        selectors(format!("{path}.frame[{index}]"), frame, found);
    }
}

fn of_condition<'a>(path: String, condition: &'a Condition, found: &mut Vec<(String, &'a Locator)>) {
    if let Some(target) = &condition.target {
        selectors(format!("{path}.target"), target, found);
    }
    if let Test::Not(inner) = &condition.test {
        of_condition(format!("{path}.condition"), inner, found);
    }
}
