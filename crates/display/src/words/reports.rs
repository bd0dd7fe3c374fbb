//! Texts of the reports of runs as HTML pages, and of evidence.

texts! {
    /// The HTML report of a plan, an ask, a pipeline or an execution; those of scripts are with their actions.
    Reports {
        kind_plan: "Plan" / "Plan",
        kind_ask: "Ask" / "Pregunta",
        kind_pipeline: "Pipeline" / "Proceso",
        kind_mode: "Query in an execution mode" / "Consulta en un modo de ejecución",
        goes_on: "This run still goes on. The page shows it as it was after event {0}."
            / "Esta ejecución sigue en marcha. La página la muestra como estaba tras el evento {0}.",
        glance_tasks: "Tasks: {0} of {1} succeeded, in {2}." / "Tareas: {0} de {1} con éxito, en {2}.",
        glance_calls: "Calls: {0} of {1} succeeded, in {2}." / "Llamadas: {0} de {1} con éxito, en {2}.",
        glance_phases: "Phases: {0} of {1} completed, after {2}." / "Fases: {0} de {1} completas, tras {2}.",
        glance_actions: "Actions: {0} of {1} succeeded, in {2}." / "Acciones: {0} de {1} con éxito, en {2}.",
        newest_picture: "The page as the newest picture has it" / "La página como la muestra la imagen más nueva",
        not_started_one: "{0} task was never begun." / "{0} tarea nunca empezó.",
        not_started_many: "{0} tasks were never begun." / "{0} tareas nunca empezaron.",
        ended: "Ended" / "Terminó",
        models: "Models took" / "Los modelos usaron",
        session: "Session" / "Sesión",
        continues: "Continues" / "Continúa",
        technical: "Technical details" / "Detalles técnicos",
        zone: "Times" / "Horas",
        zone_about: "in the zone of whoever reads this; in UTC where the page may run no script"
            / "en la zona de quien lee esto; en UTC si la página no puede ejecutar su script",
        milliseconds: "{0} ms" / "{0} ms",

        what_failed: "What failed" / "Qué falló",
        failed_calls: "Calls that failed" / "Llamadas que fallaron",
        more_failed_one: "… and {0} more that failed" / "… y {0} más que falló",
        more_failed_many: "… and {0} more that failed" / "… y {0} más que fallaron",
        of_wave: "{0} · agent {1}" / "{0} · agente {1}",
        attempt_line: "Attempt {0} of {1}: {2} after {3}" / "Intento {0} de {1}: {2} tras {3}",
        breaks_rule: "The output breaks its rule" / "La salida incumple su regla",
        expected_found: ": {0} was expected, and {1} was found" / ": se esperaba {0} y se encontró {1}",
        log_end: "The end of its log" / "El final de su log",
        log_one: "The log, {0} line" / "El log, {0} línea",
        log_many: "The log, {0} lines" / "El log, {0} líneas",
        attempts: "Attempts" / "Intentos",
        try_line: "{0}: {1}, {2} ms" / "{0}: {1}, {2} ms",
        by_worker: "worker {0}" / "worker {0}",
        by_run: "run {0}" / "ejecución {0}",
        agent: "Agent" / "Agente",

        succeeded: "succeeded" / "tuvo éxito",
        failed: "failed" / "falló",
        timed_out: "timed out" / "agotó su tiempo",
        cancelled: "cancelled" / "se canceló",
        never_begun: "never begun" / "no empezó",
        taken_over: "taken over, it had succeeded before" / "retomada, ya había tenido éxito",
        at_work: "at work" / "trabajando",
        waits: "waits" / "espera",
        to_do: "to be done" / "por hacer",
        taken_back: "taken back" / "se revirtió",
        lost_because: "worker lost ({0})" / "worker perdido ({0})",
        attempts_one: "{0} attempt" / "{0} intento",
        attempts_many: "{0} attempts" / "{0} intentos",
        lost_one: "{0} lost lease" / "{0} worker perdido",
        lost_many: "{0} lost leases" / "{0} workers perdidos",
        spans_left_out: "{0} later ones not drawn" / "{0} posteriores sin dibujar",

        the_run: "The run" / "La ejecución",
        wave: "Wave {0} of {1}: {2}" / "Ola {0} de {1}: {2}",
        call: "Call {0}: {1}" / "Llamada {0}: {1}",
        phase: "Phase {0} of {1}: {2}" / "Fase {0} de {1}: {2}",
        phase_again: "Phase {0} of {1}: {2}, again" / "Fase {0} de {1}: {2}, otra vez",
        planner: "Planner: what is next" / "Planificador: qué sigue",
        planner_plans: "Planner: a plan" / "Planificador: un plan",
        planner_again: "Planner: another plan ({0})" / "Planificador: otro plan ({0})",
        tool_step: "{0} (step {1})" / "{0} (paso {1})",
        attempt_told: "attempt {0} {1} after {2} ({3})" / "el intento {0} {1} tras {2} ({3})",
        queued_for: "waited {0} for a worker" / "esperó {0} a un worker",
        backed_off_for: "waited {0} before the next attempt" / "esperó {0} hasta el intento siguiente",
        asked_for: "waited {0} for an answer" / "esperó {0} una respuesta",
        paused_for: "paused for {0}" / "en pausa durante {0}",
        extended_by: "got {0} more" / "recibió {0} más",
        time_nearly_over: "its time was nearly over" / "su tiempo casi se agotó",
        retried_by_hand: "retried by a person" / "una persona la reintentó",
        checkpoint: "checkpoint {0}" / "punto de control {0}",
        plan_changed: "a person changed the plan, revision {0}" / "una persona cambió el plan, revisión {0}",
        shortened: "Nothing was at work for this long, which is drawn shorter."
            / "Nada trabajó durante este tiempo, que se dibuja más corto.",
        more_good_one: "… and {0} that succeeded" / "… y {0} que tuvo éxito",
        more_good_many: "… and {0} that succeeded" / "… y {0} que tuvieron éxito",
        more_others_one: "… and {0} more" / "… y {0} más",
        more_others_many: "… and {0} more" / "… y {0} más",

        bar_good: "succeeded" / "tuvo éxito",
        bar_bad: "failed" / "falló",
        bar_open: "at work" / "trabajando",
        bar_stopped: "stopped" / "se detuvo",
        bar_lost: "worker lost" / "worker perdido",
        bar_frame: "the browser itself, or a recovery" / "el navegador mismo, o una recuperación",
        bar_queued: "waits for a worker" / "espera a un worker",
        bar_backoff: "waits before the next attempt" / "espera hasta el intento siguiente",
        bar_person: "waits for a person" / "espera a una persona",
        mark_failed: "an attempt failed" / "falló un intento",
        mark_lost: "a worker was lost" / "se perdió un worker",
        mark_asked: "a person is asked" / "se pregunta a una persona",
        mark_answered: "answered, goes on" / "respondido, continúa",
        mark_paused: "paused" / "en pausa",
        mark_stopped: "stopped or taken back" / "detenido o revertido",
        mark_noted: "something else, said beside it" / "otra cosa, dicha al lado",

        tasks: "Tasks" / "Tareas",
        task: "Task" / "Tarea",
        succeeded_one: "{0} that succeeded" / "{0} que tuvo éxito",
        succeeded_many: "{0} that succeeded" / "{0} que tuvieron éxito",
        more_tasks_one: "… and {0} more task, which the page does not list"
            / "… y {0} tarea más, que la página no lista",
        more_tasks_many: "… and {0} more tasks, which the page does not list"
            / "… y {0} tareas más, que la página no lista",
        no_room: "Not shown: {0}, for which the page has no room." / "No se muestra: {0}, que no caben en la página.",
        kept_apart: "Not shown: {0}, kept apart; see `capataz runs show {1} --outputs --json`."
            / "No se muestra: {0}, guardados aparte; véase `capataz runs show {1} --outputs --json`.",
        output_apart: "Not shown: {0}, kept apart; save it with `capataz runs output {1} {2} -o FILE`."
            / "No se muestra: {0}, guardados aparte; guárdelos con `capataz runs output {1} {2} -o ARCHIVO`.",
        not_text: "Not shown: {0} of {1}." / "No se muestra: {0} de {1}.",
        cut: "Cut after {0} characters; it has {1}." / "Cortado tras {0} caracteres; tiene {1}.",
        more_outputs_one: "… and {0} more output" / "… y {0} salida más",
        more_outputs_many: "… and {0} more outputs" / "… y {0} salidas más",

        questions: "Questions to people" / "Preguntas a personas",
        not_answered: "not answered yet" / "sin responder",
        withdrawn: "needs no answer any more" / "ya no necesita respuesta",
        answered: "answered: {0}" / "respuesta: {0}",
        answered_with_value: "answered with a value" / "respuesta con un valor",
        after: ", answered after {0}" / ", con respuesta tras {0}",
        options: "Options" / "Opciones",
        answer_value: "Value of the answer" / "Valor de la respuesta",
        more_questions_one: "… and {0} more question" / "… y {0} pregunta más",
        more_questions_many: "… and {0} more questions" / "… y {0} preguntas más",
        children: "Runs of its tasks" / "Ejecuciones de sus tareas",
        notices_one: "{0} notice" / "{0} aviso",
        notices_many: "{0} notices" / "{0} avisos",

        answer: "Answer" / "Respuesta",
        routing: "How the spec was chosen" / "Cómo se eligió el spec",
        confidence: "Confidence" / "Confianza",
        intent: "Intent" / "Intención",
        keywords: "Keywords" / "Palabras",
        pattern: "Pattern" / "Patrón",
        alternatives: "Others" / "Otros",
        transitions: "Transitions" / "Pasos a otros",
        share_keywords: "Share of keywords" / "Parte de las palabras",
        share_intent: "Share of the intent" / "Parte de la intención",
        share_context: "Share of the conversation" / "Parte de la conversación",

        phases: "Phases" / "Fases",
        changed_at: "Changed" / "Cambió",
        summary: "Summary" / "Resumen",
        what_is_known: "What is known of its attempts" / "Qué se sabe de sus intentos",

        result: "Result" / "Resultado",
        plan_title: "Plan, revision {0}: {1}" / "Plan, revisión {0}: {1}",
        in_mode: "Mode: {0}" / "Modo: {0}",
        no_result: "There is no result." / "No hay resultado.",
        revision_before: "Before: revision {0}, {1}" / "Antes: revisión {0}, {1}",
        calls: "Calls of tools" / "Llamadas a herramientas",
        unexpected: "not what was expected" / "no es lo esperado",
        decisions: "What was decided, step by step" / "Qué se decidió, paso a paso",
        memory: "Memory" / "Memoria",
        recalled: "Prompts with something from memory: {0}, with {1} tokens of it."
            / "Consultas con algo de la memoria: {0}, con {1} tokens de ella.",
        recall_took: ": {0} tokens, found in {1} µs" / ": {0} tokens, encontrados en {1} µs",
        kept_one: "{0} entry kept in memory" / "{0} entrada guardada en la memoria",
        kept_many: "{0} entries kept in memory" / "{0} entradas guardadas en la memoria",
        checkpoints: "Checkpoints" / "Puntos de control",

        written: "{0}: {1}" / "{0}: {1}",
    }

    /// `logs`.
    Logs {
        none: "Run {0}: nothing has been logged" / "Ejecución {0}: no se ha registrado nada",
        missed_one: "… (a line is missing)" / "… (falta una línea)",
        missed_many: "… ({0} lines are missing)" / "… (faltan {0} líneas)",
        missed_some: "… (earlier lines are missing)" / "… (faltan líneas anteriores)",
        away: "the daemon is away, and waited for: {0}" / "el daemon no está y se lo espera: {0}",
    }

    /// `evidence`.
    Evidence {
        head: "ID\tKIND\tSIZE\tOF\tWHEN\t" / "ID\tCLASE\tTAMAÑO\tDE\tCUÁNDO\t",
        none: "Run {0} has no evidence: only actions of a browser leave some."
            / "La ejecución {0} no tiene evidencia: solo la dejan las acciones de un navegador.",
        no_such: "run {0} has no evidence {1}; see `capataz evidence {0}`"
            / "la ejecución {0} no tiene la evidencia {1}; véase `capataz evidence {0}`",
        ambiguous: "{0} fits several pieces of evidence: {1}" / "{0} corresponde a varias piezas de evidencia: {1}",
        exists: "{0} exists, and is left as it is; --force writes over it"
            / "{0} existe y queda como está; --force lo sobrescribe",
        saved: "{0}: {1}, {2}, BLAKE3 {3}" / "{0}: {1}, {2}, BLAKE3 {3}",
        opened: "{0}: {1}, {2}, opened; the file stays there until somebody removes it"
            / "{0}: {1}, {2}, abierta; el archivo queda ahí hasta que alguien lo elimine",
        no_opener: "nothing here opens files: there is no {0} (package xdg-utils); save it with `capataz evidence {1} {2} -o FILE`"
            / "aquí nada abre archivos: no hay {0} (paquete xdg-utils); guárdela con `capataz evidence {1} {2} -o ARCHIVO`",
        not_opened: "{0} has not opened it ({3}); save it with `capataz evidence {1} {2} -o FILE`"
            / "{0} no la ha abierto ({3}); guárdela con `capataz evidence {1} {2} -o ARCHIVO`",
        of_no_type: "a piece of the type \"{0}\" may be anything, and is not opened; save it with `capataz evidence {1} {2} -o FILE`"
            / "una pieza del tipo \"{0}\" puede ser cualquier cosa, y no se abre; guárdela con `capataz evidence {1} {2} -o ARCHIVO`",
        masked: "masked" / "enmascarada",
        save_with: "save one with `capataz evidence {0} ID`, or open it with --open"
            / "guardar una con `capataz evidence {0} ID`, o abrirla con --open",
        of_browser: "browser" / "navegador",
    }
}
