#!/bin/sh
# How well are steps on this machine's cores predicted? Calibrates with a rank per core (two at most), then predicts and
# executes one plan after the other, several runs of each in turn, and prints a table; with a third argument the page
# docs/validation.md is made from it.
# usage: real/validate-cpu.sh BUILD_FOLDER [RUNS [PAGE]]
set -eu
build=$1
runs=${2:-3}
page=${3:-}
stepsim=$build/sim/stepsim
stepreal=$build/real/stepreal
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

model=tinystories-15m
common="--model $model --precision fp32 --global-batch 8"
cat >"$out/plans" <<'END'
--pp 2
--pp 2 --chunks 3
--tp 2
--tp 2 --sequence-parallel on
--dp 2
--dp 2 --zero 1
--dp 2 --zero 2
--dp 2 --zero 3
END

number() { sed -n "s/.*\"$1\" *: *\([-0-9.e+]*\).*/\1/p" | head -n 1; }

mpirun -n 2 "$stepreal" calibrate --model "$model" --tp 1,2 --repeats 7 --quick --fresh \
  --output "$out/this-machine.yaml" >"$out/calibrated"
cat "$out/calibrated"
echo

run=0
while [ "$run" -lt "$runs" ]; do
  while read -r plan; do
    # shellcheck disable=SC2086 # lists of words
    mpirun -n 2 "$stepreal" run $common $plan --steps 6 --json </dev/null >"$out/run.json"
    echo "$plan|$(number step_time_s <"$out/run.json")" >>"$out/measured"
  done <"$out/plans"
  run=$((run + 1))
done

while read -r plan; do
  # shellcheck disable=SC2086
  predicted=$("$stepsim" simulate $common $plan --gpus 2 --cluster "$out/this-machine.yaml" --steps 3 --fold off --json |
    number step_time_s)
  grep -F -- "$plan|" "$out/measured" | awk -F'|' -v plan="$plan" '$1 == plan { print $2 }' | sort -n |
    awk -v plan="$plan" -v p="$predicted" '{ t[NR] = $1 }
      END { m = (t[int((NR + 1) / 2)] + t[int(NR / 2) + 1]) / 2
        printf "| `%s` | %.1f | %.1f | %.1f … %.1f | %+.1f %% |\n", plan, 1e3 * p, 1e3 * m, 1e3 * t[1], 1e3 * t[NR], 100 * (p / m - 1) }'
done <"$out/plans" >"$out/rows"

{
  echo "| plan | predicted (ms) | measured, median (ms) | least … most | error |"
  echo "| --- | --- | --- | --- | --- |"
  cat "$out/rows"
} >"$out/table"
cat "$out/table"
[ -n "$page" ] || exit 0
{
  cat "$(dirname "$0")/../docs/validation.md.in"
  echo
  echo "On two cores ($(sed -n 1p "$out/calibrated" | sed 's/, 1 core.*//')), $(date -u +%Y-%m-%d), $model, fp32, sequences of 256 tokens, 8 in a batch;"
  echo "each measured figure is the median of $runs runs of five steps after a first one:"
  echo
  cat "$out/table"
} >"$page.new"
mv "$page.new" "$page"
echo "Written: $page"
