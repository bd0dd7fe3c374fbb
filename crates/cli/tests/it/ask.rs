//! `capataz ask` and `capataz router` from their users' view, against a daemon with the repository's specs.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

const KIRO: &str = "kiro-adaptive-assistance";
const WHISPERS: &str = "whispers-of-the-wave";

fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../specs")
}

fn capataz(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capataz"));
    command.env("LC_ALL", "C");
    command.args(arguments).env_remove("CAPATAZ_ADDR").env_remove("CAPATAZ_LISTEN").stdin(Stdio::null());
    command
}

struct Said {
    out: String,
    err: String,
}

impl Said {
    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).expect("stdout is one JSON document")
    }

    #[track_caller]
    fn shows(&self, parts: &[&str]) -> &Self {
        let mut rest = self.out.as_str();
        for part in parts {
            let found = rest.find(part);
            assert!(found.is_some(), "{part:?}, after those before it, in\n{}\n{}", self.out, self.err);
            rest = &rest[found.unwrap_or_default() + part.len()..];
        }
        self
    }

    #[track_caller]
    fn notes(&self, part: &str) -> &Self {
        assert!(self.err.contains(part), "{part:?} in\n{}\n{}", self.err, self.out);
        self
    }
}

#[track_caller]
fn check(mut command: Command, exit: i32) -> Said {
    let output = command.output().expect("the command starts");
    said(&command, &output, exit)
}

#[track_caller]
fn said(command: &Command, output: &Output, exit: i32) -> Said {
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(exit), "{command:?}\n{out}\n{err}");
    Said { out, err }
}

/// A daemon on a free port, which ends with the test.
struct Daemon {
    child: Child,
    addr: String,
    folder: TempDir,
}

impl Daemon {
    fn start(specs: &Path, config: &str) -> Self {
        let folder = TempDir::new().expect("a folder");
        let file = folder.path().join("capataz.toml");
        fs::write(&file, config).expect("a file");
        let data_dir = folder.path().join("data");
        let mut command = capataz(&["serve", "--listen", "127.0.0.1:0", "--json"]);
        command.arg("--config").arg(&file).arg("--data-dir").arg(&data_dir).arg("--specs").arg(specs);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a daemon");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("its stdout is a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("it says where it listens");
        let ready: Value = serde_json::from_str(&line).expect("it says so in JSON");
        let addr = format!("http://{}", ready["address"].as_str().unwrap_or_default());
        Self { child, addr, folder }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = capataz(arguments);
        command.env("CAPATAZ_ADDR", &self.addr);
        command
    }

    #[track_caller]
    fn check(&self, arguments: &[&str], exit: i32) -> Said {
        check(self.command(arguments), exit)
    }

    /// Runs a conversation with one message a line.
    #[track_caller]
    fn converse(&self, arguments: &[&str], lines: &[&str], exit: i32) -> Said {
        self.converse_in("C", arguments, lines, exit)
    }

