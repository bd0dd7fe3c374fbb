//! The page for a model to read, and the references in it.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::ChromiumPage;
use super::call::{Failure, READ_LIMIT};
use super::script::function;
use crate::page::{Locator, Outline, PageError, Query};

/// Least room for a frame's outline, in characters. With less it is left out.
const LEAST_ROOM: usize = 80;

/// Outlined documents, each of which gives its references a number: `d1e12` is the twelfth element of the first one. So a
/// reference never means something in another document.
#[derive(Debug, Default)]
pub(super) struct References(Vec<String>);

impl References {
    fn prefix(&mut self, document: &str) -> String {
        let known = self.0.iter().position(|known| known == document);
        let index = known.unwrap_or_else(|| {
            self.0.push(document.to_owned());
            self.0.len() - 1
        });
        format!("d{}", index + 1)
    }

    /// The document of a reference, and what the reference is within it.
    fn resolve(&self, reference: &str) -> Option<(&str, String)> {
        let (number, element) = reference.strip_prefix('d')?.split_once('e')?;
        let index = number.parse::<usize>().ok()?.checked_sub(1)?;
        Some((self.0.get(index)?, format!("e{element}")))
    }

    /// The document that a query by reference belongs to, and the query as that document takes it. `None` if the query
    /// has no reference, and `Some(None)` if its reference is not one that was handed out.
    pub(super) fn query(&self, query: &Query) -> Option<Option<(String, Query)>> {
        let reference = query.locators.iter().find_map(|locator| match locator {
            Locator::Ref { value } => Some(value),
            _ => None,
        })?;
        Some(self.resolve(reference).map(|(document, value)| {
            let locators = vec![Locator::Ref { value }];
            (document.to_owned(), Query { locators, frame: Vec::new(), ..query.clone() })
        }))
    }
}

#[derive(Deserialize)]
struct Outlined {
    text: String,
    truncated: bool,
}

impl ChromiumPage {
    /// The outline of the document, followed by that of each frame.
    pub(super) async fn outlined(
        &mut self,
        max_characters: usize,
        longest: Option<Duration>,
    ) -> Result<Outline, PageError> {
        let mut outline = Outline { text: String::new(), truncated: false };
        let main = self.main_document().await?;
        let mut documents = self.documents();
        documents.retain(|document| *document != main);
        documents.insert(0, main);
        let mut listeners = self.listeners(&documents).await;
        for document in documents {
            let room = max_characters.saturating_sub(outline.text.chars().count());
            if room < LEAST_ROOM && !outline.text.is_empty() {
                outline.truncated = true;
                break;
            }
            let prefix = self.references.prefix(&document);
            let clickable = listeners.remove(&document).unwrap_or_default();
            let arguments = json!([{
                "max": room, "prefix": prefix, "redaction": self.redaction, "clickable": clickable,
                "longest": longest.map(|longest| longest.as_secs_f64() * 1e3),
            }]);
            let outlined: Result<Outlined, Failure> =
                self.script(&document, function::OUTLINE, arguments, READ_LIMIT).await;
            let outlined = match outlined {
                Ok(outlined) => outlined,
                // The document went away while it was read. Its successor is read the next time.
                Err(Failure::Gone) => continue,
                Err(Failure::Page(error)) => return Err(error),
            };
            if !outline.text.is_empty() && !outlined.text.is_empty() {
                outline.text.push_str("\n- frame:\n");
            }
            outline.text.push_str(&outlined.text);
            outline.truncated |= outlined.truncated;
        }
        Ok(outline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_of_one_document() {
        let mut references = References::default();
        assert_eq!(references.prefix("one"), "d1");
        assert_eq!(references.prefix("two"), "d2");
        assert_eq!(references.prefix("one"), "d1");
        assert_eq!(references.resolve("d2e7"), Some(("two", "e7".to_owned())));
        for reference in ["", "e7", "d3e7", "d0e7", "d-1e7", "de7", "2e7", "d99999999999999999999e1"] {
            assert_eq!(references.resolve(reference), None, "{reference}");
        }
    }
}
