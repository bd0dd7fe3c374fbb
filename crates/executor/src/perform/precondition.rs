//! Stage `precondition`: the target is found, the conditions before hold, and the element can be acted on.

use std::path::PathBuf;
use std::time::Duration;

use capataz_contracts::placeholder::{Placeholder, Segment, placeholders};
use capataz_contracts::v1::ActionKind;
use capataz_contracts::{json as contract, v1};
use capataz_policy::executor::code;
use serde_json::{Value, json};

use super::near;
use super::step::{Deadline, Step, read_failed};
use crate::dsl::{Action, RESOLUTION_ORDER};
use crate::error::{FailedCondition, Failure, Phase};
use crate::evidence::Seen;
use crate::page::{
    Description, Drop, Element, Facts, Locator, Look, Node, Page, PageError, Picture, Query, SecretsIn,
    Settled,
};
use crate::text::normalised;

/// The part of a page that is looked through for what is nearly a target that was not found, and the longest time for it.
const NEAR_CHARACTERS: usize = 20_000;
const NEAR_LIMIT: Duration = Duration::from_secs(1);

/// What the execution needs.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    pub(super) node: Option<Node>,
    /// What may get a key within the element, or without one, since it was judged.
    pub(super) takers: Vec<Node>,
    /// How often the key was stopped at what had not been judged.
    pub(super) stopped_keys: u32,
    /// Where it is dragged to.
    pub(super) drop: Option<Drop>,
    /// Values of the options to be selected.
    pub(super) values: Vec<String>,
    /// Files to be uploaded, without links and `..` in their paths.
    pub(super) files: Vec<PathBuf>,
    /// True if a check box is in the wanted state already.
    pub(super) is_done: bool,
}

