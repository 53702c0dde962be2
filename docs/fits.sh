#!/bin/sh
# fits.sh STEPSIM FILE [RUNS [SEEDS]]: how well `stepsim fit` predicts runs from few others of the same machine, as a
# Markdown table. FILE has published runs, as `stepsim validate` reads them. Of every source and cluster with at least
# 12 runs (RUNS + 7) so many (default 5), drawn SEEDS times (default 3), are fitted over a machine described by its parts
# alone, with the same GPUs and the usual nodes; the others are predicted. Medians over the draws.
export LC_ALL=C # decimal points in awk's numbers
[ $# -ge 2 ] || { echo "usage: $0 STEPSIM FILE [RUNS [SEEDS]]" >&2; exit 2; }
stepsim=$1 file=$2 runs=${3:-5} seeds=${4:-3}
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# awk: cells of a line of CSV, in cell[1] …
split_csv='function split_csv(line,   n, c, i, quoted) {
    n = 1; cell[1] = ""
    for (i = 1; i <= length(line); i++) {
      c = substr(line, i, 1)
      if (c == "\"") quoted = !quoted
      else if (c == "," && !quoted) cell[++n] = ""
      else cell[n] = cell[n] c
    }
    return n }'

general() { # CLUSTER: the usual nodes with its GPUs
  case $(sed -n 's|^gpu: *gpus/||p' "$root/topologies/$1.yaml" | sed 's/\.yaml.*//') in
    a100-sxm4-80gb) echo selene ;;
    a100-sxm4-40gb) echo dgx-a100-40gb ;;
    h100-sxm5-80gb) case $1 in aws-*) echo "$1" ;; *) echo dgx-h100 ;; esac ;;
    h200-*) echo dgx-h200 ;;
    b200-*) echo dgx-b200 ;;
    b300-*) echo dgx-b300 ;;
    v100-*) echo v100-dgx2 ;;
    *) echo "$1" ;;
  esac
}

# "SOURCE|CLUSTER" of every group that is large enough
groups() {
  awk "$split_csv"' NR == 1 { n = split_csv($0); for (i = 1; i <= n; i++) at[cell[i]] = i; next }
    { split_csv($0) } cell[at["step_time_s"]] != "" { n_of[cell[at["source"]] "|" cell[at["cluster"]]]++ }
    END { for (group in n_of) if (n_of[group] >= '"$((runs + 7))"') print group }' "$file" | sort
}

# draw GROUP SEED: some.csv and others.csv
draw() {
  awk "$split_csv"' NR == 1 { n = split_csv($0); for (i = 1; i <= n; i++) at[cell[i]] = i
      print >some; print >others; srand(seed); next }
    { split_csv($0) }
    cell[at["step_time_s"]] != "" && cell[at["source"]] "|" cell[at["cluster"]] == group { line[++n_lines] = $0 }
    END { for (i = 1; i <= n_lines; i++) { j = i + int(rand() * (n_lines - i + 1)); t = line[i]; line[i] = line[j]; line[j] = t
        print line[i] >(i <= runs ? some : others) } }' \
    group="$1" seed="$2" runs="$runs" some="$work/some.csv" others="$work/others.csv" "$file"
}

# errors CLUSTER: |predicted / measured - 1| of others.csv, sorted
errors() {
  "$stepsim" validate "$work/others.csv" --cluster "$1" --rows - >"$work/rows.csv" || return 1
  awk "$split_csv"' NR == 1 { n = split_csv($0); for (i = 1; i <= n; i++) at[cell[i]] = i; next }
    { split_csv($0) } cell[at["error"]] != "" { e = cell[at["error"]]; print e < 0 ? -e : e, log(1 + e) }' "$work/rows.csv" |
    sort -g
}

quantile() { # SHARE <errors
  awk -v share="$1" '{ e[NR] = $1 } END { at = 1 + share * (NR - 1); i = int(at); j = i < NR ? i + 1 : i
    printf "%.1f\n", 100 * (e[i] + (at - i) * (e[j] - e[i])) }'
}

median() { # of the numbers in a column of a file
  cut -d' ' -f"$2" "$1" | sort -g | awk '{ v[NR] = $1 } END { printf "%.1f", (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}

echo "| source | machine | others | as described: median % | fitted to $runs: median % | p90 % | inside the 80 % interval |"
echo "| --- | --- | ---: | ---: | ---: | ---: | ---: |"
groups >"$work/groups"
while IFS='|' read -r source cluster; do
  base=$(general "$cluster")
  : >"$work/draws"
  seed=0
  while [ $((seed += 1)) -le "$seeds" ]; do
    draw "$source|$cluster" "$seed"
    "$stepsim" fit "$work/some.csv" --cluster "$base" --output "$work/mine.yaml" >/dev/null || exit 1
    errors "$base" >"$work/before" && errors "$work/mine.yaml" >"$work/after" || exit 1
    error=$(sed -n 's/^ *error: \([0-9.e-]*\).*/\1/p' "$work/mine.yaml")
    inside=$(awk -v error="$error" '{ n += $2 <= error && -$2 <= error } END { printf "%.1f", 100 * n / NR }' "$work/after")
    echo "$(quantile 0.5 <"$work/before") $(quantile 0.5 <"$work/after") $(quantile 0.9 <"$work/after") $inside" >>"$work/draws"
  done
  echo "| $source | $cluster | $(wc -l <"$work/after") | $(median "$work/draws" 1) | $(median "$work/draws" 2) |" \
    "$(median "$work/draws" 3) | $(median "$work/draws" 4) % |"
done <"$work/groups"