    /// The same in this locale.
    #[track_caller]
    fn converse_in(&self, locale: &str, arguments: &[&str], lines: &[&str], exit: i32) -> Said {
        let mut command = self.command(arguments);
        command.env("LC_ALL", locale).env_remove("CAPATAZ_LANG");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the command starts");
        let mut stdin = child.stdin.take().expect("its stdin is a pipe");
        for line in lines {
            writeln!(stdin, "{line}").expect("it reads");
        }
        drop(stdin);
        let output = child.wait_with_output().expect("it ends");
        said(&command, &output, exit)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_text_is_routed_and_answered() {
    let daemon = Daemon::start(&shipped(), "");
    daemon.check(&["ask", "Me siento perdido"], 0).shows(&[
        WHISPERS,
        "intent emotional_support",
        "confidence ",
    ]);
    let answer = daemon.check(&["ask", "Me siento perdido", "--json", "--label", "env=test"], 0).json();
    assert_eq!((&answer["outcome"], &answer["spec"]), (&"succeeded".into(), &WHISPERS.into()), "{answer}");
    assert_eq!(answer["response"]["metadata"]["pattern_used"], "emotional_low", "{answer}");
    assert_eq!(answer["request_id"], answer["run_id"]);
    assert_eq!(answer["calls"][0]["reason"], "routed", "{answer}");
    let listed = daemon.check(&["runs", "list", "--label", "env=test", "--json"], 0).json();
    assert_eq!(listed["runs"][0]["run_id"], answer["run_id"], "{listed}");
    let run = answer["run_id"].as_str().unwrap_or_default();
    let said = answer["response"]["response"]["text"].as_str().and_then(|text| text.lines().next());
    daemon.check(&["runs", "show", run], 0).shows(&[
        WHISPERS,
        "Text\nMe siento perdido\n",
        "How the spec was chosen\n",
        WHISPERS,
        " | intent emotional_support | confidence ",
        "\nrouted: ",
        "Answer\n",
        said.unwrap_or_default(),
    ]);
    daemon.check(&["runs", "export", run], 0).shows(&["ask_routed", "run_finished"]);

    let explained = daemon.check(&["ask", "Necesito decidir", "--explain"], 0);
    explained.shows(&[
        "SPEC",
        "LOGITS",
        KIRO,
        "sum",
        "Changes that would have altered the decision:",
        "intent ",
    ]);
    let explained = daemon.check(&["ask", "Necesito decidir", "--explain", "--json"], 0).json();
    assert_eq!(explained["explanation"]["routing"]["spec"], explained["spec"], "{explained}");
}

#[test]
fn what_keeps_an_ask_from_its_answer_is_told_by_exit_code() {
    let daemon = Daemon::start(&shipped(), "");
    daemon.check(&["ask", "hello", "--spec", "whispers"], 1).notes("SPEC_NOT_FOUND");
    daemon.check(&["ask", "hello", "--spec", "whispers-of-the-waves"], 1).notes(WHISPERS);
    daemon.check(&["ask", " "], 2).notes("ask.text");
    daemon.check(&["ask", "hello", "--session", "two words"], 2).notes("ask.session");
    let short = ["ask", "hm", "--spec", KIRO, "--language", "en"];
    daemon.check(&short, 1).shows(&["That is too short"]);
    // Whoever is to be addressed in Spanish is told so, unless the user's language is another one.
    let in_spanish = ["ask", "hm", "--spec", KIRO, "--lang", "es"];
    daemon.check(&in_spanish, 1).shows(&["Es muy breve para trabajar con ello."]);
    daemon.check(&[&short[..], &["--lang", "es"]].concat(), 1).shows(&["That is too short"]);
    let answer = daemon.check(&[&short[..], &["--json"]].concat(), 1).json();
    assert_eq!(
        (&answer["outcome"], &answer["error"]["code"]),
        (&"failed".into(), &"VALIDATION_ERROR".into())
    );
    assert_eq!(answer["response"]["error"]["code"], "VALIDATION_ERROR", "{answer}");
    let refused = daemon.check(&["ask", "hello", "--spec", "whispers", "--json"], 1).json();
    assert_eq!(refused["error"]["code"], "SPEC_NOT_FOUND", "{refused}");
    let nobody = ["ask", "hello", "--addr", "http://127.0.0.1:9"];
    check(capataz(&nobody), 3).notes("capataz serve");
    let first = daemon.check(&["ask", "hello", "--key", "k", "--json"], 0).json();
    let again = daemon.check(&["ask", "hello", "--key", "k", "--json"], 0).json();
    assert_eq!(first["run_id"], again["run_id"]);
    daemon.check(&["ask", "goodbye", "--key", "k"], 1).notes("IDEMPOTENCY_KEY_REUSED");
}

#[test]
fn who_asks_a_daemon_without_specs_is_told_how_it_gets_some() {
    let none = TempDir::new().expect("a folder");
    let daemon = Daemon::start(none.path(), "");
    // As many words as a line has room for: they are compared as one line.
    let told = |arguments: &[&str]| {
        let said = daemon.check(arguments, 1);
        said.err.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let english = told(&["ask", "hello"]);
    assert!(english.contains("no specs are loaded: put spec files into a folder"), "{english}");
    assert!(english.contains("then start the daemon with them: `capataz serve --specs DIR`."), "{english}");
    assert!(!english.contains("worker"), "{english}");
    let spanish = told(&["ask", "hola", "--lang", "es"]);
    assert!(spanish.contains("no hay specs cargados"), "{spanish}");
    assert!(spanish.contains("con `capataz router lint --specs CARPETA`"), "{spanish}");
}

#[test]
fn a_spec_may_be_a_command_and_a_slow_one_is_not_waited_for_longer_than_was_said() {
    let specs = TempDir::new().expect("a folder");
    let spec = |id: &str, more: &str| {
        let text = format!(
            "id = \"{id}\"\ntitle = \"{id}\"\nlanguages = [\"en\"]\ncontract_version = \"1.0.0\"\nagent = \"{id}\"\n{more}"
        );
        fs::write(specs.path().join(format!("{id}.toml")), text).expect("a file");
    };
    spec("quick", "default = true\n");
    spec("slow", "");
    spec("broken", "");
    let script = r#"read -r request
        id=$(printf '%s' "$request" | sed 's/.*"id":"\([^"]*\)".*/\1/')
        printf '{"success":true,"spec":"quick","request_id":"%s","timestamp":1,' "$id"
        printf '"response":{"text":"from a command","format":"text"},'
        printf '"metadata":{"processing_time_ms":1,"confidence":1}}'"#;
    let script = serde_json::to_string(&["sh", "-c", script]).expect("JSON");
    let config = format!(
        "[[agents]]\nname = \"quick\"\ncommand = {script}\n\
         [[agents]]\nname = \"slow\"\ncommand = [\"sleep\", \"600\"]\n\
         [[agents]]\nname = \"broken\"\ncommand = [\"echo\", \"no JSON\"]\n"
    );
    let daemon = Daemon::start(specs.path(), &config);
    daemon.check(&["ask", "hello"], 0).shows(&["quick", "from a command"]);
    let late = daemon.check(&["ask", "hello", "--spec", "slow", "--timeout", "300ms"], 4);
    late.notes("no answer within 300ms");
    daemon.check(&["runs", "cancel", "latest", "--force"], 0);
    let answer = daemon.check(&["ask", "hello", "--spec", "broken", "--json"], 0).json();
    assert_eq!(answer["calls"][0]["error"]["code"], "FATAL_ERROR", "{answer}");
    assert_eq!((&answer["calls"][1]["reason"], &answer["spec"]), (&"fallback".into(), &"quick".into()));
}

/// The files of the daemon's blobs, each in a folder of its first byte.
fn blobs(folder: &Path) -> Vec<PathBuf> {
    let listed =
        |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    listed(folder.join("data/blobs")).filter(|path| path.is_dir()).flat_map(listed).collect()
}

/// 40,000 bytes are more than a result holds inline; an excerpt has the first 4,096.
#[test]
fn a_long_answer_that_cannot_be_fetched_is_shown_in_part_and_can_be_fetched_later() {
    let specs = TempDir::new().expect("a folder");
    let spec = "id = \"long\"\ntitle = \"long\"\nlanguages = [\"en\"]\ncontract_version = \"1.0.0\"\nagent = \"long\"\ndefault = true\n";
    fs::write(specs.path().join("long.toml"), spec).expect("a file");
    let script = r#"read -r request
        id=$(printf '%s' "$request" | sed 's/.*"id":"\([^"]*\)".*/\1/')
        printf '{"success":true,"spec":"long","request_id":"%s","timestamp":1,' "$id"
        printf '"response":{"text":"begins%039988dends","format":"text"},' 0
        printf '"metadata":{"processing_time_ms":1,"confidence":1}}'"#;
    let script = serde_json::to_string(&["sh", "-c", script]).expect("JSON");
    let daemon = Daemon::start(specs.path(), &format!("[[agents]]\nname = \"long\"\ncommand = {script}\n"));
    let ask = ["ask", "hello", "--key", "k"];
    let whole = daemon.check(&ask, 0);
    whole.shows(&["begins000", "000ends"]);

    let [blob] = blobs(daemon.folder.path()).try_into().expect("one blob");
    let away = daemon.folder.path().join("away");
    fs::rename(&blob, &away).expect("it is there");
    // The same key is the same ask, which has its answer.
    let part = daemon.check(&ask, 0);
    part.shows(&[
        "begins000",
        "[…]",
        "warning: this is an excerpt",
        "bytes, could not be fetched: ",
        "capataz runs answer ",
    ]);
    assert!(!part.out.contains("ends") && part.out.len() < 6_000, "{}", part.out);
    let mut spanish = daemon.command(&ask);
    spanish.arg("--lang").arg("es");
    check(spanish, 0).shows(&["aviso: esto es un extracto", "no se pudo leer: ", "capataz runs answer "]);

    let mut in_json = ask.to_vec();
    in_json.push("--json");
    let document = daemon.check(&in_json, 0).json();
    assert_eq!(document["outcome"], "succeeded");
    let text = document["response"]["response"]["text"].as_str().unwrap_or_default();
    assert!(text.starts_with("begins000") && text.len() <= 4_096, "{document}");
    let missing = &document["not_fetched"];
    assert_eq!(missing["size"].as_u64(), fs::metadata(&away).ok().map(|file| file.len()));
    assert_eq!(missing["blob"].as_str().map(str::len), Some(64));
    assert!(!missing["error"]["message"].as_str().unwrap_or_default().is_empty(), "{missing}");
    let run = document["run_id"].as_str().unwrap_or_default();
    assert_eq!(missing["fetch_with"], format!("capataz runs answer {run}"));

    // What was to be fetched is not there yet; once it is, the same command has it.
    let failed = check(daemon.command(&["runs", "answer", run]), 1);
    assert_eq!(failed.out, "");
    fs::rename(&away, &blob).expect("it is there again");
    assert_eq!(daemon.check(&["runs", "answer", run], 0).out, whole.out);
    let document = daemon.check(&["runs", "answer", "latest", "--json"], 0).json();
    assert!(document.get("not_fetched").is_none());
    assert_eq!(document["response"]["response"]["text"].as_str().map(str::len), Some(39_998));
}

#[test]
fn only_an_ask_that_has_ended_has_an_answer() {
    let specs = TempDir::new().expect("a folder");
    let spec = "id = \"slow\"\ntitle = \"slow\"\nlanguages = [\"en\"]\ncontract_version = \"1.0.0\"\nagent = \"slow\"\ndefault = true\n";
    fs::write(specs.path().join("slow.toml"), spec).expect("a file");
    let daemon = Daemon::start(specs.path(), "[[agents]]\nname = \"slow\"\ncommand = [\"sleep\", \"600\"]\n");
    daemon.check(&["ask", "hello", "--timeout", "300ms"], 4);
    daemon.check(&["runs", "answer", "latest"], 4).notes("the run goes on: capataz runs watch ");
    daemon.check(&["runs", "cancel", "latest", "--force"], 0);
    let plan = daemon.folder.path().join("plan.toml");
    fs::write(&plan, "name = \"p\"\n[[tasks]]\nname = \"t\"\nagent = \"slow\"\n").expect("a file");
    daemon.check(&["run", &plan.to_string_lossy(), "--detach"], 0);
    daemon.check(&["runs", "cancel", "latest", "--force"], 0);
    daemon.check(&["runs", "watch", "latest"], 1);
    daemon.check(&["runs", "answer", "latest"], 2).notes("is no ask");
}

#[test]
fn a_conversation_over_stdin_with_its_hints() {
    let daemon = Daemon::start(&shipped(), "");
    let talk = daemon.converse(
        &["ask", "--session", "s", "--spec", WHISPERS],
        &[
            "Necesito decidir entre dos opciones",
            "/accept",
            "/accept",
            "",
            "Quiero cambiar de carrera",
            "¿Y cómo empiezo?",
            "/why",
            "/dance",
            "/spec",
            "/spec whisper",
            "/spec nobody",
            "/spec whispers-of-the-wave",
            "Me siento perdido",
            "/help",
            "/quit",
            "never said",
        ],
        0,
    );
    talk.shows(&[
        WHISPERS,
        "kiro-adaptive-assistance may suit this, too (0.80)",
        "the session is now with kiro-adaptive-assistance",
        "kiro-adaptive-assistance | ",
        "«Quiero cambiar de carrera»",
        "LOGITS",
        "action_planning",
        "sum",
        "whispers-of-the-wave | intent emotional_support",
    ]);
    assert!(!talk.out.contains("never said"), "{}", talk.out);
    for note in [
        "session s;",
        "nothing is suggested",
        "unknown command /dance",
        "there are kiro",
        "SPEC_NOT_FOUND (HIGH): there is no spec whisper",
        "did you mean whispers-of-the-wave?",
        "SPEC_NOT_FOUND (HIGH): there is no spec nobody",
        "the next message goes to whispers-of-the-wave",
        "/accept  accept the suggested spec\n",
    ] {
        talk.notes(note);
    }
    assert!(!talk.err.contains("goes to whisper\n") && !talk.err.contains("goes to nobody"), "{}", talk.err);
    // With --json it has a code, and the names that may be meant.
    let told = daemon.converse(&["ask", "--json"], &["/spec whispers", "/spec nobody"], 0);
    let mut told =
        told.out.lines().map(|line| serde_json::from_str::<Value>(line).expect("a document a line"));
    let (near, nobody) = (told.next().unwrap_or_default(), told.next().unwrap_or_default());
    assert_eq!(near["error"]["code"], "SPEC_NOT_FOUND", "{near}");
    assert_eq!(near["error"]["message"], "there is no spec whispers");
    assert_eq!(near["error"]["near"], json!([{ "name": "whispers", "names": [WHISPERS] }]));
    assert_eq!(
        (&nobody["error"]["code"], &nobody["error"]["near"]),
        (&"SPEC_NOT_FOUND".into(), &Value::Null)
    );
    // A spec that there is not is told before anything is said.
    let refused = daemon.converse(&["ask", "--spec", "nobody"], &[], 1);
    refused.notes("there is no spec nobody");
    // The session stays, and another conversation continues it.
    let next = daemon.converse(&["ask", "--session", "s"], &["¿Y ahora qué?"], 0);
    next.shows(&[WHISPERS]);
}

/// A text has at most 16 KiB; this one has a byte more.
#[test]
fn the_choice_of_a_spec_is_kept_where_the_message_is_refused() {
    let daemon = Daemon::start(&shipped(), "");
    let too_long = "x".repeat(16 * 1024 + 1);
    let (spec, text) = (format!("/spec {WHISPERS}"), "Necesito decidir entre dos opciones");
    let lines = [spec.as_str(), &too_long, text, text];
    let talk = daemon.converse(&["ask", "--json"], &lines, 0);
    let said: Vec<Value> =
        talk.out.lines().map(|line| serde_json::from_str(line).expect("a document a line")).collect();
    assert_eq!(said.len(), 3, "{}", talk.out);
    assert_eq!(said[0]["error"]["violations"][0]["path"], "ask.text", "{}", said[0]);
    assert_eq!((&said[1]["spec"], &said[1]["calls"][0]["reason"]), (&WHISPERS.into(), &"explicit".into()));
    // It was for one message.
    assert_ne!(said[2]["calls"][0]["reason"], "explicit", "{}", said[2]);
}

// S001-TR-08
#[test]
fn a_prominent_suggestion_is_told_in_a_conversation_with_the_command_that_accepts_it() {
    let specs = suggesting(0.9, false);
    let daemon = Daemon::start(specs.path(), "");
    let lines = ["one two three", "/accept", "four five six"];
    let talk = daemon.converse(&["ask", "--session", "s", "--spec", "first"], &lines, 0);
    talk.shows(&[
        "\nfirst\n-> other would suit this better (0.90): it counts\n   /accept to go on with it\n",
        "the session is now with other\n",
        "\nother\n",
    ]);
}

#[test]
fn a_conversation_is_held_in_spanish() {
    let daemon = Daemon::start(&shipped(), "");
    let spanish = ["ask", "--lang", "es", "--session", "s", "--spec"];
    let talk = daemon.converse(
        &[&spanish[..], &[WHISPERS]].concat(),
        &[
            "Necesito decidir entre dos opciones",
            "/accept",
            "/accept",
            "/why",
            "/dance",
            "/spec",
            "/spec whisper",
            "/spec nobody",
            "/spec whispers-of-the-wave",
            "Me siento perdido",
            "/help",
        ],
        0,
    );
    talk.shows(&[
        "whispers-of-the-wave | intención ",
        "   kiro-adaptive-assistance también podría servir (0.80): ",
        "la sesión está ahora con kiro-adaptive-assistance\n",
        "kiro-adaptive-assistance  ",
        "SPEC",
        "SEÑAL",
        "palabra clave",
        "suma",
        "whispers-of-the-wave | intención emotional_support | confianza ",
    ]);
    for note in [
        "sesión s; /help muestra las órdenes del chat\n",
        "no se sugiere nada\n",
        "orden desconocida /dance; /help muestra las órdenes del chat\n",
        "hay kiro-adaptive-assistance, whispers-of-the-wave\n",
        "SPEC_NOT_FOUND (HIGH): no hay ningún spec whisper\n",
        "whisper: ¿quizá whispers-of-the-wave?\n",
        "SPEC_NOT_FOUND (HIGH): no hay ningún spec nobody\n",
        "el próximo mensaje va a whispers-of-the-wave\n",
        "/accept  aceptar el spec sugerido\n",
        "/quit  terminar\n",
    ] {
        talk.notes(note);
    }
    let never = daemon.converse(&["ask", "--lang", "es"], &["/why", "/accept"], 0);
    never.notes("todavía no se preguntó nada\n").notes("no se sugiere nada\n");
    drop(daemon);

    let specs = suggesting(0.9, false);
    let daemon = Daemon::start(specs.path(), "");
    let talk = daemon.converse(&[&spanish[..], &["first"]].concat(), &["one two three"], 0);
    talk.shows(&["\n-> other sería más adecuado (0.90): it counts\n   /accept para seguir con él\n"]);
}

#[test]
fn each_answer_is_in_the_language_of_its_message_whatever_the_locale_unless_one_is_named() {
    let daemon = Daemon::start(&shipped(), "");
    let (english, spanish) = ("I have to decide between two offers", "Tengo que decidir entre dos ofertas");
    let choice = format!("/spec {KIRO}");
    let lines = [&*choice, english, &*choice, spanish, &*choice, english];
    // A pattern has two answers in each language.
    let answers = [
        ("Go through this in order", "en"),
        ("three short questions", "en"),
        ("Sigue este orden", "es"),
        ("tres preguntas cortas", "es"),
    ];
    let languages = |said: &Said| {
        let found = answers.iter().flat_map(|(text, language)| {
            said.out.match_indices(text).map(move |(place, _)| (place, *language))
        });
        let mut found: Vec<(usize, &str)> = found.collect();
        found.sort_unstable();
        found.into_iter().map(|(_, language)| language).collect::<Vec<_>>()
    };
    let talk = daemon.converse_in("es_ES.UTF-8", &["ask"], &lines, 0);
    talk.notes("/help muestra las órdenes del chat");
    assert_eq!(languages(&talk), ["en", "es", "en"], "{}", talk.out);
    let talk = daemon.converse_in("en_US.UTF-8", &["ask", "--lang", "es"], &lines, 0);
    assert_eq!(languages(&talk), ["es", "es", "es"], "{}", talk.out);
    let talk = daemon.converse_in("es_ES.UTF-8", &["ask", "--language", "en"], &lines, 0);
    assert_eq!(languages(&talk), ["en", "en", "en"], "{}", talk.out);
}

#[test]
fn a_conversation_in_json_is_a_document_a_line() {
    let daemon = Daemon::start(&shipped(), "");
    let lines = [
        "Necesito decidir entre dos opciones",
        "/accept",
        "/help",
        "/spec",
        "/why",
        "¿Y cómo empiezo?",
        "/dance",
    ];
    let talk = daemon.converse(&["ask", "--spec", WHISPERS, "--json"], &lines, 0);
    let said: Vec<Value> =
        talk.out.lines().map(|line| serde_json::from_str(line).expect("a document a line")).collect();
    assert_eq!(said.len(), 4, "{}", talk.out);
    talk.notes("/why  explain the routing of the last message");
    let transition = &said[0]["transition"];
    assert_eq!((&transition["verdict"], &transition["band"]), (&"suggested".into(), &"subtle".into()));
    assert_eq!((&said[1]["from"], &said[1]["to"]), (&WHISPERS.into(), &KIRO.into()), "{}", said[1]);
    assert_eq!((&said[2]["routing"]["spec"], &said[2]["specs"][0]["spec"]), (&KIRO.into(), &KIRO.into()));
    assert_eq!((&said[3]["spec"], &said[3]["calls"][0]["reason"]), (&KIRO.into(), &"continued".into()));
    // The loss of the daemon ends the conversation.
    let mut gone = capataz(&["ask", "--addr", "http://127.0.0.1:9"]);
    gone.stdin(Stdio::null());
    check(gone, 3);
}

#[test]
fn a_suggestion_can_be_accepted_from_outside() {
    let daemon = Daemon::start(&shipped(), "");
    let ask = ["ask", "Necesito decidir entre dos opciones", "--spec", WHISPERS, "--session", "s", "--json"];
    let answer = daemon.check(&ask, 0).json();
    let request = answer["request_id"].as_str().unwrap_or_default();
    let accept = ["router", "accept", "s", request];
    daemon.check(&accept, 0).shows(&["session s moved from", WHISPERS, KIRO]);
    let again = daemon.check(&[&accept[..], &["--json"]].concat(), 0).json();
    assert_eq!(again["to"], KIRO, "{again}");
    daemon.check(&["router", "accept", "s", "other"], 1).notes("TRANSITION_NOT_FOUND");
    daemon.check(&["router", "accept", "t", request], 1).notes("SESSION_NOT_FOUND");
    let next = daemon.check(&["ask", "¿Y cómo empiezo?", "--session", "s", "--json"], 0).json();
    assert_eq!(next["spec"], KIRO, "{next}");
}

/// A spec that answers everything, and suggests `other` as the answer says.
fn suggesting(confidence: f64, automatic: bool) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    let head = "languages = [\"en\"]\ncontract_version = \"1.0.0\"\n";
    let first = format!(
        "id = \"first\"\ntitle = \"first\"\ndefault = true\n{head}[[patterns]]\nname = \"p\"\ntemplates.en = [\"first\"]\n\
         transition = {{ suggest_spec = \"other\", reason = \"it counts\", confidence = {confidence}, auto_transition = {automatic} }}\n"
    );
    let other = format!(
        "id = \"other\"\ntitle = \"other\"\n{head}[[patterns]]\nname = \"p\"\ntemplates.en = [\"other\"]\n"
    );
    fs::write(folder.path().join("first.toml"), first).expect("a file");
    fs::write(folder.path().join("other.toml"), other).expect("a file");
    folder
}

#[test]
fn an_ask_without_a_session_shows_its_suggestion_and_how_to_follow_it() {
    let specs = suggesting(0.9, false);
    let daemon = Daemon::start(specs.path(), "");
    let ask = ["ask", "one two three", "--spec", "first"];
    daemon.check(&ask, 0).shows(&[
        "\nfirst\n",
        "\n-> other would suit this better (0.90): it counts\n   ask it with: capataz ask … --spec other\n",
    ]);
    daemon.check(&[&ask[..], &["--lang", "es"]].concat(), 0).shows(&[
        "\n-> other sería más adecuado (0.90): it counts\n   preguntarle con: capataz ask … --spec other\n",
    ]);
    // With a session there is a session to move.
    let told = daemon.check(&[&ask[..], &["--session", "s"]].concat(), 0);
    told.shows(&["-> other would suit this better", "   accept with: capataz router accept s "]);
    assert!(!told.out.contains("ask it with"), "{}", told.out);
    drop(daemon);

    // At 0.8 a spec may not hand over by itself (seed 001, "Transición Automática").
    let specs = suggesting(0.8, true);
    let daemon = Daemon::start(specs.path(), "");
    daemon.check(&ask, 0).shows(&[
        "   other may suit this, too (0.80): it counts\n",
        "   warning: the spec wanted to hand over by itself, which needs a confidence above 0.8\n",
    ]);
}

#[test]
fn the_sessions_of_a_daemon_are_listed_and_shown() {
    let daemon = Daemon::start(&shipped(), "");
    daemon.check(&["sessions", "list"], 0).shows(&["No sessions."]);
    assert_eq!(daemon.check(&["sessions", "list", "--json"], 0).json()["sessions"], json!([]));
    daemon.check(&["sessions", "show", "s"], 1).notes("SESSION_NOT_FOUND");
    let text = "Necesito decidir entre dos opciones";
    let ask = ["ask", text, "--spec", WHISPERS, "--json", "--session"];
    let answer = daemon.check(&[&ask[..], &["s"]].concat(), 0).json();
    daemon.check(&[&ask[..], &["t"]].concat(), 0);
    daemon.check(&["sessions", "list"], 0).shows(&["SESSION  BEGUN"]);
    daemon.check(&["sessions", "list", "--limit", "1"], 0).notes("More: --page-token ");
    let listed = daemon.check(&["sessions", "list", "--json"], 0).json();
    let names: BTreeSet<&str> = listed["sessions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|session| session["session"].as_str())
        .collect();
    assert_eq!(names, BTreeSet::from(["s", "t"]));
    let request = answer["request_id"].as_str().unwrap_or_default();
    let accept = format!("`capataz router accept s {request}`");
    daemon.check(&["sessions", "show", "s", "--lang", "es"], 0).shows(&[
        "Sesión    s\n",
        &format!("Spec      {WHISPERS}\n"),
        "Mensajes  2\n",
        "Sugerencias:\n",
        &accept,
        &format!("usuario: {text}\n"),
    ]);
    let shown = daemon.check(&["sessions", "show", "s", "--json"], 0).json();
    assert_eq!(shown["context"]["history"][0]["text"], text, "{shown}");
}

#[test]
fn the_session_that_changed_last_is_listed_first() {
    let daemon = Daemon::start(&shipped(), "");
    for session in ["one", "two", "three", "four", "five", "six", "one"] {
        daemon.check(&["ask", "Necesito decidir", "--spec", WHISPERS, "--json", "--session", session], 0);
    }
    let listed = daemon.check(&["sessions", "list"], 0).out;
    let names: Vec<&str> = listed.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["one", "six", "five", "four", "three", "two"], "{listed}");
}

#[test]
fn the_router_explains_itself_and_lists_its_specs() {
    let daemon = Daemon::start(&shipped(), "");
    let text = "Necesito decidir entre dos opciones";
    let table = daemon.check(&["router", "explain", text], 0);
    table.shows(&[KIRO, "SPEC", "LOGITS", "keyword", "sum", "Changes that would have altered the decision:"]);
    let explained = daemon.check(&["router", "explain", text, "--json"], 0).json();
    let terms = explained["specs"][0]["terms"].as_array().cloned().unwrap_or_default();
    let sum: f64 = terms.iter().filter_map(|term| term["contribution"].as_f64()).sum();
    let score = explained["specs"][0]["score"].as_f64().unwrap_or(f64::NAN);
    assert!((sum - score).abs() < 1e-6, "{sum} {score}");
    daemon.check(&["router", "explain", text, "--lang", "es"], 0).shows(&[
        "SPEC",
        "SEÑAL",
        "palabra clave",
        "suma",
        "confianza ",
        "Cambios que habrían alterado la decisión:",
    ]);
    daemon.check(&["router", "explain", ""], 2).notes("text");
    daemon.check(&["router", "specs"], 0).shows(&["SPEC", KIRO, "es, en", WHISPERS, "yes"]);
    let specs = daemon.check(&["router", "specs", "--json"], 0).json();
    assert_eq!(specs["specs"].as_array().map(Vec::len), Some(2), "{specs}");
    assert_eq!(daemon.check(&["runs", "list", "--json"], 0).json()["runs"].as_array().map_or(0, Vec::len), 0);
}

fn copied_specs() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    for id in [KIRO, WHISPERS] {
        let name = format!("{id}.toml");
        fs::copy(shipped().join(&name), folder.path().join(&name)).expect("a copy");
    }
    folder
}

#[test]
fn an_invalid_file_changes_nothing_and_is_named_with_line_and_key() {
    let specs = copied_specs();
    let daemon = Daemon::start(specs.path(), "");
    daemon.check(&["router", "reload"], 0).shows(&["2 specs loaded"]);
    let file = specs.path().join(format!("{KIRO}.toml"));
    let good = fs::read_to_string(&file).expect("the spec");
    fs::write(&file, good.replacen("title =", "titel =", 1)).expect("a file");
    let refused = daemon.check(&["router", "reload"], 1);
    refused.notes("SPEC_FILE_INVALID").notes(&format!("{}:", file.display())).notes("titel");
    let place = format!("{}:5:1: titel", file.display());
    daemon
        .check(&["router", "reload", "--lang", "es"], 1)
        .notes("los specs quedan como estaban: ")
        .notes("falta `title`; añada un título para")
        .notes("titel: no hay ninguna clave `titel` aquí;");
    let mut serve = capataz(&["serve", "--listen", "127.0.0.1:0", "--lang", "es", "--specs"]);
    serve.arg(specs.path()).arg("--data-dir").arg(daemon.folder.path().join("other"));
    check(serve, 2).notes(&place).notes("no hay ninguna clave `titel` aquí");
    assert_eq!(daemon.check(&["router", "reload", "--json"], 1).json()["error"]["code"], "SPEC_FILE_INVALID");
    daemon.check(&["ask", "Necesito decidir"], 0).shows(&[KIRO]);
    fs::write(&file, good).expect("a file");
    assert_eq!(daemon.check(&["router", "reload", "--json"], 0).json()["specs"], 2);
    drop(daemon);
}

#[test]
fn lint_says_what_is_unwise_and_by_exit_code_how_much() {
    let lint = |folder: &Path, exit: i32, more: &[&str]| {
        let mut command = capataz(&["router", "lint", "--specs"]);
        command.arg(folder).args(more);
        check(command, exit)
    };
    lint(&shipped(), 0, &[]);
    let codes =
        "Exit code 2 if a file is invalid, 1 if a finding is a warning, 0 if there are at most notes.";
    lint(&shipped(), 0, &["--help"]).shows(&[codes]);
    let specs = copied_specs();
    let file = specs.path().join("third.toml");
    let third = "id = \"third\"\ntitle = \"Third\"\ndescription = \"x\"\nlanguages = [\"en\", \"fr\"]\n\
                 contract_version = \"1.0.0\"\nkeywords = [\"budget\"]\n\
                 [[patterns]]\nname = \"p\"\nphrases = [\"some phrase\"]\ntemplates.en = [\"x\"]\n\
                 transition = { suggest_spec = \"nobody\", reason = \"r\", confidence = 0.9 }\n\
                 [[intents]]\nname = \"i\"\nexamples.en = [\"one example\"]\n";
    fs::write(&file, third).expect("a file");
    let found = lint(specs.path(), 1, &["--json"]).json();
    // One of them is a warning; a finding is never worse.
    let severities: BTreeSet<&str> = found["findings"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|finding| finding["severity"].as_str())
        .collect();
    assert_eq!(severities, BTreeSet::from(["note", "warning"]));
    let rules: Vec<&str> = found["findings"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|finding| finding["rule"].as_str())
        .collect();
    for rule in ["SHARED_KEYWORD", "FEW_EXAMPLES", "LANGUAGE_WITHOUT_EXAMPLES", "UNKNOWN_SPEC"] {
        assert!(rules.contains(&rule), "{rule} in {rules:?}");
    }
    lint(specs.path(), 1, &[]).shows(&["warning: third: patterns[0].transition.suggest_spec: ", "`nobody`"]);
    lint(specs.path(), 1, &["--lang", "es"]).shows(&[
        "aviso: third: patterns[0].transition.suggest_spec: no hay ningún spec `nobody`",
        "; corrija el id, o añada el spec\n",
    ]);
    fs::write(&file, third.replace("title", "titel")).expect("a file");
    lint(specs.path(), 2, &[]).notes("third.toml:2:1: titel");
    lint(specs.path(), 2, &["--lang", "es"]).notes(
        "third.toml:2:1: titel: no hay ninguna clave `titel` aquí; ¿quiso decir `title`? (UNKNOWN_KEY)",
    );
    // All errors at once, each in a line of its own.
    fs::write(&file, third.replace("title", "titel").replace("keywords", "keyword")).expect("a file");
    let told = lint(specs.path(), 2, &[]);
    for begins in ["2:1: titel: ", "6:1: keyword: "] {
        told.notes(&format!("\n  {}:{begins}", file.display()));
    }
    let told = lint(specs.path(), 2, &["--json"]).json();
    let problems = told["error"]["problems"].as_array().expect("a list");
    assert_eq!(problems.len(), 3, "{told}");
    let titel = problems.iter().find(|problem| problem["path"] == "titel").expect("it is told");
    let place = json!([titel["file"], titel["line"], titel["column"], titel["rule"]]);
    assert_eq!(place, json!([file.display().to_string(), 2, 1, "UNKNOWN_KEY"]));
    assert!(titel["message"].as_str().is_some_and(|message| !message.contains("UNKNOWN_KEY")), "{titel}");
    lint(&specs.path().join("nowhere"), 2, &[]).notes("nowhere");
}

/// Rows of two easily distinguished specs, and texts for neither.
fn rows() -> String {
    let mut rows = "text\tlabel\tsplit\n".to_owned();
    let subjects = ["invoice", "payment", "refund", "receipt", "bill", "tax"];
    let dishes = ["soup", "bread", "salad", "cake", "rice", "beans"];
    let others = ["moon", "engine", "violin", "glacier", "chess", "tulip"];
    for (split, verb) in [("train", "show"), ("train", "find"), ("valid", "give"), ("test", "bring")] {
        for (label, words) in [("office", subjects), ("kitchen", dishes), ("oos", others)] {
            for word in words {
                rows += &format!("{verb} me the {word}\t{label}\t{split}\n");
            }
        }
    }
    rows
}

#[test]
fn eval_measures_rows_without_a_daemon() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("rows.tsv");
    fs::write(&file, rows()).expect("a file");
    let file = file.to_string_lossy();
    let eval = ["router", "eval", "--train", &file, "--valid", &file, "--test", &file];
    check(capataz(&eval), 0).notes("training on 24 rows, 2 specs");
    let report = check(capataz(&[&eval[..], &["--json"]].concat()), 0).json();
    let accuracy = find(&report, "accuracy").and_then(Value::as_f64);
    assert!(accuracy.is_some_and(|accuracy| accuracy > 0.9), "{report}");
    check(capataz(&[&eval[..], &["--shots", "2"]].concat()), 0);
    check(capataz(&["router", "eval", "--train", &file, "--folds", "3"]), 0);
    check(capataz(&["router", "eval", "--train", &file]), 2).notes("--valid is needed");
    check(capataz(&["router", "eval"]), 2).notes("--train");
    check(capataz(&["router", "eval", "--train", "no-such.tsv", "--folds", "2"]), 2).notes("cannot read");
    let broken = folder.path().join("broken.tsv");
    fs::write(&broken, "text\tlabel\tsplit\nonly a text\n").expect("a file");
    let broken = broken.to_string_lossy();
    let broken = ["router", "eval", "--train", &broken, "--folds", "2"];
    check(capataz(&broken), 2).notes("broken.tsv:2: expected text, label and split");
    let spanish = |arguments: &[&str], exit| check(capataz(&[arguments, &["--lang", "es"]].concat()), exit);
    spanish(&broken, 2).notes("broken.tsv:2: se esperaban texto, etiqueta y parte separados por tabuladores");
    spanish(&["router", "eval", "--train", &file], 2).notes("hace falta --valid");
    let specs = shipped();
    spanish(&["router", "eval", "--specs", &specs.to_string_lossy()], 2)
        .notes("--specs necesita --test o --valid");
    spanish(&eval, 0).shows(&["filas ", "aciertos en el ámbito", "confianza media"]);
}

