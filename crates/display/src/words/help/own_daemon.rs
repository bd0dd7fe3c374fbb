//! `init`, `status`, `stop` and `--local`, in Spanish.

use super::Texts;

pub(super) const TEXTS: Texts = &[
    (
        "Write a small folder with a crew and a plan that work",
        "Escribir una carpeta pequeña con una cuadrilla y un plan que funcionan",
    ),
    (
        "The folder gets capataz.toml, plan.toml and the program of an agent. Where one of them is there already, nothing is written.",
        "La carpeta recibe capataz.toml, plan.toml y el programa de un agente. Si alguno ya existe, no se escribe nada.",
    ),
    (
        "Tell how the daemon of a data folder is: where it listens, what runs, which agents it has",
        "Mostrar cómo está el daemon de una carpeta de datos: dónde escucha, qué está en marcha, qué agentes tiene",
    ),
    (
        "Have the daemon of a data folder drain and end",
        "Hacer que el daemon de una carpeta de datos pare y termine",
    ),
    ("Folder to write into; it is made if it is not there", "Carpeta donde escribir; se crea si no existe"),
    (
        "Start a daemon inside this command, or use the one that has the data folder of the configuration",
        "Iniciar un daemon dentro de este comando, o usar el que tiene la carpeta de datos de la configuración",
    ),
    (
        "Configuration of `--local` [default: capataz.toml of the working folder, if it exists]",
        "Configuración de `--local` [predeterminado: capataz.toml de la carpeta de trabajo, si existe]",
    ),
    (
        "How long to wait for its end, such as 90s or 10m [default: until it has ended]",
        "Cuánto esperar a que termine, como 90s o 10m [predeterminado: hasta que termine]",
    ),
    (
        "Programs, secrets, folders and specs that the settings name and that are not as a daemon needs them are told all at once, with what to do (exit code 2).",
        "Los programas, secretos, carpetas y specs que nombran los ajustes y que no están como los necesita un daemon se muestran todos a la vez, con qué hacer (código de salida 2).",
    ),
    (
        "Print the manual's page of the program, or write a page for each command",
        "Mostrar la página del manual del programa, o escribir una página por cada comando",
    ),
    ("Folder of the pages; it is made if it is not there", "Carpeta de las páginas; se crea si no existe"),
    (
        "Pages of the folder that have the same names are written again.",
        "Las páginas de la carpeta con los mismos nombres se escriben de nuevo.",
    ),
    ("in the working folder", "en la carpeta de trabajo"),
    ("write a folder with a crew and a plan", "escribir una carpeta con una cuadrilla y un plan"),
    ("needs no daemon: see capataz init", "no necesita daemon: véase capataz init"),
    ("the daemon of the data folder of capataz.toml", "el daemon de la carpeta de datos de capataz.toml"),
    (
        "Nothing is ever overwritten. Exit code 1 if nothing was written.",
        "Nunca se sobrescribe nada. Código de salida 1 si no se escribió nada.",
    ),
    ("Exit code 3 if there is no daemon.", "Código de salida 3 si no hay daemon."),
    (
        "The daemon begins nothing more, waits for running tasks as long as its drain_timeout says, and ends.",
        "El daemon no empieza nada más, espera a las tareas en marcha tanto como dice su drain_timeout, y termina.",
    ),
    (
        "Exit code 3 if no daemon has the data folder, 4 if it has not ended by the timeout.",
        "Código de salida 3 si ningún daemon tiene la carpeta de datos, 4 si no ha terminado a tiempo.",
    ),
];
