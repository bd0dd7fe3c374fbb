
# Runs, tasks and agents as the daemon knows them.
function __fish_capataz_values
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    string match -q -- '-*' "$typed"
    and return
    command $words[1] __values $words[2..-1] "$typed" 2>/dev/null
end

complete -c capataz -k -f -n "set -g __fish_capataz_found (__fish_capataz_values); set -q __fish_capataz_found[1]" -a '$__fish_capataz_found'
