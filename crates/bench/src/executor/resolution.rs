//! Finding one element, by each kind of locator, beside an expression of the page that counts the same matches.

use capataz_executor::page::{Locator, Page, Query};

use super::ExecutorOptions;
use super::browsers::Browsers;
use super::times::Times;
use crate::Outcome;
use crate::report::{Cell, Section, Table};

/// The aim, as a multiple of the raw call's time.
const AIM_RATIO: f64 = 1.3;
/// Milliseconds, by role and name: the protocol's own call for it waits for a frame.
const AIM_ROLE: f64 = 1.0;

struct Case {
    name: &'static str,
    query: Query,
    /// Counts the matches in JavaScript.
    raw: &'static str,
    floor: Times,
    look: Times,
}

impl Case {
    fn new(name: &'static str, locator: Locator, raw: &'static str) -> Outcome<Self> {
        let query = Query { locators: vec![locator], ..Query::default() };
        Ok(Self { name, query, raw, floor: Times::new()?, look: Times::new()? })
    }

    async fn measure(&mut self, browsers: &mut Browsers) -> Outcome<()> {
        let counted = self.floor.of(browsers.raw.evaluate(self.raw)).await?;
        if counted != 1 {
            return Err(format!("the raw call for {} counts {counted}", self.name).into());
        }
        let look = self.look.of(browsers.page.look(&self.query)).await?;
        if look.count != 1 || look.element.is_none() {
            return Err(format!("{} finds {}", self.name, look.count).into());
        }
        Ok(())
    }
}

fn cases() -> Outcome<Vec<Case>> {
    let text = |value: &str| value.to_owned();
    Ok(vec![
        Case::new(
            "testid",
            Locator::Testid { value: text("edit-1030") },
            "document.querySelectorAll('[data-testid=\"edit-1030\"]').length",
        )?,
        Case::new(
            "role, name",
            Locator::Role { role: text("button"), name: Some(text("Edit order 1030")) },
            "document.querySelectorAll('button[aria-label=\"Edit order 1030\"]').length",
        )?,
        Case::new(
            "label",
            Locator::Label { value: text("Field 7") },
            "[...document.querySelectorAll('label')].filter(label => label.textContent.trim() === 'Field 7').length",
        )?,
        Case::new(
            "css",
            Locator::Css { value: text("tr:nth-of-type(30) button[data-testid]") },
            "document.querySelectorAll('tr:nth-of-type(30) button[data-testid]').length",
        )?,
        Case::new(
            "xpath",
            Locator::Xpath { value: text("//button[@data-testid='edit-1030']") },
            "document.evaluate(\"//button[@data-testid='edit-1030']\", document, null, 7).snapshotLength",
        )?,
        Case::new(
            "text",
            Locator::Text { value: text("1030") },
            "[...document.querySelectorAll('body *')]\
             .filter(one => one.childElementCount === 0 && one.textContent.trim() === '1030').length",
        )?,
    ])
}

pub(super) async fn resolution(options: &ExecutorOptions, browsers: &mut Browsers) -> Outcome<Section> {
    let mut cases = cases()?;
    let [mut nothing, mut ours] = Times::several()?;
    for round in 0..options.warm_up() + options.samples() {
        if round == options.warm_up() {
            nothing.forget();
            ours.forget();
            for case in &mut cases {
                case.floor.forget();
                case.look.forget();
            }
        }
        // Each call follows one to the other browser: the second of two to the same one would find it awake.
        nothing.of(browsers.raw.evaluate("1")).await?;
        ours.of(browsers.page.location()).await?;
        for case in &mut cases {
            case.measure(browsers).await?;
        }
    }
    let mut table = Table::new(["locator", "samples", "raw p50", "raw p99", "look p50", "look p99", "ratio"]);
    table.row([
        Cell::from("none: a constant; URL and title"),
        count(&nothing),
        nothing.median(),
        nothing.tail(),
        ours.median(),
        ours.tail(),
        ours.ratio(&nothing),
    ]);
    for case in &cases {
        let is_role = matches!(case.query.locators.first(), Some(Locator::Role { .. }));
        let (median, ratio) = (case.look.median(), case.look.ratio(&case.floor));
        let (median, ratio) =
            if is_role { (median.at_most(AIM_ROLE), ratio) } else { (median, ratio.at_most(AIM_RATIO)) };
        table.row([
            Cell::from(case.name),
            count(&case.look),
            case.floor.median(),
            case.floor.tail(),
            median,
            case.look.tail(),
            ratio,
        ]);
    }
    let mut section = Section::new("Finding one element");
    section.table(table);
    section.note("raw: Runtime.evaluate of an expression that counts the same matches; nothing but the number comes back");
    section.note(
        "look: all matches are counted, in open shadow roots too; of the one its role, name, box, state and cover come back",
    );
    Ok(section)
}

pub(super) fn count(times: &Times) -> Cell {
    Cell::new(times.count() as f64, crate::report::Unit::Count)
}
