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
echo 1..24
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

# programs that stand for those of a GPU: what a check says of both Programs is shown, and the worse of it counts
mkdir -p "$out/stub/sim" "$out/stub/real" "$out/stub/tests" "$out/stub/bin"
cat >"$out/stub/real/stepreal" <<'END'
#!/bin/sh
echo "numerics against the same model on one rank"
echo "  equal: losses within 0.1"
echo "the same Program in fp32"
echo "  $STUB_SAYS: losses within 0.2"
END
printf '#!/bin/sh\nshift 2\nexec "$@"\n' >"$out/stub/bin/mpirun"
printf '#!/bin/sh\nexit 0\n' | tee "$out/stub/sim/stepsim" >"$out/stub/tests/test_cuda"
chmod +x "$out"/stub/*/*
STUB_SAYS="NOT EQUAL" PARTS="numbers ranks" sh "$script" "$out/stub" "$out/unequal" >"$out/log" 2>&1
check "numbers that differ in fp32 alone fail" $(($? != 1))
grep -q '^mpi, 2 ranks, --pp 2: exit 1 equal: losses within 0.1;in fp32: NOT EQUAL: losses within 0.2$' "$out/log"
check "of ranks both verdicts are shown" $?
[ "$(grep -c '^  NOT EQUAL: losses within 0.2$' "$out/unequal/report.txt")" -ge 3 ] && grep -q '^FAILED with status 1: check-bf16.txt' "$out/log"
check "of one rank, too" $?
STUB_SAYS=equal PARTS="numbers ranks" sh "$script" "$out/stub" "$out/equal" >"$out/log" 2>&1
check "numbers that are equal pass" $?
grep -q '^nccl, 4 ranks, --dp 2 --pp 2: exit 0 equal: losses within 0.1;in fp32: equal: losses within 0.2$' "$out/log"
check "and both verdicts are shown" $?

refused "usage: $script BUILD_FOLDER OUT_FOLDER [BASE_GPU_FILE]" sh "$script"
refused "found no program $out/sim/stepsim; expected a folder built by ninja" sh "$script" "$out" "$out/new"
refused 'LIMIT: found "abc", expected a whole number of seconds' LIMIT=abc sh "$script" "$build" "$out/new"
refused 'LIMIT: found "1234567890", expected' LIMIT=001234567890 sh "$script" "$build" "$out/new"
refused 'PARTS: found "step", expected some of machine kernels' PARTS="numbers step" sh "$script" "$build" "$out/new"
[ ! -e "$out/new" ]
check "nothing is made then" $?
LIMIT=008 PARTS="numbers steps" sh "$script" "$build" "$out/octal" >"$out/log" 2>&1
[ $? -eq 1 ] && grep -q 'numbers: left out, no time is left' "$out/log" && ! grep -qi -e arithmetic -e octal "$out/log"
check "a LIMIT is decimal, with zeros in front as well" $?
mkdir "$out/taken" "$out/taken/report.txt"
refused "cannot write to $out/taken; expected a folder to write to" sh "$script" "$build" "$out/taken"

# a PATH with all but one
mkdir "$out/tools"
for tool in sh env dirname mktemp mkdir mkfifo rm cp ldd tar awk strip objdump; do
  ln -s "$(command -v $tool)" "$out/tools/$tool"
done
refused "found no timeout on PATH" PATH="$out/tools" sh "$script" "$build" "$out/new"
refused "found no xz on PATH" PATH="$out/tools" sh "$pack" "$out/stub" "$out/gpu.tar.xz"
rm "$out/tools/objdump"
refused "found no objdump on PATH" PATH="$out/tools" sh "$pack" "$out/stub" "$out/gpu.tar"
refused "usage: $pack BUILD_FOLDER FILE.tar.xz" sh "$pack" "$build"
refused "found no program $out/sim/stepsim; expected a folder built by ninja" sh "$pack" "$out" "$out/gpu.tar.xz"
refused "cannot write $out/nowhere/gpu.tar" sh "$pack" "$out/stub" "$out/nowhere/gpu.tar"
