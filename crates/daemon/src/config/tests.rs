//! Configurations that are wrong: each problem has its line, its key, and the key that was meant.

use std::fs;
use std::path::Path;

use super::{Config, Overrides};

/// What is said of a configuration, without the folder that it is in.
fn problems(text: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.toml");
    fs::write(&file, text).unwrap();
    let error = Config::load(Some(&file), Overrides::default()).unwrap_err().to_string();
    error.lines().map(|line| line.replace(&format!("{}/", folder.path().display()), "")).collect()
}

/// The sample of the repository, with every setting in use but that of this key.
fn sample(without: &str) -> String {
    let text = include_str!("../../../../capataz.toml");
    let lines = text.lines().filter(|line| !line.starts_with(&format!("#{without} =")));
    let setting = |line: &str| match line.strip_prefix('#') {
        Some(setting) if !setting.is_empty() && !setting.starts_with(' ') => setting.to_owned(),
        _ => line.to_owned(),
    };
    lines.map(setting).collect::<Vec<_>>().join("\n")
}

/// Loads it from this folder, beside the files that the sample names.
fn load_beside_files(folder: &Path, text: &str) -> Config {
    for (name, content) in [
        ("profiles/elsabro.toml", include_str!("../../../../profiles/elsabro.toml")),
        ("examples/modes/rules.toml", include_str!("../../../../examples/modes/rules.toml")),
    ] {
        let file = folder.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
    }
    let file = folder.join("c.toml");
    fs::write(&file, text).unwrap();
    Config::load(Some(&file), Overrides::default()).unwrap()
}

/// The keys of a table, as they are told to somebody who has written another one.
fn known_keys(table: &str) -> Vec<String> {
    let told = problems(&format!("{table}\nzzzzzzzzzzzzzzzz = 1\n"));
    let known = told.iter().find_map(|line| line.split_once("unknown key; known are ")).unwrap().1;
    known.split(", ").map(str::to_owned).collect()
}

/// Tables of the configuration, and their keys that have no default, of which the sample has examples.
const TABLES: &[(&str, &[&str])] = &[
    ("", &["data_dir", "specs_dir", "profiles", "commands", "resources", "secrets_dir"]),
    (
        "[[agents]]",
        &["name", "category", "description", "input_schema", "command", "cwd", "env", "retryable_exit_codes"],
    ),
    ("[[declared_agents]]", &["name", "category", "description", "input_schema"]),
    ("[[planners]]", &["name", "rules"]),
    (
        "[[models]]",
        &[
            "name",
            "category",
            "description",
            "protocol",
            "base_url",
            "model",
            "key",
            "system",
            "max_tokens",
            "temperature",
            "price",
        ],
    ),
    ("[retention]", &["max_log_bytes"]),
    ("[health_checks]", &[]),
    ("[browser]", &["program", "attach", "upload_folders", "storage_key"]),
    ("[telemetry]", &["otlp_endpoint", "headers", "resource"]),
];

#[test]
fn the_sample_has_every_key() {
    let all = sample("-");
    let sections: Vec<(&str, Vec<&str>)> = all.lines().fold(vec![("", Vec::new())], |mut sections, line| {
        if line.starts_with('[') {
            sections.push((line, Vec::new()));
        } else if let Some((key, _)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) {
            sections.last_mut().unwrap().1.push(key);
        }
        sections
    });
    let tables: Vec<&str> = TABLES.iter().map(|(table, _)| *table).collect();
    for (table, found) in &sections {
        assert!(tables.contains(table), "{table}");
        let is_table = |key: &&String| tables.iter().any(|table| table.trim_matches(['[', ']']) == **key);
        let known = known_keys(table);
        let mut known: Vec<&str> = known.iter().filter(|key| !is_table(key)).map(String::as_str).collect();
        let mut found = found.clone();
        known.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, known, "{table}");
    }
    assert_eq!(sections.len(), tables.len());
}

