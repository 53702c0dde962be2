#!/bin/sh
# test_pages.sh STEPSIM: pages of docs that scripts write say what their commands print now, and each of their pictures is
# there; that of frameworks has all of them. The page of published steps is held against them where they lie beside the
# repository.
docs=$(dirname "$0")/../../docs
measured=${STEPSIM_SHARED:-$docs/../../shared}/measured
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
stepsim=$1
. "$(dirname "$0")/../fixtures/tap.sh"

print_page() {
  case $1 in
    validation) "$docs/$1.sh" "$stepsim" "$measured" --text ;;
    figures) "$docs/$1.sh" "$stepsim" ;;
    *) "$docs/$1.sh" "$stepsim" --text ;;
  esac
}

for page in figures schedules plots validation; do
  if [ "$page" = validation ] && [ ! -r "$measured/measured.csv" ]; then
    n=$((n + 1))
    echo "ok $n - docs/$page.md is current # SKIP no published steps beside the repository"
  else
    print_page "$page" >"$work/$page.md" 2>"$work/err"
    difference=$(diff "$docs/$page.md" "$work/$page.md" 2>&1)
    result $? "docs/$page.md is current (make $page writes it)" "$difference"
  fi
  [ "$page" != figures ] || continue # has tables alone
  missing=$(sed -n 's/^!\[.*\](\(.*\))$/\1/p' "$docs/$page.md" | while read -r picture; do
    [ -s "$docs/$picture" ] || echo "$picture"
  done)
  [ -z "$missing" ] && grep -q '^!\[' "$docs/$page.md"
  result $? "pictures of docs/$page.md are there" "missing: $missing"
done

# The page of speeds is measured, so its numbers are not held against anything: its rows are.
grep -v '^#' "$docs/speed.txt" | awk -F'|' '{ print "| " $1 " | " $2 " |" }' >"$work/tasks"
sed -n 's/^\(| [^|]* | [^|]* |\) .* | `.*` |$/\1/p' "$docs/speed.md" | cmp - "$work/tasks"
result $? "docs/speed.md has the tasks of speed.txt (make speed writes it)" "$(cat "$work/tasks")"
! grep -v '^#' "$docs/speed.txt" | awk -F'|' 'NF != 6 || $3 !~ /^([<>]?[0-9.]+|[0-9.]+-[0-9.]+)$/ ||
  $4 !~ /^[MPO]($|[ ,])/ || $6 !~ /(^cpu| ms| known)$/' | grep .
result $? "every task of speed.txt has six cells, a time, who says so and how to read the one here" "$(cat "$docs/speed.txt")"

# Every file of a framework has its row, and every row its file.
(cd "$docs/../topologies/frameworks" && ls -- *.yaml) | sed 's/\.yaml$//' | sort >"$work/shipped"
sed -n '/^| file |/,/^$/s/^| \([a-z][^ |]*\) | .*/\1/p' "$docs/frameworks.md" | grep -vx file | sort >"$work/described"
diff "$work/shipped" "$work/described" >"$work/difference"
result $? "docs/frameworks.md has the shipped files of frameworks" "$(cat "$work/difference")"

# Every key that a cluster file and a GPU file may have, and what must be there in bold.
sources=$docs/../sim/describe/hardware
missing=$(sed -n 's/^    {"\([^"]*\)", FIELD_[A-Z0-9]*, \([A-Z]*\),.*/\1|\2/p' "$sources/gpu.c" "$sources/cluster.c" |
  while IFS='|' read -r key is_required; do
    mark="\`$key\`"
    [ "$is_required" = FALSE ] || mark="**$mark**"
    sed -n '/^## The keys/,$p' "$docs/clusters.md" | grep -qF -- "$mark" || echo "$mark"
  done)
[ -z "$missing" ]
result $? "docs/clusters.md has the keys of clusters and GPUs" "missing: $missing"

# The page of published steps made of a few of them: the worst is explained, the others are asked for.
mkdir "$work/docs" "$work/measured" "$work/measurements" || exit 99
cp "$docs/validation.sh" "$docs/collectives.sh" "$docs/passes.sh" "$docs/validation.md.in" "$docs/validation-cpu.txt" "$docs/validation-peers.txt" "$work/docs"
head -n 2 "$docs/plots-measured.csv" >"$work/measurements/published.csv"
head -n 3 "$docs/../measurements/collectives.csv" >"$work/measurements/collectives.csv"
head -n 2 "$docs/../measurements/passes.csv" >"$work/measurements/passes.csv"
head -n 2 "$docs/../measurements/functional_tests.csv" >"$work/measurements/functional_tests.csv"
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "step_time_s") time = i; print }
  NR > 1 && !seen[$time != ""]++' "$docs/../measurements/nanotron.csv" >"$work/measurements/nanotron.csv"
