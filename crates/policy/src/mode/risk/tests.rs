use proptest::prelude::*;

use super::*;

/// Steps, complexity, level, confidence.
#[track_caller]
fn check(query: &str, steps: u32, score: f64, level: RiskLevel, confidence: f64) {
    let said = assess(query, &[]);
    let found = (said.estimated_steps, said.complexity_score, said.risk_level, said.confidence);
    assert_eq!(found, (steps, score, level, confidence), "{query}: {:?}", said.reasoning);
}

#[test]
fn english_texts_have_the_numbers_of_the_formula() {
    // 1 clause. 3 words, 0.1 * 3/200 = 0.0015. "list" reads: 0.05 * (0.7 + 0.3 * 0.0015) = 0.0350. All words are known.
    check("List the files.", 1, 0.0015, RiskLevel::Low, 0.9);

    // 1 clause. 3 words, 0.0015. "refactor" changes: 0.25 * 0.70045 = 0.1751.
    // "parser" is unknown: 0.9 - 0.5 * 1/3 = 0.7333.
    check("Refactor the parser", 1, 0.0015, RiskLevel::Low, 0.7333);

    // Clauses: "Read … it", "email … Ana"; "summarise" behind "and" is one more: 3 steps, 0.4 * 2/10 = 0.08.
    // 1 path, 0.2 * 1/10 = 0.02. 10 words without the path, 0.1 * 10/200 = 0.005. Together 0.105.
    // "email" publishes: 0.4 * (0.7 + 0.3 * 0.105) = 0.4 * 0.7315 = 0.2926.
    // "summary" and "Ana" are unknown: 0.9 - 0.5 * 2/10 = 0.8.
    check(
        "Read notes.txt and summarise it, then email the summary to Ana.",
        3,
        0.105,
        RiskLevel::Medium,
        0.8,
    );

    // Clauses: "If … package", "otherwise revert"; "update" behind the comma is one more: 3 steps, 0.08.
    // "if", "otherwise": 0.15 * 2/3 = 0.1. "every": 0.15 * 1/3 = 0.05. 9 words, 0.0045. Together 0.2345.
    // "build", "update", "revert" change, "every" is broad: 0.25 * 1.5 * (0.7 + 0.3 * 0.2345) = 0.375 * 0.77035 = 0.2889.
    check("If the build passes, update every package; otherwise revert.", 3, 0.2345, RiskLevel::Medium, 0.9);

    // Clauses: "delete … database", "deploy … server": 2 steps, 0.4 * 1/10 = 0.04. "all", "every": 0.15 * 2/3 = 0.1.
    // 13 words, 0.0065. Together 0.1465. "delete" destroys, "all" is broad, "production" is sensitive:
    // 0.5 * (1 + 0.5 + 0.5) * (0.7 + 0.3 * 0.1465) = 1 * 0.74395 = 0.7440.
    check(
        "delete all tables of the production database and then deploy to every server",
        2,
        0.1465,
        RiskLevel::High,
        0.9,
    );
}