#[test]
fn every_setting_of_the_sample_can_be_used_and_what_it_says_of_defaults_is_so() {
    let folder = tempfile::tempdir().unwrap();
    // A browser is either started or attached to.
    for without in ["program", "attach"] {
        let all = sample(without);
        let mut table = "";
        let of_examples: Vec<&str> = all
            .lines()
            .filter(|line| {
                let key = line.split_once(" = ").map(|(key, _)| key);
                if line.starts_with('[') {
                    table = line;
                }
                let (_, examples) = TABLES.iter().find(|(known, _)| *known == table).unwrap();
                key.is_none_or(|key| examples.contains(&key))
            })
            .collect();
        let told = |text: &str| {
            let config = Config { origins: Vec::new(), ..load_beside_files(folder.path(), text) };
            format!("{config:#?}")
        };
        let (all, with_defaults) = (told(&all), told(&of_examples.join("\n")));
        let differing = all.lines().zip(with_defaults.lines()).find(|(one, other)| one != other);
        assert_eq!((differing, all.len()), (None, with_defaults.len()));
    }
}

/// Each of these lines is wrong by itself.
const WRONG: &[(&str, &str)] = &[
    ("lisen = \"127.0.0.1:1\"", "c.toml:1:1: lisen: unknown key; did you mean `listen`?"),
    ("datadir = \"d\"", "c.toml:1:1: datadir: unknown key; did you mean `data_dir`?"),
    ("agent = []", "c.toml:1:1: agent: unknown key; did you mean `agents`?"),
    ("listen = 7411", "c.toml:1:10: listen: here is a number; expected is a string"),
    ("demo_page = \"yes\"", "c.toml:1:13: demo_page: here is a string; expected is a boolean"),
    ("agents = 1", "c.toml:1:10: agents: here is a number; expected is an array"),
    ("agents = [\"a\"]", "c.toml:1:11: agents[0]: here is a string; expected is a table"),
    ("commands = [\"a\", 2]", "c.toml:1:18: commands[1]: here is a number; expected is a string"),
    ("browser = true", "c.toml:1:11: browser: here is a boolean; expected is a table"),
    ("listen = \"0.0.0.0:1\"", "c.toml:1:1: listen: 0.0.0.0:1 is not a loopback address"),
    ("listen = \"somewhere\"", "c.toml:1:1: listen: cannot listen on somewhere"),
    ("drain_timeout = \"soon\"", "c.toml:1:17: drain_timeout: "),
    ("drain_timeout = 30", "c.toml:1:17: drain_timeout: here is a number; expected is a string"),
    ("drain_timeout = \"5 parsecs\"", "c.toml:1:17: drain_timeout: there is no such unit"),
    ("profiles = [\"none.toml\"]", "c.toml:1:13: profiles[0]: none.toml: No such file or directory"),
    ("listen = ", "c.toml:1:10: not TOML: "),
    ("listen = \"a\"\nlisten = \"b\"", "c.toml:2:1: not TOML: "),
    ("[[agents]]\nname = \"a\"", "c.toml:1:1: agents[0]: the key `command` is missing"),
    (
        "[[agents]]\nname = \"a\"\ncomand = [\"x\"]",
        "c.toml:3:1: agents[0].comand: unknown key; did you mean `command`?",
    ),
    ("[[agents]]\nname = \"a\"\ncommand = []", "c.toml:3:1: agents[0].command: a command needs at least"),
    (
        "[[agents]]\nname = \"a\"\ncommand = [\"x\"]\nkind = \"tol\"",
        "c.toml:4:8: agents[0].kind: unknown value; did you mean `tool`?",
    ),
    (
        "[[agents]]\nname = \"a\"\ncommand = [\"x\"]\noutput = \"yaml\"",
        "c.toml:4:10: agents[0].output: unknown value; known are ",
    ),
    (
        "[[agents]]\nname = \"a\"\ncommand = [\"x\"]\nmax_concurrency = 0",
        "c.toml:4:1: agents[0].max_concurrency: at least 1",
    ),
    (
        "[[agents]]\nname = \"a\"\ncommand = [\"x\"]\nmax_concurrency = -2",
        "c.toml:4:19: agents[0].max_concurrency: here is a number; expected is a whole number from 0 on",
    ),
    (
        "[[agents]]\nname = \"a\"\ncommand = [\"x\"]\ncwd = \"here\"",
        "c.toml:4:1: agents[0].cwd: the working directory must be an absolute path",
    ),
    (
        "[[agents]]\nname = \"a\"\ncommand = [\"x\"]\n[[agents]]\nname = \"a\"\ncommand = [\"y\"]",
        "c.toml:5:1: agents[1].name: \"a\" is there twice",
    ),
    (
        "[[agents]]\nname = \"template\"\ncommand = [\"x\"]",
        "c.toml:2:1: agents[0].name: \"template\" is a built-in agent; choose another name",
    ),
    (
        "[[agents]]\nname = \"a\"\ncommand = [\"x\", \"${secret:K}\"]",
        "c.toml:3:17: agents[0].command[1]: everybody can read arguments",
    ),
    (
        "[[declared_agents]]\nname = \"a\"\nundoable = true",
        "c.toml:3:1: declared_agents[0].undoable: only of an agent whose kind is \"tool\"",
    ),
    (
        "[[models]]\nname = \"m\"\nprotocol = \"openia\"",
        "c.toml:3:12: models[0].protocol: unknown value; did you mean `openai`?",
    ),
    (
        "[[planners]]\nname = \"p\"\nrules = \"none.toml\"",
        "c.toml:3:1: planners[0].rules: none.toml: No such file or directory",
    ),
    (
        "[[planners]]\nname = \"\"\nrules = \"r.toml\"",
        "c.toml:2:1: planners[0].name: the agent's name is missing",
    ),
    (
        "[[agents]]\nname = \"a\\u0007\"\ncommand = [\"x\"]",
        "c.toml:2:1: agents[0].name: the agent's name has control characters",
    ),
    ("[[declared_agents]]\nname = \"\"", "c.toml:2:1: declared_agents[0].name: the agent's name is missing"),
    ("[health_checks]\ninterval = \"1ms\"", "c.toml:2:1: health_checks.interval: from 500ms to 1m"),
    ("[health_checks]\nmised = 3", "c.toml:2:1: health_checks.mised: unknown key; did you mean `missed`?"),
    ("[browser]\nmax_open = 0", "c.toml:2:1: browser.max_open: from 1 to "),
    ("[browser]\nupload_folders = [\"up\"]", "c.toml:2:19: browser.upload_folders[0]: up is not absolute"),
    (
        "[retention]\nmax_log_bytes = \"1 GB\"",
        "c.toml:2:17: retention.max_log_bytes: here is a string; expected is a whole number from 0 on",
    ),
    (
        "[retention]\nfinished_run = \"1d\"",
        "c.toml:2:1: retention.finished_run: unknown key; did you mean `finished_runs`?",
    ),
];

