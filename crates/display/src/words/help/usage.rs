//! What clap writes by itself, in both languages: headings of the help, and what is wrong in a command line.

use super::Texts;

texts! {
    /// The words around the texts of `--help`.
    Usage {
        usage: "Usage:" / "Uso:",
        options_mark: "[OPTIONS]" / "[OPCIONES]",
        command: "COMMAND" / "COMANDO",
        commands: "Commands" / "Comandos",
        arguments: "Arguments" / "Argumentos",
        options: "Options" / "Opciones",
        variable: "[env: {0}={1}]" / "[entorno: {0}={1}]",
        default: "[default: {0}]" / "[predeterminado: {0}]",
        possible_values: "[possible values: {0}]" / "[valores posibles: {0}]",
        possible_values_listed: "Possible values:" / "Valores posibles:",
        help: "Print help (see more with '--help')" / "Mostrar la ayuda (más con '--help')",
        long_help: "Print help (see a summary with '-h')" / "Mostrar la ayuda (un resumen con '-h')",
        version: "Print version" / "Mostrar la versión",
    }

    /// What is wrong in a command line. In English, it is what clap says.
    Wrong {
        error: "error:" / "error:",
        tip: "tip:" / "sugerencia:",
        more: "For more information, try '{0}'." / "Más información con '{0}'.",
        unknown_argument: "unexpected argument '{0}' found" / "argumento inesperado '{0}'",
        unknown_command: "unrecognized subcommand '{0}'" / "subcomando desconocido '{0}'",
        twice: "the argument '{0}' cannot be used multiple times" / "el argumento '{0}' no se puede repetir",
        not_with: "the argument '{0}' cannot be used with" / "el argumento '{0}' no se puede usar con",
        command_not_with: "the subcommand '{0}' cannot be used with"
            / "el subcomando '{0}' no se puede usar con",
        others: "one or more of the other specified arguments" / "otros de los argumentos dados",
        not_together: "an argument cannot be used with one or more of the other specified arguments"
            / "un argumento no se puede usar con otros de los argumentos dados",
        no_equals: "equal sign is needed when assigning values to '{0}'"
            / "para dar un valor a '{0}' hace falta un signo igual",
        no_value: "a value is required for '{0}' but none was supplied" / "falta un valor para '{0}'",
        invalid_value: "invalid value '{0}' for '{1}'" / "valor inválido '{0}' para '{1}'",
        possible_values: "[possible values: {0}]" / "[valores posibles: {0}]",
        missing: "the following required arguments were not provided:" / "faltan argumentos obligatorios:",
        no_command: "'{0}' requires a subcommand but one was not provided" / "falta un subcomando de '{0}'",
        commands: "[subcommands: {0}]" / "[subcomandos: {0}]",
        too_many_values: "unexpected value '{0}' for '{1}' found; no more were expected"
            / "sobra el valor '{0}' para '{1}'; no se esperaban más",
        too_few_values_one: "{0} values required by '{1}'; only {2} was provided"
            / "'{1}' necesita {0} valores; solo se dio {2}",
        too_few_values_many: "{0} values required by '{1}'; only {2} were provided"
            / "'{1}' necesita {0} valores; solo se dieron {2}",
        wrong_number_one: "{0} values required for '{1}' but {2} was provided"
            / "'{1}' necesita {0} valores, y se dio {2}",
        wrong_number_many: "{0} values required for '{1}' but {2} were provided"
            / "'{1}' necesita {0} valores, y se dieron {2}",
        not_utf8: "invalid UTF-8 was detected in one or more arguments" / "hay argumentos que no son UTF-8 válido",
        similar_command: "a similar subcommand exists: {0}" / "existe un subcomando parecido: {0}",
        similar_commands: "some similar subcommands exist: {0}" / "existen subcomandos parecidos: {0}",
        similar_argument: "a similar argument exists: {0}" / "existe un argumento parecido: {0}",
        similar_arguments: "some similar arguments exist: {0}" / "existen argumentos parecidos: {0}",
        similar_value: "a similar value exists: {0}" / "existe un valor parecido: {0}",
        similar_values: "some similar values exist: {0}" / "existen valores parecidos: {0}",
        reload: "a daemon reads its configuration and its specs again by itself when a file of them changes; to have it done at once, send it SIGHUP: 'capataz status' names its process"
            / "un daemon vuelve a leer su configuración y sus specs por sí mismo cuando cambia un archivo de ellas; para que lo haga ya, envíele SIGHUP: 'capataz status' nombra su proceso",
        addr_of_local: "--local uses the daemon of the data folder, or starts one; --addr names another one: leave one of them out"
            / "--local usa el daemon de la carpeta de datos, o inicia uno; --addr nombra otro: quite uno de los dos",
        detach_of_local: "--detach leaves the run to a daemon, and that of --local ends with this command; start one that stays: capataz serve"
            / "--detach deja la ejecución a un daemon, y el de --local termina con este comando; inicie uno que siga: capataz serve",
        addr_of_serve: "--addr names a daemon to talk to; a daemon is told where to listen by --listen"
            / "--addr nombra un daemon con el que hablar; dónde escucha un daemon se dice con --listen",
        addr_empty: "--addr is empty: it takes an address such as http://127.0.0.1:7411"
            / "--addr está vacío: admite una dirección como http://127.0.0.1:7411",
        addr_of_none: "--addr names a daemon to talk to, and this command talks to none: leave it out"
            / "--addr nombra un daemon con el que hablar, y este comando no habla con ninguno: quítelo",
    }
}

/// What clap proposes to write instead.
pub(super) const TIPS: Texts = &[
    ("to pass '{0}' as a value, use '{1}'", "para dar '{0}' como valor, use '{1}'"),
    (
        "subcommand '{0}' exists; to use it, remove the '{1}' before it",
        "existe el subcomando '{0}'; para usarlo, quite el '{1}' que va delante",
    ),
    ("'{0}' exists", "existe '{0}'"),
];

/// Why values of arguments are refused (crates/cli/src/args, clap, numbers of the standard library).
pub(super) const VALUE_ERRORS: Texts = &[
    ("a label is KEY=VALUE", "una etiqueta es CLAVE=VALOR"),
    ("a variable is NAME=VALUE", "una variable es NOMBRE=VALOR"),
    (
        "a name has 1 to 128 letters, digits, `.`, `_`, `-`",
        "un nombre tiene de 1 a 128 letras, dígitos, `.`, `_`, `-`",
    ),
    (
        "a JSON object is needed, such as {\"topics\": [\"sea\"]}",
        "hace falta un objeto JSON, como {\"topics\": [\"sea\"]}",
    ),
    (
        "a size is a number of bytes, or a number with KB, MB or GB",
        "un tamaño es un número de bytes, o un número con KB, MB o GB",
    ),
    ("invalid digit found in string", "tiene algo que no es un dígito"),
    ("cannot parse integer from empty string", "falta el número"),
    ("number too large to fit in target type", "el número es demasiado grande"),
    ("number too small to fit in target type", "el número es demasiado pequeño"),
    ("invalid float literal", "no es un número"),
    ("cannot parse float from empty string", "falta el número"),
];

pub(super) const VALUE_ERROR_PATTERNS: Texts = &[
    ("{0} is not in {1}", "{0} no está en {1}"),
    ("unknown value {0}", "valor desconocido {0}"),
    (
        "{0} is not the number of an event: a whole number from 1",
        "{0} no es el número de un evento: un número entero desde 1",
    ),
    ("no state; the states are {0}", "no es un estado; los estados son {0}"),
];
