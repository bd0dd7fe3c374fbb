//! `capataz errors …`, which needs no daemon.

use capataz_display::classified::Explained;
use capataz_policy::retry::Listing;
use capataz_policy::severity::{Rule, Severity};
use serde_json::{Value, json};

use super::Outcome;
use crate::args::ErrorsCommand;
use crate::exit::Exit;
use crate::output::Output;

pub fn errors(command: ErrorsCommand, out: &mut Output) -> Outcome {
    let ErrorsCommand::Explain { text, severity } = command;
    let explained = Explained::of(&text.join(" "), severity.map(Severity::from));
    if out.json {
        out.document(&to_json(&explained));
    } else {
        out.line(&explained.text(out.paint));
    }
    Ok(Exit::Ok)
}

fn to_json(explained: &Explained) -> Value {
    let rule = match explained.rule {
        Rule::Declared => json!({ "kind": "declared" }),
        Rule::Code => json!({ "kind": "code" }),
        Rule::Pattern { number, pattern } => {
            json!({ "kind": "pattern", "number": number, "pattern": pattern })
        }
        Rule::Unknown => json!({ "kind": "unknown" }),
    };
    let (list, entry) = match explained.listing() {
        Listing::Never => ("never", None),
        Listing::NonRetryable(entry) => ("non_retryable", Some(entry)),
        Listing::Retryable(entry) => ("retryable", Some(entry)),
        Listing::Unlisted => ("none", None),
    };
    let flags = explained.severity.flags();
    json!({
        "code": explained.code,
        "message": explained.message,
        "severity": explained.severity.as_str(),
        "level": explained.severity.to_proto() as i32,
        "rule": rule,
        "retry": { "retried": list == "retryable", "list": list, "entry": entry },
        "flags": {
            "can_continue": flags.can_continue,
            "notify_immediately": flags.notify_immediately,
            "requires_user_action": flags.requires_user_action,
            "icon": flags.icon,
        },
        "advice": explained.advice(),
        "page": explained.page(),
    })
}
