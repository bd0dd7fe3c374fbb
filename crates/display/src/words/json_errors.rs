//! Why a text is no JSON, in Spanish: the reader's own words, with line and column.

/// What the reader says, by its kinds. The texts have no values, for those of some are braces.
const KINDS: &[(&str, &str)] = &[
    ("EOF while parsing a list", "el texto termina dentro de una lista"),
    ("EOF while parsing an object", "el texto termina dentro de un objeto"),
    ("EOF while parsing a string", "el texto termina dentro de un texto entre comillas"),
    ("EOF while parsing a value", "el texto termina donde se espera un valor"),
    ("expected `:`", "se espera `:`"),
    ("expected `,` or `]`", "se espera `,` o `]`"),
    ("expected `,` or `}`", "se espera `,` o `}`"),
    ("expected ident", "se espera `true`, `false` o `null`"),
    ("expected value", "se espera un valor"),
    ("expected `\"`", "se esperan comillas"),
    ("invalid escape", "una secuencia de escape no es válida"),
    ("invalid number", "un número no es válido"),
    ("number out of range", "un número es demasiado grande"),
    ("invalid unicode code point", "un carácter Unicode no es válido"),
    (
        "control character (\\u0000-\\u001F) found while parsing a string",
        "hay un carácter de control (\\u0000-\\u001F) en un texto",
    ),
    ("key must be a string", "una clave debe ser un texto entre comillas"),
    ("lone leading surrogate in hex escape", "falta la segunda mitad de un par de escapes"),
    ("trailing comma", "sobra una coma al final"),
    ("trailing characters", "hay algo más después del valor"),
    ("unexpected end of hex escape", "una secuencia de escape termina antes de tiempo"),
    ("recursion limit exceeded", "está anidado con demasiada profundidad"),
];

/// The error in Spanish; `None` for a text that is none. What is wrong with a key is told by `of_key`.
pub(super) fn spanish(text: &str, of_key: impl Fn(&str) -> Option<String>) -> Option<String> {
    let (said, place) = text.rsplit_once(" at line ")?;
    let (line, column) = place.split_once(" column ")?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(line) || !is_number(column) {
        return None;
    }
    let kind = KINDS.iter().find(|(english, _)| *english == said);
    let told = kind.map(|(_, spanish)| (*spanish).to_owned()).or_else(|| of_key(said))?;
    Some(format!("{told}, en la línea {line}, columna {column}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reader itself says what is wrong with each of these.
    const BROKEN: [(&str, &str); 20] = [
        ("[1,", "el texto termina donde se espera un valor, en la línea 1, columna 3"),
        ("[1", "el texto termina dentro de una lista, en la línea 1, columna 2"),
        ("{\"a\":1", "el texto termina dentro de un objeto, en la línea 1, columna 6"),
        ("{\n\"a", "el texto termina dentro de un texto entre comillas, en la línea 2, columna 2"),
        ("", "el texto termina donde se espera un valor, en la línea 1, columna 0"),
        ("{\"a\" 1}", "se espera `:`, en la línea 1, columna 6"),
        ("[1 2]", "se espera `,` o `]`, en la línea 1, columna 4"),
        ("{\"a\":1 2}", "se espera `,` o `}`, en la línea 1, columna 8"),
        ("[tru]", "se espera `true`, `false` o `null`, en la línea 1, columna 5"),
        ("[x]", "se espera un valor, en la línea 1, columna 2"),
        (r#""\q""#, "una secuencia de escape no es válida, en la línea 1, columna 3"),
        ("[01]", "un número no es válido, en la línea 1, columna 3"),
        ("1e999", "un número es demasiado grande, en la línea 1, columna 5"),
        ("{1:2}", "una clave debe ser un texto entre comillas, en la línea 1, columna 2"),
        ("\"a\nb\"", "hay un carácter de control (\\u0000-\\u001F) en un texto, en la línea 2, columna 0"),
        ("[1,]", "sobra una coma al final, en la línea 1, columna 4"),
        ("1 2", "hay algo más después del valor, en la línea 1, columna 3"),
        (r#""\ud800x""#, "una secuencia de escape termina antes de tiempo, en la línea 1, columna 8"),
        (r#""\ud800\u0041""#, "falta la segunda mitad de un par de escapes, en la línea 1, columna 13"),
        (r#""\udc00""#, "falta la segunda mitad de un par de escapes, en la línea 1, columna 7"),
    ];

    #[test]
    fn what_the_reader_says_of_broken_json_has_a_spanish_form_with_its_place() {
        for (text, expected) in BROKEN {
            let error = serde_json::from_str::<serde_json::Value>(text).unwrap_err().to_string();
            assert_eq!(spanish(&error, |_| None).as_deref(), Some(expected), "{text}: {error}");
        }
        let deep = "[".repeat(200);
        let error = serde_json::from_str::<serde_json::Value>(&deep).unwrap_err().to_string();
        assert!(spanish(&error, |_| None).unwrap().starts_with("está anidado"), "{error}");
    }

    #[test]
    fn what_is_no_error_of_the_reader_stays_as_it_is() {
        for text in [
            "trailing comma",
            "trailing comma at line 1",
            "a comma at line 1 column 2",
            "trailing comma at line x column 2",
        ] {
            assert_eq!(spanish(text, |_| None), None, "{text}");
        }
        let of_key = |said: &str| (said == "the key `a` is written twice").then(|| "dos veces".to_owned());
        let told = spanish("the key `a` is written twice at line 3 column 4", of_key);
        assert_eq!(told.as_deref(), Some("dos veces, en la línea 3, columna 4"));
    }
}
