//! The recorder: built from C with the system's compiler, and loaded before a program by its environment.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Failure;

const SOURCE: &str = include_str!("../preload/recorder.c");

/// The built recorder.
#[derive(Clone, Debug)]
pub struct Recorder {
    library: PathBuf,
}

/// A call that is made to fail.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Fault {
    /// The name of the call, such as `sync`.
    pub name: String,
    /// Its number among the calls of this name, from 1.
    pub number: u64,
    pub kind: &'static str,
}

/// What is done under one program.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    pub fault: Option<Fault>,
    /// Record every call that could fail.
    pub calls: bool,
    /// A pattern of paths whose syncs are answered and not made. This is the fault that the campaign of cuts has to find.
    pub dropped: Option<String>,
}

impl Recorder {
    /// Builds the recorder in a folder.
    ///
    /// # Errors
    /// There is no C compiler of the name `cc`, or the folder cannot be written.
    pub fn build(folder: &Path) -> Result<Self, Failure> {
        let (source, library) = (folder.join("recorder.c"), folder.join("recorder.so"));
        fs::write(&source, SOURCE)?;
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl");
        let output =
            compiler.output().map_err(|error| format!("the C compiler `cc` cannot be started: {error}"))?;
        if !output.status.success() {
            return Err(
                format!("the recorder cannot be built: {}", String::from_utf8_lossy(&output.stderr)).into()
            );
        }
        Ok(Self { library })
    }

    /// Has the program recorded: what it does in the folder `root` is appended to `record`.
    pub fn load(&self, program: &mut Command, root: &Path, record: &Path, setting: &Setting) {
        program.env("LD_PRELOAD", &self.library);
        program.env("CAPATAZ_DISK_ROOT", root).env("CAPATAZ_DISK_RECORD", record);
        if setting.calls {
            program.env("CAPATAZ_DISK_CALLS", "1");
        }
        if let Some(Fault { name, number, kind }) = &setting.fault {
            program.env("CAPATAZ_DISK_FAULT", format!("{number}:{kind}:{name}"));
        }
        if let Some(dropped) = &setting.dropped {
            program.env("CAPATAZ_DISK_DROP", dropped);
        }
    }
}
