//! The state file of a project: checked, repaired and restored by the command, whatever is in it.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![expect(clippy::disallowed_types, reason = "starts the program")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use capataz_policy::session;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A project with this text as its state, and with this one as the backup.
struct Project(TempDir);

impl Project {
    fn with(state: &[u8], backup: Option<&[u8]>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(".elsabro")).unwrap();
        let project = Self(folder);
        fs::write(project.state(), state).unwrap();
        if let Some(backup) = backup {
            fs::write(project.file("state.backup.json"), backup).unwrap();
        }
        project
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(".elsabro").join(name)
    }

    fn state(&self) -> PathBuf {
        self.file("state.json")
    }

    fn read(&self) -> Value {
        serde_json::from_slice(&fs::read(self.state()).unwrap()).unwrap()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_capataz"));
        command.arg("sessions").args(arguments).current_dir(self.0.path()).env("LC_ALL", "C");
        command.output().expect("the command starts")
    }

    #[track_caller]
    fn check(&self, arguments: &[&str], exit: i32, stdout: &str, stderr: &str) -> Output {
        let output = self.run(arguments);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(exit), "{arguments:?}\n{out}\n{err}");
        assert!(out.contains(stdout), "{stdout}\nin stdout of {arguments:?}\n{out}");
        assert!(err.contains(stderr), "{stderr}\nin stderr of {arguments:?}\n{err}");
        output
    }

    #[track_caller]
    fn answer(&self, arguments: &[&str], exit: i32) -> Value {
        let output = self.check(&[arguments, &["--json"]].concat(), exit, "", "");
        serde_json::from_slice(&output.stdout).expect("stdout is one JSON document")
    }

    /// The only file of this kind beside the state.
    #[track_caller]
    fn kept_aside(&self) -> Vec<u8> {
        let entries = fs::read_dir(self.file("")).unwrap().map(|entry| entry.unwrap().path());
        let kept: Vec<PathBuf> =
            entries.filter(|path| path.to_string_lossy().contains("state.corrupt-")).collect();
        let [kept] = kept.as_slice() else { panic!("{kept:?}") };
        fs::read(kept).unwrap()
    }
}

/// As the seed has it.
fn valid() -> Value {
    json!({
        "version": "1.0.0",
        "created_at": "2024-01-20T10:00:00Z",
        "updated_at": "2024-01-20T15:30:00Z",
        "current_flow": {"command": "execute", "phase": "executing_wave_1", "started_at": "2024-01-20T15:00:00Z"},
        "context": {"project_type": "brownfield", "tech_stack": ["nextjs", "prisma"]},
        "history": [{"command": "plan", "completed_at": "2024-01-20T14:50:00Z", "result": "created"}]
    })
}

#[test]
fn a_valid_state_is_valid_and_nothing_is_repaired() {
    let text = serde_json::to_vec(&valid()).unwrap();
    let project = Project::with(&text, None);
    project.check(&["validate"], 0, "[OK] .elsabro/state.json: a valid state", "");
    assert_eq!(project.answer(&["validate"], 0)["violations"], json!([]));
    project.check(&["repair"], 0, "[OK] .elsabro/state.json: a valid state", "");
    assert_eq!(project.answer(&["repair"], 0)["changed"], false);
    assert_eq!(fs::read(project.state()).unwrap(), text);
}