impl<P: Page> Step<'_, P> {
    pub(super) async fn prepare(&mut self, action: &Action) -> Result<Prepared, Failure> {
        let deadline = self.deadline(action);
        self.limit_reads(deadline);
        if let Some(target) = &action.target {
            self.element = Some(self.find(action, target, deadline).await?);
        }
        self.hold_before(action, deadline).await?;
        if let Some(target) = &action.target {
            self.make_ready(action, target, deadline).await?;
        }
        let drop = self.place_to_drop(action, deadline).await?;
        let element = self.element.take();
        let judged = self.judge(action, element.as_ref()).await;
        self.element = element;
        judged?;
        let mut prepared = Prepared { drop, ..Prepared::default() };
        self.point(action, &mut prepared);
        if action.kind == ActionKind::Upload {
            prepared.files = self.files_to_upload(action).await?;
        }
        // Pictures are evidence, and have a time of their own.
        self.page.limit_reads(None);
        self.look_before(action).await?;
        if Self::sends(action) && !prepared.is_done {
            self.limit_reads(deadline);
            self.note_downloads();
            self.check_proof(action, deadline).await?;
        }
        Ok(prepared)
    }

    /// Where the target is dropped: on an element that is there exactly once and receives what is dropped, or at a distance.
    async fn place_to_drop(&mut self, action: &Action, deadline: Deadline) -> Result<Option<Drop>, Failure> {
        if let Some(by) = action.by() {
            return Ok(Some(Drop::By(by)));
        }
        let Some(to) = &action.to else { return Ok(None) };
        let found = self.resolution.take();
        let target = action.spec.to.as_ref().map(target_json);
        let ready = self.ready_to_drop_on(action, to, deadline).await;
        self.resolution = found;
        match ready {
            Ok(node) => Ok(Some(Drop::On(node))),
            Err(mut failure) => {
                failure.details.insert("field".to_owned(), "to".into());
                if failure.details.contains_key("target") {
                    failure.details.insert("target".to_owned(), target.unwrap_or_default());
                }
                Err(failure)
            }
        }
    }

    async fn ready_to_drop_on(
        &mut self,
        action: &Action,
        to: &Query,
        deadline: Deadline,
    ) -> Result<Node, Failure> {
        loop {
            let element = self.find(action, to, deadline).await?;
            let left = deadline.left(self.clock).unwrap_or_default();
            match self.page.settle(&element.node, None, left, None).await {
                Ok(_) => {
                    // The page may have been scrolled to it: it no longer looks as it did when the target rested.
                    self.before = None;
                    return Ok(element.node);
                }
                Err(PageError::Detached) if deadline.left(self.clock).is_some() => {}
                Err(error) => return Err(not_acted_on(action, &error)),
            }
        }
    }

    /// What of the element, as it is now, the execution needs.
    pub(super) fn point(&self, action: &Action, prepared: &mut Prepared) {
        let Some(Element { node, facts, .. }) = &self.element else { return };
        prepared.node = Some(pointed_at(action, node, facts));
        prepared.values = values(&action.spec.options, facts);
        let wanted = match action.kind {
            ActionKind::Check => Some(true),
            ActionKind::Uncheck => Some(false),
            _ => None,
        };
        prepared.is_done = wanted.is_some() && facts.checked == wanted;
    }

    /// The one element that the target means, waited for; more than one fails at once.
    async fn find(
        &mut self,
        action: &Action,
        target: &Query,
        deadline: Deadline,
    ) -> Result<Element, Failure> {
        loop {
            let look = match self.first_look.take() {
                Some(look) => Ok(look),
                None => self.page.look(target).await,
            };
            let look = match look {
                Ok(look) => look,
                Err(error) => {
                    // A page that cannot be read now may be readable in a moment.
                    let is_over = matches!(error, PageError::Lost { .. })
                        || !self.wait(deadline).await.map_err(|error| read_failed(&error, Phase::Pre))?;
                    if is_over {
                        return Err(read_failed(&error, Phase::Pre));
                    }
                    continue;
                }
            };
            if let Some(reason) = &look.invalid {
                // Selectors were read before; what is left is an element that was to show a frame.
                let violation = v1::ScriptViolation {
                    path: look
                        .frame_missing
                        .map_or("target".to_owned(), |depth| format!("target.frame[{depth}]")),
                    action_id: action.spec.id.clone(),
                    rule: "frame".to_owned(),
                    message: reason.clone(),
                };
                return Err(Failure::of_violations(&[violation]));
            }
            let is_part = look.frame_missing.is_some() || look.part_missing.is_some();
            let is_ambiguous = look.count > 1 && (target.nth.is_none() || is_part);
            if is_ambiguous {
                self.matches.clone_from(&look.matches);
                return Err(not_unique(action, &look));
            }
            if let Some(element) = look.element.clone() {
                let element = self.of_label(action, element).await?;
                self.resolution = Some(self.resolution(&look, &element));
                return Ok(element);
            }
            // An element that has a reference was there; where it is gone it does not come back.
            let is_gone = matches!(target.locators.as_slice(), [Locator::Ref { .. }]);
            if is_gone || !self.wait(deadline).await.map_err(|error| read_failed(&error, Phase::Pre))? {
                let mut failure = not_found(action, &look);
                failure.details.insert("near".to_owned(), self.nearest(target, &look).await.into());
                return Err(failure);
            }
        }
    }

    /// What of the page is nearly what was not found, as lines of its outline.
    async fn nearest(&mut self, target: &Query, look: &Look) -> Vec<String> {
        let query = match look.part_missing.as_deref() {
            None if look.frame_missing.is_none() => target,
            Some("within") => target.within.as_deref().unwrap_or(target),
            _ => return Vec::new(),
        };
        if !near::names_a_text(query) {
            return Vec::new();
        }
        self.page.limit_reads(Some(NEAR_LIMIT));
        match self.page.outline(NEAR_CHARACTERS, Some(NEAR_LIMIT)).await {
            // Scripts have no references.
            Ok(outline) => near::nearest(query, &outline.text, self.redactor, self.task.interactive),
            // It is help, and no more than that.
            Err(_) => Vec::new(),
        }
    }

    /// Where a label was found, what the action is about is its control.
    pub(super) async fn of_label(&mut self, action: &Action, element: Element) -> Result<Element, Failure> {
        use ActionKind::{Check, Uncheck, Upload};
        let (true, Some(handle)) = (matches!(action.kind, Check | Uncheck | Upload), element.facts.control)
        else {
            return Ok(element);
        };
        let node = Node { handle, ..element.node.clone() };
        match self.page.facts(&node, &[]).await {
            Ok(mut facts) => {
                // The control's own name is one of those.
                facts.used_names.extend(element.facts.used_names);
                Ok(Element { node, facts, description: element.description })
            }
            Err(error @ PageError::Lost { .. }) => Err(read_failed(&error, Phase::Pre)),
            // It is looked for again.
            Err(_) => Ok(element),
        }
    }

    fn resolution(&self, look: &Look, element: &Element) -> v1::ResolutionRecord {
        let rect = element.facts.rect;
        v1::ResolutionRecord {
            locator: look.locator.clone().unwrap_or_default(),
            count: look.count,
            tried: look.tried.clone(),
            element: self.redactor.text(&element.description.to_string()).into_owned(),
            x: Some(rect.x),
            y: Some(rect.y),
            width: Some(rect.width),
            height: Some(rect.height),
        }
    }

    async fn hold_before(&mut self, action: &Action, deadline: Deadline) -> Result<(), Failure> {
        loop {
            let failed = self.failing(action, &action.pre, Phase::Pre).await?;
            if failed.is_empty() {
                return Ok(());
            }
            if !self.wait(deadline).await.map_err(|error| read_failed(&error, Phase::Pre))? {
                return Err(Failure::of_declared(failed));
            }
        }
    }

    /// Waits until the element can be acted on. It is looked for anew each time: pages replace elements.
    pub(super) async fn make_ready(
        &mut self,
        action: &Action,
        target: &Query,
        deadline: Deadline,
    ) -> Result<(), Failure> {
        // The element that was found already serves as the first look, unless something was waited for in between.
        let mut is_fresh = action.pre.is_empty() && !self.was_stopped;
        self.struck = None;
        loop {
            if !is_fresh {
                self.element = Some(self.find(action, target, deadline).await?);
            }
            is_fresh = false;
            let Some(Element { node, facts, description }) = &self.element else { return Ok(()) };
            let unmet = unmet(action, facts);
            if !unmet.is_empty() {
                let is_final = unmet.iter().any(|(kind, _)| matches!(*kind, SECRET_INPUT | UNCHECKABLE));
                let target = action.spec.target.as_ref().map(target_json);
                let failed = unmet.into_iter().map(|(kind, observed)| FailedCondition {
                    kind: kind.to_owned(),
                    args: json!({"target": target, "observed": observed}),
                    phase: Phase::Pre,
                });
                let failed = failed.collect();
                if is_final || !self.wait(deadline).await.map_err(|error| read_failed(&error, Phase::Pre))? {
                    return Err(Failure::of_conditions(failed));
                }
                continue;
            }
            if !is_pointed_at(action, description) {
                return Ok(());
            }
            let node = pointed_at(action, node, facts);
            let left = deadline.left(self.clock).unwrap_or_default();
            let redactor = &*self.redactor;
            let secrets_in = |text: &str| redactor.found(text);
            let pictured = Self::sends(action).then_some::<&SecretsIn<'_>>(&secrets_in);
            match self.page.settle(&node, action.at(), left, pictured).await {
                Ok(Settled { rect, sight, struck }) => {
                    self.struck = struck;
                    self.before = sight.map(|sight| Seen::of(sight, self.redactor));
                    if let Some(resolution) = &mut self.resolution {
                        resolution.x = Some(rect.x);
                        resolution.y = Some(rect.y);
                        resolution.width = Some(rect.width);
                        resolution.height = Some(rect.height);
                    }
                    return Ok(());
                }
                Err(PageError::Detached) if deadline.left(self.clock).is_some() => {}
                Err(error) => return Err(not_acted_on(action, &error)),
            }
        }
    }

    /// What the page looks like before anything is sent to it.
    pub(super) async fn look_before(&mut self, action: &Action) -> Result<(), Failure> {
        if self.before.is_none() {
            let seen = self.see(Self::sends(action)).await;
            self.before = Some(seen.map_err(|error| match error {
                PageError::Lost { .. } => read_failed(&error, Phase::Pre),
                // An action without evidence is not performed.
                error => evidence_failed(&error.to_string(), None),
            })?);
        }
        if self.policy.auth.login_url.is_some() {
            self.url_before = self.page.location().await.map_err(|error| read_failed(&error, Phase::Pre))?.0;
        }
        if !self.policy.auth.texts.is_empty() {
            let text = self.page.whole_text().await.map_err(|error| read_failed(&error, Phase::Pre))?;
            let text = normalised(&text);
            let there = self.policy.auth.texts.iter().filter(|signal| text.contains(signal.as_str()));
            self.auth_texts_before = there.cloned().collect();
        }
        Ok(())
    }

    pub(super) async fn see(&mut self, pictured: bool) -> Result<Seen, PageError> {
        let redactor = &*self.redactor;
        let secrets_in = |text: &str| redactor.found(text);
        let sight = self.page.sight(pictured.then_some::<&SecretsIn<'_>>(&secrets_in)).await?;
        Ok(Seen::of(sight, redactor))
    }

    /// With everything masked that the redactor would mask in a text.
    pub(super) async fn picture(&mut self, full_page: bool) -> Result<Picture, PageError> {
        let redactor = &*self.redactor;
        self.page.screenshot(full_page, &|text| redactor.found(text)).await
    }
}

