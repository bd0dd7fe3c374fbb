//! What is said of spec files that cannot be used, of requests and answers that break the spec contract, and of rows to
//! measure the router on, in Spanish.
//!
//! The place and the key in front, and the rule behind, are told apart by [`super::messages::placed_refusal`].

/// What is to be added where a key is missing, and what is to be written in place of something else.
pub(super) const NAMES: &[(&str, &str)] = &[
    ("an id such as `id = \"trip-planner\"`", "un id como `id = \"trip-planner\"`"),
    (
        "a title for people, such as `title = \"Trip planner\"`",
        "un título para personas, como `title = \"Trip planner\"`",
    ),
    (
        "the languages that it answers in: `languages = [\"en\"]`",
        "los idiomas en los que responde: `languages = [\"en\"]`",
    ),
    ("`contract_version = \"1.0.0\"`", "`contract_version = \"1.0.0\"`"),
    ("the keyword: `{ text = \"…\", weight = 2.0 }`", "la palabra clave: `{ text = \"…\", weight = 2.0 }`"),
    ("a name such as `name = \"book_a_trip\"`", "un nombre como `name = \"book_a_trip\"`"),
    ("a name such as `name = \"action_planning\"`", "un nombre como `name = \"action_planning\"`"),
    ("what is answered: `text = \"…\"`", "lo que se responde: `text = \"…\"`"),
    ("the id of the other spec", "el id del otro spec"),
    ("why the other spec may help", "por qué el otro spec puede ayudar"),
    ("a number from 0 to 1", "un número de 0 a 1"),
    ("a code such as `INSUFFICIENT_CONTEXT`", "un código como `INSUFFICIENT_CONTEXT`"),
    (
        "what the user is told: `message = { en = \"…\" }`",
        "lo que se dice al usuario: `message = { en = \"…\" }`",
    ),
    ("true or false", "true o false"),
];

