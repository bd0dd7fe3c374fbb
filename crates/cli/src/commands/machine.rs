//! `capataz doctor`: looks for what would keep a daemon from working here, or what it could not guarantee. It changes
//! nothing, and needs no daemon.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use capataz_client::{Client, RetryOptions};
use capataz_contracts::v1;
use capataz_daemon::machine::{Folder, Machine, Permission};
use capataz_daemon::{Config, ConfigError, Lack, Need, Overrides, Whereabouts};
use capataz_executor::browsers;
use serde_json::{Value, json};

use super::{Outcome, needs};
use crate::address;
use crate::args::{Global, MachineArgs};
use crate::exit::Exit;
use crate::failure::chain;
use crate::output::Output;
use crate::problem::Problem;
use capataz_display::format::took;
use capataz_display::frame::visible_block;
use capataz_display::paint::Tone;
use capataz_display::words::{Doctor, fill, words};

/// Free bytes below which commits will soon fail, and those below which it is time to know.
const FREE: (u64, u64) = (64 * 1024 * 1024, 1024 * 1024 * 1024);
/// Descriptors below which a daemon has little room for connections: it gives them half.
const DESCRIPTORS: u64 = 1_024;
/// How far files may be ahead of the clock: they may come from a disk of another machine.
const BEHIND: Duration = Duration::from_secs(60);
/// How old the newest write may be before it is said.
const AHEAD: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// 2026-01-01, in seconds of the Unix epoch: this program is younger.
const MADE: Duration = Duration::from_secs(1_767_225_600);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Ok,
    Warning,
    Failure,
}

/// One check, and what it found.
#[derive(Debug)]
struct Finding {
    /// The check's name in JSON.
    check: &'static str,
    title: &'static str,
    verdict: Verdict,
    found: String,
    next: Option<String>,
}

impl Finding {
    fn new(check: &'static str, title: &'static str, verdict: Verdict, found: String) -> Self {
        Self { check, title, verdict, found, next: None }
    }

    /// What to do where it is not well.
    fn next(mut self, next: &str) -> Self {
        self.next = (self.verdict != Verdict::Ok).then(|| next.to_owned());
        self
    }
}

/// What is wrong with the configuration, a problem a line.
fn said(error: ConfigError) -> String {
    match error {
        ConfigError::Invalid(problems) => {
            let problems = problems.into_iter().map(|problem| Problem::from(problem).to_text());
            problems.collect::<Vec<_>>().join("\n")
        }
        other => chain(&other),
    }
}

#[expect(clippy::disallowed_methods, reason = "whether the clock is right is one of the questions")]
pub async fn doctor(args: MachineArgs, global: &Global, out: &mut Output) -> Outcome {
    let texts = &words().doctor;
    let overrides = Overrides { data_dir: args.data_dir, ..Overrides::default() };
    let mut findings = Vec::new();
    let mut addr = global.addr.clone();
    match Config::load(args.config.as_deref(), overrides) {
        Ok(config) => {
            addr = addr.or_else(|| address::of(&Whereabouts::from(&config)));
            let folder = Folder::examine(&config.data_dir);
            let place = config.data_dir.display().to_string();
            let found = fill(texts.configuration_good, &[&place]);
            findings.push(Finding::new("configuration", texts.configuration, Verdict::Ok, found));
            findings.push(data_folder(&folder.access, &place, texts));
            findings.push(free_space(&folder, texts));
            findings.push(clock(SystemTime::now(), folder.written, texts));
            #[expect(
                clippy::disallowed_methods,
                reason = "the daemon looks for programs along the same path"
            )]
            let needs = config.needs(|name| std::env::var_os(name));
            findings.extend(needed(&config, &needs, texts));
            findings.push(browser(&config, &needs, texts).await);
        }
        Err(error) => {
            let invalid = Finding::new("configuration", texts.configuration, Verdict::Failure, said(error));
            findings.push(invalid.next(texts.configuration_next));
        }
    }
    findings.extend(machine(&Machine::examine(), texts));
    findings.push(daemon(addr, texts).await);
    let worst = findings.iter().map(|finding| finding.verdict);
    let is_bad = worst.clone().any(|verdict| verdict == Verdict::Failure);
    if out.json {
        let checks: Vec<Value> = findings.iter().map(to_json).collect();
        out.document(&json!({ "ok": !is_bad, "checks": checks }));
    } else {
        findings.iter().for_each(|finding| tell(finding, texts, out));
        let (text, tone) = match worst.max_by_key(|verdict| *verdict as u8) {
            Some(Verdict::Failure) => (texts.bad, Tone::Bad),
            Some(Verdict::Warning) => (texts.warned, Tone::Warning),
            _ => (texts.good, Tone::Good),
        };
        out.line(&out.paint.text(tone, text));
    }
    Ok(if is_bad { Exit::Failed } else { Exit::Ok })
}

