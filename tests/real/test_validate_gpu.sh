#!/bin/sh
# validate-gpu.sh with programs that stand for those of a GPU, which say what a real one may say: what fails, what is left
# out, what is kept, and what runs are asked for. It and pack-gpu.sh refuse what they cannot begin with (TAP).
# usage: test_validate_gpu.sh VALIDATE_GPU PACK_GPU BUILD_FOLDER
[ $# -eq 3 ] || { echo "usage: $0 VALIDATE_GPU PACK_GPU BUILD_FOLDER" >&2; exit 2; }
. "$(dirname "$0")/../fixtures/tap.sh"
script=$(absolute "$1")
pack=$(absolute "$2")
build=$(absolute "$3")
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
mkdir -p stub/sim stub/real stub/tests stub/bin tmp
plain_path=$PATH
export STUB="$work/stub" TMPDIR="$work/tmp" PATH="$work/stub/bin:$PATH"

# STUB_HANGS, STUB_FAILS, STUB_ENDS_ALL: words of the call that does not end in time, that ends with status 1, that sends
# TERM to the process in the file pid. Time is what is in the file
# now, so that none passes: a call that does not end has what a timeout returns, and adds STUB_TAKES seconds.
cat >stub/bin/as-told <<'EOF2'
#!/bin/sh
echo "${0##*/} $*" >>"$STUB/calls"
hang() {
  read -r now <"$STUB/now"
  echo $((now + STUB_TAKES)) >"$STUB/now"
  exit 124
}
case " $* " in *"${STUB_HANGS:-nothing}"*) hang ;; esac
case " $* " in *"${STUB_ENDS_ALL:-nothing}"*) kill -TERM "$(cat "$STUB/pid")"; exec sleep 500 ;; esac
case " $* " in *"${STUB_FAILS:-nothing}"*) echo "stepreal: rank 0: it failed" >&2; exit 1 ;; esac
EOF2
cat >stub/real/stepreal <<'EOF2'
#!/bin/sh
. "$STUB/bin/as-told"
for last; do :; done
case " $* " in
*" --precision fp8 "*) echo "stepreal: --precision fp8 cannot be trained here: expected fp32, bf16 or fp16" >&2; exit 1 ;;
*" calibrate "*)
  name=$(basename "$last" .yaml)
  mkdir -p "${last%/*}/gpus" "${last%/*}/nccl"
  echo "done a case" >"$last.progress"
  [ -z "${STUB_GRID_HANGS:-}" ] || case "$*" in *--quick*) ;; *) hang ;; esac
  echo "gpu: gpus/$name.yaml" | tee "$last" >"${last%/*}/nccl/$name.yaml"
  printf 'name: %s\nbase: h200-sxm5-141gb\n\nmeasured:\n  source: >-\n    stepreal calibrate, communication null, attention by %s\n  products:\n' \
    "$name" "${STUB_ATTENTION-cuDNN 9.19.0}" >"${last%/*}/gpus/$name.yaml"
  echo "    - {number: bf16, layout: tn, accumulate: no, batch: 1, m: 64, n: 24, k: 128, time: 9.5 us}" >>"${last%/*}/gpus/$name.yaml"
  echo "${STUB_GPU:-NVIDIA H200}"
  ;;
*" --check "*)
  [ -z "${STUB_ATTENTION-cuDNN 9.19.0}" ] || echo "  attention      ${STUB_ATTENTION-cuDNN 9.19.0}"
  echo "numerics against the same model on one rank"
  echo "  equal: losses within 0.1"
  echo "the same Program in fp32"
  echo "  ${STUB_SAYS:-equal}: losses within 0.2"
  ;;
*" --json "*)
  loss=6.9
  [ "${STEPREAL_CUDNN:-1}" = 1 ] || loss=${STUB_LOSS:-6.9001}
  echo "{\"step_time_s\": 0.05, \"step_times_s\": [0.06, 0.052, 0.05, 0.048], \"tflops_per_gpu\": 494.5, \"host_lead\": {\"ops\": 70, \"late\": 3, \"late_s\": 0.1}, \"losses\": [7.0, $loss, 6.8], \"device_name\": \"${STUB_GPU:-NVIDIA H200}\", \"attention_backend\": \"${STUB_ATTENTION-cuDNN 9.19.0}\", \"clock_Hz\": 1980000000}"
  echo '{}' >"$last"
  ;;
