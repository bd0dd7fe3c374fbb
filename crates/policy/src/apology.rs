//! What a user is told where no spec gave an answer, by the code of the failure, in the languages of the seeds (seed 001,
//! "Tipos de Errores"). The technical words of the failure are kept apart from it.

use crate::codes::{self, Code};

/// A language in which users are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    English,
    Spanish,
}

impl Language {
    /// The language of a BCP 47 tag, such as `es-MX`; English for every other one.
    #[must_use]
    pub fn of(tag: &str) -> Self {
        let primary = tag.split(['-', '_']).next().unwrap_or_default();
        if primary.eq_ignore_ascii_case("es") { Self::Spanish } else { Self::English }
    }
}

/// Code, English, Spanish. They are the seed's own words where it has some, but for two that would not always be true: that of
/// PROCESSING_TIMEOUT asks whether to wait, and that of VALIDATION_ERROR says that the message is too short.
const MESSAGES: &[(Code, &str, &str)] = &[
    (
        codes::PROCESSING_TIMEOUT,
        "The answer is taking longer than expected. Do you want to try again?",
        "La respuesta está tardando más de lo esperado. ¿Quieres intentarlo de nuevo?",
    ),
    (
        codes::RATE_LIMIT,
        "There are too many requests at the moment. Try again in a little while.",
        "Hay demasiadas solicitudes en este momento. Inténtalo de nuevo en un rato.",
    ),
    (
        codes::TEMPORARY_ERROR,
        "Something is not working at the moment. Try again in a little while.",
        "Algo no funciona en este momento. Inténtalo de nuevo en un rato.",
    ),
    (
        codes::INVALID_REQUEST,
        "I could not process your message. Could you put it in other words?",
        "No pude procesar tu mensaje. ¿Podrías reformularlo?",
    ),
    (
        codes::SPEC_NOT_AVAILABLE,
        "Nobody is there to answer this at the moment. Try again later.",
        "En este momento no hay quien pueda responder a esto. Inténtalo más tarde.",
    ),
    (
        codes::INCOMPATIBLE_VERSION,
        "Nobody is there to answer this at the moment. Try again later.",
        "En este momento no hay quien pueda responder a esto. Inténtalo más tarde.",
    ),
    (
        codes::CAPABILITY_NOT_SUPPORTED,
        "I cannot help with that. Could you ask for something else?",
        "No puedo ayudarte con eso. ¿Podrías pedirme otra cosa?",
    ),
    (
        codes::VALIDATION_ERROR,
        "I could not understand your message. Could you give me more details?",
        "No pude entender tu mensaje. ¿Podrías darme más detalles?",
    ),
    (
        codes::INSUFFICIENT_CONTEXT,
        "I need more information to help you. Could you tell me more about what you need?",
        "Necesito más información para ayudarte. ¿Podrías contarme más sobre lo que necesitas?",
    ),
];

const OTHER: (&str, &str) = (
    "Something went wrong, and I cannot answer this. The failure was recorded.",
    "Algo salió mal y no puedo responder a esto. El fallo quedó registrado.",
);

/// The words for the user where an ask has failed with this code.
#[must_use]
pub fn message(code: &str, language: Language) -> &'static str {
    let row = MESSAGES.iter().find(|(named, ..)| *named == *code);
    let (english, spanish) = row.map_or(OTHER, |(_, english, spanish)| (*english, *spanish));
    match language {
        Language::English => english,
        Language::Spanish => spanish,
    }
}

/// Returns whether the same request may succeed later (seed 001, "Errores Recuperables").
#[must_use]
pub fn is_recoverable(code: &str) -> bool {
    [codes::PROCESSING_TIMEOUT, codes::RATE_LIMIT, codes::TEMPORARY_ERROR].iter().any(|named| *named == *code)
}

#[cfg(test)]
mod tests {
    use super::*;

    // S001-ER-11
    #[test]
    fn every_code_of_the_contract_has_words_of_its_own_in_both_languages() {
        // Seed 001, "Tipos de Errores", and the versions of the contract. FATAL_ERROR has the general words.
        let codes = [
            "PROCESSING_TIMEOUT",
            "RATE_LIMIT",
            "TEMPORARY_ERROR",
            "INVALID_REQUEST",
            "SPEC_NOT_AVAILABLE",
            "INCOMPATIBLE_VERSION",
            "CAPABILITY_NOT_SUPPORTED",
            "VALIDATION_ERROR",
            "INSUFFICIENT_CONTEXT",
        ];
        for code in codes {
            let (english, spanish) = (message(code, Language::English), message(code, Language::Spanish));
            assert_ne!(english, OTHER.0, "{code}");
            assert_ne!(spanish, OTHER.1, "{code}");
            assert_ne!(english, spanish, "{code}");
            assert!(!english.contains(code) && !spanish.contains(code), "{code}");
        }
        for code in ["FATAL_ERROR", "AGENT_COMMAND_FAILED", "WHAT_EVER", ""] {
            assert_eq!((message(code, Language::English), message(code, Language::Spanish)), OTHER, "{code}");
        }
    }

    // S001-ER-11
    #[test]
    fn the_words_of_the_seed_are_said() {
        for (code, expected) in [
            ("INVALID_REQUEST", "No pude procesar tu mensaje. ¿Podrías reformularlo?"),
            (
                "INSUFFICIENT_CONTEXT",
                "Necesito más información para ayudarte. ¿Podrías contarme más sobre lo que necesitas?",
            ),
            // The seed asks whether to wait, which nobody can do any more after the last attempt.
            (
                "PROCESSING_TIMEOUT",
                "La respuesta está tardando más de lo esperado. ¿Quieres intentarlo de nuevo?",
            ),
            // The seed says that the message is very short, which is but one of the reasons.
            ("VALIDATION_ERROR", "No pude entender tu mensaje. ¿Podrías darme más detalles?"),
        ] {
            assert_eq!(message(code, Language::Spanish), expected, "{code}");
        }
    }

    #[test]
    fn a_tag_of_any_region_has_its_language() {
        for tag in ["es", "es-MX", "ES", "es_419"] {
            assert_eq!(Language::of(tag), Language::Spanish, "{tag}");
        }
        for tag in ["en", "en-GB", "fr", "", "est"] {
            assert_eq!(Language::of(tag), Language::English, "{tag}");
        }
    }

    // S001-ER-02, S001-ER-03, S001-ER-04, S001-ER-05, S001-ER-06
    #[test]
    fn what_passes_by_itself_is_recoverable() {
        for code in ["PROCESSING_TIMEOUT", "RATE_LIMIT", "TEMPORARY_ERROR"] {
            assert!(is_recoverable(code), "{code}");
        }
        for code in ["INVALID_REQUEST", "SPEC_NOT_AVAILABLE", "CAPABILITY_NOT_SUPPORTED", "FATAL_ERROR", "X"]
        {
            assert!(!is_recoverable(code), "{code}");
        }
    }
}