fn data_folder(permission: &Permission, place: &str, texts: &Doctor) -> Finding {
    let mode = |mode: &u32| format!("{mode:o}");
    let (verdict, found, next) = match permission {
        Permission::Own => (Verdict::Ok, fill(texts.folder_own, &[place]), ""),
        Permission::Missing(parent) => {
            let parent = parent.display().to_string();
            (Verdict::Ok, fill(texts.folder_missing, &[place, &parent]), "")
        }
        Permission::Readable(bits) => {
            let found = fill(texts.folder_readable, &[place, &mode(bits)]);
            (Verdict::Warning, found, texts.folder_readable_next)
        }
        Permission::Writable(bits) => {
            let found = fill(texts.folder_writable, &[place, &mode(bits)]);
            (Verdict::Failure, found, texts.folder_writable_next)
        }
        Permission::Refused(error) => {
            let found = fill(texts.folder_refused, &[place, &error.to_string()]);
            (Verdict::Failure, found, texts.folder_refused_next)
        }
    };
    Finding::new("data_folder", texts.data_folder, verdict, found).next(&fill(next, &[place]))
}

/// What the configuration names and a daemon does not find. The data folder has a check of its own.
fn needed(config: &Config, needs: &[Need], texts: &Doctor) -> [Finding; 4] {
    let finding = |check: &'static str, title: &'static str, good: &str| {
        let lacking = || needs.iter().filter(|need| check_of(need) == check);
        if lacking().next().is_none() {
            return Finding::new(check, title, Verdict::Ok, good.to_owned());
        }
        let lines = lacking().map(|need| format!("{}: {}", need.key, needs::said(&need.lack).message));
        let found: Vec<String> = lines.collect();
        let mut remedies: Vec<String> = lacking().map(|need| needs::said(&need.lack).remedy).collect();
        // The same act may help several of them.
        let mut told = BTreeSet::new();
        remedies.retain(|remedy| told.insert(remedy.clone()));
        let found = Finding::new(check, title, Verdict::Failure, found.join("\n"));
        found.next(&remedies.join("\n"))
    };
    let agents = config.agents.len() + config.models.len();
    let agents = fill(texts.agents_good, &[&agents.to_string()]);
    let specs = if config.specs_dir.is_some() { texts.specs_good } else { texts.specs_none };
    [
        finding("secrets", texts.secrets, texts.secrets_good),
        finding("agents", texts.agents, &agents),
        finding("specs", texts.specs, specs),
        finding("uploads", texts.uploads, texts.uploads_good),
    ]
}

/// The check that tells of a need.
fn check_of(need: &Need) -> &'static str {
    match &need.lack {
        Lack::NoSecret(_) | Lack::UnreadSecret(..) => "secrets",
        _ if need.key == "browser.program" => "browser",
        _ => match need.key.split(['.', '[']).next() {
            Some("secrets_dir") => "secrets",
            Some("specs_dir") => "specs",
            Some("data_dir") => "data_folder",
            Some("browser") => "uploads",
            _ => "agents",
        },
    }
}