/// `EVIDENCE_FAILED`, in the place of another code where there was one.
pub(super) fn evidence_failed(reason: &str, original: Option<&Failure>) -> Failure {
    let details = json!({
        "original_code": original.map(|failure| failure.code),
        "original_message": original.map(|failure| failure.message.as_str()),
    });
    let mut failure = Failure::new(code::EVIDENCE_FAILED, "the evidence could not be taken or kept", details);
    failure.cause = Some(reason.to_owned());
    if let Some(original) = original {
        failure.conditions.clone_from(&original.conditions);
    }
    failure
}

/// Options of a list that an error names.
const OPTIONS_SHOWN: usize = 20;

/// A secret is typed only where the page, and pictures of it, do not show it.
const SECRET_INPUT: &str = "secret_input";

/// Of radio buttons one is always checked: only another one takes its mark away.
const UNCHECKABLE: &str = "uncheckable";

/// What lies under the pointer: the element, or the visible label of a check box that is not seen.
fn pointed_at(action: &Action, node: &Node, facts: &Facts) -> Node {
    match facts.label.filter(|_| goes_through_label(action, facts)) {
        Some(label) => Node { handle: label, ..node.clone() },
        None => node.clone(),
    }
}

fn goes_through_label(action: &Action, facts: &Facts) -> bool {
    let ticks = matches!(action.kind, ActionKind::Check | ActionKind::Uncheck);
    ticks && !facts.visible && facts.label.is_some()
}

