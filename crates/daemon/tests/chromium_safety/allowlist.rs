//! Whatever a page tries, the host that is not on the allowlist sees no request, no connection and no datagram of it.

use std::collections::BTreeSet;
use std::fmt::Write;

use capataz_contracts::v1::{self, event::Body};
use capataz_testsite::{PROBES, Probe};

use crate::bench::{Bench, Ended};
use crate::support::details;

/// Scripts that share the probes out, each with a browser of its own.
const SCRIPTS: usize = 2;

/// Ways that are closed before there is a request or a connection: by the browser's switches, or by Chromium itself.
const UNTOLD: [&str; 6] = ["web-transport", "webrtc-udp", "dns-prefetch", "speculation", "link-data", "ping"];

/// Ways on which no request is begun: the floor refuses the connection, which fails no action.
const CONNECTIONS: [&str; 2] = ["webrtc-tcp", "preconnect"];

/// Pages that lead away at once, and never say that they are done.
const LEAVING: [&str; 3] = ["script-location", "meta-refresh", "document-redirect"];

/// One script that goes through these probes, one after the other, whatever becomes of each.
fn script(probes: &[Probe], policy: &str) -> String {
    let mut toml = format!(
        "name = \"probes\"\n[policy]\nallowlist = [\"{{site}}\"]\nmax_steps = 1000\nsame_state_revisit = 10000\n{policy}\n"
    );
    for Probe { name, needs_click, .. } in probes {
        let mut action = |id: &str, rest: &str| {
            write!(toml, "[[actions]]\nid = \"{id}-{name}\"\non_failure = \"continue\"\n{rest}\n").unwrap();
        };
        action("open", &format!("kind = \"navigate\"\nurl = \"http://{{site}}/probe/{name}\""));
        if *needs_click {
            // What a form sends is judged by its request here, not by what it is.
            action("click", "kind = \"click\"\ncriticality = \"normal\"\ntarget = { testid = \"go\" }");
        } else {
            let done = "conditions = [{ kind = \"title_equals\", value = \"done\" }]";
            let limit = if LEAVING.contains(name) { "1500ms" } else { "10s" };
            action("done", &format!("kind = \"wait_for\"\n{done}\ntimeout = \"{limit}\""));
        }
        // What comes late is told to this one, so that the next probe is not refused in its place.
        action("fence", "kind = \"navigate\"\nurl = \"http://{site}/delayed?ms=300\"");
    }
    toml
}

/// The errors of each of the actions of a probe.
pub fn errors_of<'e>(ended: &'e Ended, probe: &str) -> Vec<&'e v1::ExecutorError> {
    ["open", "click", "done", "fence"]
        .iter()
        .filter_map(|id| ended.error_of(&format!("{id}-{probe}")))
        .collect()
}

pub fn is_blocked(error: &v1::ExecutorError) -> bool {
    error.error_code == "DOMAIN_BLOCKED"
}

/// Runs all probes, and says with what scripts they ended.
pub async fn probe_all(bench: &Bench, policy: &str) -> Vec<(Vec<Probe>, Ended)> {
    let mut begun = Vec::new();
    for share in PROBES.chunks(PROBES.len().div_ceil(SCRIPTS)) {
        let run = bench.try_start(bench.script(&script(share, policy))).await.unwrap();
        begun.push((share.to_vec(), run));
    }
    let mut ended = Vec::new();
    for (share, run) in begun {
        let run = bench.ended(run).await;
        assert!(
            run.script().error.is_none(),
            "the script goes through all of them: {:?}",
            run.script().error
        );
        ended.push((share, run));
    }
    for probe in PROBES {
        let path = format!("/probe/{}", probe.name);
        assert!(bench.site.hits(&path) > 0, "{path} was never opened");
    }
    ended
}

#[tokio::test]
async fn no_way_leads_to_the_other_host_and_each_attempt_is_a_domain_blocked() {
    let bench = Bench::start().await;
    let mut untold = BTreeSet::new();
    for (share, ended) in probe_all(&bench, "").await {
        for probe in share {
            let errors = errors_of(&ended, probe.name);
            for error in errors.iter().filter(|error| is_blocked(error)) {
                let details = details(error);
                assert_eq!(details["allowlist"], serde_json::json!([bench.site.host()]), "{}", probe.name);
                assert!(!details["host"].as_str().unwrap().is_empty(), "{}: {details}", probe.name);
                assert!(!error.evidence_refs.is_empty());
            }
            let told = errors.into_iter().any(is_blocked);
            if !told {
                untold.insert(probe.name);
            }
        }
    }
    assert_eq!(bench.site.other_hits(), 0, "{:#?}", bench.site.requests());
    assert_eq!(untold, UNTOLD.into_iter().chain(CONNECTIONS).collect());
}

