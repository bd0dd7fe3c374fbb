//! Texts of the way from nothing to a crew: `init`, `--local`, `status` and `stop`.

texts! {
    /// `init`.
    Init {
        there: "nothing is written, because this is there already:" / "no se escribe nada, porque esto ya existe:",
        there_hint: "name another folder: capataz init FOLDER" / "indique otra carpeta: capataz init CARPETA",
        not_written: "{0} cannot be written: {1}; nothing was written"
            / "no se puede escribir {0}: {1}; no se escribió nada",
        written: "{0}" / "{0}",
        next: "Next:" / "A continuación:",
    }

    /// `--local`.
    Local {
        elsewhere: "the daemon at {0} has the data folder {1}, and does this"
            / "el daemon en {0} tiene la carpeta de datos {1}, y lo hace él",
        waits: "process {0} has the data folder {1}, and starts or ends: waiting for it"
            / "el proceso {0} tiene la carpeta de datos {1}, y se inicia o termina: se espera a que lo haga",
        not_begun: "stopped before anything had begun" / "se detuvo antes de que nada empezara",
        drains: "waiting for other running tasks; press Ctrl-C twice to end at once"
            / "esperando a otras tareas en marcha; dos Ctrl-C lo terminan al momento",
        kept: "kept in {0}; to look at it again, start a daemon first: {1}"
            / "se conserva en {0}; para volver a verla, inicie antes un daemon: {1}",
        goes_on: "the daemon of this command has ended; the next one on {0} goes on: {1}"
            / "el daemon de este comando terminó; el próximo con {0} continúa: {1}",
    }

    /// What `serve --check` says of what a configuration needs, and what to do.
    Needs {
        lacks_one: "{0} thing that the configuration needs is not as it should be"
            / "{0} cosa que necesita la configuración no está como debería",
        lacks_many: "{0} things that the configuration needs are not as they should be"
            / "{0} cosas que necesita la configuración no están como deberían",
        no_program: "there is no program {0}" / "no hay ningún programa {0}",
        no_program_next: "install it, or write its path; a relative one is of `cwd`, else of the folder of the configuration's file"
            / "instálelo, o escriba su ruta; una relativa es de `cwd` o, sin él, de la carpeta del archivo de configuración",
        not_executable: "{0} may not be executed" / "{0} no se puede ejecutar",
        not_executable_next: "chmod +x {0}" / "chmod +x {0}",
        no_secret: "the secret {0} is not known" / "no se conoce el secreto {0}",
        no_secret_next: "set the variable CAPATAZ_SECRET_{0}, or write the file {0} in secrets_dir"
            / "defina la variable CAPATAZ_SECRET_{0}, o escriba el archivo {0} en secrets_dir",
        unread_secret: "the secret {0} cannot be read: {1}" / "no se puede leer el secreto {0}: {1}",
        no_folder: "there is no folder {0}" / "no hay ninguna carpeta {0}",
        no_folder_next: "make it, or name another one: mkdir -p {0}" / "créela, o indique otra: mkdir -p {0}",
        unreadable: "{0} cannot be read: {1}" / "no se puede leer {0}: {1}",
        unreadable_next: "name another one, or let the user of the daemon read it"
            / "indique otra, o deje que el usuario del daemon la lea",
        unwritable: "{0} cannot be used: {1}" / "no se puede usar {0}: {1}",
        unwritable_next: "name another one with data_dir or --data-dir, or let the user of the daemon write to it"
            / "indique otra con data_dir o --data-dir, o deje que el usuario del daemon escriba en ella",
        open: "others than its owner may write to {0} (mode {1})" / "otros que su dueño pueden escribir en {0} (modo {1})",
        open_next: "see whether they have, and take that from them: chmod 700 {0}"
            / "compruebe si lo han hecho, y quíteselo: chmod 700 {0}",
        wrong_spec_next: "`capataz router lint` says more of it" / "`capataz router lint` dice más",
    }

    /// `status` and `stop`.
    Status {
        serves: "a daemon serves at {0}" / "un daemon sirve en {0}",
        drains: "a daemon drains at {0}: it begins nothing more, and ends"
            / "un daemon está parando en {0}: no empieza nada más, y termina",
        unknown: "a daemon answers at {0}, and does not say whether it serves"
            / "un daemon responde en {0}, y no dice si sirve",
        process: "process {0}, version {1}, since {2} ({3})" / "proceso {0}, versión {1}, desde {2} ({3})",
        all_runs: "runs: {0}" / "ejecuciones: {0}",
        idle: "runs: none is unfinished" / "ejecuciones: ninguna sin terminar",
        runs: "{0} {1}" / "{0} {1}",
        more_runs: "{0} or more {1}" / "{0} o más {1}",
        none: "no daemon has the data folder {0}" / "ningún daemon tiene la carpeta de datos {0}",
        none_hint: "start one: capataz serve; name another folder by --config or --data-dir"
            / "inicie uno: capataz serve; indique otra carpeta con --config o --data-dir",
        not_known: "it is not known who has the data folder {0}: {1}"
            / "no se sabe quién tiene la carpeta de datos {0}: {1}",
        silent: "process {0} has the data folder {1}, and does not listen"
            / "el proceso {0} tiene la carpeta de datos {1}, y no escucha",
        silent_hint: "it starts, ends, or is another command that works on the folder; try again"
            / "está empezando o terminando, o es otro comando que trabaja con la carpeta; inténtelo de nuevo",
        elsewhere: "the daemon of the data folder {0} listens at {1}, and not at {2}"
            / "el daemon de la carpeta de datos {0} escucha en {1}, y no en {2}",
        elsewhere_hint: "name the data folder of the daemon that is meant, by --data-dir or --config"
            / "indique la carpeta de datos del daemon al que se refiere, con --data-dir o --config",
        asked: "the daemon at {0} (process {1}) is asked to end" / "se pide al daemon en {0} (proceso {1}) que termine",
        not_asked: "the daemon cannot be asked to end: {0}" / "no se puede pedir al daemon que termine: {0}",
        waits_one: "it waits for {0} task:" / "espera {0} tarea:",
        waits_many: "it waits for {0} tasks:" / "espera {0} tareas:",
        ended: "the daemon at {0} has ended after {1}" / "el daemon en {0} terminó después de {1}",
        not_ended: "the daemon has not ended after {0}; it goes on ending"
            / "el daemon no ha terminado después de {0}; sigue terminando",
    }
}
