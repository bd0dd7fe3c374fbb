//! Every text that people read, except `--help`. A second language is a second [`Words`].
//!
//! `{0}`, `{1}` … are placeholders that [`fill`] replaces; a language may use them in any order.

/// The texts of one language.
#[derive(Debug)]
pub struct Words {
    /// A number as an ordinal: `1st`, `2nd`.
    pub ordinal: fn(u64) -> String,
    pub wave_box: WaveBox,
    pub errors: Errors,
    pub options: Options,
    pub retry: Retry,
    pub watch: Watch,
    pub runs: Runs,
    pub agents: Agents,
    pub contract: Contract,
    pub serve: Serve,
    pub demo: Demo,
    pub rebuild: Rebuild,
    pub backup: Backup,
    pub doctor: Doctor,
    pub ask: Ask,
    pub router: Router,
    pub act: Act,
    pub act_error: ActError,
    pub script_lines: ScriptLines,
    pub browser: Browser,
    pub page: Page,
}

/// The texts in use.
pub fn words() -> &'static Words {
    &ENGLISH
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
    ($($(#[$doc:meta])* $group:ident { $($name:ident: $text:literal,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub struct $group { $(pub $name: &'static str,)* }

            impl $group {
                pub(super) const ENGLISH: Self = Self { $($name: $text,)* };
            }
        )*
    };
}

mod actions;
mod doctor;

pub use actions::{Act, ActError, Browser, Page, ScriptLines};
pub use doctor::Doctor;

