//! Every decoder of bytes from outside, each as a [`Target`]: it takes any bytes, and panics where a property is broken.
//!
//! The properties beside "it does not panic": what decodes encodes again to the same meaning; what is refused names at
//! least one reason; what a bound limits stays within it. Time and memory are watched by whoever calls: `tests/corpus.rs`
//! gives each target its committed corpus, damaged in many ways, and `src/bin/fuzz.rs` searches with libFuzzer, which
//! follows the coverage. See CONTRIBUTING.md, "Fuzz".
//!
//! This crate is neither shipped nor linked by another one, holds no rule, and reaches only what is public. Begin reading
//! with [`TARGETS`].

mod documents;
mod peers;
mod planners;
pub mod seeds;
mod stored;
mod texts;

/// A decoder, and the properties that it has to keep whatever it is given.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Such as `plan`; the folder of its corpus has the same name.
    pub name: &'static str,
    /// Panics where these bytes break a property.
    pub check: fn(&[u8]),
}

/// All targets: those for files that people write, for what other processes say, and for what is read back from the disk.
pub const TARGETS: &[Target] = &[
    Target { name: "plan", check: documents::plan },
    Target { name: "pipeline", check: documents::pipeline },
    Target { name: "script", check: documents::script },
    Target { name: "configuration", check: documents::configuration },
    Target { name: "session_state", check: documents::session_state },
    Target { name: "spec_file", check: documents::spec_file },
    Target { name: "spec_request", check: documents::spec_request },
    Target { name: "spec_response", check: documents::spec_response },
    Target { name: "schema", check: documents::schema },
    Target { name: "storage_state", check: documents::storage_state },
    Target { name: "texts", check: texts::all },
    Target { name: "start_request", check: peers::start_request },
    Target { name: "worker_frames", check: peers::worker_frames },
    Target { name: "planner_answer", check: planners::planner_answer },
    Target { name: "devtools", check: peers::devtools },
    Target { name: "web_socket", check: peers::web_socket },
    Target { name: "cursor", check: stored::cursor },
    Target { name: "log", check: stored::log },
    Target { name: "run_snapshot", check: stored::run_snapshot },
    Target { name: "session_snapshot", check: stored::session_snapshot },
];

/// The target of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
