#!/bin/sh
# test_sweep_kill.sh STEPSIM: a sweep killed with SIGKILL at 50 random moments goes on where it was, and ends with the
# table of one that was left alone (TAP).
#
# A file is swept, killed, resumed, killed … until it is complete; then it is held against the undisturbed table, and
# the next file begins. Moments are drawn over most of the time that a whole sweep takes here and now.
export LC_ALL=C # by which awk reads and writes numbers
[ $# -eq 1 ] || { echo "usage: $0 STEPSIM" >&2; exit 2; }
case $1 in /*) stepsim=$1 ;; *) stepsim=$PWD/$1 ;; esac
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
space="--model gpt2 --cluster selene --gpus 8 --tp 1,2,4 --pp 1,2 --zero 0..3 --micro-batch 1,2 --seq-len 64..1024+64"
kills=50

now_ms() { date +%s%3N; }
sweep() { "$stepsim" sweep "$@" >out 2>err </dev/null; }

began=$(now_ms)
sweep $space --output whole.db --csv whole.csv || { cat err >&2; echo "Bail out! the undisturbed sweep failed"; exit 1; }
whole_ms=$(($(now_ms) - began))

awk -v seed=1 -v n=1000 -v most="$whole_ms" 'BEGIN { srand(seed); for (i = 0; i < n; i++) printf "%.3f\n", rand() * 0.6 * most / 1000 }' >moments
n_killed=0 n_partial=0 n_files=0 problem=
while read -r moment && [ "$n_killed" -lt "$kills" ] && [ -z "$problem" ]; do
  "$stepsim" sweep $space --resume --output killed.db >out 2>err </dev/null &
  pid=$!
  sleep "$moment"
  if kill -KILL "$pid" 2>/dev/null; then
    wait "$pid" 2>/dev/null
    n_killed=$((n_killed + 1))
    [ "$(stat -c %s killed.db-wal 2>/dev/null || echo 0)" -gt 40000 ] && n_partial=$((n_partial + 1))
    continue
  fi
  wait "$pid" || { problem="resuming failed: $(cat err)"; continue; }
  sweep --resume --output killed.db --csv killed.csv || problem="reporting failed: $(cat err)"
  cmp -s whole.csv killed.csv || problem="$problem $(diff whole.csv killed.csv | head -4)"
  n_files=$((n_files + 1))
  rm -f killed.db* killed.csv
done <moments
if [ -z "$problem" ] && [ -e killed.db ]; then # the last file, complete
  sweep $space --resume --output killed.db --csv killed.csv || problem="resuming failed: $(cat err)"
  cmp -s whole.csv killed.csv || problem="$problem $(diff whole.csv killed.csv | head -4)"
  n_files=$((n_files + 1))
fi

[ -z "$problem" ]
status=$?
[ "$status" -eq 0 ] && echo "ok 1 - $n_files tables equal the undisturbed one after $n_killed kills" || {
  echo "not ok 1 - tables equal the undisturbed one"
  printf '%s\n' "$problem" | head -c 2000 | sed 's/^/# /'
}
[ "$n_killed" -eq "$kills" ] && echo "ok 2 - it was killed $kills times" || echo "not ok 2 - it was killed $n_killed times of $kills"
[ "$n_partial" -gt 0 ] && echo "ok 3 - $n_partial of them with rows in the file" || echo "not ok 3 - none of them with rows in the file"
echo "1..3"