fn free_space(folder: &Folder, texts: &Doctor) -> Finding {
    let (verdict, found) = match &folder.free {
        Ok(free) => {
            let verdict = match *free {
                free if free < FREE.0 => Verdict::Failure,
                free if free < FREE.1 => Verdict::Warning,
                _ => Verdict::Ok,
            };
            (verdict, fill(texts.free, &[&mebibytes(*free)]))
        }
        Err(error) => (Verdict::Warning, fill(texts.free_unknown, &[&error.to_string()])),
    };
    Finding::new("free_space", texts.free_space, verdict, found).next(texts.free_next)
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes / (1024 * 1024))
}

fn clock(now: SystemTime, written: Option<SystemTime>, texts: &Doctor) -> Finding {
    let past = |time: SystemTime| now.duration_since(time).unwrap_or_default();
    let ahead = |time: SystemTime| time.duration_since(now).unwrap_or_default();
    let shown = |distance: Duration| took(i64::try_from(distance.as_millis()).unwrap_or(i64::MAX));
    let (verdict, found) = match written {
        _ if past(UNIX_EPOCH) < MADE => (Verdict::Failure, texts.clock_old.to_owned()),
        Some(written) if ahead(written) > BEHIND => {
            (Verdict::Failure, fill(texts.clock_behind, &[&shown(ahead(written))]))
        }
        Some(written) if past(written) > AHEAD => {
            (Verdict::Warning, fill(texts.clock_ahead, &[&shown(past(written))]))
        }
        _ => (Verdict::Ok, texts.clock_good.to_owned()),
    };
    Finding::new("clock", texts.clock, verdict, found).next(texts.clock_next)
}

async fn browser(config: &Config, needs: &[Need], texts: &Doctor) -> Finding {
    if let Some(need) = needs.iter().find(|need| check_of(need) == "browser") {
        let said = needs::said(&need.lack);
        let found = format!("{}: {}", need.key, said.message);
        return Finding::new("browser", texts.browser, Verdict::Failure, found).next(&said.remedy);
    }
    if let Some(Ok(endpoint)) = config.browser.endpoint() {
        let address = endpoint.to_string();
        return match browsers::discover(endpoint).await {
            Ok(running) => {
                let found = fill(texts.browser_attached, &[&address, &running.version]);
                Finding::new("browser", texts.browser, Verdict::Warning, found)
                    .next(texts.browser_attached_next)
            }
            Err(_) => {
                let found = fill(texts.browser_gone, &[&address]);
                Finding::new("browser", texts.browser, Verdict::Warning, found).next(texts.browser_gone_next)
            }
        };
    }
    #[expect(clippy::disallowed_methods, reason = "the daemon looks along the same path")]
    let path = std::env::var_os("PATH");
    let (verdict, found) = match browsers::find(config.browser.program.as_deref(), path.as_deref()).await {
        Ok(found) => {
            let program = found.program.display().to_string();
            (Verdict::Ok, fill(texts.browser_found, &[&program, &found.version]))
        }
        Err(_) => (Verdict::Warning, texts.browser_none.to_owned()),
    };
    Finding::new("browser", texts.browser, verdict, found).next(texts.browser_next)
}

fn machine(machine: &Machine, texts: &Doctor) -> [Finding; 3] {
    let (verdict, found) = match machine.descriptors {
        None => (Verdict::Ok, texts.descriptors_any.to_owned()),
        Some(limit) => {
            let verdict = if limit < DESCRIPTORS { Verdict::Warning } else { Verdict::Ok };
            (verdict, fill(texts.descriptors_found, &[&limit.to_string()]))
        }
    };
    let descriptors = Finding::new("descriptors", texts.descriptors, verdict, found);
    let abilities = &machine.abilities;
    let lacking = abilities.process_handles.as_ref().err().or(abilities.subreaper.as_ref().err());
    let (verdict, found) = match lacking {
        None => (Verdict::Ok, texts.supervision_good.to_owned()),
        Some(error) => (Verdict::Failure, fill(texts.supervision_bad, &[&error.to_string()])),
    };
    let supervision = Finding::new("supervision", texts.supervision, verdict, found);
    let (verdict, found) = match &abilities.control_groups {
        Ok(group) => {
            let parent = group.parent().unwrap_or(group).display().to_string();
            (Verdict::Ok, fill(texts.groups_good, &[&parent]))
        }
        Err(error) => (Verdict::Warning, fill(texts.groups_none, &[&error.to_string()])),
    };
    let groups = Finding::new("control_groups", texts.control_groups, verdict, found);
    [
        descriptors.next(texts.descriptors_next),
        supervision.next(texts.supervision_next),
        groups.next(texts.groups_next),
    ]
}

