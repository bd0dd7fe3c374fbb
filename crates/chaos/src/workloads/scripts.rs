//! Scripts for a real browser, on the site of the parent, which counts what was really clicked and sent.

use capataz_contracts::script_file::{self, Format};
use capataz_contracts::v1;
use capataz_testsite::Request;

use super::{Draft, Occasion, Workload};
use crate::Outcome;
use crate::children::Programs;
use crate::records::SiteRecord;
use crate::site::CHROMIUM;
use crate::verdict::{self, Facts, Log, Verdict};

/// Fewer than there are scripts at a time, so that some wait for a browser when the daemon dies.
const BROWSERS: u32 = 2;

/// A page whose button is clicked; it says `sent` when the site has answered.
const CLICKS: &str = r#"
[[actions]]
id = "page"
kind = "navigate"
url = "http://SITE/form/by-script?key=KEY"
[[actions]]
id = "name"
kind = "fill"
target = { label = "Name" }
value = "KEY"
[[actions]]
id = "click"
kind = "click"
target = { testid = "send" }
post = [{ kind = "text_equals", target = { testid = "status" }, value = "sent" }]
"#;

/// A form that is submitted.
const SUBMITS: &str = r#"
[[actions]]
id = "form"
kind = "navigate"
url = "http://SITE/form/get?key=KEY"
[[actions]]
id = "query"
kind = "fill"
target = { label = "Search" }
value = "KEY"
[[actions]]
id = "send"
kind = "submit"
target = { role = "button", name = "Search" }
post = [{ kind = "url_matches", value = "/echo[?]q=KEY$" }]
[[actions]]
id = "read"
kind = "extract"
target = { role = "table" }
extract = "table"
output = "echo"
"#;

#[derive(Debug)]
pub(super) struct Scripts;

impl Workload for Scripts {
    fn share(&self) -> u64 {
        1
    }

    fn configuration(&self, _: &Programs) -> Outcome<String> {
        let mut configuration = format!("[browser]\nmax_open = {BROWSERS}\n");
        if let Some(program) = std::env::var_os(CHROMIUM).filter(|program| !program.is_empty()) {
            let program = program.into_string().map_err(|_| format!("{CHROMIUM} is not UTF-8"))?;
            configuration.push_str(&format!("program = {}\n", serde_json::json!(program)));
        }
        Ok(configuration)
    }

    fn draft(&self, rng: &mut fastrand::Rng, occasion: &Occasion<'_>) -> Outcome<Draft> {
        let actions = match rng.u32(0..4) {
            0 => [CLICKS, SUBMITS],
            1 => [CLICKS, ""],
            _ => ["", SUBMITS],
        };
        let head = format!("name = \"chaos {}\"\n[policy]\nallowlist = [\"SITE\"]\n", occasion.index);
        let toml = [head.as_str(), actions[0], actions[1]].concat();
        let toml = toml.replace("SITE", occasion.site).replace("KEY", occasion.key);
        let script = script_file::parse(&toml, Format::Toml).map_err(|errors| format!("{errors:?}"))?;
        Ok(Draft { request: v1::StartRunRequest::of_script(script), has_tasks: false })
    }

    /// An activity's outcome is in events of its own.
    fn is_own_output(&self, _: &Log, settled: &v1::TaskSettled) -> bool {
        settled.output.is_none()
    }

    fn judge(&self, facts: &Facts, verdict: &mut Verdict) {
        verdict::acts::judge(facts, verdict);
    }
}

/// The act behind a request to the site: whose run it was, and which action of the script. Nothing for what a browser
/// asks for beside that.
pub(crate) fn act_of(request: &Request) -> Option<SiteRecord> {
    let body = String::from_utf8_lossy(&request.body);
    let query = request.query.as_deref().unwrap_or_default();
    let (action, key) = match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/form/by-script") => ("page", query.strip_prefix("key=")?),
        ("POST", "/form/sent") => ("click", body.strip_prefix("name=")?),
        ("GET", "/form/get") => ("form", query.strip_prefix("key=")?),
        ("GET", "/echo") => ("send", query.strip_prefix("q=")?),
        _ => return None,
    };
    Some(SiteRecord { key: key.to_owned(), action: action.to_owned() })
}

/// Actions whose performance the site sees.
pub(crate) const SEEN_BY_THE_SITE: [&str; 4] = ["page", "click", "form", "send"];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use capataz_contracts::validate;

    use super::*;

    #[test]
    fn every_script_is_valid_and_some_have_each_action() -> Outcome<()> {
        let mut actions = BTreeSet::new();
        for index in 0..20 {
            let mut rng = fastrand::Rng::with_seed(index);
            let occasion = Occasion { index, key: "7-client-0-3", site: "127.0.0.1:9" };
            let request = Scripts.draft(&mut rng, &occasion)?.request;
            let violations = validate::start_run(&request, &validate::PlanLimits::default());
            assert_eq!(violations, [], "{request:?}");
            let script = match request.work {
                Some(v1::start_run_request::Work::Script(script)) => script,
                other => return Err(format!("{other:?}").into()),
            };
            actions.extend(script.actions.into_iter().map(|action| action.id));
        }
        for action in SEEN_BY_THE_SITE {
            assert!(actions.contains(action), "{action}");
        }
        Ok(())
    }
}
