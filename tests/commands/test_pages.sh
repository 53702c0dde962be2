#!/bin/sh
# test_pages.sh STEPSIM: pages of docs with tables that commands make say what these print now, and each of their pictures
# is there; that of frameworks has all of them. The table of published steps is held against them where they lie beside
# the repository.
docs=$(cd "$(dirname "$0")/../../docs" && pwd)
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/../fixtures/tap.sh"
stepsim=$(absolute "$1")

print_page() {
  case $1 in
    figures) "$docs/figures.sh" "$stepsim" ;;
    validation) "$docs/fill.sh" "$stepsim" "$docs/$1.md" ${MEASURED:+measured} ;;
    *) "$docs/fill.sh" "$stepsim" "$docs/$1.md" ;;
  esac
}

MEASURED=${STEPSIM_SHARED:-$docs/../../shared}/measured
if [ -r "$MEASURED/measured.csv" ]; then MEASURED=$(cd "$MEASURED" && pwd); else MEASURED=; fi
export MEASURED
for page in figures schedules validation; do
  print_page "$page" >"$work/$page.md" 2>"$work/err"
  difference=$(diff "$docs/$page.md" "$work/$page.md" 2>&1)
  result $? "docs/$page.md is current (make $page fills it)" "$difference $(cat "$work/err")"
done
for page in plots validation; do
  missing=$(sed -n 's/^!\[.*\](\(.*\))$/\1/p' "$docs/$page.md" | while read -r picture; do
    [ -s "$docs/$picture" ] && grep -q "^[ <].*stepsim .* --\(output\|plot\|run-plot\) [^ ]*$(basename "$picture")" "$docs/$page.md" ||
      echo "$picture"
  done)
  [ -z "$missing" ] && grep -q '^!\[' "$docs/$page.md"
  result $? "pictures of docs/$page.md are there, and the commands that draw them" "missing: $missing"
done
shown=$(grep -c '^!\[' "$docs/plots.md")
[ "$shown" -eq "$(find "$docs/plots" -type f | wc -l)" ]
result $? "docs/plots.md shows every picture there is" "$shown shown"

# The worst rows of measured.csv are explained on the page of errors.
unknown=$(awk -F' *[|] *' '/^\| worst rows/ { on = 1; getline; next } on && !/^\|/ { exit } on { print $2 }' "$docs/validation.md" |
  while read -r id; do grep -qw -- "$id" "$docs/accuracy.md" || echo "$id"; done)
[ -z "$unknown" ] && grep -q '^| worst rows' "$docs/validation.md"
result $? "docs/accuracy.md explains the worst rows" "missing: $unknown"

# What a page holds between a command and its end is replaced, and nothing else.
mkdir -p "$work/pages/docs" || exit 99
printf 'Head\n\n<!-- $ echo one; pwd -->\nold\n<!-- end -->\n\n<!-- slow $ echo two -->\nkept\n<!-- end -->\n\n<!-- $$ command -v stepsim -->\n<!-- end -->\nTail\n' \
  >"$work/pages/docs/some.md"
folder=$(cd "$work/pages" && pwd)
printf 'Head\n\n<!-- $ echo one; pwd -->\n\none\n%s\n\n<!-- end -->\n\n<!-- slow $ echo two -->\nkept\n<!-- end -->\n\n<!-- $$ command -v stepsim -->\n\n```\n$ command -v stepsim\n%s\n```\n\n<!-- end -->\nTail\n' \
  "$folder" "$stepsim" >"$work/expected"
"$docs/fill.sh" "$stepsim" "$work/pages/docs/some.md" >"$work/filled" 2>"$work/err" && cmp "$work/filled" "$work/expected" &&
  cp "$work/filled" "$work/pages/docs/some.md" && "$docs/fill.sh" "$stepsim" "$work/pages/docs/some.md" | cmp - "$work/expected"
