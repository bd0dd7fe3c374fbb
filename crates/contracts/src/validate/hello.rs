//! A worker's first frame.

use std::collections::BTreeSet;

use prost::Message as _;

use super::{NAME_MAX, defaulted_enum, wrong_agent_name};
use crate::path::{Path, shown};
use crate::violation::{Violation, Violations};
use crate::{v1, version};

/// The version of the worker protocol that this crate describes.
pub const PROTOCOL: u32 = 1;

pub const AGENTS_MAX: usize = 1_000;
/// Bytes of all agents of a worker, encoded, with their descriptions.
pub const AGENTS_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of what an agent says that it does.
pub const DESCRIPTION_MAX: usize = 2_000;
const BROWSERS_MAX: usize = 10_000;
/// The most assignments that a worker may have at once.
pub const SLOTS_MAX: u32 = 10_000;

/// Checks a worker's first frame: who it is, what it serves and how much.
///
/// Another protocol is the rule `incompatible_version`, so that the worker can be told apart from a broken one.
pub fn hello(hello: &v1::Hello) -> Vec<Violation> {
    let mut violations = Violations::default();
    let root = &Path::Root;
    if hello.protocol != PROTOCOL {
        let message = format!("the worker speaks protocol {}, the daemon {PROTOCOL}", hello.protocol);
        violations.push(&root.key("protocol"), "incompatible_version", message);
    }
    if !is_worker_id(&hello.worker_id) {
        let message = "a worker's id has 1 to 128 characters: letters, digits and `. _ - : @ /`";
        violations.push(&root.key("worker_id"), "characters", message);
    }
    if !(1..=SLOTS_MAX).contains(&hello.slots) {
        violations.push(
            &root.key("slots"),
            "range",
            format!("{} is not between 1 and {SLOTS_MAX}", hello.slots),
        );
    }
    let held_max = usize::try_from(hello.slots).unwrap_or(usize::MAX).saturating_mul(2);
    if hello.held.len() > held_max {
        let message = format!("{} leases held; with these slots at most {held_max}", hello.held.len());
        violations.push(&root.key("held"), "limit", message);
    }
    if hello.browsers.len() > BROWSERS_MAX {
        let message = format!("{} browsers; at most {BROWSERS_MAX} are allowed", hello.browsers.len());
        violations.push(&root.key("browsers"), "limit", message);
    }
    agents(&hello.agents, &root.key("agents"), &mut violations);
    violations.into_vec()
}

/// As hosts, processes and containers are named: `runner@build-3:4711`.
fn is_worker_id(id: &str) -> bool {
    let allowed =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b':' | b'@' | b'/');
    (1..=NAME_MAX).contains(&id.len()) && id.bytes().all(allowed)
}

fn agents(agents: &[v1::Agent], path: &Path<'_>, violations: &mut Violations) {
    if agents.is_empty() {
        violations.push(path, "required", "a worker serves at least one agent");
    }
    if agents.len() > AGENTS_MAX {
        violations.push(path, "limit", format!("{} agents; at most {AGENTS_MAX} are allowed", agents.len()));
        return;
    }
    let bytes = agents.iter().fold(0_usize, |sum, agent| sum.saturating_add(agent.encoded_len()));
    if bytes > AGENTS_BYTES_MAX {
        let message = format!("agents of {bytes} bytes with their descriptions, at most {AGENTS_BYTES_MAX}");
        violations.push(path, "size", message);
        return;
    }
    let mut names = BTreeSet::new();
    for (index, agent) in agents.iter().enumerate() {
        let path = &path.index(index);
        if let Some((rule, message)) = wrong_agent_name(&agent.name) {
            violations.push(&path.key("name"), rule, message);
        }
        if !names.insert(agent.name.as_str()) {
            let message = format!("there is another agent named `{}`", shown(&agent.name));
            violations.push(&path.key("name"), "duplicate", message);
        }
        defaulted_enum::<v1::AgentKind>(agent.kind, &path.key("kind"), violations);
        if agent.description.len() > DESCRIPTION_MAX {
            let bytes = agent.description.len();
            let message = format!("the description has {bytes} bytes; at most {DESCRIPTION_MAX} are allowed");
            violations.push(&path.key("description"), "length", message);
        }
        // Empty is the default, 1.0.0.
        if !agent.contract_version.is_empty()
            && let Err(violation) = version::parse(&agent.contract_version)
        {
            violations.push(&path.key("contract_version"), violation.rule, violation.message);
        }
    }
}
