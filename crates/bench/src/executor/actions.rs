//! Actions with all their checks, as the executor performs them, beside input that is merely sent.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use capataz_contracts::{json as contract, v1};
use capataz_executor::dsl;
use capataz_executor::evidence::{EvidenceError, EvidenceSink, Stored};
use capataz_executor::page::{Act, Node, Page, WaitUntil};
use capataz_executor::perform::{Clock, NoSecrets, Performer, Task};
use capataz_testsite::Site;
use serde_json::{Value, json};

use super::ExecutorOptions;
use super::browsers::{Browsers, LIMIT, navigate};
use super::resolution::count;
use super::times::Times;
use super::watched::{Parts, Watched};
use crate::Outcome;
use crate::report::{Cell, Section, Table, Unit};

/// Milliseconds: with all stages and the evidence of the default policy, on a page at rest.
const AIM_CLICK: f64 = 25.0;
const AIM_FILL: f64 = 18.0;
/// The same without pictures.
const AIM_CLICK_ALONE: f64 = 18.0;
const AIM_FILL_ALONE: f64 = 10.0;

/// Both are in view without scrolling: text that is inserted scrolls to itself.
const BUTTON: &str = "[data-testid=edit-1001]";
const FIELD: &str = "#q";

struct Wall(Instant);

impl Clock for Wall {
    fn now_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Evidence that is hashed as a store would, and not kept.
#[derive(Default)]
struct Hashed(BTreeSet<String>);

impl EvidenceSink for Hashed {
    async fn put(&mut self, _: &str, content: Bytes) -> Result<Stored, EvidenceError> {
        let id = blake3::hash(&content).to_hex().to_string();
        self.0.insert(id.clone());
        Ok(Stored { id, size: content.len() as u64 })
    }

    async fn put_download(&mut self, _: &v1::DownloadRecord) -> Result<Stored, EvidenceError> {
        Err(EvidenceError("nothing is to be downloaded".to_owned()))
    }
}

/// How often the page is given time to come to rest before an action: a machine that stands still takes it.
const RESTS: usize = 5;

/// One kind of action, performed over and over.
struct Performed {
    performer: Performer,
    clock: Wall,
    pictured: bool,
    times: Times,
    /// Without what was spent on settling, which a frame bounds.
    unsettled: Times,
    parts: Parts,
}

impl Performed {
    fn new(browsers: &Browsers, pictured: bool) -> Outcome<Self> {
        Ok(Self {
            performer: Performer::new(browsers.policy.clone(), Vec::new()),
            clock: Wall(Instant::now()),
            pictured,
            times: Times::new()?,
            unsettled: Times::new()?,
            parts: Parts::new()?,
        })
    }

    fn forget(&mut self) {
        self.times.forget();
        self.unsettled.forget();
        self.parts.forget();
    }

    /// As [`Self::perform`], on a page that has come to rest since the last action, as it does while a run records an action
    /// or a model thinks about the next one.
    async fn perform_at_rest(&mut self, browsers: &mut Browsers, action: &Value) -> Outcome<()> {
        for _ in 0..RESTS {
            let redactor = self.performer.redactor().clone();
            browsers.page.look_ahead(Arc::new(move |text: &str| redactor.found(text)));
            if browsers.page.has_picture_ahead().await {
                return self.perform(browsers, action).await;
            }
        }
        Err("the page does not come to rest".into())
    }

