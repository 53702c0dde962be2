#!/bin/sh
# What a real run does when something goes wrong in the middle of a step, or before the first: it ends within seconds,
# with a status, and says which rank, at which op and why; nothing is left behind (TAP).
# usage: test_run_faults.sh MPIRUN STEPREAL MODELS
set -u
[ $# -eq 3 ] || { echo "usage: $0 MPIRUN STEPREAL MODELS" >&2; exit 2; }
. "$(dirname "$0")/../fixtures/tap.sh"
mpirun=$1 stepreal=$2 models=$3
limit_s=10
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
ln -s "$models" "$work/models" && models=$work/models # options are split at blanks, which its path may have
export TMPDIR="$work" OPENBLAS_NUM_THREADS=1
out=$work/out

check() { # name, status of the test itself
  result "$2" "$1" "status $status
$(cat "$out")"
}

says() { # extended regular expression, how often
  [ "$(grep -cE "^stepreal: $1" "$out")" -eq "${2:-1}" ]
}

ended() { # status: by itself, in time, not well, without a crash
  [ "$status" -ne 0 ] && [ "$status" -ne 124 ] && ! grep -q -e ERROR: -e 'Caught signal' "$out"
}

launch() { # arguments of mpirun
  timeout -k 2 "$limit_s" "$mpirun" "$@" >"$out" 2>&1 </dev/null
  status=$?
}

# --- ranks in the middle of a step ----------------------------------------------------------------------------------------

# A run of many seconds, of which the test sees the beginning; a name of its own tells its processes from others'. Its
# weights are few: they are filled by the thread that computes, which is not to look as if it were in a step.
name=$work/stepreal-$$
ln -s "$stepreal" "$name"

# Read without starting processes: they would take the cores from the ranks that are waited for.
state_of() { # a stat file of /proc: its fields from the state on are in $fields; Z when it is gone
  { read -r fields <"$1"; } 2>/dev/null || fields=Z
  fields=${fields##*) }
}

# The processes of ranks, in order. The dead that nobody has waited for do not count, nor does what a rank has made, its
# reporter, which is called as the rank is at first.
ours() {
  found=$(pgrep -f "^$name (run|calibrate)" || true)
  # shellcheck disable=SC2086,SC2116 # a list of numbers, into one line
  found=" $(echo $found) "
  for pid in $found; do
    comm=
    { read -r comm <"/proc/$pid/comm"; } 2>/dev/null
    state_of "/proc/$pid/stat"
    parent=${fields#* }
    parent=${parent%% *}
    case $comm/$fields in death_reporter/* | */Z*) continue ;; esac
    case $found in *" $parent "*) ;; *) echo "$pid" ;; esac
  done
}

# A rank says where it is once it waits, which is after a step has been handed out: the thread that computes has worked
# for a quarter of a second by then.
is_computing() { # pid: a thread other than the first has worked for most of a step, 0.6 s
  for task in "/proc/$1/task/"*; do
    [ "${task##*/}" = "$1" ] && continue
    state_of "$task/stat"
    # shellcheck disable=SC2086 # a list of numbers
    set -- "$1" $fields
    [ "${13:-0}" -lt 60 ] || return 0
  done
  return 1
}

