//! `capataz contract …`, which needs no daemon.

use std::path::Path;

use capataz_contracts::{Violation, plan_file, spec};
use serde_json::json;

use super::{Outcome, act, sessions};
use crate::args::{ActCommand, ContractCommand, DocumentKind, PlanFormat, StateArgs};
use crate::exit::Exit;
use crate::failure::{Failure, violations_json};
use crate::output::Output;
use crate::plan_source;
use capataz_display::words::{fill, words};
use capataz_display::{error, run};

pub fn contract(command: ContractCommand, out: &mut Output) -> Outcome {
    let ContractCommand::Check { file, kind, format } = command;
    let is_json = matches!(kind, DocumentKind::Request | DocumentKind::Response | DocumentKind::Session);
    if is_json && format == Some(PlanFormat::Toml) {
        return Err(Failure::invalid(words().contract.only_json));
    }
    match kind {
        DocumentKind::Plan => plan(&file, format.map(Into::into), out),
        DocumentKind::Script => act::check(ActCommand::Check { file, format, variables: Vec::new() }, out),
        DocumentKind::Session => sessions::validate(&StateArgs { file }, out),
        DocumentKind::Request => {
            let read = |bytes: &[u8]| spec::parse_request(bytes).map(|_| ());
            of_specs(&file, "request", words().contract.valid_request, read, out)
        }
        DocumentKind::Response => {
            let read = |bytes: &[u8]| spec::parse_response(bytes).map(|_| ());
            of_specs(&file, "response", words().contract.valid_response, read, out)
        }
    }
}

fn plan(file: &Path, format: Option<plan_file::Format>, out: &mut Output) -> Outcome {
    match plan_source::load(file, format) {
        Ok(plan) => {
            let (waves, tasks) = run::size_of(&plan);
            let name = plan_source::name_of(file);
            told(file, "plan", Ok(&fill(words().contract.valid, &[&name, &waves, &tasks])), out)
        }
        Err(Failure::Violations { violations, .. }) => told(file, "plan", Err(violations), out),
        Err(failure) => Err(failure),
    }
}

/// A document of the spec contract.
fn of_specs(
    file: &Path,
    kind: &str,
    valid: &str,
    read: impl FnOnce(&[u8]) -> Result<(), Vec<Violation>>,
    out: &mut Output,
) -> Outcome {
    let name = plan_source::name_of(file);
    let bytes = plan_source::read(file).map_err(|error| {
        Failure::invalid(fill(words().contract.cannot_read, &[&name, &error.to_string()]))
    })?;
    let valid = fill(valid, &[&name]);
    told(file, kind, read(&bytes).map(|()| valid.as_str()), out)
}

/// Says whether the document is valid.
fn told(file: &Path, kind: &str, checked: Result<&str, Vec<Violation>>, out: &mut Output) -> Outcome {
    let name = plan_source::name_of(file);
    let (exit, violations) = match checked {
        Ok(text) if !out.json => {
            out.line(&error::ok(text, out.paint));
            return Ok(Exit::Ok);
        }
        Err(violations) if !out.json => return Err(Failure::Violations { subject: name, violations }),
        Ok(_) => (Exit::Ok, Vec::new()),
        Err(violations) => (Exit::Invalid, violations),
    };
    let (valid, violations) = (exit == Exit::Ok, violations_json(&violations));
    out.document(&json!({ "file": name, "kind": kind, "valid": valid, "violations": violations }));
    Ok(exit)
}
