#!/bin/sh
# What pack-gpu.sh packs, unpacked elsewhere by Python and without anything of this shell's environment: validate-gpu.sh
# goes through it to its end, with several ranks, on the emulated GPU (TAP). Sizes are small: kernels take a CPU's time.
# usage: test_packed_gpu.sh REAL_FOLDER BUILD_FOLDER STEPSIM STEPREAL TEST_CUDA, the last two linked with the emulation
[ $# -eq 5 ] || { echo "usage: $0 REAL_FOLDER BUILD_FOLDER STEPSIM STEPREAL TEST_CUDA" >&2; exit 2; }
. "$(dirname "$0")/../fixtures/tap.sh"
real=$1
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/build/sim" "$work/build/real" "$work/build/tests"
ln -s "$(absolute "$2")/build.ninja" "$work/build/build.ninja"
ln -s "$(absolute "$3")" "$work/build/sim/stepsim"
ln -s "$(absolute "$4")" "$work/build/real/stepreal"
ln -s "$(absolute "$5")" "$work/build/tests/test_cuda"

# not compressed, which would take longer than all that is packed
sh "$real/pack-gpu.sh" "$work/build" "$work/gpu.tar" >"$work/log" 2>&1
code=$?
[ $code -eq 0 ] && grep -q '^for a C library of version 2\.[0-9]* or later' "$work/log"
result $? "packed, and what it asks of the C library is said" "$(cat "$work/log")"
grep -q '^no mpirun is packed' "$work/log" && has_mpirun=no || has_mpirun=yes
grep -q "^code for compute capability $(grep -o 'code=sm_[0-9]*' "$work/build/build.ninja" | sed 's/.*_//' | sort -un | paste -sd, -)$" "$work/log"
result $? "what its code is for is said" "$(cat "$work/log")"
cd "$work" || exit 2
python3 -m tarfile -e gpu.tar .
rm -r build gpu.tar

# one precision, and plans with a pipeline
sed -e 's/^scale=1 /scale=64 /' -e 's/for each in fp32 .*;/for each in bf16;/' -e '/^\(nccl\|mpi\) [0-9] --/{/--pp 2$/!d}' \
  gpu/validate-gpu.sh >gpu/small.sh
env -i PATH=/usr/bin:/bin HOME="$work" PARTS="machine numbers ranks" LIMIT=200 sh gpu/small.sh gpu out >log 2>&1
code=$?
[ $code -eq 1 ] && tail -n 2 log | grep -q '; FAILED: numbers/bf16 numbers/timed-shapes numbers/backends (after'
result $? "nothing fails but that there is no cuDNN" "status $code; $(cat log)"
if [ "$has_mpirun" = yes ]; then
  [ "$(grep -c '^\(mpi\|nccl\), 4 ranks, --dp 2 --pp 2: exit 0 *equal' log)" -eq 2 ]
  result $? "four ranks compute what one does, by MPI and by NCCL" "$(cat log)"
fi
grep -q '^bf16: exit 0 equal: .*; attention by own kernels' log &&
  grep -q '^3 losses by cuDNN and by own kernels: at most 0.0e+00 apart' log
result $? "a rank on the GPU computes what one on the CPU does" "$(cat log)"
page=$(echo out/measurements/*)
cmp -s log out/report.txt && grep -q '^| numbers | bf16 | FAILED | ' "$page/README.md" && grep -q '^code in the build for,' "$page/facts.csv"
result $? "what was printed is kept, and there is a page of it" "$(find out)"
grep -q '^numerics against' out/details/numbers/bf16.txt
result $? "the details have what each command said" "$(find out/details)"

env -i PATH=/usr/bin:/bin HOME="$work" PARTS=ranks LIMIT=5 sh gpu/small.sh gpu short >log 2>&1
code=$?
[ $code -eq 3 ] && grep -q '; left out for lack of time: machine/first ranks/nccl4--dp2--pp2 ranks/mpi4--dp2--pp2 (' log
result $? "what there is no time for is said" "status $code; $(cat log)"

env -i PATH=/usr/bin:/bin EMULATED_CUDA_DRIVER=12040 PARTS=numbers sh gpu/small.sh gpu old >log 2>&1
code=$?
[ $code -eq 1 ] && grep -q '^the GPU here cannot be used' log && grep -q 'driver is too old: it runs programs of CUDA 12.4 and before' log
result $? "a driver that is too old is told from no GPU" "status $code; $(cat log)"
env -i PATH=/usr/bin:/bin EMULATED_CUDA_DRIVER=0 PARTS=numbers sh gpu/small.sh gpu none >log 2>&1
code=$?
[ $code -eq 77 ] && grep -q '^no GPU here' log && grep -q 'it has no NVIDIA driver' log
result $? "so is no driver at all" "status $code; $(cat log)"
EMULATED_CUDA_DRIVER=12040 gpu/tests/test_cuda >log 2>&1
[ $? -eq 1 ] && grep -q '^the GPU cannot be used: the NVIDIA driver is too old' log
result $? "tests of kernels are then not left out in silence" "$(cat log)"
STEPREAL_CUDNN=0 gpu/tests/test_cuda norm.sums loss_scale >log 2>&1
code=$?
[ $code -eq 0 ] && grep -q '^0 of [1-9][0-9]* kernels differ, 0 other failures$' log && [ "$(grep -c '^ok   \(norm.sums\|loss_scale\)' log)" -eq "$(grep -c '^ok' log)" ]
result $? "of its kernels, those with a given word in their name are run" "status $code; $(cat log)"
gpu/tests/test_cuda no_such_kernel >log 2>&1
code=$?
[ $code -eq 2 ] && grep -q '^no case has any of the given words in its name$' log
result $? "a word that none has is an error" "status $code; $(cat log)"

# an nvidia-smi that hangs, and a command under way that has the whole ended, from within
mkdir -p gpu/bin tmp
# shellcheck disable=SC2016 # for it to expand
printf '#!/bin/sh\ncase "$*" in -q | *-lms*) exec sleep 500 ;; esac\n' >gpu/bin/nvidia-smi
# shellcheck disable=SC2016
printf '#!/bin/sh\nkill -TERM "$(cat "%s/pid")"\nexec sleep 500\n' "$work" >gpu/bin/compute-sanitizer
chmod +x gpu/bin/nvidia-smi gpu/bin/compute-sanitizer
sed 's/^short=.*/short="timeout -k 5 5"/' gpu/small.sh >gpu/hasty.sh
env -i PATH=/usr/bin:/bin TMPDIR="$work/tmp" PARTS="machine sanitizer" sh -c 'echo $$ >pid; exec sh gpu/hasty.sh gpu ended' \
  >log 2>&1
code=$?
[ $code -eq 1 ] && grep -q '^== ended by a signal' log && ! grep -q '^memcheck' log && cmp -s log ended/report.txt
result $? "a command that hangs is given up, and a signal ends what runs" "exit status $code; $(cat log)"
[ -s ended/details/machine/libraries.txt ] && grep -q '^machine,first,passed,' ended/measurements/*/checks.csv
result $? "what there was before the signal is kept" "$(find ended)"
left=$(grep -lsa "VALIDATE_GPU_WORK=$work/tmp" /proc/[0-9]*/environ)
[ -z "$left$(ls tmp)" ]
result $? "no process and no folder is left" "$left $(ls tmp)"

: >gpu/libs/libjson-glib-1.0.so.0
env -i PATH=/usr/bin:/bin sh gpu/small.sh gpu lacking >log 2>&1
[ $? -eq 2 ] && grep -q 'does not start here: .*libjson-glib' log
result $? "programs that do not start are named, and what they lack" "$(cat log)"
finish
