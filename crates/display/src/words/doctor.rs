//! Texts of what `capataz doctor` finds.

texts! {
    /// Each check has what was found, and where it matters what to do next.
    Doctor {
        ok: "ok" / "bien",
        warning: "warning" / "aviso",
        failure: "failure" / "fallo",
        next: "next: {0}" / "siguiente paso: {0}",
        good: "Nothing here keeps a daemon from working." / "Nada aquí impide que un daemon funcione.",
        warned: "A daemon works here, without what the warnings name."
            / "Un daemon funciona aquí, sin lo que nombran los avisos.",
        bad: "A daemon does not work here as it should." / "Un daemon no funciona aquí como debería.",

        configuration: "configuration" / "configuración",
        configuration_good: "valid; data in {0}" / "válida; datos en {0}",
        configuration_next: "`capataz serve --check` names every error of the file"
            / "`capataz serve --check` nombra cada error del archivo",

        data_folder: "data folder" / "carpeta de datos",
        folder_own: "{0}, its owner's alone" / "{0}, solo de su dueño",
        folder_missing: "{0} is made at the first start, in {1}"
            / "{0} se crea en el primer arranque, en {1}",
        folder_readable: "{0} may be read by others (mode {1})" / "otros pueden leer {0} (modo {1})",
        folder_readable_next: "a daemon narrows it at its next start; until then: chmod 700 {0}"
            / "un daemon la restringe en su próximo arranque; hasta entonces: chmod 700 {0}",
        folder_writable: "{0} may be written by others (mode {1}), and a daemon does not start on it"
            / "otros pueden escribir en {0} (modo {1}), y un daemon no arranca con ella",
        folder_writable_next: "chmod 700 {0}, if nobody else should have written to it"
            / "chmod 700 {0}, si nadie más debía haber escrito en ella",
        folder_refused: "{0} cannot be used: {1}" / "no se puede usar {0}: {1}",
        folder_refused_next: "name another one with --data-dir, or run as the user to whom it belongs"
            / "indique otra con --data-dir, o use el usuario al que pertenece",

        free_space: "free space" / "espacio libre",
        free: "{0} on the disk of the data folder" / "{0} en el disco de la carpeta de datos",
        free_unknown: "unknown: {0}" / "desconocido: {0}",
        free_next: "make room, or move the data folder; `max_log_bytes` under [retention] bounds the log"
            / "haga sitio, o mueva la carpeta de datos; `max_log_bytes` en [retention] limita el log",

        descriptors: "descriptors" / "descriptores",
        descriptors_found: "{0} files may be open at once" / "se pueden abrir {0} archivos a la vez",
        descriptors_any: "any number of files may be open" / "se puede abrir cualquier número de archivos",
        descriptors_next: "raise the hard limit: `ulimit -Hn`, or LimitNOFILE= of the service"
            / "suba el límite: `ulimit -Hn`, o LimitNOFILE= del servicio",

        supervision: "supervision" / "supervisión",
        supervision_good: "a command ends with everything that it started, also when the daemon is killed"
            / "una orden termina con todo lo que empezó, también cuando se mata al daemon",
        supervision_bad: "commands cannot be supervised, so that none can run: {0}"
            / "no se pueden supervisar órdenes, así que ninguna puede correr: {0}",
        supervision_next: "Linux 5.4 or newer is needed; a sandbox may forbid pidfd_open and prctl"
            / "hace falta Linux 5.4 o más nuevo; un sandbox puede prohibir pidfd_open y prctl",

        control_groups: "control groups" / "grupos de control",
        groups_good: "each command gets one of its own, below {0}" / "cada orden tiene uno propio, bajo {0}",
        groups_none: "none can be made ({0}): where a supervisor is killed, a process that has left its command's session and environment is not found"
            / "no se puede crear ninguno ({0}): si se mata a un supervisor, no se encuentra un proceso que dejó la sesión y el entorno de su orden",
        groups_next: "start the daemon by `systemd-run --user --scope capataz serve`, or with Delegate=yes in its service"
            / "inicie el daemon con `systemd-run --user --scope capataz serve`, o con Delegate=yes en su servicio",

        secrets: "secrets" / "secretos",
        secrets_good: "each that the configuration names is there"
            / "cada uno que nombra la configuración está",
        agents: "agents" / "agentes",
        agents_good: "{0} in the configuration, with their programs and folders"
            / "{0} en la configuración, con sus programas y carpetas",
        specs: "specs" / "specs",
        specs_good: "each file of the folder is valid" / "cada archivo de la carpeta es válido",
        specs_none: "no folder of them is named" / "no se nombra ninguna carpeta de ellos",
        uploads: "uploads" / "subidas",
        uploads_good: "each folder that scripts may upload from can be read"
            / "cada carpeta desde la que los scripts pueden subir archivos se puede leer",

        browser: "browser" / "navegador",
        browser_found: "{0}, version {1}; `capataz browser doctor` starts it"
            / "{0}, versión {1}; `capataz browser doctor` lo arranca",
        browser_attached: "version {1} runs at {0}, and scripts attach to it: the allowlist's second layer is not there as a whole"
            / "la versión {1} corre en {0}, y los scripts se unen a ella: la segunda capa de la lista de permitidos no está completa",
        browser_attached_next: "without browser.attach, each script gets a browser of its own, with both layers"
            / "sin browser.attach, cada script tiene un navegador propio, con las dos capas",
        browser_gone: "no browser answers at {0}, which scripts are to attach to, so that none can run"
            / "ningún navegador responde en {0}, al que han de unirse los scripts, así que ninguno puede correr",
        browser_gone_next: "google-chrome --remote-debugging-port=PORT --user-data-dir=DIR starts one; its usual profile opens no port"
            / "google-chrome --remote-debugging-port=PORT --user-data-dir=DIR inicia uno; su perfil habitual no abre ningún puerto",
        browser_none: "no Chromium is found, so that no script can run"
            / "no se encuentra Chromium, así que ningún script puede correr",
        browser_next: "install one, such as with `apt install chromium`; `capataz browser doctor` names the places"
            / "instale uno, por ejemplo con `apt install chromium`; `capataz browser doctor` nombra los lugares",

        clock: "clock" / "reloj",
        clock_good: "agrees with the data folder" / "concuerda con la carpeta de datos",
        clock_old: "says a time before this program was made"
            / "dice una hora anterior a la creación de este programa",
        clock_behind: "is {0} behind the newest write of the data folder"
            / "está {0} detrás de la última escritura de la carpeta de datos",
        clock_ahead: "is {0} ahead of the newest write of the data folder: fine if no daemon has run since"
            / "está {0} delante de la última escritura de la carpeta de datos: está bien si ningún daemon ha corrido desde entonces",
        clock_next: "set it, such as with `timedatectl set-ntp true`, before a daemon starts"
            / "ajústelo, por ejemplo con `timedatectl set-ntp true`, antes de que arranque un daemon",

        daemon: "daemon" / "daemon",
        daemon_there: "answers at {0}" / "responde en {0}",
        daemon_none: "none answers at {0}: {1}" / "ninguno responde en {0}: {1}",
        daemon_unknown: "none has the data folder, or the configuration does not say where it is"
            / "ninguno tiene la carpeta de datos, o la configuración no dice dónde está",
        daemon_next: "`capataz serve` starts one; --addr names another address"
            / "`capataz serve` inicia uno; --addr indica otra dirección",
    }
}