collected=$(awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "source") column = i } NR == 2 { print $column }' \
  "$work/measurements/published.csv")
echo "$collected|1|99.9|88.8|77.7|+66.6" >"$work/docs/validation-collected.txt"
head -n 6 "$docs/plots-measured.csv" >"$work/measured/measured.csv"
sed -n '1p; 2s/[^,]*$//p' "$docs/plots-measured.csv" >"$work/measured/out_of_memory.csv"
worst=$("$stepsim" validate "$work"/measured/*.csv --markdown - | awk '/^\| worst/ { getline; getline; print $2; exit }')
echo "$worst because of | the test" >"$work/docs/validation-rows.txt"
page=$work/docs/validation.md
if command -v gnuplot >/dev/null; then
  "$work/docs/validation.sh" "$stepsim" "$work/measured" >"$work/out" 2>"$work/err" &&
    grep -q "^| $worst |.*| because of | the test |$" "$page" && grep -q '| not explained yet |$' "$page" &&
    [ "$(awk '/\| not explained yet \|$/ { print "for " $2 "," }' "$page" | sort -u)" = \
      "$(grep -o 'for [^ ]*,' "$work/err" | sort)" ]
  result $? "worst rows without an explanation are named, each once" "$worst; $(cat "$work/err")"
  ! grep '{{' "$page" >&2 && grep -q '^Of 6 rows 6 are predicted. Of the 5 with' "$page" &&
    grep -q '^| all | 6 | 5 |' "$page" && grep -q '^\* \*\*tensor-parallel\*\*: ' "$page"
  result $? "the page has the tables of the rows it was given" "$(grep '^Of\|^| all' "$page")"
  grep -q "^| $collected | 1 | 99.9 | 88.8 | 77.7 | +66.6 | [0-9]" "$page" && grep -q '^| all | 1 | - | - | - | - | [0-9]' "$page"
  result $? "rows collected later stand beside what they were predicted with at first" "$(grep '^| .* | 1 | ' "$page")"
  grep -q "^| aws-efa | all_reduce | 1 to 128 MiB | 16 | 2 | [0-9.]* | [-+][0-9.]* |$" "$page"
  result $? "published collectives are counted by source, operation and size" "$(grep aws-efa "$page")"
  grep -q '^| gpt2-large | dgx-h100 | dp 4 | 4 | 194.9 | [0-9.]* | [-+][0-9.]* | NeuSight | +9.9 |$' "$page" &&
    grep -q '^| mean of absolute errors | | | | | | [0-9.]* | NeuSight | 9.9 |$' "$page"
  result $? "published passes stand beside another simulator's errors" "$(grep NeuSight "$page")"
  grep -q '^| all | 2 | 1 | [0-9.]* | [0-9.]* | [0-9.]* | [-+][0-9.]* | 1 / 1 | [01] / 1 |$' "$page"
  result $? "runs of nanotron are counted by GPUs, those with a time and those out of memory" "$(grep '^| all' "$page")"
  [ "$(awk -F'|' '/^\| all \|/ && NF > 11 { print NF; exit }' "$page")" -eq \
    $((4 + $("$stepsim" validate --help | sed -n '/^--without takes/,/^$/p' | grep -c '^  '))) ] &&
    cmp "$work/docs/validation-parts.txt" - <<END
$(sed -n '/^| source | all parts |/,/^$/p' "$page" | sed '$d')
END
  result $? "the table of parts has a column for each" "$(cat "$work/docs/validation-parts.txt")"
  "$work/docs/validation.sh" "$stepsim" "$work/measured" --text 2>/dev/null | cmp - "$page"
  result $? "the page is the same when its parts are not made anew" "$(cat "$page")"
  sed -i 's/^\(| all |\) [^ ]* /\1 99.9 /' "$work/docs/validation-parts.txt"
  "$work/docs/validation.sh" "$stepsim" "$work/measured" --text 2>/dev/null | cmp - "$page"
  result $? "the errors of the whole model are made anew" "$(cat "$page")"
  [ "$(grep -c '<use' "$work/docs/validation.svg")" -ge 5 ] &&
    [ "$(grep -c '<g' "$work/docs/validation.svg")" -eq "$(grep -c '</g>' "$work/docs/validation.svg")" ]
  result $? "the picture has a point for each row, and its groups end" "$(grep -c '<g' "$work/docs/validation.svg")"
fi
"$work/docs/validation.sh" "$stepsim" "$work/nowhere" >"$work/out" 2>"$work/err"
[ $? -eq 2 ] && grep -q "cannot read $work/nowhere/measured.csv" "$work/err"
result $? "a folder without published steps is refused" "$(cat "$work/err")"
finish
