#!/bin/sh
# schedules.sh STEPSIM [FOLDER]: writes FOLDER/schedules.md and FOLDER/schedules/*.svg (default: docs). Every picture
# and every number of the table comes from the command that the page shows. --text prints the page alone.
export LC_ALL=C # decimal points in awk's numbers
[ $# -ge 1 ] || { echo "usage: $0 STEPSIM [FOLDER | --text]" >&2; exit 2; }
stepsim=$1
folder=${2:-$(dirname "$0")}
p=8
m=16
schedules='gpipe 1f1b interleaved looped-bfs zb-h1 zb-h2 zb-v v-half v-min dualpipe dualpipe-v auto'

options_of() {
  case $1 in
    interleaved | looped-bfs) echo "--schedule $1 --chunks 2 --pp $p --micro-batches $m" ;;
    auto) echo "--schedule auto --memory-cap 8 --pp $p --micro-batches $m" ;;
    *) echo "--schedule $1 --pp $p --micro-batches $m" ;;
  esac
}

# NAME TIMES KEY: a number of the JSON, with four digits; the greatest of a list
value_of() {
  # shellcheck disable=SC2046 # options are words
  "$stepsim" schedule $(options_of "$1") --times "$2" --json | awk -v key="\"$3\"" '
    $1 == key { sub(",", "", $3); if ($3 == "[") { is_list = 1; most = 0; next } printf "%.4g", $3; exit }
    is_list && /\]/ { printf "%.4g", most; exit }
    is_list { sub(",", "", $1); if ($1 + 0 > most) most = $1 + 0 }'
}

closed_form_of() {
  form=$(value_of "$1" F=1,I=1,W=1 closed_form_bubble)
  # shellcheck disable=SC2046
  exact=$("$stepsim" schedule $(options_of "$1") --json | grep -c '"closed_form_is_exact" : true')
  if [ "$1" = auto ]; then echo '–'; elif [ "$exact" = 1 ]; then echo "$form"; else echo "≥ $form"; fi
}

table_row() {
  printf '| [%s](#%s) | %s | %s | %s | %s | %s | %s |\n' "$1" "$1" "$(value_of "$1" F=1,I=1,W=1 bubble_time)" \
    "$(closed_form_of "$1")" "$(value_of "$1" F=1,I=1,W=1 makespan_bubble_time)" \
    "$(value_of "$1" F=1,I=1.1,W=0.7 bubble_time)" "$(value_of "$1" F=1,I=1,W=1 peak_memory)" \
    "$(value_of "$1" F=1,I=1,W=1 sends)"
}

section() {
  printf '\n## %s\n\n%s\n\n' "$1" "$(awk -v name="$1" '$1 == name { sub(/^[^ ]+ +/, ""); print }' "$(dirname "$0")/schedules.txt")"
  printf '![%s](schedules/%s.svg)\n\n![memory of %s](schedules/%s-memory.svg)\n\n' "$1" "$1" "$1" "$1"
  printf '    stepsim schedule %s --timeline %s.svg --memory-plot %s-memory.svg\n' "$(options_of "$1")" "$1" "$1"
}

page() {
  sed "s/{{p}}/$p/g; s/{{m}}/$m/g" "$(dirname "$0")/schedules.md.in"
  for name in $schedules; do table_row "$name"; done
  for name in $schedules; do section "$name"; done
}

if [ "$folder" = --text ]; then
  page
  exit
fi
mkdir -p "$folder/schedules" || exit 1
for name in $schedules; do
  # shellcheck disable=SC2046
  "$stepsim" schedule $(options_of "$name") --timeline "$folder/schedules/$name.svg" \
    --memory-plot "$folder/schedules/$name-memory.svg" > /dev/null || exit 1
done
page > "$folder/schedules.md"
