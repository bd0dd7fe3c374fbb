//! What a configuration needs of the machine and does not find there: programs, secrets, folders, valid specs. Whoever starts
//! a daemon may want to know before the first task fails. Nothing here changes anything.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use capataz_hosts::commands::{ProcessAgent, secrets_of};
use capataz_hosts::port::SecretResolver as _;
use capataz_router::SpecFileError;
use rustix::fs::{Access, access};

use super::document::Document;
use super::{Config, FILE_BYTES, text};
use crate::machine::{Folder, Permission};
use crate::secrets::Secrets;
use crate::specs::{self, SpecsError};

/// Where programs are looked for by a command that has no `PATH`.
const NO_PATH: &str = "/bin:/usr/bin";
/// The variable that says where programs are looked for.
const PATH: &str = "PATH";

/// Something that the configuration names, by its key, and that is not as a daemon needs it.
#[derive(Debug)]
pub struct Need {
    /// The key that names it, such as `agents[0].command[0]`.
    pub key: String,
    /// The file that has the key, with the line and the column; `None` where something else says what is needed.
    pub place: Option<(String, (usize, usize))>,
    pub lack: Lack,
}

/// What is wrong with it.
#[derive(Debug)]
pub enum Lack {
    /// No file is there that a command could be.
    NoProgram(String),
    /// A file is there, and this user may not execute it.
    NotExecutable(PathBuf),
    /// Neither a variable nor a file has the secret of this name.
    NoSecret(String),
    /// The secret is there, and cannot be read.
    UnreadSecret(String, io::Error),
    NoFolder(PathBuf),
    /// The folder cannot be read.
    Unreadable(PathBuf, io::Error),
    /// The folder cannot be made, read or written.
    Unwritable(PathBuf, io::Error),
    /// Others may write to the folder, by these permissions.
    OpenToOthers(PathBuf, u32),
    /// A spec file breaks a rule.
    WrongSpec(SpecFileError),
    /// The spec files cannot be used together: the line that says why.
    WrongSpecs(String),
}

impl Config {
    /// All that it needs and does not find, in the order of its keys. `variable` answers for one name of the environment.
    #[must_use]
    pub fn needs(&self, variable: impl Fn(&str) -> Option<OsString>) -> Vec<Need> {
        let mut needs = Needs { secrets: Secrets::new(self.secrets_dir.clone()), found: Vec::new() };
        needs.data_dir(&self.data_dir);
        needs.specs(self);
        if let Some(folder) = &self.secrets_dir {
            needs.readable("secrets_dir", folder);
        }
        for (index, agent) in self.agents.iter().enumerate() {
            let key = format!("agents[{index}]");
            if let Some(folder) = &agent.cwd {
                needs.readable(&format!("{key}.cwd"), folder);
            }
            needs.program(&key, agent, &variable);
            for (name, secret) in agent.secrets() {
                needs.secret(format!("{key}.env.{name}"), secret);
            }
        }
        for (index, model) in self.models.iter().enumerate() {
            if let Some(secret) = model.secret() {
                needs.secret(format!("models[{index}].key"), secret);
            }
        }
        for (name, value) in &self.telemetry.headers {
            for secret in secrets_of(value) {
                needs.secret(format!("telemetry.headers.{name}"), secret);
            }
        }
        // A path as it is, and no name: it is not looked for.
        if let Some(program) = &self.browser.program {
            let lack = lack_of(&program.display().to_string(), vec![program.clone()]);
            needs.found.extend(lack.map(|lack| Need::of("browser.program", lack)));
        }
        if let Some(secret) = &self.browser.storage_key {
            needs.secret("browser.storage_key".to_owned(), secret);
        }
        for (index, folder) in self.browser.upload_folders.iter().enumerate() {
            needs.readable(&format!("browser.upload_folders[{index}]"), folder);
        }
        self.find_places(&mut needs.found);
        needs.found
    }

