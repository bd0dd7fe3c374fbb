//! Every text that people read, in English and in Spanish.
//!
//! Both languages stand side by side in `texts!`, so that a text which lacks one of them does not compile. `{0}`, `{1}` …
//! are placeholders that [`fill`] replaces; a language may use them in any order. Texts that are English elsewhere have
//! their Spanish here, by the English: those of the log in [`messages`], those of `--help` in [`help`].

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

/// A language that people are addressed in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Language {
    #[default]
    English,
    Spanish,
}

impl Language {
    /// The language of a tag or a locale: `es`, `es-MX`, `es_ES.UTF-8`, `en`, `C`. `None` where it is another one.
    #[must_use]
    pub fn of_tag(tag: &str) -> Option<Self> {
        match tag.split(['-', '_', '.', '@']).next()?.to_ascii_lowercase().as_str() {
            "es" => Some(Self::Spanish),
            "en" | "c" | "posix" => Some(Self::English),
            _ => None,
        }
    }

    /// The tag of the language: `en`, `es`.
    #[must_use]
    pub const fn tag(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Spanish => "es",
        }
    }

    #[must_use]
    pub const fn words(self) -> &'static Words {
        match self {
            Self::English => &ENGLISH,
            Self::Spanish => &SPANISH,
        }
    }

    /// Makes it the language of the whole process, where nothing else is said by [`Self::within`].
    pub fn choose(self) {
        SPANISH_BY_DEFAULT.store(self == Self::Spanish, Ordering::Relaxed);
    }

    /// Calls `tell`, all texts of which are in this language. It must tell them on this thread.
    pub fn within<T>(self, tell: impl FnOnce() -> T) -> T {
        /// Puts back what there was, also where `tell` panics.
        struct Before(Option<Language>);
        impl Drop for Before {
            fn drop(&mut self) {
                WITHIN.set(self.0);
            }
        }
        let _before = Before(WITHIN.replace(Some(self)));
        tell()
    }

    /// The language in use.
    #[must_use]
    pub fn current() -> Self {
        WITHIN.get().unwrap_or(match SPANISH_BY_DEFAULT.load(Ordering::Relaxed) {
            true => Self::Spanish,
            false => Self::English,
        })
    }
}

static SPANISH_BY_DEFAULT: AtomicBool = AtomicBool::new(false);

thread_local! {
    static WITHIN: Cell<Option<Language>> = const { Cell::new(None) };
}

/// The texts of one language.
#[derive(Debug)]
pub struct Words {
    /// A number as the ordinal of a time: `1st`, `2nd`.
    pub ordinal: fn(u64) -> String,
    pub wave_box: WaveBox,
    pub errors: Errors,
    pub options: Options,
    pub retry: Retry,
    pub watch: Watch,
    pub losses: Losses,
    pub cancels: Cancels,
    pub keys: Keys,
    pub live: Live,
    pub compact: Compact,
    pub choosing: Choosing,
    pub runs: Runs,
    pub statuses: Statuses,
    pub agents: Agents,
    pub contract: Contract,
    pub serve: Serve,
    pub demo: Demo,
    pub rebuild: Rebuild,
    pub sessions: Sessions,
    pub backup: Backup,
    pub doctor: Doctor,
    pub classified: Classified,
    pub agent_stats: AgentStats,
    pub time_travel: TimeTravel,
    pub pipelines: Pipelines,
    pub asking: Asking,
    pub modes: Modes,
    pub cascade: Cascade,
    pub session_views: SessionViews,
    pub memory: Memory,
    pub analytics: Analytics,
    pub ask: Ask,
    pub router: Router,
    pub measures: Measures,
    pub act: Act,
    pub act_error: ActError,
    pub script_lines: ScriptLines,
    pub browser: Browser,
    pub page: Page,
    pub reports: Reports,
    pub evidence: Evidence,
    pub logs: Logs,
    pub usage: Usage,
    pub wrong: Wrong,
    pub init: Init,
    pub local: Local,
    pub needs: Needs,
    pub status: Status,
}

/// The texts in use.
#[must_use]
pub fn words() -> &'static Words {
    Language::current().words()
}

/// Returns `template` with its placeholders replaced.
pub fn fill(template: &str, values: &[&str]) -> String {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        let Some((index, behind)) = after.split_once('}') else {
            text.push('{');
            rest = after;
            continue;
        };
        text.push_str(index.parse().ok().and_then(|index: usize| values.get(index)).copied().unwrap_or(""));
        rest = behind;
    }
    text.push_str(rest);
    text
}

/// Returns `one` for 1, else `many`; both contain the number as `{0}`.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    fill(if number == 1 { one } else { many }, &[&number.to_string()])
}

macro_rules! texts {
    ($($(#[$doc:meta])* $group:ident { $($name:ident: $english:literal / $spanish:literal,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub struct $group { $(pub $name: &'static str,)* }

            impl $group {
                pub(in crate::words) const ENGLISH: Self = Self { $($name: $english,)* };
                pub(in crate::words) const SPANISH: Self = Self { $($name: $spanish,)* };

                /// Each text by its name, in both languages.
                #[cfg(test)]
                pub(in crate::words) fn pairs() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
                    // On the heap: a test chains those of all groups, more than its stack has room for.
                    Vec::from([$((stringify!($name), $english, $spanish),)*]).into_iter()
                }
            }
        )*
    };
}

mod actions;
pub mod advice;
mod browser;
mod compact;
mod configuration;
mod doctor;
mod explain;
pub mod help;
mod json_errors;
mod live;
mod measures;
pub mod messages;
mod modes;
mod own_daemon;
mod pipelines;
mod refusals;
mod reports;
pub mod routing;
mod specs;

pub use actions::{Act, ActError, Browser, Page, ScriptLines};
pub use compact::Compact;
pub use doctor::Doctor;
pub use explain::{AgentStats, Analytics, Cascade, Classified, Memory, SessionViews, TimeTravel};
pub use help::{Usage, Wrong};
pub use live::{Choosing, Live};
pub use measures::Measures;
pub use modes::{Asking, Modes};
pub use own_daemon::{Init, Local, Needs, Status};
pub use pipelines::Pipelines;
pub use reports::{Evidence, Logs, Reports};