all_compute() { # ranks
  pids=$(ours)
  # shellcheck disable=SC2086 # a list of numbers
  set -- "$1" $pids
  [ $(($# - 1)) -eq "$1" ] || return 1
  for pid in $pids; do
    is_computing "$pid" || return 1
  done
}

# Launches, waits until all ranks compute; the pid of the second rank is in $victim.
launch_verb_beside() { # ranks, verb, options
  ranks=$1
  shift
  : >"$out"
  timeout -k 2 30 "$mpirun" -n "$ranks" "$name" "$@" >"$out" 2>&1 </dev/null &
  launcher=$!
  for _ in $(seq 150); do
    all_compute "$ranks" && break
    kill -0 "$launcher" 2>/dev/null || break
    sleep 0.1
  done
  victim=$(ours | sed -n 2p)
  victim=${victim:-$launcher}
}

launch_beside() { # ranks, options of a run of many steps
  ranks=$1
  shift
  launch_verb_beside "$ranks" run --model "$models/tiny-llama.json" --precision fp32 --seq-len 512 --global-batch 64 \
    --steps 40 "$@"
}

# The status, and whether it came in time.
wait_for_end() {
  since=$(date +%s)
  wait "$launcher"
  status=$?
  [ $(($(date +%s) - since)) -le "$limit_s" ]
}

at='([0-9A-Z_]+ .*of step [0-9]+.*|between ops)'
in_an_op="(while it was in|\\(it waits for) $at"
where="this rank (was in|waits for) $at"

for plan in '2 --pp 2' '4 --dp 2 --tp 2' '2 --dp 2 --zero 3'; do
  others=$((${plan%% *} - 1))
  # shellcheck disable=SC2086 # the plan is a list of words
  launch_beside $plan
  kill -KILL "$victim"
  wait_for_end && ended && says "rank [0-9]: rank [0-9] \\(pid $victim\\) died $in_an_op; $where" $others
  check "${plan#* }: the others say which rank was killed, in which op, and where they are" $?
  [ -z "$(ours)" ]
  check "${plan#* }: no rank is left" $?
done

launch_beside 2 --pp 2
kill -SEGV "$victim"
wait_for_end && ended && says "rank [0-9]: rank [0-9] \\(pid $victim\\) died $in_an_op; $where"
check 'a rank that crashes is dead at once, and named by the other' $?

launch_beside 2 --pp 2
kill -TERM "$victim"
wait_for_end && ended && says "rank [01]: ended by SIGTERM $in_an_op" && says "rank [01]: stops: rank [01] failed: ended by SIGTERM.*; $where"
check 'SIGTERM to a rank ends both' $?

waits='this rank waits for ([01](RECV|SEND)_[FB][0-9]+ of step [0-9]+ (from|to) rank [01]|[0-9A-Z_]+( \([a-z]+\))? of step [0-9]+ with group [a-z_]+)'
for plan in '2 --pp 2' '4 --dp 2 --tp 2'; do
  others=$((${plan%% *} - 1))
  # shellcheck disable=SC2086 # the plan is a list of words
  launch_beside $plan --stall-timeout 1
  kill -STOP "$victim"
  wait_for_end && ended && says "rank [0-9]: stuck: rank [0-9] \\(pid $victim\\) is stopped $in_an_op.*; $waits" $others
  check "${plan#* }: a rank that is stopped is named by those that wait for it" $?
  kill -KILL "$victim" 2>/dev/null # where the launcher has not
done

# Long enough to be stopped in the steps of its layers: behind them gigabytes would be cleared first.
launch_verb_beside 2 calibrate --model "$models/tiny-llama.json" --tp 1 --seq-len 128 --repeats 200 --quick \
  --output "$work/machine.yaml" --stall-timeout 1
kill -STOP "$victim"
wait_for_end && ended && says "rank [01]: stuck: rank [01] \\(pid $victim\\) is stopped.*; this rank waits for the other ranks"
check 'a calibration in which a rank is stopped ends' $?
kill -KILL "$victim" 2>/dev/null
rm -f "$work/machine.yaml.progress"

# Before its first op. Where that is while MPI starts, and the launcher kills it, what MPI shares stays: no one could
# have given it back. On a busy machine the others start for many seconds before they can say that they wait: what is
# tested is that they end, which they never would if nobody saw to it. They spin while they start: not for long.
marker=$work/before
: >"$marker"
timeout 60 "$mpirun" -n 2 "$name" run --model tinystories-15m --precision fp32 --dp 2 --stall-timeout 1 \
  --start-timeout 2 >"$out" 2>&1 </dev/null &
launcher=$!
for _ in $(seq 200); do
  victim=$(ours | sed -n 2p)
  [ -n "$victim" ] && break
  sleep 0.05
done
[ -n "$victim" ] && kill -STOP "$victim"
wait "$launcher"
status=$?
[ -n "$victim" ] && ended
check 'a rank that is stopped as it starts ends the run' $?
kill -KILL "$victim" 2>/dev/null
for file in $(shared_left "$marker"); do
  case $file in */mpich_shar_tmp*) rm -f "$file" ;; esac
done
rm "$marker"

# --- runs that fail by themselves -----------------------------------------------------------------------------------------

tiny="--model $models/tiny-llama.json --precision fp32 --global-batch 8"
# shellcheck disable=SC2086 # a list of words
{
  launch -n 1 "$stepreal" run $tiny --dp 2 --start-timeout 1 : -n 1 sleep 60
  ended && says 'rank 0: other ranks did not start within 1 s'
  check 'a rank that never starts' $?

  launch -n 2 "$stepreal" run $tiny --dp 2 --trace /dev/full --timeline "$work/beside.svg"
  ended && says 'cannot write /dev/full: No space left on device' && grep -q 'how fast' "$out" && [ -s "$work/beside.svg" ]
  check 'a full disk, which costs neither the report nor another file' $?
  rm -f "$work/beside.svg"

  launch -n 2 "$stepreal" run $tiny --pp 2 --lr 1e38
  ended && grep -qE '^stepreal: rank [01]: SYNC of step 1: the gradient of [a-z0-9_.]+ is -?(nan|inf)' "$out"
  check 'a gradient that is not a number' $?

  launch -n 4 "$stepreal" run $tiny --dp 2 --tp 2 --zero 3 --lr 1e38
  ended && grep -qE '^stepreal: rank [0-3]: SYNC of step 1: the gradient of [a-z0-9_.]+ is -?(nan|inf)' "$out"
  check 'a gradient that is not a number, in shards' $?

  # from the lowest scale, from a constant one, from a loss that no scale changes
  launch -n 2 "$stepreal" run $tiny --precision fp16 --dp 2 --lr 1e38 --initial-loss-scale 1
  ended && grep -qE '^stepreal: rank [01]: SYNC of step 1: the gradient of [a-z0-9_.]+ is -?(nan|inf) at the loss scale 1, the lowest' "$out"
  check 'a gradient in fp16 that no scale makes finite' $?

  launch -n 2 "$stepreal" run $tiny --precision fp16 --pp 2 --loss-scale 1e9
  ended && grep -qE '^stepreal: rank [01]: SYNC of step 0: the gradient of [a-z0-9_.]+ is -?(nan|inf) at the loss scale 1e\+09; --loss-scale dynamic lowers it' "$out"
  check 'a constant loss scale that is too large' $?

  launch -n 2 "$stepreal" run $tiny --precision fp16 --pp 2 --lr 1e38
  ended && grep -qE '^stepreal: rank 1: SYNC of step 1: the loss is -?(nan|inf), which no loss scale changes' "$out"
  check 'a loss in fp16 that is not a number' $?

  # kernels of a tenth of a second and more, for which the other rank waits
  launch -n 2 "$stepreal" run $tiny --pp 2 --seq-len 3072 --global-batch 1 --steps 1 --stall-timeout 0.05
  [ "$status" -eq 0 ]
  check 'a rank that only computes for long is waited for' $?

  launch -n 2 "$stepreal" run $tiny --pp 2 --seq-len 8192 --global-batch 1 --steps 1 --kernel-timeout 0.3
  ended && says "rank [01]: stuck: rank ([01]) \\(pid [0-9]+\\) comes to no kernel's end while it was in [01][FB]0: nothing has moved for .*" 2 &&
    says 'rank [01]: .*; this rank waits for [01]RECV_[FB]0 from rank [01]'
  check 'a rank that computes for longer than --kernel-timeout ends all, and is named' $?

  launch -n 2 "$stepreal" run $tiny --kernel-timeout -1
  ended && grep -q -e '--kernel-timeout: found -1, expected seconds, or 0 for ever' "$out"
  check 'a timeout below 0' $?

  launch -n 2 "$stepreal" run $tiny --dp 2 --memory 1MiB
  ended && grep -qE '^stepreal: rank [01]: before the first op: out of memory: [0-9.]+ kB asked for, .* capacity 1.049 MB' "$out"
  check 'memory too small for the parameters' $?

  launch -n 2 "$stepreal" run $tiny --pp 2 --memory 2MiB
  ended && grep -qE '^stepreal: rank [01]: [01](F|RECV_F)[0-9] of step 0: out of memory' "$out"
  check 'memory that ends in the middle of a step' $?

  launch -n 1 "$stepreal" run $tiny --tp 1 : -n 1 "$stepreal" run $tiny --tp 2
  ended && says 'rank 1 has another plan than rank 0: all ranks of a run need the same command line'
  check 'ranks with different plans' $?

  launch -n 1 "$stepreal" run $tiny --seed 2 : -n 1 "$stepreal" run $tiny
  ended && says 'rank 1 has another --check, --seed, --lr or loss scale than rank 0'
  check 'ranks with different seeds' $?

  launch -n 1 "$stepreal" run $tiny --precision fp16 : -n 1 "$stepreal" run $tiny --precision fp16 --initial-loss-scale 4
  ended && says 'rank 1 has another --check, --seed, --lr or loss scale than rank 0'
  check 'ranks with different loss scales' $?

  launch -n 1 "$stepreal" run $tiny : -n 1 "$stepreal" run $tiny --model "$models/tiny-gpt2.json"
  ended && says 'rank 1 has another model than rank 0'
  check 'ranks with different models' $?
}

rm "$work/models"
[ -z "$(ours)" ] && [ "$(ls -A "$work")" = "$(printf 'out\n%s' "${name##*/}")" ]
check 'no process and no file is left' $?

left=$(shared_left "$name")
[ -z "$left" ]
check "no shared memory is left $left" $?
finish