    /// Finds where the file has the keys. It is read once more, and where that is not possible by now, nobody knows.
    fn find_places(&self, needs: &mut [Need]) {
        let Some(file) = self.read.file.as_ref().filter(|_| !needs.is_empty()) else { return };
        let Ok(text) = text::read(file, FILE_BYTES) else { return };
        let name = file.display().to_string();
        let Ok(document) = Document::parse(name.as_str(), &text) else { return };
        for need in needs {
            let first = need.key.split(['.', '[']).next().unwrap_or_default();
            let origin = self.origins.iter().find(|(key, ..)| key == first).map(|(.., origin)| origin);
            if origin.is_none_or(|origin| *origin == name) {
                need.place = document.place_of(&need.key).map(|place| (name.clone(), place));
            }
        }
    }
}

impl Need {
    fn of(key: impl Into<String>, lack: Lack) -> Self {
        Self { key: key.into(), place: None, lack }
    }
}

struct Needs {
    secrets: Secrets,
    found: Vec<Need>,
}

impl Needs {
    fn lacks(&mut self, key: impl Into<String>, lack: Lack) {
        self.found.push(Need::of(key, lack));
    }

    fn data_dir(&mut self, folder: &Path) {
        match Folder::examine(folder).access {
            Permission::Own | Permission::Missing(_) | Permission::Readable(_) => {}
            Permission::Writable(mode) => self.lacks("data_dir", Lack::OpenToOthers(folder.to_owned(), mode)),
            Permission::Refused(error) => self.lacks("data_dir", Lack::Unwritable(folder.to_owned(), error)),
        }
    }

    fn specs(&mut self, config: &Config) {
        match specs::load(&config.spec_source()) {
            Ok(_) => {}
            Err(SpecsError::Read { path, source }) => self.lacks("specs_dir", Lack::Unreadable(path, source)),
            Err(SpecsError::Invalid(errors)) => {
                errors.into_iter().for_each(|error| self.lacks("specs_dir", Lack::WrongSpec(error)));
            }
            Err(error @ SpecsError::TooMany(_)) => {
                self.lacks("specs_dir", Lack::WrongSpecs(error.to_string()))
            }
        }
    }