/// The narrower patterns stand before the wider ones: the first one that fits counts.
pub(super) const PATTERNS: &[(&str, &str)] = &[
    // Files as a whole (crates/router/src/load).
    (
        "and {0} more errors; correct the first ones and check again",
        "y {0} errores más; corrija los primeros y compruebe otra vez",
    ),
    (
        "{0} bytes, at most {1} are allowed; split the spec",
        "{0} bytes, se permiten {1} como máximo; divida el spec",
    ),
    (
        "not UTF-8 from byte {0} on; save the file as UTF-8",
        "no es UTF-8 desde el byte {0}; guarde el archivo como UTF-8",
    ),
    // Keys and values of any kind.
    ("there is no key `{0}` here; there are: {1}", "no hay ninguna clave `{0}` aquí; hay: {1}"),
    ("`{0}` is missing; add {1}", "falta `{0}`; añada {1}"),
    ("this is a {0}; write {1}", "esto es de tipo {0}; escriba {1}"),
    (
        "an empty text; write something, or leave the key out",
        "un texto vacío; escriba algo, u omita la clave",
    ),
    (
        "{0} characters, at most {1} are allowed; shorten it",
        "{0} caracteres, se permiten {1} como máximo; acórtelo",
    ),
    ("not a finite number", "no es un número finito"),
    ("a whole number beyond 64 bits", "un número entero que no cabe en 64 bits"),
    ("a number from {0} to {1} is allowed", "se permite un número de {0} a {1}"),
    (
        "{0} items, at most {1} are allowed; split the spec, or keep the best ones",
        "{0} elementos, se permiten {1} como máximo; divida el spec, o deje los mejores",
    ),
    (
        "`{0}` is already in this list; remove one of them",
        "`{0}` ya está en esta lista; quite uno de los dos",
    ),
    // Names and single values (crates/router/src/check.rs).
    (
        "an id is 1 to 64 characters: lower-case words and digits, hyphens in between, such as `trip-planner`",
        "un id tiene de 1 a 64 caracteres: palabras en minúsculas y cifras, con guiones entre ellas, como `trip-planner`",
    ),
    (
        "a name is 1 to 64 characters: a lower-case letter, then letters, digits, `_` and `-`, such as `action_planning`",
        "un nombre tiene de 1 a 64 caracteres: una minúscula, y después letras, cifras, `_` y `-`, como `action_planning`",
    ),
    (
        "`unclear` marks an unrecognised intent; choose another name",
        "`unclear` señala una intención no reconocida; elija otro nombre",
    ),
    (
        "a language is its code of two or three lower-case letters, such as `es`",
        "un idioma es su código de dos o tres minúsculas, como `es`",
    ),
    (
        "the name of an agent has no white space; `template` is built in",
        "el nombre de un agente no tiene espacios; `template` viene incorporado",
    ),
    (
        "an error code is 1 to 64 characters: upper-case letters, digits and `_`, such as `NO_SEATS_LEFT`",
        "un código de error tiene de 1 a 64 caracteres: mayúsculas, cifras y `_`, como `NO_SEATS_LEFT`",
    ),
    (
        "the spec contract has this code already; leave it out, `error.code` may name it all the same",
        "el contrato de specs ya tiene este código; omítalo, `error.code` puede nombrarlo igualmente",
    ),
    (
        "`{0}` is neither a code of the spec contract nor one of `error_codes`; did you mean `{1}`?",
        "`{0}` no es un código del contrato de specs ni uno de `error_codes`; ¿quiso decir `{1}`?",
    ),
    (
        "`{0}` is neither a code of the spec contract nor one of `error_codes`",
        "`{0}` no es un código del contrato de specs ni uno de `error_codes`",
    ),
    ("a version has three numbers, such as `1.0.0`", "una versión tiene tres números, como `1.0.0`"),
    (
        "this program supports version {0} of the spec contract; write `1.0.0`",
        "este programa admite la versión {0} del contrato de specs; escriba `1.0.0`",
    ),
    (
        "a weight is above 0 and at most 10; 1 is what a plain string has",
        "un peso es mayor que 0 y como máximo 10; 1 es el de un texto solo",
    ),
    ("a confidence is from 0 to 1", "una confianza va de 0 a 1"),
    ("a format is `text`, `markdown` or `html`", "un formato es `text`, `markdown` o `html`"),
    (
        "no letter and no digit, so it could match nothing; write words",
        "ni una letra ni una cifra, así que no podría coincidir con nada; escriba palabras",
    ),
    (
        "the expression matches the empty text, and so any text; require at least one character",
        "la expresión coincide con el texto vacío, y así con cualquiera; exija al menos un carácter",
    ),
    (
        "it needs more than 512 KiB when compiled; use smaller repetitions, or several expressions",
        "compilada necesita más de 512 KiB; use repeticiones menores, o varias expresiones",
    ),
    ("not a regular expression at character {0}: {1}", "no es una expresión regular en el carácter {0}: {1}"),
    ("not a regular expression: {0}", "no es una expresión regular: {0}"),
    (
        "unbalanced `{0}`; a literal brace is written twice",
        "`{0}` sin pareja; una llave literal se escribe dos veces",
    ),
    (
        "there is no placeholder `{0}`; did you mean `{1}`? (there are: {2})",
        "no hay ningún marcador `{0}`; ¿quiso decir `{1}`? (hay: {2})",
    ),
    ("there is no placeholder `{0}` (there are: {1})", "no hay ningún marcador `{0}` (hay: {1})"),
    (
        "`{0}` may be empty; say what stands there then: `{1}` or `{2}`",
        "`{0}` puede quedar vacío; diga qué va entonces ahí: `{1}` o `{2}`",
    ),
    (
        "`{0}` is not among the `languages` of this spec; add it there, or remove it here",
        "`{0}` no está entre los `languages` de este spec; añádalo allí, o quítelo aquí",
    ),
    // Between files.
    ("{0} has the id `{1}`, too; change one of them", "{0} también tiene el id `{1}`; cambie uno de los dos"),
    (
        "{0} is the default spec already; only one spec can be the default",
        "{0} ya es el spec predeterminado; solo un spec puede serlo",
    ),
    // Keywords, intents and limits (crates/router/src/load/spec.rs).
    (
        "no language; name at least one, such as `languages = [\"en\"]`",
        "ningún idioma; nombre al menos uno, como `languages = [\"en\"]`",
    ),
    (
        "`{0}` matches the same texts as `{1}` above; remove one of them",
        "`{0}` coincide con los mismos textos que `{1}`, más arriba; quite uno de los dos",
    ),
    (
        "there is an intent `{0}` above; merge their examples",
        "ya hay una intención `{0}` más arriba; junte sus ejemplos",
    ),
    (
        "more than {0} examples in this spec; keep those that differ most, or split the spec",
        "más de {0} ejemplos en este spec; deje los que más difieran, o divida el spec",
    ),
    (
        "this spec has no pattern `{0}`; did you mean `{1}`?",
        "este spec no tiene ningún patrón `{0}`; ¿quiso decir `{1}`?",
    ),
    (
        "this spec has no pattern `{0}`; add it to `[[patterns]]`, or name another one",
        "este spec no tiene ningún patrón `{0}`; añádalo a `[[patterns]]`, o nombre otro",
    ),
    (
        "no text has at least {0} and at most {1} characters; swap the two",
        "ningún texto tiene al menos {0} y como máximo {1} caracteres; intercambie los dos",
    ),
    (
        "the agent `template` could never answer; give a pattern a template, or name the agent that serves this spec: `agent = \"…\"`",
        "el agente `template` nunca podría responder; dé una plantilla a un patrón, o nombre el agente que sirve a este spec: `agent = \"…\"`",
    ),
    (
        "the pattern `{0}` has no template and cannot answer; add a template",
        "el patrón `{0}` no tiene plantilla y no puede responder; añada una plantilla",
    ),
    // Patterns (crates/router/src/load/pattern.rs).
    (
        "there is a pattern `{0}` above; rename one of them",
        "ya hay un patrón `{0}` más arriba; cambie el nombre de uno de los dos",
    ),
    (
        "texts that are long enough are not refused, and there is no template for them; add one, or leave `below_characters` out",
        "los textos bastante largos no se rechazan, y no hay plantilla para ellos; añada una, u omita `below_characters`",
    ),
    (
        "more than {0} expressions in this spec; use phrases where they do",
        "más de {0} expresiones en este spec; use frases donde basten",
    ),
    (
        "no template; write one, or leave the language out",
        "ninguna plantilla; escriba una, u omita el idioma",
    ),
    (
        "no message; say in at least one language what the user is told",
        "ningún mensaje; diga al menos en un idioma lo que se dice al usuario",
    ),
    (
        "this is the spec itself; name another one, or leave the key out",
        "este es el mismo spec; nombre otro, u omita la clave",
    ),
    // The spec contract (crates/contracts/src/spec).
    ("`{0}` is missing where `success` is {1}", "falta `{0}`, y `success` es {1}"),
    ("`{0}` cannot be where `success` is {1}", "`{0}` no puede estar donde `success` es {1}"),
    ("`{0}` is empty", "`{0}` está vacío"),
    (
        "{0} is before 1970; milliseconds since then go here",
        "{0} es anterior a 1970; aquí van los milisegundos desde entonces",
    ),
    ("there is nothing but white space in the text", "en el texto no hay más que espacios"),
    ("\"{0}\" does not answer \"{1}\"", "\"{0}\" no responde a \"{1}\""),
    // Rows to measure on (crates/router/src/eval/rows.rs).
    (
        "expected text, label and split with tabs between them, found {0} columns",
        "se esperaban texto, etiqueta y parte separados por tabuladores, se encontraron {0} columnas",
    ),
];