/// The corrupt state of the seed, with its box.
#[test]
fn an_invalid_state_is_shown_as_the_contract_draws_it() {
    let state = json!({"version": "1.0.0", "current_flow": {"command": "execute", "phase": "invalid_phase"}});
    let project = Project::with(state.to_string().as_bytes(), None);
    project.check(
        &["validate"],
        2,
        "",
        "\
+======================================================+
|  ERROR: SESSION_VALIDATION_FAILED                    |
|  Severity: CRITICAL                                  |
+======================================================+
|                                                      |
|  3 validation errors found                           |
|                                                      |
|  Details:                                            |
|  - required field 'updated_at' is missing            |
|  - required field 'current_flow.started_at' is       |
|    missing                                           |
|  - phase 'invalid_phase' is invalid for command      |
|    'execute'; valid ones: initializing, exploring,   |
|    executing_wave_N, verifying, done                 |
|                                                      |
+------------------------------------------------------+
|  Ways to recover:                                    |
",
    );
    project.check(
        &["validate", "--lang", "es"],
        2,
        "",
        "|  - campo requerido 'updated_at' faltante             |",
    );
    let told = project.answer(&["validate"], 2);
    let found: Vec<(&str, &str)> = told["violations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|violation| (violation["path"].as_str().unwrap(), violation["rule"].as_str().unwrap()))
        .collect();
    assert_eq!(
        found,
        [
            ("updated_at", "MISSING_REQUIRED"),
            ("current_flow.started_at", "MISSING_REQUIRED"),
            ("current_flow.phase", "INVALID_PHASE"),
        ]
    );
    assert_eq!(
        (&told["valid"], &told["error"]["code"]),
        (&json!(false), &json!("SESSION_VALIDATION_FAILED"))
    );

    let before = fs::read(project.state()).unwrap();
    let preview =
        project.check(&["repair", "--dry-run"], 0, "would be repaired like this; nothing was changed", "");
    let preview = String::from_utf8_lossy(&preview.stdout).into_owned();
    for shown in [
        "--- .elsabro/state.json\n+++ repaired\n@@ -1 +1,",
        "+  \"context\": {},\n",
        "- current_flow begins anew\n",
    ] {
        assert!(preview.contains(shown), "{shown} in\n{preview}");
    }
    assert_eq!(fs::read(project.state()).unwrap(), before);
    project.check(&["repair"], 0, "[OK] .elsabro/state.json: repaired\nWhat was there is in ", "");
    assert_eq!(project.kept_aside(), before);
    project.check(&["validate"], 0, "a valid state", "");
}

#[test]
fn a_state_that_ends_at_any_byte_is_restored_repaired_or_begun_anew_and_its_bytes_are_kept() {
    let text = serde_json::to_vec(&valid()).unwrap();
    let mut seen = (0, 0);
    for end in 0..text.len() {
        let cut = &text[..end];
        let project = Project::with(cut, None);
        let told = project.answer(&["repair"], 0);
        match told["source"].as_str().unwrap() {
            "new" => seen.0 += 1,
            "repair" => seen.1 += 1,
            other => panic!("{other} of the first {end} bytes"),
        }
        assert_eq!(project.read(), told["state"]);
        assert_eq!(project.kept_aside(), cut);
        assert_eq!(session::violations(project.read().as_object().unwrap()), []);
        // One of ten with a backup as well, which is put in its place.
        if end % 10 == 0 {
            project.check(&["validate"], 0, "a valid state", "");
            let project = Project::with(cut, Some(&text));
            assert_eq!(project.answer(&["validate"], 2)["error"]["code"], "SESSION_CORRUPTED");
            assert_eq!(project.answer(&["repair"], 0)["source"], "backup");
            assert_eq!((project.read(), project.kept_aside()), (valid(), cut.to_vec()));
            let project = Project::with(cut, Some(cut));
            assert_ne!(project.answer(&["repair"], 0)["source"], "backup", "of a backup that is not valid");
        }
    }
    // Up to the first comma there is nothing to keep.
    let first = text.iter().position(|byte| *byte == b',').unwrap();
    assert_eq!(seen, (first + 1, text.len() - first - 1));
}

#[test]
fn a_backup_is_put_in_place_and_what_was_valid_becomes_the_backup() {
    let mut newer = valid();
    newer["updated_at"] = json!("2024-01-21T00:00:00Z");
    let (text, backup) = (newer.to_string(), valid().to_string());
    let project = Project::with(text.as_bytes(), Some(backup.as_bytes()));
    project.check(&["restore"], 0, "[OK] .elsabro/state.json: restored from its backup\n", "");
    assert_eq!(project.read(), valid());
    assert_eq!(fs::read(project.file("state.backup.json")).unwrap(), text.as_bytes());

    let project = Project::with(b"nonsense", Some(backup.as_bytes()));
    project.check(&["restore"], 0, "What was there is in ", "");
    assert_eq!((project.read(), project.kept_aside()), (valid(), b"nonsense".to_vec()));

    let project = Project::with(text.as_bytes(), Some(b"{}"));
    project.check(&["restore"], 2, "", "there is no valid backup at ");
    project.check(&["repair", "--reinitialise"], 0, "begun anew", "");
    assert_eq!((project.read()["history"].clone(), project.kept_aside()), (json!([]), text.into_bytes()));
}

#[test]
fn odd_files_are_refused_or_repaired_and_never_lost() {
    let project = Project::with(b"{", None);
    project.check(&["validate", "nowhere.json"], 2, "", "there is no nowhere.json");
    project.check(&["repair", "nowhere.json"], 2, "", "SESSION_NOT_FOUND");
    project.check(&["repair", ".elsabro"], 1, "", ".elsabro: it is not a file");

    // 50 MB, all of which is kept.
    let large = vec![b'['; 50_000_000];
    let project = Project::with(&large, None);
    project.check(&["validate"], 2, "", "larger than 4194304 bytes, the most that is read");
    assert_eq!(project.answer(&["repair"], 0)["source"], "new");
    assert!(project.kept_aside() == large);

    // A link stays one, and what it points to is repaired.
    let project = Project::with(b"{\"version\": \"2.0.0\",", None);
    let link = project.0.path().join("link.json");
    symlink(project.state(), &link).unwrap();
    assert_eq!(project.answer(&["repair", "link.json"], 0)["state"]["version"], "2.0.0");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(project.read()["version"], "2.0.0");

    // Two writers at once.
    let project = Project::with(b"{", None);
    let lock = fs::File::create(project.file("state.lock")).unwrap();
    lock.lock().unwrap();
    project.check(&["repair"], 1, "", "another process is changing .elsabro/state.json");
    assert_eq!(fs::read(project.state()).unwrap(), b"{");
    drop(lock);
    project.check(&["repair"], 0, "", "");
    assert!(Path::new(&project.file("state.lock")).exists());
}
