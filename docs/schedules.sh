#!/bin/sh
# schedules.sh PAGE [FOLDER]: a table of the schedules that PAGE draws, one for each `stepsim schedule OPTIONS --draw` in
# it. With FOLDER they are also drawn as pictures there, NAME.svg and NAME-memory.svg. stepsim is looked for in PATH.
[ $# -eq 1 ] || [ -d "$2" ] || { echo "usage: $0 PAGE [FOLDER]" >&2; exit 2; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
echo '| schedule | bubble | closed form | on the makespan | F 1, I 1.1, W 0.7 | memory | sends |'
echo '| --- | --- | --- | --- | --- | --- | --- |'
sed -n 's/^<!-- \$\$ stepsim schedule \(--schedule .*\) --draw -->$/\1/p' "$1" >"$work/schedules"
while read -r options; do
  # shellcheck disable=SC2086 # options are words
  stepsim schedule $options --json >"$work/uniform" && stepsim schedule $options --times F=1,I=1.1,W=0.7 --json >"$work/typical" ||
    exit 1
  if [ -n "$2" ]; then
    name=${options#--schedule } && name=${name%% *}
    # shellcheck disable=SC2086
    stepsim schedule $options --timeline "$2/$name.svg" --memory-plot "$2/$name-memory.svg" >/dev/null || exit 1
  fi
  # numbers by file and key; of a list the greatest
  awk -v options="$options" '
    FNR == 1 { n_files++ }
    { sub(",$", "", $NF) }
    $2 == ":" { key = $1; gsub("\"", "", key); if ($3 != "[") value[n_files, key] = $3 }
    NF == 1 && $1 + 0 > value[n_files, key] { value[n_files, key] = $1 + 0 }
    END { split(options, word, " "); name = word[2]
      form = (value[1, "closed_form_is_exact"] == "true" ? "" : "≥ ") sprintf("%.4g", value[1, "closed_form_bubble"])
      printf "| [%s](#%s) | %.4g | %s | %.4g | %.4g | %.4g | %d |\n", name, name, value[1, "bubble_time"],
        name == "auto" ? "–" : form, value[1, "makespan_bubble_time"], value[2, "bubble_time"], value[1, "peak_memory"],
        value[1, "sends"] }' "$work/uniform" "$work/typical"
done <"$work/schedules"
