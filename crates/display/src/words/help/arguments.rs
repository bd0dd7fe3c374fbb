//! What arguments and options mean, in Spanish, and the names of their values.

use super::Texts;

/// Options of all commands, and arguments of those that run plans, pipelines, queries, asks and scripts.
pub(super) const ARGUMENTS: Texts = &[
    ("Global options", "Opciones globales"),
    (
        "Address of the daemon [default: that of the daemon of this folder's capataz.toml, else http://127.0.0.1:7411]",
        "Dirección del daemon [predeterminado: la del daemon del capataz.toml de esta carpeta, o si no http://127.0.0.1:7411]",
    ),
    (
        "Print JSON: one document, or one line for each item of a stream",
        "Mostrar JSON: un documento, o una línea por cada elemento de un flujo",
    ),
    ("When to use colours", "Cuándo usar colores"),
    (
        "Language of what people read [default: that of the locale, else English]",
        "Idioma de lo que leen las personas [predeterminado: el del locale; si no, inglés]",
    ),
    (
        "Draw results and errors as boxes, and not in lines",
        "Mostrar los resultados y los errores en cuadros y no en líneas",
    ),
    ("Print help for the subcommand(s)", "Mostrar la ayuda de los subcomandos"),
    // analytics, serve, demo.
    (
        "Only executions that were started within this time, such as 12h or 7d",
        "Solo las ejecuciones que empezaron en este tiempo, como 12h o 7d",
    ),
    (
        "Configuration file [default: capataz.toml of the working folder, if it exists]",
        "Archivo de configuración [predeterminado: capataz.toml de la carpeta de trabajo, si existe]",
    ),
    ("Address and port to listen on", "Dirección y puerto donde escuchar"),
    ("Folder of the database", "Carpeta de la base de datos"),
    (
        "Folder of the spec files [default: specs of the working folder, if it exists]",
        "Carpeta de los archivos de specs [predeterminado: specs de la carpeta de trabajo, si existe]",
    ),
    (
        "Print the effective settings and where each comes from, and start nothing",
        "Mostrar los ajustes efectivos y de dónde viene cada uno, sin iniciar nada",
    ),
    (
        "Record all inputs of the shards in a new file, for `cargo xtask simulate --replay`",
        "Grabar todas las entradas de los shards en un archivo nuevo, para `cargo xtask simulate --replay`",
    ),
    (
        "The file contains every payload, so it is as secret as the data folder.",
        "El archivo contiene todos los contenidos, así que es tan secreto como la carpeta de datos.",
    ),
    ("Size at which the recording ends", "Tamaño con el que termina la grabación"),
    (
        "What to log: error, warn, info, debug, trace, or per module as in `capataz=debug,info`",
        "Qué registrar: error, warn, info, debug, trace, o por módulo, como en `capataz=debug,info`",
    ),
    ("How log lines on stderr are written", "Cómo se escriben las líneas del log en stderr"),
    ("Folder that the crew examines", "Carpeta que examina la cuadrilla"),
    ("Keep the daemon until Ctrl-C", "Dejar el daemon en marcha hasta Ctrl-C"),
    // run, and what follows a run.
    ("Plan in TOML or JSON; `-` for stdin", "Plan en TOML o JSON; `-` para stdin"),
    (
        "Format of the plan [default: by the file's extension, else by its contents]",
        "Formato del plan [predeterminado: según la extensión del archivo; si no, según su contenido]",
    ),
    ("Label of the run; may be repeated", "Etiqueta de la ejecución; se puede repetir"),
    (
        "Idempotency key: the same key and plan name the same run",
        "Clave de idempotencia: la misma clave con el mismo plan nombra la misma ejecución",
    ),
    (
        "Session whose work the plan is; instead of the plan's own. Runs of one session are at work one after the other",
        "Sesión a la que pertenece el plan, en lugar de la del propio plan. Las ejecuciones de una sesión trabajan una tras otra",
    ),
    (
        "State file that the session begins with, and that follows the plan [default: .elsabro/state.json, where the folder is]",
        "Archivo de estado con el que empieza la sesión y que sigue al plan [predeterminado: .elsabro/state.json, si existe la carpeta]",
    ),
    (
        "Show events as they happen (the default without `--json`); on a terminal, the running tasks, where keys answer questions, and `e` gives the task that is next to time out 15 minutes more",
        "Mostrar los eventos cuando ocurren (lo predeterminado sin `--json`); en una terminal, las tareas en marcha, donde hay teclas para responder preguntas, y `e` da 15 minutos más a la próxima en agotar su tiempo",
    ),
    (
        "With `--watch`: also what running tasks say and put out, a line where that is news, and with `--json` for each progress frame",
        "Con `--watch`: también lo que dicen y entregan las tareas en marcha, una línea si es nuevo, y con `--json` una por cada avance",
    ),
    ("Wait for the end and show nothing until then", "Esperar el fin sin mostrar nada hasta entonces"),
    ("Start the run and do not wait for its end", "Iniciar la ejecución sin esperar su fin"),
    (
        "How long to wait, such as 90s or 10m; the run goes on afterwards (exit code 4 or 5)",
        "Cuánto esperar, como 90s o 10m; después la ejecución continúa (código de salida 4 o 5)",
    ),
    (
        "Stop waiting as soon as the run asks a question (exit code 5)",
        "Dejar de esperar en cuanto la ejecución haga una pregunta (código de salida 5)",
    ),
    // contract check, errors explain.
    (
        "Plan or script in TOML or JSON, or another document in JSON; `-` for stdin",
        "Plan o script en TOML o JSON, u otro documento en JSON; `-` para stdin",
    ),
    ("What the file is", "Qué es el archivo"),
    (
        "Format of a plan or script [default: by the file's extension, else by its contents]",
        "Formato de un plan o script [predeterminado: según la extensión del archivo; si no, según su contenido]",
    ),
    ("A code, `CODE: message`, or a message", "Un código, `CÓDIGO: mensaje`, o un mensaje"),
    ("Severity that the plan or the error declares", "Severidad que declara el plan o el error"),
    // pipeline.
    ("Pipeline in TOML or JSON, or its name", "Proceso en TOML o JSON, o su nombre"),
    (
        "Format of the pipeline [default: by the file's extension, else by its contents]",
        "Formato del proceso [predeterminado: según la extensión del archivo; si no, según su contenido]",
    ),
    ("As they were after this event", "Como estaban tras este evento"),
    (
        "Those of the newest 20 runs of this product, instead of those of a run",
        "Los de las 20 ejecuciones más nuevas de este producto, en lugar de los de una ejecución",
    ),
    (
        "Phase that begins anew [default: the one at work or blocked]",
        "Fase que empieza de nuevo [predeterminado: la que está en curso o bloqueada]",
    ),
    (
        "Agent that does the work of the phase from now on",
        "Agente que hace el trabajo de la fase desde ahora",
    ),
    (
        "What the open items are given from now on, as JSON",
        "Lo que reciben desde ahora los elementos abiertos, como JSON",
    ),
    (
        "Part of the input: KEY=TEXT, KEY:=JSON or path=FOLDER; may be repeated",
        "Parte de la entrada: CLAVE=TEXTO, CLAVE:=JSON o path=CARPETA; se puede repetir",
    ),
    ("File with the whole input, as JSON", "Archivo con la entrada completa, como JSON"),
    (
        "What the checkpoints are of [default: the pipeline's own, else its name]",
        "De qué son los puntos de control [predeterminado: lo que dice el proceso; si no, su nombre]",
    ),
    (
        "Idempotency key: the same key and pipeline name the same run",
        "Clave de idempotencia: la misma clave con el mismo proceso nombra la misma ejecución",
    ),
    // mode.
    ("The mode", "El modo"),
    ("The session", "La sesión"),
    ("As it was after this event", "Como estaba tras este evento"),
    ("With what the last action gave back", "Con lo que devolvió la última acción"),
    (
        "File with the plan as JSON: {\"steps\": […], \"checkpoints\": […]} [default: the proposed one in $EDITOR]",
        "Archivo con el plan como JSON: {\"steps\": […], \"checkpoints\": […]} [predeterminado: el propuesto, en $EDITOR]",
    ),
    ("Why, for people", "Por qué, para las personas"),
    ("The checkpoint", "El punto de control"),
    ("The query", "La consulta"),
    (
        "Tool that would be used; may be repeated [default: every tool that is known]",
        "Herramienta que se usaría; se puede repetir [predeterminado: todas las conocidas]",
    ),
    ("What is to be done", "Qué se debe hacer"),
    (
        "Mode of this run alone [default: the one that the session has chosen, else simple]",
        "Modo de esta ejecución [predeterminado: el que eligió la sesión; si no, simple]",
    ),
    ("Session whose memory it uses, and whose mode it has", "Sesión cuya memoria usa y cuyo modo tiene"),
    (
        "Agent that decides what is done [default: the only planner that is known]",
        "Agente que decide qué se hace [predeterminado: el único planificador conocido]",
    ),
    (
        "Tool that may be used; may be repeated [default: every tool that is known]",
        "Herramienta que se puede usar; se puede repetir [predeterminado: todas las conocidas]",
    ),
    (
        "Tool each call of which you approve, beside those of `--tool`; may be repeated",
        "Herramienta cuyas llamadas aprueba una persona una a una, además de las de `--tool`; se puede repetir",
    ),
    (
        "Host that the run's browser may reach; may be repeated. With it, the tools of the browser are there",
        "Host al que puede llegar el navegador de la ejecución; se puede repetir. Con él están las herramientas del navegador",
    ),
    (
        "Interactive script whose policy and browser are those of the run's browser [default: none]",
        "Script interactivo cuya política y cuyo navegador son los del navegador de la ejecución [predeterminado: ninguno]",
    ),
    ("Show the browser's window", "Mostrar la ventana del navegador"),
    (
        "Folder whose file names the planner is told",
        "Carpeta cuyos nombres de archivo se dicen al planificador",
    ),
    ("File that the planner is told you are at", "Archivo abierto, según se dice al planificador"),
    (
        "How far results may depart from an approved plan before you are asked, 0 to 1 [default: 0.3]",
        "Cuánto pueden apartarse los resultados de un plan aprobado antes de que se pregunte, de 0 a 1 [predeterminado: 0.3]",
    ),
    (
        "Actions after which the run fails [default: 50]",
        "Acciones después de las que falla la ejecución [predeterminado: 50]",
    ),
    (
        "Idempotency key: the same key and query name the same run",
        "Clave de idempotencia: la misma clave con la misma consulta nombra la misma ejecución",
    ),
    // memory.
    ("Id of the entry", "Id de la entrada"),
    ("Ids of the entries", "Ids de las entradas"),
    ("The session that they belong to", "La sesión a la que pertenecen"),
    (
        "Text that an entry has, whatever the case of its letters",
        "Texto que tiene una entrada, en mayúsculas o minúsculas",
    ),
    (
        "The session, or the id of a run that belongs to none",
        "La sesión, o el id de una ejecución que no pertenece a ninguna",
    ),
    ("Only entries of this mode", "Solo entradas de este modo"),
    ("Only entries of this type", "Solo entradas de este tipo"),
    ("Entries that are listed at most", "Máximo de entradas que se listan"),
    (
        "Go on after the page whose output named this token",
        "Seguir después de la página cuya salida nombró este token",
    ),
    // ask, router.
    (
        "The text to ask; without it, the command is a conversation",
        "El texto que se pregunta; sin él, el comando es una conversación",
    ),
    (
        "Session of the ask [default: none with TEXT, a new one without]",
        "Sesión de la pregunta [predeterminado: ninguna con TEXTO, una nueva sin él]",
    ),
    ("Spec that answers, overriding the router", "Spec que responde, sin consultar al router"),
    ("Also show why the text goes to its spec", "Mostrar también por qué el texto va a su spec"),
    ("The user's language, such as es or en", "El idioma del usuario, como es o en"),
    (
        "Preferences of the user, which the session keeps: a JSON object",
        "Preferencias del usuario, que la sesión conserva: un objeto JSON",
    ),
    (
        "Further data for the spec, for this ask alone: a JSON object",
        "Más datos para el spec, solo para esta pregunta: un objeto JSON",
    ),
    (
        "Idempotency key: the same key and text name the same ask",
        "Clave de idempotencia: la misma clave con el mismo texto nombra la misma pregunta",
    ),
    ("How long to wait for the answer", "Cuánto esperar la respuesta"),
    ("The text", "El texto"),
    ("Session whose conversation counts in the decision", "Sesión cuya conversación cuenta en la decisión"),
    ("Request whose answer suggested the transition", "Solicitud cuya respuesta sugirió el paso"),
    (
        "Rows to train on: each label stands for a spec",
        "Filas para entrenar: cada etiqueta representa un spec",
    ),
    (
        "Folder of spec files to train on, instead of rows",
        "Carpeta de archivos de specs para entrenar, en lugar de filas",
    ),
    ("Rows on which thresholds are chosen", "Filas con las que se eligen los umbrales"),
    ("Rows on which the result is measured", "Filas con las que se mide el resultado"),
    ("Train on at most this many rows of each label", "Máximo de filas de cada etiqueta para entrenar"),
    (
        "Cross-validate the rows of --train in this many parts",
        "Validación cruzada de las filas de --train en este número de partes",
    ),
    ("Folder of the spec files", "Carpeta de los archivos de specs"),
    // act, browser.
    ("Script in TOML or JSON; `-` for stdin", "Script en TOML o JSON; `-` para stdin"),
    (
        "Format of the script [default: by the file's extension, else by its contents]",
        "Formato del script [predeterminado: según la extensión del archivo; si no, según su contenido]",
    ),
    (
        "Value of `${var:NAME}`, overriding the script's; may be repeated",
        "Valor de `${var:NOMBRE}`, en lugar del que tiene en el script; se puede repetir",
    ),
    (
        "Idempotency key: the same key and script name the same run",
        "Clave de idempotencia: la misma clave con el mismo script nombra la misma ejecución",
    ),
    ("Also show each stage of each action", "Mostrar también cada etapa de cada acción"),
    (
        "Write a report with pictures, as one HTML file, when the run has ended",
        "Escribir un informe con imágenes, en un solo archivo HTML, cuando termine la ejecución",
    ),
    (
        "Port of this machine; 0 for any that is free. The examples name 8000",
        "Puerto de esta máquina; 0 para cualquiera libre. Los ejemplos nombran el 8000",
    ),
    ("Only of these tasks [default: all]", "Solo de estas tareas [predeterminado: todas]"),
    (
        "Go on with what is logged until the run has finished",
        "Seguir con lo que se registre hasta que la ejecución haya terminado",
    ),
    (
        "Most lines of each try that were logged before the command looked [default: all that are kept]",
        "Máximo de líneas de cada intento registradas antes de que el comando mirara [predeterminado: todas las conservadas]",
    ),
    (
        "Piece to save or open: its id, the beginning of it, or its kind where there is one of it [default: list all]",
        "Pieza que guardar o abrir: su id, el comienzo de él, o su clase si hay una sola [predeterminado: listar todas]",
    ),
    (
        "File to write; `-` for stdout [default: named after the kind and the id, in the working folder]",
        "Archivo que escribir; `-` para stdout [predeterminado: con el nombre de la clase y del id, en la carpeta de trabajo]",
    ),
    ("Write over a file that exists", "Sobrescribir un archivo que existe"),
    (
        "Open the piece with the desktop's program for such files (xdg-open), from a new temporary file; HTML as text",
        "Abrir la pieza con el programa del escritorio para tales archivos (xdg-open), desde un archivo temporal nuevo; HTML como texto",
    ),
    (
        "Id of the session's run, the beginning or end of it, or `latest`",
        "Id de la ejecución de la sesión, su comienzo o su final, o `latest`",
    ),
    (
        "Maximum number of characters of the outline [default: 20000]",
        "Máximo de caracteres del esquema de la página [predeterminado: 20000]",
    ),
    (
        "Interactive script in TOML or JSON; `-` for stdin",
        "Script interactivo en TOML o JSON; `-` para stdin",
    ),
    (
        "Host that may be reached, in addition to those of FILE; may be repeated",
        "Host permitido, además de los de ARCHIVO; se puede repetir",
    ),
    ("Value of `${var:NAME}`; may be repeated", "Valor de `${var:NOMBRE}`; se puede repetir"),
    (
        "Cookies and local storage to start with, saved at the end",
        "Cookies y almacenamiento local con los que se empieza, y que se guardan al final",
    ),
    (
        "Close the browser when no action was proposed for this long [default: 5m]",
        "Cerrar el navegador si no se propone ninguna acción en este tiempo [predeterminado: 5m]",
    ),
    (
        "Idempotency key: the same key names the same session",
        "Clave de idempotencia: la misma clave nombra la misma sesión",
    ),
    ("One action in JSON; `-` for stdin", "Una acción en JSON; `-` para stdin"),
    (
        "Repeating a call with the same id does not perform the action again [default: a new id]",
        "Repetir una llamada con el mismo id no hace la acción de nuevo [predeterminado: un id nuevo]",
    ),
    (
        "Program to examine, instead of the configured one or the one that the daemon would find",
        "Programa que se examina, en lugar del configurado o del que encontraría el daemon",
    ),
    (
        "The daemon's configuration file [default: capataz.toml of the working folder, if it exists]",
        "El archivo de configuración del daemon [predeterminado: capataz.toml de la carpeta de trabajo, si existe]",
    ),
    ("The daemon's data folder", "La carpeta de datos del daemon"),
];