#[test]
fn spanish_texts_have_the_numbers_of_the_formula() {
    // As in English: 1 clause, 3 words, 0.0015; 0.05 * 0.70045 = 0.0350.
    check("Lista los archivos.", 1, 0.0015, RiskLevel::Low, 0.9);

    // 1 clause; "resúmelo" behind the comma and "envíalo" behind "y" are 2 more: 3 steps, 0.08.
    // The path and the quoted name are the same, 0.02. 6 words, 0.003. Together 0.103.
    // "envíalo" publishes, "cliente" is sensitive: 0.4 * 1.5 * (0.7 + 0.3 * 0.103) = 0.6 * 0.7309 = 0.4385.
    check("Lee `informe.md`, resúmelo y envíalo al cliente.", 3, 0.103, RiskLevel::Medium, 0.9);

    // Clauses: "Si … código", "a menos … primero"; "corrige" behind the comma is one more: 3 steps, 0.08.
    // "si", "a menos": 0.1. 14 words, 0.007. Together 0.187. "corrige" changes: 0.25 * (0.7 + 0.3 * 0.187) = 0.1890.
    // "urgente" and "avisa" are unknown: 0.9 - 0.5 * 2/14 = 0.8286.
    check(
        "Si falla la prueba, corrige el código; a menos que sea urgente, avisa primero.",
        3,
        0.187,
        RiskLevel::Low,
        0.8286,
    );

    // 1 clause; "compila" behind the comma and "publica" behind "y" are 2 more: 3 steps, 0.08. 12 words, 0.006.
    // Together 0.086. "publica" publishes, "producción" is sensitive:
    // 0.4 * 1.5 * (0.7 + 0.3 * 0.086) = 0.6 * 0.7258 = 0.4355.
    // "dependencias" is unknown: 0.9 - 0.5 * 1/12 = 0.8583.
    check(
        "Instala las dependencias, compila el proyecto y publica el paquete en producción.",
        3,
        0.086,
        RiskLevel::Medium,
        0.8583,
    );

    // Clauses: "Borra … servidor", "elimina … cuenta": 2 steps, 0.04. "todos", "cada": 0.1. 11 words, 0.0055.
    // Together 0.1455.
    // "borra" destroys, "todos" is broad, "respaldos" is sensitive: 0.5 * 2 * (0.7 + 0.3 * 0.1455) = 0.7437.
    check(
        "Borra todos los respaldos del servidor y luego elimina cada cuenta.",
        2,
        0.1455,
        RiskLevel::High,
        0.9,
    );
}

#[test]
fn a_text_without_words_is_one_step_of_no_risk_and_no_confidence() {
    for query in ["", " \n\t", "…!?", "\u{301}\u{200b}"] {
        check(query, 1, 0.0, RiskLevel::Low, 0.0);
    }
    // 1 word, 0.0005; 0.9 - 0.2 without a verb - 0.3 as it is short.
    check("hello", 1, 0.0005, RiskLevel::Low, 0.4);
    // 401 words of 2 letters that nobody knows: 0.9 - 0.5 - 0.2 - 0.2, not below 0.
    check(&"qx ".repeat(401), 1, 0.1, RiskLevel::Low, 0.0);
    check(&"the ".repeat(400), 1, 0.1, RiskLevel::Low, 0.7);
}

#[test]
fn clauses_are_counted_as_the_page_says() {
    #[track_caller]
    fn steps(query: &str, expected: u32) {
        assert_eq!(assess(query, &[]).estimated_steps, expected, "{query}");
    }
    steps("Read it. Write it! Is it ready? Save it; close it", 5);
    steps("Read it,\nand go on with it", 1);
    steps("Read it\n\nThe rest", 2);
    steps("Do this:\n- read it\n- write it\n\n1. save it\n2) close it", 4);
    steps("build, test, deploy and please notify", 3);
    steps("build -> deploy && notify", 3);
    steps("After that, read it. And then? Finally", 1);
    steps("Lee esto y luego escribe. A continuación, por favor guarda y por último cierra.", 4);
    steps("Use one of them, e.g. the first one", 1);
    steps("the file and the table", 1);
    steps(&"Read. ".repeat(51), STEPS_MAX);
}

#[test]
fn words_count_whole_and_in_any_spelling_of_their_letters() {
    let destroys = |query: &str| assess(query, &[]).reasoning.iter().any(|said| said.code() == "destructive");
    for query in
        ["DELETE it", "it was deleted", "Elimínalo", "ELIMI\u{301}NALO", "bórralas", "de\u{ad}lete it"]
    {
        assert!(destroys(query), "{query}");
    }
    for query in
        ["undelete it", "deletes2 it", "a killjoy", "notes/delete.md", "https://a.example/delete", "borrasca"]
    {
        assert!(!destroys(query), "{query}");
    }
    // No negation is understood.
    assert!(destroys("do not delete it") && destroys("no lo borres"));
}

