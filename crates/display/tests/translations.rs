//! Every message that the daemon and the checks of documents write for people has a Spanish form. The messages are found in
//! the source: a new one without a translation fails here, by its file and its text.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

use capataz_display::words::Language;
use capataz_display::words::messages::{refusal, setting};

/// Where messages for people are written: files, and folders with all of their files.
const SOURCES: &[&str] = &[
    "contracts/src/document.rs",
    "contracts/src/duration.rs",
    "contracts/src/json",
    "contracts/src/pipeline_file.rs",
    "contracts/src/plan_file.rs",
    "contracts/src/placeholder.rs",
    "contracts/src/reference.rs",
    "contracts/src/spec",
    "contracts/src/validate/ask.rs",
    "contracts/src/validate/browser.rs",
    "contracts/src/validate/mod.rs",
    "contracts/src/validate/mode.rs",
    "contracts/src/validate/payload.rs",
    "contracts/src/validate/pipeline.rs",
    "contracts/src/validate/plan.rs",
    "contracts/src/validate/references.rs",
    "contracts/src/validate/request.rs",
    "contracts/src/validate/script.rs",
    "contracts/src/validate/script_policy.rs",
    "contracts/src/version.rs",
    "daemon/src/config.rs",
    "daemon/src/config",
    "daemon/src/services/agents.rs",
    "daemon/src/services/modes.rs",
    "daemon/src/services/pipelines.rs",
    "daemon/src/services/runs.rs",
    "daemon/src/services/runs",
    "daemon/src/services/sessions.rs",
    "daemon/src/services/starts.rs",
    "daemon/src/status.rs",
    "engine/src/decide",
    "engine/src/machine/pipeline",
    "engine/src/machine/mode/answer.rs",
    "engine/src/machine/mode/asking.rs",
    "engine/src/machine/mode/mod.rs",
    "engine/src/machine/mode/view.rs",
    "crew/src/crew.rs",
    "hosts/src/browsers/config.rs",
    "hosts/src/commands/agent.rs",
    "hosts/src/models/agent.rs",
    "executor/src/dsl",
    "executor/src/page.rs",
    "executor/src/perform",
    "policy/src/aggregation/errors.rs",
    "policy/src/aggregation/policy.rs",
    "policy/src/check.rs",
    "policy/src/retry",
    "policy/src/session",
    "policy/src/timeout.rs",
    "router/src/check.rs",
    "router/src/eval",
    "router/src/lint",
    "router/src/load",
    "router/src/template/placeholder.rs",
    "shard/src/phases",
];