/// What was recorded as blocked while the actions of a probe were performed.
fn recorded<'e>(ended: &'e Ended, probe: &str) -> Vec<&'e v1::BlockedRequest> {
    let ids = ["open", "click", "done", "fence"].map(|id| format!("{id}-{probe}"));
    let changes = ended.events.iter().filter_map(|event| match &event.body {
        Some(Body::ActionFinished(finished)) if ids.contains(&finished.action_id) => {
            finished.changes.as_ref()
        }
        Some(Body::ActionFailed(failed))
            if failed.error.as_ref().is_some_and(|error| ids.contains(&error.action_id)) =>
        {
            failed.changes.as_ref()
        }
        _ => None,
    });
    changes.flat_map(|changes| &changes.blocked).collect()
}

#[tokio::test]
async fn blocked_requests_that_are_only_recorded_are_blocked_all_the_same() {
    let bench = Bench::start().await;
    let mut unrecorded = BTreeSet::new();
    for (share, ended) in probe_all(&bench, "blocked_requests = \"record\"").await {
        for probe in share {
            let blocked = recorded(&ended, probe.name);
            let host = bench.site.other_host();
            // The browser's own connections are not the page's.
            let of_the_page =
                |request: &&v1::BlockedRequest| request.kind != "connection" || request.host == host;
            if !blocked.iter().any(of_the_page) {
                unrecorded.insert(probe.name);
            }
            let document = blocked.iter().any(|request| request.kind == "document");
            let failed = errors_of(&ended, probe.name).into_iter().any(is_blocked);
            assert_eq!(
                failed, document,
                "{}: only a navigation of the page itself fails: {blocked:?}",
                probe.name
            );
        }
    }
    assert_eq!(bench.site.other_hits(), 0, "{:#?}", bench.site.requests());
    assert_eq!(unrecorded, UNTOLD.into_iter().collect());
}

#[tokio::test]
async fn navigations_to_other_hosts_ports_and_spellings_are_refused_before_anything_is_sent() {
    let bench = Bench::start().await;
    let site_port = bench.site.host().rsplit(':').next().unwrap().to_owned();
    let other_port = bench.site.other_host().rsplit(':').next().unwrap().to_owned();
    let urls = [
        "http://{other}/plain".to_owned(),
        format!("http://127.0.0.1:{other_port}/plain"),
        format!("http://127.1:{other_port}/plain"),
        format!("http://2130706433:{other_port}/plain"),
        format!("http://[::1]:{other_port}/plain"),
        format!("http://localhost:{site_port}/plain"),
        format!("http://127.0.0.1.:{other_port}/plain"),
        "http://{site}@{other}/plain".to_owned(),
    ];
    let mut toml = "name = \"direct\"\n".to_owned();
    for (number, url) in urls.iter().enumerate() {
        write!(
            toml,
            "[[actions]]\nid = \"a{number}\"\nkind = \"navigate\"\non_failure = \"continue\"\nurl = \"{url}\"\n"
        )
        .unwrap();
    }
    let ended = bench.run(&toml).await;
    for (number, url) in urls.iter().enumerate() {
        let error = ended.error_of(&format!("a{number}")).expect(url);
        assert_eq!(error.error_code, "DOMAIN_BLOCKED", "{url}");
        assert_eq!(error.stage(), v1::ActionStage::Policy, "{url}");
        let details = details(error);
        assert!(!details["host"].as_str().unwrap().is_empty(), "{url}: {details}");
        assert_eq!(details["allowlist"], serde_json::json!([bench.site.host()]));
    }
    assert_eq!(bench.site.other_hits(), 0);
    assert_eq!(bench.site.requests().len(), 0, "nothing was sent to anybody");
}

#[tokio::test]
async fn only_http_and_https_are_navigated_to_by_a_script() {
    let bench = Bench::start().await;
    for url in [
        "data:text/html,x",
        "blob:http://{site}/1",
        "javascript:1",
        "file:///etc/passwd",
        "chrome://version",
        "about:blank",
        "/plain",
    ] {
        let toml = format!("name = \"n\"\n[[actions]]\nid = \"a\"\nkind = \"navigate\"\nurl = \"{url}\"\n");
        let refused = bench.try_start(bench.script(&toml)).await.expect_err(url);
        assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{url}: {refused:?}");
    }
}

#[tokio::test]
async fn a_click_that_leads_out_of_the_allowlist_leaves_nothing_of_it_on_the_page() {
    let bench = Bench::start().await;
    for (page, target) in
        [("/navigate", "other"), ("/navigate/to-file", "file"), ("/navigate/to-file", "chrome")]
    {
        let ended = bench
            .run(&format!(
                r#"
                name = "out"
                [[actions]]
                id = "open"
                kind = "navigate"
                url = "http://{{site}}{page}"
                [[actions]]
                id = "click"
                kind = "click"
                target = {{ testid = "{target}" }}
                on_failure = "continue"
                [[actions]]
                id = "where"
                kind = "assert"
                conditions = [{{ kind = "url_matches", value = "^(http://{{site}}/|about:blank$|chrome-error:)" }}]
                "#
            ))
            .await;
        // Chromium itself refuses links of web pages to files and to its own pages, without a word.
        let expected = if target == "other" { "DOMAIN_BLOCKED" } else { "" };
        assert_eq!(ended.code_of("click"), expected, "{target}");
        assert_eq!(ended.code_of("where"), "", "{target}");
    }
    assert_eq!(bench.site.other_hits(), 0);
}
