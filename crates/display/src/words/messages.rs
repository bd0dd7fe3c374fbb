//! What the daemon itself has written into the log, in Spanish.
//!
//! The log keeps errors, reasons and questions in one language, English, so that programs can rely on it. A text that the
//! daemon has made by one of these patterns is told in Spanish with the same values; one of an agent is told as it is.

use std::borrow::Cow;

use super::{Language, browser, configuration, fill, json_errors, refusals, specs};

/// The text in the language in use.
#[must_use]
pub fn message(text: &str) -> Cow<'_, str> {
    match Language::current() {
        Language::English => Cow::Borrowed(text),
        Language::Spanish => spanish(text).map_or(Cow::Borrowed(text), Cow::Owned),
    }
}

/// A text of the project's own about what it refuses, in the language in use: a violation of a document, or the refusal of a
/// call. It is never one of an agent.
#[must_use]
pub fn refusal(text: &str) -> Cow<'_, str> {
    match Language::current() {
        Language::English => Cow::Borrowed(text),
        Language::Spanish => refused(text).map_or(Cow::Borrowed(text), Cow::Owned),
    }
}

/// What is said of a setting that has no value of its own, or of where it comes from, in the language in use.
#[must_use]
pub fn setting(text: &str) -> Cow<'_, str> {
    match Language::current() {
        Language::English => Cow::Borrowed(text),
        Language::Spanish => filled(configuration::SETTINGS, text).map_or(Cow::Borrowed(text), Cow::Owned),
    }
}

/// A refusal behind its place and its key, such as `FILE:3:1: KEY: refusal`, in the language in use.
#[must_use]
pub fn placed_refusal(text: &str) -> Cow<'_, str> {
    if Language::current() == Language::English {
        return Cow::Borrowed(text);
    }
    placed(text).map_or(Cow::Borrowed(text), Cow::Owned)
}

fn placed(text: &str) -> Option<String> {
    // The rule that is broken stands behind what is said.
    let rule = text.rfind(" (").filter(|begin| is_rule(text.get(*begin..).unwrap_or_default()));
    let (said, rule) = text.split_at(rule.unwrap_or(text.len()));
    let begins = said.match_indices(": ").map(|(end, separator)| end + separator.len());
    let mut begins: Vec<usize> = [0].into_iter().chain(begins).collect();
    begins.reverse();
    begins.into_iter().find_map(|begin| {
        let (place, said) = said.split_at_checked(begin)?;
        Some(format!("{place}{}{rule}", refused(said)?))
    })
}

/// Returns whether the text is the name of a rule in brackets.
fn is_rule(text: &str) -> bool {
    let name = text.strip_prefix(" (").and_then(|rest| rest.strip_suffix(')'));
    let is_written = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.is_some_and(|name| name.bytes().all(is_written))
}

fn refused(text: &str) -> Option<String> {
    json_errors::spanish(text, of_key).or_else(|| spanish(text)).or_else(|| {
        let mut patterns = configuration::PATTERNS.iter().chain(specs::PATTERNS).chain(refusals::PATTERNS);
        patterns.find_map(|(english, spanish)| {
            let values = matched(english, text)?;
            let values: Vec<String> = values.iter().map(|value| value_of_refusal(english, value)).collect();
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            Some(fill(spanish, &values))
        })
    })
}

/// A value: the name of something that rules are about; a refusal of its own, where the pattern ends with it; else as it is.
fn value_of_refusal(pattern: &str, value: &str) -> String {
    let named = refusals::NAMES.iter().chain(specs::NAMES).find(|(english, _)| *english == value);
    let is_text = [": {0}", ": {1}", ": {2}"].iter().any(|ending| pattern.ends_with(ending));
    match named {
        Some((_, spanish)) => (*spanish).to_owned(),
        None if pattern == refusals::OF_SPECS => placed(value).unwrap_or_else(|| value.to_owned()),
        None if is_text && value.len() < MOST_NESTED => refused(value).unwrap_or_else(|| value.to_owned()),
        None => value.to_owned(),
    }
}

