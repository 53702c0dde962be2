#!/bin/sh
# test_sweep_ranks.sh MPIRUN STEPSIM: one sweep on several processes, and what is left when one is lost (TAP).
[ $# -eq 2 ] || { echo "usage: $0 MPIRUN STEPSIM" >&2; exit 2; }
mpirun=$1 stepsim=$2
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/../fixtures/tap.sh"
cd "$work" || exit 2
space="--model gpt2 --cluster selene --gpus 8 --tp 1,2,4 --pp 1,2 --zero 0..3 --micro-batch 1,2 --seq-len 64..1024+64"

ranks() { # how many, arguments; leaves out, err, got
  count=$1
  shift
  timeout 60 "$mpirun" -n "$count" "$stepsim" sweep "$@" >out 2>err </dev/null
  got=$?
}

"$stepsim" sweep $space --csv alone.csv >out 2>err
ranks 3 $space --jobs 1 --output three.db --csv three.csv
[ "$got" -eq 0 ] && cmp -s alone.csv three.csv
result $? "three ranks find what one does" "status $got
$(cat err)
$(diff alone.csv three.csv | head -4)"
grep -q "3 threads of 3 ranks" out && [ "$(grep -c 'Best by MFU' out)" -eq 1 ]
result $? "one of them reports" "$(cat out)"
ranks 2 --resume --output three.db --csv again.csv
[ "$got" -eq 0 ] && cmp -s alone.csv again.csv
result $? "a complete sweep is reported under a launcher too" "status $got $(cat err)"
few="--model gpt2 --cluster selene --gpus 8 --tp 1,2 --zero 0,3 --micro-batch 1,2 --memory-margin"
"$stepsim" sweep $few "83 GB" --csv little.csv >out 2>err
ranks 2 $few "83 GB" --csv little2.csv
[ "$got" -eq 0 ] && cmp -s little.csv little2.csv && grep -q too_large little.csv && grep -q '^[0-9]*,ran' little.csv
result $? "all of them leave the memory free that one is to leave" "status $got $(cat err) $(cut -c1-80 little2.csv)"
ranks 3 $space --micro-batchs 3
[ "$got" -eq 2 ] && [ "$(grep -c 'unknown option --micro-batchs' err)" -eq 1 ] && [ ! -s out ]
result $? "a mistake is told once" "status $got $(cat out err)"
ranks 3 --model nope --cluster selene
[ "$got" -eq 2 ] && [ "$(grep -c 'nope: no such file' err)" -eq 1 ]
result $? "as is a missing file" "status $got $(cat err)"
ranks 2 $space --csv /dev/full
[ "$got" -eq 2 ] && grep -q "/dev/full: No space left" err
result $? "a full disk ends all ranks" "status $got $(cat err)"

# a rank that works is killed while rows come in, which they do for a second or so
"$mpirun" -n 3 "$stepsim" sweep $space --prune off --jobs 1 --seq-len 64..1024+4 --output lost.db >out 2>err </dev/null &
launcher=$!
for try in $(seq 300); do
  [ "$(stat -c %s lost.db-wal 2>/dev/null || echo 0)" -gt 100000 ] && break
  sleep 0.02
done
victim=$(pgrep -f "$stepsim sweep .*--output lost.db" | while read -r pid; do
  tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep -q -e '^PMI_RANK=2$' -e '^OMPI_COMM_WORLD_RANK=2$' && echo "$pid"
done | head -1)
[ -n "$victim" ] && kill -KILL "$victim" 2>/dev/null
result $? "a rank was found and killed" "$(cat err)"
wait "$launcher"
[ $? -ne 0 ]
result $? "the launch fails" "$(cat out err)"
"$stepsim" sweep --resume --output lost.db --csv lost.csv >out 2>err
got=$?
"$stepsim" sweep $space --prune off --seq-len 64..1024+4 --csv alone.csv >/dev/null 2>&1
[ "$got" -eq 0 ] && cmp -s alone.csv lost.csv
result $? "the sweep goes on with what was kept and ends as if nothing had been lost" "status $got $(cat err)"
grep -q '^  [1-9][0-9,]* in ' out && ! grep -q '^  11,568 in ' out
result $? "nothing that was kept is tried again" "$(cat out | head -4)"

# a launcher of an MPI that stepsim is not built with starts processes that do not meet
if "$mpirun" --version 2>&1 | grep -q 'Open MPI\|OpenRTE\|PRRTE'; then
  size=PMI_SIZE rank=PMI_RANK
else
  size=OMPI_COMM_WORLD_SIZE rank=OMPI_COMM_WORLD_RANK
fi
for process in 0 1; do
  env $size=2 $rank=$process "$stepsim" sweep $few "83 GB" --csv foreign.csv >out 2>err </dev/null
  [ $? -eq 2 ] && [ ! -s out ] && [ ! -e foreign.csv ]
  result $? "process $process of another MPI's launcher sweeps nothing" "$(cat out err)"
  n_said=$(grep -c "started 2 processes ($size).*mpirun of" err)
  [ "$n_said" -eq $((1 - process)) ]
  result $? "and the first alone says which launcher to use: process $process" "$(cat err)"
done
finish
