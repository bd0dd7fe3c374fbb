//! Which agents may answer for a spec: those that speak a version of the contract with our major number (CONTRACTS §0).

use capataz_contracts::v1;
use capataz_crew::{Config, Crew, Input, Known, KnownAgent, Mono, Now};

/// The code with which the spec of an agent that speaks this version is refused.
fn refused(version: &str) -> Option<(String, String)> {
    let config = Config { heartbeat_ms: 1, missed_heartbeats: 3, ack_timeout_ms: 1, gather_ms: 0 };
    let mut crew = Crew::new(config, Vec::new());
    let agent =
        v1::Agent { name: "tides".to_owned(), contract_version: version.to_owned(), ..v1::Agent::default() };
    let known = KnownAgent { agent, source: v1::AgentSource::Declared, last_seen: None };
    let known = Known { agents: vec![known], ..Known::default() };
    crew.handle(Now::alike(1), Input::Configure(known), &mut Vec::new());
    crew.unavailable(Mono(2), "coast", "tides").map(|error| (error.code, error.message))
}

// S001-VE-05
#[test]
fn an_agent_of_another_major_version_answers_for_no_spec() {
    for version in ["2.0.0", "0.9.0", "2.0.0-rc.1"] {
        let (code, message) = refused(version).unwrap();
        assert_eq!(code, "INCOMPATIBLE_VERSION", "{version}");
        for word in [version, "coast", "tides"] {
            assert!(message.contains(word), "{message}");
        }
    }
}

#[test]
fn an_agent_of_the_same_major_version_and_one_that_names_none_may_answer() {
    for version in ["1.0.0", "1.7.2", ""] {
        assert_eq!(refused(version), None, "{version}");
    }
}
