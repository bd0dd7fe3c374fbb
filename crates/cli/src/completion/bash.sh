
# Runs, tasks and agents as the daemon knows them; all else as above.
_capataz_or_values() {
    local value values=()
    if [[ ${COMP_WORDS[COMP_CWORD]} != -* ]]; then
        while IFS= read -r value; do
            values+=("$(printf '%q' "${value%%$'\t'*}")")
        done < <("$1" __values "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    fi
    if (( ${#values[@]} )); then
        COMPREPLY=("${values[@]}")
    else
        _capataz "$@"
    fi
}
