//! Texts of execution modes.

texts! {
    /// `mode …`, and the lines of executions.
    Modes {
        simple: "simple" / "simple",
        planner: "planner" / "planificador",
        supervised: "autonomous (validated plan)" / "no supervisado",
        about_simple: "Direct execution, step by step" / "Ejecución directa paso a paso",
        about_planner: "Detailed planning, with plans made anew" / "Planificación detallada con replanificación",
        about_supervised: "Autonomous execution of a validated plan" / "Ejecución autónoma con plan validado",
        accepted: "query accepted: {0}" / "consulta aceptada: {0}",
        begun: "the mode is {0}" / "el modo es {0}",
        begun_by_session: "the mode is {0}, as session chose it" / "el modo es {0}, elegido para la sesión",
        asked: "the planner is asked" / "se consulta al planificador",
        asked_anew: "the planner is asked for another plan: {0}" / "se pide otro plan al planificador: {0}",
        recalled: "{0}; {1} in mind" / "{0}; {1} en memoria",
        entries_one: "{0} entry" / "{0} entrada",
        entries_many: "{0} entries" / "{0} entradas",
        tokens: "{0} tokens" / "{0} tokens",
        planned: "plan, revision {0}: {1}" / "plan, revisión {0}: {1}",
        actions_one: "{0} action" / "{0} acción",
        actions_many: "{0} actions" / "{0} acciones",
        memory_tokens: "{0} tokens of memory" / "{0} tokens de memoria",
        tokens_in_out: "{0} tokens in, {1} out" / "{0} tokens de entrada, {1} de salida",
        spent: "Models took {0}" / "Los modelos usaron {0}",
        steps_one: "{0} step" / "{0} paso",
        steps_many: "{0} steps" / "{0} pasos",
        decided: "next: {0} ({1})" / "sigue: {0} ({1})",
        pauses: "the planner pauses the run: {0}" / "el planificador pausa la ejecución: {0}",
        escalates: "a person is asked: {0}" / "se pregunta a una persona: {0}",
        edited: "a person has changed the plan, revision {0}: {1}"
            / "una persona cambió el plan, revisión {0}: {1}",
        approved: "revision {0} of the plan is approved" / "la revisión {0} del plan está aprobada",
        rejected: "revision {0} of the plan is rejected" / "la revisión {0} del plan está rechazada",
        tool_approved: "a call of {0} is approved" / "se aprueba la llamada a {0}",
        called: "calls {0}" / "llama a {0}",
        called_step: "calls {0} for step {1}: {2}" / "llama a {0} para el paso {1}: {2}",
        observed: "{0} succeeded after {1}" / "{0} tuvo éxito tras {1}",
        missed: "{0} succeeded after {1}, but the result is not what was expected"
            / "{0} tuvo éxito tras {1}, pero el resultado no es el esperado",
        failed: "{0} failed after {1}: {2}" / "{0} falló tras {1}: {2}",
        escalation_answered: "answered: {0}" / "respuesta: {0}",
        checkpointed: "checkpoint {0}: {1}" / "punto de control {0}: {1}",
        rolled_back: "rolled back to checkpoint {0}" / "revertido al punto de control {0}",
        completed: "the query is done" / "la consulta está hecha",
        session_chosen: "the session's mode is {0} from now on" / "el modo de la sesión es {0} desde ahora",
        deviation: "too many results miss what was expected" / "demasiados resultados no son los esperados",
        errors: "three results in a row are errors" / "tres resultados seguidos son errores",
        resources: "a step names a tool that is not there" / "un paso nombra una herramienta que no existe",
        invalidated: "steps depend on one that has failed" / "hay pasos que dependen de uno que falló",
        planner_demands: "the planner demands it" / "lo exige el planificador",
        head_steps: "\tSTEP\tTOOL\tWHAT FOR\tNEEDS" / "\tPASO\tHERRAMIENTA\tPARA QUÉ\tNECESITA",
        head_checkpoints: "CHECKPOINT\tMADE\tSTEP\tWHY\tGO BACK" / "PUNTO\tHECHO\tPASO\tPOR QUÉ\tVOLVER",
        can: "yes" / "sí",
        cannot: "no: {0}" / "no: {0}",
        no_checkpoints: "No checkpoints." / "No hay puntos de control.",
        no_execution: "run {0} is in no execution mode; see `capataz runs show {0}`"
            / "la ejecución {0} no tiene modo de ejecución; consulta `capataz runs show {0}`",
        mode: "mode" / "modo",
        session: "session" / "sesión",
        stands: "stands" / "estado",
        actions: "actions" / "acciones",
        errors_in_a_row: "errors in a row" / "errores seguidos",
        progress: "progress" / "avance",
        deviates: "deviation" / "desviación",
        replans: "plans made anew" / "replanificaciones",
        escalations: "escalations" / "escalaciones",
        memory: "memory in the last prompt" / "memoria consultada",
        not_begun: "not decided yet" / "sin decidir",
        planning: "planning" / "planificando",
        executing: "executing" / "ejecutando",
        paused: "paused" / "en pausa",
        completed_status: "completed" / "completado",
        error_status: "error" / "error",
        went_back: "Run {0} goes on from checkpoint {1}." / "La ejecución {0} continúa desde el punto {1}.",
        made: "Checkpoint {0} of run {1} is made." / "Se hizo el punto de control {0} de la ejecución {1}.",
        chosen: "Session {0} works in the mode {1} from its next run on."
            / "La sesión {0} trabaja en el modo {1} desde su próxima ejecución.",
        chosen_before: "Session {0} works in the mode {1} from its next run on; before it was {2}."
            / "La sesión {0} trabaja en el modo {1} desde su próxima ejecución; antes era {2}.",
        list_head: "MODE\tNAME\tWHAT IT DOES" / "MODO\tNOMBRE\tQUÉ HACE",
        level: "risk" / "riesgo",
        low: "low" / "bajo",
        medium: "medium" / "medio",
        high: "high" / "alto",
        estimated_steps: "steps" / "pasos",
        complexity: "complexity" / "complejidad",
        confidence: "confidence" / "confianza",
        result: "result" / "resultado",
        edit_kept: "What you have typed is in {0}; mend it, then: `capataz mode edit {1} --plan-file '{0}'`"
            / "Lo que escribió está en {0}; corríjalo y luego: `capataz mode edit {1} --plan-file '{0}'`",
        edit_failed: "the editor {0} did not end well; nothing was answered"
            / "el editor {0} no terminó bien; no se respondió nada",
        no_plan_question: "no plan of run {0} waits to be approved; see `capataz mode show {0}`"
            / "ningún plan de la ejecución {0} espera aprobación; consulta `capataz mode show {0}`",
        approve_with: "approve with `capataz mode approve {0}`, change with `capataz mode edit {0}`, or end with `capataz runs resolve {0} {1} reject`"
            / "aprobar con `capataz mode approve {0}`, cambiar con `capataz mode edit {0}`, o terminar con `capataz runs resolve {0} {1} reject`",
        plan_approved: "The plan of run {0} is approved." / "El plan de la ejecución {0} está aprobado.",
        plan_changed: "The plan of run {0} is changed, and waits for approval again."
            / "El plan de la ejecución {0} cambió y espera aprobación otra vez.",
        plan_left: "Nothing is changed: the plan of run {0} is as it was, and waits for approval."
            / "Nada cambió: el plan de la ejecución {0} está como estaba y espera aprobación.",
    }

    /// Questions that are answered where a run is watched.
    Asking {
        how: "Type a number or a name; Enter leaves it open." / "Escribe un número o un nombre; Intro la deja abierta.",
        left: "left open; answer with `capataz runs resolve {0} {1} ANSWER`"
            / "queda abierta; responde con `capataz runs resolve {0} {1} RESPUESTA`",
        answered: "answered: {0}" / "respondido: {0}",
        gone: "somebody else has answered, or nobody needs to any more" / "alguien ya respondió, o ya no hace falta",
        no_option: "{0} is none of the options" / "{0} no es ninguna de las opciones",
    }
}
