//! The state file of a project: checked, repaired and restored by the command, whatever is in it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

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

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_capataz"));
        command.arg("sessions").args(arguments).current_dir(self.0.path()).env("LC_ALL", "C");
        command.env("CAPATAZ_BOXES", "1");
        command
    }

    /// Waits until the process has opened the lock, which it then waits for.
    fn wait_until_it_waits(&self, process: u32) {
        let lock = fs::canonicalize(self.file("state.lock")).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let open = fs::read_dir(format!("/proc/{process}/fd")).unwrap();
            let mut files = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
            if files.any(|file| file == lock) {
                return;
            }
            assert!(Instant::now() < deadline, "it never opens the lock");
        }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the command starts")
    }

    /// Runs the command as somebody who is not root: where the tests are root, as somebody else, who need not reach the folder
    /// in which the program was built.
    fn as_nobody(&self, arguments: &[&str]) -> Output {
        let program = self.0.path().join("capataz");
        if !program.exists() {
            fs::copy(env!("CARGO_BIN_EXE_capataz"), &program).unwrap();
        }
        let mut command = Command::new(&program);
        command.arg("sessions").args(arguments).current_dir(self.0.path()).env("LC_ALL", "C");
        if fs::metadata(self.state()).unwrap().uid() == 0 {
            command.uid(65_534);
        }
        command.output().unwrap()
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

/// What a box, or a text without one, says: without its frame and its line breaks.
fn unboxed(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let lines = text.lines().map(|line| line.trim_matches('|').trim());
    lines.collect::<Vec<_>>().join(" ")
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

// S000-C7-20
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
// S000-C7-21
#[test]
fn an_invalid_state_is_shown_as_the_contract_draws_it() {
    // The keys in the order in which serde_json prints them.
    let state = r#"{"current_flow":{"command":"execute","phase":"invalid_phase"},"version":"1.0.0"}"#;
    let project = Project::with(state.as_bytes(), None);
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
|  - line 1, column 1: required field 'updated_at' is  |
|    missing                                           |
|  - line 1, column 17: required field                 |
|    'current_flow.started_at' is missing              |
|  - line 1, column 46: phase 'invalid_phase' is       |
|    invalid for command 'execute'; valid ones:        |
|    initializing, exploring, executing_wave_N,        |
|    verifying, done                                   |
|                                                      |
+------------------------------------------------------+
|  Ways to recover:                                    |
|  [p] Repair the state (what is valid is kept):       |
|      `capataz sessions repair`                       |
|  [r] Reinitialise the state (history is lost):       |
|      `capataz sessions repair --reinitialise`        |
|  [m] Edit by hand                                    |
+======================================================+
",
    );
    project.check(
        &["validate", "--lang", "es"],
        2,
        "",
        "|  - línea 1, columna 1: campo requerido 'updated_at'  |\n|    faltante ",
    );
    // And in lines, where nobody asks for boxes.
    let lines = "\
✗ SESSION_VALIDATION_FAILED (CRITICAL): 3 validation errors found
  - line 1, column 1: required field 'updated_at' is missing
  - line 1, column 17: required field 'current_flow.started_at' is missing
  - line 1, column 46: phase 'invalid_phase' is invalid for command 'execute'; valid ones: \
  initializing, exploring, executing_wave_N, verifying, done
  [m] Edit by hand
  [p] Repair the state (what is valid is kept): `capataz sessions repair`
  [r] Reinitialise the state (history is lost): `capataz sessions repair --reinitialise`
";
    let plain = project.command(&["validate"]).env_remove("CAPATAZ_BOXES").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&plain.stderr).into_owned(), lines);
    let told = project.answer(&["validate"], 2);
    let found: Vec<(&str, &str, u64)> = told["violations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|violation| {
            assert_eq!(violation["line"], 1);
            let text = |name: &str| violation[name].as_str().unwrap();
            (text("path"), text("rule"), violation["column"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(
        found,
        [
            ("updated_at", "MISSING_REQUIRED", 1),
            ("current_flow.started_at", "MISSING_REQUIRED", 17),
            ("current_flow.phase", "INVALID_PHASE", 46),
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
        "--- .elsabro/state.json\n+++ repaired\n@@ -1 +1,14 @@ line 1, column 2\n",
        "+  \"context\": {},\n",
        "- line 1, column 17: current_flow begins anew\n",
    ] {
        assert!(preview.contains(shown), "{shown} in\n{preview}");
    }
    assert_eq!(fs::read(project.state()).unwrap(), before);
    project.check(&["repair"], 0, "[OK] .elsabro/state.json: repaired\nWhat was there is in ", "");
    assert_eq!(project.kept_aside(), before);
    project.check(&["validate"], 0, "a valid state", "");
}

#[test]
fn a_repair_is_offered_where_it_keeps_something_and_where_it_has_not_failed() {
    let told = |state: &[u8], backup: Option<&[u8]>| {
        let project = Project::with(state, backup);
        let output = project.command(&["validate"]).env_remove("CAPATAZ_BOXES").output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    let repair = "[p] Repair the state (what is valid is kept): `capataz sessions repair`\n";
    let text = serde_json::to_vec(&valid()).unwrap();
    let cut = &text[..text.len() - 2];
    assert!(told(br#"{"context": {}}"#, None).contains(repair));
    assert!(told(cut, None).contains(repair));
    // It would put the backup in place.
    let of_backup = told(cut, Some(&text));
    assert!(of_backup.contains("[b] Restore") && !of_backup.contains(repair), "{of_backup}");
    assert!(!told(b"nothing", None).contains(repair));
}

// S000-C7-25, S000-C7-28
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

// S000-C7-28
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

    let project = Project::with(text.as_bytes(), None);
    project.check(&["restore"], 2, "", "there is no valid backup at ");
    assert!(!project.file("state.lock").exists(), "nothing is left where nothing was to be done");
}

/// A backup that is not valid is put nowhere, and a change that validation lets through is preceded by a backup.
// S000-C7-26
#[test]
fn nothing_invalid_is_written_and_what_was_valid_is_backed_up_before_it_goes() {
    let text = valid().to_string();
    let project = Project::with(text.as_bytes(), Some(br#"{"version": "1.0.0"}"#));
    project.check(&["restore"], 2, "", "ERROR: SESSION_INVALID");
    let told = project.answer(&["restore"], 2);
    assert_eq!(told["error"]["code"], "SESSION_INVALID");
    assert_eq!(told["error"]["details"][0]["message"], "required field 'updated_at' is missing");
    assert_eq!(fs::read(project.state()).unwrap(), text.as_bytes());

    project.check(&["repair", "--reinitialise"], 0, ": begun anew\n", "");
    assert_eq!(fs::read(project.file("state.backup.json")).unwrap(), text.as_bytes());
    assert_eq!((project.read()["history"].clone(), project.kept_aside()), (json!([]), text.into_bytes()));
    project.check(&["restore"], 0, "restored from its backup", "");
    assert_eq!(project.read(), valid());

    // What is not valid never replaces a backup.
    let project = Project::with(b"{}", Some(valid().to_string().as_bytes()));
    project.check(&["repair"], 0, ": repaired\n", "");
    assert_eq!(fs::read(project.file("state.backup.json")).unwrap(), valid().to_string().as_bytes());
}

/// The backup is for what is no state any more. A state with one wrong field is newer, and keeps what is valid of it.
#[test]
fn a_state_that_can_be_read_keeps_what_is_valid_of_it_whatever_its_backup_has() {
    let mut newer = valid();
    newer["current_flow"]["phase"] = json!("nowhere");
    newer["history"]
        .as_array_mut()
        .unwrap()
        .push(json!({"command": "execute", "completed_at": "2024-01-20T15:30:00Z"}));
    let project = Project::with(newer.to_string().as_bytes(), Some(valid().to_string().as_bytes()));
    project.check(
        &["validate"],
        2,
        "",
        "|  [b] Restore from backup: `capataz sessions          |\n|      restore` ",
    );
    let told = project.answer(&["repair"], 0);
    assert_eq!((&told["source"], told["state"]["history"].as_array().unwrap().len()), (&json!("repair"), 2));
    assert_eq!(project.read(), told["state"]);
}

/// What would be too large to be read again is not written; what was there stays.
// S000-C7-18
#[test]
fn a_repair_that_would_write_too_much_fails_and_changes_nothing() {
    let text = format!("{{\"own\":\"{}\"}}", "x".repeat(session::MAX_BYTES - 10));
    let project = Project::with(text.as_bytes(), None);
    project.check(&["repair"], 2, "", "ERROR: REPAIR_FAILED");
    let told = project.answer(&["repair"], 2);
    assert_eq!(
        (&told["error"]["code"], &told["error"]["severity"]),
        (&json!("REPAIR_FAILED"), &json!("CRITICAL"))
    );
    assert_eq!(told["error"]["cause"]["code"], "SESSION_INVALID");
    assert!(fs::read(project.state()).unwrap() == text.as_bytes());
    project.check(&["repair", "--reinitialise"], 0, ": begun anew\n", "");
}

#[test]
fn of_repairs_at_once_one_changes_the_file_and_the_others_change_nothing() {
    let project = Project::with(b"{\"version\": \"2.0.0\",", None);
    let started: Vec<_> = (0..8)
        .map(|_| project.command(&["repair", "--json"]).stdout(Stdio::piped()).spawn().unwrap())
        .collect();
    let told = started.into_iter().map(|process| {
        let output = process.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    });
    assert_eq!(told.filter(|told| told["changed"] == true).count(), 1);
    assert_eq!(project.kept_aside(), b"{\"version\": \"2.0.0\",");
    assert_eq!(project.read()["version"], "2.0.0");
}

/// What a command has to know of a file, it reads after it has taken it: until then another one may change it.
#[test]
fn what_another_process_has_written_before_the_lock_was_free_is_what_counts() {
    let (text, backup) =
        (valid().to_string(), json!({"version": "3", "updated_at": "2024-01-20"}).to_string());
    for arguments in [["repair", "--json"], ["restore", "--json"]] {
        let project = Project::with(b"{", Some(text.as_bytes()));
        let lock = fs::File::create(project.file("state.lock")).unwrap();
        lock.lock().unwrap();
        let process = project.command(&arguments).stdout(Stdio::piped()).spawn().unwrap();
        project.wait_until_it_waits(process.id());
        fs::write(project.state(), &text).unwrap();
        fs::write(project.file("state.backup.json"), &backup).unwrap();
        drop(lock);
        let output = process.wait_with_output().unwrap();
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        match arguments[0] {
            "repair" => assert_eq!((&told["changed"], project.read()), (&json!(false), valid())),
            // The newer backup is restored, and the newer state, which is valid, becomes the backup.
            _ => {
                assert_eq!(project.read()["version"], "3");
                assert_eq!(fs::read(project.file("state.backup.json")).unwrap(), text.as_bytes());
            }
        }
        let aside = fs::read_dir(project.file("")).unwrap().map(|entry| entry.unwrap().path());
        let aside: Vec<PathBuf> = aside.filter(|path| path.to_string_lossy().contains("corrupt")).collect();
        assert_eq!(aside, Vec::<PathBuf>::new());
    }
}

#[test]
fn a_link_that_leads_nowhere_is_told_and_stays() {
    for target in ["gone.json", "state.json"] {
        let project = Project::with(b"{", None);
        fs::remove_file(project.state()).unwrap();
        symlink(target, project.state()).unwrap();
        for arguments in [&["validate"][..], &["repair"], &["repair", "--reinitialise"], &["restore"]] {
            let output = project.check(arguments, 2, "", "SESSION_CORRUPTED");
            let told = format!(".elsabro/state.json: it is a link to {target}, which leads to no file (");
            assert!(unboxed(&output.stderr).contains(&told), "{}", unboxed(&output.stderr));
        }
        project.check(&["repair", "--lang", "es"], 2, "", "es un enlace a ");
        assert_eq!(fs::read_link(project.state()).unwrap(), Path::new(target));
        assert!(!project.file("gone.json").exists() && !project.file("state.lock").exists());
    }
    // Nor is a backup's link replaced.
    let project = Project::with(valid().to_string().as_bytes(), None);
    symlink("gone.json", project.file("state.backup.json")).unwrap();
    project.check(&["repair", "--reinitialise"], 1, "", "state.backup.json: it is a link to gone.json");
    assert_eq!((project.read(), project.file("gone.json").exists()), (valid(), false));
}

/// Root may write everywhere; where the tests are root, the command is somebody else.
#[test]
fn a_folder_that_may_not_be_written_is_told_and_nothing_changes() {
    let project = Project::with(b"{", Some(valid().to_string().as_bytes()));
    let folder = project.file("");
    for (path, mode) in
        [(project.0.path(), 0o755), (project.state().as_path(), 0o644), (folder.as_path(), 0o555)]
    {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    for arguments in [["repair"], ["restore"]] {
        let output = project.as_nobody(&arguments);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{told}");
        let expected =
            ".elsabro/state.json: the file or its folder may not be read or written: Permission denied";
        assert!(told.contains(expected), "{told}");
    }
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(fs::read(project.state()).unwrap(), b"{");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "nothing was added");
}

/// The seed has one code for every reason, but for that there is no file.
// S000-C7-25
#[test]
fn a_state_that_is_there_and_cannot_be_read_is_session_corrupted_and_stays() {
    let project = Project::with(valid().to_string().as_bytes(), None);
    for arguments in [["validate", ".elsabro"], ["repair", ".elsabro"]] {
        let output = project.check(&arguments, 2, "", "ERROR: SESSION_CORRUPTED");
        let told = unboxed(&output.stderr);
        assert!(told.contains(".elsabro: it is not a file"), "{told}");
        // Neither of these could be done to it.
        assert!(!told.contains("capataz sessions restore") && !told.contains("--reinitialise"), "{told}");
        let answer = project.answer(&arguments, 2);
        let error = &answer["error"];
        assert_eq!((&error["code"], &error["severity"]), (&json!("SESSION_CORRUPTED"), &json!("CRITICAL")));
    }
    project.check(&["validate", ".elsabro", "--lang", "es"], 2, "", "Conviértalo en un archivo");
    assert_eq!(project.read(), valid());

    fs::set_permissions(project.0.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(project.state(), fs::Permissions::from_mode(0o000)).unwrap();
    let output = project.as_nobody(&["validate"]);
    let told = unboxed(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    let expected =
        ".elsabro/state.json: the file or its folder may not be read or written: Permission denied";
    assert!(told.contains("SESSION_CORRUPTED") && told.contains(expected), "{told}");
}

// S000-C7-24
#[test]
fn odd_files_are_refused_or_repaired_and_never_lost() {
    let project = Project::with(b"{", None);
    project.check(&["validate", "nowhere.json"], 2, "", "there is no state file nowhere.json");
    project.check(&["repair", "nowhere.json"], 2, "", "ERROR: SESSION_NOT_FOUND");
    assert_eq!(project.answer(&["repair", "nowhere.json"], 2)["error"]["code"], "SESSION_NOT_FOUND");
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
