//! What each function costs, beside a round trip that does nothing. Run with
//! `cargo test -p capataz-executor --release --test chromium_script -- --ignored --nocapture measure`.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::Page;

const ROUNDS: usize = 300;

/// About 580 elements: a menu, a form, and a table of orders with a link and a button in each row.
fn orders() -> String {
    let rows: String = (0..60)
        .map(|n| {
            format!(
                "<tr data-testid=row-{n}><td>Order {n}</td><td><a href=/orders/{n}>A-{n}</a></td><td>{} €</td>
                <td><button class=open data-testid=open-{n}><span>Open</span> {n}</button></td></tr>",
                n * 3
            )
        })
        .collect();
    let fields: String = (0..15)
        .map(|n| {
            format!(
                "<div class=field><label for=i{n}>Field {n}</label><input id=i{n} name=n{n} value=v{n}></div>"
            )
        })
        .collect();
    let menu: String = (0..10).map(|n| format!("<li><a href=/p{n}>Page {n}</a></li>")).collect();
    format!(
        "<!doctype html><title>Orders</title><style>.open::before{{content:''}} .field{{display:flex}}</style>
        <nav><ul>{menu}</ul></nav><main><h1>Orders</h1><form>{fields}<label>Pass <input type=password value=x></label>
        <button>Save</button></form><table><thead><tr><th>a<th>b<th>c<th>d</tr></thead>{rows}</table></main>"
    )
}

#[test]
#[ignore = "a measurement"]
fn measure() {
    let page = Page::with(&orders());
    println!("{} elements", page.page("document.querySelectorAll('*').length"));
    let look =
        |locator: serde_json::Value| format!("capataz.look({}, null)", json!({ "locators": [locator] }));
    let handle = page.handle("[data-testid=open-30]");
    let table = page.handle("table");
    let calls = [
        ("evaluate 1", "1".to_owned()),
        ("testid", look(json!({ "kind": "testid", "value": "open-30" }))),
        ("role, name", look(json!({ "kind": "role", "role": "button", "name": "Open 30" }))),
        ("label", look(json!({ "kind": "label", "value": "Field 7" }))),
        ("css", look(json!({ "kind": "css", "value": "tr:nth-of-type(30) button" }))),
        ("xpath", look(json!({ "kind": "xpath", "value": "//button[@data-testid='open-30']" }))),
        ("text", look(json!({ "kind": "text", "value": "Order 30" }))),
        ("facts", format!("capataz.facts({handle})")),
        ("settle", format!("capataz.settle({handle}, 1000)")),
        ("arm, disarm", format!("capataz.disarm(capataz.arm({handle}))")),
        ("skeleton", "capataz.skeleton()".to_owned()),
        ("snapshot", format!("capataz.snapshot([{handle}])")),
        ("html", "capataz.html()".to_owned()),
        ("pageText", "capataz.pageText()".to_owned()),
        ("outline", "capataz.outline()".to_owned()),
        ("secretBoxes", "capataz.secretBoxes()".to_owned()),
        ("drawnText", "capataz.drawnText()".to_owned()),
        ("table", format!("capataz.table({table})")),
    ];
    let mut times = vec![Vec::new(); calls.len()];
    // In turns, so that a moment in which the machine is busy does not fall on one of them alone.
    for _ in 0..ROUNDS {
        for ((_, call), times) in calls.iter().zip(&mut times) {
            let begin = Instant::now();
            page.script(call);
            times.push(begin.elapsed());
        }
    }
    for ((name, _), mut times) in calls.iter().zip(times) {
        times.sort();
        let at = |share: usize| {
            times[times.len() * share / 100].max(Duration::from_micros(1)).as_secs_f64() * 1000.0
        };
        println!("{name:<12} p50 {:7.3} ms   p95 {:7.3} ms", at(50), at(95));
    }
}
