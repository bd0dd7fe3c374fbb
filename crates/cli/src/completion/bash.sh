
# Names as the daemon knows them; all else as above.
_capataz_or_values() {
    local value values=() word=${COMP_LINE-} marks=${COMP_WORDBREAKS-} cut=
    # What bash takes for words of their own, such as what stands before a colon, stays where it is.
    word=${word:0:${COMP_POINT:-0}}
    word=${word##*[[:space:]]}
    marks=${marks//[!:=@]/}
    if [[ ${COMP_WORDS[COMP_CWORD]} != "$word" && -n $marks ]]; then
        cut=${word%"${word##*[$marks]}"}
    fi
    # An option is completed above; its value in one word with it, here.
    if [[ ${COMP_WORDS[COMP_CWORD]} != -* || ${COMP_WORDS[COMP_CWORD]} == -*=* ]]; then
        while IFS= read -r value; do
            value=${value%%$'\t'*}
            # An option with an empty value and the next word are parted as one word is.
            if [[ $value == "$word"* ]]; then
                values+=("$(printf '%q' "${value#"$cut"}")")
            fi
        done < <("$1" __values "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    fi
    if (( ${#values[@]} )); then
        COMPREPLY=("${values[@]}")
    else
        _capataz "$@"
    fi
}
