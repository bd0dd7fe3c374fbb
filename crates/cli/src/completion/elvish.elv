
# Names as the daemon knows them; all else as above.
var static = $edit:completion:arg-completer[capataz]
set edit:completion:arg-completer[capataz] = {|@words|
    var lines = []
    # An option is completed above; its value in one word with it, here.
    if (and (> (count $words) 1) (or (not (str:has-prefix $words[-1] '-')) (str:contains $words[-1] '='))) {
        try {
            set lines = [((external $words[0]) __values (all $words[1..]) 2>/dev/null | from-lines)]
        } catch e {
            set lines = []
        }
    }
    if (== (count $lines) 0) {
        $static $@words
    } else {
        for line $lines {
            var value about = (str:split &max=2 "\t" $line)
            edit:complex-candidate $value &display=$value'  '$about
        }
    }
}