fn spanish(text: &str) -> Option<String> {
    PATTERNS.iter().chain(browser::PATTERNS).find_map(|(english, spanish)| {
        let values = matched(english, text)?;
        // A value may be such a text again: the cause in a reason.
        let values: Vec<String> = values.iter().map(|value| self::spanish_within(english, value)).collect();
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        Some(fill(spanish, &values))
    })
}

/// What is wrong with a key of a JSON object.
fn of_key(said: &str) -> Option<String> {
    let is_of_key = said.starts_with("the key ");
    is_of_key.then(|| filled(refusals::PATTERNS, said)).flatten()
}

/// A value of a pattern; where the pattern ends with it, it is a text of its own.
fn spanish_within(pattern: &str, value: &str) -> String {
    match [": {0}", ": {1}", ": {2}"].iter().any(|ending| pattern.ends_with(ending)) {
        true if value.len() < MOST_NESTED => {
            json_errors::spanish(value, of_key).or_else(|| spanish(value)).unwrap_or_else(|| value.to_owned())
        }
        _ => value.to_owned(),
    }
}

/// Bytes of a text within a text.
const MOST_NESTED: usize = 4_096;

/// The text in Spanish, if one of these patterns fits it.
pub(super) fn filled(patterns: browser::Patterns, text: &str) -> Option<String> {
    patterns.iter().find_map(|(english, spanish)| Some(fill(spanish, &matched(english, text)?)))
}

/// The values at the placeholders of the pattern, which stand in the order of their numbers.
fn matched<'a>(pattern: &str, text: &'a str) -> Option<Vec<&'a str>> {
    let mut pieces =
        pattern.split('{').map(|piece| piece.split_once('}').map_or(piece, |(_, literal)| literal));
    let mut rest = text.strip_prefix(pieces.next()?)?;
    let mut values = Vec::new();
    let mut pieces = pieces.peekable();
    while let Some(literal) = pieces.next() {
        let value = match (literal, pieces.peek()) {
            ("", _) => std::mem::take(&mut rest),
            (literal, None) => std::mem::take(&mut rest).strip_suffix(literal)?,
            (literal, Some(_)) => {
                let (value, after) = rest.split_once(literal)?;
                rest = after;
                value
            }
        };
        values.push(value);
    }
    rest.is_empty().then_some(values)
}

