//! Conditions: do they hold, and what was observed instead.

use capataz_contracts::json as contract;
use serde_json::{Map, Value, json};

use super::policy::host_of;
use super::step::{Step, read_failed};
use crate::dsl::{Action, Condition, Matcher, Test, kind_name};
use crate::error::{FailedCondition, Failure, Phase, observed_text};
use crate::page::{Facts, Look, Page, PageError, Query};
use crate::text::normalised;

/// More matches than this are not looked at one by one.
const LOOKED_AT: u32 = 50;

/// The result of one condition.
struct Verdict {
    holds: bool,
    observed: Value,
}

impl Verdict {
    fn new(holds: bool, observed: impl Into<Value>) -> Self {
        Self { holds, observed: observed.into() }
    }
}

impl<P: Page> Step<'_, P> {
    /// The conditions that do not hold now, with what was observed.
    pub(super) async fn failing(
        &mut self,
        action: &Action,
        conditions: &[Condition],
        phase: Phase,
    ) -> Result<Vec<FailedCondition>, Failure> {
        let mut failed = Vec::new();
        for condition in conditions {
            let verdict = match self.test(action, condition).await {
                Ok(verdict) => verdict,
                Err(error @ PageError::Lost { .. }) => return Err(read_failed(&error, phase)),
                // A page that cannot be read now may be readable in a moment.
                Err(error) => Verdict::new(false, error.to_string()),
            };
            if !verdict.holds {
                let mut args = match contract::print("capataz.v1.Condition", &condition.spec) {
                    Value::Object(args) => args,
                    _ => Map::new(),
                };
                args.remove("kind");
                args.insert("observed".to_owned(), verdict.observed);
                let kind = kind_name(condition.spec.kind);
                failed.push(FailedCondition { kind, args: args.into(), phase });
            }
        }
        Ok(failed)
    }

    /// True if the condition holds now; an error where it cannot be read.
    pub(super) async fn holds(&mut self, action: &Action, condition: &Condition) -> Result<bool, PageError> {
        Ok(self.test(action, condition).await?.holds)
    }

    async fn test(&mut self, action: &Action, condition: &Condition) -> Result<Verdict, PageError> {
        let mut condition = condition;
        // An even number of negations cancels out.
        let mut negated = false;
        while let Test::Not(inner) = &condition.test {
            condition = inner;
            negated = !negated;
        }
        let mut verdict = match &condition.target {
            Some(target) => {
                let look = self.page.look(target).await?;
                self.test_target(action, condition, target, look).await?
            }
            None => self.test_page(&condition.test).await?,
        };
        verdict.holds ^= negated;
        Ok(verdict)
    }

    async fn test_target(
        &mut self,
        action: &Action,
        condition: &Condition,
        target: &Query,
        look: Look,
    ) -> Result<Verdict, PageError> {
        if let (Some(part), 2..) = (&look.part_missing, look.count) {
            return Ok(Verdict::new(false, json!({"part_missing": part, "count": look.count})));
        }
        let is_part = look.frame_missing.is_some() || look.part_missing.is_some();
        let count = if is_part { 0 } else { look.count };
        match &condition.test {
            Test::Count(wanted) => return Ok(Verdict::new(count == *wanted, count)),
            Test::Hidden => return self.test_hidden(target, count, look).await,
            _ => {}
        }
        let Some(element) = look.element else {
            return Ok(Verdict::new(false, json!({"count": count, "invalid": look.invalid})));
        };
        let facts = &element.facts;
        Ok(match &condition.test {
            Test::Visible => Verdict::new(facts.visible, facts.visible),
            Test::Enabled(wanted) => Verdict::new(facts.enabled == *wanted, facts.enabled),
            Test::Checked(wanted) => Verdict::new(facts.checked == Some(*wanted), json!(facts.checked)),
            Test::Text(matcher) => self.compare(matcher, Some(&normalised(&facts.text)), facts.secret),
            Test::Value(matcher) => self.compare(matcher, facts.value.as_deref(), facts.secret),
            Test::Attribute(name, matcher) => {
                let value = facts.attributes.get(name).map(String::as_str);
                self.compare(matcher, value, facts.secret)
            }
            Test::UploadListed(name) => self.test_upload(action, name.as_deref(), facts),
            Test::NoOverlay => {
                let by = facts.covered_by.as_ref();
                Verdict::new(by.is_none(), json!(by.map(|by| by.path.as_str())))
            }
            _ => Verdict::new(false, Value::Null),
        })
    }

    /// None, or none that is visible.
    async fn test_hidden(&mut self, target: &Query, count: u32, look: Look) -> Result<Verdict, PageError> {
        if let Some(element) = look.element {
            return Ok(Verdict::new(!element.facts.visible, json!({"visible": element.facts.visible})));
        }
        if target.nth.is_some() || count == 0 {
            return Ok(Verdict::new(
                look.invalid.is_none(),
                json!({"count": count, "invalid": look.invalid}),
            ));
        }
        for nth in 0..count.min(LOOKED_AT) {
            let one = Query { nth: Some(nth), ..target.clone() };
            let look = self.page.look(&one).await?;
            if look.element.is_some_and(|element| element.facts.visible) {
                return Ok(Verdict::new(false, json!({"count": count, "visible": true})));
            }
        }
        Ok(Verdict::new(count <= LOOKED_AT, json!({"count": count})))
    }

    async fn test_page(&mut self, test: &Test) -> Result<Verdict, PageError> {
        Ok(match test {
            Test::Text(matcher) => {
                let text = self.page.text().await?;
                self.compare(matcher, Some(&normalised(&text)), false)
            }
            Test::Url(matcher) => {
                let (url, _) = self.page.location().await?;
                self.compare(matcher, Some(&url), false)
            }
            Test::Host(matcher) => {
                let (url, _) = self.page.location().await?;
                let (host, with_port) = host_of(&url);
                let holds = matcher.holds(&host) || matcher.holds(&with_port);
                Verdict::new(holds, with_port)
            }
            Test::Title(matcher) => {
                let (_, title) = self.page.location().await?;
                self.compare(matcher, Some(&normalised(&title)), false)
            }
            Test::DownloadCompleted(name) => {
                let completed = self.own_downloads().filter(|download| download.state == "completed");
                let names: Vec<&str> = completed.map(|download| download.file_name.as_str()).collect();
                let holds = name.as_ref().map_or(!names.is_empty(), |name| names.contains(&name.as_str()));
                Verdict::new(holds, json!(names))
            }
            Test::NoOverlay => return self.test_overlays().await,
            _ => Verdict::new(false, Value::Null),
        })
    }

    async fn test_overlays(&mut self) -> Result<Verdict, PageError> {
        let policy = self.policy;
        for overlay in &policy.overlays {
            let look = self.page.look(overlay).await?;
            let count = look.count;
            let sample = look.sample.first().map(|first| first.path.clone());
            let hidden = self.test_hidden(overlay, count, look).await?;
            if !hidden.holds {
                return Ok(Verdict::new(false, json!(sample)));
            }
        }
        Ok(Verdict::new(true, Value::Null))
    }

    /// The file input has the files, or the text of the element names them.
    fn test_upload(&self, action: &Action, name: Option<&str>, facts: &Facts) -> Verdict {
        let wanted: Vec<&str> = match name {
            Some(name) => vec![name],
            None => action.spec.files.iter().map(|file| file_name(file)).collect(),
        };
        let lists = |name: &&str| facts.files.iter().any(|file| file == name) || facts.text.contains(*name);
        let holds = if wanted.is_empty() { !facts.files.is_empty() } else { wanted.iter().all(lists) };
        let observed = json!({
            "files": facts.files,
            "text": observed_text(&facts.text, facts.secret, self.redactor),
        });
        Verdict::new(holds, observed)
    }

    fn compare(&self, matcher: &Matcher, text: Option<&str>, secret: bool) -> Verdict {
        let Some(text) = text else { return Verdict::new(false, Value::Null) };
        Verdict::new(matcher.holds(text), observed_text(text, secret, self.redactor))
    }
}

/// The last segment of a path.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