#[test]
fn each_wrong_line_is_told_with_its_place_and_the_key_that_was_meant() {
    assert!(WRONG.len() >= 30);
    for (text, expected) in WRONG {
        let told = problems(text);
        assert!(told.iter().any(|line| line.starts_with(expected)), "{text:?}: {told:#?}");
    }
}

#[test]
fn what_rules_say_of_values_is_told_beside_what_cannot_be_read() {
    let told = problems("listen = \"0.0.0.0:1\"\ndemo_pag = true\n[health_checks]\nmissed = 1\n");
    let beginnings = ["c.toml:1:1: listen: ", "c.toml:2:1: demo_pag: ", "c.toml:4:1: health_checks.missed: "];
    assert_eq!(told.len(), beginnings.len(), "{told:#?}");
    for (line, beginning) in told.iter().zip(beginnings) {
        assert!(line.starts_with(beginning), "{line}");
    }
}

/// Whether its form is wrong or a rule is broken, and whichever kind of table comes first.
#[test]
fn what_is_wrong_is_told_in_the_order_of_the_lines() {
    let told = problems(
        "[health_checks]\nmissed = 1\n[browser]\nmax_opn = 1\n[[agents]]\nname = \"a\"\ncommand = []\n\
         [retention]\nmax_log_bytes = \"1 GB\"\n",
    );
    let lines: Vec<&str> = told.iter().filter_map(|line| line.split(':').nth(1)).collect();
    assert_eq!(lines, ["2", "4", "7", "9"], "{told:#?}");
}