/// Four questions for each of the shipped specs, and four for none of them, in the split `dev`; one line in `train`.
fn questions() -> String {
    let mut rows = "text\tlabel\tsplit\nquiero llorar\twhispers-of-the-wave\ttrain\n".to_owned();
    for (label, texts) in [
        (
            WHISPERS,
            ["Me siento perdido", "I feel so lonely", "Hoy todo me pesa", "Tengo miedo de quedarme sola"],
        ),
        (KIRO, ["Necesito decidir", "Help me plan my week", "Compare two job offers", "¿Alquilo o compro?"]),
        ("oos", ["capital of Peru", "set an alarm", "what is 7 times 8", "la altura del Everest"]),
    ] {
        rows.extend(texts.map(|text| format!("{text}\t{label}\tdev\n")));
    }
    rows
}

#[test]
fn eval_measures_the_specs_of_a_folder_on_rows_of_any_split() {
    let folder = TempDir::new().expect("a folder");
    let specs = shipped().display().to_string();
    let file = folder.path().join("questions.tsv");
    fs::write(&file, questions()).expect("a file");
    let dev = format!("{}:dev", file.display());
    let eval = |more: &[&str], exit| {
        check(capataz(&[&["router", "eval", "--specs", specs.as_str()][..], more].concat()), exit)
    };
    let of = |report: &Value| {
        (report["specs"].clone(), report["rows"].clone(), report["rows_out_of_scope"].clone())
    };

    // All twelve are measured, and where there is one file only, its second half: two of each four.
    let whole = eval(&["--valid", &dev, "--test", &dev, "--json"], 0).json();
    assert_eq!(of(&whole), (2.into(), 12.into(), 4.into()), "{whole}");
    for option in ["--valid", "--test"] {
        let half = eval(&[option, &dev, "--json"], 0).json();
        assert_eq!(of(&half), (2.into(), 6.into(), 2.into()), "{half}");
    }
    let told = eval(&["--valid", &dev, "--test", &dev], 0);
    let names: Vec<&str> = told.out.lines().map(|line| line.get(..34).unwrap_or(line).trim_end()).collect();
    assert_eq!(
        names.get(..18),
        Some(
            &[
                "specs",
                "rows",
                "  of them out of scope",
                "accuracy in scope",
                "macro F1",
                "Larson: threshold",
                "Larson: accuracy in scope",
                "Larson: out-of-scope recall",
                "balanced: threshold",
                "balanced: accuracy in scope",
                "balanced: out-of-scope recall",
                "AUROC",
                "calibration error",
                "mean confidence",
                "latency p50",
                "latency p99",
                "training",
                "memory of the model",
            ][..]
        ),
        "{}",
        told.out
    );
    told.shows(&[
        "specs                                          2\n",
        "rows                                          12\n",
        "  of them out of scope                         4\n",
    ]);

    // Neither `test` nor the only split, and a split that there is not.
    let plain = file.display().to_string();
    eval(&["--test", &plain], 2).notes("has the splits dev, train; choose one: ");
    eval(&["--test", &format!("{plain}:tset")], 2).notes("has the splits dev, train; choose one: ");
}

