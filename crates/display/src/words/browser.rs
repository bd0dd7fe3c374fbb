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
    ("the document did not come in time", "el documento no llegó a tiempo"),
    ("a document did not come in time", "no llegó a tiempo ningún documento"),
    ("a document that stays did not come in time", "no llegó a tiempo un documento que se quedara"),
    ("an answer of the page did not come in time", "la página no respondió a tiempo"),
    ("the page to take the input did not come in time", "la página no tomó la entrada a tiempo"),
    ("the browser to begin the drag did not come in time", "el navegador no empezó a arrastrar a tiempo"),
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
    // Causes (crates/executor/src/page.rs), with each of the values that is a text.
    ("the element is covered by something else", "otra cosa tapa el elemento"),
    ("the element is covered by {0}", "el elemento está tapado por {0}"),
    (
        "the element has moved away, and something else is where it was",
        "el elemento se ha movido, y en su lugar hay otra cosa",
    ),
    (
        "the element has moved away, and {0} is where it was",
        "el elemento se ha movido, y en su lugar está {0}",
    ),
    (
        "the element was pressed, and the rest was stopped at something else",
        "el elemento se pulsó, y el resto se detuvo ante otra cosa",
    ),
    (
        "the element was pressed, and the rest was stopped at {0}",
        "el elemento se pulsó, y el resto se detuvo ante {0}",
    ),
    ("the element is no longer in the page", "el elemento ya no está en la página"),
    ("the element cannot be acted on: disabled", "no se puede actuar sobre el elemento: deshabilitado"),
    ("the element cannot be acted on: invalid", "no se puede actuar sobre el elemento: no es válido"),
    (
        "the element cannot be acted on: malformed value",
        "no se puede actuar sobre el elemento: el valor está mal formado",
    ),
    ("the element cannot be acted on: moving", "no se puede actuar sobre el elemento: se mueve"),
    ("the element cannot be acted on: no form", "no se puede actuar sobre el elemento: no tiene formulario"),
    (
        "the element cannot be acted on: no such option",
        "no se puede actuar sobre el elemento: no existe esa opción",
    ),
    (
        "the element cannot be acted on: not a picker",
        "no se puede actuar sobre el elemento: no es un selector",
    ),
    (
        "the element cannot be acted on: not a select",
        "no se puede actuar sobre el elemento: no es una lista de opciones",
    ),
    (
        "the element cannot be acted on: not editable",
        "no se puede actuar sobre el elemento: no se puede editar",
    ),
    (
        "the element cannot be acted on: not in view together",
        "no se puede actuar sobre el elemento: no caben juntos en la vista",
    ),
    ("the element cannot be acted on: not visible", "no se puede actuar sobre el elemento: no es visible"),
    (
        "the element cannot be acted on: option disabled",
        "no se puede actuar sobre el elemento: la opción está deshabilitada",
    ),
    (
        "the element cannot be acted on: outside of the element",
        "no se puede actuar sobre el elemento: queda fuera del elemento",
    ),
    (
        "the element cannot be acted on: outside the viewport",
        "no se puede actuar sobre el elemento: queda fuera de la vista",
    ),
    (
        "the element cannot be acted on: takes no focus",
        "no se puede actuar sobre el elemento: no recibe el foco",
    ),
    (
        "the element cannot be acted on: takes no pointer events",
        "no se puede actuar sobre el elemento: no recibe eventos del puntero",
    ),
    (
        "the element cannot be acted on: it does not take the input",
        "no se puede actuar sobre el elemento: no toma la entrada",
    ),
    (
        "the element cannot be acted on: it takes no characters",
        "no se puede actuar sobre el elemento: no admite caracteres",
    ),
    ("the field did not take the text", "el campo no tomó el texto"),
    (
        "the element cannot be acted on: the event did not arrive",
        "no se puede actuar sobre el elemento: el evento no llegó",
    ),
    (
        "the element cannot be acted on: it takes no files",
        "no se puede actuar sobre el elemento: no admite archivos",
    ),
    (
        "the element cannot be acted on: it takes one file",
        "no se puede actuar sobre el elemento: admite un solo archivo",
    ),
    (
        "the element cannot be acted on: it is not a table",
        "no se puede actuar sobre el elemento: no es una tabla",
    ),
    ("the element cannot be acted on: {0}", "no se puede actuar sobre el elemento: {0}"),
    ("the key would be used by {0}", "la tecla la usaría {0}"),
    (
        "the key was not sent, since nothing could have stopped it in a document of the page: {0}",
        "no se envió la tecla, porque nada habría podido detenerla en un documento de la página: {0}",
    ),
    ("nobody can tell what has received the key", "no se puede saber qué recibió la tecla"),
    (
        "the page moved the focus to what submits a form after the key was pressed, and the rest was stopped",
        "la página movió el foco a lo que envía un formulario después de pulsar la tecla, y se detuvo el resto",
    ),
    ("the document did not come within {0}", "el documento no llegó en {0}"),
    ("a document did not come within {0}", "ningún documento llegó en {0}"),
    ("a document that stays did not come within {0}", "en {0} no llegó un documento que se quedara"),
    ("an answer of the page did not come within {0}", "la página no respondió en {0}"),
    ("the page to take the input did not come within {0}", "la página no tomó la entrada en {0}"),
    (
        "the browser's sign that the drag has begun did not come within {0}",
        "el navegador no empezó a arrastrar en {0}",
    ),
    ("{0} did not come within {1}", "{0} no llegó en {1}"),
    // Why a browser is lost.
    ("the tab has crashed", "la pestaña dejó de funcionar"),
    ("there is no tab", "no hay ninguna pestaña"),
    ("the browser is gone", "el navegador ya no está"),
    ("the connection to the browser was closed", "se cerró la conexión con el navegador"),
    ("the connection to the browser broke", "se cortó la conexión con el navegador"),
    (
        "the browser sent a message of more than {0} bytes",
        "el navegador envió un mensaje de más de {0} bytes",
    ),
    ("the browser sent something that is not a message", "el navegador envió algo que no es un mensaje"),
];