/// Texts in these files that nobody reads in Spanish, or that are a part of one which is translated as a whole.
const EXEMPT: &[&str] = &[
    // Ends of messages.
    " at v0",
    "line v0 column v1",
    "; did you mean `v0`?",
    "task \"v0\" succeeded after v1 failed attemptv2",
    " and v0 more",
    "v0 validation errorv1 found",
    "v0 bytes",
    "; and v0 more",
    "v0; and v1 more",
    "; v0 items have failed",
    // Beginnings and ends of messages about spec files, each of which is a pattern as a whole.
    "there is no key `v0` herev1",
    "this spec has no pattern `v0`v1",
    "`v0` is neither a code of the spec contract nor one of `error_codes`v1",
    "there is no placeholder `v0`v1 (there are: v2)",
    "not a regular expressionv0: v1",
    " at character v0",
    "; there are: v0",
    "; add it to `[[patterns]]`, or name another one",
    // What is to be added where a key is missing; the braces are its own.
    "what the user is told: `message = v0`",
    "the keyword: `v0`",
    // A text behind its place, which is told apart from it.
    "v0: expected text, label and split with tabs between them, found v1 columns",
    // The place of a violation.
    "the output",
    // References as they are written: the name of something that a rule is about.
    "$v0, $v1, $v2 or $v3",
    // The beginning of one.
    "a failure without a code",
    // Beginnings and ends of messages, each of which is a pattern as a whole.
    "something else",
    "the action is critical",
    "the policy makes the action critical",
    "the action submits something, which makes it critical",
    "v0, and nothing would prove its effect",
    // What was observed in place of what a condition asks for: a value of the log.
    "a radio button",
    // A violation that stands for others, with its rule.
    "… and ",
    " more (truncated)",
    // What is kept with an error for whoever looks for a defect.
    "found by v0: v1",
    "no element was found",
    "input was sent",
    "no input was sent",
    "no action was being performed",
    // What stands in the log in the place of evidence.
    "no evidence could be stored: v0; the page was v1 \"v2\"",
    // Parts of questions, each of which is a pattern as a whole.
    "that it is done",
    "that it failed with v0",
    "that it stopped the work",
    "What became of task \"v0\"? Its worker \"v1\" has come back and says v2.",
    // A text of a page, to try patterns on.
    "Your order 42 is on its way",
    // Ends of questions, each of which is a pattern as a whole.
    "Is the query done?",
    "Is the action to be done?",
    "Is the plan to be worked on?",
    "Is it to be asked again?",
    "Is it to be worked on?",
    // What only planners are told.
    "one of v0",
    "a place below v0",
    "\"v0\", which the approved plan names for this step",
    "\"v0\", the tool of step v1",
    "v0, which needs \"v1\"",
    "a step all of whose needs have succeeded",
    "Runs a plan: waves of tasks, each for an agent. The parameters are the plan.",
    "Runs a pipeline: phases whose outputs are judged, one after the other. The parameters are the pipeline.",
    "Asks the spec that answers texts like this one, or the one that is named.",
    // What is kept in memory, which planners read.
    "the plan was approved",
    "the plan was rejected",
    "edited by a person",
    "a call of v0 was approved",
    "asked: v0; answered: v1",
    "v0 failed: v1",
    "v0: ok",
    // What serde says, which is told in other words.
    ", expected ",
    "a map",
    "a sequence",
    // What was observed of a target, a fact and no sentence.
    "focus does not stay",
    "boolean `",
    "floating point `",
    "integer `",
    "invalid type: ",
    "invalid value: ",
    "missing field `",
    "path string",
    "string \"",
    "struct ",
    "unknown field `",
    "unknown variant `",
    "v0:v1:v2: not TOML: v3",
    "wanted exactly",
    // Where a value of the configuration came from.
    "environment variables",
    // A defect of the program, which nobody hears of.
    "the committed descriptor is valid",
    // A defect of the daemon, for its log.
    "a decision was refused after its first event",
];

#[test]
fn every_message_of_the_daemon_has_a_spanish_form() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = 0;
    let mut missing = Vec::new();
    for source in SOURCES {
        for file in files(&crates.join(source)) {
            for text in
                literals(&fs::read_to_string(&file).unwrap()).iter().filter(|text| is_for_people(text))
            {
                let text = with_values(text);
                found += 1;
                let is_told = |said: &str| refusal(said) != said || setting(said) != said;
                let is_spanish =
                    Language::Spanish.within(|| is_told(&text) || is_told(behind_its_path(&text)));
                let is_part = EXEMPT.iter().any(|exempt| text == *exempt);
                if !is_spanish && !is_part && !is_name(&text) {
                    missing.push(format!("{}: {text:?}", file.strip_prefix(&crates).unwrap().display()));
                }
            }
        }
    }
    assert!(found > 200, "{found}");
    assert!(missing.is_empty(), "without a Spanish form:\n{}", missing.join("\n"));
}

/// The text without the path of a key in front of it, which is the same in each language.
fn behind_its_path(text: &str) -> &str {
    let is_path = |path: &str| path.chars().all(|part| matches!(part, 'a'..='z' | '0'..='9' | '_' | '.'));
    text.split_once(": ").filter(|(path, _)| is_path(path)).map_or(text, |(_, said)| said)
}

/// The name of something that a rule is about, which stands in for a value of another message.
fn is_name(text: &str) -> bool {
    let sentence = format!("expected {text}, found v9");
    let spanish = Language::Spanish.within(|| refusal(&sentence).into_owned());
    spanish != format!("se esperaba {text}, se encontró v9")
}

fn files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let mut files: Vec<PathBuf> = fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| !path.ends_with("tests") && !path.ends_with("tests.rs"))
        .flat_map(|path| files(&path))
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect();
    files.sort();
    files
}

