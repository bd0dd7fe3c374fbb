//! Stages `execution` and `postcondition`: the action is done once, and its expected effect is waited for.

use std::sync::Arc;

use capataz_contracts::placeholder::{Placeholder, Segment, placeholders};
use capataz_contracts::v1::{ActionKind, Criticality, DialogAnswer, WaitUntil};
use capataz_policy::executor::code;
use serde_json::{Value, json};

use super::changes::navigation_failed;
use super::conditions::file_name;
use super::policy::{critical_blocked, host_of, may_be_lowered};
use super::precondition::{Prepared, not_acted_on};
use super::step::{Deadline, Step, read_failed};
use super::uploads::upload_failed;
use crate::dsl::{Action, Condition, Test};
use crate::error::{FailedCondition, Failure, Phase};
use crate::page::{Act, Button, KeyBounds, KeyTaker, Node, Page, PageError, Pointing};
use crate::redact::is_peculiar;

/// How often a key is sent that was stopped, each time at something else, before anything received it. A page that moves the
/// focus once more has no place for the key.
const KEY_TRIES: u32 = 3;

impl<P: Page> Step<'_, P> {
    pub(super) async fn execute(&mut self, action: &Action, mut prepared: Prepared) -> Result<(), Failure> {
        if prepared.is_done {
            return Ok(());
        }
        self.page.limit_reads(None);
        let limit = self.timeout(action);
        let deadline = self.deadline(action);
        if let Some(act) = self.act(action, &prepared)? {
            // From here on the page may have received the action, unless the error says that it did not.
            self.touched = action.kind != ActionKind::ScrollTo;
            let mut acted = self.page.act(act, action.wait_until, limit).await;
            while let Err(error) = &acted
                && self.is_to_be_tried_again(action, error, &mut prepared, deadline).await?
                && let Some(act) = self.act(action, &prepared)?
            {
                self.touched = true;
                // Once it is sent, the page has as long for it as for the first one.
                acted = self.page.act(act, action.wait_until, limit).await;
            }
            if prepared.is_done {
                // The page has brought about by itself what was wanted.
                acted = Ok(());
            }
            if let Err(error) = acted.as_ref()
                && !is_download(action, error)
            {
                self.absorb();
                return Err(self.act_failed(action, error));
            }
        }
        match action.kind {
            ActionKind::Download => {
                let ended = loop {
                    let left = deadline.left(self.clock).unwrap_or_default();
                    let ended = self.page.downloads_ended(true, left).await;
                    self.absorb();
                    // A download of an earlier action may end now.
                    let goes_on = matches!(ended, Ok(true)) && self.own_downloads().next().is_none();
                    if !goes_on
                        || !self.wait(deadline).await.map_err(|error| read_failed(&error, Phase::Post))?
                    {
                        break if goes_on { Ok(false) } else { ended };
                    }
                };
                match ended {
                    Ok(true) => self.check_download()?,
                    Ok(false) => {
                        // The reason why no download began says more than that none began.
                        self.check_changes(self.answer(action))?;
                        return Err(download_failed("no download has ended in time"));
                    }
                    Err(error) => return Err(self.act_failed(action, &error)),
                }
            }
            ActionKind::Upload => self.check_taken(&prepared).await?,
            ActionKind::Extract => self.extract(action).await?,
            ActionKind::Screenshot => self.take_screenshot(action).await?,
            _ => {}
        }
        self.absorb();
        self.check_changes(self.answer(action))
    }

    /// True if an act that was stopped before anything received it may be sent once more.
    async fn is_to_be_tried_again(
        &mut self,
        action: &Action,
        error: &PageError,
        prepared: &mut Prepared,
        deadline: Deadline,
    ) -> Result<bool, Failure> {
        self.limit_reads(deadline);
        let tried = match error {
            PageError::Unjudged { taker, pressed } => {
                self.takes_key_again(action, (taker, *pressed), prepared, deadline).await
            }
            error if is_stopped_click(action, error) => self.is_ready_again(action, prepared, deadline).await,
            _ => Ok(false),
        };
        self.page.limit_reads(None);
        tried
    }

    /// True if a key that was stopped at something that was not judged may be sent once more, now that it is.
    async fn takes_key_again(
        &mut self,
        action: &Action,
        (taker, pressed): (&KeyTaker, bool),
        prepared: &mut Prepared,
        deadline: Deadline,
    ) -> Result<bool, Failure> {
        self.touched = pressed;
        let was = self.criticality;
        self.judge_taker(action, taker).await?;
        if pressed {
            return Err(focus_moved());
        }
        // What was judged as part of a normal action was not judged as part of a critical one.
        if self.criticality != was {
            prepared.takers.clear();
        }
        prepared.takers.push(taker.node.clone());
        prepared.stopped_keys += 1;
        self.check_proof(action, deadline).await?;
        Ok(prepared.stopped_keys < KEY_TRIES && deadline.left(self.clock).is_some())
    }

    /// Refuses a key that must not be used by what would get it.
    async fn judge_taker(&mut self, action: &Action, taker: &KeyTaker) -> Result<(), Failure> {
        self.struck = Some(Arc::new(taker.used.clone()));
        let element = self.element.take();
        let judged = self.judge(action, element.as_ref()).await;
        self.element = element;
        judged
    }

    /// Waits until the element can be clicked after a click was stopped before anything received it. False where no time
    /// is left, or where the element is in the wanted state by now. A proof that holds by now blocks a critical action.
    async fn is_ready_again(
        &mut self,
        action: &Action,
        prepared: &mut Prepared,
        deadline: Deadline,
    ) -> Result<bool, Failure> {
        let Some(target) = &action.target else { return Ok(false) };
        self.touched = false;
        self.was_stopped = true;
        if !self.wait(deadline).await.map_err(|error| read_failed(&error, Phase::Pre))? {
            return Ok(false);
        }
        self.make_ready(action, target, deadline).await?;
        // It may be another element that is there now.
        let element = self.element.take();
        let judged = self.judge(action, element.as_ref()).await;
        self.element = element;
        judged?;
        self.point(action, prepared);
        self.page.limit_reads(None);
        self.look_before(action).await?;
        if prepared.is_done {
            return Ok(false);
        }
        self.limit_reads(deadline);
        // What came with the pointer, before the click, proves nothing of it.
        self.check_proof(action, deadline).await?;
        Ok(deadline.left(self.clock).is_some())
    }

    /// The act that is sent to the page; `None` for an action that only reads.
    fn act(&mut self, action: &Action, prepared: &Prepared) -> Result<Option<Act>, Failure> {
        let spec = &action.spec;
        let node = || -> Result<Node, Failure> {
            // The precondition has found one for every kind that needs one.
            prepared.node.clone().ok_or_else(|| not_acted_on(action, &PageError::Detached))
        };
        Ok(Some(match action.kind {
            ActionKind::Navigate => Act::Navigate { url: spec.url.clone().unwrap_or_default() },
            ActionKind::Download => match &spec.url {
                Some(url) => Act::Navigate { url: url.clone() },
                None => Act::Click { node: node()?, how: Pointing::default() },
            },
            ActionKind::Back => Act::Back,
            ActionKind::Forward => Act::Forward,
            ActionKind::Reload => Act::Reload,
            ActionKind::Click
            | ActionKind::DoubleClick
            | ActionKind::RightClick
            | ActionKind::Check
            | ActionKind::Uncheck => Act::Click { node: node()?, how: pointing(action) },
            ActionKind::Drag => {
                let drop = prepared.drop.clone().ok_or_else(|| not_acted_on(action, &PageError::Detached))?;
                Act::Drag { node: node()?, how: pointing(action), drop }
            }
            ActionKind::Hover => Act::Hover { node: node()?, at: action.at() },
            ActionKind::Type => Act::Type { node: node()?, text: self.text_to_type(action)? },
            ActionKind::Fill => Act::Fill { node: node()?, text: self.text_to_type(action)? },
            ActionKind::Press => {
                let may_submit =
                    self.criticality == Criticality::Critical || may_be_lowered(self.policy, self.task);
                let bounds = Some(KeyBounds { judged: prepared.takers.clone(), may_submit });
                Act::Press { node: prepared.node.clone(), key: spec.key.clone().unwrap_or_default(), bounds }
            }
            ActionKind::Select => Act::Select { node: node()?, values: prepared.values.clone() },
            ActionKind::Submit => Act::Submit { node: node()? },
            ActionKind::Upload => Act::Upload { node: node()?, files: prepared.files.clone() },
            ActionKind::ScrollTo => Act::ScrollTo { node: node()? },
            ActionKind::Unspecified
            | ActionKind::WaitFor
            | ActionKind::Assert
            | ActionKind::Extract
            | ActionKind::Screenshot => return Ok(None),
        }))
    }

    /// The text with its secrets, which are masked in everything from now on.
    fn text_to_type(&mut self, action: &Action) -> Result<String, Failure> {
        let value = action.spec.value.as_deref().unwrap_or_default();
        let mut text = String::with_capacity(value.len());
        let mut secrets = Vec::new();
        for segment in placeholders(value).unwrap_or_default() {
            match segment {
                Segment::Text(plain) => text.push_str(plain),
                Segment::Placeholder(Placeholder::Secret(name)) => {
                    let secret = self.secrets.resolve(name).ok_or_else(|| gone(name))?;
                    text.push_str(&secret);
                    secrets.push(secret);
                }
                Segment::Placeholder(_) => {}
            }
        }
        for secret in &secrets {
            self.redactor.learn(secret);
        }
        // A text with secrets is one as a whole. What is typed in clear into a secret input is one where it is not an
        // ordinary word.
        let is_secret_input = || self.element.as_ref().is_some_and(|element| element.facts.secret);
        if !secrets.is_empty() || (is_peculiar(&text) && is_secret_input()) {
            self.redactor.learn(&text);
        }
        Ok(text)
    }

    /// A single-file input silently keeps one of two files, and pages may refuse what they do not like.
    async fn check_taken(&mut self, prepared: &Prepared) -> Result<(), Failure> {
        let Some(node) = &prepared.node else { return Ok(()) };
        let facts = match self.page.facts(node, &[]).await {
            Ok(facts) => facts,
            // A page that takes the files at once may replace the input: the postcondition tells.
            Err(PageError::Detached) => return Ok(()),
            Err(error) => return Err(read_failed(&error, Phase::Post)),
        };
        let missing = |file: &&String| !facts.files.iter().any(|taken| taken == file_name(file));
        match self.task.action.files.iter().find(missing) {
            Some(file) if !facts.files.is_empty() => {
                Err(upload_failed(file, "not_in_the_input", "the input did not take the file"))
            }
            _ => Ok(()),
        }
    }

    fn check_download(&self) -> Result<(), Failure> {
        match self.own_downloads().find(|download| download.state != "completed") {
            Some(download) => {
                let mut failure = download_failed("the download was cancelled");
                failure.details.insert("file_name".to_owned(), download.file_name.clone().into());
                Err(failure)
            }
            None => Ok(()),
        }
    }

    fn act_failed(&mut self, action: &Action, error: &PageError) -> Failure {
        let failure = match error {
            PageError::Lost { .. } => return read_failed(error, Phase::Post),
            PageError::Covered { .. }
            | PageError::Moved { .. }
            | PageError::Detached
            | PageError::Unjudged { .. }
            | PageError::Unguarded { .. }
            | PageError::NotActionable { .. } => {
                self.touched = false;
                not_acted_on(action, error)
            }
            // The press may have had its effect: whatever the code, the page was touched.
            PageError::Interrupted { by: Some(_) } => {
                let mut failure = not_acted_on(action, error);
                // A drag that was begun is stopped only where the drop would go to something else.
                if action.kind == ActionKind::Drag {
                    failure.details.insert("field".to_owned(), "to".into());
                }
                failure
            }
            PageError::Interrupted { by: None } | PageError::Unseen => {
                Failure::of_condition(Phase::Post, "performed", json!({"observed": error.to_string()}))
            }
            PageError::TooSlow { waiting_for, limit } => {
                // For a navigation the script says how far the document was to come.
                let names_a_point = action.traits.navigates && action.kind != ActionKind::Download;
                let awaited = if names_a_point { wait_condition(action.wait_until) } else { waiting_for };
                let details = json!({
                    "timeout_ms": u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
                    "wait_condition": awaited,
                });
                Failure::new(code::NAVIGATION_TIMEOUT, format!("{waiting_for} did not come in time"), details)
            }
            PageError::Blocked(request) => {
                let mut failure = self.blocked(&request.host, &request.url);
                failure.details.insert("request_kind".to_owned(), request.kind.clone().into());
                failure
            }
            PageError::NotLoaded { reason, url } => self.not_loaded(action, reason, url.as_deref()),
            PageError::Failed(_) | PageError::Unanswered { .. } => match action.kind {
                ActionKind::Upload => {
                    let file = action.spec.files.first().map_or("", String::as_str);
                    upload_failed(file, "refused", "the files could not be given to the page")
                }
                ActionKind::Download => download_failed("the download could not be begun"),
                _ => Failure::of_condition(Phase::Post, "performed", json!({"observed": error.to_string()})),
            },
        };
        failure.caused_by(error)
    }

    /// A document that the network did not give, before its time was over.
    fn not_loaded(&self, action: &Action, reason: &str, url: Option<&str>) -> Failure {
        if reason.contains("ERR_BLOCKED_BY_CLIENT") {
            let request = self.changes.blocked.last();
            let url = request.map(|request| request.url.as_str()).or(url).or(action.spec.url.as_deref());
            let url = url.unwrap_or_default();
            return self.blocked(&host_of(url).0, url);
        }
        if action.kind == ActionKind::Download {
            return download_failed("the download could not be loaded");
        }
        // Where there is no page to go back to, no other URL is known than that of the page that stays.
        let before = self.before.as_ref().map(|before| before.signature.url.as_str());
        navigation_failed(reason, url.or(action.spec.url.as_deref()).or(before).unwrap_or_default())
    }

    pub(super) fn answer(&self, action: &Action) -> DialogAnswer {
        action.dialogs.unwrap_or(self.policy.dialogs)
    }

    /// Waits until the postconditions hold.
    pub(super) async fn prove(&mut self, action: &Action) -> Result<(), Failure> {
        let deadline = self.deadline(action);
        loop {
            self.limit_reads(deadline);
            self.absorb();
            self.check_changes(self.answer(action))?;
            self.check_auth(action).await?;
            let mut failed = self.failing(action, &action.conditions, Phase::Assert).await?;
            // An assertion is about this moment; the effect of every other action may take time.
            let is_final = action.kind == ActionKind::Assert && !failed.is_empty();
            failed.extend(self.failing(action, &action.post, Phase::Post).await?);
            failed.extend(self.unchecked(action).await?);
            if failed.is_empty() {
                // What was read may be the page that the browser shows in the place of one that did not come.
                self.absorb();
                return self.check_changes(self.answer(action));
            }
            self.page.limit_reads(None);
            self.picture_before().await?;
            if is_final || !self.wait(deadline).await.map_err(|error| read_failed(&error, Phase::Post))? {
                let broke_off = self.own_downloads().any(|download| download.state == "cancelled");
                return Err(postcondition_failed(action, failed, broke_off));
            }
        }
    }

    /// A check box that a click did not change.
    async fn unchecked(&mut self, action: &Action) -> Result<Option<FailedCondition>, Failure> {
        let (kind, wanted) = match action.kind {
            ActionKind::Check => ("checked", true),
            ActionKind::Uncheck => ("unchecked", false),
            _ => return Ok(None),
        };
        let Some(target) = &action.target else { return Ok(None) };
        let looked = self.page.look(target).await;
        if let Err(error @ PageError::Lost { .. }) = &looked {
            return Err(read_failed(error, Phase::Post));
        }
        let element = match looked.ok().and_then(|look| look.element) {
            Some(element) => Some(self.of_label(action, element).await?),
            None => None,
        };
        let checked = element.and_then(|element| element.facts.checked);
        let failed =
            FailedCondition { kind: kind.to_owned(), args: json!({"observed": checked}), phase: Phase::Post };
        Ok((checked != Some(wanted)).then_some(failed))
    }

    /// An action that only reads has no picture from before it. One is taken when its conditions must be waited for,
    /// since the page is still unchanged then.
    async fn picture_before(&mut self) -> Result<(), Failure> {
        let has_none = self.before.as_ref().is_some_and(|before| before.picture.is_none());
        if !has_none {
            return Ok(());
        }
        match self.see(true).await {
            Ok(seen) => self.before = Some(seen),
            Err(error @ PageError::Lost { .. }) => return Err(read_failed(&error, Phase::Post)),
            // It is tried again with the evidence of the failure, if it comes to that.
            Err(_) => {}
        }
        Ok(())
    }
}

