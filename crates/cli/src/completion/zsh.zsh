# Names as the daemon knows them; all else as above.
_capataz() {
    local line
    local -a values
    # An option is completed above; its value in one word with it, here.
    if [[ $words[CURRENT] != -* || $words[CURRENT] == -*=* ]]; then
        for line in ${(f)"$(${(Q)words[1]} __values ${(Q)words[2,CURRENT-1]} "${(Q)PREFIX}" 2>/dev/null)"}; do
            # What stands before a colon is the value.
            values+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
        done
    fi
    if (( $#values )); then
        _describe -V 'value' values
    else
        _capataz_static "$@"
    fi
}

