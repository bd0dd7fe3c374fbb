//! Stage `proposal_validation`: an action that breaks a rule sends nothing to the page.

use capataz_contracts::script::{Placeholder, Segment, placeholders};
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
        let mut queries = Vec::new();
        if let Some(target) = &action.target {
            selectors("target", target, &mut queries);
        }
        for (list, conditions) in
            [("conditions", &action.conditions), ("pre", &action.pre), ("post", &action.post)]
        {
            for (index, condition) in conditions.iter().enumerate() {
                of_condition(format!("{list}[{index}]"), condition, &mut queries);
            }
        }
        let mut violations = Vec::new();
        for (path, query) in queries {
            match self.page.look(&query).await {
                Ok(look) => {
                    let invalid = look.invalid.map(|reason| {
                        let reason = self.redactor.text(&reason).into_owned();
                        let rule = if path.ends_with("css") { "css" } else { "xpath" };
                        violation(action, &path, rule, reason)
                    });
                    violations.extend(invalid);
                }
                // Whatever else is wrong with the page concerns a later stage.
                Err(error @ PageError::Lost { .. }) => return Err(read_failed(&error, Phase::Pre)),
                Err(_) => {}
            }
        }
        Ok(violations)
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

/// A query for each selector of its own: of several locators the first that matches hides the others. Selectors within
/// frames are read in the page itself, which reads them alike.
fn selectors(path: &str, query: &Query, queries: &mut Vec<(String, Query)>) {
    for locator in &query.locators {
        let field = match locator {
            Locator::Css { .. } => "css",
            Locator::Xpath { .. } => "xpath",
            _ => continue,
        };
        let alone = Query { locators: vec![locator.clone()], ..Query::default() };
        queries.push((format!("{path}.{field}"), alone));
    }
    for (index, frame) in query.frame.iter().enumerate() {
        selectors(&format!("{path}.frame[{index}]"), frame, queries);
    }
}

fn of_condition(path: String, condition: &Condition, queries: &mut Vec<(String, Query)>) {
    if let Some(target) = &condition.target {
        selectors(&format!("{path}.target"), target, queries);
    }
    if let Test::Not(inner) = &condition.test {
        of_condition(format!("{path}.condition"), inner, queries);
    }
}