esac
EOF2
cat >stub/sim/stepsim <<'EOF2'
#!/bin/sh
. "$STUB/bin/as-told"
timed=0 others=15 # as the calibration's models at its lengths are
case " $* " in *--help*) exit 0 ;; *llama-[248]*"-len 2048 --micro-batch 1 "*|*llama-[248]*"-len 4096 --micro-batch 1 "*) timed=15 others=0 ;; esac
printf '{\n  "step_time_s" : 0.055,\n  "tflops_per_gpu" : 395.6,\n  "mfu" : 0.4,\n  "kernels" : {\n    "measured" : %d,\n    "interpolated" : %d,\n    "modelled" : 0\n  }\n}\n' $timed $others
EOF2
cat >stub/bin/nvidia-smi <<'EOF2'
#!/bin/sh
. "$STUB/bin/as-told"
case "$*" in
*compute_cap*) echo "${STUB_CAPABILITY:-9.0}" ;;
*query-gpu=name*) echo "${STUB_GPU:-NVIDIA H200}" ;;
*query-gpu=driver_version*) echo 580.159 ;;
*-lms*) echo "timestamp, clocks [MHz]"; echo "2026/11/24 01:00:00.000, 1755 MHz, 3201 MHz, 650.00 W, 60, 100 MiB, 0x0"; exec sleep 500 ;;
esac
EOF2
cat >stub/bin/compute-sanitizer <<'EOF2'
#!/bin/sh
. "$STUB/bin/as-told"
echo "${STUB_SANITIZER:-========= ERROR SUMMARY: 0 errors}"
exit "${STUB_SANITIZER_STATUS:-0}"
EOF2
printf '#!/bin/sh\nshift 2\nexec "$@"\n' >stub/bin/mpirun
# shellcheck disable=SC2016 # for the programs to expand, as in all below
printf '#!/bin/sh\ncase "$*" in +%%s) read -r now <"$STUB/now"; echo "$now" ;; *) echo 2026-11-24 ;; esac\n' >stub/bin/date
printf '#!/bin/sh\necho "no PyTorch here"\nexit 69\n' >stub/bin/python3
# shellcheck disable=SC2016
printf '#!/bin/sh\n. "$STUB/bin/as-told"\necho "NVIDIA H200, clock 1980 MHz"\necho "0 of 665 kernels differ, 0 other failures"\n' >stub/tests/test_cuda
chmod +x stub/*/*
echo 90 >stub/ARCHITECTURES

validate() { # environment, OUT_FOLDER; output to log, status to $code
  : >stub/calls
  echo 1790000000 >stub/now
  env "$@" >log 2>&1
  code=$?
}
cp "$(dirname "$script")/gpu_page.awk" "$(dirname "$script")/crosscheck.py" . # for changed copies of the script

# --- all is well ---
validate sh "$script" stub all
page=all/measurements/nvidia-h200
[ $code -eq 0 ] && tail -n 2 log | grep -q '^== [0-9]* passed; not possible here: numbers/fp8 steps/llama-5120-2048-1-fp8 crosscheck/ncu crosscheck/products'
result $? "a run in which nothing fails exits with 0, and says what was not possible" "status $code; $(cat log)"
cmp -s log all/report.txt
result $? "what is printed is kept in the report" "$(diff log all/report.txt)"
[ "$(find $page -type f | sort | sed "s|$page/||" | tr '\n' ' ')" = \
  "README.md checks.csv crosscheck.csv facts.csv gpus/nvidia-h200.yaml nccl/nvidia-h200.yaml nvidia-h200.yaml rows.csv " ]
result $? "the folder to commit has the page, its rows, and the calibrated files" "$(find all/measurements)"
grep -q '^stepreal calibrate .*--base h200-sxm5-141gb ' stub/calls
result $? "the GPU's file is found by its name" "$(grep calibrate stub/calls)"
first=$(grep -m 1 '^stepreal calibrate ' stub/calls)
left=
for step in $(sh "$script" --list | awk '$1 == "step" { print $2 ":" $3 ":" $4 ":" $5 ":" $6 }'); do
  model=$(echo "$step" | cut -d: -f 2) tokens=$(echo "$step" | cut -d: -f 3)
  case $step in
  calibrated:*:1:bf16)
    case $first in *"/$model.json "*) ;; *) left="$left $step" ;; esac
    case " $(echo "$first" | sed 's/.*--seq-len \([0-9,]*\).*/\1/' | tr ',' ' ') " in *" $tokens "*) ;; *) left="$left $step" ;; esac
    ;;
  calibrated:*) left="$left $step" ;;
  esac