/// Arguments of the commands under `runs`, `agents` and `sessions`, and of those that work on a data folder.
pub(super) const OF_RUNS: Texts = &[
    (
        "Id of the run, the beginning or end of it, or `latest`; may be repeated",
        "Id de la ejecución, su comienzo o su final, o `latest`; se puede repetir",
    ),
    (
        "Id of the run, the beginning or end of it, or `latest`",
        "Id de la ejecución, su comienzo o su final, o `latest`",
    ),
    ("Also print the outputs of the tasks", "Mostrar también las salidas de las tareas"),
    (
        "All failed tasks in whole, and not the first 20 alone",
        "Todas las tareas que fallaron enteras, y no solo las primeras 20",
    ),
    (
        "Only what failed: each task with its error, next step, attempts, and the last lines of its log",
        "Solo lo que falló: cada tarea con su error, siguiente paso, intentos y las últimas líneas de su registro",
    ),
    (
        "Only tasks in this state: init, active (in_progress), complete (completed), failed (error), rolled_back, deleted; repeatable",
        "Solo tareas en este estado: init, active (in_progress), complete (completed), failed (error), rolled_back, deleted; se puede repetir",
    ),
    (
        "The run as it was after this event; `runs logs` shows their numbers",
        "La ejecución como estaba tras este evento; `runs logs` muestra sus números",
    ),
    (
        "Id of a run, the beginning or end of it, or `latest`; with `@SEQ`, as it was after this event",
        "Id de una ejecución, su comienzo o su final, o `latest`; con `@NÚMERO`, como estaba tras este evento",
    ),
    (
        "The run, or the moment of it, to compare that with",
        "La ejecución, o el momento de ella, con que se compara",
    ),
    (
        "Compare also what two runs never have in common",
        "Comparar también lo que dos ejecuciones nunca comparten",
    ),
    ("Name of the task", "Nombre de la tarea"),
    (
        "Take back what was built on it: the tasks of later waves that have begun",
        "Revertir lo que se apoya en ella: las tareas de olas posteriores que empezaron",
    ),
    (
        "Follow new events until the run has finished",
        "Seguir los eventos nuevos hasta que termine la ejecución",
    ),
    ("Only runs with this label; may be repeated", "Solo ejecuciones con esta etiqueta; se puede repetir"),
    ("running, paused, waiting, cancelling or finished", "running, paused, waiting, cancelling o finished"),
    (
        "succeeded, succeeded_with_failures, failed, cancelled or blocked",
        "succeeded, succeeded_with_failures, failed, cancelled o blocked",
    ),
    ("plan, ask, script, pipeline or mode", "plan, ask, script, pipeline o mode"),
    (
        "Only runs with this in their name, in capital letters or not; with `*` or `?`, it is the whole name",
        "Solo ejecuciones con esto en su nombre, en mayúsculas o no; con `*` o `?`, es el nombre entero",
    ),
    ("Only runs that began within this time", "Solo ejecuciones que empezaron dentro de este tiempo"),
    ("Only runs that began before that", "Solo ejecuciones que empezaron antes de eso"),
    (
        "Only runs that tasks of this run are, or have started",
        "Solo ejecuciones que son tareas de esta, o que ellas empezaron",
    ),
    ("Only runs of this session", "Solo ejecuciones de esta sesión"),
    ("Maximum number of runs", "Máximo de ejecuciones"),
    ("Continue an earlier list from its page token", "Continuar una lista anterior desde su token de página"),
    (
        "File to write; `-` for stdout [default: the id of the run with `.html`, in the working folder]",
        "Archivo que se escribe; `-` para stdout [predeterminado: el id de la ejecución con `.html`, en la carpeta de trabajo]",
    ),
    (
        "Write over a file that exists, as --output does in any case",
        "Sobrescribir un archivo que existe, como --output hace siempre",
    ),
    (
        "Also what running tasks say and put out: a line where that is news, and with `--json` for each progress frame",
        "También lo que dicen y entregan las tareas en marcha: una línea si es nuevo, y con `--json` una por cada avance",
    ),
    (
        "File to write; `-` for stdout, also with `--json` [default: stdout]",
        "Archivo que se escribe; `-` para stdout, también con `--json` [predeterminado: stdout]",
    ),
    ("Reason, stored with the run", "Motivo, que se guarda con la ejecución"),
    (
        "Do not wait for the grace period of running tasks",
        "No esperar el tiempo de gracia de las tareas en marcha",
    ),
    ("Additional time [default: 15m]", "Tiempo adicional [predeterminado: 15m]"),
    (
        "Label of the new run, beside those of the old one; may be repeated",
        "Etiqueta de la ejecución nueva, además de las de la anterior; se puede repetir",
    ),
    (
        "Idempotency key: the same key, run and labels name the same new run",
        "Clave de idempotencia: la misma clave con la misma ejecución y etiquetas nombra la misma ejecución nueva",
    ),
    (
        "State file that follows the plan, where it is work of a session [default: .elsabro/state.json, where the folder is]",
        "Archivo de estado que sigue al plan, si es de una sesión [predeterminado: .elsabro/state.json, si existe la carpeta]",
    ),
    (
        "Number of the event after which the fork goes on by itself [default: the newest one that may be]",
        "Número del evento tras el que la bifurcación sigue por su cuenta [predeterminado: el más nuevo que puede ser]",
    ),
    (
        "Of a pipeline: part of the input that later phases have: KEY=TEXT, KEY:=JSON or path=FOLDER; may be repeated",
        "De un proceso: parte de la entrada de las fases siguientes: CLAVE=TEXTO, CLAVE:=JSON o path=CARPETA; se puede repetir",
    ),
    (
        "Of a pipeline: file with the whole input that later phases have, as JSON",
        "De un proceso: archivo con la entrada completa de las fases siguientes, como JSON",
    ),
    (
        "Idempotency key: the same key, run, event, input and labels name the same new run",
        "Clave de idempotencia: la misma clave con la misma ejecución, evento, entrada y etiquetas nombra la misma ejecución nueva",
    ),
    ("Id of the question", "Id de la pregunta"),
    ("One of the question's options", "Una de las opciones de la pregunta"),
    (
        "The value of the answer, where the question asks for one: JSON, or `@FILE`, whose content is text unless its name ends in `.json`",
        "El valor de la respuesta, si la pregunta lo pide: JSON, o `@ARCHIVO`, cuyo contenido es texto salvo que su nombre termine en `.json`",
    ),
    (
        "Fail unless the question is still at this revision",
        "Fallar si la pregunta ya no está en esta revisión",
    ),
    (
        "Repeating a call with the same id has no further effect [default: a new id]",
        "Repetir una llamada con el mismo id no tiene más efecto [predeterminado: un id nuevo]",
    ),
    (
        "Fail unless this is the run's newest event",
        "Fallar si este no es el evento más nuevo de la ejecución",
    ),
    // agents.
    ("Names of agents [default: all of them]", "Nombres de agentes [predeterminado: todos]"),
    ("Newest runs that count", "Ejecuciones más nuevas que cuentan"),
    ("Names of agents", "Nombres de agentes"),
    ("Name of a command; may be repeated", "Nombre de un comando; se puede repetir"),
    ("Name of a resource; may be repeated", "Nombre de un recurso; se puede repetir"),
    // sessions.
    ("Name of the session", "Nombre de la sesión"),
    ("Sessions at most", "Máximo de sesiones"),
    ("Go on where the list before has ended", "Seguir donde terminó la lista anterior"),
    (
        "State file; its backup is `state.backup.json` beside it",
        "Archivo de estado; su copia de seguridad es `state.backup.json`, junto a él",
    ),
    ("Show what would change, and change nothing", "Mostrar qué cambiaría, sin cambiar nada"),
    ("Do not take the backup, even if it is valid", "No usar la copia de seguridad, aunque sea válida"),
    ("Begin with an empty state, whatever is there", "Empezar con un estado vacío, haya lo que haya"),
    // rebuild, backup, restore, verify.
    ("Report differences, and change nothing", "Informar de las diferencias, sin cambiar nada"),
    ("New folder of the backup", "Carpeta nueva de la copia de seguridad"),
    ("Folder of the backup", "Carpeta de la copia de seguridad"),
    (
        "Folder of a backup, or of a database [default: the data folder]",
        "Carpeta de una copia de seguridad o de una base de datos [predeterminado: la carpeta de datos]",
    ),
];

