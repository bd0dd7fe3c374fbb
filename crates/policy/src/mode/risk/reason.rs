//! The reasons of an assessment: codes with values, and a sentence for each in both languages.

use super::ToolFacts;
use super::reader::Findings;

/// Tools that are named for one kind of reason.
const TOOLS_NAMED: usize = 8;

/// Something in a text that an assessment comes from. Words are as the text spells them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    Destructive {
        word: String,
    },
    Publishing {
        word: String,
    },
    Changing {
        word: String,
    },
    Reading {
        word: String,
    },
    /// No known word says what is to be done.
    NoVerb,
    Broad {
        word: String,
    },
    Sensitive {
        word: String,
    },
    Irreversible {
        tool: String,
    },
    NeedsApproval {
        tool: String,
    },
    ManySteps {
        steps: u32,
    },
    /// As many as count; there may be more.
    Targets {
        targets: u32,
    },
    Conditions {
        conditions: u32,
    },
    Loops {
        loops: u32,
    },
    UnknownWords {
        unknown: u32,
        words: u32,
    },
    Short {
        words: u32,
    },
    Long {
        words: u32,
    },
}

impl Reason {
    /// The code, which never changes.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Destructive { .. } => "destructive",
            Self::Publishing { .. } => "publishing",
            Self::Changing { .. } => "changing",
            Self::Reading { .. } => "reading",
            Self::NoVerb => "no_verb",
            Self::Broad { .. } => "broad",
            Self::Sensitive { .. } => "sensitive",
            Self::Irreversible { .. } => "irreversible",
            Self::NeedsApproval { .. } => "needs_approval",
            Self::ManySteps { .. } => "many_steps",
            Self::Targets { .. } => "targets",
            Self::Conditions { .. } => "conditions",
            Self::Loops { .. } => "loops",
            Self::UnknownWords { .. } => "unknown_words",
            Self::Short { .. } => "short",
            Self::Long { .. } => "long",
        }
    }

    /// One sentence for people, in Spanish or else in English.
    #[must_use]
    pub fn text(&self, spanish: bool) -> String {
        if spanish { self.spanish() } else { self.english() }
    }

    fn english(&self) -> String {
        match self {
            Self::Destructive { word } => format!("\"{word}\" may destroy something."),
            Self::Publishing { word } => format!("\"{word}\" may reach others or cost money."),
            Self::Changing { word } => format!("\"{word}\" may change something."),
            Self::Reading { word } => format!("\"{word}\" only reads."),
            Self::NoVerb => "No known word says what is to be done.".to_owned(),
            Self::Broad { word } => format!("\"{word}\" may mean many things at once."),
            Self::Sensitive { word } => format!("\"{word}\" is where a mistake costs much."),
            Self::Irreversible { tool } => format!("What the tool \"{tool}\" does cannot be undone."),
            Self::NeedsApproval { tool } => format!("The tool \"{tool}\" needs an approval."),
            Self::ManySteps { steps } => format!("The text seems to have {steps} steps."),
            Self::Targets { targets } => {
                let things =
                    count(*targets, "path, address or quoted name", "paths, addresses or quoted names");
                format!("The text names {things}.")
            }
            Self::Conditions { conditions } => {
                format!("The text has {}.", count(*conditions, "condition", "conditions"))
            }
            Self::Loops { loops } => {
                format!("The text has {}.", count(*loops, "word of repetition", "words of repetition"))
            }
            Self::UnknownWords { unknown, words } => {
                let are = if *unknown == 1 { "is" } else { "are" };
                format!("{unknown} of {} {are} unknown.", count(*words, "word", "words"))
            }
            Self::Short { words } => {
                format!("The text has {}, which is little to go by.", count(*words, "word", "words"))
            }
            Self::Long { words } => {
                format!("The text has {}, too many for an estimate by words.", count(*words, "word", "words"))
            }
        }
    }

    fn spanish(&self) -> String {
        match self {
            Self::Destructive { word } => format!("«{word}» puede destruir algo."),
            Self::Publishing { word } => format!("«{word}» puede llegar a otros o costar dinero."),
            Self::Changing { word } => format!("«{word}» puede cambiar algo."),
            Self::Reading { word } => format!("«{word}» solo lee."),
            Self::NoVerb => "Ninguna palabra conocida dice qué hay que hacer.".to_owned(),
            Self::Broad { word } => format!("«{word}» puede abarcar muchas cosas a la vez."),
            Self::Sensitive { word } => format!("«{word}» es algo donde un error cuesta caro."),
            Self::Irreversible { tool } => {
                format!("Lo que hace la herramienta «{tool}» no se puede deshacer.")
            }
            Self::NeedsApproval { tool } => format!("La herramienta «{tool}» necesita una aprobación."),
            Self::ManySteps { steps } => format!("El texto parece tener {steps} pasos."),
            Self::Targets { targets } => {
                let things = count(
                    *targets,
                    "ruta, dirección o nombre entre comillas",
                    "rutas, direcciones o nombres entre comillas",
                );
                format!("El texto nombra {things}.")
            }
            Self::Conditions { conditions } => {
                format!("El texto tiene {}.", count(*conditions, "condición", "condiciones"))
            }
            Self::Loops { loops } => {
                format!(
                    "El texto tiene {}.",
                    count(*loops, "palabra de repetición", "palabras de repetición")
                )
            }
            Self::UnknownWords { unknown, words } => {
                let (are, known) =
                    if *unknown == 1 { ("es", "desconocida") } else { ("son", "desconocidas") };
                format!("{unknown} de {} {are} {known}.", count(*words, "palabra", "palabras"))
            }
            Self::Short { words } => {
                format!("El texto tiene {}, poco en que basarse.", count(*words, "palabra", "palabras"))
            }
            Self::Long { words } => format!(
                "El texto tiene {}, demasiadas para una estimación por palabras.",
                count(*words, "palabra", "palabras")
            ),
        }
    }
}

