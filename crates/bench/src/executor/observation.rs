//! What is taken of a page as evidence.

use capataz_executor::chromium::ChromiumPage;
use capataz_executor::page::{Node, Page, Skeleton};
use capataz_executor::redact::Redactor;

use super::ExecutorOptions;
use super::browsers::Browsers;
use super::resolution::count;
use super::times::Times;
use crate::Outcome;
use crate::report::{Cell, Section, Table, Unit};

/// Milliseconds of partial DOM and signature.
const AIM: f64 = 5.0;

/// What it takes to ask for a signature.
async fn signature(page: &mut ChromiumPage, redactor: &Redactor) -> Outcome<usize> {
    let Skeleton { mut url, mut title, mut dom, mut anchors, mut inputs } = page.skeleton().await?;
    for text in [&mut url, &mut title, &mut dom, &mut anchors, &mut inputs] {
        redactor.string(text);
    }
    let texts = [dom, anchors, inputs];
    let hashes = texts.each_ref().map(|text| blake3::hash(text.as_bytes()));
    std::hint::black_box(hashes);
    Ok(texts.iter().map(String::len).sum())
}

async fn partial_dom(page: &mut ChromiumPage, node: &Node, redactor: &Redactor) -> Outcome<usize> {
    let mut snapshot = page.snapshot(std::slice::from_ref(node)).await?;
    redactor.json(&mut snapshot);
    Ok(snapshot.to_string().len())
}

async fn html(page: &mut ChromiumPage, redactor: &Redactor) -> Outcome<usize> {
    let mut html = page.html().await?;
    redactor.string(&mut html);
    Ok(html.len())
}

async fn picture(page: &mut ChromiumPage, redactor: &Redactor, masked: bool) -> Outcome<usize> {
    let picture = page.screenshot(false, &|text| redactor.found(text)).await?;
    if picture.masked != masked {
        return Err("the picture is not masked as it should be".into());
    }
    Ok(picture.png.len())
}

async fn both(page: &mut ChromiumPage, node: &Node, redactor: &Redactor) -> Outcome<usize> {
    Ok(signature(page, redactor).await? + partial_dom(page, node, redactor).await?)
}

pub(super) async fn observation(options: &ExecutorOptions, browsers: &mut Browsers) -> Outcome<Section> {
    let node = browsers.element("[data-testid=edit-1030]").await?.node;
    let redactor = Redactor::new(&[]);
    let mut times = Times::several::<10>()?;
    let mut sizes = [0; 10];
    for round in 0..options.warm_up() + options.samples() {
        if round == options.warm_up() {
            times.iter_mut().for_each(Times::forget);
        }
        let Browsers { page, masked, raw, .. } = &mut *browsers;
        let [seen, partial, together, whole, text, outline, plain, covered, raw_html, raw_picture] =
            &mut times;
        sizes = [
            seen.of(signature(page, &redactor)).await?,
            partial.of(partial_dom(page, &node, &redactor)).await?,
            together.of(both(page, &node, &redactor)).await?,
            whole.of(html(page, &redactor)).await?,
            text.of(page.text()).await?.len(),
            outline.of(page.outline(20_000, None)).await?.text.len(),
            plain.of(picture(page, &redactor, false)).await?,
            covered.of(picture(masked, &redactor, true)).await?,
            raw_html.of(raw.evaluate("document.documentElement.outerHTML")).await?.to_string().len(),
            raw_picture.of(raw.picture()).await?,
        ];
    }
    let [.., raw_html, raw_picture] = &times;
    let rows = [
        ("signature", None, None),
        ("partial DOM", None, None),
        ("signature and partial DOM", None, Some(AIM)),
        ("html_full", Some(raw_html), None),
        ("text", None, None),
        ("outline", None, None),
        ("screenshot", Some(raw_picture), None),
        ("screenshot, masked", Some(raw_picture), None),
    ];
    let mut table = Table::new(["what", "samples", "bytes", "p50", "p99", "raw p50", "ratio"]);
    for (((name, floor, aim), times), size) in rows.into_iter().zip(&times).zip(sizes) {
        let median = times.median();
        table.row([
            Cell::from(name),
            count(times),
            Cell::new(size as f64, Unit::Count),
            aim.map_or(median.clone(), |aim| median.at_most(aim)),
            times.tail(),
            floor.map_or(Cell::from("-"), Times::median),
            floor.map_or(Cell::from("-"), |floor| times.ratio(floor)),
        ]);
    }
    let mut section = Section::new("Evidence");
    section.table(table);
    section.note("all of it redacted; signature: skeleton, redaction and three hashes, without a picture's");
    section.note(
        "raw: the document's outerHTML by Runtime.evaluate; Page.captureScreenshot, its answer not decoded",
    );
    Ok(section)
}