async fn daemon(addr: Option<String>, texts: &Doctor) -> Finding {
    let Some(addr) = addr else {
        let unknown = Finding::new("daemon", texts.daemon, Verdict::Warning, texts.daemon_unknown.to_owned());
        return unknown.next(texts.daemon_next);
    };
    let asked = async {
        let client = Client::connect(&addr).await?.with_retry(RetryOptions::never());
        client.list_runs(v1::ListRunsRequest::default()).await
    };
    let (verdict, found) = match asked.await {
        Ok(_) => (Verdict::Ok, fill(texts.daemon_there, &[&addr])),
        // None has to be there: it may be that it is to be started.
        Err(error) => (Verdict::Warning, fill(texts.daemon_none, &[&addr, &chain(&error)])),
    };
    Finding::new("daemon", texts.daemon, verdict, found).next(texts.daemon_next)
}

fn to_json(finding: &Finding) -> Value {
    let verdict = match finding.verdict {
        Verdict::Ok => "ok",
        Verdict::Warning => "warning",
        Verdict::Failure => "failure",
    };
    let mut document = json!({ "check": finding.check, "verdict": verdict, "found": finding.found });
    if let (Some(next), Some(object)) = (&finding.next, document.as_object_mut()) {
        object.insert("next".to_owned(), next.as_str().into());
    }
    document
}

/// Columns of the widest title, in either language.
const TITLE: usize = 17;
/// Columns in front of what was found: the verdict, the title, and a space behind each.
const INDENT: usize = 8 + 1 + TITLE + 1;