/// What possible values mean.
pub(super) const VALUES: Texts = &[
    // Languages say their own names.
    ("English", "English"),
    ("Español", "Español"),
    ("On a terminal, unless NO_COLOR is set", "En una terminal, salvo con NO_COLOR"),
    ("The request that a spec gets", "La solicitud que recibe un spec"),
    ("The answer of a spec", "La respuesta de un spec"),
    ("Actions of a browser", "Acciones de un navegador"),
    ("The state file of a project", "El archivo de estado de un proyecto"),
    ("Direct execution, step by step", "Ejecución directa, paso a paso"),
    (
        "A detailed plan, made anew where results depart from it",
        "Un plan detallado, con replanificación si los resultados se apartan de él",
    ),
    (
        "A plan that you approve, worked on without supervision",
        "Un plan aprobado por una persona, que se ejecuta sin supervisión",
    ),
];

/// Names of values, as they stand in `<…>`.
pub(super) const NAMES: Texts = &[
    ("LINES", "LÍNEAS"),
    ("PORT", "PUERTO"),
    ("ACTION", "ACCIÓN"),
    ("ADDRESS", "DIRECCIÓN"),
    ("ANSWER", "RESPUESTA"),
    ("BACKUP", "COPIA"),
    ("CHECKPOINT", "PUNTO"),
    ("CODE", "CÓDIGO"),
    ("COMMAND", "COMANDO"),
    ("DIR", "CARPETA"),
    ("DURATION", "DURACIÓN"),
    ("ENTRY", "ENTRADA"),
    ("FILE", "ARCHIVO"),
    ("FILTER", "FILTRO"),
    ("FOLDER", "CARPETA"),
    ("FORMAT", "FORMATO"),
    ("HOST", "HOST"),
    ("ID", "ID"),
    ("JSON", "JSON"),
    ("KEY", "CLAVE"),
    ("KEY=VALUE", "CLAVE=VALOR"),
    ("KIND", "CLASE"),
    ("LANGUAGE", "IDIOMA"),
    ("LEVEL", "NIVEL"),
    ("MODE", "MODO"),
    ("N", "N"),
    ("NAME", "NOMBRE"),
    ("NAME=VALUE", "NOMBRE=VALOR"),
    ("NUMBER", "NÚMERO"),
    ("OUTCOME", "RESULTADO"),
    ("PHASE", "FASE"),
    ("PIPELINE", "PROCESO"),
    ("QUERY", "CONSULTA"),
    ("QUESTION", "PREGUNTA"),
    ("REASON", "MOTIVO"),
    ("REQUEST", "SOLICITUD"),
    ("RUN", "EJECUCIÓN"),
    ("RUN[@SEQ]", "EJECUCIÓN[@NÚMERO]"),
    ("SEQ", "NÚMERO"),
    ("SESSION", "SESIÓN"),
    ("SEVERITY", "SEVERIDAD"),
    ("SHELL", "SHELL"),
    ("SIZE", "TAMAÑO"),
    ("STATE", "ESTADO"),
    ("STATUS", "ESTADO"),
    ("TASK", "TAREA"),
    ("TEXT", "TEXTO"),
    ("TOKEN", "TOKEN"),
    ("TYPE", "TIPO"),
    ("URL", "URL"),
    ("VALUE", "VALOR"),
    ("WHEN", "CUÁNDO"),
];
