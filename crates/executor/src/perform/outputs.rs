//! What actions take from the page: values and pictures.

use capataz_contracts::v1::{ActionOutput, ExtractKind};
use capataz_policy::executor::evidence;
use serde_json::Value;

use super::precondition::{evidence_failed, not_acted_on};
use super::step::{Step, read_failed};
use crate::dsl::Action;
use crate::error::{Failure, Phase};
use crate::evidence::{PNG, Piece};
use crate::page::{PAGE_MASK, Page, PageError};
use crate::redact::MASK;

impl<P: Page> Step<'_, P> {
    /// A JSON value: a text, a list of rows, or `null` where there is no such value or attribute. Redacted.
    pub(super) async fn extract(&mut self, action: &Action) -> Result<(), Failure> {
        let Some(element) = &self.element else { return Ok(()) };
        let facts = &element.facts;
        let facts_are_secret = facts.secret;
        let mut value = match action.extract {
            _ if facts.secret => Value::from(MASK),
            ExtractKind::Text | ExtractKind::Unspecified => Value::from(facts.text.as_str()),
            ExtractKind::Value => Value::from(facts.value.as_deref()),
            ExtractKind::Attribute => {
                let name = action.spec.attribute.as_deref().unwrap_or_default();
                Value::from(facts.attributes.get(name).map(String::as_str))
            }
            ExtractKind::Table => {
                let node = element.node.clone();
                match self.page.table(&node).await {
                    Ok(rows) => Value::from(rows),
                    Err(error @ PageError::Detached) => return Err(not_acted_on(action, &error)),
                    Err(error) => return Err(read_failed(&error, Phase::Post)),
                }
            }
        };
        let redacted = self.redactor.json(&mut value) || facts_are_secret;
        let name = action.spec.output.clone().unwrap_or_default();
        let value = value.to_string();
        // A part of the element that is secret was masked within the page.
        let redacted = redacted || value.contains(PAGE_MASK);
        self.output = Some(ActionOutput { name, value, redacted });
        Ok(())
    }

    pub(super) async fn take_screenshot(&mut self, action: &Action) -> Result<(), Failure> {
        let picture = self.picture(action.spec.full_page).await.map_err(|error| match error {
            PageError::Lost { .. } => read_failed(&error, Phase::Post),
            error => evidence_failed(&error.to_string(), None),
        })?;
        self.pieces.push(Piece {
            kind: evidence::SCREENSHOT,
            media_type: PNG,
            content: picture.png,
            redacted: picture.masked,
        });
        Ok(())
    }
}