fn is_for_people(text: &str) -> bool {
    let is_word = |word: &str| word.len() > 1 && word.chars().all(|letter| letter.is_ascii_lowercase());
    text.contains(' ') && text.split(' ').any(is_word)
}

/// The text with a value in place of each placeholder of a format.
fn with_values(text: &str) -> String {
    let mut shown = String::new();
    let mut values = 0;
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, from) = rest.split_at(at);
        shown.push_str(before);
        if from.starts_with("{{") || from.starts_with("}}") {
            shown.push_str(&from[..1]);
            rest = &from[2..];
        } else if let Some(end) = from.find('}').filter(|_| from.starts_with('{')) {
            let quoted = from[..end].ends_with(":?");
            shown.push_str(&if quoted { format!("\"v{values}\"") } else { format!("v{values}") });
            values += 1;
            rest = &from[end + 1..];
        } else {
            shown.push_str(&from[..1]);
            rest = &from[1..];
        }
    }
    shown + rest
}

/// The string literals of the source before its tests, without those of attributes, comments and log lines.
fn literals(source: &str) -> Vec<String> {
    // Tests that are in a file of their own are only named, mostly at the head.
    let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let bytes: Vec<char> = source.chars().collect();
    let (mut found, mut at, mut line) = (Vec::new(), 0, String::new());
    while let Some(&character) = bytes.get(at) {
        match character {
            '/' if bytes.get(at + 1) == Some(&'/') => {
                while bytes.get(at).is_some_and(|character| *character != '\n') {
                    at += 1;
                }
                continue;
            }
            // A character, as in '"'; a lifetime has no quote after it.
            '\'' if bytes.get(at + 1) == Some(&'\\') => {
                at += 3;
                while bytes.get(at).is_some_and(|character| *character != '\'') {
                    at += 1;
                }
            }
            '\'' if bytes.get(at + 2) == Some(&'\'') => at += 2,
            '"' => {
                let is_raw = line.ends_with(['r', '#']);
                let (text, after) = literal(&bytes, at + 1, is_raw);
                let is_attribute = line.trim_start().starts_with("#[") && !line.contains("error(");
                let is_reason = line.trim_end().ends_with("reason =");
                if !is_attribute && !is_reason && !line.contains("tracing::") {
                    found.push(text);
                }
                at = after;
                continue;
            }
            // A statement's beginning says what its texts are for.
            ';' | '{' | '}' => line.clear(),
            _ => {}
        }
        line.push(character);
        at += 1;
    }
    found
}

/// The text of the literal that begins at `from`, and the place behind it.
fn literal(source: &[char], from: usize, is_raw: bool) -> (String, usize) {
    let (mut text, mut at) = (String::new(), from);
    while let Some(&character) = source.get(at) {
        at += 1;
        match character {
            '"' if !is_raw || source.get(at) == Some(&'#') => return (text, at),
            '\\' if !is_raw => {
                match source.get(at) {
                    Some('n') => text.push('\n'),
                    // The text goes on in the next line.
                    Some('\n') => {
                        while source.get(at + 1).is_some_and(|character| character.is_whitespace()) {
                            at += 1;
                        }
                    }
                    Some(escaped) => text.push(*escaped),
                    None => {}
                }
                at += 1;
            }
            _ => text.push(character),
        }
    }
    (text, at)
}

#[test]
fn the_messages_of_a_source_are_found() {
    let source = r##"
        // "not this one here"
        #[expect(clippy::x, reason = "nor this one")]
        #[error("the value breaks {field:?} in {} places")]
        const A: char = '"'; fn f<'a>() { tracing::warn!(a, "nor a log line"); }
        let b = format!("one {{x}} \
                         line \"quoted\"");
        let c = r#"raw "text" here"#;
        #[cfg(test)]
mod tests { const C: &str = "nor of a test"; }
    "##;
    let found: Vec<String> =
        literals(source).iter().filter(|text| is_for_people(text)).map(|text| with_values(text)).collect();
    assert_eq!(
        found,
        ["the value breaks \"v0\" in v1 places", "one {x} line \"quoted\"", "raw \"text\" here"]
    );
}