const ENGLISH: Words = Words {
    ordinal: english_ordinal,
    wave_box: WaveBox::ENGLISH,
    errors: Errors::ENGLISH,
    options: Options::ENGLISH,
    retry: Retry::ENGLISH,
    watch: Watch::ENGLISH,
    losses: Losses::ENGLISH,
    cancels: Cancels::ENGLISH,
    keys: Keys::ENGLISH,
    live: Live::ENGLISH,
    compact: Compact::ENGLISH,
    choosing: Choosing::ENGLISH,
    runs: Runs::ENGLISH,
    statuses: Statuses::ENGLISH,
    agents: Agents::ENGLISH,
    contract: Contract::ENGLISH,
    serve: Serve::ENGLISH,
    demo: Demo::ENGLISH,
    rebuild: Rebuild::ENGLISH,
    sessions: Sessions::ENGLISH,
    backup: Backup::ENGLISH,
    doctor: Doctor::ENGLISH,
    classified: Classified::ENGLISH,
    agent_stats: AgentStats::ENGLISH,
    time_travel: TimeTravel::ENGLISH,
    pipelines: Pipelines::ENGLISH,
    asking: Asking::ENGLISH,
    modes: Modes::ENGLISH,
    cascade: Cascade::ENGLISH,
    session_views: SessionViews::ENGLISH,
    memory: Memory::ENGLISH,
    analytics: Analytics::ENGLISH,
    ask: Ask::ENGLISH,
    router: Router::ENGLISH,
    measures: Measures::ENGLISH,
    act: Act::ENGLISH,
    act_error: ActError::ENGLISH,
    script_lines: ScriptLines::ENGLISH,
    browser: Browser::ENGLISH,
    page: Page::ENGLISH,
    reports: Reports::ENGLISH,
    evidence: Evidence::ENGLISH,
    logs: Logs::ENGLISH,
    usage: Usage::ENGLISH,
    wrong: Wrong::ENGLISH,
    init: Init::ENGLISH,
    local: Local::ENGLISH,
    needs: Needs::ENGLISH,
    status: Status::ENGLISH,
};

const SPANISH: Words = Words {
    ordinal: spanish_ordinal,
    wave_box: WaveBox::SPANISH,
    errors: Errors::SPANISH,
    options: Options::SPANISH,
    retry: Retry::SPANISH,
    watch: Watch::SPANISH,
    losses: Losses::SPANISH,
    cancels: Cancels::SPANISH,
    keys: Keys::SPANISH,
    live: Live::SPANISH,
    compact: Compact::SPANISH,
    choosing: Choosing::SPANISH,
    runs: Runs::SPANISH,
    statuses: Statuses::SPANISH,
    agents: Agents::SPANISH,
    contract: Contract::SPANISH,
    serve: Serve::SPANISH,
    demo: Demo::SPANISH,
    rebuild: Rebuild::SPANISH,
    sessions: Sessions::SPANISH,
    backup: Backup::SPANISH,
    doctor: Doctor::SPANISH,
    classified: Classified::SPANISH,
    agent_stats: AgentStats::SPANISH,
    time_travel: TimeTravel::SPANISH,
    pipelines: Pipelines::SPANISH,
    asking: Asking::SPANISH,
    modes: Modes::SPANISH,
    cascade: Cascade::SPANISH,
    session_views: SessionViews::SPANISH,
    memory: Memory::SPANISH,
    analytics: Analytics::SPANISH,
    ask: Ask::SPANISH,
    router: Router::SPANISH,
    measures: Measures::SPANISH,
    act: Act::SPANISH,
    act_error: ActError::SPANISH,
    script_lines: ScriptLines::SPANISH,
    browser: Browser::SPANISH,
    page: Page::SPANISH,
    reports: Reports::SPANISH,
    evidence: Evidence::SPANISH,
    logs: Logs::SPANISH,
    usage: Usage::SPANISH,
    wrong: Wrong::SPANISH,
    init: Init::SPANISH,
    local: Local::SPANISH,
    needs: Needs::SPANISH,
    status: Status::SPANISH,
};

fn english_ordinal(number: u64) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

fn spanish_ordinal(number: u64) -> String {
    format!("{number}.ª")
}