    async fn perform(&mut self, browsers: &mut Browsers, action: &Value) -> Outcome<()> {
        let mut action: v1::Action =
            contract::parse("capataz.v1.Action", action).map_err(|error| format!("{error:?}"))?;
        "measured".clone_into(&mut action.id);
        dsl::materialise_action(&mut action, self.performer.policy().spec());
        let task = Task { action, step_index: Some(0), ..Task::default() };
        let Self { performer, clock, pictured, times, unsettled, parts } = self;
        let mut page = Watched { page: &mut browsers.page, parts, pictured: *pictured };
        let mut sink = Hashed::default();
        let performing = Box::pin(performer.perform(&mut page, &task, &NoSecrets, &mut sink, clock));
        let begun = Instant::now();
        let outcome = performing.await;
        let duration = begun.elapsed();
        times.note(duration);
        unsettled.note(duration.saturating_sub(parts.take_settling()));
        match outcome.error {
            None => Ok(()),
            Some(v1::ExecutorError { error_code, message, cause, .. }) => {
                Err(format!("{error_code}: {message} ({})", cause.unwrap_or_default()).into())
            }
        }
    }
}

pub(super) async fn actions(
    options: &ExecutorOptions,
    browsers: &mut Browsers,
    site: &Site,
) -> Outcome<Section> {
    let [mut raw_click, mut raw_steady_click, mut raw_fill] = Times::several()?;
    let [mut click_alone, mut fill_alone] = Times::several()?;
    let [mut raw_navigation, mut navigation] = Times::several()?;
    let (mut click, mut pictured_click) = (Performed::new(browsers, false)?, Performed::new(browsers, true)?);
    let (mut fill, mut pictured_fill) = (Performed::new(browsers, false)?, Performed::new(browsers, true)?);
    let (mut hasty_click, mut hasty_fill) =
        (Performed::new(browsers, true)?, Performed::new(browsers, true)?);
    let point = prepare(browsers).await?;
    let click_action = json!({ "kind": "click", "target": { "css": BUTTON } });
    let rounds = options.warm_up() + options.samples();
    for round in 0..rounds {
        if round == options.warm_up() {
            let floors = [&mut raw_click, &mut raw_steady_click, &mut raw_fill];
            floors.into_iter().for_each(Times::forget);
            for times in [&mut click_alone, &mut fill_alone] {
                times.forget();
            }
            let performed = [
                &mut click,
                &mut pictured_click,
                &mut hasty_click,
                &mut fill,
                &mut pictured_fill,
                &mut hasty_fill,
            ];
            performed.into_iter().for_each(Performed::forget);
        }
        raw_click.of(browsers.raw.click(point)).await?;
        raw_steady_click.of(browsers.raw.steady_click(BUTTON)).await?;
        click_alone.of(acted(browsers, BUTTON, |node| Act::Click { node, how: Default::default() })).await?;
        click.perform(browsers, &click_action).await?;
        hasty_click.perform(browsers, &click_action).await?;
        pictured_click.perform_at_rest(browsers, &click_action).await?;

        let text = format!("text {round}");
        let fill_action = |text: &str| json!({ "kind": "fill", "target": { "css": FIELD }, "value": text });
        raw_fill.of(browsers.raw.fill(FIELD, &text)).await?;
        fill_alone
            .of(acted(browsers, FIELD, |node| Act::Fill { node, text: "another text".to_owned() }))
            .await?;
        fill.perform(browsers, &fill_action(&text)).await?;
        hasty_fill.perform(browsers, &fill_action(&format!("{text} at once"))).await?;
        pictured_fill.perform_at_rest(browsers, &fill_action(&format!("{text} again"))).await?;
    }
    check(browsers, rounds).await?;
    for round in 0..5 + options.samples() / 5 {
        if round == 5 {
            raw_navigation.forget();
            navigation.forget();
        }
        let url = browsers.url.clone();
        raw_navigation.of(browsers.raw.navigate(&url)).await?;
        navigation.of(navigate(&mut browsers.page, &url)).await?;
    }
    if site.other_hits() > 0 {
        return Err("something came to the other host".into());
    }

    let mut table = Table::new(["action", "samples", "p50", "p99", "floor p50", "ratio"]);
    let mut row = |name: &str, times: &Times, floor: Option<&Times>, aim: Option<f64>| {
        let median = times.median();
        table.row([
            Cell::from(name),
            count(times),
            aim.map_or(median.clone(), |aim| median.at_most(aim)),
            times.tail(),
            floor.map_or(Cell::from("-"), Times::median),
            floor.map_or(Cell::from("-"), |floor| times.ratio(floor)),
        ]);
    };
    row("raw click, where the box is the same in two frames", &raw_steady_click, Some(&raw_click), None);
    row("click: look, settle, guarded input", &click_alone, Some(&raw_steady_click), None);
    row("click, all stages, without pictures", &click.times, Some(&raw_steady_click), Some(AIM_CLICK_ALONE));
    row("the same without its part settle", &click.unsettled, Some(&raw_click), None);
    row("click, all stages", &pictured_click.times, Some(&raw_steady_click), Some(AIM_CLICK));
    row("click, all stages, right after another action", &hasty_click.times, Some(&raw_steady_click), None);
    row("fill: look, guarded input", &fill_alone, Some(&raw_fill), None);
    row("fill, all stages, without pictures", &fill.times, Some(&raw_fill), Some(AIM_FILL_ALONE));
    row("fill, all stages", &pictured_fill.times, Some(&raw_fill), Some(AIM_FILL));
    row("fill, all stages, right after another action", &hasty_fill.times, Some(&raw_fill), None);
    row("navigation, until load", &navigation, Some(&raw_navigation), None);
    let mut section = Section::new("Actions");
    section.table(table);
    section.table(parts(&[
        ("click", &click),
        ("click, pictured", &pictured_click),
        ("fill", &fill),
        ("click at once", &hasty_click),
        ("fill, pictured", &pictured_fill),
        ("fill at once", &hasty_fill),
    ]));
    section.note("floor: move, press and release sent at once, after two frames where the row settles; focus, selection and text; Page.navigate and its load event");
    section.note("all stages: validation, policy, target, settling, signature, guarded input, proof, signature, evidence hashed");
    section.note(
        "all stages: the page has come to rest since the last action, and its picture was taken then; right after another \
         action there is no time for that",
    );
    section.note(
        "a click settles where its element has the same box in two frames, which are 16.7 ms apart: a frame bounds the part \
         settle, in which the page is seen meanwhile",
    );
    Ok(section)
}

/// Where the time of an action goes, by the operations on its page.
fn parts(actions: &[(&'static str, &Performed)]) -> Table {
    let mut table = Table::new(["action", "part", "calls each", "p50", "p99"]);
    for (name, performed) in actions {
        for (part, times) in performed.parts.iter() {
            let each = times.count() as f64 / performed.times.count().max(1) as f64;
            let each = Cell::new(each, Unit::Exact);
            table.row([Cell::from(*name), Cell::from(part), each, times.median(), times.tail()]);
        }
    }
    table
}

/// Looks for the element and does it, with what the page itself checks and nothing else.
async fn acted(browsers: &mut Browsers, selector: &str, act: impl FnOnce(Node) -> Act) -> Outcome<()> {
    let node = browsers.element(selector).await?.node;
    Ok(browsers.page.act(act(node), WaitUntil::Load, LIMIT).await?)
}

/// The raw browser counts its clicks; where it has to click.
async fn prepare(browsers: &Browsers) -> Outcome<(f64, f64)> {
    let script = format!(
        "(button => {{ \
           button.scrollIntoView({{ block: 'center' }}); \
           globalThis.clicks = 0; \
           button.addEventListener('click', () => {{ globalThis.clicks += 1; }}); \
           const box = button.getBoundingClientRect(); \
           return [box.x + box.width / 2, box.y + box.height / 2]; \
         }})(document.querySelector('{BUTTON}'))"
    );
    Ok(serde_json::from_value(browsers.raw.evaluate(&script).await?)?)
}

/// Everything that was sent has arrived.
async fn check(browsers: &mut Browsers, rounds: u32) -> Outcome<()> {
    let clicks = browsers.raw.evaluate("clicks").await?;
    let raw = browsers.raw.evaluate(&format!("document.querySelector('{FIELD}').value")).await?;
    let value = browsers.element(FIELD).await?.facts.value;
    let last = format!("text {}", rounds - 1);
    if clicks != json!(2 * rounds) || raw != json!(last) || value != Some(format!("{last} again")) {
        return Err(format!("{clicks} clicks in {rounds} rounds, and the texts {raw} and {value:?}").into());
    }
    Ok(())
}
