//! The advice that goes with each code, in Spanish. In English it is in the table of codes, with the code itself.

use capataz_policy::codes;

use super::Language;

/// The next step for a person, in one line, in the language in use; `None` for a code that is not the daemon's.
#[must_use]
pub fn advice(code: &str) -> Option<&'static str> {
    match Language::current() {
        Language::English => codes::lookup(code).map(|entry| entry.advice),
        Language::Spanish => spanish(code),
    }
}

/// The same advice in the language in use, where `text` is the table's for this code in English.
#[must_use]
pub fn translated(code: &str, text: &str) -> Option<&'static str> {
    codes::lookup(code).filter(|entry| entry.advice == text).and_then(|_| advice(code))
}

fn spanish(code: &str) -> Option<&'static str> {
    SPANISH.iter().find(|(known, _)| *known == code).map(|(_, advice)| *advice)
}

const SPANISH: &[(&str, &str)] = &[
    ("STATE_CORRUPTED", "Restaure el estado desde su copia de seguridad o empiece de nuevo con uno limpio."),
    ("STATE_MISSING", "Cree el estado de nuevo antes de continuar."),
    ("CONFIG_INVALID", "Corrija la configuración que nombra el mensaje."),
    ("AGENT_NOT_FOUND", "Corrija el nombre del agente, declárelo, o conecte un worker que lo sirva."),
    ("INCOMPATIBLE_VERSION", "Use una versión del contrato con el mismo número mayor."),
    ("GIT_DETACHED_HEAD", "Cambie a una rama antes de continuar."),
    ("GIT_CONFLICTS", "Resuelva los conflictos de fusión antes de continuar."),
    ("SESSION_CORRUPTED", "Restaure la sesión desde su copia de seguridad, o empiece una nueva."),
    ("TESTS_FAILED", "Examine las pruebas que fallaron antes de continuar."),
    ("BUILD_FAILED", "Examine la salida de la compilación antes de continuar."),
    ("VALIDATION_FAILED", "Corrija lo que nombran las violaciones listadas."),
    ("TASK_TIMEOUT", "Extienda el tiempo límite, conserve la salida parcial, reintente o aborte."),
    ("RETRY_EXHAUSTED", "Examine el último error; reintente a mano cuando su causa haya desaparecido."),
    ("API_ERROR", "Examine la respuesta del servicio que falló."),
    ("PERMISSION_DENIED", "Dé al agente el permiso que le falta."),
    ("QUORUM_NOT_MET", "Examine las tareas que fallaron; reinténtelas o baje el umbral."),
    ("CRITICAL_AGENT_FAILED", "Examine el error de la tarea crítica y reinténtela."),
    ("INVALID_STATE_TRANSITION", "Dé los pasos que lista la acción sugerida."),
    ("LINT_WARNINGS", "Examine las advertencias cuando haya tiempo."),
    ("DEPRECATION_WARNING", "Planee sustituir la función obsoleta."),
    ("COVERAGE_LOW", "Añada pruebas donde falta cobertura."),
    ("UNUSED_FILES", "Elimine los archivos sin uso."),
    ("OPTIONAL_AGENT_FAILED", "No hay que hacer nada; la ejecución continúa sin él."),
    ("SLOW_OPERATION", "Busque la causa de la demora, o suba el tiempo límite."),
    ("PARTIAL_SUCCESS", "Examine los fallos listados; la ejecución continuó a pesar de ellos."),
    ("RETRY_SUCCESS", "No hay que hacer nada."),
    ("OPERATION_COMPLETE", "No hay que hacer nada."),
    ("SUGGESTION", "Considere la sugerencia."),
    ("IMPROVEMENT_HINT", "Considere la sugerencia."),
    ("UNKNOWN_ERROR", "Haga que el agente informe de un código y un mensaje."),
    (
        "UNCLASSIFIED",
        "Haga que el agente informe de una severidad o de un código de la tabla, o declare una severidad en el plan.",
    ),
    ("AGENTS_VALIDATION_FAILED", "Corrija cada uno de los nombres listados."),
    ("COMMAND_NOT_FOUND", "Corrija el nombre de la orden, o declárela."),
    ("RESOURCE_NOT_FOUND", "Corrija el nombre del recurso, o declárelo."),
    ("AGENT_ABSENT", "Conecte un worker que sirva al agente; sus tareas esperan hasta entonces."),
    ("TASK_NOT_FOUND", "Use el nombre de una tarea de esta ejecución."),
    ("INCOMPLETE_LIFECYCLE", "Examine por qué la tarea terminó sin haber estado nunca activa."),
    ("TIMEOUT_IMMINENT", "Extienda el tiempo límite si la tarea debe tener más tiempo."),
    ("TASK_ENDING", "Reintente la tarea cuando haya terminado, o conserve su salida parcial."),
    ("SCHEDULE_TO_START_TIMEOUT", "Conecte más workers para el agente, o deje que la tarea espere más."),
    ("NON_RETRYABLE_ERROR", "Elimine la causa a mano; el mismo intento fallaría otra vez."),
    ("TOTAL_TIMEOUT_EXCEEDED", "Suba el límite total de la política de reintentos, o reintente a mano."),
    ("TIMEOUT", "Suba el límite de un intento, o examine la carga del sistema."),
    ("NETWORK_ERROR", "Compruebe la conexión de red y la disponibilidad del servicio."),
    ("RATE_LIMIT", "Espere antes del próximo intento, o envíe menos solicitudes."),
    ("SERVICE_UNAVAILABLE", "Compruebe que el servicio está en marcha."),
    ("CONNECTION_RESET", "Compruebe la conexión de red y el log del servicio."),
    ("ECONNREFUSED", "Compruebe que el servicio escucha en esta dirección."),
    ("ETIMEDOUT", "Compruebe la conexión de red y la carga del servicio."),
    ("PARSE_ERROR", "Corrija el documento que no se pudo leer."),
    ("VALIDATION_ERROR", "Corrija la entrada que se rechazó."),
    ("LOGIC_ERROR", "Corrija el agente; la misma entrada falla otra vez."),
    ("FILE_NOT_FOUND", "Cree el archivo, o corrija su ruta."),
    ("INVALID_ARGUMENT", "Corrija el argumento que nombra el mensaje."),
    ("JSON_PARSE_ERROR", "Corrija el JSON, o restaure la copia de seguridad."),
    ("INVALID_STATE_TYPE", "El estado debe ser un objeto JSON."),
    ("REPAIR_FAILED", "Restaure la copia de seguridad, o empiece una sesión nueva."),
    ("SESSION_VALIDATION_FAILED", "Corrija lo que nombran las violaciones listadas."),
    ("SESSION_NOT_FOUND", "Use el id de una sesión que exista, o empiece una nueva."),
    ("SESSION_INVALID", "Corrija lo que nombran las violaciones listadas; no se escribió nada."),
    ("WORKER_LOST", "Examine el log del worker; la tarea perdió su worker varias veces."),
    ("OUTCOME_UNKNOWN", "Averigüe qué hizo el worker perdido, y responda entonces la pregunta."),
    (
        "CHILD_TOO_DEEP",
        "Inicie menos ejecuciones desde dentro de ejecuciones; busque una que se inicie a sí misma otra vez.",
    ),
    ("SESSION_BUSY", "Espere a que termine el plan que trabaja en la sesión, o use otra sesión."),
    ("SESSION_HELD", "Pregunte fuera de la sesión, o en otra."),
    ("TASK_CANCELLED", "Reintente la tarea si todavía se quiere su resultado."),
    ("RUN_LIMIT_EXCEEDED", "Reparta el trabajo en varias ejecuciones."),
    (
        "PHASE_BLOCKED",
        "Corrija aquello con lo que fallaron sus intentos y reintente, vuelva a un punto de control, o aborte.",
    ),
    ("PHASE_NOT_FOUND", "Nombre una fase del proceso."),
    (
        "CHECKPOINT_NOT_FOUND",
        "Vuelva a una fase que tenga antes otra completa, o a un punto de control de la lista.",
    ),
    (
        "TOO_MANY_ERRORS",
        "Mire con qué fallaron las últimas acciones, y formule la consulta de otro modo o dé otras herramientas al planificador.",
    ),
    ("STEP_LIMIT", "Divida la consulta, o iníciela con un max_steps mayor."),
    ("TOOL_REJECTED", "El planificador decide qué se hace en su lugar."),
    ("ROLLBACK_NOT_POSSIBLE", "Vuelva a un punto de control posterior a lo que no se puede deshacer."),
    ("CHECKPOINT_TOO_LARGE", "Haga que el resumen nombre menos claves, o más pequeñas."),
    ("OUTPUT_TOO_LARGE", "Haga que el agente devuelva las salidas grandes como blobs."),
    ("INVALID_OUTPUT", "Corrija el agente: su salida no tiene la forma declarada."),
    ("AGENT_COMMAND_FAILED", "Examine el código de salida y el log de la tarea."),
    ("AGENT_COMMAND_NOT_STARTED", "Compruebe la orden del agente, su carpeta y sus permisos."),
    ("INPUT_TOO_LARGE", "Dé a la tarea menos entrada, o una referencia a los datos."),
    (
        "INPUT_UNRESOLVED",
        "Corrija aquello a lo que se refiere la entrada, o haga que se refiera a menos: el mensaje dice qué falta o qué es demasiado grande.",
    ),
    ("PROCESSING_TIMEOUT", "Espere el próximo intento, o haga que el spec responda en 30 segundos."),
    (
        "TEMPORARY_ERROR",
        "Un spec se llama otra vez por sí solo; la tarea de un plan, solo si su política nombra el código en `retryable`.",
    ),
    ("INSUFFICIENT_CONTEXT", "Añada la información que falta."),
    ("INVALID_REQUEST", "Diga el mensaje con otras palabras, o corrija la solicitud."),
    ("SPEC_NOT_AVAILABLE", "Conecte un worker que sirva al spec, o nombre un spec alternativo."),
    ("CAPABILITY_NOT_SUPPORTED", "Pregunte a un spec que tenga la capacidad."),
    ("FATAL_ERROR", "Examine el log del spec; la misma solicitud fallaría otra vez."),
    ("SPEC_NOT_FOUND", "Use el id de un spec que tenga el catálogo."),
    ("SPEC_FILE_INVALID", "Corrija lo que nombran las violaciones listadas en el archivo del spec."),
    ("TARGET_NOT_FOUND", "Compare el objetivo con los elementos de la captura."),
    (
        "TARGET_NOT_UNIQUE",
        "Haga que el objetivo coincida con un solo elemento; la muestra lista las coincidencias.",
    ),
    ("INVALID_ACTIONSPEC", "Corrija las violaciones listadas; no se hizo nada a la página."),
    (
        "PRECONDITION_FAILED",
        "Examine las condiciones que no se cumplían antes de la acción; no se hizo nada a la página.",
    ),
    ("POSTCONDITION_FAILED", "Compare las imágenes de antes y después; la acción se realizó."),
    ("POLICY_HALT", "Averigüe por qué el script se repite, o suba el límite que nombra el motivo."),
    ("DOMAIN_BLOCKED", "Añada el host a la lista de permitidos, si se puede llegar a él."),
    ("ACTION_CRITICAL_BLOCKED", "Dé a la acción una postcondición fuerte, o corrija su destino."),
    (
        "NAVIGATION_TIMEOUT",
        "Compruebe que se puede llegar a la página, suba el límite, o use una condición más débil.",
    ),
    (
        "NAVIGATION_FAILED",
        "Compruebe la URL, y que el servidor responde en ella; el error de la red dice qué falló.",
    ),
    ("UPLOAD_FAILED", "Compruebe el archivo, y el mensaje de la página sobre él."),
    ("DOWNLOAD_FAILED", "Compruebe que la acción empieza una descarga, y que puede terminar a tiempo."),
    ("OVERLAY_BLOCKING", "Cierre el elemento que tapa, o declare una recuperación que lo cierre."),
    (
        "AUTH_FAILED",
        "Compruebe las credenciales, o inicie sesión de nuevo y guarde el estado de almacenamiento.",
    ),
    ("BROWSER_LOST", "Averigüe qué hizo la última acción, y empiece entonces el script de nuevo."),
    (
        "EVIDENCE_FAILED",
        "Compruebe el disco del daemon; los detalles del error contienen el resultado de la acción.",
    ),
    ("NAME_RESERVED", "Use otros nombres, o comparta el agente con workers en capataz.toml."),
    ("AGENT_LIMIT_EXCEEDED", "Sirva menos agentes, o descríbalos en menos bytes."),
    ("FRAME_TOO_LARGE", "Guarde los datos grandes como blobs."),
    ("WORKER_REPLACED", "Dé a cada worker un id propio."),
    ("WORKER_SENT_AWAY", "Examine el worker: no hace lo que el protocolo le pide."),
    ("RUN_NOT_FOUND", "Use el id de una ejecución guardada; `capataz runs list` las muestra."),
    (
        "RUN_IN_USE",
        "Deje terminar antes la ejecución, y cada ejecución sin terminar que la necesita; cancele lo que no se quiere.",
    ),
    (
        "RUN_FINISHED",
        "Inicie una ejecución nueva, o continúe esta con `capataz runs continue` si es la de un plan; una terminada ya no se puede cambiar.",
    ),
    ("MEMORY_NOT_FOUND", "Use el id de una entrada que muestra `capataz memory search`."),
    ("RUN_NOT_CONTINUED", "Espere el final de la ejecución, o inicie una nueva."),
    ("FORK_NOT_POSSIBLE", "Bifurque la ejecución en el evento que nombra el mensaje, o inicie una nueva."),
    ("QUESTION_NOT_FOUND", "Use el id de una pregunta abierta; `capataz runs show` las lista."),
    ("TRANSITION_NOT_FOUND", "Use el id de solicitud de una respuesta con una sugerencia abierta."),
    ("QUESTION_ANSWERED", "No hay que hacer nada; cuenta la primera respuesta."),
    ("QUESTION_REVISED", "Lea la pregunta otra vez, y responda su revisión más nueva."),
    ("IDEMPOTENCY_KEY_REUSED", "Elija una clave nueva para una solicitud nueva."),
    ("REQUEST_ID_REUSED", "Elija un id de solicitud nuevo para una solicitud nueva."),
    ("SEQ_MISMATCH", "Lea la ejecución otra vez antes de repetir la orden."),
    ("CURSOR_TOO_OLD", "Siga después del cursor que trae el rechazo; lo eliminado ya no está."),
    ("CURSOR_UNKNOWN", "Use un cursor de este daemon, o empiece sin ninguno."),
    (
        "LOG_DAMAGED",
        "Exporte lo que está íntegro de la ejecución; para recuperar el resto, restaure la carpeta de datos y reinicie.",
    ),
    (
        "BLOB_NOT_FOUND",
        "Guarde el blob otra vez si una llamada ha de nombrarlo; lo que la retención eliminó ya no se puede leer.",
    ),
    ("OVERLOADED", "Espere lo que dice la respuesta, y repita la llamada con la misma clave."),
    ("UNAVAILABLE", "Repita la llamada con la misma clave."),
    ("DRAINING", "Repita la llamada cuando el daemon vuelva."),
    (
        "BROWSER_NOT_FOUND",
        "Instale Chromium donde corre el daemon, o nombre su programa en la configuración.",
    ),
    (
        "STORAGE_STATE_NOT_FOUND",
        "Use el nombre de un estado de almacenamiento guardado, o guarde uno con un script que inicie sesión.",
    ),
    ("STEP_IN_PROGRESS", "Espere la respuesta a la acción que se está realizando."),
    ("SESSION_NOT_INTERACTIVE", "Abra una sesión de navegador; las acciones de un script son fijas."),
    ("HELLO_MISSING", "Conéctese de nuevo y envíe el saludo enseguida."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_its_advice_in_spanish_as_well() {
        let known: Vec<&str> = codes::CODES.iter().map(|entry| entry.code.as_str()).collect();
        let told: Vec<&str> = SPANISH.iter().map(|(code, _)| *code).collect();
        let mut sorted = (known.clone(), told.clone());
        sorted.0.sort_unstable();
        sorted.1.sort_unstable();
        assert_eq!(sorted.0, sorted.1);
        for (code, advice) in SPANISH {
            assert!(advice.ends_with('.') && !advice.contains('\n'), "{code}: {advice}");
        }
    }

    /// One code may have several causes, and its one line of advice has to help with each of them.
    #[test]
    fn the_advice_of_a_code_with_several_causes_fits_all_of_them() {
        for (code, english, spanish) in [
            // A value is missing, or there is too much of it.
            (
                "INPUT_UNRESOLVED",
                ["refers to,", "refer to less"],
                ["se refiere la entrada,", "se refiera a menos"],
            ),
            // A call names it, or somebody reads what is gone.
            (
                "BLOB_NOT_FOUND",
                ["Store the blob again", "retention"],
                ["Guarde el blob otra vez", "retención"],
            ),
        ] {
            for (language, parts) in [(Language::English, english), (Language::Spanish, spanish)] {
                let told = language.within(|| advice(code)).unwrap();
                assert!(parts.iter().all(|part| told.contains(part)), "{code}: {told}");
            }
        }
    }

    #[test]
    fn only_the_tables_own_advice_is_translated() {
        let told = Language::Spanish.within(|| {
            ["Repeat the call with the same key.", "Ask Eva."].map(|text| translated("UNAVAILABLE", text))
        });
        assert_eq!(told, [Some("Repita la llamada con la misma clave."), None]);
        assert_eq!(advice("UNAVAILABLE"), Some("Repeat the call with the same key."));
    }
}
