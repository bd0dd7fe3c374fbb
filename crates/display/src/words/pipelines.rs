//! Texts of pipelines.

texts! {
    /// `pipeline run`, `pipeline list`, `pipeline checkpoints` and the lines of phases.
    Pipelines {
        accepted: "pipeline {0} accepted: {1}" / "proceso {0} aceptado: {1}",
        answer: "continue with `capataz pipeline resume {0}`, or end it with `capataz runs resolve {0} {1} abort`"
            / "continuar con `capataz pipeline resume {0}`, o terminarlo con `capataz runs resolve {0} {1} abort`",
        answer_or_go_back: "continue with `capataz pipeline resume {0}`, go back with `capataz pipeline rollback {0}`, or end it with `capataz runs resolve {0} {1} abort`"
            / "continuar con `capataz pipeline resume {0}`, volver con `capataz pipeline rollback {0}`, o terminarlo con `capataz runs resolve {0} {1} abort`",
        phases_one: "{0} phase" / "{0} fase",
        phases_many: "{0} phases" / "{0} fases",
        items_one: "{0} item" / "{0} elemento",
        items_many: "{0} items" / "{0} elementos",
        started: "phase {0} begins" / "empieza la fase {0}",
        some_items: "{0} of {1}" / "{0} de {1}",
        started_items: "phase {0} begins: {1}" / "empieza la fase {0}: {1}",
        rejected: "attempt {0}: the output breaks its rule at {1}: {2}"
            / "intento {0}: la salida incumple su regla en {1}: {2}",
        the_output: "its top" / "su raíz",
        more: "and {0} more" / "y {0} más",
        completed: "phase {0} is completed" / "la fase {0} está completa",
        blocked: "phase {0} is blocked: {1}" / "la fase {0} está bloqueada: {1}",
        changed: "phase {0} goes on" / "la fase {0} continúa",
        changed_agent: "phase {0} goes on with the agent {1}" / "la fase {0} continúa con el agente {1}",
        rolled_back: "rolled back to before phase {0}" / "revertido a antes de la fase {0}",
        valid: "{0} is a valid pipeline: {1}" / "{0} es un proceso válido: {1}",
        head: "PHASE\tSTATUS\tCHANGED\tPAYLOAD" / "FASE\tESTADO\tCAMBIÓ\tCONTENIDO",
        pending: "pending" / "pendiente",
        in_progress: "in progress" / "en curso",
        completed_status: "completed" / "completa",
        blocked_status: "blocked" / "bloqueada",
        none: "{0} is no pipeline: it has no phases" / "{0} no es un proceso: no tiene fases",
        nothing_blocked: "no phase of run {0} is blocked; see `capataz pipeline checkpoints {0}`"
            / "ninguna fase de la ejecución {0} está bloqueada; consulta `capataz pipeline checkpoints {0}`",
        resumed: "Run {0} goes on." / "La ejecución {0} continúa.",
        went_back: "Run {0} goes on from its checkpoint." / "La ejecución {0} continúa desde su punto de control.",
        not_found: "there is no pipeline {0}: neither a file of this name nor {1}; `capataz pipeline list` names those that there are"
            / "no existe el proceso {0}: ni un archivo con este nombre ni {1}; `capataz pipeline list` muestra los que hay",
        no_input: "the input {0} is not KEY=VALUE, KEY:=JSON or path=FOLDER"
            / "la entrada {0} no es CLAVE=VALOR, CLAVE:=JSON ni path=CARPETA",
        no_json: "the input {0} is not JSON: {1}" / "la entrada {0} no es JSON: {1}",
        left_out: "{1} files of {0} are left out: their names are unusual, or there are too many"
            / "se omiten {1} archivos de {0}: sus nombres son inusuales o son demasiados",
        no_checkpoints: "No checkpoints." / "No hay puntos de control.",
        no_file: "there is no such file" / "no existe ese archivo",
        twice: "the input {0} is given twice" / "la entrada {0} se da dos veces",
        list_head: "PIPELINE\tPHASES\tFROM" / "PROCESO\tFASES\tORIGEN",
        built_in: "built in" / "incluido",
        no_pipelines: "No pipelines." / "No hay procesos.",
    }
}
