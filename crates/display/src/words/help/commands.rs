//! What commands do, in Spanish.

use super::Texts;

/// The sentence that stands at a command in the list of commands.
pub(super) const COMMANDS: Texts = &[
    (
        "A contract-first daemon for crews of agents: plans of parallel tasks, with declared policies for time, retries and failure",
        "Un daemon para cuadrillas de agentes, con los contratos primero: planes de tareas paralelas, con políticas declaradas de tiempo, reintentos y fallos",
    ),
    ("Start a daemon", "Iniciar un daemon"),
    (
        "Watch a daemon run a crew over a folder, with a retry, a timeout and a quorum",
        "Ver cómo un daemon pone a una cuadrilla a examinar una carpeta, con un reintento, un tiempo agotado y un quórum",
    ),
    (
        "Serve the small site that the example scripts work on, until Ctrl-C",
        "Servir el pequeño sitio con el que trabajan los scripts de ejemplo, hasta Ctrl-C",
    ),
    ("Run a plan file", "Ejecutar un archivo de plan"),
    (
        "Show what the tasks of a run have logged, also while they run",
        "Mostrar lo que han registrado las tareas de una ejecución, también mientras trabajan",
    ),
    ("Inspect and control runs", "Examinar y controlar ejecuciones"),
    (
        "Route a text to the spec that should answer it, and print the answer",
        "Dirigir un texto al spec que debe responderlo y mostrar la respuesta",
    ),
    ("Perform a script of browser actions", "Ejecutar un script de acciones de navegador"),
    ("Run pipelines, and go back to their checkpoints", "Ejecutar procesos y volver a sus puntos de control"),
    (
        "Work on queries with planners and tools, in one of three modes",
        "Trabajar en consultas con planificadores y herramientas, en uno de tres modos",
    ),
    (
        "Tell how executions went, by mode, beside what is wanted of each",
        "Mostrar cómo fueron las ejecuciones, por modo, junto a lo que se espera de cada una",
    ),
    (
        "Find what execution modes remember, and have it forgotten",
        "Buscar lo que recuerdan los modos de ejecución, y hacer que se olvide",
    ),
    (
        "List what proves the actions of a run, and save or open a piece of it",
        "Listar lo que demuestra las acciones de una ejecución, y guardar o abrir una pieza",
    ),
    (
        "Open browsers, perform single actions in them, and list open ones",
        "Abrir navegadores, hacer acciones sueltas en ellos y listar los abiertos",
    ),
    (
        "Explain routing decisions, and measure and lint specs",
        "Explicar a qué spec va un texto, y medir y revisar specs",
    ),
    ("List and check agents", "Listar y comprobar agentes"),
    ("Check documents without a daemon", "Comprobar documentos sin un daemon"),
    ("Explain errors without a daemon", "Explicar errores sin un daemon"),
    (
        "List the sessions of a daemon; check, repair and restore the state file of a project",
        "Listar las sesiones de un daemon; comprobar, reparar y restaurar el archivo de estado de un proyecto",
    ),
    (
        "Make the rows that queries read again from the logs, while no daemon runs",
        "Rehacer desde los logs las filas que leen las consultas, mientras no corre ningún daemon",
    ),
    (
        "Copy a data folder, also beside a running daemon",
        "Copiar una carpeta de datos, también junto a un daemon en marcha",
    ),
    (
        "Put a backup in the place of a data folder",
        "Poner una copia de seguridad en el lugar de una carpeta de datos",
    ),
    (
        "Look a backup or a data folder through for damage",
        "Buscar daños en una copia de seguridad o una carpeta de datos",
    ),
    (
        "Look for what would keep a daemon from working on this machine",
        "Buscar lo que impediría que un daemon funcione en esta máquina",
    ),
    ("Print a completion script for a shell", "Mostrar un script de autocompletado para un shell"),
    // contract, errors.
    (
        "Check a document: every rule except those about names that only a daemon knows",
        "Comprobar un documento: todas las reglas, salvo las de nombres que solo conoce un daemon",
    ),
    (
        "Tell how serious an error is and why, whether it is retried, and what to do",
        "Mostrar qué tan grave es un error y por qué, si se reintenta y qué hacer",
    ),
    // runs.
    ("List runs, newest first", "Listar las ejecuciones, primero la más nueva"),
    (
        "Show a run: its waves, tasks, open questions and errors",
        "Mostrar una ejecución: sus olas, tareas, preguntas abiertas y errores",
    ),
    (
        "Print what a task has given back, whole, or write it to a file",
        "Mostrar lo que entregó una tarea, entero, o escribirlo en un archivo",
    ),
    (
        "Tell in what two runs differ, or two moments of one run",
        "Mostrar en qué difieren dos ejecuciones, o dos momentos de una",
    ),
    (
        "Fold the events of a run again, and compare what is stored of it",
        "Plegar de nuevo los eventos de una ejecución y compararlos con lo guardado de ella",
    ),
    (
        "Watch a run until it ends, then print its report",
        "Seguir una ejecución hasta que termine y mostrar su informe",
    ),
    (
        "Print the answer of an ask that has ended, as `ask` does",
        "Mostrar la respuesta de una pregunta que terminó, como lo hace `ask`",
    ),
    (
        "Stop a run; running tasks get their grace period",
        "Parar una ejecución; las tareas en marcha tienen su tiempo de gracia",
    ),
    (
        "Pause a run: start no new attempts; running tasks go on",
        "Pausar una ejecución: sin intentos nuevos; las tareas en marcha continúan",
    ),
    ("Resume a run after a pause", "Reanudar una ejecución después de una pausa"),
    ("Give a task more time", "Dar más tiempo a una tarea"),
    (
        "Run a failed task again, with a full set of attempts",
        "Repetir una tarea fallida, con todos sus intentos",
    ),
    (
        "Take a task that is at work, or that has succeeded, back to its beginning",
        "Devolver a su comienzo una tarea que está en marcha o que tuvo éxito",
    ),
    ("Answer a question that a run waits for", "Responder una pregunta que una ejecución espera"),
    (
        "Go on where the run of a plan has ended: a new run takes over what succeeded, and does the rest",
        "Seguir donde terminó la ejecución de un plan: una nueva retoma lo que tuvo éxito y hace el resto",
    ),
    (
        "Go on from the middle of a run, as a run of its own",
        "Seguir desde la mitad de una ejecución, como una ejecución propia",
    ),
    (
        "Remove a run that has finished or is in quarantine, with all that is kept of it",
        "Eliminar una ejecución que terminó o está en cuarentena, con todo lo que se guarda de ella",
    ),
    ("Try a run in quarantine again", "Probar de nuevo una ejecución en cuarentena"),
    ("Print the events of a run, one a line", "Mostrar los eventos de una ejecución, uno por línea"),
    (
        "Write a report of a run as one HTML file: what failed, a timeline, outputs, pictures",
        "Escribir un informe de una ejecución en un solo archivo HTML: qué falló, una cronología, salidas, imágenes",
    ),
    (
        "Tell what each contract has decided, and on which numbers",
        "Mostrar qué decidió cada contrato, y con qué números",
    ),
    (
        "Print the stored events of a run, one JSON document a line",
        "Mostrar los eventos guardados de una ejecución, un documento JSON por línea",
    ),
    // agents.
    ("List the agents and the workers that serve them", "Listar los agentes y los workers que los sirven"),
    (
        "Tell how reliable agents were: retries, failures, durations, and a timeout that suits them",
        "Mostrar qué tan fiables fueron los agentes: reintentos, fallos, duraciones y un tiempo límite adecuado",
    ),
    (
        "Check names as the start of a run would, without starting a run",
        "Comprobar nombres como al iniciar una ejecución, sin iniciarla",
    ),
    // act, browser.
    (
        "Check a script without a daemon or a browser: every rule that needs no page",
        "Comprobar un script sin daemon ni navegador: todas las reglas que no necesitan una página",
    ),
    (
        "Open a browser for actions that are proposed one at a time, and print its run id",
        "Abrir un navegador para acciones que se proponen una a una, y mostrar el id de su ejecución",
    ),
    (
        "Print the elements of the page, one a line, with references for the next action",
        "Mostrar los elementos de la página, uno por línea, con referencias para la próxima acción",
    ),
    ("Perform one action, and print its outcome", "Hacer una acción y mostrar su resultado"),
    (
        "Close a session's browser, which ends its run",
        "Cerrar el navegador de una sesión, lo que termina su ejecución",
    ),
    ("List the browsers that are open now", "Listar los navegadores abiertos ahora"),
    (
        "Find the browser's program and test that it starts; needs no daemon",
        "Encontrar el programa del navegador y probar que arranca; no necesita un daemon",
    ),
    // pipeline.
    (
        "Run a pipeline: phases whose outputs are judged before they count",
        "Ejecutar un proceso: fases cuyas salidas se juzgan antes de contar",
    ),
    (
        "List the pipelines that can be run by name: those of the folder `pipelines`, and those that are built in",
        "Listar los procesos que se pueden ejecutar por su nombre: los de la carpeta `pipelines` y los incluidos",
    ),
    (
        "Check a pipeline and its schemas without a daemon",
        "Comprobar un proceso y sus esquemas sin un daemon",
    ),
    ("Show where the phases of a run stand", "Mostrar en qué estado están las fases de una ejecución"),
    (
        "Compare the checkpoints of two runs, or of two moments of one",
        "Comparar los puntos de control de dos ejecuciones, o de dos momentos de una",
    ),
    (
        "Go back to the completed checkpoint before a phase: the phase and all after it begin anew",
        "Volver al punto de control completo anterior a una fase: la fase y las siguientes empiezan de nuevo",
    ),
    (
        "Let a blocked phase go on, with another agent or input where that helps",
        "Dejar que continúe una fase bloqueada, con otro agente u otra entrada si eso ayuda",
    ),
    // mode.
    (
        "Work on a query in an execution mode, with a planner and tools",
        "Trabajar en una consulta en un modo de ejecución, con un planificador y herramientas",
    ),
    ("List the modes", "Listar los modos"),
    (
        "Choose the mode of a session: its runs from now on that name none are in it",
        "Elegir el modo de una sesión: el de sus próximas ejecuciones que no nombren otro",
    ),
    (
        "Show where an execution stands: its plan with a mark for each step",
        "Mostrar cómo va una ejecución: su plan con una marca en cada paso",
    ),
    ("Approve the plan that waits for it", "Aprobar el plan que espera aprobación"),
    (
        "Change the plan that waits for approval, in $EDITOR or by a file",
        "Cambiar el plan que espera aprobación, en $EDITOR o con un archivo",
    ),
    ("Make a place to which the run can go back", "Crear un punto al que la ejecución puede volver"),
    ("List the checkpoints of a run", "Listar los puntos de control de una ejecución"),
    (
        "Go back to a checkpoint: what came after it does not count",
        "Volver a un punto de control: lo que vino después no cuenta",
    ),
    (
        "Pause a run: nothing new is asked or called",
        "Pausar una ejecución: no se consulta ni se llama nada nuevo",
    ),
    ("Let a paused run go on", "Dejar que continúe una ejecución en pausa"),
    (
        "Assess how large and how risky a query looks, for information only",
        "Estimar qué tan grande y arriesgada parece una consulta, solo como información",
    ),
    // memory.
    (
        "List what a session remembers, newest first",
        "Listar lo que recuerda una sesión, primero lo más nuevo",
    ),
    ("Show one entry in whole", "Mostrar una entrada entera"),
    (
        "Have entries forgotten: they are not recalled, nor found, any more",
        "Hacer que se olviden entradas: ya no se recuerdan ni se encuentran",
    ),
    // router.
    (
        "Show every term of a routing decision, and changes that would have altered it",
        "Mostrar cada término de la decisión del router, y los cambios que la habrían alterado",
    ),
    ("List the specs that the daemon knows", "Listar los specs que conoce el daemon"),
    (
        "Reload the daemon's spec files; an invalid file changes nothing",
        "Recargar los archivos de specs del daemon; un archivo inválido no cambia nada",
    ),
    (
        "Accept the transition that an answer suggested",
        "Aceptar el paso a otro spec que sugirió una respuesta",
    ),
    (
        "Measure routing on labelled rows; needs no daemon",
        "Medir el router con filas etiquetadas; no necesita un daemon",
    ),
    ("Lint spec files; needs no daemon", "Revisar archivos de specs; no necesita un daemon"),
    // sessions.
    ("List the sessions of a daemon", "Listar las sesiones de un daemon"),
    (
        "Show a session of a daemon: its spec, what can be accepted, and the last messages",
        "Mostrar una sesión de un daemon: su spec, lo que se puede aceptar y los últimos mensajes",
    ),
    (
        "Give a session of a daemon the state of a file",
        "Dar a una sesión de un daemon el estado de un archivo",
    ),
    (
        "Write the state of a session of a daemon into a file",
        "Escribir en un archivo el estado de una sesión de un daemon",
    ),
    (
        "Check a state file: fields, types, phases and times",
        "Comprobar un archivo de estado: campos, tipos, fases y tiempos",
    ),
    (
        "Make a state file valid again, and keep what is valid of it",
        "Hacer válido de nuevo un archivo de estado, y conservar lo válido de él",
    ),
    (
        "Put the backup of a state file in its place",
        "Poner en su lugar la copia de seguridad de un archivo de estado",
    ),
    // clap's own.
    (
        "Print this message or the help of the given subcommand(s)",
        "Mostrar este mensaje o la ayuda de los subcomandos dados",
    ),
];

