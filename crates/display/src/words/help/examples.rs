//! What stands below the arguments of a command: examples and exit codes, in Spanish.

use super::Texts;

/// Headings of examples, and what is said beside single ones. The lines to copy are the same in both languages.
pub(super) const COMMENTS: Texts = &[
    ("Example:", "Ejemplo:"),
    ("Examples:", "Ejemplos:"),
    ("a tour in ten seconds", "un recorrido de diez segundos"),
    ("start a daemon", "iniciar un daemon"),
    ("run a plan and watch it", "ejecutar un plan y seguirlo"),
    ("route a text to a spec and show its answer", "dirigir un texto a un spec y ver su respuesta"),
    (
        "perform browser actions, with evidence of each",
        "hacer acciones de navegador, con evidencia de cada una",
    ),
    ("list running runs", "listar las ejecuciones en marcha"),
    ("show the effective settings, start nothing", "mostrar los ajustes efectivos, sin iniciar nada"),
    ("record all inputs, to report a bug", "grabar todas las entradas, para informar de un error"),
    ("then, elsewhere: capataz --addr … runs list", "luego, en otro lugar: capataz --addr … runs list"),
    ("then: capataz sessions show release", "luego: capataz sessions show release"),
    ("list violations, without a browser", "listar las violaciones, sin navegador"),
    ("report differences, change nothing", "informar de las diferencias, sin cambiar nada"),
    ("report them, and write those rows again", "informar de ellas y escribir esas filas de nuevo"),
    ("of the data folder of capataz.toml", "de la carpeta de datos de capataz.toml"),
    ("look it through first, restore nothing", "primero examinarla, sin restaurar nada"),
    (
        "the data folder of capataz.toml, while no daemon runs",
        "la carpeta de datos de capataz.toml, sin ningún daemon",
    ),
    ("a conversation; try /help", "una conversación; pruebe /help"),
    ("of all tasks of the newest run", "de todas las tareas de la ejecución más reciente"),
    ("of one task, as it comes", "de una tarea, según llega"),
    ("the site that examples/scripts work on", "el sitio con el que trabajan examples/scripts"),
    ("in another terminal", "en otra terminal"),
    ("what failed, why, and how to run it again", "qué falló, por qué y cómo repetirlo"),
    ("list it", "listarla"),
    ("save one as KIND-ID.png", "guardar una como CLASE-ID.png"),
    ("save it as ID.html", "guardarlo como ID.html"),
    ("labels are spec ids", "las etiquetas son ids de specs"),
    ("shows the numbers of the events", "muestra los números de los eventos"),
    ("lists the open questions", "lista las preguntas abiertas"),
    ("show what would change, as a diff", "mostrar qué cambiaría, como un diff"),
    ("leave the backup out: keep what can be read", "sin la copia de seguridad: lo que se pueda leer"),
    ("begin anew; what was there is kept beside it", "empezar de nuevo; lo que había se conserva al lado"),
];

