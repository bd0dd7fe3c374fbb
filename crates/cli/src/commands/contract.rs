//! `capataz contract …`, which needs no daemon.

use serde_json::json;

use super::Outcome;
use crate::args::ContractCommand;
use crate::exit::Exit;
use crate::failure::{Failure, violations_json};
use crate::output::Output;
use crate::plan_source;
use capataz_display::words::{fill, words};
use capataz_display::{error, run};

pub fn contract(command: ContractCommand, out: &mut Output) -> Outcome {
    let ContractCommand::Check { file, format } = command;
    let name = plan_source::name_of(&file);
    match plan_source::load(&file, format.map(Into::into)) {
        Ok(plan) => {
            if out.json {
                out.document(&json!({ "file": name, "kind": "plan", "valid": true, "violations": [] }));
            } else {
                let (waves, tasks) = run::size_of(&plan);
                out.line(&error::ok(&fill(words().contract.valid, &[&name, &waves, &tasks]), out.paint));
            }
            Ok(Exit::Ok)
        }
        Err(Failure::Violations { violations, .. }) if out.json => {
            let violations = violations_json(&violations);
            out.document(&json!({ "file": name, "kind": "plan", "valid": false, "violations": violations }));
            Ok(Exit::Invalid)
        }
        Err(failure) => Err(failure),
    }
}