/// Further paragraphs of `--help`, before the arguments.
pub(super) const ABOUTS: Texts = &[
    (
        "It keeps nothing, and only this machine reaches it.",
        "No guarda nada, y solo lo alcanza esta máquina.",
    ),
    (
        "Settings come from capataz.toml, then CAPATAZ_LISTEN, CAPATAZ_DATA_DIR and CAPATAZ_SPECS_DIR, then these flags. Agents, models and specs are read again when a file changes, and on SIGHUP.",
        "Los ajustes vienen de capataz.toml, luego de CAPATAZ_LISTEN, CAPATAZ_DATA_DIR y CAPATAZ_SPECS_DIR, y luego de estas opciones. Los agentes, los modelos y las especificaciones se vuelven a leer cuando cambia un archivo, y con SIGHUP.",
    ),
    (
        "The daemon runs inside this command, on a free port, with a new data folder that is kept.",
        "El daemon corre dentro de este comando, en un puerto libre, con una carpeta de datos nueva que se conserva.",
    ),
    (
        "Checks the plan, starts a run, waits for its end and reports. Ctrl-C leaves the run to the daemon.",
        "Comprueba el plan, inicia una ejecución, espera su fin e informa. Ctrl-C deja la ejecución al daemon.",
    ),
    (
        "RUN is a run's id, the beginning or the end of one among the newest 500 runs, or `latest`.",
        "EJECUCIÓN es el id de una ejecución, el comienzo o el final del id de una de las 500 más nuevas, o `latest`.",
    ),
    (
        "Without TEXT, the command is a conversation: one message a line, with the hints of the specs.",
        "Sin TEXTO, el comando es una conversación: un mensaje por línea, con las sugerencias de los specs.",
    ),
    (
        "Checks the script, starts a run, shows each action's outcome, then the outputs or the error. Ctrl-C leaves the run to the daemon.",
        "Comprueba el script, inicia una ejecución, muestra el resultado de cada acción, y luego las salidas o el error. Ctrl-C deja la ejecución al daemon.",
    ),
    (
        "RUN is a session's run id, the beginning or the end of one among the newest 500 runs, or `latest`.",
        "EJECUCIÓN es el id de la ejecución de una sesión, el comienzo o el final del id de una de las 500 más nuevas, o `latest`.",
    ),
    (
        "The list of runs and the rows that lead from a run to its children follow from the runs' logs. This command reads every log from its first event on, reports each row that does not follow from it, and writes that row again. Logs stay as they are. A run whose log is damaged, or that is quarantined, is named and left as it is.",
        "La lista de ejecuciones y las filas que llevan de una ejecución a sus hijas se siguen de los logs de las ejecuciones. Este comando lee cada log desde su primer evento, informa de cada fila que no se sigue de él, y escribe esa fila de nuevo. Los logs quedan como están. Una ejecución cuyo log está dañado, o que está en cuarentena, se nombra y queda como está.",
    ),
    (
        "The same rules apply as in a run: what is declared, else the table of codes, else the first pattern that matches the message; what no rule knows is HIGH.",
        "Rigen las mismas reglas que en una ejecución: lo declarado; si no, la tabla de códigos; si no, el primer patrón que coincide con el mensaje; lo que ninguna regla conoce es HIGH.",
    ),
    (
        "Nothing is decided anew: the log says what was decided, not how one would decide today.",
        "No se decide nada de nuevo: el log dice qué se decidió, no cómo se decidiría hoy.",
    ),
    (
        "On a terminal, the key `e` gives the task that is next to time out 15 minutes more.",
        "En una terminal, la tecla `e` da 15 minutos más a la próxima tarea en agotar su tiempo.",
    ),
    (
        "Its worker is told to stop, what it gave back no longer counts, and it begins anew. Where tasks of later waves have begun, --cascade takes them back too; without it nothing is done, and they are named.",
        "Se pide a su worker que pare, lo que entregó ya no cuenta, y la tarea empieza de nuevo. Si empezaron tareas de olas posteriores, --cascade las revierte también; sin esa opción no se hace nada, y se las nombra.",
    ),
    (
        "A task that succeeded is done again only where its input refers to the output of a task that is done again. Labels and session are those of the old run, and so are the limits and policies of its plan.",
        "Una tarea que tuvo éxito se hace de nuevo solo si su entrada se refiere a la salida de una tarea que se hace de nuevo. Las etiquetas y la sesión son las de la ejecución anterior, igual que los límites y las políticas de su plan.",
    ),
    (
        "The new run begins with everything that the other one was after the event: what had happened by then is not done again, and what was at work is done anew. The other run stays as it is.",
        "La ejecución nueva empieza con todo lo que era la otra tras el evento: lo que ya había ocurrido no se repite, y lo que estaba en marcha se hace de nuevo. La otra ejecución queda como está.",
    ),
    (
        "The cascade of the run as a list: registry, lifecycle, timeout, retry, severity, aggregation, session.",
        "La cascada de la ejecución como lista: registro, ciclo de vida, tiempo límite, reintentos, severidad, agregación, sesión.",
    ),
    (
        "Counts the tasks of the newest runs that have ended and were not cancelled. P50 and P95 are of successful attempts. The suggested timeout is twice the P95.",
        "Cuenta las tareas de las ejecuciones más nuevas que terminaron y no se cancelaron. P50 y P95 son de intentos con éxito. El tiempo límite sugerido es el doble de P95.",
    ),
    (
        "What counts already stays: only the items without an output are worked on again.",
        "Lo que ya cuenta se conserva: solo se trabaja otra vez en los elementos sin salida.",
    ),
    (
        "The changed plan is the next revision, and waits for approval again.",
        "El plan cambiado es la próxima revisión, y espera aprobación otra vez.",
    ),
    (
        "A file that is damaged comes from its backup, else from what can still be read of it. Of a state that is only not valid, context and entries of the history are kept. The bytes that were there are kept beside it.",
        "Un archivo dañado se restaura de su copia de seguridad; si no, de lo que todavía se puede leer de él. De un estado que solo es inválido se conservan el contexto y las entradas del historial. Los bytes que había se conservan junto a él.",
    ),
];