#[cfg(test)]
mod tests {
    use crate::words::Language;
    use crate::words::messages::{placed_refusal, refusal};

    #[test]
    fn errors_of_spec_files_are_told_in_spanish_behind_their_places() {
        #[track_caller]
        fn check(english: &str, expected: &str) {
            assert_eq!(Language::English.within(|| placed_refusal(english).into_owned()), english);
            assert_eq!(Language::Spanish.within(|| placed_refusal(english).into_owned()), expected);
        }
        check(
            "specs/kiro.toml:2:1: titel: there is no key `titel` here; did you mean `title`? (UNKNOWN_KEY)",
            "specs/kiro.toml:2:1: titel: no hay ninguna clave `titel` aquí; ¿quiso decir `title`? (UNKNOWN_KEY)",
        );
        check(
            "a.toml:1:1: x: there is no key `x` here; there are: id, title (UNKNOWN_KEY)",
            "a.toml:1:1: x: no hay ninguna clave `x` aquí; hay: id, title (UNKNOWN_KEY)",
        );
        check(
            "a.toml:1:1: title: `title` is missing; add a title for people, such as `title = \"Trip planner\"` \
             (MISSING_KEY)",
            "a.toml:1:1: title: falta `title`; añada un título para personas, como `title = \"Trip planner\"` \
             (MISSING_KEY)",
        );
        check(
            "a.toml:9:1: patterns[0].error.message: `message` is missing; add what the user is told: \
             `message = { en = \"…\" }` (MISSING_KEY)",
            "a.toml:9:1: patterns[0].error.message: falta `message`; añada lo que se dice al usuario: \
             `message = { en = \"…\" }` (MISSING_KEY)",
        );
        check(
            "a.toml:4:9: id: this is a integer; write a string (WRONG_TYPE)",
            "a.toml:4:9: id: esto es de tipo integer; escriba un texto (WRONG_TYPE)",
        );
        check(
            "a.toml:4:9: patterns[0].templates.es[0]: there is no placeholder `txet`; did you mean `text`? \
             (there are: text, topic) (UNKNOWN_PLACEHOLDER)",
            "a.toml:4:9: patterns[0].templates.es[0]: no hay ningún marcador `txet`; ¿quiso decir `text`? \
             (hay: text, topic) (UNKNOWN_PLACEHOLDER)",
        );
        check(
            "a.toml:4:9: `{keyword}` may be empty; say what stands there then: `{keyword|something}` or `{keyword|}` \
             (INVALID_TEMPLATE)",
            "a.toml:4:9: `{keyword}` puede quedar vacío; diga qué va entonces ahí: `{keyword|something}` o \
             `{keyword|}` (INVALID_TEMPLATE)",
        );
        check(
            "a.toml:4:9: patterns[0].expressions[0]: not a regular expression at character 3: unclosed group \
             (INVALID_EXPRESSION)",
            "a.toml:4:9: patterns[0].expressions[0]: no es una expresión regular en el carácter 3: unclosed group \
             (INVALID_EXPRESSION)",
        );
        check(
            "b.toml:1:6: id: a.toml has the id `kiro`, too; change one of them (DUPLICATE_ID)",
            "b.toml:1:6: id: a.toml también tiene el id `kiro`; cambie uno de los dos (DUPLICATE_ID)",
        );
        check(
            "a.toml:1:1: not UTF-8 from byte 7 on; save the file as UTF-8 (NOT_UTF8)",
            "a.toml:1:1: no es UTF-8 desde el byte 7; guarde el archivo como UTF-8 (NOT_UTF8)",
        );
        check(
            "rows.tsv:2: expected text, label and split with tabs between them, found 1 columns",
            "rows.tsv:2: se esperaban texto, etiqueta y parte separados por tabuladores, se encontraron 1 columnas",
        );
    }