#[test]
fn different_targets_count_once_each_and_at_most_ten() {
    #[track_caller]
    fn targets(query: &str, expected: u32) {
        let reasons = assess(query, &[]).reasoning;
        let found = reasons.iter().find_map(|reason| match reason {
            Reason::Targets { targets } => Some(*targets),
            _ => None,
        });
        assert_eq!(found.unwrap_or_default(), expected, "{query}");
    }
    targets("a.txt, (a.txt) and `a.txt`.", 1);
    targets("https://a.example/b?c=d, www.example and ./e", 3);
    targets("\"one\" “two” «three» 'four'", 4);
    targets("the users' and the dogs' don't", 0);
    targets("\"not closed", 0);
    targets(&format!("\"{}\"", "a".repeat(81)), 0);
    targets(&(0..20).map(|index| format!("{index}.txt ")).collect::<String>(), 10);
}

#[test]
fn tools_count_where_the_text_names_them() {
    let tool = |name, undoable, needs_approval| ToolFacts { name, undoable, needs_approval };
    let tools = [tool("mail.out", false, true), tool("Fs-Look", true, false), tool("wire", true, true)];
    let said = |query: &str| {
        let said = assess(query, &tools);
        let tools = said.reasoning.iter().filter_map(|reason| match reason {
            Reason::Irreversible { tool } => Some(format!("irreversible {tool}")),
            Reason::NeedsApproval { tool } => Some(format!("approval {tool}")),
            _ => None,
        });
        (said.risk_level, tools.collect::<Vec<_>>().join(", "))
    };
    // 0 + 0.4 + 0.2 = 0.6; times 0.7 and a little more it is 0.42.
    assert_eq!(
        said("use `Mail.Out`, now. mail.out"),
        (RiskLevel::Medium, "irreversible mail.out, approval mail.out".to_owned())
    );
    assert_eq!(said("use fs-look"), (RiskLevel::Low, String::new()));
    // 0.5 + 0.2 = 0.7; times 0.7 and a little more it is 0.49.
    assert_eq!(said("delete it with wire"), (RiskLevel::Medium, "approval wire".to_owned()));
    // 0.5 + 0.4 + 0.2, at most 1.
    assert_eq!(
        said("delete it with wire and mail.out"),
        (RiskLevel::High, "irreversible mail.out, approval wire, approval mail.out".to_owned())
    );
    assert_eq!(said("mail out, wires, mail.out2"), (RiskLevel::Low, String::new()));
}

fn every_reason() -> Vec<Reason> {
    let name = || "x".to_owned();
    vec![
        Reason::Destructive { word: name() },
        Reason::Publishing { word: name() },
        Reason::Changing { word: name() },
        Reason::Reading { word: name() },
        Reason::NoVerb,
        Reason::Broad { word: name() },
        Reason::Sensitive { word: name() },
        Reason::Irreversible { tool: name() },
        Reason::NeedsApproval { tool: name() },
        Reason::ManySteps { steps: 2 },
        Reason::Targets { targets: 1 },
        Reason::Conditions { conditions: 2 },
        Reason::Loops { loops: 1 },
        Reason::UnknownWords { unknown: 1, words: 2 },
        Reason::Short { words: 1 },
        Reason::Long { words: 401 },
    ]
}

#[test]
fn no_mode_is_recommended() {
    // Every field is named here, so that another one does not compile.
    let Assessment { estimated_steps: _, complexity_score: _, risk_level: _, confidence: _, reasoning: _ } =
        assess("Plan all of it, then delete everything", &[]);
    let modes =
        ["mode", "modo", "simple", "planner", "planificador", "supervis", "autonom", "autónom", "recom"];
    for reason in every_reason() {
        for said in [reason.code().to_owned(), reason.text(false), reason.text(true)] {
            assert!(!modes.iter().any(|mode| said.to_lowercase().contains(mode)), "{said}");
        }
    }
}

#[test]
fn every_reason_is_one_sentence_in_both_languages_and_has_its_own_code() {
    let mut codes: Vec<_> = every_reason().iter().map(Reason::code).collect();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), every_reason().len());
    for reason in every_reason() {
        let (english, spanish) = (reason.text(false), reason.text(true));
        assert_ne!(english, spanish);
        for text in [english, spanish] {
            assert!(text.ends_with('.') && text.matches('.').count() == 1, "{text}");
        }
    }
    assert_eq!(Reason::UnknownWords { unknown: 1, words: 2 }.text(false), "1 of 2 words is unknown.");
    assert_eq!(Reason::Loops { loops: 2 }.text(true), "El texto tiene 2 palabras de repetición.");
    assert_eq!(Reason::Destructive { word: "borra".to_owned() }.text(true), "«borra» puede destruir algo.");
}