done
[ -z "$left" ]
result $? "the calibration times what is listed as calibrated" "not so of$left: $first"
[ "$(grep -c -e '-lms 2000' stub/calls)" -eq 1 ] && grep -q 'SM clock while steps ran | 1755 MHz in the median of 1 looks; mean power 650 W' $page/README.md
result $? "the clock is looked at every two seconds, once for all steps" "$(grep -e -lms stub/calls; cat $page/README.md)"
[ -z "$(grep -lsa "VALIDATE_GPU_WORK=$work/tmp" /proc/[0-9]*/environ)$(ls tmp)" ]
result $? "no process and no folder is left" "$(ls tmp)"
sh "$script" --list | awk '$1 == "part" { sum += $3; if ($3 > 540) bad = 1 } END { exit bad || sum > 2100 || sum == 0 }'
result $? "no part may take more than nine minutes, and all not more than 35" "$(sh "$script" --list)"
grep -q '^| llama-1024 | 24 | 1024 | 512 | 1 | bf16 | 55.00 | 50.00 | +10.0 % | 48.00 … 52.00 | 50.0 % | 1980 | 0 / 15 / 0 | 3 of 70 | cuDNN 9.19.0 |$' $page/README.md
result $? "a line of the page says what was measured and predicted" "$(cat $page/README.md)"
grep -q '^calibration,stepreal calibrate, communication null, attention by cuDNN 9.19.0$' $page/facts.csv
result $? "the page says what was calibrated, of a GPU file over a base too" "$(cat $page/facts.csv)"

# --- what is kept ---
validate PARTS="kernels steps" sh "$script" stub all
[ $code -eq 0 ] && ! grep '^test_cuda\|^stepreal run' stub/calls | grep -qv fp8 && grep -q '^(before) 0 of 665 kernels differ' log
result $? "what has passed is not run again" "status $code; $(cat log)"
validate PARTS=kernels FRESH=yes sh "$script" stub all
[ $code -eq 0 ] && grep -q '^test_cuda' stub/calls && ! grep -q '^stepreal run' stub/calls && [ -f all/details/steps/llama-1024-512-1-bf16.result ]
result $? "unless that is asked for, of this part alone" "status $code; $(cat stub/calls)"
validate PARTS=page sh "$script" stub all
[ $code -eq 0 ] && ! grep -q '^stepreal run\|^nvidia-smi' stub/calls && grep -q "written: $work/$page" log
result $? "the page is made anew without a GPU" "status $code; $(cat log stub/calls)"
validate STUB_GPU="NVIDIA A100-SXM4-80GB" PARTS=kernels sh "$script" stub all
[ $code -eq 2 ] && grep -q 'has results of gpu "NVIDIA H200", and here is "NVIDIA A100-SXM4-80GB": give another folder' log
result $? "results of two GPUs are not mixed" "status $code; $(cat log)"

# --- what fails ---
fails() { # name of the check, the tasks that are to fail, then environment and OUT_FOLDER; what passes stays passed
  name=$1 tasks=$2
  shift 2
  validate "$@"
  [ $code -eq 1 ] && tail -n 2 log | grep -q "; FAILED:$tasks\(;\| (\)"
  result $? "$name" "status $code; $(cat log)"
}
fails "attention that is in part not cuDNN's fails wherever it is timed" " numbers/bf16 numbers/timed-shapes numbers/backends calibration/calibrate steps/[^;]*/*llama-8192-4096-1-bf16" \
  STUB_ATTENTION="cuDNN 9.19.0; own kernels (cuDNN: head_dim 4)" PARTS="numbers calibration steps" sh "$script" stub own