fn count(number: u32, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

pub(super) fn reasons(findings: &Findings<'_>, steps: u32) -> Vec<Reason> {
    let mut reasons = Vec::new();
    type Make = fn(String) -> Reason;
    let said: [(_, Make); 6] = [
        (&findings.destroys, |word| Reason::Destructive { word }),
        (&findings.publishes, |word| Reason::Publishing { word }),
        (&findings.changes, |word| Reason::Changing { word }),
        (&findings.reads, |word| Reason::Reading { word }),
        (&findings.broad, |word| Reason::Broad { word }),
        (&findings.sensitive, |word| Reason::Sensitive { word }),
    ];
    if !findings.has_verb() {
        reasons.push(Reason::NoVerb);
    }
    for (words, make) in said {
        reasons.extend(words.iter().map(|(_, spelled)| make((*spelled).to_owned())));
    }
    let named = |applies: fn(&ToolFacts<'_>) -> bool, make: Make| {
        let tools = findings.tools.iter().filter(move |tool| applies(tool)).take(TOOLS_NAMED);
        tools.map(move |tool| make(tool.name.to_owned()))
    };
    reasons.extend(named(|tool| !tool.undoable, |tool| Reason::Irreversible { tool }));
    reasons.extend(named(|tool| tool.needs_approval, |tool| Reason::NeedsApproval { tool }));
    let (targets, words) = (findings.target_count(), findings.words);
    let numbers = [
        (steps > 1, Reason::ManySteps { steps }),
        (targets > 0, Reason::Targets { targets }),
        (findings.conditions > 0, Reason::Conditions { conditions: findings.conditions }),
        (findings.loops > 0, Reason::Loops { loops: findings.loops }),
        (findings.unknown > 0, Reason::UnknownWords { unknown: findings.unknown, words }),
        (findings.is_short(), Reason::Short { words }),
        (findings.is_long(), Reason::Long { words }),
    ];
    reasons.extend(numbers.into_iter().filter(|(holds, _)| *holds).map(|(_, reason)| reason));
    reasons
}
