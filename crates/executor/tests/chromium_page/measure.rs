//! What pictures cost. Run with
//! `cargo test -p capataz-executor --release --test chromium_page -- --ignored --nocapture measure`.

use std::time::Instant;

use capataz_executor::page::{Page, SecretsIn};
use capataz_executor::redact::Redactor;

use crate::support::{Server, open};

const ROUNDS: usize = 100;

/// About 580 elements, with 24 KB of text and markup.
fn orders(secret: &str) -> String {
    let row = |n: usize| {
        format!(
            "<tr><td>Order {n} of the year</td><td><a href=/orders/{n}>A-{n}</a></td><td>{} €</td>\
             <td><input value='Paid in {n} days'></td><td><button class=open>Open {n}</button></td></tr>",
            n * 3
        )
    };
    let rows: String = (0..80).map(row).collect();
    format!("<!doctype html><title>Orders</title><h1>Orders {secret}</h1><table>{rows}</table>")
}

#[tokio::test]
#[ignore = "a measurement"]
async fn measure() {
    let key = orders("sk-live-0123456789abcdef");
    let server = Server::with(&[("/plain", &orders("")), ("/key", &key)]).await;
    let mut page = open(&[&server]).await;
    let redactor = Redactor::new(&[]);
    let nobody: &SecretsIn<'_> = &|_| Vec::new();
    let judge: &SecretsIn<'_> = &|text| redactor.found(text);
    for (name, path, secrets_in) in
        [("not judged", "/plain", nobody), ("nothing found", "/plain", judge), ("a key found", "/key", judge)]
    {
        page.go(&server.url(path)).await.unwrap();
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let begin = Instant::now();
            page.page.screenshot(false, secrets_in).await.unwrap();
            times.push(begin.elapsed().as_secs_f64() * 1000.0);
        }
        times.sort_by(f64::total_cmp);
        println!("{name:<14} p50 {:7.3} ms   p95 {:7.3} ms", times[ROUNDS / 2], times[ROUNDS * 95 / 100]);
    }
}