#[test]
fn reasons_tell_what_the_numbers_come_from() {
    let said = assess("Envía «el parte» a todos y luego bórralo.", &[]);
    let word = |word: &str| word.to_owned();
    // Clauses: "Envía … todos", "bórralo". Words: 8, of which only "parte" is unknown.
    assert_eq!(
        said.reasoning,
        [
            Reason::Destructive { word: word("bórralo") },
            Reason::Publishing { word: word("Envía") },
            Reason::Broad { word: word("todos") },
            Reason::ManySteps { steps: 2 },
            Reason::Targets { targets: 1 },
            Reason::Loops { loops: 1 },
            Reason::UnknownWords { unknown: 1, words: 8 },
        ]
    );
    let codes: Vec<_> = assess("hello", &[]).reasoning.iter().map(Reason::code).collect();
    assert_eq!(codes, ["no_verb", "short"]);
}

#[test]
fn levels_have_their_names_and_thresholds() {
    let levels = [RiskLevel::Low, RiskLevel::Medium, RiskLevel::High];
    assert_eq!(levels.map(RiskLevel::as_str), ["low", "medium", "high"]);
    assert!(levels.is_sorted());
    assert_eq!([0.0, 0.2499, 0.25, 0.4999, 0.5, 1.0].map(RiskLevel::of), {
        use RiskLevel::{High, Low, Medium};
        [Low, Low, Medium, Medium, High, High]
    });
}

const MANUAL: &str = include_str!("../../../../../docs/risk.md");

#[test]
fn the_page_has_the_numbers() {
    let rows = [
        format!("| steps beyond the first one | {STEPS_WEIGHT} | {STEPS_FULL} |"),
        format!("| targets | {TARGETS_WEIGHT} | {TARGETS_FULL} |"),
        format!("| conditions | {CONDITIONS_WEIGHT} | {CONDITIONS_FULL} |"),
        format!("| loops | {LOOPS_WEIGHT} | {LOOPS_FULL} |"),
        format!("| words | {LENGTH_WEIGHT} | {WORDS_FULL} |"),
        format!("| destroys | {DESTROYS} |"),
        format!("| publishes | {PUBLISHES} |"),
        format!("| changes | {CHANGES} |"),
        format!("| reads | {READS} |"),
        format!("plus {BROAD} where a word is broad, plus {SENSITIVE} where one is sensitive"),
        format!("plus {IRREVERSIBLE} where a named tool cannot be undone"),
        format!("plus {NEEDS_APPROVAL} where one needs an approval"),
        format!("impact × ({IMPACT_ALONE} + {} × complexity)", rounded(1.0 - IMPACT_ALONE)),
        format!("`medium` from {MEDIUM_FROM} on, `high` from {HIGH_FROM} on"),
        format!("begins with {CONFIDENCE_MOST}"),
        format!("| {UNKNOWN_PENALTY} × the share of unknown words |"),
        format!("| {NO_VERB_PENALTY} | no verb is known |"),
        format!("| {SHORT_PENALTY} | fewer than {SHORT_BELOW} words |"),
        format!("| {LONG_PENALTY} | more than {LONG_ABOVE} words |"),
        format!("at least 1 and at most {STEPS_MAX}"),
    ];
    let page = MANUAL.split_whitespace().collect::<Vec<_>>().join(" ");
    for row in rows {
        assert!(page.contains(&row), "{row}");
    }
}

