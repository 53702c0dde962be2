#!/bin/sh
# validate-gpu.sh where there is no GPU, and where there is no time: what it leaves out is said, what it printed is kept.
# usage: test_validate_gpu.sh VALIDATE_GPU BUILD_FOLDER
script=$1
build=$2
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
n=0
check() { # what it is about; the exit status of what came before
  n=$((n + 1))
  [ "$2" -eq 0 ] && echo "ok $n - $1" || echo "not ok $n - $1"
}
echo 1..4
PARTS="machine kernels numbers" sh "$script" "$build" "$out/none" >"$out/log" 2>&1
check "without a GPU it exits 77" $(($? != 77))
grep -q 'no GPU here' "$out/none/report.txt" && cmp -s "$out/log" "$out/none/report.txt"
check "what is printed is kept in the report" $?
LIMIT=5 PARTS="numbers steps" sh "$script" "$build" "$out/late" >"$out/log" 2>&1
check "without time it exits 1" $(($? != 1))
grep -q 'numbers: left out, no time is left' "$out/log" && grep -q 'steps: left out' "$out/log"
check "parts that are left out are named" $?
