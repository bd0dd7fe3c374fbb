//! The site that scripts work on, in the parent, which is never killed; and whether there is a browser for them.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use capataz_client::Client;
use capataz_testsite::Site;

use crate::Outcome;
use crate::journal::Journal;
use crate::workloads::{Kind, act_of};

/// Requests that the site keeps whole. What came beyond them would not be judged.
const KEPT: usize = 10_000;

/// The kinds that can take part, and which one cannot and why.
pub(crate) async fn present(mut kinds: Vec<Kind>, client: &Client) -> Outcome<(Vec<Kind>, Option<String>)> {
    if !kinds.contains(&Kind::Scripts) {
        return Ok((kinds, None));
    }
    let browser = client.describe_browser().await?;
    if browser.found {
        eprintln!("  scripts: {}", browser.version);
        return Ok((kinds, None));
    }
    if must_be_there(std::env::var_os("CI"), std::env::var_os(CHROMIUM)) {
        return Err(format!("scripts cannot take part: {}", browser.problem).into());
    }
    kinds.retain(|kind| *kind != Kind::Scripts);
    Ok((kinds, Some(format!("SKIPPED  scripts: {}", browser.problem.trim()))))
}

/// Names the browser whatever the path says.
pub(crate) const CHROMIUM: &str = "CAPATAZ_CHROMIUM";

/// True where a missing browser is a failure: nobody watches this machine, by the value of `CI`, or somebody has named
/// the browser.
pub(crate) fn must_be_there(ci: Option<OsString>, named: Option<OsString>) -> bool {
    let is_ci = ci.is_some_and(|value| !["", "0", "false"].iter().any(|no| value.eq_ignore_ascii_case(no)));
    is_ci || named.is_some_and(|named| !named.is_empty())
}

/// Waits until a script clicks or sends something, but no longer than that.
pub(crate) async fn await_act(site: &Site, patience: Duration) -> bool {
    let seen = |path: &str| site.hits(path) + 1;
    let (sent, clicked) = (seen("/echo"), seen("/form/sent"));
    let act = async {
        tokio::select! {
            () = site.until_hits("/echo", sent) => {}
            () = site.until_hits("/form/sent", clicked) => {}
        }
    };
    tokio::time::timeout(patience, act).await.is_ok()
}

/// Writes down what the site saw of scripts.
pub(crate) async fn record(site: &Site, path: &Path) -> Outcome<()> {
    let requests = site.requests();
    if requests.len() >= KEPT {
        return Err(format!("{KEPT} requests came to the site, which keeps no more").into());
    }
    let acts: Vec<_> = requests.iter().filter_map(|request| act_of(request)).collect();
    Journal::open(path)?.write_all(&acts).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_browser_scripts_are_skipped_unless_nobody_watches_or_one_is_named() {
        let check = |ci: Option<&str>, named: Option<&str>| {
            must_be_there(ci.map(OsString::from), named.map(OsString::from))
        };
        assert!(check(Some("true"), None) && check(Some("1"), None) && check(None, Some("/opt/chromium")));
        assert!(!check(None, None) && !check(Some(""), Some("")) && !check(Some("False"), None));
    }
}
