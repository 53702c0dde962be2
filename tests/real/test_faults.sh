#!/bin/sh
# What ranks do when one of them goes wrong: every process ends with a status, says why within seconds, and leaves
# nothing behind.
# usage: test_faults.sh MPIRUN FAULT_RANK
set -u
. "$(dirname "$0")/../fixtures/tap.sh"
mpirun=$1
limit_s=10 # a run that lasts longer has failed; nothing here waits that long
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
out=$work/out
rank=$work/fault-rank-$$ # a name of its own tells its processes from others'
ln -s "$(absolute "$2")" "$rank"

check() { # name, status of the test itself
  result "$2" "$1" "$(cat "$out")"
}

launch() { # options of mpirun and the ranks; output in $out, status in $status
  timeout -k 2 "$limit_s" "$mpirun" "$@" >"$out" 2>&1
  status=$?
}

failed() { # the run ended by itself, and not well
  [ "$status" -ne 0 ] && [ "$status" -ne 124 ] && [ "$status" -ne 137 ]
}

says() { # extended regular expression, how often
  [ "$(grep -cE "^stepreal: $1" "$out")" -eq "${2:-1}" ]
}

# A launch in the background: $launcher.
launch_beside() {
  : >"$out" # now, not when the shell of the background comes to it
  timeout -k 2 "$limit_s" "$mpirun" "$@" >"$out" 2>&1 &
  launcher=$!
}

# Waits until the launched ranks say that they are running.
started() {
  for _ in $(seq 100); do
    grep -q '^running' "$out" && return 0
    sleep 0.1
  done
  return 1
}

ours() { # the processes that are left (the dead that nobody has waited for do not count)
  for pid in $(pgrep -f "^$rank" || true); do
    [ "$(sed 's/.*) //; s/ .*//' "/proc/$pid/stat" 2>/dev/null)" = Z ] || echo "$pid"
  done
}

launch -n 3 "$rank" --rank 1 --fail-after 20
failed && says 'rank 1: 0F3: cublasLtMatmul: made up' && says 'rank [02]: stops: rank 1 failed: 0F3: .*this rank waits for' 2
check 'a rank that fails says so, and the others say why they stop' $?
says 'aborts its transfers' 2
check 'the others abort what they have under way' $?

launch -n 3 "$rank" --rank 2 --close-after 20
failed && says 'rank [01]: stops: rank 2 failed: it ended with status 3' 2
check 'a rank that ends with a status ends the others' $?

launch -n 3 "$rank" --rank 1 --wrong-tag
failed && says 'rank 1: receive from rank 0: rank 0 sent tag 1 where tag 77 is expected' && says 'rank [02]: stops: rank 1' 2
check 'ends that disagree about a tag are told' $?

launch -n 3 "$rank" --rank 1 --bad-call
failed && says 'rank 1: MPI_Isend' && says 'rank [02]: stops: rank 1 failed: MPI_Isend' 2
check 'a call of MPI that fails between ops is told' $?

launch -n 3 "$rank" --rank 1 --stall --stall-timeout 1
failed && says 'rank [012]: stuck: .* nothing has moved for 1\..*; this rank waits for 1RECV_F' 3
check 'when nothing moves every rank says what it waits for' $?

launch -n 3 "$rank" --rank 1 --compute --stall-timeout 0.5 --kernel-timeout 2
failed && says "rank [012]: stuck: rank 1 \\(pid [0-9]*\\) comes to no kernel's end while it was in 0F[0-9]*: nothing has moved for 2\\..*" 3 &&
  says 'rank [02]: stuck: .*; this rank waits for 1RECV_F' 2
check 'a rank that computes for ever is named by all, after a limit of its own' $?

launch -n 1 "$rank" --start-timeout 1 : -n 1 sleep 60
failed && says 'rank 0: other ranks did not start within 1 s'
check 'a rank that never starts is not waited for' $?

for victim in 1 2 3; do # of three: the first, which has the reporter, too
  launch_beside -n 3 "$rank"
  started
  pid=$(pgrep -f -x "$rank" | sed -n "${victim}p")
  kill -KILL "$pid"
  wait "$launcher"
  status=$?
  failed && says "rank [012]: rank [012] \\(pid $pid\\) died .*; this rank " 2
  check "killed process $victim: the two others name it and what they wait for" $?
done

launch_beside -n 3 "$rank"
started
kill -TERM "$(pgrep -f -x "$rank" | sed -n 2p)"
wait "$launcher"
status=$?
failed && says 'rank [012]: ended by SIGTERM' && says 'rank [012]: stops: rank [012] failed: ended by SIGTERM' 2
check 'SIGTERM to one rank ends all' $?

: >"$out"
"$mpirun" -n 3 "$rank" >"$out" 2>&1 & # without timeout, whose death would not be the launcher's
launcher=$!
started
kill -KILL "$launcher"
wait "$launcher" 2>/dev/null
for _ in $(seq 50); do
  [ -z "$(ours)" ] && break
  sleep 0.1
done
[ -z "$(ours)" ]
check 'ranks end with their launcher' $?

[ -z "$(ours)" ]
check 'no process is left' $?
left=$(shared_left "$rank")
[ -z "$left" ]
check "no shared memory is left $left" $?
finish
