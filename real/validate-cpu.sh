#!/bin/sh
# How well are steps on this machine's cores predicted? Each round calibrates with one rank on each of two cores, then
# predicts and executes several plans in turn. Prints a table of medians over the rounds, which docs/validation.md has. A
# shared machine changes its speed from minute to minute, so every round is compared with its own calibration.
set -eu
export LC_ALL=C # for awk's number format
usage="usage: real/validate-cpu.sh BUILD_FOLDER [ROUNDS]"
build=${1:?"$usage"}
rounds=${2:-5}
stepsim=$build/sim/stepsim
stepreal=$build/real/stepreal
if [ ! -x "$stepsim" ] || [ ! -x "$stepreal" ]; then
  echo "real/validate-cpu.sh: no sim/stepsim and real/stepreal in $build; $usage" >&2
  exit 2
fi
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
--dp 2 --offload-optimizer host
--dp 2 --zero 3 --offload-optimizer host --offload-weights host
--cp 2
--cp 2 --cp-comm all_gather
--cp 2 --cp-comm ulysses
END

number() { sed -n "s/.*\"$1\" *: *\([-0-9.e+]*\).*/\1/p" | head -n 1; }

median() { sort -n | awk '{ t[NR] = $1 } END { print (t[int((NR + 1) / 2)] + t[int(NR / 2) + 1]) / 2 }'; }

round=0
while [ "$round" -lt "$rounds" ]; do
  mpirun -n 2 "$stepreal" calibrate --model "$model" --tp 1,2 --cp 1,2 --cp-comm ring,all_gather,ulysses --repeats 5 --quick --fresh \
    --output "$out/this-machine.yaml" </dev/null >"$out/calibrated"
  while read -r plan; do
    # shellcheck disable=SC2086 # lists of words
    p=$("$stepsim" simulate $common $plan --gpus 2 --cluster "$out/this-machine.yaml" --steps 3 --fold off --json | number step_time_s)
    # shellcheck disable=SC2086
    m=$(mpirun -n 2 "$stepreal" run $common $plan --steps 5 --json </dev/null | number step_time_s)
    echo "$plan|$p|$m" | awk -F'|' '{ printf "%s|%s|%s|%.4f\n", $1, $2, $3, 100 * ($2 / $3 - 1) }' >>"$out/measured"
  done <"$out/plans"
  round=$((round + 1))
done
cat "$out/calibrated" >&2

column() { awk -F'|' -v plan="$1" -v c="$2" '$1 == plan { print $c }' "$out/measured"; }
while read -r plan; do
  least=$(column "$plan" 4 | sort -n | head -n 1)
  most=$(column "$plan" 4 | sort -n | tail -n 1)
  printf '%s|%s|%s|%s|%s|%s\n' "$plan" "$(column "$plan" 2 | median)" "$(column "$plan" 3 | median)" \
    "$(column "$plan" 4 | median)" "$least" "$most" |
    awk -F'|' '{ printf "| `%s` | %.0f | %.0f | %+.1f %% | %+.1f … %+.1f %% |\n", $1, 1e3 * $2, 1e3 * $3, $4, $5, $6 }'
done <"$out/plans" >"$out/rows"

echo "On two cores ($(sed -n 1p "$out/calibrated" | sed 's/, 1 core.*//')), $(date -u +%Y-%m-%d), $model, fp32, sequences of 256 tokens, 8 in a batch;"
echo "medians of $rounds rounds, each a calibration, then every plan predicted from it and run for four steps after a first one:"
echo
echo "| plan | predicted (ms) | measured (ms) | error | least … most |"
echo "| --- | --- | --- | --- | --- |"
cat "$out/rows"
