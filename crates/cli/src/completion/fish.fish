
# Names as the daemon knows them.
function __fish_capataz_values
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    # An option is completed above; its value in one word with it, here, and fish puts the option before it.
    set -l option (string match -r -- '^-[^=]*=' "$typed")
    string match -q -- '-*' "$typed"
    and not set -q option[1]
    and return
    command $words[1] __values $words[2..-1] "$typed" 2>/dev/null | string replace -- "$option" ''
end

# Whether the value of one of these options is typed: as the next word, or in one word with it.
function __fish_capataz_is_of
    set -l typed (commandline -ct)
    contains -- (commandline -opc)[-1] $argv
    and return 0
    for option in $argv
        string match -q -- "$option=*" "$typed"
        and return 0
    end
    return 1
end

# The value of an option: of no other word, so that the option is not offered where it does not belong.
complete -c capataz -k -x -n "__fish_capataz_is_of -s --session" -s s -l session -a '(__fish_capataz_values)'
complete -c capataz -k -x -n "__fish_capataz_is_of --spec" -l spec -a '(__fish_capataz_values)'
complete -c capataz -k -x -n "__fish_capataz_is_of --parent" -l parent -a '(__fish_capataz_values)'
complete -c capataz -k -f -n "set -g __fish_capataz_found (__fish_capataz_values); set -q __fish_capataz_found[1]" -a '$__fish_capataz_found'
