#!/bin/sh
# What pack-gpu.sh packs, unpacked elsewhere and without anything of this shell's environment: validate-gpu.sh goes through
# it to its end, with several ranks, on the emulated GPU (TAP). Models are small: kernels take a CPU's time.
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
cd "$work" || exit 2
tar -xf gpu.tar
rm -r build gpu.tar

# one precision, and plans with a pipeline
sed -e 's/^llama tiny .*/llama tiny 64 128 2 4 2 200/' -e 's/--seq-len 128\(.*\) --steps 3/--seq-len 16\1 --steps 1/' \
  -e 's/for precision in .*;/for precision in bf16;/' -e '/^[0-9] --/{/--pp 2$/!d}' gpu/validate-gpu.sh >gpu/small.sh
env -i PATH=/usr/bin:/bin HOME="$work" PARTS="machine numbers ranks" LIMIT=200 sh gpu/small.sh gpu out >log 2>&1
code=$?
if [ "$has_mpirun" = yes ]; then
  result $code "everything that was asked for is well" "$(cat log)"
  [ "$(grep -c '^\(mpi\|nccl\), [24] ranks, .*--pp 2: exit 0 *equal' log)" -eq 4 ]
  result $? "two and four ranks compute what one does, by MPI and by NCCL" "$(cat log)"
fi
grep -q '^bf16: exit 0, attention by [co]' log # cuDNN, or own kernels where it is not emulated
result $? "a rank on the GPU computes what one on the CPU does" "$(cat log)"
cmp -s log out/report.txt && [ "$(find out -type f | sort | tr '\n' ' ')" = "out/details.tar.gz out/report.txt " ]
result $? "two files come of it: what was printed, and the details" "$(find out)"
tar -xzOf out/details.tar.gz ./check-bf16.txt | grep -q '^numerics against'
result $? "the details have what each command said" "$(tar -tzf out/details.tar.gz)"

env -i PATH=/usr/bin:/bin HOME="$work" PARTS="machine ranks" LIMIT=5 sh gpu/small.sh gpu short >log 2>&1
[ $? -eq 1 ] && grep -q '^== ranks: left out, no time is left of LIMIT' log
result $? "what there is no time for is said" "$(cat log)"
tar -tzf short/details.tar.gz | grep -q 'tiny.json'
result $? "what there was by then is kept" "$(ls short)"

env -i PATH=/usr/bin:/bin EMULATED_CUDA_DRIVER=12040 PARTS=numbers sh gpu/small.sh gpu old >log 2>&1
[ $? -eq 1 ] && grep -q '^the GPU here cannot be used: .*driver is too old: it runs programs of CUDA 12.4 and before' log
result $? "a driver that is too old is told from no GPU" "$(cat log)"
env -i PATH=/usr/bin:/bin EMULATED_CUDA_DRIVER=0 PARTS=numbers sh gpu/small.sh gpu none >log 2>&1
[ $? -eq 77 ] && grep -q '^no GPU here: .*it has no NVIDIA driver' log
result $? "so is no driver at all" "$(cat log)"
EMULATED_CUDA_DRIVER=12040 gpu/tests/test_cuda >log 2>&1
[ $? -eq 1 ] && grep -q '^the GPU cannot be used: the NVIDIA driver is too old' log
result $? "tests of kernels are then not left out in silence" "$(cat log)"

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
tar -tzf ended/details.tar.gz | grep -q 'libraries.txt' && [ "$(echo ended/*)" = "ended/details.tar.gz ended/report.txt" ]
result $? "what there was before the signal is kept" "$(ls ended)"
left=$(grep -lsa "VALIDATE_GPU_WORK=$work/tmp" /proc/[0-9]*/environ)
[ -z "$left$(ls tmp)" ]
result $? "no process and no folder is left" "$left $(ls tmp)"

: >gpu/libs/libjson-glib-1.0.so.0
env -i PATH=/usr/bin:/bin sh gpu/small.sh gpu lacking >log 2>&1
[ $? -eq 2 ] && grep -q 'does not start here: .*libjson-glib' log
result $? "programs that do not start are named, and what they lack" "$(cat log)"
finish
