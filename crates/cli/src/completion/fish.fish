
# Names as the daemon knows them.
function __fish_capataz_values
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    string match -q -- '-*' "$typed"
    and return
    command $words[1] __values $words[2..-1] "$typed" 2>/dev/null
end

# The value of an option: of no other word, so that the option is not offered where it does not belong.
complete -c capataz -k -x -n "string match -qr -- '^(-s|--session)\$' (commandline -opc)[-1]" -s s -l session -a '(__fish_capataz_values)'
complete -c capataz -k -x -n "string match -q -- --spec (commandline -opc)[-1]" -l spec -a '(__fish_capataz_values)'
complete -c capataz -k -x -n "string match -q -- --parent (commandline -opc)[-1]" -l parent -a '(__fish_capataz_values)'
complete -c capataz -k -f -n "set -g __fish_capataz_found (__fish_capataz_values); set -q __fish_capataz_found[1]" -a '$__fish_capataz_found'