/// Paragraphs around the examples.
pub(super) const PARAGRAPHS: Texts = &[
    (
        "Exit codes: 0 success, 1 the run failed or the daemon refused, 2 wrong usage or invalid input, 3 no daemon, 4 the run goes on, 5 the run waits for an answer, 130 Ctrl-C.",
        "Códigos de salida: 0 éxito, 1 la ejecución falló o el daemon rechazó lo pedido, 2 uso incorrecto o entrada inválida, 3 no hay daemon, 4 la ejecución continúa, 5 la ejecución espera una respuesta, 130 Ctrl-C.",
    ),
    (
        "A file that exists is left as it is, unless --force is given.",
        "Un archivo que existe queda como está, salvo con --force.",
    ),
    (
        "Of a command it is what it writes to stderr; a worker logs by itself. Of each try that has ended, the last 16 KiB are kept; of one that is at work, 4 KiB are seen. The events of a run are a log of another kind: `capataz runs logs`.",
        "De un comando es lo que escribe en stderr; un worker registra por sí mismo. De cada intento que terminó se conservan los últimos 16 KiB; de uno en curso se ven 4 KiB. Los eventos de una ejecución son un registro de otra clase: `capataz runs logs`.",
    ),
    (
        "Executions that have ended and whose runs are kept. Waits for people are part of their times.",
        "Las ejecuciones que terminaron y que se conservan. Las esperas por personas son parte de sus tiempos.",
    ),
    (
        "A session may begin with the state file of another tool, and be written to one: see capataz sessions import and capataz sessions export.",
        "Una sesión puede empezar con el archivo de estado de otra herramienta, y escribirse en uno: véase capataz sessions import y capataz sessions export.",
    ),
    (
        "With --json, the output is one document with run_id, created and result; with --watch, a line for each event; with --detach, one document with run_id and created.",
        "Con --json, la salida es un documento con run_id, created y result; con --watch, una línea por cada evento; con --detach, un documento con run_id y created.",
    ),
    ("Exit code 2 if the file breaks a rule.", "Código de salida 2 si el archivo incumple una regla."),
    (
        "With --json, the output is one document with run_id, created and result; with --watch, a line for each event; with --detach, one document with run_id and created. A script that breaks rules is not started: exit code 2, and with --json a document with valid, error_code and violations.",
        "Con --json, la salida es un documento con run_id, created y result; con --watch, una línea por cada evento; con --detach, un documento con run_id y created. Un script que incumple reglas no se inicia: código de salida 2, y con --json un documento con valid, error_code y violations.",
    ),
    ("Exit code 2 if the script breaks a rule.", "Código de salida 2 si el script incumple una regla."),
    (
        "FILE is a script with interactive = true, whose policy, browser and variables apply. Without FILE, the session may reach only the hosts that --allow names.",
        "ARCHIVO es un script con interactive = true, cuya política, navegador y variables rigen. Sin ARCHIVO, la sesión solo puede llegar a los hosts que nombra --allow.",
    ),
    ("Exit code 1 if the action failed.", "Código de salida 1 si falló la acción."),
    (
        "Exit code 1 if no browser is found that starts.",
        "Código de salida 1 si no se encuentra un navegador que arranque.",
    ),
    (
        "The command can be interrupted at any moment and started again.",
        "El comando se puede interrumpir en cualquier momento y empezar de nuevo.",
    ),
    (
        "Exit code 1 if --check finds a difference, or if a run was left as it is.",
        "Código de salida 1 si --check encuentra una diferencia, o si una ejecución queda como está.",
    ),
    (
        "A daemon may work on the folder meanwhile: the backup is what was durable at one moment, with its blobs. It has its name when it is whole and was looked through; until then, it is called NAME.partial. Payloads are in it, so it is as secret as the data folder.",
        "Mientras tanto, un daemon puede trabajar con la carpeta: la copia es lo que era duradero en un momento, con sus blobs. Tiene su nombre cuando está íntegra y examinada; hasta entonces se llama NOMBRE.partial. Incluye los contenidos, así que es tan secreta como la carpeta de datos.",
    ),
    (
        "Exit code 1 if there is no backup, or if something was damaged already; what is whole is in it.",
        "Código de salida 1 si no hay copia, o si algo ya estaba dañado; lo íntegro está en ella.",
    ),
    (
        "The data folder must have no database, and no daemon. What happened after the backup is not there; cursors and leases of that time are refused by name (CURSOR_UNKNOWN, OTHER_HISTORY), and work that was going on at the time of the backup goes on as after a crash.",
        "La carpeta de datos no debe tener base de datos ni daemon. Lo que ocurrió después de la copia no está; los cursores y leases de ese tiempo se rechazan por su nombre (CURSOR_UNKNOWN, OTHER_HISTORY), y el trabajo que estaba en marcha al hacer la copia continúa como después de una caída.",
    ),
    (
        "Exit code 1 if nothing was restored, or if something in the backup is damaged.",
        "Código de salida 1 si no se restauró nada, o si algo de la copia está dañado.",
    ),
    (
        "Reads every log, every row and every blob, and changes no data.",
        "Lee todos los logs, todas las filas y todos los blobs, y no cambia ningún dato.",
    ),
    (
        "Exit code 1 if something is damaged, or if a daemon uses the folder.",
        "Código de salida 1 si algo está dañado, o si un daemon usa la carpeta.",
    ),
    (
        "Exit code 1 if there is a failure. A warning is none.",
        "Código de salida 1 si hay un fallo. Un aviso no lo es.",
    ),
    (
        "A run that belongs to no session has a memory of its own: --session RUN, its whole id.",
        "Una ejecución que no pertenece a ninguna sesión tiene una memoria propia: --session EJECUCIÓN, su id completo.",
    ),
    (
        "It cannot be undone. The events that made the entries stay in the log until retention removes their runs.",
        "No se puede deshacer. Los eventos que crearon las entradas quedan en el log hasta que la retención elimine sus ejecuciones.",
    ),
    (
        "The choice stays until the next one. A run at work stays in its mode.",
        "La elección vale hasta la próxima. Una ejecución en marcha sigue en su modo.",
    ),
    (
        "What is at work is ended, and its late results are refused. The log keeps what was dropped.",
        "Lo que está en marcha se termina, y sus resultados tardíos se rechazan. El log conserva lo que se dejó.",
    ),
    (
        "Nothing follows from it: the mode is yours to choose. The formula is in docs/risk.md.",
        "Nada se sigue de ella: el modo lo elige una persona. La fórmula está en docs/risk.md.",
    ),
    (
        "The planner is an agent of kind planner, the tools are agents of kind tool; plan.run, pipeline.run and router.ask are built in, and so is the browser, for the hosts that --allow names: --tool 'browser.*', or --tool browser.click and the like. --tool '*' stands for every agent of kind tool. See docs/modes.md.",
        "El planificador es un agente de clase planner, las herramientas son agentes de clase tool; plan.run, pipeline.run y router.ask están incluidas, y también el navegador, para los hosts que nombra --allow: --tool 'browser.*', o --tool browser.click y similares. --tool '*' representa a todos los agentes de clase tool. Véase docs/modes.md.",
    ),
    (
        "Exit codes: 0 the query is done, 1 it failed, 2 an argument is not valid, 5 it waits for a person and --exit-on-question is given.",
        "Códigos de salida: 0 la consulta está hecha, 1 falló, 2 un argumento es inválido, 5 espera a una persona y se dio --exit-on-question.",
    ),
    ("Exit code 2 if the pipeline breaks a rule.", "Código de salida 2 si el proceso incumple una regla."),
    (
        "Ids of runs and times are not compared. Exit code 0 if there is no difference, 1 if there is one.",
        "No se comparan los ids de ejecuciones ni los tiempos. Código de salida 0 si no hay diferencias, 1 si las hay.",
    ),
    (
        "What is at work is ended, and its late results are refused.",
        "Lo que está en marcha se termina, y sus resultados tardíos se rechazan.",
    ),
    (
        "PIPELINE is a file, or a name: of pipelines/NAME.toml, or of one that is built in. With --input path=FOLDER the folder's file names and manifests are one more item of `sources` in the input; the daemon itself reads no folder.",
        "PROCESO es un archivo, o un nombre: el de pipelines/NOMBRE.toml o el de uno incluido. Con --input path=CARPETA, los nombres de archivo y los manifiestos de la carpeta son un elemento más de `sources` en la entrada; el daemon mismo no lee ninguna carpeta.",
    ),
    (
        "Exit codes: 0 all phases are completed, 1 it failed or is blocked, 2 the pipeline or an argument is not valid, 5 it waits for a person and --exit-on-question is given.",
        "Códigos de salida: 0 todas las fases están completas, 1 falló o está bloqueado, 2 el proceso o un argumento es inválido, 5 espera a una persona y se dio --exit-on-question.",
    ),
    (
        "Exit code 1 if no spec gave an answer, 4 if there is no answer yet.",
        "Código de salida 1 si ningún spec dio una respuesta, 4 si todavía no hay respuesta.",
    ),
    (
        "Rows are tab-separated: text, label, split; the first line is a heading. If a file has rows of the split that the option names (train, valid, test), only those rows count, so that one file can be given three times; --shots N prefers the split train_N. FILE:SPLIT names another split. The label oos marks texts that no spec should answer. Without --test, the rows of --valid are halved: thresholds are chosen on one half, and the result is measured on the other.",
        "Las filas se separan con tabuladores: texto, etiqueta, parte; la primera línea es un encabezado. Si un archivo tiene filas de la parte que nombra la opción (train, valid, test), solo cuentan esas, así que un mismo archivo se puede dar tres veces; --shots N prefiere la parte train_N. ARCHIVO:PARTE nombra otra parte. La etiqueta oos marca textos que ningún spec debe responder. Sin --test, las filas de --valid se dividen en dos mitades: con una se eligen los umbrales, y con la otra se mide el resultado.",
    ),
    (
        "Exit code 2 if a file is invalid, 1 if a finding is a warning, 0 if there are at most notes.",
        "Código de salida 2 si un archivo es inválido, 1 si un hallazgo es un aviso, 0 si a lo sumo hay notas.",
    ),
    (
        "Of two different runs, what they never have in common is not compared: ids, times, workers and numbers of events. Exit code 0 if nothing differs, 1 if something does.",
        "De dos ejecuciones distintas no se compara lo que nunca comparten: ids, tiempos, workers y números de eventos. Código de salida 0 si nada difiere, 1 si algo difiere.",
    ),
    (
        "Exit code 0 if what is stored is what the events say, 1 if it differs.",
        "Código de salida 0 si lo guardado es lo que dicen los eventos, 1 si difiere.",
    ),
    (
        "The bytes are those that the task has given back, however many; a terminal shows only text.",
        "Los bytes son los que entregó la tarea, sean cuantos sean; una terminal solo muestra texto.",
    ),
    (
        "Its idempotency key stays for its time. There is no way back.",
        "Su clave de idempotencia se conserva durante su tiempo. No hay vuelta atrás.",
    ),
    (
        "Exit code 1 if the run is still in quarantine.",
        "Código de salida 1 si la ejecución sigue en cuarentena.",
    ),
    (
        "The file needs nothing else: it loads nothing, and fits a phone. The report of a run that goes on shows its current state.",
        "El archivo no necesita nada más: no carga nada y cabe en un teléfono. El informe de una ejecución en marcha muestra su estado actual.",
    ),
    (
        "The exit code is 0 if the run succeeded, and 1 if it did not.",
        "El código de salida es 0 si la ejecución tuvo éxito, y 1 si no.",
    ),
    ("The exit code is that of `capataz run`.", "El código de salida es el de `capataz run`."),
    (
        "What was decided together is forked together: where that is not so at the event, the refusal names the nearest one that may be. The exit code is that of `capataz run`.",
        "Lo que se decidió junto se bifurca junto: si no es así en el evento, el rechazo nombra el más cercano que puede ser. El código de salida es el de `capataz run`.",
    ),
    ("Exit code 1 if a name is unknown.", "Código de salida 1 si un nombre es desconocido."),
    (
        "Refused while a plan of the session is at work: its state is newer than any file.",
        "Se rechaza mientras un plan de la sesión está en marcha: su estado es más nuevo que cualquier archivo.",
    ),
    (
        "A valid state that is replaced becomes the backup; one that is not is kept beside it.",
        "Un estado válido que se reemplaza pasa a ser la copia de seguridad; uno inválido se conserva al lado.",
    ),
    ("Exit code 2 if the state is not valid.", "Código de salida 2 si el estado es inválido."),
];