#[test]
fn the_words_of_the_page_are_in_the_lists_of_their_rows() {
    let classes = [
        ("destroys", words::Class::Destroys),
        ("publishes", words::Class::Publishes),
        ("changes", words::Class::Changes),
        ("reads", words::Class::Reads),
        ("each", words::Class::Each),
        ("whole", words::Class::Whole),
        ("repeats", words::Class::Repeats),
        ("sensitive", words::Class::Sensitive),
        ("condition", words::Class::Condition),
        ("connects", words::Class::Connects),
        ("joins", words::Class::Joins),
        ("opens", words::Class::Opens),
        ("common", words::Class::Common),
    ];
    for (row, class) in classes {
        let line = MANUAL.lines().find(|line| line.starts_with(&format!("| {row} | ")) && line.contains('`'));
        let named: Vec<_> = line.unwrap().split('`').skip(1).step_by(2).collect();
        assert!(named.len() > 1, "{row}");
        for word in named.into_iter().filter(|word| !word.contains(' ')) {
            assert_eq!(words::lookup(word).map(|(found, _)| found), Some(class), "{word}");
        }
    }
}

/// Texts of the words and marks that count, which random characters seldom are.
fn likely_text() -> impl Strategy<Value = String> {
    let part = proptest::sample::select(vec![
        "delete",
        "Borra",
        "deploy",
        "envía",
        "read",
        "lista",
        "edit",
        "all",
        "todos",
        "production",
        "if",
        "a",
        "menos",
        "then",
        "luego",
        "after",
        "that",
        "and",
        "y",
        "please",
        "wombat",
        "a.txt",
        "https://a.example",
        "\"x\"",
        "'",
        "\"",
        ",",
        ".",
        ":",
        ";",
        "\n",
        "\n\n",
        "\n- ",
        "\n1. ",
        "1.",
        "-",
        "->",
        "wire",
        "de",
        "\u{301}",
    ]);
    let space = proptest::sample::select(vec!["", " ", " ", " "]);
    proptest::collection::vec((part, space), 0..40)
        .prop_map(|parts| parts.into_iter().flat_map(|(part, space)| [part, space]).collect())
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![likely_text(), any::<String>(), "\\PC{0,80}", "[ -~\n]{0,80}"]
}

proptest! {
    #[test]
    fn numbers_are_within_their_bounds_and_the_same_twice(query in text(), undoable: bool, needs_approval: bool) {
        let tools = [ToolFacts { name: "wire", undoable, needs_approval }];
        let said = assess(&query, &tools);
        prop_assert!((1..=STEPS_MAX).contains(&said.estimated_steps));
        prop_assert!((0.0..=1.0).contains(&said.complexity_score));
        prop_assert!((0.0..=1.0).contains(&said.confidence));
        prop_assert!(!said.reasoning.is_empty());
        prop_assert!(said.reasoning.iter().all(|reason| !reason.text(true).is_empty()));
        prop_assert_eq!(assess(&query, &tools), said);
    }

    #[test]
    fn what_is_added_never_lowers_the_level(query in text(), undoable: bool, needs_approval: bool) {
        let tools = [ToolFacts { name: "wire", undoable, needs_approval }];
        let before = assess(&query, &tools);
        for added in [" and then delete everything", " y luego borra todo", " then list it"] {
            let after = assess(&format!("{query}{added}"), &tools);
            prop_assert!(after.risk_level >= before.risk_level);
            prop_assert!(after.complexity_score >= before.complexity_score);
            prop_assert!(after.estimated_steps >= before.estimated_steps);
        }
    }

    #[test]
    fn case_and_accents_change_no_number(
        words in proptest::collection::vec(
            ("[a-z]{1,8}|delete|envía|todos|then|and|if|list", any::<bool>()), 0..20,
        ),
    ) {
        let numbers = |words: Vec<String>| {
            let said = assess(&words.join(" "), &[]);
            (said.estimated_steps, said.complexity_score, said.risk_level, said.confidence)
        };
        let accented = |(word, is_accented): &(String, bool)| {
            let (first, rest) = word.split_at(1);
            if *is_accented { format!("{}\u{301}{}", first.to_uppercase(), rest.to_uppercase()) } else { word.clone() }
        };
        let plain = words.iter().map(|(word, _)| word.replace('í', "i")).collect();
        prop_assert_eq!(numbers(words.iter().map(accented).collect()), numbers(plain));
    }
}