texts! {
    /// Why a lease was lost.
    Losses {
        not_acknowledged: "did not acknowledge" / "no acusó recibo",
        silent: "silent" / "en silencio",
        disconnected: "disconnected" / "desconectado",
        restarted: "restarted" / "reiniciado",
        returned: "handed it back" / "la devolvió",
        returned_too_often: "handed it back too often" / "la devolvió demasiadas veces",
    }

    /// Why a task is to end.
    Cancels {
        timeout: "its time is over" / "se agotó su tiempo",
        attempt_timeout: "the time of its attempt is over" / "se agotó el tiempo del intento",
        run_cancelled: "the run is cancelled" / "la ejecución se cancela",
        policy: "the wave is decided" / "la ola está decidida",
        aborted: "the run aborts" / "la ejecución se interrumpe",
        rolled_back: "it is taken back" / "se revierte",
    }

    /// The box of one wave: PARALLEL EXECUTION COMPLETE.
    WaveBox {
        title: "PARALLEL EXECUTION COMPLETE" / "EJECUCIÓN PARALELA COMPLETA",
        policy: "Policy: {0}" / "Política: {0}",
        total_one: "Total: {0} agent" / "Total: {0} agente",
        total_many: "Total: {0} agents" / "Total: {0} agentes",
        agent: "Agent {0} ({1}): {2}" / "Agente {0} ({1}): {2}",
        success: "SUCCESS" / "ÉXITO",
        failed: "FAILED" / "FALLIDO",
        cancelled: "CANCELLED" / "CANCELADO",
        not_started: "NOT STARTED" / "SIN EMPEZAR",
        unfinished: "UNFINISHED" / "SIN TERMINAR",
        timeout: "timeout" / "tiempo agotado",
        error: "error" / "error",
        more: "... and {0} more: {1}" / "... y {0} más: {1}",
        result: "Result: {0}" / "Resultado: {0}",
        met: "MET" / "CUMPLIDO",
        not_met: "NOT MET" / "NO CUMPLIDO",
        status: "Status: {0}" / "Estado: {0}",
        continuing: "CONTINUING" / "CONTINUANDO",
        stopping: "STOPPING" / "DETENIENDO",
        wave: "Wave {0} of {1}: {2}" / "Ola {0} de {1}: {2}",
    }

    /// Boxes of errors and warnings.
    Errors {
        error: "ERROR: {0}" / "ERROR: {0}",
        warning: "WARNING: {0}" / "WARNING: {0}",
        severity: "Severity: {0}" / "Severidad: {0}",
        required_action: "REQUIRED ACTION:" / "ACCIÓN REQUERIDA:",
        resolve_first: "Resolve the error before going on" / "Resolver el error antes de continuar",
        options: "Options:" / "Opciones:",
        continuing: "Continuing automatically..." / "Continuando automáticamente...",
        info: "[INFO] {0}" / "[INFO] {0}",
        ok: "[OK] {0}" / "[OK] {0}",
        agent_missing: "The agent \"{0}\" does not exist" / "El agente \"{0}\" no existe",
        similar_agents: "Similar agents available:" / "Agentes similares disponibles:",
        no_similar_agents: "No agent has a similar name" / "Ningún agente tiene un nombre similar",
        similar_names: "Similar names available:" / "Nombres similares disponibles:",
        log: "Its log (`capataz logs {0} {1}`):" / "Su registro (`capataz logs {0} {1}`):",
        did_you_mean: "{0}: did you mean {1}?" / "{0}: ¿quizá {1}?",
        no_similar_names: "Nothing has a similar name" / "Nada tiene un nombre similar",
        correct_agent: "Correct the agent's name in the plan" / "Corregir el nombre del agente en el plan",
        correct_name: "Correct the name" / "Corregir el nombre",
        details: "Details:" / "Detalles:",
        more_details: "... and {0} more errors" / "... y {0} errores más",
        invalid_transition: "Invalid transition detected:" / "Transición inválida detectada:",
        skipping: "(skipping {0})" / "(saltando {0})",
        correct_steps: "Correct steps:" / "Pasos correctos:",
        task_timed_out: "The task \"{0}\" exceeded its timeout"
            / "La tarea \"{0}\" excedió su tiempo límite",
        configured: "Configured time: {0}" / "Tiempo configurado: {0}",
        elapsed: "Elapsed time: {0}" / "Tiempo transcurrido: {0}",
        last_health_check: "Last health check: {0} ago" / "Último health check: hace {0}",
        no_health_check: "Last health check: never" / "Último health check: nunca",
        raise_timeout: "Give the task more time: `timeouts.timeout` in the plan"
            / "Dar más tiempo a la tarea: `timeouts.timeout` en el plan",
        current_state: "Current state:" / "Estado actual:",
        state_agent: "Agent: {0}" / "Agente: {0}",
        state_phase: "Phase: {0}" / "Fase: {0}",
        state_output: "Partial output: {0} bytes" / "Salida parcial: {0} bytes",
        state_tokens: "Partial output: ~{0} tokens ({1} bytes)" / "Salida parcial: ~{0} tokens ({1} bytes)",
        attempts: "Attempts: {0} exhausted" / "Intentos: {0} agotados",
        total_time: "Total time: {0}" / "Tiempo total: {0}",
        last_error: "Last error:" / "Último error:",
        problem: "The problem seems to be:" / "El problema parece ser:",
        original: "Original error: {0}" / "Error original: {0}",
        reason: "Reason: {0}" / "Motivo: {0}",
        multiple: "MULTIPLE CRITICAL ERRORS" / "MÚLTIPLES ERRORES CRÍTICOS",
        found: "Errors found:" / "Errores encontrados:",
        repaired: "{0} (repaired)" / "{0} (reparado)",
        aborted: "The run was stopped by critical errors" / "La operación fue abortada por errores críticos",
        saved: "State saved for recovery:" / "Estado guardado para recuperación:",
        go_on: "`{0}` to go on" / "`{0}` para continuar",
        recovery: "Ways to recover:" / "Opciones de recuperación:",
        next: "next: {0}" / "siguiente paso: {0}",
        or_with: ", or with {0}" / ", o con {0}",
        configuration: "the configuration is wrong" / "la configuración es incorrecta",
        unreachable: "the daemon at {0} cannot be reached" / "no se puede llegar al daemon en {0}",
        unreachable_hint: "Start one with `capataz serve`, or name another with --addr or CAPATAZ_ADDR."
            / "Inicie uno con `capataz serve`, o indique otro con --addr o CAPATAZ_ADDR.",
        no_stdout: "cannot write to standard output: {0}" / "no se puede escribir en la salida estándar: {0}",
        minutes_one: "{0} minute" / "{0} minuto",
        minutes_many: "{0} minutes" / "{0} minutos",
        seconds_one: "{0} second" / "{0} segundo",
        seconds_many: "{0} seconds" / "{0} segundos",
    }

    /// The answers that people can give to a question.
    Options {
        extend: "Extend the timeout (+15 min)" / "Extender el tiempo límite (+15 min)",
        terminate: "Stop and use the partial output" / "Terminar y usar la salida parcial",
        retry: "Retry from the start" / "Reintentar desde el inicio",
        retry_manual: "Retry after the fix" / "Reintentar después de corregir",
        debug: "Investigate with `capataz runs logs {0}`" / "Investigar con `capataz runs logs {0}`",
        skip: "Skip this task" / "Saltar esta tarea",
        skip_high: "Skip (not recommended)" / "Saltar (no recomendado)",
        fix_manual: "Fix it by hand" / "Corregir a mano",
        succeeded: "It has happened: count it as a success" / "Ocurrió: contarlo como éxito",
        failed: "It has not happened: count it as a failure" / "No ocurrió: contarlo como fallo",
        cascade: "Take them back, too: `capataz runs rollback {0} {1} --cascade`"
            / "Revertirlas también: `capataz runs rollback {0} {1} --cascade`",
        correct: "Correct the flow automatically: `capataz runs rollback {0} {1}`"
            / "Corregir el flujo automáticamente: `capataz runs rollback {0} {1}`",
        abort: "Abort" / "Abortar",
        continue_with: "Go on with what is left: `capataz runs continue {0}`"
            / "Continuar con lo que queda: `capataz runs continue {0}`",
        abort_with: "Abort the run: `capataz runs cancel {0}`" / "Abortar la ejecución: `capataz runs cancel {0}`",
        abort_all: "Abort the whole operation" / "Abortar toda la operación",
        restore: "Restore from backup: `capataz sessions restore{0}`"
            / "Restaurar desde backup: `capataz sessions restore{0}`",
        repair: "Repair the state (what is valid is kept): `capataz sessions repair{0}`"
            / "Reparar el estado (se conserva lo válido): `capataz sessions repair{0}`",
        reinitialise: "Reinitialise the state (history is lost): `capataz sessions repair --reinitialise{0}`"
            / "Reinicializar el estado (se pierde el historial): `capataz sessions repair --reinitialise{0}`",
        edit: "Edit by hand" / "Editar manualmente",
        make_readable: "Make it a file that may be read, or name another one"
            / "Conviértalo en un archivo que se pueda leer, o indique otro",
    }

    /// The RETRY box.
    Retry {
        title: "RETRY: {0}" / "REINTENTO: {0}",
        attempt: "Attempt {0}/{1}: {2}" / "Intento {0}/{1}: {2}",
        waiting: "Waiting {0} before retry..." / "Esperando {0} antes de reintentar...",
        failed: "attempt {0} failed ({1})" / "falló el intento {0} ({1})",
        exhausted: "All attempts exhausted" / "Todos los intentos agotados",
        escalated: "Error escalated to user" / "Error escalado al usuario",
    }

    /// Events of a run, while it is watched.
    Watch {
        ask_accepted: "asked: {0}" / "preguntado: {0}",
        ask_begun: "its turn in the session" / "es su turno en la sesión",
        ask_routed: "goes to {0} ({1}, confidence {2}): {3}" / "va a {0} ({1}, confianza {2}): {3}",
        session_opened: "session {0} opened" / "sesión {0} abierta",
        session_turn: "request {0} ended; the session is with {1}"
            / "la solicitud {0} terminó; la sesión sigue con {1}",
        session_state: "the session is in phase {0}" / "la sesión está en la fase {0}",
        session_imported: "the session has the state of a file" / "la sesión tiene el estado de un archivo",
        session_waits: "the session waits: {0}" / "la sesión espera: {0}",
        session_goes_on: "the session goes on" / "la sesión continúa",
        session_moved: "the session moves from {0} to {1}" / "la sesión pasa de {0} a {1}",
        accepted: "run accepted: {0}, {1}, {2}" / "ejecución aceptada: {0}, {1}, {2}",
        waves_one: "{0} wave" / "{0} ola",
        waves_many: "{0} waves" / "{0} olas",
        tasks_one: "{0} task" / "{0} tarea",
        tasks_many: "{0} tasks" / "{0} tareas",
        wave_started: "wave {0} of {1} ({2}): {3} under {4}" / "ola {0} de {1} ({2}): {3} con {4}",
        leased: "attempt {0} began ({1})" / "el intento {0} empezó ({1})",
        leased_again: "attempt {0} goes on ({1})" / "el intento {0} continúa ({1})",
        child_named: "attempt {0} began as run {1}" / "el intento {0} empezó como la ejecución {1}",
        child_ended: "run {0} ended: {1}" / "la ejecución {0} terminó: {1}",
        lease_lost: "worker lost: {0} ({1} time)" / "worker perdido: {0} ({1} vez)",
        begun_anew: "is done anew: whoever works on it works for the other run"
            / "se hace de nuevo: quien trabaja en ella trabaja para la otra ejecución",
        attempt_failed: "attempt {0} failed: {1}; again in {2}"
            / "el intento {0} falló: {1}; otra vez en {2}",
        retry_due: "waits for its next attempt" / "espera su próximo intento",
        cancel_requested: "asked to stop: {0}" / "se le pidió parar: {0}",
        extended: "deadline extended to {0} after its start"
            / "tiempo límite extendido a {0} desde su inicio",
        cancel_withdrawn: "; the request to stop was withdrawn" / "; se retiró la petición de parar",
        succeeded: "succeeded in {0}" / "éxito en {0}",
        taken_over: "taken over: it succeeded before" / "retomada: ya tuvo éxito antes",
        succeeded_after: "succeeded in {0}, attempt {1}" / "éxito en {0}, intento {1}",
        failed: "failed after {0}: {1}" / "falló después de {0}: {1}",
        failed_listed: "failed after {0} ({1}; listed at the end)"
            / "falló después de {0} ({1}; se lista al final)",
        timed_out: "timed out after {0}" / "se agotó su tiempo después de {0}",
        cancelled: "cancelled after {0}" / "cancelada después de {0}",
        never_started: "never started" / "nunca empezó",
        reactivated: "retried by hand (activation {0})" / "reintentada a mano (activación {0})",
        rolled_back: "taken back (activation {0})" / "revertida (activación {0})",
        rolled_back_with: "taken back (activation {0}), and with it {1}"
            / "revertida (activación {0}), y con ella {1}",
        partial_kept: "its partial output is its output" / "su salida parcial es su salida",
        result_refused: "a late result of {0} was refused" / "se rechazó un resultado tardío de {0}",
        completion_refused: "{0} said that it is done, which was refused: {1}"
            / "{0} dijo que está hecha, lo que se rechazó: {1}",
        wave_decided: "decided early: {0}" / "decidida antes del final: {0}",
        wave_finished: "wave {0} finished: {1}" / "la ola {0} terminó: {1}",
        question: "question {0}: {1}" / "pregunta {0}: {1}",
        answer_with: "answer with `capataz runs resolve {0} {1} {2}`{3}"
            / "responder con `capataz runs resolve {0} {1} {2}`{3}",
        answer_typed: "its value has to pass the JSON Schema that `capataz runs show {0} --json` shows"
            / "su valor debe cumplir el JSON Schema que muestra `capataz runs show {0} --json`",
        answered: "question {0} answered: {1}" / "pregunta {0} respondida: {1}",
        question_withdrawn: "question {0} needs no answer any more" / "la pregunta {0} ya no necesita respuesta",
        forked: "forked from run {0} after event {1}: from here on it goes on by itself"
            / "bifurcada de la ejecución {0} tras el evento {1}: desde aquí sigue por su cuenta",
        paused: "paused" / "en pausa",
        resumed: "resumed" / "reanudada",
        cancel_run: "cancelled: {0}" / "cancelada: {0}",
        cancel_run_bare: "cancelled" / "cancelada",
        aborting: "aborts: {0}" / "aborta: {0}",
        finished: "run finished: {0}" / "la ejecución terminó: {0}",
        input_resolved: "its input was resolved" / "se resolvió su entrada",
        unknown_event: "event {0}, unknown to this version" / "evento {0}, desconocido para esta versión",
        unknown_task: "wave {0}, task {1}" / "ola {0}, tarea {1}",
        attempt: "attempt {0}/{1}" / "intento {0}/{1}",
        retry_in: "again in {0}" / "otra vez en {0}",
        left: "{0} left" / "quedan {0}",
        imminent: "TIMEOUT_IMMINENT: {0} left" / "TIMEOUT_IMMINENT: quedan {0}",
        stopping: "stopping" / "parando",
        more_running: "… and {0} more" / "… y {0} más",
        queued: "{0} queued" / "{0} en cola",
        queued_absent: "{0} queued; no worker serves {1}" / "{0} en cola; ningún worker sirve a {1}",
        policy: "{0}: {1}" / "{0}: {1}",
        so_far: "{0} of {1} settled, {2} succeeded" / "{0} de {1} terminadas, {2} con éxito",
        need: "needs {0}" / "necesita {0}",
        critical: "critical: {0}" / "críticas: {0}",
        waiting_answer: "waits for an answer: {0}" / "espera una respuesta: {0}",
        run_paused: "paused: no new attempts" / "en pausa: sin intentos nuevos",
        run_cancelling: "stopping" / "parando",
        reconnecting: "connection lost ({0}); trying again in {1}"
            / "conexión perdida ({0}); nuevo intento en {1}",
        gone: "The daemon no longer answers. The run goes on when the daemon is back."
            / "El daemon ya no responde. La ejecución continúa cuando vuelva.",
        timeout: "The run is still running after {0}." / "La ejecución sigue en marcha después de {0}.",
        detached: "The run goes on without you." / "La ejecución continúa sin usted.",
        watch_with: "watch it:  capataz runs watch {0}" / "seguirla:    capataz runs watch {0}",
        cancel_with: "stop it:   capataz runs cancel {0}" / "pararla:     capataz runs cancel {0}",
        show_with: "look at it: capataz runs show {0}" / "examinarla:  capataz runs show {0}",
        continue_with: "go on:      capataz runs continue {0}" / "continuarla: capataz runs continue {0}",
        outcome: "{0}: {1} in {2}" / "{0}: {1} en {2}",
        failures_listed: "Failures:" / "Fallos:",
        retries_listed: "Tried again:" / "Reintentadas:",
        warnings_listed: "Warnings:" / "Advertencias:",
        notes_listed: "Notes:" / "Notas:",
        notices_omitted: "{0} more notices are in the run's events: capataz runs logs {1}"
            / "{0} avisos más están en los eventos de la ejecución: capataz runs logs {1}",
        output_of: "Output of {0}:" / "Salida de {0}:",
        output_elsewhere: "(not shown; save it with `capataz runs output {0} {1} -o FILE`)"
            / "(no se muestra; guárdela con `capataz runs output {0} {1} -o ARCHIVO`)",
        output_empty: "(empty)" / "(vacía)",
        progress: "at work: {0}" / "trabajando: {0}",
        progress_bare: "at work" / "trabajando",
        in_short: "From here on, an error has one line; in whole: capataz runs show {0} --failed --all"
            / "Desde aquí, un error tiene una línea; entero: capataz runs show {0} --failed --all",
        more_questions_one: "… and {0} more open question: capataz runs show {1}"
            / "… y {0} pregunta abierta más: capataz runs show {1}",
        more_questions_many: "… and {0} more open questions: capataz runs show {1}"
            / "… y {0} preguntas abiertas más: capataz runs show {1}",
    }

    /// The keys of the live view, and what came of them.
    Keys {
        offer: "e: {0} more for {1}, the next to time out; Ctrl-C: leave (the run goes on)"
            / "e: {0} más para {1}, la próxima en agotar su tiempo; Ctrl-C: salir (la ejecución continúa)",
        offer_over: "e: {0} more for {1}, whose time is over; Ctrl-C: leave (the run goes on)"
            / "e: {0} más para {1}, cuyo tiempo se ha agotado; Ctrl-C: salir (la ejecución continúa)",
        asking: "asking for {0} more for {1} …" / "pidiendo {0} más para {1} …",
        nothing: "e: no task has time that could be extended"
            / "e: ninguna tarea tiene tiempo que se pueda ampliar",
        refused: "{0} gets no more time: {1}" / "{0} no recibe más tiempo: {1}",
        refused_by: "{0} gets no more time: {1} ({2})" / "{0} no recibe más tiempo: {1} ({2})",
    }

    /// The commands under `runs`.
    Runs {
        none: "No runs." / "No hay ejecuciones.",
        head: "RUN\tNAME\tSTATUS\tTASKS\tSTARTED\tTOOK\tKIND\tLABELS"
            / "EJECUCIÓN\tNOMBRE\tESTADO\tTAREAS\tEMPEZÓ\tDURÓ\tCLASE\tETIQUETAS",
        more: "More: --page-token {0}" / "Más: --page-token {0}",
        id: "Run" / "Ejecución",
        name: "Name" / "Nombre",
        status: "Status" / "Estado",
        labels: "Labels" / "Etiquetas",
        created: "Started" / "Empezó",
        took: "Took" / "Duró",
        tasks: "Tasks" / "Tareas",
        parent: "Parent" / "Madre",
        forked_from: "Forked from" / "Bifurcada de",
        forked_at: "{0}, event {1}" / "{0}, evento {1}",
        settled: "{0} of {1} settled" / "{0} de {1} terminadas",
        at_work: "{0} % of its time; health checks {1}, heard {2} ago"
            / "{0} % de su tiempo; health checks {1}, se supo de ella hace {2}",
        at_work_unheard: "{0} % of its time; health checks {1}, not heard yet"
            / "{0} % de su tiempo; health checks {1}, todavía no se supo de ella",
        last_said: "{0}; last said: {1}" / "{0}; lo último que dijo: {1}",
        nobody_serves: "waits: nobody has served its agent yet" / "espera: todavía nadie atiende a su agente",
        nobody_serves_since: "waits: nobody serves its agent, last seen {0} ago"
            / "espera: nadie atiende a su agente, visto hace {0}",
        held_back: "waits: a rate limit holds its agent for {0}" / "espera: un límite retiene a su agente {0}",
        waits_for_slot: "waits for a slot: at work {0}, workers {1}, waiting {2}"
            / "espera un sitio: trabajando {0}, workers {1}, en espera {2}",
        ahead: "{0}, before it {1}" / "{0}, antes que ella {1}",
        nothing_failed: "Nothing has failed." / "Nada ha fallado.",
        failed_task: "{0} (agent {1}, wave {2})" / "{0} (agente {1}, ola {2})",
        failed_attempt: "attempt {0}: {1} after {2}" / "intento {0}: {1} tras {2}",
        fails_again: "run it again: {0}" / "repetirlo: {0}",
        more_failed_one: "… and {0} more task has failed; in a line: `capataz runs show {1} --state failed`; all in whole: `capataz runs show {1} --failed --all`"
            / "… y ha fallado {0} tarea más; en una línea: `capataz runs show {1} --state failed`; todas enteras: `capataz runs show {1} --failed --all`",
        more_failed_many: "… and {0} more tasks have failed; a line for each: `capataz runs show {1} --state failed`; all in whole: `capataz runs show {1} --failed --all`"
            / "… y han fallado {0} tareas más; una línea para cada una: `capataz runs show {1} --state failed`; todas enteras: `capataz runs show {1} --failed --all`",
        task_head: "TASK\tAGENT\tSTATE\tATTEMPT\tTOOK\tDETAIL"
            / "TAREA\tAGENTE\tESTADO\tINTENTO\tDURÓ\tDETALLE",
        wave: "Wave {0} of {1}: {2} ({3})" / "Ola {0} de {1}: {2} ({3})",
        open_questions: "Open questions:" / "Preguntas abiertas:",
        no_such: "none of the newest {1} runs has an id that begins or ends with \"{0}\""
            / "ninguna de las {1} ejecuciones más nuevas tiene un id que empiece o termine con \"{0}\"",
        ambiguous: "\"{0}\" fits several runs: {1}" / "\"{0}\" corresponde a varias ejecuciones: {1}",
        none_yet: "there are no runs yet" / "todavía no hay ejecuciones",
        none_yet_hint: "Start one with `capataz run`, `capataz act` or `capataz ask`."
            / "Inicie una con `capataz run`, `capataz act` o `capataz ask`.",
        unnamed: "the name of the run is empty: give its id, the beginning or end of it, or `latest`"
            / "el nombre de la ejecución está vacío: indique su id, el comienzo o el final de él, o `latest`",
        named_twice: "{0} is named more than once, and counts once."
            / "{0} se nombra más de una vez, y cuenta una sola.",
        no_such_task: "run {0} has no task {1}" / "la ejecución {0} no tiene la tarea {1}",
        tasks_are_shown: "`capataz runs show {0}` shows its tasks." / "`capataz runs show {0}` muestra sus tareas.",
        no_output: "the task {1} of run {0} has no output" / "la tarea {1} de la ejecución {0} no tiene salida",
        no_output_yet: "the task {1} of run {0} has no output yet"
            / "la tarea {1} de la ejecución {0} todavía no tiene salida",
        output_saved: "{0}: {1}, {2}" / "{0}: {1}, {2}",
        output_no_text: "the output is no text that a terminal shows ({0} of {1}): write it with -o FILE"
            / "la salida no es un texto que se muestre en una terminal ({0} de {1}): escríbala con -o ARCHIVO",
        states_of_script: "run {0} is a script: it has actions and no tasks, among which --state could choose"
            / "la ejecución {0} es un script: tiene acciones y no tareas entre las que --state pueda elegir",
        not_cancelled: "{0} is not cancelled:" / "{0} no se cancela:",
        not_deleted: "{0} is not removed:" / "{0} no se elimina:",
        cancelled: "Cancelling {0}." / "Cancelando {0}.",
        paused: "Paused {0}: no new attempts; running tasks go on."
            / "{0} en pausa: sin intentos nuevos; las tareas en marcha continúan.",
        resumed: "Resumed {0}." / "{0} reanudada.",
        deleted: "Removed {0}: {1} bytes of events." / "{0} eliminada: {1} bytes de eventos.",
        released: "Released {0}: it goes on." / "{0} liberada: continúa.",
        not_quarantined: "{0} is in no quarantine." / "{0} no está en cuarentena.",
        extended: "{0} now has until {1}." / "{0} tiene ahora hasta {1}.",
        retried: "{0} is retried (activation {1})." / "{0} se reintenta (activación {1}).",
        rolled_back: "{0} was taken back and begins anew (activation {1})."
            / "{0} se revirtió y empieza de nuevo (activación {1}).",
        resolved: "Question {0} answered: {1}." / "Pregunta {0} respondida: {1}.",
        started: "Started {0}." / "{0} empezó.",
        no_session: "Run {0} belongs to no session: there is no state that a file could follow."
            / "La ejecución {0} no es de ninguna sesión: no hay estado que un archivo pueda seguir.",
        continued: "Going on with what {0} has left." / "Sigue con lo que {0} ha dejado.",
        forked: "Going on from event {1} of {0}." / "Sigue desde el evento {1} de {0}.",
        already: "{0} already exists." / "{0} ya existe.",
        critical: "critical" / "crítica",
    }

    /// Statuses and outcomes of runs.
    Statuses {
        running: "running" / "en marcha",
        paused: "paused" / "en pausa",
        waiting: "waiting" / "esperando",
        cancelling: "cancelling" / "cancelando",
        succeeded: "succeeded" / "con éxito",
        with_failures: "succeeded_with_failures" / "con éxito y fallos",
        failed: "failed" / "fallida",
        cancelled: "cancelled" / "cancelada",
        blocked: "blocked" / "bloqueada",
        damaged: "damaged" / "dañada",
    }

    /// The commands under `agents`.
    Agents {
        none: "No agents. Declare some in capataz.toml, or connect a worker."
            / "No hay agentes. Declare algunos en capataz.toml, o conecte un worker.",
        head: "AGENT\tCATEGORY\tKIND\tSERVED BY\tWORKERS\tAT ONCE\tRUNNING\tQUEUED\tLAST SEEN"
            / "AGENTE\tCATEGORÍA\tCLASE\tSERVIDO POR\tWORKERS\tA LA VEZ\tEN MARCHA\tEN COLA\tVISTO",
        checked: "{0} of {1} names are known" / "{0} de {1} nombres son conocidos",
        an_agent: "agent" / "agente",
        a_command: "command" / "comando",
        a_resource: "resource" / "recurso",
        held: "{0} (held for {1})" / "{0} (retenidas {1})",
        process: "process" / "proceso",
        worker: "worker" / "worker",
        declared: "declared" / "declarado",
        now: "now" / "ahora",
        ago: "{0} ago" / "hace {0}",
    }

    /// `contract check`, and the local checks of `run`.
    Contract {
        valid: "{0}: a valid plan ({1}, {2})" / "{0}: un plan válido ({1}, {2})",
        valid_request: "{0}: a valid request" / "{0}: una solicitud válida",
        valid_response: "{0}: a valid response" / "{0}: una respuesta válida",
        only_json: "documents of this kind are JSON, never TOML"
            / "los documentos de este tipo son JSON, nunca TOML",
        invalid: "{0}: {1}" / "{0}: {1}",
        violations_one: "{0} violation" / "{0} violación",
        violations_many: "{0} violations" / "{0} violaciones",
        document: "(document)" / "(documento)",
        cannot_read: "cannot read {0}: {1}" / "no se puede leer {0}: {1}",
    }

    /// `serve`.
    Serve {
        listening: "capataz listens on http://{0}" / "capataz escucha en http://{0}",
        data: "data folder: {0}" / "carpeta de datos: {0}",
        specs: "specs: {0}" / "specs: {0}",
        agents_one: "{0} process agent" / "{0} agente de proceso",
        agents_many: "{0} process agents" / "{0} agentes de proceso",
        stopping: "stopping; press Ctrl-C again to force" / "parando; otro Ctrl-C lo fuerza",
        check_head: "KEY\tVALUE\tFROM" / "CLAVE\tVALOR\tDE",
        bad_filter: "--log: {0}" / "--log: {0}",
        no_runtime: "cannot start: {0}" / "no se puede empezar: {0}",
        no_signals: "cannot hear when to stop: {0}" / "no se puede saber cuándo parar: {0}",
    }

    /// `rebuild`.
    Rebuild {
        differs: "run {0}: {1} is {2}, and its log says {3}"
            / "ejecución {0}: {1} es {2}, y su log dice {3}",
        left: "left as it is: {0}" / "se deja como está: {0}",
        progress: "{0} runs looked at, {1} to be written again, {2} written"
            / "{0} ejecuciones examinadas, {1} por escribir de nuevo, {2} escritas",
        runs_one: "{0} run looked at" / "{0} ejecución examinada",
        runs_many: "{0} runs looked at" / "{0} ejecuciones examinadas",
        same: "every row follows from its log" / "cada fila se sigue de su log",
        differing_one: "{0} run with rows that do not follow from its log"
            / "{0} ejecución con filas que no se siguen de su log",
        differing_many: "{0} runs with rows that do not follow from their logs"
            / "{0} ejecuciones con filas que no se siguen de sus logs",
        mended_one: "{0} run written again" / "{0} ejecución escrita de nuevo",
        mended_many: "{0} runs written again" / "{0} ejecuciones escritas de nuevo",
        left_one: "{0} run left as it is" / "{0} ejecución queda como está",
        left_many: "{0} runs left as they are" / "{0} ejecuciones quedan como están",
    }

    /// The commands under `sessions`.
    Sessions {
        valid: "{0}: a valid state" / "{0}: un estado válido",
        imported: "session {0} has the state of {1}" / "la sesión {0} tiene el estado de {1}",
        same: "session {0} had the state of {1} already" / "la sesión {0} ya tenía el estado de {1}",
        exported: "{1} has the state of session {0}" / "{1} tiene el estado de la sesión {0}",
        no_state: "session {0} has no state of work: no plan has been in it, and nothing was imported"
            / "la sesión {0} no tiene estado de trabajo: no hubo ningún plan en ella ni se importó nada",
        busy: "a plan is at work in session {0}: the file is not imported, and the plan begins with what the session knows then"
            / "un plan trabaja en la sesión {0}: el archivo no se importa, y el plan comienza con lo que la sesión sepa entonces",
        newer: "session {0} has a newer state than {1}, which is not imported: a plan went on while nobody waited for it"
            / "la sesión {0} tiene un estado más nuevo que {1}, que no se importa: un plan siguió mientras nadie lo esperaba",
        not_written: "the state file was not written: {0}" / "no se escribió el archivo de estado: {0}",
        no_backup: "there is no valid backup at {0}; `capataz sessions repair` keeps what is valid of the state"
            / "no hay una copia de seguridad válida en {0}; `capataz sessions repair` conserva lo válido del estado",
        in_use: "another process is changing {0}; try again when it is done"
            / "otro proceso está cambiando {0}; inténtelo de nuevo cuando termine",
        cannot: "{0}: {1}" / "{0}: {1}",
        not_allowed: "{0}: the file or its folder may not be read or written: {1}"
            / "{0}: no está permitido leer o escribir el archivo o su carpeta: {1}",
        dangling: "it is a link to {0}, which leads to no file ({1})"
            / "es un enlace a {0}, que no lleva a ningún archivo ({1})",
        no_file: "it is not a file" / "no es un archivo",
        place: "line {0}, column {1}" / "línea {0}, columna {1}",
        repaired_name: "repaired" / "reparado",
        rewritten: "{0}: written again from the session's state"
            / "{0}: escrito de nuevo con el estado de la sesión",
        restored: "{0}: restored from its backup" / "{0}: restaurado desde su copia de seguridad",
        repaired: "{0}: repaired" / "{0}: reparado",
        begun: "{0}: begun anew, because nothing of it could be kept"
            / "{0}: empezado de nuevo, porque nada de él se podía conservar",
        reinitialised: "{0}: begun anew" / "{0}: empezado de nuevo",
        would_restore: "{0}: would be restored from its backup; nothing was changed"
            / "{0}: se restauraría desde su copia de seguridad; no se cambió nada",
        would_repair: "{0}: would be repaired like this; nothing was changed"
            / "{0}: se repararía así; no se cambió nada",
        would_begin: "{0}: would begin anew; nothing was changed" / "{0}: empezaría de nuevo; no se cambió nada",
        kept_aside: "What was there is in {0}." / "Lo que había está en {0}.",
        added: "{0} added" / "{0} añadido",
        reset: "{0} begins anew" / "{0} empieza de nuevo",
        removed: "{0} removed" / "{0} eliminado",
        filtered_one: "{0} invalid entry of the history left out" / "{0} entrada inválida del historial omitida",
        filtered_many: "{0} invalid entries of the history left out"
            / "{0} entradas inválidas del historial omitidas",
    }

    /// `backup`, `restore` and `verify`.
    Backup {
        copying: "{0} % of the database copied" / "{0} % de la base de datos copiado",
        blobs: "{0} of {1} blobs" / "{0} de {1} blobs",
        verifying: "{0} runs looked at" / "{0} ejecuciones examinadas",
        made: "backup: {0}" / "copia de seguridad: {0}",
        restored: "restored: {0}" / "restaurado: {0}",
        from: "from a backup of {0}" / "de una copia de seguridad del {0}",
        damaged_run: "damaged: {0}" / "dañada: {0}",
        stale_row: "a row to be made again with `capataz rebuild`: {0}"
            / "una fila por rehacer con `capataz rebuild`: {0}",
        damaged_blob: "damaged: the content of blob {0} is not what was put"
            / "dañado: el contenido del blob {0} no es el que se guardó",
        missing_blob: "missing: blob {0}, to which runs refer"
            / "falta: el blob {0}, al que se refieren ejecuciones",
        runs_one: "{0} run" / "{0} ejecución",
        runs_many: "{0} runs" / "{0} ejecuciones",
        blobs_one: "{0} blob" / "{0} blob",
        blobs_many: "{0} blobs" / "{0} blobs",
        whole: "everything is whole" / "todo está íntegro",
        damage_one: "{0} damaged or missing" / "{0} daño o falta",
        damage_many: "{0} damaged or missing" / "{0} daños o faltas",
    }

    /// `demo`.
    Demo {
        no_folder: "{0} is not a folder" / "{0} no es una carpeta",
        no_runtime_folder: "cannot make a folder for the demo: {0}"
            / "no se puede crear una carpeta para la demo: {0}",
        intro: "The demo starts a daemon of its own and a real crew, which examines {0}."
            / "La demo inicia un daemon propio y una cuadrilla real, que examina {0}.",
        intro_tasks: "One task is flaky and is retried; one hangs and is stopped. The quorum does not need the second one."
            / "Una tarea es inestable y se reintenta; otra se cuelga y se detiene. El quórum no necesita la segunda.",
        summary: "{0} in {1}, mostly {2}; {3}; the service says: {4}."
            / "{0} en {1}, sobre todo {2}; {3}; el servicio dice: {4}.",
        lines_one: "{0} line" / "{0} línea",
        lines_many: "{0} lines" / "{0} líneas",
        files_one: "{0} file" / "{0} archivo",
        files_many: "{0} files" / "{0} archivos",
        markers_one: "{0} open marker" / "{0} marca abierta",
        markers_many: "{0} open markers" / "{0} marcas abiertas",
        log: "log:          {0}" / "log:            {0}",
        again: "see it again: capataz serve --data-dir {0} &"
            / "verlo de nuevo: capataz serve --data-dir {0} &",
        again_show: "              capataz runs show {0}" / "                capataz runs show {0}",
        routing: "Two requests, each routed to the spec that should answer it:"
            / "Dos solicitudes, cada una dirigida al spec que debe responderla:",
        ask_spanish: "Me siento perdido y no sé con quién hablar"
            / "Me siento perdido y no sé con quién hablar",
        ask_english: "Help me choose between two job offers" / "Help me choose between two job offers",
        asked: "  \"{0}\"" / "  \"{0}\"",
        routed: "  -> {0} ({1}: {2})" / "  -> {0} ({1}: {2})",
        answered: "     {0}" / "     {0}",
        executing: "A query in the supervised mode: a planner by rules proposes a plan, and only an approved one is worked on:"
            / "Una consulta en el modo supervisado: un planificador por reglas propone un plan, y solo se trabaja en uno aprobado:",
        query: "Note how large this folder is, and what is left to do" / "Anota qué tan grande es esta carpeta y qué queda por hacer",
        approves: "  The demo approves it. On your own: capataz mode approve {0}"
            / "  La demo lo aprueba. Por tu cuenta: capataz mode approve {0}",
        browser: "A browser fills in a form on the daemon's own page, with evidence of each action ({0}):"
            / "Un navegador rellena un formulario en la página del propio daemon, con evidencia de cada acción ({0}):",
        no_browser: "No browser was found, so no form is filled in. The reason, and how to get a browser:"
            / "No se encontró un navegador, así que no se rellena ningún formulario. El motivo, y cómo conseguir uno:",
        browser_report: "report:       {0}" / "informe:        {0}",
        next: "What to try next:" / "Qué probar después:",
        next_plans: "  capataz contract check examples/plans/quorum-review.toml"
            / "  capataz contract check examples/plans/quorum-review.toml",
        next_ask: "  capataz serve --data-dir {0} --specs specs &  then: capataz ask"
            / "  capataz serve --data-dir {0} --specs specs &  luego: capataz ask",
        next_act: "  capataz demo site &  then: capataz act examples/scripts/extract-table.toml --local"
            / "  capataz demo site &  luego: capataz act examples/scripts/extract-table.toml --local",
        next_help: "  capataz run --help" / "  capataz run --help",
        keeping: "The daemon stays at http://{0} until Ctrl-C: capataz --addr http://{0} runs list"
            / "El daemon se queda en http://{0} hasta Ctrl-C: capataz --addr http://{0} runs list",
        site: "The site of the example scripts is at {0} until Ctrl-C."
            / "El sitio de los scripts de ejemplo está en {0} hasta Ctrl-C.",
        site_password: "Who signs in is {0}, with the password {1}."
            / "Quien inicia sesión es {0}, con la contraseña {1}.",
        site_next: "In another terminal: capataz act examples/scripts/extract-table.toml --local"
            / "En otra terminal: capataz act examples/scripts/extract-table.toml --local",
        site_not_served: "port {0} cannot be had: {1}; another one: capataz demo site --port 0"
            / "no se puede usar el puerto {0}: {1}; otro: capataz demo site --port 0",
    }

    /// `ask`.
    Ask {
        head: "{0} | intent {1} | confidence {2}" / "{0} | intención {1} | confianza {2}",
        fallback_head: "{0} (default: no spec matched) | confidence {1}"
            / "{0} (predeterminado: ningún spec coincidió) | confianza {1}",
        no_answer: "no spec gave a valid answer: {0}" / "ningún spec dio una respuesta válida: {0}",
        prominent: "-> {0} would suit this better ({1}): {2}" / "-> {0} sería más adecuado ({1}): {2}",
        subtle: "   {0} may suit this, too ({1}): {2}" / "   {0} también podría servir ({1}): {2}",
        not_automatic: "   warning: the spec wanted to hand over by itself, which needs a confidence above 0.8"
            / "   aviso: el spec quería traspasar por sí mismo, y eso requiere una confianza mayor que 0.8",
        left_out: "   warning: no room to keep {0}; a context has at most 256 KiB"
            / "   aviso: no hay lugar para conservar {0}; un contexto tiene como máximo 256 KiB",
        left_out_more: "{0} and {1} more" / "{0} y {1} más",
        not_fetched: "   warning: this is an excerpt; the whole answer, {0} bytes, could not be fetched: {1}"
            / "   aviso: esto es un extracto; la respuesta entera, de {0} bytes, no se pudo leer: {1}",
        fetch_with: "   fetch it with: capataz runs answer {0}" / "   leerla con: capataz runs answer {0}",
        is_no_ask: "run {0} is no ask, so that it has no answer" / "la ejecución {0} no es una pregunta, así que no tiene respuesta",
        asked_text: "Text" / "Texto",
        not_answered: "the run goes on: capataz runs watch {0}" / "la ejecución continúa: capataz runs watch {0}",
        accept_here: "   /accept to go on with it" / "   /accept para seguir con él",
        accept_with: "   accept with: capataz router accept {0} {1}"
            / "   aceptar con: capataz router accept {0} {1}",
        ask_with: "   ask it with: capataz ask … --spec {0}" / "   preguntarle con: capataz ask … --spec {0}",
        moved: "the session is now with {0}" / "la sesión está ahora con {0}",
        nothing_to_accept: "nothing is suggested" / "no se sugiere nada",
        unknown_command: "unknown command {0}; /help lists chat commands"
            / "orden desconocida {0}; /help muestra las órdenes del chat",
        help: "/accept  accept the suggested spec\n/spec ID  choose the spec of the next message\n/why  explain the routing of the last message\n/quit  end"
            / "/accept  aceptar el spec sugerido\n/spec ID  elegir el spec del próximo mensaje\n/why  explicar a quién se dirigió el último mensaje\n/quit  terminar",
        welcome: "session {0}; /help lists chat commands" / "sesión {0}; /help muestra las órdenes del chat",
        interrupted: "once more to leave; Ctrl-D leaves too" / "otra vez para salir; también con Ctrl-D",
        no_such_spec: "there is no spec {0}" / "no hay ningún spec {0}",
        specs_are: "there are {0}" / "hay {0}",
        next_spec: "the next message goes to {0}" / "el próximo mensaje va a {0}",
        prompt: "> " / "> ",
        nothing_asked: "nothing was asked yet" / "todavía no se preguntó nada",
        timed_out: "no answer within {0}; the ask goes on: capataz runs watch {1}"
            / "sin respuesta en {0}; la pregunta continúa: capataz runs watch {1}",
        transition: "transition to {0} ({1}, {2}): {3}" / "paso a {0} ({1}, {2}): {3}",
        routed: "routed" / "dirigido",
        explicit: "as requested" / "como se pidió",
        continued: "the session's spec" / "el spec de la sesión",
        by_transition: "handed over" / "traspasado",
        by_fallback: "as a fallback" / "como alternativa",
        taken: "taken" / "hecho",
        suggested: "suggested" / "sugerido",
        suppressed: "held back" / "retenido",
        ignored: "ignored" / "ignorado",
    }

    /// `router`.
    Router {
        specs_head: "SPEC\tTITLE\tLANGUAGES\tINTENTS\tKEYWORDS\tAGENT\tDEFAULT"
            / "SPEC\tTÍTULO\tIDIOMAS\tINTENCIONES\tPALABRAS\tAGENTE\tPREDETERMINADO",
        no_specs: "no specs are loaded" / "no hay specs cargados",
        yes: "yes" / "sí",
        terms_head: "SPEC\tSIGN\tWHAT\tLOGITS" / "SPEC\tSEÑAL\tQUÉ\tLOGITS",
        total: "sum" / "suma",
        confidence: "confidence" / "confianza",
        held: "It answers because the session is with it." / "Responde porque la sesión está con él.",
        alone: "The router alone would choose {0} ({1}): {2}" / "El router solo elegiría {0} ({1}): {2}",
        counterfactuals: "Changes that would have altered the decision:"
            / "Cambios que habrían alterado la decisión:",
        warning: "warning" / "aviso",
        note: "note" / "nota",
        clean: "{0}: no findings for {1}" / "{0}: ningún hallazgo para {1}",
        specs_one: "{0} spec" / "{0} spec",
        specs_many: "{0} specs" / "{0} specs",
        reloaded: "{0} loaded" / "{0} cargados",
        moved: "session {0} moved from {1} to {2}" / "la sesión {0} pasó de {1} a {2}",
        cannot_read: "cannot read {0}: {1}" / "no se puede leer {0}: {1}",
        no_rows: "{0} has no rows" / "{0} no tiene filas",
        other_splits: "{0} has the splits {1}; choose one: {0}:SPLIT"
            / "{0} tiene las partes {1}; elija una: {0}:PARTE",
        training: "training on {0} rows, {1} specs" / "entrenando con {0} filas, {1} specs",
    }
}

#[cfg(test)]
mod tests;
