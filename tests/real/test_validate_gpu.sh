#!/bin/sh
# validate-gpu.sh where there is no GPU, and where there is no time: what it leaves out is said, what it printed is kept.
# It and pack-gpu.sh refuse what they cannot begin with.
# usage: test_validate_gpu.sh VALIDATE_GPU PACK_GPU BUILD_FOLDER
script=$1
pack=$2
build=$3
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
n=0
check() { # what it is about; the exit status of what came before
  n=$((n + 1))
  [ "$2" -eq 0 ] && echo "ok $n - $1" || echo "not ok $n - $1"
}
refused() { # words of the only line; environment, script and arguments
  words=$1
  shift
  env "$@" >"$out/log" 2>&1
  [ $? -eq 2 ] && [ "$(wc -l <"$out/log")" -eq 1 ] && grep -qF "$words" "$out/log"
  check "refused: $words" $?
}
echo 1..12
PARTS="numbers calibration ranks" sh "$script" "$build" "$out/none" >"$out/log" 2>&1
check "without a GPU it exits 77" $(($? != 77))
grep -q 'no GPU here' "$out/none/report.txt" && cmp -s "$out/log" "$out/none/report.txt"
check "what is printed is kept in the report" $?
[ "$(grep -c cudaGetDeviceCount "$out/log")" -eq 1 ]
check "it is said once" $?
LIMIT=5 PARTS="numbers steps" sh "$script" "$build" "$out/late" >"$out/log" 2>&1
check "without time it exits 1" $(($? != 1))
grep -q 'numbers: left out, no time is left' "$out/log" && grep -q 'steps: left out' "$out/log"
check "parts that are left out are named" $?
refused "usage: $script BUILD_FOLDER OUT_FOLDER [BASE_GPU_FILE]" sh "$script"
refused "found no program $out/sim/stepsim; expected a folder built by ninja" sh "$script" "$out" "$out/new"
refused 'LIMIT: found "abc", expected a whole number of seconds' LIMIT=abc sh "$script" "$build" "$out/new"
refused 'PARTS: found "step", expected some of machine kernels' PARTS="numbers step" sh "$script" "$build" "$out/new"
[ ! -e "$out/new" ]
check "nothing is made then" $?
refused "usage: $pack BUILD_FOLDER FILE.tar.xz" sh "$pack" "$build"
refused "found no program $out/sim/stepsim; expected a folder built by ninja" sh "$pack" "$out" "$out/gpu.tar.xz"