    fn readable(&mut self, key: &str, folder: &Path) {
        match fs::metadata(folder) {
            Ok(metadata) if metadata.is_dir() => {
                if let Err(errno) = access(folder, Access::READ_OK | Access::EXEC_OK) {
                    self.lacks(key, Lack::Unreadable(folder.to_owned(), errno.into()));
                }
            }
            Ok(_) => self.lacks(key, Lack::NoFolder(folder.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.lacks(key, Lack::NoFolder(folder.to_owned()));
            }
            Err(error) => self.lacks(key, Lack::Unreadable(folder.to_owned(), error)),
        }
    }

    fn secret(&mut self, key: String, name: &str) {
        match self.secrets.resolve(name) {
            Ok(Some(_)) => {}
            Ok(None) => self.lacks(key, Lack::NoSecret(name.to_owned())),
            Err(error) => self.lacks(key, Lack::UnreadSecret(name.to_owned(), error)),
        }
    }

    /// The program as the command would find it: a path from its working folder, or a name along its own `PATH`.
    fn program(&mut self, key: &str, agent: &ProcessAgent, variable: &impl Fn(&str) -> Option<OsString>) {
        let Some(program) = agent.command.first() else { return };
        let folder = agent.cwd.as_deref().unwrap_or(Path::new(""));
        let candidates: Vec<PathBuf> = if program.contains('/') {
            vec![folder.join(program)]
        } else {
            let passed = agent.pass_env.iter().any(|name| name == PATH).then(|| variable(PATH)).flatten();
            let path = agent.env.get(PATH).map(OsString::from).or(passed);
            let path = path.unwrap_or_else(|| NO_PATH.into());
            std::env::split_paths(&path).map(|entry| folder.join(entry).join(program)).collect()
        };
        if let Some(lack) = lack_of(program, candidates) {
            self.lacks(format!("{key}.command[0]"), lack);
        }
    }
}

/// What keeps a program from being started that is one of these files; `None` where nothing does.
fn lack_of(program: &str, candidates: Vec<PathBuf>) -> Option<Lack> {
    let mut files = candidates.into_iter().filter(|path| path.is_file()).peekable();
    let first = files.peek().cloned();
    let is_executable = |path: PathBuf| access(&path, Access::EXEC_OK).is_ok();
    match first {
        None => Some(Lack::NoProgram(program.to_owned())),
        Some(_) if files.any(is_executable) => None,
        Some(file) => Some(Lack::NotExecutable(file)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::Overrides;

    /// What a configuration lacks, each as its key and what it is about, with `PATH` as the folder `bin` beside the file.
    fn lacks(config: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for (name, mode) in [("bin/tool", 0o755), ("bin/text", 0o644), ("work/own", 0o700)] {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), "").unwrap();
            fs::set_permissions(root.join(name), Permissions::from_mode(mode)).unwrap();
        }
        fs::create_dir_all(root.join("secrets")).unwrap();
        fs::write(root.join("secrets/KNOWN"), "it").unwrap();
        fs::create_dir_all(root.join("specs")).unwrap();
        fs::write(root.join("specs/wrong.toml"), "nonsense = 1\n").unwrap();
        let config = config.replace("ROOT", &root.display().to_string());
        fs::write(root.join("capataz.toml"), config).unwrap();
        let data_dir = Some(root.join("data"));
        let overrides = Overrides { data_dir, ..Overrides::default() };
        let config = Config::load(Some(&root.join("capataz.toml")), overrides).unwrap();
        let needs = config.needs(|name| (name == "PATH").then(|| root.join("bin").into()));
        let told = needs.iter().map(|need| {
            let what = match &need.lack {
                Lack::NoProgram(name) => format!("no program {name}"),
                Lack::NotExecutable(path) => format!("not executable {}", path.display()),
                Lack::NoSecret(name) | Lack::UnreadSecret(name, _) => format!("no secret {name}"),
                Lack::NoFolder(path) => format!("no folder {}", path.display()),
                Lack::Unreadable(path, _) => format!("unreadable {}", path.display()),
                Lack::Unwritable(path, _) => format!("unwritable {}", path.display()),
                Lack::OpenToOthers(path, mode) => format!("open {} {mode:o}", path.display()),
                Lack::WrongSpec(error) => error.to_string(),
                Lack::WrongSpecs(line) => line.clone(),
            };
            format!("{}: {}", need.key, what.replace(&root.display().to_string(), ""))
        });
        told.collect()
    }

    fn agent(lines: &str) -> String {
        format!(
            "specs_dir = \"ROOT/bin\"\nsecrets_dir = \"ROOT/secrets\"\n[[agents]]\nname = \"a\"\n{lines}\n"
        )
    }

    #[test]
    fn what_a_collector_wants_to_know_may_be_a_secret_that_nobody_knows() {
        let headers = "authorization = \"Bearer ${secret:NONE}\"\nx = \"${secret:KNOWN}\"";
        let telemetry = format!(
            "[telemetry]\notlp_endpoint = \"http://127.0.0.1:4317\"\n[telemetry.headers]\n{headers}\n"
        );
        let config = format!("specs_dir = \"ROOT/bin\"\nsecrets_dir = \"ROOT/secrets\"\n{telemetry}");
        assert_eq!(lacks(&config), ["telemetry.headers.authorization: no secret NONE"]);
    }

    #[test]
    fn a_program_is_looked_for_as_its_command_would_be_started() {
        let found = ["command = [\"tool\"]", "command = [\"own\"]\nenv = { PATH = \"ROOT/work\" }"];
        let found = found
            .into_iter()
            .chain(["command = [\"./own\"]\ncwd = \"ROOT/work\"", "command = [\"ROOT/bin/tool\"]"]);
        for lines in found {
            assert_eq!(lacks(&agent(lines)), [] as [&str; 0], "{lines}");
        }
        for (lines, expected) in [
            ("command = [\"none\"]", "agents[0].command[0]: no program none"),
            ("command = [\"own\"]", "agents[0].command[0]: no program own"),
            ("command = [\"tool\"]\npass_env = []", "agents[0].command[0]: no program tool"),
            ("command = [\"text\"]", "agents[0].command[0]: not executable /bin/text"),
            ("command = [\"ROOT/work\"]", "agents[0].command[0]: no program /work"),
        ] {
            assert_eq!(lacks(&agent(lines)), [expected], "{lines}");
        }
    }

    #[test]
    fn a_browser_that_is_named_is_there_and_may_be_started() {
        let of =
            |program: &str| lacks(&format!("specs_dir = \"ROOT/bin\"\n[browser]\nprogram = {program:?}\n"));
        assert_eq!(of("ROOT/bin/tool"), [] as [&str; 0]);
        assert_eq!(of("ROOT/bin/none"), ["browser.program: no program /bin/none"]);
        assert_eq!(of("ROOT/bin/text"), ["browser.program: not executable /bin/text"]);
        assert_eq!(of("ROOT/work"), ["browser.program: no program /work"]);
    }

    #[test]
    fn all_that_is_lacking_is_told_at_once_in_the_order_of_the_keys() {
        let config = "secrets_dir = \"ROOT/secrets\"\nspecs_dir = \"ROOT/specs\"\n\
                      [[agents]]\nname = \"a\"\ncommand = [\"none\"]\ncwd = \"ROOT/gone\"\n\
                      env = { A = \"${secret:KNOWN}\", B = \"x ${secret:LOST} ${secret:GONE}\" }\n\
                      [[models]]\nname = \"m\"\nprotocol = \"openai\"\nbase_url = \"https://localhost/v1\"\nmodel = \"x\"\n\
                      key = \"${secret:KEY}\"\n\
                      [browser]\nstorage_key = \"STATES\"\nupload_folders = [\"ROOT/bin/tool\"]\n";
        let told = lacks(config);
        assert!(told[0].starts_with("specs_dir: /specs/wrong.toml:1:1"), "{told:#?}");
        let others: Vec<&String> = told.iter().filter(|told| !told.starts_with("specs_dir: ")).collect();
        let expected = [
            "agents[0].cwd: no folder /gone",
            "agents[0].command[0]: no program none",
            "agents[0].env.B: no secret LOST",
            "agents[0].env.B: no secret GONE",
            "models[0].key: no secret KEY",
            "browser.storage_key: no secret STATES",
            "browser.upload_folders[0]: no folder /bin/tool",
        ];
        assert_eq!(others, expected);
    }

    #[test]
    fn what_the_file_names_is_told_with_its_line_and_what_a_flag_names_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (file, data) = (folder.path().join("capataz.toml"), folder.path().join("data"));
        fs::write(&data, "no folder").unwrap();
        let config = "data_dir = \"data\"\n[[agents]]\nname = \"a\"\ncommand = [\"sh\"]\n\
                      env = { A = \"${secret:LOST}\" }\n[[agents]]\nname = \"b\"\ncommand = [\"x\", \"none\"]\n";
        fs::write(&file, config).unwrap();
        let places = |overrides: Overrides| -> Vec<(String, Option<(usize, usize)>)> {
            let needs = Config::load(Some(&file), overrides).unwrap().needs(|_| None);
            let of_file = |place: (String, (usize, usize))| {
                assert_eq!(place.0, file.display().to_string());
                place.1
            };
            needs.into_iter().map(|need| (need.key, need.place.map(of_file))).collect()
        };
        let others = [("agents[0].env.A", Some((5, 9))), ("agents[1].command[0]", Some((8, 12)))];
        let others = others.map(|(key, place)| (key.to_owned(), place));
        assert_eq!(places(Overrides::default())[0], ("data_dir".to_owned(), Some((1, 1))));
        assert_eq!(places(Overrides::default())[1..], others);
        let flag = Overrides { data_dir: Some(data.clone()), ..Overrides::default() };
        assert_eq!(places(flag)[0], ("data_dir".to_owned(), None));
    }

    #[test]
    fn folders_that_a_daemon_would_refuse_are_named() {
        let told = lacks("specs_dir = \"ROOT/none\"\nsecrets_dir = \"ROOT/bin/tool\"\n");
        assert_eq!(told, ["specs_dir: unreadable /none", "secrets_dir: no folder /bin/tool"]);
    }
}
