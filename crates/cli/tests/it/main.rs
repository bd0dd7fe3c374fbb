//! The program, tested as people use it.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "start programs, and wait for what they show"
)]

mod act;
mod ask;
mod backup;
mod choosing;
mod cli;
mod closed_pipes;
mod conversation;
mod data_folder;
mod descriptors;
mod doctor;
mod finished;
mod help;
mod keys;
mod kill;
mod kill_mode_models;
mod kill_mode_people;
mod kill_modes;
mod kill_pipelines;
mod list;
mod live_view;
mod logs;
mod machine;
mod memory;
mod model_crew;
mod modes;
mod near;
mod newcomer;
mod old_data;
mod outputs;
mod partial_output;
mod pictures;
mod pipelines;
mod plain;
mod rebuild;
mod references;
mod reload;
mod reported;
mod reports;
mod served;
mod session_work;
mod sessions;
mod shells;
mod stood_still;
mod terminal;
mod time_travel;
mod traces;
