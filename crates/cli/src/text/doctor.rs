//! Texts of what `capataz doctor` finds.

texts! {
    /// Each check has what was found, and where it matters what to do next.
    Doctor {
        ok: "ok",
        warning: "warning",
        failure: "failure",
        next: "next: {0}",
        good: "Nothing here keeps a daemon from working.",
        warned: "A daemon works here, without what the warnings name.",
        bad: "A daemon does not work here as it should.",

        configuration: "configuration",
        configuration_good: "valid; data in {0}",
        configuration_next: "`capataz serve --check` names every error of the file",

        data_folder: "data folder",
        folder_own: "{0}, its owner's alone",
        folder_missing: "{0} is made at the first start, in {1}",
        folder_readable: "{0} may be read by others (mode {1})",
        folder_readable_next: "a daemon narrows it at its next start; until then: chmod 700 {0}",
        folder_writable: "{0} may be written by others (mode {1}), and a daemon does not start on it",
        folder_writable_next: "chmod 700 {0}, if nobody else should have written to it",
        folder_refused: "{0} cannot be used: {1}",
        folder_refused_next: "name another one with --data-dir, or run as the user to whom it belongs",

        free_space: "free space",
        free: "{0} on the disk of the data folder",
        free_unknown: "unknown: {0}",
        free_next: "make room, or move the data folder; `max_log_bytes` under [retention] bounds the log",

        descriptors: "descriptors",
        descriptors_found: "{0} files may be open at once",
        descriptors_any: "any number of files may be open",
        descriptors_next: "raise the hard limit: `ulimit -Hn`, or LimitNOFILE= of the service",

        supervision: "supervision",
        supervision_good: "a command ends with everything that it started, also when the daemon is killed",
        supervision_bad: "commands cannot be supervised, so that none can run: {0}",
        supervision_next: "Linux 5.4 or newer is needed; a sandbox may forbid pidfd_open and prctl",

        control_groups: "control groups",
        groups_good: "each command gets one of its own, below {0}",
        groups_none: "none can be made ({0}): where a supervisor is killed, a process that has left its command's session and environment is not found",
        groups_next: "start the daemon by `systemd-run --user --scope capataz serve`, or with Delegate=yes in its service",

        browser: "browser",
        browser_found: "{0}, version {1}; `capataz browser doctor` starts it",
        browser_none: "no Chromium is found, so that no script can run",
        browser_next: "install one, such as with `apt install chromium`; `capataz browser doctor` names the places",

        clock: "clock",
        clock_good: "agrees with the data folder",
        clock_old: "says a time before this program was made",
        clock_behind: "is {0} behind the newest write of the data folder",
        clock_ahead: "is {0} ahead of the newest write of the data folder: fine if no daemon has run since",
        clock_next: "set it, such as with `timedatectl set-ntp true`, before a daemon starts",

        daemon: "daemon",
        daemon_there: "answers at {0}",
        daemon_none: "none answers at {0}: {1}",
        daemon_next: "`capataz serve` starts one; --addr names another address",
    }
}