#[test]
fn all_keys_that_an_agent_or_a_model_lacks_are_told_at_once() {
    assert_eq!(
        problems("[[models]]\nname = \"m\"\nprice = { input = 1 }\n[[agents]]\n[[planners]]\n"),
        [
            "c.toml:1:1: models[0]: the key `protocol` is missing",
            "c.toml:1:1: models[0]: the key `base_url` is missing",
            "c.toml:1:1: models[0]: the key `model` is missing",
            "c.toml:3:9: models[0].price: the key `output` is missing",
            "c.toml:3:9: models[0].price: the key `currency` is missing",
            "c.toml:4:1: agents[0]: the key `name` is missing",
            "c.toml:4:1: agents[0]: the key `command` is missing",
            "c.toml:5:1: planners[0]: the key `name` is missing",
            "c.toml:5:1: planners[0]: the key `rules` is missing",
        ]
    );
}

/// Neither an item without a key nor one that is no item hides what rules say of the others, which keep their places.
#[test]
fn an_item_that_cannot_be_read_hides_nothing_of_the_others() {
    let text = "\
listen = \"0.0.0.0:1\"
commands = [7, \"test\"]
[[agents]]
name = \"a\"
[[agents]]
name = \"template\"
command = []
[[agents]]
name = \"b\"
command = [\"x\"]
max_concurrency = 0
[health_checks]
missed = 1
";
    let mut told = problems(text);
    told.sort();
    let expected = [
        "c.toml:11:1: agents[2].max_concurrency: at least 1",
        "c.toml:13:1: health_checks.missed: from 2 to 100",
        "c.toml:1:1: listen: 0.0.0.0:1 is not a loopback address",
        "c.toml:2:13: commands[0]: here is a number; expected is a string",
        "c.toml:3:1: agents[0]: the key `command` is missing",
        "c.toml:6:1: agents[1].name: \"template\" is a built-in agent; choose another name",
        "c.toml:7:1: agents[1].command: a command needs at least the program",
    ];
    assert_eq!(told.len(), expected.len(), "{told:#?}");
    assert!(told.iter().zip(expected).all(|(line, expected)| line.starts_with(expected)), "{told:#?}");
}

/// What stands for a value that nobody knows breaks a rule now and then, which nobody has broken.
#[test]
fn what_only_follows_from_another_mistake_is_not_told() {
    for (text, expected) in [
        // It is a tool, and one may be undoable.
        (
            "[[agents]]\nname = \"a\"\ncommand = [\"x\"]\nkind = \"tol\"\nundoable = true\n",
            "c.toml:4:8: agents[0].kind: unknown value; did you mean `tool`?",
        ),
        (
            "[[agents]]\nname = \"a\"\ncommand = [\"x\"]\nkid = \"tool\"\nundoable = true\n",
            "c.toml:4:1: agents[0].kid: unknown key; did you mean `kind`?",
        ),
        // The key is there, under a name that is misspelt.
        (
            "[[agents]]\nname = \"a\"\ncomand = [\"x\"]\n",
            "c.toml:3:1: agents[0].comand: unknown key; did you mean `command`?",
        ),
        (
            "[[agents]]\nname = \"a\"\ncommand = \"x\"\n",
            "c.toml:3:11: agents[0].command: here is a string; expected is an array",
        ),
        // Nothing was looked for where no file is named.
        ("[[planners]]\nname = \"p\"\n", "c.toml:1:1: planners[0]: the key `rules` is missing"),
        ("profiles = [7]\n", "c.toml:1:13: profiles[0]: here is a number; expected is a string"),
        // Two that have no name have not the same one.
        (
            "[[declared_agents]]\nname = \"\"\n[[declared_agents]]\nname = \"\"\n",
            "c.toml:2:1: declared_agents[0].name: the agent's name is missing\n\
             c.toml:4:1: declared_agents[1].name: the agent's name is missing",
        ),
        // A collector is named, and headers may go there.
        (
            "[telemetry]\notlp_endpoint = 7\nheaders = { a = \"b\" }\n",
            "c.toml:2:17: telemetry.otlp_endpoint: here is a number; expected is a string",
        ),
    ] {
        assert_eq!(problems(text).join("\n"), expected, "{text}");
    }
}

#[test]
fn a_key_that_is_misspelt_is_judged_as_the_one_that_is_meant() {
    assert_eq!(
        problems("lisen = \"0.0.0.0:1\"\n[browser]\nmax_opn = 0\n"),
        [
            "c.toml:1:1: lisen: unknown key; did you mean `listen`?",
            "c.toml:1:1: listen: 0.0.0.0:1 is not a loopback address; listening there needs TLS and tokens, which this version does not have",
            "c.toml:3:1: browser.max_opn: unknown key; did you mean `max_open`?",
            "c.toml:3:1: browser.max_open: from 1 to 256, not 0",
        ]
    );
}

/// All the files of one configuration, each with all that is wrong with it.
#[test]
fn all_that_is_wrong_with_profiles_and_rules_is_told_at_once_too() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write(
        "c.toml",
        "profiles = [\"crew.toml\"]\n[[agents]]\nname = \"a\"\n[[planners]]\nname = \"p\"\nrules = \"rules.toml\"\n",
    );
    write("crew.toml", "[[agents]]\ncategory = \"x\"\n[[agents]]\nname = \"b\"\nundoable = true\n");
    write(
        "rules.toml",
        "[[rules]]\nquery = \"x\"\n[[rules.steps]]\nid = \"s\"\n[[rules]]\nquery = \"(\"\n[[rules.steps]]\nid = \"s\"\ntool = \"t\"\n",
    );
    let error = Config::load(Some(&folder.path().join("c.toml")), Overrides::default()).unwrap_err();
    let told = error.to_string().replace(&format!("{}/", folder.path().display()), "");
    let expected = [
        "c.toml:2:1: agents[0]: the key `command` is missing",
        "crew.toml:1:1: agents[0]: the key `name` is missing",
        "crew.toml:5:1: agents[1].undoable: only of an agent whose kind is \"tool\"",
        "rules.toml:3:1: rules[0].steps[0]: the key `tool` is missing",
        "rules.toml:6:1: rules[1].query: ",
    ];
    // What is wrong with an expression takes several lines.
    let lines: Vec<&str> = told.lines().filter(|line| line.contains(".toml:")).collect();
    assert_eq!(lines.len(), expected.len(), "{told}");
    assert!(lines.iter().zip(expected).all(|(line, expected)| line.starts_with(expected)), "{told}");
}

/// Wherever the daemon is started, and for the same folder. What is no path of the file, or none that can be told, is as it is.
#[test]
fn relative_paths_of_a_file_are_those_of_its_folder_and_those_of_flags_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let text = "\
data_dir = \"data\"
specs_dir = \"specs\"
secrets_dir = \"../secrets\"
profiles = [\"crew.toml\"]
[browser]
program = \"bin/chromium\"
[[agents]]
name = \"a\"
command = [\"./a.sh\", \"./b\"]
[[agents]]
name = \"b\"
command = [\"sh\", \"c/d\"]
[[agents]]
name = \"c\"
command = [\"./c.sh\"]
cwd = \"/srv\"
[[agents]]
name = \"d\"
command = [\"/bin/d\"]
";
    let file = folder.path().join("c.toml");
    fs::write(&file, text).unwrap();
    fs::write(folder.path().join("crew.toml"), "commands = [\"test\"]\n").unwrap();
    let config = Config::load(Some(&file), Overrides::default()).unwrap();
    let here = |path: &str| folder.path().join(path);
    assert_eq!(config.data_dir, here("data"));
    assert_eq!(config.specs_dir, Some(here("specs")));
    assert_eq!(config.secrets_dir, Some(here("../secrets")));
    assert_eq!(config.browser.program, Some(here("bin/chromium")));
    let own = here("./a.sh").display().to_string();
    let commands: Vec<Vec<&str>> =
        config.agents.iter().map(|agent| agent.command.iter().map(String::as_str).collect()).collect();
    assert_eq!(commands, [vec![own.as_str(), "./b"], vec!["sh", "c/d"], vec!["./c.sh"], vec!["/bin/d"]]);
    let told = |key: &str| config.describe().iter().find(|(known, ..)| known == key).unwrap().1.clone();
    assert_eq!(told("data_dir"), here("data").display().to_string());
    let flags = Overrides { data_dir: Some("data".into()), specs_dir: Some("specs".into()), listen: None };
    let config = Config::load(Some(&file), flags).unwrap();
    assert_eq!((config.data_dir, config.specs_dir), ("data".into(), Some("specs".into())));
}

#[test]
fn a_name_that_no_worker_could_serve_is_told_with_its_place() {
    let long = "界".repeat(129);
    for (key, more) in [
        ("agents", "command = [\"x\"]"),
        ("declared_agents", ""),
        ("planners", "rules = \"r.toml\""),
        ("models", "protocol = \"openai\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:1\""),
    ] {
        let told = problems(&format!("[[{key}]]\nname = \"{long}\"\n{more}\n"));
        let expected = format!("c.toml:2:1: {key}[0].name: the agent's name is longer than 128 characters");
        assert!(told.iter().any(|line| line.starts_with(&expected)), "{told:#?}");
    }
}

#[test]
fn more_agents_than_one_worker_may_serve_are_told_at_the_first_of_them() {
    let agents = |count: usize| -> String {
        (0..count).map(|number| format!("[[agents]]\nname = \"a{number}\"\ncommand = [\"x\"]\n")).collect()
    };
    assert_eq!(
        problems(&agents(1_001)),
        ["c.toml:3001:1: agents[1000]: 1001 agents; at most 1000 are allowed"]
    );
    // A key that there is not keeps the others from being told.
    assert_eq!(problems(&format!("{}x = 1\n", agents(1_000))).len(), 1);
    let described =
        format!("[[agents]]\nname = \"NAME\"\ncommand = [\"x\"]\ndescription = \"{}\"\n", "x".repeat(1_990));
    let described: String = (0..600).map(|number| described.replace("NAME", &format!("a{number}"))).collect();
    let told = problems(&described);
    assert!(told[0].starts_with("c.toml:1:3: agents: 12"), "{told:#?}");
    assert!(
        told[0].ends_with(" bytes with their descriptions and schemas; at most 1048576 are allowed"),
        "{told:#?}"
    );
}

#[test]
fn problems_of_profiles_and_rules_are_told_beside_those_of_the_file() {
    let text =
        "profiles = [\"none.toml\"]\ndemo_pag = true\n[[planners]]\nname = \"p\"\nrules = \"gone.toml\"\n";
    let beginnings = [
        "c.toml:1:13: profiles[0]: none.toml: ",
        "c.toml:2:1: demo_pag: ",
        "c.toml:5:1: planners[0].rules: gone.toml: ",
    ];
    let told = problems(text);
    assert_eq!(told.len(), beginnings.len(), "{told:#?}");
    assert!(told.iter().zip(beginnings).all(|(line, beginning)| line.starts_with(beginning)), "{told:#?}");
    // Also where an item of the file cannot be read at all.
    let told = problems("profiles = [\"none.toml\"]\ncommands = [1, 2]\n");
    assert!(told.iter().any(|line| line.contains("none.toml: ")), "{told:#?}");
}

#[test]
fn a_file_that_is_too_large_or_none_at_all_is_not_read() {
    assert_eq!(problems(&"#".repeat(5 * 1024 * 1024)), ["c.toml: it has more than 4194304 bytes"]);
}

#[test]
fn no_value_is_told_which_may_be_a_secret_in_the_wrong_place() {
    let told = problems(
        "models = \"sk-1\"\ndemo_page = \"sk-2\"\n[[agents]]\nname = \"a\"\ncommand = \"x sk-3\"\nkind = \"sk-4\"\n\
         env = { TOKEN = 53453453 }\n",
    );
    assert!(told.len() >= 5, "{told:#?}");
    assert!(told.iter().all(|line| !line.contains("sk-") && !line.contains("53453453")), "{told:#?}");
}

#[test]
fn a_great_many_problems_are_told_in_part() {
    let wrong = |number: usize| format!("[[declared_agents]]\nname = \"a{number}\"\nundoable = true\n");
    let told = problems(&(0..20_000).map(wrong).collect::<String>());
    assert_eq!(told.len(), super::MOST + 1);
    assert_eq!(told.last().unwrap(), "19950 more problems");
    // What is read again for each of them has a bound, too.
    let wrong = |number: usize| format!("[[declared_agents]]\nname = {number}\n");
    let told = problems(&(0..20_000).map(wrong).collect::<String>());
    assert!((2..=super::MOST).contains(&told.len()), "{}", told.len());
}