fn tell(finding: &Finding, texts: &Doctor, out: &mut Output) {
    let (word, tone) = match finding.verdict {
        Verdict::Ok => (texts.ok, Tone::Good),
        Verdict::Warning => (texts.warning, Tone::Warning),
        Verdict::Failure => (texts.failure, Tone::Bad),
    };
    let (word, title) = (format!("{word:<8}"), format!("{:<TITLE$}", finding.title));
    // Further lines stand below the first one.
    let block = |text: &str| visible_block(text).replace('\n', &format!("\n{:INDENT$}", ""));
    out.line(&format!("{} {title} {}", out.paint.text(tone, &word), block(&finding.found)));
    if let Some(next) = &finding.next {
        let next = fill(texts.next, &[&block(next)]);
        out.line(&out.paint.text(Tone::Faint, &format!("{:INDENT$}{next}", "")));
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use capataz_daemon::machine::Abilities;
    use capataz_display::words::Language;

    use super::*;

    #[track_caller]
    fn check(now: Duration, written: Option<Duration>, expected: Verdict) {
        let at = |time: Duration| UNIX_EPOCH + MADE + time;
        let finding = clock(at(now), written.map(at), &words().doctor);
        assert_eq!(finding.verdict, expected, "{finding:?}");
        assert_eq!(finding.next.is_some(), expected != Verdict::Ok);
    }

    #[test]
    fn every_title_fits_into_its_column_in_both_languages() {
        for language in [Language::English, Language::Spanish] {
            let texts = language.within(|| &words().doctor);
            let titles = [
                texts.configuration,
                texts.data_folder,
                texts.free_space,
                texts.clock,
                texts.secrets,
                texts.agents,
                texts.specs,
                texts.uploads,
                texts.browser,
                texts.descriptors,
                texts.supervision,
                texts.control_groups,
                texts.daemon,
            ];
            assert!(titles.iter().all(|title| title.chars().count() <= TITLE), "{titles:?}");
        }
    }

    #[test]
    fn a_clock_is_compared_with_what_was_written_by_it() {
        let day = Duration::from_secs(24 * 60 * 60);
        check(day, None, Verdict::Ok);
        check(day, Some(day), Verdict::Ok);
        check(day, Some(day + BEHIND), Verdict::Ok);
        check(day, Some(day + 2 * BEHIND), Verdict::Failure);
        check(40 * day, Some(day), Verdict::Warning);
        let before = clock(UNIX_EPOCH, None, &words().doctor);
        assert_eq!(before.verdict, Verdict::Failure);
    }

    #[test]
    fn room_is_judged_by_what_is_free() {
        let verdict = |free: std::io::Result<u64>| {
            let folder = Folder { access: Permission::Own, free, written: None };
            free_space(&folder, &words().doctor).verdict
        };
        assert_eq!(verdict(Ok(u64::MAX)), Verdict::Ok);
        assert_eq!(verdict(Ok(FREE.1 - 1)), Verdict::Warning);
        assert_eq!(verdict(Ok(FREE.0 - 1)), Verdict::Failure);
        assert_eq!(verdict(Err(std::io::ErrorKind::Unsupported.into())), Verdict::Warning);
    }

    /// What is found of a machine that allows everything but what this takes away.
    fn found(takes_away: impl FnOnce(&mut Abilities)) -> [Finding; 3] {
        let control_groups = Ok("/sys/fs/cgroup/service/trial".into());
        let mut abilities = Abilities { process_handles: Ok(()), subreaper: Ok(()), control_groups };
        takes_away(&mut abilities);
        let texts = Language::English.within(|| &words().doctor);
        machine(&Machine { descriptors: None, abilities }, texts)
    }

    fn forbidden() -> io::Error {
        io::ErrorKind::PermissionDenied.into()
    }

    #[test]
    fn a_machine_that_allows_everything_gives_each_command_a_control_group_below_that_of_the_daemon() {
        let [descriptors, supervision, groups] = found(|_| ());
        for finding in [&descriptors, &supervision, &groups] {
            assert_eq!((finding.verdict, finding.next.as_deref()), (Verdict::Ok, None), "{finding:?}");
        }
        assert_eq!(groups.found, "each command gets one of its own, below /sys/fs/cgroup/service");
    }

    #[test]
    fn a_machine_without_control_groups_is_a_warning_with_what_is_not_found_then_and_what_to_do() {
        let [_, supervision, groups] = found(|abilities| abilities.control_groups = Err(forbidden()));
        assert_eq!((groups.check, groups.verdict), ("control_groups", Verdict::Warning), "{groups:?}");
        let lost = "a process that has left its command's session and environment is not found";
        assert!(groups.found.contains("permission denied") && groups.found.ends_with(lost), "{groups:?}");
        assert!(groups.next.as_deref().is_some_and(|next| next.contains("Delegate=yes")), "{groups:?}");
        assert_eq!(supervision.verdict, Verdict::Ok, "commands run all the same");
    }

    #[test]
    fn a_machine_on_which_no_command_can_be_supervised_has_failed() {
        let losses: [fn(&mut Abilities); 2] = [
            |abilities| abilities.process_handles = Err(forbidden()),
            |abilities| abilities.subreaper = Err(forbidden()),
        ];
        for takes_away in losses {
            let [_, supervision, groups] = found(takes_away);
            let said = (supervision.check, supervision.verdict);
            assert_eq!(said, ("supervision", Verdict::Failure), "{supervision:?}");
            assert!(supervision.found.ends_with("permission denied"), "{supervision:?}");
            assert!(supervision.next.is_some(), "{supervision:?}");
            assert_eq!(groups.verdict, Verdict::Ok, "{groups:?}");
        }
    }
}