#[test]
fn eval_refuses_labels_that_are_no_specs() {
    let folder = TempDir::new().expect("a folder");
    let specs = shipped().display().to_string();
    let file = folder.path().join("questions.tsv");
    let rows = questions().replace(KIRO, "kiro-adaptive-asistance").replace("oos", "none");
    fs::write(&file, rows).expect("a file");
    let dev = format!("{}:dev", file.display());
    let eval = ["router", "eval", "--specs", &specs, "--test", &dev];
    check(capataz(&eval), 2).notes(&format!(
        "{dev} has labels that are no spec of {specs}: kiro-adaptive-asistance (did you mean {KIRO}?), none; there are \
         {KIRO}, {WHISPERS}, and oos for texts of no spec"
    ));
    check(capataz(&[&eval[..], &["--lang", "es"]].concat()), 2)
        .notes("etiquetas que no son specs de ")
        .notes(&format!("kiro-adaptive-asistance (¿quiso decir {KIRO}?), none; hay "));
}

/// The rules of seed 001, "Validación de Response".
#[test]
fn what_breaks_the_spec_contract_is_told_in_spanish() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("response.json");
    let response = json!({ "success": true, "spec": "wave", "request_id": "r", "timestamp": -1 });
    fs::write(&file, response.to_string()).expect("a file");
    let mut command = capataz(&["contract", "check", "--kind", "response", "--lang", "es"]);
    command.arg(&file);
    let told = check(command, 2);
    for line in [
        "timestamp: -1 es anterior a 1970; aquí van los milisegundos desde entonces (range)",
        "response: falta `response`, y `success` es true (required)",
        "metadata: falta `metadata` (required)",
    ] {
        told.notes(line);
    }
}

/// The first value of that key, at any depth.
fn find<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    match value {
        Value::Object(object) => {
            object.get(key).or_else(|| object.values().find_map(|value| find(value, key)))
        }
        Value::Array(list) => list.iter().find_map(|value| find(value, key)),
        _ => None,
    }
}