const ENGLISH: Words = Words {
    ordinal: english_ordinal,
    wave_box: WaveBox::ENGLISH,
    errors: Errors::ENGLISH,
    options: Options::ENGLISH,
    retry: Retry::ENGLISH,
    watch: Watch::ENGLISH,
    runs: Runs::ENGLISH,
    agents: Agents::ENGLISH,
    contract: Contract::ENGLISH,
    serve: Serve::ENGLISH,
    demo: Demo::ENGLISH,
    rebuild: Rebuild::ENGLISH,
    backup: Backup::ENGLISH,
    doctor: Doctor::ENGLISH,
    ask: Ask::ENGLISH,
    router: Router::ENGLISH,
    act: Act::ENGLISH,
    act_error: ActError::ENGLISH,
    script_lines: ScriptLines::ENGLISH,
    browser: Browser::ENGLISH,
    page: Page::ENGLISH,
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

texts! {
    /// The box of one wave: PARALLEL EXECUTION COMPLETE.
    WaveBox {
        title: "PARALLEL EXECUTION COMPLETE",
        policy: "Policy: {0}",
        total_one: "Total: {0} agent",
        total_many: "Total: {0} agents",
        agent: "Agent {0} ({1}): {2}",
        success: "SUCCESS",
        failed: "FAILED",
        cancelled: "CANCELLED",
        not_started: "NOT STARTED",
        unfinished: "UNFINISHED",
        timeout: "timeout",
        error: "error",
        more: "... and {0} more: {1}",
        result: "Result: {0}",
        met: "MET",
        not_met: "NOT MET",
        status: "Status: {0}",
        continuing: "CONTINUING",
        stopping: "STOPPING",
        wave: "Wave {0} of {1}: {2}",
    }

    /// Boxes of errors and warnings.
    Errors {
        error: "ERROR: {0}",
        warning: "WARNING: {0}",
        severity: "Severity: {0}",
        required_action: "REQUIRED ACTION:",
        resolve_first: "Resolve the error before going on",
        options: "Options:",
        continuing: "Continuing automatically...",
        info: "[INFO] {0}",
        ok: "[OK] {0}",
        agent_missing: "The agent \"{0}\" does not exist",
        similar_agents: "Similar agents available:",
        no_similar_agents: "No agent has a similar name",
        similar_names: "Similar names available:",
        no_similar_names: "Nothing has a similar name",
        correct_agent: "Correct the agent's name in the plan",
        correct_name: "Correct the name",
        details: "Details:",
        more_details: "... and {0} more errors",
        invalid_transition: "Invalid transition detected:",
        skipping: "(skipping {0})",
        correct_steps: "Correct steps:",
        task_timed_out: "The task \"{0}\" exceeded its timeout",
        configured: "Configured time: {0}",
        elapsed: "Elapsed time: {0}",
        last_health_check: "Last health check: {0} ago",
        no_health_check: "Last health check: never",
        raise_timeout: "Give the task more time: `timeouts.timeout` in the plan",
        current_state: "Current state:",
        state_agent: "Agent: {0}",
        state_phase: "Phase: {0}",
        state_output: "Partial output: {0} bytes",
        attempts: "Attempts: {0} exhausted",
        total_time: "Total time: {0}",
        last_error: "Last error:",
        problem: "The problem seems to be:",
        original: "Original error: {0}",
        reason: "Reason: {0}",
        multiple: "MULTIPLE CRITICAL ERRORS",
        found: "Errors found:",
        aborted: "The run was stopped by critical errors",
        saved: "State saved for recovery:",
        look_at: "`{0}` to look at it",
        recovery: "Ways to recover:",
        next: "next: {0}",
        unreachable: "the daemon at {0} cannot be reached",
        unreachable_hint: "Start one with `capataz serve`, or name another with --addr or CAPATAZ_ADDR.",
        minutes_one: "{0} minute",
        minutes_many: "{0} minutes",
        seconds_one: "{0} second",
        seconds_many: "{0} seconds",
    }

    /// The answers that people can give to a question.
    Options {
        extend: "Extend the timeout (+15 min)",
        terminate: "Stop and use the partial output",
        retry: "Retry from the start",
        retry_manual: "Retry after the fix",
        debug: "Investigate with `capataz runs logs`",
        skip: "Skip this task",
        skip_high: "Skip (not recommended)",
        fix_manual: "Fix it by hand",
        correct: "Take the correct steps automatically",
        succeeded: "It has happened: count it as a success",
        failed: "It has not happened: count it as a failure",
        abort: "Abort",
        abort_all: "Abort the whole operation",
        restore: "Restore from backup",
        reinitialise: "Reinitialise the state (history is lost)",
        edit: "Edit by hand",
    }

    /// The RETRY box.
    Retry {
        title: "RETRY: {0}",
        attempt: "Attempt {0}/{1}: {2}",
        waiting: "Waiting {0} before retry...",
        exhausted: "All attempts exhausted",
        escalated: "Error escalated to user",
    }

    /// Events of a run, while it is watched.
    Watch {
        ask_accepted: "asked: {0}",
        ask_begun: "its turn in the session",
        ask_routed: "goes to {0} ({1}, confidence {2}): {3}",
        session_opened: "session {0} opened",
        session_turn: "request {0} ended; the session is with {1}",
        session_moved: "the session moves from {0} to {1}",
        accepted: "run accepted: {0}, {1}, {2}",
        waves_one: "{0} wave",
        waves_many: "{0} waves",
        tasks_one: "{0} task",
        tasks_many: "{0} tasks",
        wave_started: "wave {0} of {1} ({2}): {3} under {4}",
        leased: "attempt {0} began ({1})",
        leased_again: "attempt {0} goes on ({1})",
        child_named: "attempt {0} began as run {1}",
        child_ended: "run {0} ended: {1}",
        lease_lost: "worker lost: {0} ({1} time)",
        attempt_failed: "attempt {0} failed: {1}; again in {2}",
        retry_due: "waits for its next attempt",
        cancel_requested: "asked to stop: {0}",
        extended: "deadline extended to {0} after its start",
        cancel_withdrawn: "; the request to stop was withdrawn",
        succeeded: "succeeded in {0}",
        succeeded_after: "succeeded in {0}, attempt {1}",
        failed: "failed after {0}: {1}",
        timed_out: "timed out after {0}",
        cancelled: "cancelled after {0}",
        never_started: "never started",
        reactivated: "retried by hand (activation {0})",
        partial_kept: "its partial output is its output",
        result_refused: "a late result of {0} was refused",
        wave_decided: "decided early: {0}",
        wave_finished: "wave {0} finished: {1}",
        question: "question {0}: {1}",
        answer_with: "answer with `capataz runs resolve {0} {1} {2}`",
        answer_typed: "its value has to pass the JSON Schema that `capataz runs show {0} --json` shows",
        answered: "question {0} answered: {1}",
        paused: "paused",
        resumed: "resumed",
        cancel_run: "cancelled: {0}",
        cancel_run_bare: "cancelled",
        aborting: "aborts: {0}",
        finished: "run finished: {0}",
        input_resolved: "its input was resolved",
        unknown_event: "event {0}, unknown to this version",
        unknown_task: "wave {0}, task {1}",
        attempt: "attempt {0}/{1}",
        retry_in: "again in {0}",
        stopping: "stopping",
        more_running: "… and {0} more",
        queued: "{0} queued",
        policy: "{0}: {1}",
        so_far: "{0} of {1} settled, {2} succeeded",
        need: "needs {0}",
        critical: "critical: {0}",
        waiting_answer: "waits for an answer: {0}",
        run_paused: "paused: no new attempts",
        run_cancelling: "stopping",
        reconnecting: "connection lost ({0}); trying again in {1}",
        gone: "The daemon no longer answers. The run goes on when the daemon is back.",
        timeout: "The run is still running after {0}.",
        detached: "The run goes on without you.",
        watch_with: "watch it:  capataz runs watch {0}",
        cancel_with: "stop it:   capataz runs cancel {0}",
        show_with: "look at it: capataz runs show {0}",
        outcome: "{0}: {1} in {2}",
        failures_listed: "Failures:",
        warnings_listed: "Warnings:",
        notes_listed: "Notes:",
        notices_omitted: "{0} more notices are in the run's events: capataz runs logs {1}",
        output_of: "Output of {0}:",
        output_elsewhere: "(not shown; see `capataz runs show {0} --outputs --json`)",
    }

    /// The commands under `runs`.
    Runs {
        none: "No runs.",
        head: "RUN\tNAME\tSTATUS\tTASKS\tSTARTED\tTOOK\tLABELS",
        more: "More: --page-token {0}",
        id: "Run",
        name: "Name",
        status: "Status",
        labels: "Labels",
        created: "Started",
        took: "Took",
        tasks: "Tasks",
        parent: "Parent",
        settled: "{0} of {1} settled",
        at_work: "{0} % of its time; health checks {1}, heard {2} ago",
        at_work_unheard: "{0} % of its time; health checks {1}, not heard yet",
        task_head: "TASK\tAGENT\tSTATE\tATTEMPT\tTOOK\tDETAIL",
        wave: "Wave {0} of {1}: {2} ({3})",
        open_questions: "Open questions:",
        no_such: "none of the newest {1} runs has an id that begins or ends with \"{0}\"",
        ambiguous: "\"{0}\" fits several runs: {1}",
        none_yet: "there are no runs yet",
        cancelled: "Cancelling {0}.",
        paused: "Paused {0}: no new attempts; running tasks go on.",
        resumed: "Resumed {0}.",
        deleted: "Removed {0}: {1} bytes of events.",
        released: "Released {0}: it goes on.",
        not_quarantined: "{0} is in no quarantine.",
        extended: "{0} now has until {1}.",
        retried: "{0} is retried (activation {1}).",
        resolved: "Question {0} answered: {1}.",
        started: "Started {0}.",
        already: "{0} already exists.",
        critical: "critical",
    }

    /// The commands under `agents`.
    Agents {
        none: "No agents. Declare some in capataz.toml, or connect a worker.",
        head: "AGENT\tCATEGORY\tKIND\tSERVED BY\tWORKERS\tRUNNING\tQUEUED\tLAST SEEN",
        checked: "{0} of {1} names are known",
        process: "process",
        worker: "worker",
        declared: "declared",
        now: "now",
        ago: "{0} ago",
    }

    /// `contract check`, and the local checks of `run`.
    Contract {
        valid: "{0}: a valid plan ({1}, {2})",
        invalid: "{0}: {1}",
        violations_one: "{0} violation",
        violations_many: "{0} violations",
        document: "(document)",
        cannot_read: "cannot read {0}: {1}",
    }

    /// `serve`.
    Serve {
        listening: "capataz listens on http://{0}",
        data: "data folder: {0}",
        specs: "specs: {0}",
        agents_one: "{0} process agent",
        agents_many: "{0} process agents",
        stopping: "stopping; press Ctrl-C again to force",
        check_head: "KEY\tVALUE\tFROM",
        bad_filter: "--log: {0}",
        no_runtime: "cannot start: {0}",
        no_signals: "cannot hear when to stop: {0}",
    }

    /// `rebuild`.
    Rebuild {
        differs: "run {0}: {1} is {2}, and its log says {3}",
        left: "left as it is: {0}",
        progress: "{0} runs looked at, {1} to be written again, {2} written",
        runs_one: "{0} run looked at",
        runs_many: "{0} runs looked at",
        same: "every row follows from its log",
        differing_one: "{0} run with rows that do not follow from its log",
        differing_many: "{0} runs with rows that do not follow from their logs",
        mended_one: "{0} run written again",
        mended_many: "{0} runs written again",
        left_one: "{0} run left as it is",
        left_many: "{0} runs left as they are",
    }

    /// `backup`, `restore` and `verify`.
    Backup {
        copying: "{0} % of the database copied",
        blobs: "{0} of {1} blobs",
        verifying: "{0} runs looked at",
        made: "backup: {0}",
        restored: "restored: {0}",
        from: "from a backup of {0}",
        damaged_run: "damaged: {0}",
        stale_row: "a row to be made again with `capataz rebuild`: {0}",
        damaged_blob: "damaged: the content of blob {0} is not what was put",
        missing_blob: "missing: blob {0}, to which runs refer",
        runs_one: "{0} run",
        runs_many: "{0} runs",
        blobs_one: "{0} blob",
        blobs_many: "{0} blobs",
        whole: "everything is whole",
        damage_one: "{0} damaged or missing",
        damage_many: "{0} damaged or missing",
    }

    /// `demo`.
    Demo {
        no_folder: "{0} is not a folder",
        no_runtime_folder: "cannot make a folder for the demo: {0}",
        intro: "The demo starts a daemon of its own and a real crew, which examines {0}.",
        intro_tasks: "One task is flaky and is retried; one hangs and is stopped. The quorum does not need the second one.",
        summary: "{0} in {1}, mostly {2}; {3}; the service says: {4}.",
        lines_one: "{0} line",
        lines_many: "{0} lines",
        files_one: "{0} file",
        files_many: "{0} files",
        markers_one: "{0} open marker",
        markers_many: "{0} open markers",
        log: "log:          {0}",
        again: "see it again: capataz serve --data-dir {0} &",
        again_show: "              capataz runs show {0}",
        routing: "Two requests, each routed to the spec that should answer it:",
        ask_spanish: "Me siento perdido y no sé con quién hablar",
        ask_english: "Help me choose between two job offers",
        asked: "  \"{0}\"",
        routed: "  -> {0} ({1}: {2})",
        answered: "     {0}",
        browser: "A browser fills in a form on the daemon's own page, with evidence of each action ({0}):",
        no_browser: "No browser was found, so no form is filled in. The reason, and how to get a browser:",
        browser_report: "report:       {0}",
        next: "What to try next:",
        next_plans: "  capataz contract check examples/plans/quorum-review.toml",
        next_ask: "  capataz serve --data-dir {0} --specs specs &  then: capataz ask",
        next_act: "  capataz act check examples/scripts/sign-in.toml",
        next_help: "  capataz run --help",
        keeping: "The daemon stays at http://{0} until Ctrl-C: capataz --addr http://{0} runs list",
    }

    /// `ask`.
    Ask {
        head: "{0} | intent {1} | confidence {2}",
        fallback_head: "{0} (default: no spec matched) | confidence {1}",
        no_answer: "no spec gave a valid answer: {0}",
        prominent: "-> {0} would suit this better ({1}): {2}",
        subtle: "   {0} may suit this, too ({1}): {2}",
        accept_here: "   /accept to go on with it",
        accept_with: "   accept with: capataz router accept {0} {1}",
        moved: "the session is now with {0}",
        nothing_to_accept: "nothing is suggested",
        unknown_command: "unknown command {0}; /help lists chat commands",
        help: "/accept  accept the suggested spec\n/spec ID  choose the spec of the next message\n/why  explain the routing of the last message\n/quit  end",
        welcome: "session {0}; /help lists chat commands",
        next_spec: "the next message goes to {0}",
        prompt: "> ",
        nothing_asked: "nothing was asked yet",
        timed_out: "no answer within {0}; the ask goes on: capataz runs watch {1}",
        transition: "transition to {0} ({1}, {2}): {3}",
        routed: "routed",
        explicit: "as requested",
        continued: "the session's spec",
        by_transition: "handed over",
        by_fallback: "as a fallback",
        taken: "taken",
        suggested: "suggested",
        suppressed: "held back",
        ignored: "ignored",
    }

    /// `router`.
    Router {
        specs_head: "SPEC\tTITLE\tLANGUAGES\tINTENTS\tKEYWORDS\tAGENT\tDEFAULT",
        no_specs: "no specs are loaded",
        yes: "yes",
        terms_head: "SPEC\tSIGN\tWHAT\tLOGITS",
        total: "sum",
        confidence: "confidence",
        counterfactuals: "Changes that would have altered the decision:",
        clean: "{0}: no findings for {1}",
        specs_one: "{0} spec",
        specs_many: "{0} specs",
        reloaded: "{0} loaded",
        moved: "session {0} moved from {1} to {2}",
        cannot_read: "cannot read {0}: {1}",
        no_rows: "{0} has no rows",
        other_splits: "{0} has the splits {1}; choose one: {0}:SPLIT",
        training: "training on {0} rows, {1} specs",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_in_any_order() {
        #[track_caller]
        fn check(template: &str, values: &[&str], expected: &str) {
            assert_eq!(fill(template, values), expected);
        }
        check("{1} of {0}", &["b", "a"], "a of b");
        check("none", &["a"], "none");
        check("{0}{5}.", &["{1}"], "{1}.");
        check("open {", &[], "open {");
        assert_eq!(counted(1, "{0} task", "{0} tasks"), "1 task");
        assert_eq!(counted(0, "{0} task", "{0} tasks"), "0 tasks");
    }

    #[test]
    fn ordinals_end_by_their_last_digits() {
        let shown: Vec<String> = [1, 2, 3, 4, 11, 12, 13, 21, 111].map(english_ordinal).into();
        assert_eq!(shown, ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "111th"]);
    }
}
