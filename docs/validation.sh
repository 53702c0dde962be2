#!/bin/sh
# validation.sh STEPSIM MEASURED [FOLDER]: writes FOLDER/validation.md, validation.svg and validation-parts.txt (default:
# docs). MEASURED is a folder with measured.csv and out_of_memory.csv, in the columns of stepsim validate. The page is
# docs/validation.md.in with {{…}} filled in:
#
#     summary errors memory worst   from one run of stepsim validate
#     parts   legend               from one more run for each part of the model that --without removes
#     collected                    ../measurements/published.csv predicted now, beside validation-collected.txt
#     collectives                  collectives.sh, of ../measurements/collectives.csv
#     nanotron                     ../measurements/nanotron.csv predicted now, by GPUs
#     tests                        ../measurements/functional_tests.csv predicted now
#     passes                       passes.sh, of ../measurements/passes.csv
#     peers                        validation-peers.txt, beside the first run
#     cpu                          validation-cpu.txt, which make validation-cpu measures on this machine
#
# validation-rows.txt explains the worst rows; one that it does not explain is named on standard error. --text prints
# the page alone, and takes the table of parts, except its column of the whole model, from validation-parts.txt: that
# takes seconds instead of minutes.
export LC_ALL=C # decimal points in awk's numbers
[ $# -ge 2 ] || { echo "usage: $0 STEPSIM MEASURED [FOLDER | --text]" >&2; exit 2; }
stepsim=$1
measured=$2/measured.csv
out_of_memory=$2/out_of_memory.csv
here=$(cd "$(dirname "$0")" && pwd)
folder=${3:-$here}
for file in "$measured" "$out_of_memory"; do
  [ -r "$file" ] || { echo "$0: cannot read $file: measured steps are not part of this repository" >&2; exit 2; }
done
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

validate() {
  "$stepsim" validate "$measured" "$out_of_memory" "$@"
}

# Rows of the first table that --markdown wrote to a file, without frame: name|rows|predicted|failed|…|out of memory
groups() {
  awk '/^\| worst rows/ { exit } /^\|/ && n++ > 1 { gsub(/^\| | \|$/, ""); gsub(/ \| /, "|"); print }' "$1"
}

errors() {
  echo '| source | rows | timed | MAPE % | median % | p90 % | bias % | baseline MAPE % |'
  echo '| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |'
  groups "$work/all.md" | awk -F'|' -v timed="$work/timed" '
    BEGIN { while ((getline line < timed) > 0) { split(line, cell, "|"); n[cell[1]] = cell[2] } }
    { printf "| %s | %s | %s | %s | %s | %s | %s | %s |\n", $1, $2, n[$1], $5, $6, $7, $8, $9 }'
}

# source|timed rows, from the objects "groups" : {source : {…}} of the JSON; the one outside them counts all rows
timed() { # JSON
  awk '/^    "/ { gsub(/^ *"|" : \{$/, ""); name = $0 }
    /^  "timed"/ { sub(",", "", $3); print "all|" $3 }
    /^      "timed"/ { sub(",", "", $3); print name "|" $3 }' "$1"
}

memory() {
  echo '| source | measured peaks: MAPE % | ran: said to fit | ran out of memory: said not to fit |'
  echo '| --- | ---: | ---: | ---: |'
  groups "$work/all.md" | awk -F'|' '{ printf "| %s | %s | %s | %s |\n", $1, $10, $11, $12 }'
}

worst() {
  echo '| row | what ran | predicted (s) | measured (s) | error % | why |'
  echo '| --- | --- | ---: | ---: | ---: | --- |'
  awk -v why="$here/validation-rows.txt" -v me="$0" '
    BEGIN { while ((getline line < why) > 0) if (line !~ /^#/ && (at = index(line, " ")) > 0)
              known[substr(line, 1, at - 1)] = substr(line, at + 1) }
    /^\| worst rows/ { is_worst = 1; getline; next }
    is_worst && /^\|/ {
      if (!($2 in known)) {
        known[$2] = "not explained yet"
        print me ": " why " has no line for " $2 ", one of the worst rows" | "cat >&2"
      }
      print $0 " " known[$2] " |"
    }' "$work/all.md"
}

# Errors of the rows that nothing was fitted to: when they were collected, and now
collected() {
  "$stepsim" validate "$here/../measurements/published.csv" --markdown "$work/collected.md" >/dev/null || exit 1
  echo '| source | rows | at first: MAPE % | median % | p90 % | bias % | now: MAPE % | median % | p90 % | bias % |'
  echo '| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |'
  groups "$work/collected.md" | awk -F'|' -v first="$here/validation-collected.txt" '
    BEGIN { while ((getline line < first) > 0) if (line !~ /^#/ && split(line, cell, "|") == 6)
              was[cell[1], cell[2]] = cell[3] " | " cell[4] " | " cell[5] " | " cell[6] }
    { before = ($1, $2) in was ? was[$1, $2] : "- | - | - | -"
      printf "| %s | %s | %s | %s | %s | %s | %s |\n", $1, $2, before, $5, $6, $7, $8 }'
}

# Errors of other simulators, beside those of stepsim on the source's rows in measured.csv
peers() {
  echo '| source | stepsim: MAPE % | rows | other simulator | its MAPE % | rows | who says so |'
  echo '| --- | ---: | ---: | --- | ---: | --- | --- |'
  groups "$work/all.md" | awk -F'|' -v timed="$work/timed" '
    BEGIN { while ((getline line < timed) > 0) { split(line, cell, "|"); n[cell[1]] = cell[2] } }
    FILENAME == "-" { now[$1] = $5; next }
    !/^#/ { printf "| %s | %s | %s | %s | %s | %s | %s |\n", $1, now[$1], n[$1], $2, $3, $4, $5 }' - "$here/validation-peers.txt"
}

collectives() {
  "$here/collectives.sh" "$stepsim"
}

passes() {
  "$here/passes.sh" "$stepsim"
}

nanotron() {
  "$stepsim" validate "$here/../measurements/nanotron.csv" --by gpus --markdown "$work/nanotron.md" --json \
    >"$work/nanotron.json" || exit 1
  timed "$work/nanotron.json" >"$work/nanotron.timed"
  echo '| GPUs | rows | timed | MAPE % | median % | p90 % | bias % | ran: said to fit | ran out of memory: said not to fit |'
  echo '| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |'
  groups "$work/nanotron.md" | awk -F'|' -v timed="$work/nanotron.timed" '
    BEGIN { while ((getline line < timed) > 0) { split(line, cell, "|"); n[cell[1]] = cell[2] } }
    { printf "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", $1, $2, n[$1], $5, $6, $7, $8, $11, $12 }'
}

tests() {
  "$stepsim" validate "$here/../measurements/functional_tests.csv" --markdown "$work/tests.md" >/dev/null || exit 1
  echo '| source | rows | MAPE % | median % | p90 % | bias % |'
  echo '| --- | ---: | ---: | ---: | ---: | ---: |'
  groups "$work/tests.md" | awk -F'|' '$1 != "all" { printf "| %s | %s | %s | %s | %s | %s |\n", $1, $2, $5, $6, $7, $8 }'
}

summary() {
  awk -F' : ' '/^  "(rows|timed|predicted)"/ || /^  "(mape|median_ape|p90_ape|baseline_mape)"/ {
      key = $1; gsub(/[ "]/, "", key); sub(/,$/, "", $2); value[key] = $2 }
    END { printf "Of %d rows %d are predicted. Of the %d with a step time the mean error is %.1f %%, the median %.1f %%,\n" \
                 "the 90th percentile %.1f %%; the baseline is off by %.1f %%.\n", value["rows"], value["predicted"],
                 value["timed"], 100 * value["mape"], 100 * value["median_ape"], 100 * value["p90_ape"],
                 100 * value["baseline_mape"] }' "$work/all.json"
}

parts() { # names and meanings, as --help lists them
  "$stepsim" validate --help | awk '/^--without takes/ { on = 1; next } on && !/^  / { exit } on'
}

legend() {
  parts | awk '{ name = $1; sub(/^ *[^ ]+ +/, ""); printf "* **%s**: %s\n", name, $0 }'
}

# MAPE by source: a column for the whole model, then one without each part; · where the part makes no difference
parts_table() {
  groups "$work/all.md" | cut -d'|' -f1,5 >"$work/table"
  head='| source | all parts |'
  rule='| --- | ---: |'
  for part in $(parts | awk '{ print $1 }'); do
    validate --without "$part" --markdown "$work/part.md" >/dev/null || exit 1
    groups "$work/part.md" | cut -d'|' -f5 | paste -d'|' "$work/table" - >"$work/longer" || exit 1
    mv "$work/longer" "$work/table"
    head="$head $part |"
    rule="$rule ---: |"
  done
  echo "$head"
  echo "$rule"
  awk -F'|' '{ printf "| %s | %s |", $1, $2; for (i = 3; i <= NF; i++) printf " %s |", $i == $2 ? "·" : $i; print "" }' \
    "$work/table"
}

# the table as it was last written, with its second column recomputed
parts_again() {
  groups "$work/all.md" | awk -F'|' '
    FILENAME == "-" { now[$1] = $5; next }
    FNR > 2 { name = $2; gsub(/^ | $/, "", name); $3 = " " now[name] " " }
    { for (i = 1; i < NF; i++) printf "%s|", $i; print "" }' - "$here/validation-parts.txt"
}

# Rounds points to whole pixels, draws coinciding points of a series once, and sets the colour once for a run of points.
thin() {
  awk -F"'" -v use="^[ \t]*<use xlink:href='#gpPt[0-9]*' transform='translate[^']*' color='[^']*'/>$" '
    $0 ~ use {
      split($4, at, /[(,) ]+/); point = sprintf("%s %.0f %.0f %s", $2, at[2], at[3], $6)
      if ($6 != colour) { if (colour != "") print "</g>"; printf "<g color=\047%s\047>\n", $6; colour = $6 }
      if (!seen[point]++)
        printf "<use xlink:href=\047%s\047 transform=\047translate(%.0f,%.0f) %s\047/>\n", $2, at[2], at[3],
          substr($4, index($4, "scale"))
      next
    }
    { if (colour != "") print "</g>"; colour = ""; print }' "$1"
}

page() {
  for name in summary errors peers collected nanotron tests passes collectives memory worst legend; do "$name" >"$work/$name" || exit 1; done
  cp "$here/validation-cpu.txt" "$work/cpu" || exit 1
  awk -v work="$work" '/^\{\{[a-z]+\}\}$/ {
      name = work "/" substr($0, 3, length($0) - 4)
      while ((is_read = (getline line < name)) > 0) print line
      if (is_read < 0) { print "no text for " $0 | "cat >&2"; exit 1 }
      next
    } { print }' "$here/validation.md.in"
}

if [ "$folder" = --text ]; then
  validate --markdown "$work/all.md" --json >"$work/all.json" || exit 1
  timed "$work/all.json" >"$work/timed"
  parts_again >"$work/parts"
  page
  exit
fi
validate --markdown "$work/all.md" --plot "$work/validation.svg" --json >"$work/all.json" || exit 1
timed "$work/all.json" >"$work/timed"
parts_table >"$work/parts" || exit 1
page >"$work/validation.md" || exit 1
thin "$work/validation.svg" >"$folder/validation.svg" && cp "$work/parts" "$folder/validation-parts.txt" &&
  cp "$work/validation.md" "$folder/validation.md" && echo "Written: $folder/validation.md"
