//! Both languages have every text.

use super::*;

#[test]
fn placeholders_are_filled_in_any_order() {
    #[track_caller]
    fn check(template: &str, values: &[&str], expected: &str) {
        assert_eq!(fill(template, values), expected);
    }
    check("{1} of {0}", &["b", "a"], "a of b");
    check("none", &["a"], "none");
    check("{0}{5}.", &["{1}"], "{1}.");
    check("open {", &[], "open {");
    assert_eq!(counted(1, "{0} task", "{0} tasks"), "1 task");
    assert_eq!(counted(0, "{0} task", "{0} tasks"), "0 tasks");
}

/// The placeholders, tabulators and line breaks of a text, sorted.
fn marks(text: &str) -> Vec<String> {
    let mut marks: Vec<String> = text.matches(['\t', '\n']).map(str::to_owned).collect();
    let placeholders = text.split('{').skip(1).filter_map(|part| part.split_once('}'));
    marks.extend(placeholders.map(|(number, _)| number.to_owned()));
    marks.sort();
    marks.dedup();
    marks
}

#[test]
fn both_languages_say_the_same_of_the_same() {
    let pairs = std::iter::empty()
        .chain(WaveBox::pairs())
        .chain(Errors::pairs())
        .chain(Options::pairs())
        .chain(Retry::pairs())
        .chain(Watch::pairs())
        .chain(Losses::pairs())
        .chain(Cancels::pairs())
        .chain(Keys::pairs())
        .chain(Live::pairs())
        .chain(Compact::pairs())
        .chain(Choosing::pairs())
        .chain(Runs::pairs())
        .chain(Statuses::pairs())
        .chain(Agents::pairs())
        .chain(Contract::pairs())
        .chain(Serve::pairs())
        .chain(Demo::pairs())
        .chain(Rebuild::pairs())
        .chain(Sessions::pairs())
        .chain(Backup::pairs())
        .chain(Doctor::pairs())
        .chain(Classified::pairs())
        .chain(AgentStats::pairs())
        .chain(TimeTravel::pairs())
        .chain(Pipelines::pairs())
        .chain(Modes::pairs())
        .chain(Asking::pairs())
        .chain(Cascade::pairs())
        .chain(SessionViews::pairs())
        .chain(Memory::pairs())
        .chain(Analytics::pairs())
        .chain(Ask::pairs())
        .chain(Router::pairs())
        .chain(Measures::pairs())
        .chain(Act::pairs())
        .chain(ActError::pairs())
        .chain(ScriptLines::pairs())
        .chain(Browser::pairs())
        .chain(Page::pairs())
        .chain(Reports::pairs())
        .chain(Evidence::pairs())
        .chain(Logs::pairs())
        .chain(Usage::pairs())
        .chain(Wrong::pairs())
        .chain(Init::pairs())
        .chain(Local::pairs())
        .chain(Needs::pairs())
        .chain(Status::pairs())
        .collect::<Vec<_>>();
    assert!(pairs.len() > 500, "{}", pairs.len());
    for (name, english, spanish) in pairs {
        assert_eq!(marks(english), marks(spanish), "{name}: {english:?}, {spanish:?}");
        assert_eq!(english.is_empty(), spanish.is_empty(), "{name}");
    }
}

/// What `doctor`, `browser doctor` and the log of a script say of a browser that somebody runs.
#[test]
fn whoever_has_scripts_attach_to_a_browser_is_told_that_the_second_layer_is_not_whole() {
    let told = |language: Language| {
        let words = language.words();
        let (doctor, browser, lines) = (&words.doctor, &words.browser, &words.script_lines);
        [
            fill(doctor.browser_attached, &["http://127.0.0.1:9222", "156.0"]),
            doctor.browser_attached_next.to_owned(),
            fill(lines.opened_attached, &["Chrome/156.0"]),
            browser.doctor_no_second_layer.to_owned(),
        ]
    };
    assert_eq!(
        told(Language::English),
        [
            "version 156.0 runs at http://127.0.0.1:9222, and scripts attach to it: the allowlist's second layer \
             is not there as a whole",
            "without browser.attach, each script gets a browser of its own, with both layers",
            "Chrome/156.0 is attached to, without the whole second layer of the allowlist",
            "The allowlist's second layer is not there as a whole: the browser looks up names by itself, pages may \
             send datagrams (WebRTC), and the first request of a tab that a page opens is judged only by where it \
             connects to.",
        ]
    );
    assert_eq!(
        told(Language::Spanish),
        [
            "la versión 156.0 corre en http://127.0.0.1:9222, y los scripts se unen a ella: la segunda capa de la \
             lista de permitidos no está completa",
            "sin browser.attach, cada script tiene un navegador propio, con las dos capas",
            "unido a Chrome/156.0, sin toda la segunda capa de la lista de permitidos",
            "La segunda capa de la lista de permitidos no está completa: el navegador resuelve nombres por su \
             cuenta, las páginas pueden enviar datagramas (WebRTC), y la primera petición de una pestaña que abre \
             una página se juzga solo por adónde se conecta.",
        ]
    );
}

#[test]
fn a_language_is_known_by_its_tag_or_locale() {
    let known =
        ["es", "es-MX", "es_ES.UTF-8", "ES", "en_GB", "C.UTF-8", "POSIX", "de_DE", ""].map(Language::of_tag);
    let (es, en) = (Some(Language::Spanish), Some(Language::English));
    assert_eq!(known, [es, es, es, es, en, en, en, None, None]);
}

#[test]
fn a_language_holds_within_a_call_and_no_longer() {
    let told = Language::Spanish.within(|| {
        let inner = Language::English.within(|| words().errors.options);
        (inner, words().errors.options)
    });
    assert_eq!(told, ("Options:", "Opciones:"));
    assert_eq!(words().errors.options, "Options:");
    let fails = || Language::Spanish.within(|| panic!("while it tells"));
    assert!(std::panic::catch_unwind(fails).is_err());
    assert_eq!(words().errors.options, "Options:");
}

#[test]
fn ordinals_end_by_their_last_digits() {
    let shown: Vec<String> = [1, 2, 3, 4, 11, 12, 13, 21, 111].map(english_ordinal).into();
    assert_eq!(shown, ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "111th"]);
}
