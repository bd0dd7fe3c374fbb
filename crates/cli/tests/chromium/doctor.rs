//! What `capataz browser doctor` says of a folder is what the daemon of the folder does.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::examples::{DemoSite, check, example};

/// The program in this folder, with nothing of the environment that names another data folder or another daemon.
fn capataz(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capataz"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).env("LC_ALL", "C");
    for name in ["CAPATAZ_ADDR", "CAPATAZ_LISTEN", "CAPATAZ_DATA_DIR", "CAPATAZ_LANG"] {
        command.env_remove(name);
    }
    command
}

/// A daemon that was started in its folder, and ends with the test.
struct Serving {
    process: Child,
    address: String,
}

impl Serving {
    fn start(folder: &Path, options: &[&str]) -> Self {
        let arguments = [&["serve", "--json", "--listen", "127.0.0.1:0"][..], options].concat();
        let mut command = capataz(folder, &arguments);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).expect("the daemon says where it listens");
        Self { process, address: told["address"].as_str().unwrap().to_owned() }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn browsers_start_in_a_relative_data_folder_as_the_doctor_says() {
    let site = DemoSite::start();
    for (config, options) in [("", &["--data-dir", "data"][..]), ("data_dir = \"data\"\n", &[])] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        fs::write(folder.join("capataz.toml"), config).unwrap();
        let examined = || {
            let arguments = [&["browser", "doctor", "--json"][..], options].concat();
            let output = capataz(folder, &arguments).output().unwrap();
            let said: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!((output.status.code(), said["starts"].as_bool()), (Some(0), Some(true)), "{said}");
            assert_eq!(said["profiles"], "data/browser/profiles");
        };
        examined();
        assert!(!folder.join("data").exists(), "nothing was made for it");
        let serving = Serving::start(folder, options);
        // From now on it looks at the folder of the daemon's own profiles.
        examined();
        let script = example(folder, &site, "extract-table.toml");
        let acts = ["act", script.to_str().unwrap(), "--addr", &serving.address];
        check(&capataz(folder, &acts).output().unwrap(), 0, &["Rye"]);
    }
}