result $? "a page is filled, and filled again the same" "$(cat "$work/err" "$work/filled")"
"$docs/fill.sh" "$stepsim" "$work/pages/docs/some.md" slow | sed -n '/^<!-- slow/,/^<!-- end/p' | tr '\n' ' ' >"$work/filled"
grep -q '> *two *<' "$work/filled"
result $? "a group is filled when it is asked for" "$(cat "$work/filled")"
echo '<!-- $ false -->' >"$work/pages/docs/some.md"
! "$docs/fill.sh" "$stepsim" "$work/pages/docs/some.md" >"$work/filled" 2>"$work/err" && grep -q 'some.md: failed: false$' "$work/err"
result $? "a command that fails is named" "$(cat "$work/err")"

# The page of speeds is measured, so its numbers are not held against anything: its rows are.
grep -v '^#' "$docs/speed.txt" | awk -F'|' '{ print "| " $1 " | " $2 " |" }' >"$work/tasks"
sed -n 's/^\(| [^|]* | [^|]* |\) .* | `.*` |$/\1/p' "$docs/speed.md" | cmp - "$work/tasks"
result $? "docs/speed.md has the tasks of speed.txt (make speed writes it)" "$(cat "$work/tasks")"
! grep -v '^#' "$docs/speed.txt" | awk -F'|' 'NF != 6 || $3 !~ /^([<>]?[0-9.]+|[0-9.]+-[0-9.]+)$/ ||
  $4 !~ /^[MPO]($|[ ,])/ || $6 !~ /(^cpu| ms| numbers)$/' | grep .
result $? "every task of speed.txt has six cells, a time, who says so and how to read the one here" "$(cat "$docs/speed.txt")"

# Every file of a framework has its row, and every row its file.
(cd "$docs/../topologies/frameworks" && ls -- *.yaml) | sed 's/\.yaml$//' | sort >"$work/shipped"
sed -n '/^| file |/,/^$/s/^| \([a-z][^ |]*\) | .*/\1/p' "$docs/frameworks.md" | grep -vx file | sort >"$work/described"
diff "$work/shipped" "$work/described" >"$work/difference"
result $? "docs/frameworks.md has the shipped files of frameworks" "$(cat "$work/difference")"

# Every key that a cluster file and a GPU file may have, and what must be there in bold.
sources=$docs/../sim/machine/hardware
missing=$(sed -n 's/^    {"\([^"]*\)", FIELD_[A-Z0-9]*, \([A-Z]*\),.*/\1|\2/p' "$sources/gpu.c" "$sources/cluster.c" "$sources/failures.c" |
  while IFS='|' read -r key is_required; do
    mark="\`$key\`"
    [ "$is_required" = FALSE ] || mark="**$mark**"
    sed -n '/^## The keys/,$p' "$docs/clusters.md" | grep -qF -- "$mark" || echo "$mark"
  done)
[ -z "$missing" ]
result $? "docs/clusters.md has the keys of clusters and GPUs" "missing: $missing"

# What parts are worth, of a few rows.
mkdir "$work/measured" || exit 99
head -n 6 "$docs/plots-measured.csv" >"$work/measured/measured.csv"
sed -n '1p; 2s/[^,]*$//p' "$docs/plots-measured.csv" >"$work/measured/out_of_memory.csv"
PATH=$(dirname "$stepsim"):$PATH "$docs/parts.sh" "$work/measured" >"$work/parts" 2>"$work/err"
n_parts=$("$stepsim" validate --help | sed -n '/^--without takes/,/^$/p' | grep -c '^  ')
awk -F'|' -v n="$n_parts" '/^\|/ { rows++; if (NF != n + 4) exit 1 } /^\* \*\*/ { meanings++ }
  END { exit !(rows >= 4 && meanings == n) }' "$work/parts"
result $? "the table of parts has a column for each, and says what it is" "$(cat "$work/err" "$work/parts")"
finish