/// How the pointer is used for the action.
fn pointing(action: &Action) -> Pointing {
    Pointing {
        count: if action.kind == ActionKind::DoubleClick { 2 } else { 1 },
        button: if action.kind == ActionKind::RightClick { Button::Right } else { Button::Left },
        modifiers: action.modifiers.clone(),
        at: action.at(),
    }
}

/// A key whose beginning the page has received, which has moved the focus to what submits a form.
fn focus_moved() -> Failure {
    let message =
        "the page moved the focus to what submits a form after the key was pressed, and the rest was stopped";
    critical_blocked("focus_moved", message, json!({}))
}

/// A click that nothing on the page has received.
fn is_stopped_click(action: &Action, error: &PageError) -> bool {
    use ActionKind as Kind;
    let clicks = matches!(
        action.kind,
        Kind::Click
            | Kind::DoubleClick
            | Kind::RightClick
            | Kind::Check
            | Kind::Uncheck
            | Kind::Submit
            | Kind::Download
    );
    clicks && matches!(error, PageError::Covered { .. } | PageError::Moved { .. } | PageError::Detached)
}

/// A navigation that became a download was aborted by the browser itself.
fn is_download(action: &Action, error: &PageError) -> bool {
    action.kind == ActionKind::Download
        && matches!(error, PageError::NotLoaded { reason, .. } if reason.contains("ERR_ABORTED"))
}

