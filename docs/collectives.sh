#!/bin/sh
# collectives.sh STEPSIM [FILE]: errors of predicted times of collectives against published ones, as a Markdown table.
# FILE (default: measurements/collectives.csv) has one measurement per row: id, source, cluster, op, gpus, bytes,
# time_us, notes. Sizes are defined as in nccl-tests.
export LC_ALL=C # decimal points in awk's numbers
[ $# -ge 1 ] || { echo "usage: $0 STEPSIM [FILE]" >&2; exit 2; }
stepsim=$1
file=${2:-$(cd "$(dirname "$0")/../measurements" && pwd)/collectives.csv}
[ -r "$file" ] || { echo "$0: cannot read $file" >&2; exit 2; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# One run for all sizes of an operation on a number of GPUs: source op gpus bytes measured_us predicted_us
awk -F, 'NR > 1 { print $3, $4, $5 }' "$file" | sort -u >"$work/runs"
while read -r cluster op gpus; do
  awk -F, -v c="$cluster" -v o="$op" -v n="$gpus" '$3 == c && $4 == o && $5 == n { print $2, o, n, $6, $7 }' "$file" \
    >"$work/rows"
  sizes=$(awk '{ printf "%s%sB", (NR > 1 ? "," : ""), $4 }' "$work/rows")
  "$stepsim" collective --cluster "$cluster" --op "$op" --gpus "$gpus" --bytes "$sizes" --json >"$work/json" || exit 1
  awk -F'[ :,]+' '/"time_s"/ { print $3 * 1e6 }' "$work/json" | paste -d' ' "$work/rows" -
done <"$work/runs" >"$work/all" || exit 1

awk '
  function class(bytes) {
    return bytes < 1048576 ? "1 below 1 MiB" : bytes < 268435456 ? "2 1 to 128 MiB" : "3 256 MiB and more"
  }
  { key = $1 " | " $2 " | " class($4); error = $6 / $5 - 1
    n[key]++; bias[key] += error; off[key] += error < 0 ? -error : error
    if (!(key in least) || $3 < least[key]) least[key] = $3
    if ($3 > most[key]) most[key] = $3 }
  END { for (key in n) printf "%s|%d|%s|%.1f|%+.1f\n", key, n[key],
          (least[key] == most[key] ? least[key] : least[key] " to " most[key]),
          100 * off[key] / n[key], 100 * bias[key] / n[key] }
' "$work/all" | sort | awk -F'|' '
  BEGIN { print "| source | operation | size | GPUs | rows | MAPE % | bias % |"
    print "| --- | --- | --- | ---: | ---: | ---: | ---: |" }
  { gsub(/^ [123] /, "", $3); gsub(/ +$/, "", $1); gsub(/^ | $/, "", $2)
    printf "| %s | %s | %s | %s | %s | %s | %s |\n", $1, $2, $3, $5, $4, $6, $7 }'
