//! Texts that say why: of errors, of runs, and of what agents did.

texts! {
    /// `errors explain`.
    Classified {
        severity: "Severity" / "Severidad",
        rule: "{0}: {1}" / "{0}: {1}",
        declared: "declared by the plan or the error" / "lo declara el plan o el error",
        by_code: "the table of codes" / "la tabla de códigos",
        by_pattern: "pattern {0} of the message ({1})" / "el patrón {0} del mensaje ({1})",
        unknown: "no rule knows it, and what is unknown counts as serious"
            / "ninguna regla lo conoce, y lo desconocido cuenta como grave",
        retries: "Retried" / "Se reintenta",
        retried: "yes: it contains {0}, which is on the list of failures that are retried"
            / "sí: contiene {0}, que está en la lista de fallos que se reintentan",
        not_retried: "no: {0}" / "no: {0}",
        effects: "Effects" / "Efectos",
        can_continue: "the run may go on" / "la ejecución puede continuar",
        aborts: "the run is aborted" / "la ejecución se aborta",
        notifies: "it is told at once" / "se avisa enseguida",
        listed: "it is listed at the end" / "se lista al final",
        acts: "a person has to act" / "una persona tiene que actuar",
        acts_not: "nobody has to act" / "nadie tiene que actuar",
        shown_as: "Shown as" / "Se muestra",
        advice: "Advice" / "Consejo",
        page: "Page" / "Página",
    }

    /// `sessions list` and `sessions show`.
    SessionViews {
        none: "No sessions." / "No hay sesiones.",
        head: "SESSION\tBEGUN\tCHANGED\tSTREAM"
            / "SESIÓN\tEMPEZÓ\tCAMBIÓ\tFLUJO",
        more: "More: --page-token {0}" / "Más: --page-token {0}",
        name: "Session" / "Sesión",
        spec: "Spec" / "Spec",
        nobody: "none" / "ninguno",
        messages: "Messages" / "Mensajes",
        begun: "Begun" / "Empezó",
        changed: "Changed" / "Cambió",
        mood: "Mood" / "Ánimo",
        attention: "Attention" / "Atención",
        suggestions: "Suggestions:" / "Sugerencias:",
        suggestion: "{0}: {1}" / "{0}: {1}",
        history: "Last messages:" / "Últimos mensajes:",
        work: "Work:" / "Trabajo:",
        flow: "At work" / "En curso",
        flow_since: "{0}, since {1}" / "{0}, desde {1}",
        of_run: "Run" / "Ejecución",
        blocked: "Waits for" / "Espera",
        pending: "Pending" / "Pendientes",
        pending_more: "{0} and {1} more" / "{0} y {1} más",
        failures: "Failures" / "Fallos",
        ended: "Ended" / "Terminado",
        ended_at: "{0} at {1}" / "{0} el {1}",
        next: "Next" / "Siguiente",
        user: "user" / "usuario",
        answer: "answer" / "respuesta",
    }

    /// `analytics`.
    Analytics {
        head: "MODE\tRUNS\tSUCCESS\tRATE\tMEAN TIME\tREPLANS PER STEP\tESCALATIONS PER STEP"
            / "MODO\tEJECUCIONES\tÉXITO\tTASA\tTIEMPO MEDIO\tREPLANES POR PASO\tESCALACIONES POR PASO",
        memory: "Memory:" / "Memoria:",
        recalls: "  prompts that it was asked for: {0}" / "  prompts para los que se consultó: {0}",
        hit_rate: "  hits: {0}" / "  aciertos: {0}",
        compression: "  tokens told of those that were kept: {0}" / "  tokens contados de los guardados: {0}",
        retrieval: "  mean time of a recall: {0}" / "  tiempo medio de una consulta: {0}",
    }

    /// `memory`.
    Memory {
        none: "{0} remembers nothing of that." / "{0} no recuerda nada de eso.",
        head: "TYPE\tMODE\tMADE\tRELEVANCE\tCONTENT\tENTRY" / "TIPO\tMODO\tHECHA\tRELEVANCIA\tCONTENIDO\tENTRADA",
        forgotten: "Session {0}: forgotten: {1}." / "Sesión {0}: olvidado: {1}.",
        one: "{0} entry" / "{0} entrada",
        many: "{0} entries" / "{0} entradas",
        entry: "Entry" / "Entrada",
        kind: "Type" / "Tipo",
        session: "Session" / "Sesión",
        mode: "Mode" / "Modo",
        made: "Made" / "Hecha",
        event: "By event" / "Por el evento",
        relevance: "Relevance" / "Relevancia",
        tools: "Tools" / "Herramientas",
        files: "Files" / "Archivos",
        related: "About" / "Sobre",
        digest: "In short" / "En breve",
    }

    /// `runs show --at`, `runs diff` and `runs replay`.
    TimeTravel {
        as_it_was: "As it was after event {0}." / "Como estaba tras el evento {0}.",
        same: "No difference." / "Sin diferencias.",
        left_aside: "Not compared: ids, times, workers and numbers of events, which two runs never share. --all compares them too."
            / "No se compara: ids, tiempos, trabajadores y números de evento, que dos ejecuciones nunca comparten. --all también los compara.",
        more: "Only the first {0} differences are shown." / "Solo se muestran las primeras {0} diferencias.",
        replayed: "{0} events folded again." / "{0} eventos plegados de nuevo.",
        agrees: "The row of the run agrees with them." / "La fila de la ejecución coincide con ellos.",
        agrees_both: "The row of the run agrees with them, and so does the snapshot, which is of event {0}."
            / "La fila de la ejecución coincide con ellos, y también la instantánea, que es del evento {0}.",
        not_all: "There are more differences than these." / "Hay más diferencias que estas.",
        differs: "What is stored differs from what the events say:"
            / "Lo guardado difiere de lo que dicen los eventos:",
        truth: "The events are the truth, and what is read of a run begins with its snapshot. Report this with the output of `capataz runs export {0}`; `capataz rebuild` makes the row again."
            / "Los eventos son la verdad, y lo que se lee de una ejecución empieza por su instantánea. Informa de esto con la salida de `capataz runs export {0}`; `capataz rebuild` rehace la fila.",
    }

    /// `runs explain`.
    Cascade {
        nothing: "Nothing was decided yet." / "Todavía no se decidió nada.",
        session: "session" / "sesión",
        registry: "registry" / "registro",
        lifecycle: "lifecycle" / "ciclo de vida",
        timeout: "timeout" / "tiempo límite",
        retry: "retry" / "reintentos",
        severity: "severity" / "severidad",
        aggregation: "aggregation" / "agregación",
        in_line: "takes its place in session {0}" / "toma su lugar en la sesión {0}",
        turn: "its turn has come" / "llegó su turno",
        turn_over: "its turn is over" / "terminó su turno",
        known_one: "the agent is known" / "el agente es conocido",
        known_many: "all {0} agents are known" / "los {0} agentes son conocidos",
        active: "INIT -> ACTIVE, taken by {0}" / "INIT -> ACTIVE, la tomó {0}",
        again: "stays ACTIVE: attempt {0}, taken by {1}" / "sigue ACTIVE: intento {0}, la tomó {1}",
        lease_lost: "its worker was lost ({0} in all)" / "se perdió su worker ({0} en total)",
        begun_anew: "is done anew: whoever works on it works for the other run"
            / "se hace de nuevo: quien trabaja en ella trabaja para la otra ejecución",
        forked: "goes on by itself after event {1} of run {0}"
            / "sigue por su cuenta tras el evento {1} de la ejecución {0}",
        reactivated: "FAILED -> ACTIVE: activation {0}" / "FAILED -> ACTIVE: activación {0}",
        given_up: "FAILED -> DELETED: given up" / "FAILED -> DELETED: abandonada",
        rolled_back: "{0}: activation {1}" / "{0}: activación {1}",
        taken_over: "INIT -> ACTIVE -> COMPLETE: it succeeded in run {0}"
            / "INIT -> ACTIVE -> COMPLETE: tuvo éxito en la ejecución {0}",
        settled: "-> {0}, attempts: {1}, took {2}" / "-> {0}, intentos: {1}, duró {2}",
        deadline: "has {0} for all attempts" / "tiene {0} para todos los intentos",
        exceeded: "the time is over: told to end, {0} of grace"
            / "se agotó el tiempo: se le pidió terminar, {0} de gracia",
        extended: "{0} more" / "{0} más",
        extended_in_grace: "{0} more, and the request to end was withdrawn"
            / "{0} más, y se retiró la petición de terminar",
        timed_out: "ended after {0} of {1}" / "terminada después de {0} de {1}",
        retried: "attempt {0} of {1} failed ({2}); {3} is retryable: again in {4}"
            / "falló el intento {0} de {1} ({2}); {3} se reintenta: otra vez en {4}",
        not_retried: "no attempt follows after {0}: {1}: {2}" / "ningún intento sigue después de {0}: {1}: {2}",
        so_far: "so far {1} under {0}: {2}" / "hasta ahora {1} con {0}: {2}",
        decided_early: "decided before all have ended, {1} under {0}: {2}"
            / "decidida antes de que todas terminaran, {1} con {0}: {2}",
        continues: "goes on, {1} under {0}: {2}" / "continúa, {1} con {0}: {2}",
        stops: "stops, {1} under {0}: {2}" / "se detiene, {1} con {0}: {2}",
        asked: "asks a person, question {0}: {1}" / "pregunta a una persona, pregunta {0}: {1}",
        answered: "question {0} was answered: {1}" / "la pregunta {0} fue respondida: {1}",
        summary: "errors: {0} ({1} CRITICAL, {2} HIGH, {3} MEDIUM, {4} LOW)"
            / "errores: {0} ({1} CRITICAL, {2} HIGH, {3} MEDIUM, {4} LOW)",
        ended: "the run ended: {0}" / "la ejecución terminó: {0}",
        ended_with: "the run ended: {0} ({1})" / "la ejecución terminó: {0} ({1})",
    }

    /// `agents stats`.
    AgentStats {
        head: "AGENT\tTASKS\tATTEMPTS\tRETRIED\tFAILED\tTIMEOUTS\tP50\tP95\tSUGGESTED TIMEOUT"
            / "AGENTE\tTAREAS\tINTENTOS\tREINTENTADAS\tFALLIDAS\tSIN TIEMPO\tP50\tP95\tTIEMPO SUGERIDO",
        none: "No task has ended in the newest {0} runs." / "Ninguna tarea terminó en las {0} ejecuciones más nuevas.",
        runs_one: "of the newest run" / "de la ejecución más nueva",
        runs_many: "of the newest {0} runs" / "de las {0} ejecuciones más nuevas",
    }
}
