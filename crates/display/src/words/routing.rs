//! Why a text goes to a spec, in Spanish: the router's own reasons, which the log keeps in English.

use std::borrow::Cow;

use super::messages::filled;
use super::{Language, browser};

/// What stands before the reasons of an unlikely choice.
const LOW: (&str, &str) = ("low confidence: ", "confianza baja: ");
const BETWEEN: &str = "; ";

/// Whole reasons, and changes that would have altered a decision (crates/router/src/route/reason.rs, explain/change.rs).
const WHOLE: browser::Patterns = &[
    (
        "no spec is likely enough (the likeliest is {0}); the default spec answers",
        "ningún spec es bastante probable (el más probable es {0}); responde el predeterminado",
    ),
    (
        "nothing in the text speaks for a spec; the default one answers",
        "nada en el texto habla por un spec; responde el predeterminado",
    ),
    ("without {0} it goes to {1}", "sin {0} va a {1}"),
    ("with {0} it goes to {1}", "con {0} va a {1}"),
];
/// The parts of other reasons.
const PARTS: browser::Patterns = &[
    ("intent {0}", "intención {0}"),
    ("keyword {0}", "palabra clave {0}"),
    ("keywords {0}", "palabras clave {0}"),
    ("pattern {0}", "patrón {0}"),
    ("the conversation so far", "la conversación hasta aquí"),
    ("earlier messages", "mensajes anteriores"),
    ("no strong sign", "ninguna señal fuerte"),
];

/// The kinds of evidence (crates/router/src/explain).
const SIGNS: &[(&str, &str)] = &[
    ("intent", "intención"),
    ("keyword", "palabra clave"),
    ("pattern", "patrón"),
    ("history", "historial"),
    ("continuity", "continuidad"),
    ("language", "idioma"),
];

/// The kind of a term in the language in use; a kind of a newer daemon is told as it is.
#[must_use]
pub fn sign(kind: &str) -> &str {
    match Language::current() {
        Language::English => kind,
        Language::Spanish => {
            SIGNS.iter().find(|(english, _)| *english == kind).map_or(kind, |(_, spanish)| spanish)
        }
    }
}

/// A reason of the router in the language in use.
#[must_use]
pub fn reason(text: &str) -> Cow<'_, str> {
    match Language::current() {
        Language::English => Cow::Borrowed(text),
        Language::Spanish => Cow::Owned(spanish(text)),
    }
}

fn spanish(text: &str) -> String {
    if let Some(whole) = filled(WHOLE, text) {
        return whole;
    }
    let (low, parts) = match text.strip_prefix(LOW.0) {
        Some(parts) => (LOW.1, parts),
        None => ("", text),
    };
    let parts = parts.split(BETWEEN).map(|part| filled(PARTS, part).unwrap_or_else(|| part.to_owned()));
    format!("{low}{}", parts.collect::<Vec<_>>().join(BETWEEN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kinds_of_evidence_are_told_in_spanish() {
        let told = |kind| Language::Spanish.within(|| sign(kind));
        let kinds = ["intent", "keyword", "pattern", "history", "continuity", "language"];
        assert_eq!(
            kinds.map(told),
            ["intención", "palabra clave", "patrón", "historial", "continuidad", "idioma"]
        );
        assert_eq!(kinds.map(sign), kinds);
        assert_eq!(told("of a newer daemon"), "of a newer daemon");
    }

    #[test]
    fn the_routers_reasons_are_told_in_spanish() {
        #[track_caller]
        fn check(english: &str, expected: &str) {
            assert_eq!(reason(english), english);
            assert_eq!(Language::Spanish.within(|| reason(english).into_owned()), expected);
        }
        check(
            "low confidence: intent sadness; keywords siento, perdido; pattern low; earlier messages",
            "confianza baja: intención sadness; palabras clave siento, perdido; patrón low; mensajes anteriores",
        );
        check("keyword elegir", "palabra clave elegir");
        check("low confidence: no strong sign", "confianza baja: ninguna señal fuerte");
        check(
            "no spec is likely enough (the likeliest is kiro); the default spec answers",
            "ningún spec es bastante probable (el más probable es kiro); responde el predeterminado",
        );
        check("without \"a\", \"b\" it goes to wave", "sin \"a\", \"b\" va a wave");
        check("of somebody else; entirely", "of somebody else; entirely");
    }
}