/// Patterns in English and in Spanish; the first one that fits counts.
const PATTERNS: &[(&str, &str)] = &[
    // Advice that a code has for one of its causes (crates/daemon/src/status.rs).
    (
        "Check spec files with `capataz router lint --specs DIR`, then start the daemon with them: `capataz serve --specs DIR`.",
        "Compruebe los archivos de specs con `capataz router lint --specs CARPETA`, e inicie entonces el daemon con ellos: `capataz serve --specs CARPETA`.",
    ),
    // Retries (crates/policy/src/retry).
    ("the only attempt failed", "el único intento falló"),
    ("all {0} attempts failed", "los {0} intentos fallaron"),
    ("not retryable: {0}", "no se puede reintentar: {0}"),
    (
        "another attempt would begin after the total timeout of {0}",
        "otro intento empezaría después del tiempo límite total de {0}",
    ),
    ("the attempt exceeded its timeout of {0}", "el intento excedió su tiempo límite de {0}"),
    (
        "task \"{0}\" succeeded after {1} failed attempt",
        "la tarea \"{0}\" tuvo éxito después de {1} intento fallido",
    ),
    (
        "task \"{0}\" succeeded after {1} failed attempts",
        "la tarea \"{0}\" tuvo éxito después de {1} intentos fallidos",
    ),
    ("{0} already ends all attempts", "{0} ya pone fin a todos los intentos"),
    (
        "{0} is on the list of failures that are not retried, by {1}",
        "{0} está en la lista de fallos que no se reintentan, por {1}",
    ),
    (
        "a failure without a code is on no list, and only failures that are known to pass are retried",
        "un fallo sin código no está en ninguna lista, y solo se reintentan los fallos que se sabe que pasan",
    ),
    (
        "{0} is on no list, and only failures that are known to pass are retried",
        "{0} no está en ninguna lista, y solo se reintentan los fallos que se sabe que pasan",
    ),
    (
        "the failing side says that another attempt would not help",
        "quien falló dice que otro intento no serviría",
    ),
    ("extend the timeout or check system load", "extienda el tiempo límite o examine la carga del sistema"),
    (
        "wait before retrying or reduce the request rate",
        "espere antes de reintentar o reduzca la frecuencia de las solicitudes",
    ),
    (
        "check the network connection and the service's availability",
        "compruebe la conexión de red y la disponibilidad del servicio",
    ),
    ("investigate the root cause", "investigue la causa de fondo"),
    // Waves (crates/policy/src/aggregation).
    ("quorum not met: {0}, needs {1}", "quórum no alcanzado: {0}, se necesita {1}"),
    ("quorum not met: {0}", "quórum no alcanzado: {0}"),
    ("quorum met: {0}", "quórum alcanzado: {0}"),
    ("critical task \"{0}\" failed", "falló la tarea crítica \"{0}\""),
    (
        "task \"{0}\" failed; the run goes on without it",
        "la tarea \"{0}\" falló; la ejecución continúa sin ella",
    ),
    (
        "the run ended with failures: {0} tasks succeeded",
        "la ejecución terminó con fallos: {0} tareas tuvieron éxito",
    ),
    ("no failures: {0}", "ningún fallo: {0}"),
    ("fail_fast stops at the first failure: {0}", "fail_fast se detiene en el primer fallo: {0}"),
    ("continue_all goes on: {0}", "continue_all continúa: {0}"),
    ("no critical task failed: {0}", "no falló ninguna tarea crítica: {0}"),
    ("a critical task failed: {0}", "falló una tarea crítica: {0}"),
    ("a task failed", "una tarea falló"),
    // Lifecycle and time (crates/policy/src/lifecycle.rs, timeout.rs).
    ("nothing may follow {0}", "nada puede seguir a {0}"),
    ("{0} may be followed by {1}", "a {0} le puede seguir {1}"),
    ("task \"{0}\" is {1} but never was ACTIVE", "la tarea \"{0}\" está {1} pero nunca estuvo ACTIVE"),
    ("a person has chosen to abort the run", "una persona eligió abortar la ejecución"),
    ("there is no state file {0}", "no hay ningún archivo de estado {0}"),
    (
        "Name the state file that is meant, or begin one by `run --session`.",
        "Indique el archivo de estado que quiere, o empiece uno con `run --session`.",
    ),
    ("there is no task \"{0}\"", "no hay ninguna tarea \"{0}\""),
    ("there is no agent \"{0}\"", "no hay ningún agente \"{0}\""),
    ("there is no command \"{0}\"", "no hay ningún comando \"{0}\""),
    ("there is no resource \"{0}\"", "no hay ningún recurso \"{0}\""),
    (
        "task \"{0}\" exceeded its timeout of {1}: it has taken {2}",
        "la tarea \"{0}\" excedió su tiempo límite de {1}: lleva {2}",
    ),
    (
        "task \"{0}\" has less than {1} left before its timeout",
        "a la tarea \"{0}\" le queda menos de {1} de su tiempo límite",
    ),
    ("task \"{0}\" has {1} left before its timeout", "a la tarea \"{0}\" le quedan {1} de su tiempo límite"),
    // Runs (crates/engine/src/decide).
    (
        "the failure {0} of task \"{1}\" has no known severity, and counts as HIGH",
        "el fallo {0} de la tarea \"{1}\" no tiene una severidad conocida, y cuenta como HIGH",
    ),
    (
        "no worker that serves \"{0}\" is connected; task \"{1}\" waits",
        "no hay ningún worker conectado que sirva a \"{0}\"; la tarea \"{1}\" espera",
    ),
    (
        "the worker of task \"{0}\" is gone, and the task must run at most once (lease {1})",
        "el worker de la tarea \"{0}\" ya no está, y la tarea no debe correr más de una vez (asignación {1})",
    ),
    ("Task \"{0}\" failed with {1}. What now?", "La tarea \"{0}\" falló con {1}. ¿Qué hacer?"),
    ("The time of task \"{0}\" is over. What now?", "El tiempo de la tarea \"{0}\" se agotó. ¿Qué hacer?"),
    (
        "What became of task \"{0}\"? Its worker \"{1}\" has come back and says that it is done.",
        "¿Qué fue de la tarea \"{0}\"? Su worker \"{1}\" ha vuelto y dice que está hecha.",
    ),
    (
        "What became of task \"{0}\"? Its worker \"{1}\" has come back and says that it failed with {2}.",
        "¿Qué fue de la tarea \"{0}\"? Su worker \"{1}\" ha vuelto y dice que falló con {2}.",
    ),
    (
        "What became of task \"{0}\"? Its worker \"{1}\" has come back and says that it stopped the work.",
        "¿Qué fue de la tarea \"{0}\"? Su worker \"{1}\" ha vuelto y dice que detuvo el trabajo.",
    ),
    ("What became of task \"{0}\"?", "¿Qué fue de la tarea \"{0}\"?"),
    (
        "no worker took the task within {0}; agent \"{1}\"",
        "ningún worker tomó la tarea en {0}; agente \"{1}\"",
    ),
    (
        "{0} leases were lost, the last one by worker \"{1}\"",
        "se perdieron {0} asignaciones, la última del worker \"{1}\"",
    ),
    (
        "no worker takes the task; worker \"{0}\" was the last one that handed it back",
        "ningún worker toma la tarea; el worker \"{0}\" fue el último que la devolvió",
    ),
    ("a CRITICAL failure aborts the run", "un fallo CRITICAL aborta la ejecución"),
    ("its phase was rolled back", "su fase se revirtió"),
    ("its run went back to a checkpoint", "su ejecución volvió a un punto de control"),
    ("the wave's policy has decided without it", "la política de la ola decidió sin ella"),
    ("the run aborts", "la ejecución aborta"),
    ("task \"{0}\" has no output", "la tarea \"{0}\" no tiene salida"),
    (
        "the resolved input has {0} bytes, at most {1} for a task and {2} for a wave",
        "la entrada resuelta tiene {0} bytes, como máximo {1} para una tarea y {2} para una ola",
    ),
    (
        "the references of the wave have to do with more than {0} bytes of outputs, {1} bytes of inputs or {2} values",
        "las referencias de la ola abarcan más de {0} bytes de salidas, {1} bytes de entradas o {2} valores",
    ),
    (
        "with this input the run's plan has {0} bytes; at most {1}",
        "con esta entrada el plan de la ejecución tiene {0} bytes; {1} como máximo",
    ),
    (
        "an ancestor has its turn in session {0}, and waits for this run",
        "una antecesora tiene su turno en la sesión {0}, y espera a esta ejecución",
    ),
    ("the input is no text, and an ask needs one", "la entrada no es un texto, y una pregunta lo necesita"),
    ("as the text of an ask: {0}", "como texto de una pregunta: {0}"),
    ("cancelled: {0}", "cancelada: {0}"),
    ("the run was cancelled", "la ejecución fue cancelada"),
    ("worker \"{0}\" cancelled the task by itself", "el worker \"{0}\" canceló la tarea por su cuenta"),
    ("run {0} was cancelled", "la ejecución {0} fue cancelada"),
    ("run {0} failed without an error", "la ejecución {0} falló sin un error"),
    ("the run has more than {0} events", "la ejecución tiene más de {0} eventos"),
    (
        "the state of the run has {0} bytes, which is too much",
        "el estado de la ejecución tiene {0} bytes, que son demasiados",
    ),
    ("the run has finished", "la ejecución ha terminado"),
    // Pipelines (crates/engine/src/machine/pipeline, crates/shard/src/phases).
    (
        "the phase \"{0}\" is blocked: {1}; {2} items have failed",
        "la fase \"{0}\" está bloqueada: {1}; fallaron {2} elementos",
    ),
    ("the phase \"{0}\" is blocked: {1}", "la fase \"{0}\" está bloqueada: {1}"),
    (
        "Revision {0} of the plan has {1} steps. Is it to be worked on?",
        "La revisión {0} del plan tiene {1} pasos. ¿Se trabaja con ella?",
    ),
    ("Is {0} to be called with {1}?", "¿Se llama a {0} con {1}?"),
    ("{0}. Is the query done?", "{0}. ¿Está hecha la consulta?"),
    ("{0}. Is the action to be done?", "{0}. ¿Se hace la acción?"),
    ("{0}. Is the plan to be worked on?", "{0}. ¿Se sigue con el plan?"),
    ("{0}. Is it to be asked again?", "{0}. ¿Se le consulta otra vez?"),
    ("{0}. Is it to be worked on?", "{0}. ¿Se sigue con él?"),
    (
        "the planner says that the plan is done, and {0} steps of it are not",
        "el planificador dice que el plan está hecho, y faltan {0} pasos",
    ),
    (
        "by the planner's own words the action keeps to the plan by {0}, and {1} is needed",
        "según el planificador la acción se ajusta al plan en {0}, y hace falta {1}",
    ),
    (
        "{0} of the results miss what was expected, and {1} is allowed",
        "{0} de los resultados no son los esperados, y se permite {1}",
    ),
    ("the planner has failed: {0}", "el planificador ha fallado: {0}"),
    ("the plan was made anew {0} times", "el plan se rehízo {0} veces"),
    ("the plan was made anew", "el plan se rehízo"),
    ("before step {0}, as the plan says", "antes del paso {0}, como dice el plan"),
    ("made by a person", "hecho por una persona"),
    ("the call was cancelled", "la llamada se canceló"),
    ("{0} actions in a row have failed: {1}", "{0} acciones seguidas han fallado: {1}"),
    (
        "the run has done {0} actions, and may do no more",
        "la ejecución ha hecho {0} acciones, y no puede hacer más",
    ),
    ("a person has rejected the call of {0}", "una persona rechazó la llamada a {0}"),
    ("there is no checkpoint \"{0}\"; there are: {1}", "no existe el punto de control \"{0}\"; hay: {1}"),
    (
        "the run does not go back to checkpoint \"{0}\": {1} was called since then, and what it did cannot be undone",
        "la ejecución no vuelve al punto de control \"{0}\": desde entonces se llamó a {1}, y lo que hizo no se puede deshacer",
    ),
    (
        "{0} was called since then, and what it did cannot be undone",
        "desde entonces se llamó a {0}, y lo que hizo no se puede deshacer",
    ),
    (
        "a tool is a run that is at work: wait until it has ended",
        "una herramienta es una ejecución en curso: espera a que termine",
    ),
    (
        "only runs in an execution mode have checkpoints of their own",
        "solo las ejecuciones con un modo tienen puntos de control propios",
    ),
    (
        "the run waits for its turn, and there is nothing to go back to",
        "la ejecución espera su turno, y no hay nada a lo que volver",
    ),
    (
        "\"{0}\" is a call of an execution: its planner decides what is done again",
        "\"{0}\" es una llamada de una ejecución: su planificador decide qué se repite",
    ),
    ("the planner has ended without an answer", "el planificador terminó sin responder"),
    (
        "the answer \"edit\" has the changed plan as its value",
        "la respuesta \"edit\" lleva como valor el plan cambiado",
    ),
    ("The phase \"{0}\" is blocked. What is to be done?", "La fase \"{0}\" está bloqueada. ¿Qué hacer?"),
    ("the output breaks its schema: {0}", "la salida incumple su esquema: {0}"),
    (
        "the summary of the phase has {0} bytes, and a checkpoint at most {1}; its largest keys: {2}",
        "el resumen de la fase tiene {0} bytes, y un punto de control {1} como máximo; sus claves más grandes: {2}",
    ),
    ("the surfaces cannot be summarized: {0}", "las superficies no se pueden resumir: {0}"),
    (
        "the input of the phase: {0} has {1} items; at most {2} are allowed",
        "la entrada de la fase: {0} tiene {1} elementos; se permiten {2} como máximo",
    ),
    ("the input of the phase: {0} is no list", "la entrada de la fase: {0} no es una lista"),
    ("the input of the phase: there is no item {0}", "la entrada de la fase: no hay ningún elemento {0}"),
    (
        "the input of the phase: the inputs of its tasks have more than {0} bytes together",
        "la entrada de la fase: las entradas de sus tareas tienen más de {0} bytes juntas",
    ),
    (
        "the input of the phase: the items are not known yet; a list of at most {0} inputs is needed, one for each item",
        "la entrada de la fase: los elementos no se conocen todavía; hace falta una lista de {0} entradas como máximo, una para cada elemento",
    ),
    ("the input of the phase: {0}", "la entrada de la fase: {0}"),
    ("a blob is gone that an input is made of", "ya no está un blob del que se hace una entrada"),
    (
        "it is made of more than {0} bytes; refer to less",
        "se hace de más de {0} bytes; haz referencia a menos",
    ),
    (
        "an output that is referred to is neither JSON nor text",
        "una salida a la que se hace referencia no es ni JSON ni texto",
    ),
    (
        "an input is made of a blob of {0} bytes, and of at most {1}",
        "una entrada se hace de un blob de {0} bytes, y de {1} como máximo",
    ),
    (
        "it is made of more than {0} bytes or {1} values of JSON; refer to less",
        "se hace de más de {0} bytes o {1} valores de JSON; refiérase a menos",
    ),
    ("no JSON: {0}", "no es JSON: {0}"),
    (
        "the contents of a blob cannot be read or written now",
        "el contenido de un blob no se puede leer ni escribir ahora",
    ),
    // Asks (crates/engine/src/machine/ask).
    ("the answer of \"{0}\" breaks the contract: {1}", "la respuesta de \"{0}\" incumple el contrato: {1}"),
    (
        "the answer of \"{0}\" is too large: at most {1} bytes",
        "la respuesta de \"{0}\" es demasiado grande: {1} bytes como máximo",
    ),
    ("no worker that serves \"{0}\" came within {1} ms", "ningún worker que sirva a \"{0}\" llegó en {1} ms"),
    (
        "the workers that serve \"{0}\" were busy for {1} ms",
        "los workers que sirven a \"{0}\" estuvieron ocupados {1} ms",
    ),
    ("no answer within {0} s", "sin respuesta en {0} s"),
    (
        "spec {0} is served by {1}, an agent that nobody knows",
        "al spec {0} lo sirve {1}, un agente que nadie conoce",
    ),
    (
        "agent {0} of spec {1} speaks another contract: {2}",
        "el agente {0} del spec {1} habla otro contrato: {2}",
    ),
    ("version {0} is not compatible with {1}", "la versión {0} no es compatible con {1}"),
    ("\"{0}\" is not a version", "\"{0}\" no es una versión"),
    (
        "the request breaks the contract in {0} places and was not sent",
        "la solicitud incumple el contrato en {0} puntos y no se envió",
    ),
    // Notes of transitions (crates/engine/src/machine/ask/transition.rs).
    ("the spec suggests itself", "el spec se sugiere a sí mismo"),
    ("the confidence is below 0.6", "la confianza es menor que 0.6"),
    (
        "a transition between these two was taken less than {0} s ago",
        "hace menos de {0} s que hubo un paso entre estos dos",
    ),
    ("{0} automatic transitions followed one message", "a un mensaje le siguieron {0} pasos automáticos"),
    (
        "not automatic: that needs a confidence above 0.8",
        "no es automático: eso requiere una confianza mayor que 0.8",
    ),
    ("that spec was called for this text before", "ese spec ya fue llamado para este texto"),
    // States of sessions (crates/policy/src/session).
    ("line {0}, column {1}: {2}", "línea {0}, columna {1}: {2}"),
    (
        "the state would not be valid, and nothing was written",
        "el estado no sería válido, y no se escribió nada",
    ),
    ("the state could not be repaired", "no se pudo reparar el estado"),
    (
        "the state would be larger than {0} bytes, the most that is read",
        "el estado ocuparía más de {0} bytes, lo máximo que se lee",
    ),
    ("{0} is corrupt or has an invalid structure", "{0} está corrupto o tiene estructura inválida"),
    ("1 validation error found", "1 error de validación encontrado"),
    ("{0} validation errors found", "{0} errores de validación encontrados"),
    ("required field '{0}' is missing", "campo requerido '{0}' faltante"),
    (
        "field '{0}' has an invalid type: expected {1}, found {2}",
        "campo '{0}' tiene tipo inválido: se esperaba {1}, se encontró {2}",
    ),
    (
        "phase '{0}' is invalid for command '{1}'; valid ones: {2}",
        "fase '{0}' inválida para el comando '{1}'; válidas: {2}",
    ),
    ("history entry {0} has no field '{1}'", "la entrada {0} del historial no tiene el campo '{1}'"),
    ("timestamp '{0}' is not a valid date: {1}", "la fecha '{0}' no es válida: {1}"),
    ("updated_at is before created_at", "updated_at es anterior a created_at"),
    ("the state must be an object, not {0}", "el estado debe ser un objeto, no {0}"),
    ("the state is not valid JSON: {0}", "el estado no es JSON válido: {0}"),
    (
        "the state is larger than {0} bytes, the most that is read",
        "el estado ocupa más de {0} bytes, lo máximo que se lee",
    ),
    // Commands (crates/hosts).
    ("exit code {0}: {1}", "código de salida {0}: {1}"),
    ("exit code {0}", "código de salida {0}"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
        Language::Spanish.within(|| message(text).into_owned())
    }

    #[test]
    fn what_the_daemon_has_written_is_told_with_the_same_values() {
        for (english, expected) in [
            ("all 3 attempts failed", "los 3 intentos fallaron"),
            ("quorum not met: 1/4 (25%), needs 50%", "quórum no alcanzado: 1/4 (25%), se necesita 50%"),
            ("quorum not met: 1/4 (25%)", "quórum no alcanzado: 1/4 (25%)"),
            (
                r#"What became of task "a"? Its worker "w" has come back and says that it failed with E."#,
                r#"¿Qué fue de la tarea "a"? Su worker "w" ha vuelto y dice que falló con E."#,
            ),
            (
                r#"task "a \"b\"" exceeded its timeout of 2s: it has taken 3s"#,
                r#"la tarea "a \"b\"" excedió su tiempo límite de 2s: lleva 3s"#,
            ),
            ("cancelled: the run was cancelled", "cancelada: la ejecución fue cancelada"),
        ] {
            assert_eq!(told(english), expected);
            assert_eq!(message(english), english);
        }
    }

    #[test]
    fn why_no_agent_can_answer_for_a_spec_is_told_to_its_end() {
        for (english, expected) in [
            (
                r#"agent "calm" of spec "emotion" speaks another contract: version 2.0.0 is not compatible with 1.x"#,
                r#"el agente "calm" del spec "emotion" habla otro contrato: la versión 2.0.0 no es compatible con 1.x"#,
            ),
            (
                r#"agent "calm" of spec "emotion" speaks another contract: "two" is not a version"#,
                r#"el agente "calm" del spec "emotion" habla otro contrato: "two" no es una versión"#,
            ),
        ] {
            assert_eq!(told(english), expected);
        }
    }

    #[test]
    fn the_cause_of_a_failure_in_a_browser_is_told_with_its_own_cause() {
        for (english, expected) in [
            ("the element is covered by something else", "otra cosa tapa el elemento"),
            ("the element is covered by div#banner", "el elemento está tapado por div#banner"),
            (
                "the element cannot be acted on: outside the viewport",
                "no se puede actuar sobre el elemento: queda fuera de la vista",
            ),
            ("the document did not come within 30000 ms", "el documento no llegó en 30000 ms"),
            (
                "the browser is lost: the connection to the browser broke",
                "se perdió el navegador: se cortó la conexión con el navegador",
            ),
        ] {
            assert_eq!(told(english), expected);
            assert_eq!(message(english), english);
        }
    }

    #[test]
    fn why_a_state_is_no_json_is_told_with_its_place() {
        let place = "en la línea 1, columna 9";
        let broken = "the state is not valid JSON: EOF while parsing a string at line 1 column 9";
        let expected = format!(
            "el estado no es JSON válido: el texto termina dentro de un texto entre comillas, {place}"
        );
        assert_eq!(told(broken), expected);
        let refused = |text: &str| Language::Spanish.within(|| refusal(text).into_owned());
        assert_eq!(refused("trailing comma at line 1 column 9"), format!("sobra una coma al final, {place}"));
        assert_eq!(
            refused("the key `a` is written twice at line 1 column 9"),
            format!("la clave `a` está escrita dos veces, {place}")
        );
        // Where the daemon says nothing else, it may be an agent's.
        assert_eq!(told("trailing comma at line 1 column 9"), "trailing comma at line 1 column 9");
    }

    #[test]
    fn what_an_agent_has_written_is_told_as_it_is() {
        for text in ["", "disk full", "all  attempts", "los 3 intentos fallaron", "quorum", "exit code"] {
            assert_eq!(told(text), text);
        }
    }

    #[test]
    fn what_is_refused_is_told_with_the_names_of_what_it_is_about() {
        let told = |text: &str| Language::Spanish.within(|| refusal(text).into_owned());
        for (english, expected) in [
            ("the plan's name is missing", "falta el nombre del plan"),
            (
                "the task's name is longer than 128 characters",
                "el nombre de la tarea tiene más de 128 caracteres",
            ),
            (
                "`${x}` is not a reference: it does not begin with `tasks.`; write ${tasks.NAME.output}, or $${ for the \
                 characters themselves",
                "`${x}` no es una referencia: no empieza con `tasks.`; escriba ${tasks.NAME.output}, o $${ para los \
                 caracteres mismos",
            ),
            (
                "2 violations, the first: expected a list, found null",
                "2 violaciones, la primera: se esperaba una lista, se encontró null",
            ),
            ("invalid transition: INIT -> COMPLETE", "transición inválida: INIT -> COMPLETE"),
            ("quorum met: 3/4 (75%)", "quórum alcanzado: 3/4 (75%)"),
        ] {
            assert_eq!(told(english), expected);
            assert_eq!(refusal(english), english);
            assert_ne!(told("nobody has written this"), "", "what is unknown is told as it is");
        }
        let of_browser = "127.0.0.1 is not on the allowlist";
        assert_eq!(told(of_browser), "127.0.0.1 no está en la lista de permitidos");
        // An agent's text is none of these.
        assert_eq!(
            Language::Spanish.within(|| message("the disk is missing").into_owned()),
            "the disk is missing"
        );
    }

    #[test]
    fn the_placeholders_of_both_languages_are_the_same_and_in_order() {
        for (english, spanish) in PATTERNS
            .iter()
            .chain(browser::PATTERNS)
            .chain(configuration::PATTERNS)
            .chain(specs::PATTERNS)
            .chain(refusals::PATTERNS)
        {
            let count = english.matches('{').count();
            for number in 0..count {
                let place = format!("{{{number}}}");
                assert_eq!(
                    (english.matches(&place).count(), spanish.matches(&place).count()),
                    (1, 1),
                    "{english}"
                );
            }
            let values: Vec<String> = (0..count).map(|number| format!("v{number}")).collect();
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            assert_eq!(
                Language::Spanish.within(|| refusal(&fill(english, &values)).into_owned()),
                fill(spanish, &values),
                "an earlier pattern fits {english}"
            );
        }
    }
}