/// What the element lacks for the action, each with what was observed.
fn unmet(action: &Action, facts: &Facts) -> Vec<(&'static str, Value)> {
    use ActionKind as Kind;
    let kind = action.kind;
    let needs_visible = !matches!(kind, Kind::Upload | Kind::ScrollTo | Kind::Extract);
    let needs_enabled = needs_visible && !matches!(kind, Kind::Hover | Kind::Press) || kind == Kind::Upload;
    let mut unmet = Vec::new();
    let mut need = |name: &'static str, is_met: bool, observed: Value| {
        if !is_met {
            unmet.push((name, observed));
        }
    };
    let is_seen = facts.visible || goes_through_label(action, facts);
    need("visible", !needs_visible || is_seen, json!(facts.visible));
    need("enabled", !needs_enabled || facts.enabled, json!(facts.enabled));
    match kind {
        Kind::Fill | Kind::Type => {
            need("editable", facts.editable, json!(facts.editable));
            need(SECRET_INPUT, facts.secret || !types_secret(action), json!(facts.secret));
        }
        Kind::Check | Kind::Uncheck => {
            need("checkable", facts.checked.is_some(), Value::Null);
            let is_set_radio = facts.input_type.as_deref() == Some("radio") && facts.checked == Some(true);
            need(UNCHECKABLE, kind != Kind::Uncheck || !is_set_radio, json!("a radio button"));
        }
        Kind::Select => {
            let labels = facts.options.iter().map(|option| option.label.as_str());
            let labels: Vec<&str> = labels.take(OPTIONS_SHOWN).collect();
            for option in &action.spec.options {
                need("option", value_of(option, facts).is_some(), json!({"wanted": option, "there": labels}));
            }
        }
        Kind::Upload => {
            need("file_input", facts.input_type.as_deref() == Some("file"), json!(facts.input_type));
        }
        _ => {}
    }
    unmet
}

