#!/bin/sh
# parts.sh FOLDER: MAPE in % of FOLDER's measured.csv and out_of_memory.csv by source, with all parts of the model and
# without each that `stepsim validate --without` takes, as a Markdown table (· where it makes no difference), and what the
# parts are.
[ $# -eq 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

errors() { # source|MAPE
  stepsim validate "$measured" "$out_of_memory" --markdown - "$@" |
    awk -F' *[|] *' '/^\| worst rows/ { exit } /^\|/ && n++ > 1 { print $2 "|" $6 }'
}

measured=$1/measured.csv
out_of_memory=$1/out_of_memory.csv
stepsim validate --help | awk '/^--without takes/ { on = 1; next } on && !/^  / { exit } on' >"$work/parts"
errors >"$work/table" || exit 1
head='| source | all parts |'
rule='| --- | ---: |'
for part in $(awk '{ print $1 }' "$work/parts"); do
  errors --without "$part" | cut -d'|' -f2 | paste -d'|' "$work/table" - >"$work/longer" || exit 1
  mv "$work/longer" "$work/table"
  head="$head $part |"
  rule="$rule ---: |"
done
echo "$head"
echo "$rule"
awk -F'|' '{ printf "| %s | %s |", $1, $2; for (i = 3; i <= NF; i++) printf " %s |", $i == $2 ? "·" : $i; print "" }' \
  "$work/table"
echo
awk '{ name = $1; sub(/^ *[^ ]+ +/, ""); printf "* **%s**: %s\n", name, $0 }' "$work/parts"
