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
        drains: "waiting for other running tasks; press Ctrl-C twice to end at once"
            / "esperando a otras tareas en marcha; dos Ctrl-C lo terminan al momento",
        kept: "kept in {0}; to look at it again: capataz serve"
            / "se conserva en {0}; para volver a verla: capataz serve",
        goes_on: "the daemon of this command has ended; the next one on {0} goes on: capataz serve"
            / "el daemon de este comando terminó; el próximo con {0} continúa: capataz serve",
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
