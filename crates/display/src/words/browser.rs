//! What goes wrong in a browser, in both languages.

/// Patterns in English and in Spanish; the first one that fits counts.
pub(super) type Patterns = &'static [(&'static str, &'static str)];

pub(super) const PATTERNS: Patterns = &[
    // Failures of actions (crates/executor/src/perform).
    ("no element matches the target", "ningún elemento coincide con el objetivo"),
    ("{0} elements match the target", "{0} elementos coinciden con el objetivo"),
    ("something lies over the target", "algo tapa el objetivo"),
    ("signing in has failed", "el inicio de sesión ha fallado"),
    ("the page could not be loaded", "no se pudo cargar la página"),
    ("the page could not be loaded: {0}", "no se pudo cargar la página: {0}"),
    ("{0} did not come in time", "{0} no llegó a tiempo"),
    (
        "the action would lead to {0}, which is not on the allowlist",
        "la acción llevaría a {0}, que no está en la lista de permitidos",
    ),
    ("{0} is not on the allowlist", "{0} no está en la lista de permitidos"),
    (
        "the action is critical, and nothing would prove its effect",
        "la acción es crítica, y nada demostraría su efecto",
    ),
    (
        "the policy makes the action critical, and nothing would prove its effect",
        "la política hace crítica la acción, y nada demostraría su efecto",
    ),
    (
        "the action submits something, which makes it critical, and nothing would prove its effect",
        "la acción envía algo, lo que la hace crítica, y nada demostraría su efecto",
    ),
    (
        "what is to prove the action's effect holds before it already",
        "lo que debe demostrar el efecto de la acción ya se cumple antes de ella",
    ),
    ("the action breaks rules: {0}", "la acción incumple reglas: {0}"),
    ("does not hold: {0}", "no se cumple: {0}"),
    ("the browser is lost: {0}", "se perdió el navegador: {0}"),
    ("the evidence could not be taken or kept", "no se pudo tomar o guardar la evidencia"),
    // Files.
    ("the input takes one file", "el campo admite un solo archivo"),
    ("the file is not below a declared folder", "el archivo no está en ninguna carpeta declarada"),
    ("there is no such file", "no existe ese archivo"),
    ("this is not a regular file", "no es un archivo normal"),
    ("the file cannot be read", "no se puede leer el archivo"),
    ("the input did not take the file", "el campo no aceptó el archivo"),
    ("the files could not be given to the page", "no se pudieron dar los archivos a la página"),
    ("the page does not list the file", "la página no muestra el archivo"),
    ("no download has ended in time", "ninguna descarga terminó a tiempo"),
    ("the download was cancelled", "se canceló la descarga"),
    ("the download could not be begun", "no se pudo empezar la descarga"),
    ("the download could not be loaded", "no se pudo cargar la descarga"),
    ("the download that was expected did not come", "la descarga esperada no llegó"),
    ("the download that the action began broke off", "la descarga que empezó la acción se interrumpió"),
];