/// True if the action is one whose download is expected: it says so by its kind or by a condition.
fn expects_download(action: &Action) -> bool {
    let is_download = |condition: &Condition| matches!(condition.test, Test::DownloadCompleted(_));
    action.kind == ActionKind::Download || action.post.iter().any(is_download)
}

fn postcondition_failed(action: &Action, failed: Vec<FailedCondition>, broke_off: bool) -> Failure {
    let of = |kind: &str| failed.iter().find(|condition| condition.kind == kind);
    let special = match action.kind {
        ActionKind::Upload => of("upload_listed").map(|condition| {
            let file = action.spec.files.first().map_or("", String::as_str);
            let mut failure = upload_failed(file, "not_listed", "the page does not list the file");
            let observed = condition.args.get("observed").cloned().unwrap_or(Value::Null);
            failure.details.insert("observed".to_owned(), observed);
            failure
        }),
        ActionKind::Download => {
            of("download_completed").map(|_| download_failed("the download that was expected did not come"))
        }
        // What the action was to bring about did not come, and a download of it broke off.
        _ if broke_off => Some(Failure::new(
            code::DOWNLOAD_FAILED,
            "the download that the action began broke off",
            json!({"expected_download": expects_download(action)}),
        )),
        _ => None,
    };
    match special {
        Some(failure) => Failure { conditions: failed, ..failure },
        None => Failure::of_conditions(failed),
    }
}

fn download_failed(message: &str) -> Failure {
    Failure::new(code::DOWNLOAD_FAILED, message, json!({"expected_download": true}))
}

fn gone(name: &str) -> Failure {
    let violation = capataz_contracts::v1::ScriptViolation {
        path: "value".to_owned(),
        rule: "secret".to_owned(),
        message: format!("the secret `{name}` is gone"),
        ..Default::default()
    };
    Failure::of_violations(&[violation])
}

fn wait_condition(until: WaitUntil) -> &'static str {
    match until {
        WaitUntil::Commit => "commit",
        WaitUntil::Dom => "dom",
        WaitUntil::Load | WaitUntil::Unspecified => "load",
    }
}