grep -q '^| steps | llama-1024-512-1-bf16 | FAILED | .*attention by cuDNN 9.19.0; own kernels' own/measurements/nvidia-h200/README.md &&
  [ "$(grep -c '^held-out' own/measurements/nvidia-h200/rows.csv)" -eq 7 ]
result $? "the page says so, and the steps are on it" "$(cat own/measurements/nvidia-h200/README.md)"
fails "so does attention that does not say whose it is" " calibration/calibrate" STUB_ATTENTION= PARTS=calibration sh "$script" stub silent
fails "numbers that differ in fp32 alone fail, of one rank and of several; so do losses by the attention's backend" \
  " numbers/fp32 numbers/bf16 numbers/fp16 numbers/timed-shapes numbers/backends ranks/nccl2--tp2--sequence-parallelon .*ranks/mpi2--tp2--precisionbf16" \
  STUB_SAYS="NOT EQUAL" STUB_LOSS=6.91 PARTS="numbers ranks" sh "$script" stub unequal
grep -q '^mpi, 4 ranks, --dp 2 --pp 2: exit 1 equal: losses within 0.1;in fp32: NOT EQUAL: losses within 0.2$' log &&
  grep -q '^3 losses by cuDNN and by own kernels: at most 1.4e-03 apart' log
result $? "both verdicts are shown, and how far losses are apart" "$(cat log)"
fails "a command that fails fails its task alone" " steps/llama-1024-512-1-bf16" STUB_FAILS=llama-1024.json PARTS="calibration steps" sh "$script" stub one
grep -q '^stepreal: rank 0: it failed' log && [ "$(grep -c '^held-out' one/measurements/nvidia-h200/rows.csv)" -eq 6 ]
result $? "why is said, and the others are there" "$(cat log)"
validate PARTS="calibration steps" sh "$script" stub one
[ $code -eq 0 ] && [ "$(grep -c '^stepreal run' stub/calls)" -eq 2 ] && [ "$(grep -c '^held-out' one/measurements/nvidia-h200/rows.csv)" -eq 7 ]
result $? "the next run goes on with what failed, and with what was not possible" "status $code; $(grep '^stepreal run' stub/calls)"
fails "a step that cannot be predicted fails" " steps/lists" STUB_FAILS="--fold off" PARTS="calibration steps" sh "$script" stub unpredicted
for kinds in "calibrated held-out" "held-out calibrated"; do
  from=${kinds% *} to=${kinds#* }
  sed "s/^$from llama-\(8192 2048\|1024 512\) /$to llama-\1 /" "$script" >other.sh
  fails "a $from step that is listed as $to fails" " steps/lists" PARTS=page sh other.sh stub one
  grep -q "^llama-[0-9]*-[0-9]*-1-bf16 is not $to: the calibration timed [0-9]* of its 15 products" log
  result $? "which is said" "$(cat log)"
done
fails "errors found by a sanitizer fail" " sanitizer/memcheck sanitizer/racecheck" \
  STUB_SANITIZER="========= ERROR SUMMARY: 3 errors" STUB_SANITIZER_STATUS=99 PARTS=sanitizer sh "$script" stub errors
validate STUB_SANITIZER="========= Error: Device not supported" STUB_SANITIZER_STATUS=1 PARTS=sanitizer sh "$script" stub errors
[ $code -eq 0 ] && tail -n 2 log | grep -q 'not possible here: sanitizer/memcheck sanitizer/racecheck'
result $? "a sanitizer that does not work here does not" "status $code; $(cat log)"
[ "$(grep -c '^compute-sanitizer .*test_cuda bf16$' stub/calls)" -eq 2 ]
result $? "it runs some of the kernels" "$(cat stub/calls)"

# --- another GPU than the build's ---
validate STUB_CAPABILITY=10.0 sh "$script" stub other
[ $code -eq 1 ] && grep -q '^THE BUILD IS FOR ANOTHER GPU: its code is for compute capability 90, the GPU here has 100$' log && ! grep -q '^stepreal run' stub/calls
result $? "a build for another GPU runs nothing" "status $code; $(cat log)"
rm stub/ARCHITECTURES
echo "args = code=sm_80 code=sm_90a" >stub/build.ninja
validate PARTS=machine sh "$script" stub both
[ $code -eq 0 ] && grep -q '^code in the build for,80,90$' both/measurements/nvidia-h200/facts.csv
result $? "a build folder says by its build file what it is for" "status $code; $(cat log)"
validate STUB_CAPABILITY=10.0 PARTS=machine sh "$script" stub both
[ $code -eq 1 ] && grep -q 'meson configure BUILD -Dgpu_architectures=100 ' log
result $? "and is refused as well" "status $code; $(cat log)"

# --- time ---
validate LIMIT=5 PARTS="numbers steps" sh "$script" stub late
[ $code -eq 3 ] && grep -q '^== 0 passed; left out for lack of time: machine/first numbers/fp32 .* steps/llama-5120-2048-1-fp8 (' log
result $? "what there is no time for is left out, which is no failure" "status $code; $(cat log)"
validate STUB_HANGS=llama-5120.json STUB_TAKES=75 LIMIT=80 PARTS="calibration steps" sh "$script" stub hangs
[ $code -eq 3 ] && tail -n 2 log | grep -q '; left out for lack of time: steps/llama-5120-2048-1-bf16 .*steps/llama-8192-4096-1-bf16' &&
  grep -q '^| steps | llama-5120-2048-1-bf16 | left out | 75 |' hangs/measurements/nvidia-h200/README.md
result $? "a command that LIMIT ends is left out, and what comes after it" "status $code; $(cat log)"
validate STUB_HANGS=llama-1024.json STUB_TAKES=90 PARTS="calibration steps" sh "$script" stub hangs
[ $code -eq 1 ] && grep -q '^(before) llama-4096-2048-1-bf16: 50.00 ms' log && ! grep -q '^stepreal calibrate' stub/calls &&
  tail -n 2 log | grep -q '; FAILED: steps/llama-1024-512-1-bf16;' && grep -q '^did not end within 90 s' log
result $? "the same command goes on from there; what has all of its time and does not end has failed" "status $code; $(cat log)"
validate LIMIT=5 PARTS=steps sh "$script" stub hangs
[ $code -eq 3 ] && grep -q '^| steps | llama-1024-512-1-bf16 | FAILED | 90 |' hangs/measurements/nvidia-h200/README.md
result $? "a failure is not forgotten for lack of time" "status $code; $(cat log)"
sed -e 's/^steps 330/steps 60/' "$script" >other.sh
validate STUB_HANGS=llama-5120.json STUB_TAKES=55 PARTS="steps kernels" sh other.sh stub part
[ $code -eq 3 ] && ! grep -q FAILED log && grep -q '^llama-5120-2048-1-bf16: left out' log && grep -q '^llama-8192-4096-1-bf16: left out' log &&
  grep -q '^| kernels | kernels | passed |' part/measurements/nvidia-h200/README.md
result $? "what a part's own limit ends is left out, of this part alone" "status $code; $(cat log)"
validate STUB_GRID_HANGS=yes STUB_TAKES=360 PARTS="calibration again" sh "$script" stub quick
[ $code -eq 3 ] && grep -q '^not ended after 360 s; measured by then:$' log && grep -q '^  a case$' log &&
  [ -f quick/measurements/nvidia-h200/gpus/nvidia-h200.yaml ] && tail -n 2 log | grep -q ' passed; left out for lack of time: calibration/calibrate (' log
result $? "a calibration that does not end leaves what it has, and is left out" "status $code; $(cat log)"

# --- a signal ---
# shellcheck disable=SC2016 # for the inner shell
validate STUB_ENDS_ALL="--precision fp16" PARTS=numbers sh -c 'echo $$ >stub/pid; exec sh "$0" stub ended' "$script"
[ $code -eq 1 ] && grep -q '^== ended by a signal' log && cmp -s log ended/report.txt && grep -q '^numbers,bf16,passed,' ended/measurements/nvidia-h200/checks.csv
result $? "a signal ends the command that runs, and what passed before is on the page" "status $code; $(cat log)"
[ -z "$(grep -lsa "VALIDATE_GPU_WORK=$work/tmp" /proc/[0-9]*/environ)$(ls tmp)" ]
result $? "no process and no folder is left then" "$(ls tmp)"

# --- no GPU, and what cannot begin ---
if ! (PATH=$plain_path && command -v nvidia-smi >/dev/null); then
  PATH=$plain_path PARTS="numbers calibration ranks" sh "$script" "$build" none >log 2>&1
  code=$?
  [ $code -eq 77 ] && grep -q '^no GPU here' log && cmp -s log none/report.txt && [ "$(grep -c cudaGetDeviceCount log)" -eq 1 ]
  result $? "without a GPU it exits with 77, and says why once" "status $code; $(cat log)"
fi
refused() { # words of the only line; environment, script and arguments
  words=$1
  shift
  env "$@" >log 2>&1
  code=$?
  [ $code -eq 2 ] && [ "$(wc -l <log)" -eq 1 ] && grep -qF "$words" log
  result $? "refused: $words" "status $code; $(cat log)"
}
refused "usage: $script BUILD_FOLDER OUT_FOLDER [BASE_GPU_FILE]" sh "$script"
refused "found no program $work/sim/stepsim; expected a folder built by ninja" sh "$script" "$work" new
refused 'LIMIT: found "abc", expected a whole number of seconds' LIMIT=abc sh "$script" stub new
refused 'LIMIT: found "1234567890", expected' LIMIT=001234567890 sh "$script" stub new
refused 'PARTS: found "step", expected some of machine kernels' PARTS="numbers step" sh "$script" stub new
refused 'DEVICE: found "gpu", expected cuda or cpu' DEVICE=gpu sh "$script" stub new
refused 'FRESH: found "1", expected yes or no' FRESH=1 sh "$script" stub new
[ ! -e new ]
result $? "nothing is made then" "$(ls)"
validate LIMIT=008 PARTS=numbers sh "$script" stub octal
[ $code -eq 3 ] && ! grep -qi -e arithmetic -e octal log
result $? "a LIMIT is decimal, with zeros in front as well" "status $code; $(cat log)"
mkdir taken taken/report.txt
refused "cannot write to $work/taken; expected a folder to write to" sh "$script" stub taken

# --- what pack-gpu.sh does not pack ---
echo "args = code=sm_80 code=sm_80" >stub/build.ninja
refused "found code for compute capability 80 in stub, expected 90: meson configure stub -Dgpu_architectures=90 && ninja -C stub" \
  sh "$pack" stub gpu.tar 90
refused "found code for compute capability 80 in stub, expected 8:" sh "$pack" stub gpu.tar 8
refused 'ARCHITECTURE: found "9.0", expected a compute capability without the point, such as 90' sh "$pack" stub gpu.tar 9.0
[ ! -e gpu.tar ]
result $? "no file is made then" "$(ls)"
# a PATH with all but one
mkdir tools
for tool in sh env cat dirname mktemp mkdir mkfifo rm cp ldd tar awk gzip strip objdump grep sed sort paste tr cut; do
  ln -s "$(command -v $tool)" tools/$tool
done
refused "found no timeout on PATH" PATH="$work/tools" sh "$script" stub new
refused "found no xz on PATH" PATH="$work/tools" sh "$pack" stub gpu.tar.xz
rm tools/objdump
refused "found no objdump on PATH" PATH="$work/tools" sh "$pack" stub gpu.tar
refused "usage: $pack BUILD_FOLDER FILE.tar.xz [ARCHITECTURE]" sh "$pack" stub
refused "found no program $work/sim/stepsim; expected a folder built by ninja" sh "$pack" "$work" gpu.tar.xz
refused "cannot write $work/nowhere/gpu.tar" sh "$pack" stub "$work/nowhere/gpu.tar"
finish