    #[test]
    fn the_refusal_of_a_reload_is_told_with_its_first_error() {
        let english = "the specs stay unchanged: a.toml:2:1: id: `id` is missing; add an id such as \
                       `id = \"trip-planner\"` (MISSING_KEY)";
        assert_eq!(
            Language::Spanish.within(|| refusal(english).into_owned()),
            "los specs quedan como estaban: a.toml:2:1: id: falta `id`; añada un id como `id = \"trip-planner\"` \
             (MISSING_KEY)"
        );
    }

    /// The rules of seed 001, "Validación del Contrato", as this project words them.
    #[test]
    fn violations_of_the_spec_contract_are_told_in_spanish() {
        for (english, expected) in [
            ("`response` is missing where `success` is true", "falta `response`, y `success` es true"),
            ("`error` cannot be where `success` is true", "`error` no puede estar donde `success` es true"),
            ("`metadata` is missing", "falta `metadata`"),
            ("`spec` is empty", "`spec` está vacío"),
            ("there is nothing but white space in the text", "en el texto no hay más que espacios"),
            (
                "-1 is before 1970; milliseconds since then go here",
                "-1 es anterior a 1970; aquí van los milisegundos desde entonces",
            ),
            ("1.5 is not between 0 and 1", "1.5 no está entre 0 y 1"),
            ("1001 items; at most 1000 are allowed", "1001 elementos; se permiten 1000 como máximo"),
            ("\"wave\" does not answer \"kiro\"", "\"wave\" no responde a \"kiro\""),
        ] {
            assert_eq!(refusal(english), english);
            assert_eq!(Language::Spanish.within(|| refusal(english).into_owned()), expected);
        }
    }
}