fn types_secret(action: &Action) -> bool {
    let segments = placeholders(action.spec.value.as_deref().unwrap_or_default()).unwrap_or_default();
    segments.iter().any(|segment| matches!(segment, Segment::Placeholder(Placeholder::Secret(_))))
}

/// The value of the option that is meant: by its value, else by its exact label. Disabled options do not count.
fn value_of<'f>(wanted: &str, facts: &'f Facts) -> Option<&'f str> {
    let enabled = || facts.options.iter().filter(|option| !option.disabled);
    let label = normalised(wanted);
    let by_value = enabled().find(|option| option.value == wanted);
    let option = by_value.or_else(|| enabled().find(|option| normalised(&option.label) == label))?;
    Some(&option.value)
}

fn values(options: &[String], facts: &Facts) -> Vec<String> {
    options.iter().filter_map(|option| value_of(option, facts)).map(str::to_owned).collect()
}

/// True if the element must receive events at its centre. A form itself needs no
/// pointer; a button that submits one is used as by a click.
fn is_pointed_at(action: &Action, description: &Description) -> bool {
    use ActionKind as Kind;
    match action.kind {
        Kind::Click
        | Kind::DoubleClick
        | Kind::RightClick
        | Kind::Drag
        | Kind::Hover
        | Kind::Check
        | Kind::Uncheck
        | Kind::Download => true,
        Kind::Submit => !description.tag.eq_ignore_ascii_case("form"),
        _ => false,
    }
}

/// Why an element that was found did not get the action; nothing was sent to it.
pub(super) fn not_acted_on(action: &Action, error: &PageError) -> Failure {
    match error {
        PageError::Covered { by } | PageError::Interrupted { by: by @ Some(_) } => {
            let details = json!({
                "overlay_selector": by.as_ref().map(|by| by.path.as_str()),
                "overlay_text": by.as_ref().map(|by| by.name.as_str()),
            });
            Failure::new(code::OVERLAY_BLOCKING, "something lies over the target", details)
        }
        PageError::Detached => {
            let mut failure = not_found(action, &Look::default());
            failure.details.insert("stale".to_owned(), Value::from(true));
            failure
        }
        PageError::Moved { by } => {
            let target = action.spec.target.as_ref().map(target_json);
            let there = by.as_ref().map(|by| by.path.as_str());
            let observed = json!({"moved": true, "there_now": there});
            Failure::of_condition(Phase::Pre, "actionable", json!({"target": target, "observed": observed}))
        }
        PageError::NotActionable { reason } => {
            let target = action.spec.target.as_ref().map(target_json);
            let args = json!({"target": target, "observed": reason});
            Failure::of_condition(Phase::Pre, "actionable", args)
        }
        PageError::Unjudged { .. } => {
            let target = action.spec.target.as_ref().map(target_json);
            let args = json!({"target": target, "observed": "focus does not stay"});
            Failure::of_condition(Phase::Pre, "actionable", args)
        }
        error => read_failed(error, Phase::Pre),
    }
}

pub(super) fn target_json(target: &v1::Target) -> Value {
    contract::print("capataz.v1.Target", target)
}

fn not_found(action: &Action, look: &Look) -> Failure {
    let details = json!({
        "target_resolution_order": RESOLUTION_ORDER,
        "target": action.spec.target.as_ref().map(target_json),
        "count_observed": 0,
        // There are matches where the action asks for an `nth` beyond them.
        "count_before_nth": look.count,
        "tried": look.tried,
        "frame_missing": look.frame_missing,
        "part_missing": look.part_missing,
    });
    Failure::new(code::TARGET_NOT_FOUND, "no element matches the target", details)
}

fn not_unique(action: &Action, look: &Look) -> Failure {
    let details = json!({
        "target": action.spec.target.as_ref().map(target_json),
        "locator": look.locator,
        "count_observed": look.count,
        "matches_sample": look.sample,
        "frame_missing": look.frame_missing,
        "part_missing": look.part_missing,
    });
    Failure::new(code::TARGET_NOT_UNIQUE, format!("{} elements match the target", look.count), details)
}
