#!/bin/sh
# Everything that needs a GPU, in one run: kernels against the CPU's, training numerics, calibration, and predicted against
# measured steps. Needs the build folder, or what pack-gpu.sh made of it; several ranks need mpirun. Continues after a
# failure; every command has a time limit. OUT_FOLDER gets report.txt (what is printed), the calibration's files
# (gpu.yaml and the files it names) and details.tar.gz (all logs and traces), rewritten after each part. A signal (HUP,
# INT, TERM) ends the running command and keeps the results so far.
# Exits 77 if there is no GPU; 1 if it cannot be used, after a failure or a signal, or if LIMIT left something out; 2 if
# it cannot start.
# usage: real/validate-gpu.sh BUILD_FOLDER OUT_FOLDER [BASE_GPU_FILE]
# environment: PARTS, the parts to run (default: all, as below); TP of the calibration (default 1); LIMIT, seconds for the
# whole run: the command then running is ended, the rest is left out, and both are reported. An H100 takes about ten
# minutes. To run it in two halves, give each its own folder, since each writes report.txt and details.tar.gz:
# PARTS="machine kernels numbers ranks", PARTS="calibration steps again sanitizer"
set -u
export LC_ALL=C # for awk's number format
if [ $# -lt 2 ] || [ $# -gt 3 ]; then
  echo "usage: $0 BUILD_FOLDER OUT_FOLDER [BASE_GPU_FILE]" >&2
  exit 2
fi
build=$1
out=$2
base=${3:-}
all_parts="machine kernels numbers calibration steps again ranks sanitizer"
parts=${PARTS:-$all_parts}
stepsim=$build/sim/stepsim
stepreal=$build/real/stepreal
for program in "$stepsim" "$stepreal" "$build/tests/test_cuda"; do
  [ -x "$program" ] && continue
  echo "$0: found no program $program; expected a folder built by ninja with -Dcuda=enabled, or what pack-gpu.sh packed" >&2
  exit 2
done
LIMIT=${LIMIT:-}
while :; do # strip leading zeros: $((010)) is 8
  case $LIMIT in
  0?*) LIMIT=${LIMIT#0} ;;
  *) break ;;
  esac
done
case $LIMIT in
*[!0-9]* | ??????????*)
  echo "$0: LIMIT: found \"$LIMIT\", expected a whole number of seconds, of at most nine digits" >&2
  exit 2
  ;;
esac
for tool in timeout awk tar; do
  command -v "$tool" >/dev/null && continue
  echo "$0: found no $tool on PATH, without which nothing can be run" >&2
  exit 2
done
for part in $parts; do
  case " $all_parts " in
  *" $part "*) ;;
  *) echo "$0: PARTS: found \"$part\", expected some of $all_parts" >&2; exit 2 ;;
  esac
done
mkdir -p "$out" || exit 2
build=$(cd "$build" && pwd)
out=$(cd "$out" && pwd)
stepsim=$build/sim/stepsim
stepreal=$build/real/stepreal
if [ -z "${VALIDATE_GPU_WORK:-}" ]; then # run this script again, with a copy of its output
  if ! (: >"$out/report.txt" && : >"$out/details.new" && rm "$out/details.new") 2>/dev/null; then
    echo "$0: cannot write to $out; expected a folder to write to" >&2
    exit 2
  fi
  VALIDATE_GPU_WORK=$(mktemp -d) || exit 2
  export VALIDATE_GPU_WORK
  trap 'rm -rf "$VALIDATE_GPU_WORK"' EXIT
  inner=''
  ended=''
  trap 'ended=yes; [ -z "$inner" ] || kill "$inner" 2>/dev/null' HUP INT TERM
  mkfifo "$VALIDATE_GPU_WORK/printed" || exit 2
  # keeps running under a signal to the whole group, so that the last output is not lost
  (trap '' HUP INT TERM; exec tee "$out/report.txt") <"$VALIDATE_GPU_WORK/printed" &
  copy=$!
  sh "$0" "$@" >"$VALIDATE_GPU_WORK/printed" 2>&1 &
  inner=$!
  [ -z "$ended" ] || kill "$inner" 2>/dev/null
  while :; do # a signal ends the wait, not the process waited for
    ended=
    wait "$inner"
    status=$?
    [ -n "$ended" ] || break
  done
  wait "$copy"
  exit "$status"
fi
work=$VALIDATE_GPU_WORK # logs and traces, packed into details.tar.gz
exec 3>&1 # where a signal is reported, whatever stdout is at that time
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
status=0
short="timeout -k 5 30" # for commands that take a second, unless a GPU or a disk hangs
began=$(date +%s)

# libraries: packed ones, CUDA's, those that come with Python packages (cuDNN, NCCL)
python_libraries() {
  $short python3 -c 'import glob, importlib.util as u
s = u.find_spec("nvidia")
print(":".join(d for p in (s.submodule_search_locations if s else []) for d in sorted(glob.glob(p + "/*/lib"))))' 2>/dev/null
}
libraries=$build/libs:/usr/local/cuda/lib64:$(python_libraries):${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/local/nvidia/lib64:/usr/local/nvidia/lib
PATH=$build/bin:$PATH:/usr/local/cuda/bin:/usr/local/nvidia/bin
export PATH
export UCX_LOG_FILE=stderr # messages of MPI's transport are not our output
[ -d "$build/libs" ] && export UCX_MODULE_DIR="$build/libs" # packed: do not load another UCX's modules
: "${STEPSIM_DATA:=$build}"
export STEPSIM_DATA
# log what NCCL chooses and why it fails
: "${NCCL_DEBUG:=INFO}"
export NCCL_DEBUG NCCL_DEBUG_FILE="$work/nccl-%p.txt"

number() { sed -n "s/.*\"$1\" *: *\([-0-9.e+]*\).*/\1/p" | head -n 1; }
heading() { printf '\n== %s (after %d s)\n' "$*" $(($(date +%s) - began)); }
leave_out() { # what, and why
  printf '\n== %s: left out, %s\n' "$1" "$2"
  status=1
}
left_s() { echo $((${LIMIT:-1000000} - $(date +%s) + began)); }
has_time() { [ "$(left_s)" -ge 15 ]; }
# keep: saves the results so far, in case nothing comes after
keep() {
  $short tar -C "$work" --exclude ./printed --exclude ./jobs -czf "$out/details.new" . 2>/dev/null
  code=$?
  case $code in
  0 | 1) mv "$out/details.new" "$out/details.tar.gz" ;; # 1: a file grew meanwhile
  *) status=1; echo "FAILED with status $code: tar; details.tar.gz lacks what came last" ;;
  esac
}
# Ends background processes: the clock log and, on a signal, the running command. Each is a timeout, which passes TERM
# on to its whole group and kills what is left 5 s later.
end_jobs() {
  jobs -p >"$work/jobs"
  while read -r job; do kill "$job" 2>/dev/null; done <"$work/jobs"
  wait
}
finish() {
  trap '' HUP INT TERM
  end_jobs
  keep
  [ "$1" -eq 0 ] || exit "$1"
  exit $status
}
# shellcheck disable=SC2317 # the trap calls it
end_early() {
  trap '' HUP INT TERM
  heading "ended by a signal" >&3
  finish 1 >&3
}
trap end_early HUP INT TERM
# wanted PART: was it asked for, and is there time for it?
wanted() {
  case " $parts " in *" $1 "*) ;; *) return 1 ;; esac
  keep
  has_time && return 0
  leave_out "$1" "no time is left of LIMIT"
  return 1
}
# limited SECONDS COMMAND…: one of our programs, with our libraries; 124 or 137 if it timed out, 125 if no time was left
limited() {
  limit=$1
  shift
  has_time || { echo "not run: $(left_s) s are left of LIMIT" >&2; return 125; }
  left=$(($(left_s) - 10)) # 5 s to kill it, 5 s to save results
  [ "$limit" -lt "$left" ] || limit=$left
  LD_LIBRARY_PATH=$libraries timeout -k 5 "$limit" "$@" </dev/null 3>&- &
  wait $! # a signal interrupts this; without it the command would have to end first
}
# alone SECONDS COMMAND…: a single rank waits for nobody, so CUDA may load kernels on first use
alone() {
  export CUDA_MODULE_LOADING=LAZY
  limited "$@"
  code=$?
  unset CUDA_MODULE_LOADING
  return $code
}
# verdict FILE STATUS: reports a failure, and keeps the overall status
verdict() {
  [ "$2" -eq 0 ] && return
  status=1
  echo "FAILED with status $2: ${1##*/}"
  tail -n 5 "$1"
}
# check_verdict FILE STATUS: prints the verdict in a log of --check and, if there is one, that of the same Program in fp32,
# or why there is none. Returns STATUS, or 1 if it is 0 and a verdict is not "equal".
check_verdict() {
  awk '
    /^ *(equal|NOT EQUAL):/ { sub(/^ */, ""); print n_verdicts++ ? "in fp32: " $0 : $0 }
    /stepreal:/ && !n_errors++' "$1"
  [ "$2" -eq 0 ] || return "$2"
  grep -qE '^ *equal:' "$1" && ! grep -q 'NOT EQUAL' "$1"
}
# A Llama of a given width: name, hidden, ffn, layers, heads, key heads, words
llama() {
  cat >"$work/$1.json" <<END
{"model_type": "llama", "hidden_size": $2, "intermediate_size": $3, "num_hidden_layers": $4, "num_attention_heads": $5,
 "num_key_value_heads": $6, "vocab_size": $7, "max_position_embeddings": 8192, "tie_word_embeddings": false}
END
}
llama tiny 256 512 2 8 4 1000
llama llama-2048 2048 5632 16 16 16 32000
llama llama-4096 4096 11008 8 32 8 32000
llama llama-8192 8192 28672 3 64 8 32000
tiny="--model $work/tiny.json --seq-len 128 --global-batch 4 --steps 3"

for program in "$stepsim" "$stepreal"; do
  LD_LIBRARY_PATH=$libraries $short "$program" --help >"$work/start.txt" 2>&1 && continue
  echo "$0: $program does not start here: $(head -n 3 "$work/start.txt")"
  echo "the C library here: $($short ldd --version 2>/dev/null | head -n 1)"
  finish 2
done

# one step of one rank: other failures are left to the parts to report
if has_time; then
  # shellcheck disable=SC2086 # a list of words
  alone 90 "$stepreal" run --device cuda --comm null $tiny --global-batch 1 --steps 1 >"$work/gpu.txt" 2>&1
  if grep -q 'no CUDA device on this machine' "$work/gpu.txt"; then
    echo "no GPU here: $(cat "$work/gpu.txt")"
    finish 77
  fi
  if grep -q 'driver is too old\|cudaGetDeviceCount' "$work/gpu.txt"; then
    echo "the GPU here cannot be used: $(cat "$work/gpu.txt")"
    finish 1
  fi
fi

if command -v nvidia-smi >/dev/null; then # log clocks and power twice a second throughout
  what=timestamp,clocks.sm,clocks.mem,power.draw,temperature.gpu,memory.used,clocks_event_reasons.active
  timeout -k 5 "$(left_s)" nvidia-smi --query-gpu=$what --format=csv -lms 500 >"$work/clocks.csv" 2>&1 \
    </dev/null 3>&- &
fi

if wanted machine; then
  heading "the machine"
  { date -u; uname -a; $short lscpu; free -g; $short df -h /dev/shm /tmp; } >"$work/machine.txt" 2>&1
  { $short nvidia-smi; $short nvidia-smi topo -m; $short nvidia-smi -q; } >"$work/nvidia-smi.txt" 2>&1
  LD_LIBRARY_PATH=$libraries $short ldd "$stepreal" >"$work/libraries.txt" 2>&1
  # libraries that are loaded on first use
  for name in libcublasLt libcudnn libnccl libnvidia-ml; do
    # shellcheck disable=SC2046 # a list of folders
    $short find -L $(echo "$libraries" | tr ':' ' ') -maxdepth 1 -name "$name.so.*" 2>/dev/null | head -n 1 | grep . ||
      $short ldconfig -p 2>/dev/null | grep -m 1 "$name.so" || echo "$name: not found"
  done >>"$work/libraries.txt"
  grep -m 1 -i 'driver version' "$work/nvidia-smi.txt"
  grep -i 'not found' "$work/libraries.txt"
  cat "$work/gpu.txt"
fi

if wanted kernels; then
  heading "kernels, streams and memory against the CPU's"
  alone 240 "$build/tests/test_cuda" >"$work/test_cuda.tap" 2>&1
  code=$?
  head -n 1 "$work/test_cuda.tap"
  grep -v '^ok' "$work/test_cuda.tap" | tail -n +2 | head -n 40
  grep -h -o 'cuDNN[^;]*' "$work/test_cuda.tap" | sort | uniq -c
  [ "$code" -eq 0 ] || { status=1; echo "FAILED with status $code: test_cuda.tap"; tail -n 3 "$work/test_cuda.tap"; }
fi

if [ -z "$base" ]; then # find it by the GPU's name; none: peaks are the best measurements
  case $($short nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1) in
  *H200*) base=h200-sxm5-141gb ;;
  *"H100 80GB HBM3"*) base=h100-sxm5-80gb ;;
  *"A100-SXM4-80GB"*) base=a100-sxm4-80gb ;;
  *"A100-SXM4-40GB"*) base=a100-sxm4-40gb ;;
  *B200*) base=b200-sxm-180gb ;;
  esac
fi

if wanted numbers; then
  heading "numbers: one rank on the GPU against one on the CPU"
  for precision in fp32 bf16 fp16; do
    log=$work/check-$precision.txt
    # shellcheck disable=SC2086 # a list of words
    alone 60 "$stepreal" run --device cuda $tiny --precision $precision --comm null --check --check-on cpu >"$log" 2>&1
    code=$?
    echo "$precision: exit $code$(sed -n 's/^ *attention  */, attention by /p' "$log" | head -n 1)"
    check_verdict "$log" $code >"$work/said.txt" || code=$?
    verdict "$log" $code
    sed -n '/^numerics/,$p' "$log"
  done
fi

if wanted calibration; then
  heading "calibration"
  calibrate() { # SECONDS, seconds to leave of LIMIT, more options; resumes where it was stopped
    limit=$(($(left_s) - $2))
    [ "$limit" -lt "$1" ] || limit=$1
    [ "$limit" -ge 20 ] || limit=20
    shift 2
    alone "$limit" "$stepreal" calibrate --device cuda --comm null ${base:+--base "$base"} --model "$work/llama-2048.json" \
      --model "$work/llama-4096.json" --model "$work/llama-8192.json" --tp "${TP:-1}" --seq-len 2048,4096 --repeats 7 \
      "$@" --output "$out/gpu.yaml" >"$work/calibration.txt" 2>&1
    code=$?
    verdict "$work/calibration.txt" $code
    return $code
  }
  if ! calibrate 300 180; then # the later parts take as long, and are worth little without it
    echo "measured by then:"
    sed -n 's/^done /  /p' "$out/gpu.yaml.progress" 2>/dev/null
    echo "the same without the grid of sizes:"
    mv "$work/calibration.txt" "$work/calibration-grid.txt"
    calibrate 150 100 --quick
  fi
  cat "$work/calibration.txt"
fi

# one_step MODEL LENGTH STEPS: one row of the table; keeps the traces and the differences by kind of op
one_step() {
  model=$1
  length=$2
  name=$model-$length
  set -- --model "$work/$model.json" --seq-len "$length" --global-batch 4 --recipe megatron --steps "$3"
  cluster=
  [ -f "$out/gpu.yaml" ] && cluster=$out/gpu.yaml
  : >"$work/predicted-$name.json"
  if [ -n "$cluster" ]; then
    limited 60 "$stepsim" simulate "$@" --gpus 1 --cluster "$cluster" --fold off \
      --trace "$work/trace-predicted-$name.json" --json >"$work/predicted-$name.json" 2>"$work/predicted-$name.txt"
    verdict "$work/predicted-$name.txt" $?
  fi
  alone 90 "$stepreal" run "$@" --device cuda --comm null ${cluster:+--cluster "$cluster"} --json \
    --trace "$work/trace-measured-$name.json" >"$work/measured-$name.json" 2>"$work/measured-$name.txt"
  verdict "$work/measured-$name.txt" $?
  [ -n "$cluster" ] && limited 60 "$stepsim" compare "$work/trace-predicted-$name.json" \
    "$work/trace-measured-$name.json" >"$work/compare-$name.txt" 2>&1
  p=$(number step_time_s <"$work/predicted-$name.json")
  m=$(number step_time_s <"$work/measured-$name.json")
  f=$(number mfu <"$work/measured-$name.json")
  c=$(number clock_Hz <"$work/measured-$name.json")
  a=$(sed -n 's/.*"attention_backend" *: *"\([^"]*\)".*/\1/p' "$work/measured-$name.json" | head -n 1)
  echo "$model $length ${p:-0} ${m:-0} ${f:-0} ${c:-0}" | awk -v attention="${a:-}" '
    function ms(seconds) { return seconds > 0 ? sprintf("%.2f ms", 1e3 * seconds) : "none" }
    { e = ($3 > 0 && $4 > 0) ? sprintf("%+.1f%%", 100 * ($3 / $4 - 1)) : "none"
      printf("%-12s %6d %12s %12s %8s %7.1f%% %7.0f MHz  %s\n", $1, $2, ms($3), ms($4), e, 100 * $5, $6 / 1e6, attention) }'
}

if wanted steps; then
  heading "one-rank steps: predicted beside measured"
  printf '%-12s %6s %12s %12s %8s %8s %11s\n' model tokens predicted measured error MFU clock
  # first each width; enough steps to bring the clock down, as in the calibration: two seconds or more
  for row in "llama-4096 2048 14" "llama-2048 2048 24" "llama-8192 2048 12" "llama-4096 4096 10" "llama-2048 4096 14" \
    "llama-8192 4096 8"; do
    has_time || { leave_out "$row and what comes after" "no time is left of LIMIT"; break; }
    # shellcheck disable=SC2086 # a list of words
    one_step $row >"$work/row.txt"
    cat "$work/row.txt"
    grep -q '^FAILED' "$work/row.txt" && status=1
    keep
  done
  sed -n 1,40p "$work/compare-llama-4096-2048.txt" 2>/dev/null
fi

# Times of products by shape: "number layout accumulate batch m n k" and us
products() { sed -n 's/^ *- {number: \(.*\), time: \([0-9.e+-]*\) us}$/\1|\2/p' "$1" | grep 'layout:' | sort; }

if wanted again && [ -f "$out/gpus/gpu.yaml" ]; then
  heading "one model calibrated again: how far do the same products repeat?"
  alone 100 "$stepreal" calibrate --device cuda --comm null ${base:+--base "$base"} --model "$work/llama-4096.json" --tp 1 \
    --seq-len 2048 --repeats 7 --quick --fresh --output "$work/again.yaml" >"$work/again.txt" 2>&1
  verdict "$work/again.txt" $?
  products "$out/gpus/gpu.yaml" >"$work/products-first.txt"
  products "$work/gpus/again.yaml" >"$work/products-again.txt"
  awk -F'|' 'NR == FNR { first[$1] = $2; next } $1 in first { e = 100 * ($2 / first[$1] - 1); n++; s += e < 0 ? -e : e
    if (e * e > worst * worst) { worst = e; shape = $1 } }
    END { if (n) printf "%d products: %.1f %% apart in the mean, at most %+.1f %% (%s)\n", n, s / n, worst, shape }' \
    "$work/products-first.txt" "$work/products-again.txt"
fi

# ranks_of COMM RANKS OPTIONS…: compares their numbers with one rank's
ranks_of() {
  comm=$1
  n=$2
  shift 2
  log=$work/ranks-$comm-$n$(echo "$*" | tr -d ' -').txt
  # cuDNN was compared before; with several ranks all its kernels would be loaded, which takes a while
  # shellcheck disable=SC2086 # a list of words
  STEPREAL_CUDNN=0 limited 60 mpirun -n "$n" "$stepreal" run --device cuda --comm "$comm" $tiny --precision fp32 "$@" --check \
    --start-timeout 30 --stall-timeout 40 >"$log" 2>&1
  code=$?
  check_verdict "$log" $code >"$work/said.txt" || code=$?
  [ "$code" -eq 0 ] || status=1
  echo "$comm, $n ranks, $*: exit $code $(paste -s -d ';' "$work/said.txt")"
  return $code
}

# Every kind of communication once, with MPI and with NCCL, unless NCCL hangs on a shared GPU.
check_ranks() {
  has_nccl=yes
  while read -r plan; do
    has_time || { leave_out "$plan and what comes after" "no time is left of LIMIT"; break; }
    # shellcheck disable=SC2086 # a list of words
    ranks_of mpi $plan
    if [ $has_nccl = yes ]; then
      # shellcheck disable=SC2086 # a list of words
      ranks_of nccl $plan
      case $? in 124 | 137) has_time && has_nccl=no && leave_out "nccl from here on" "it did not end" ;; esac
    fi
    keep
  done <<'PLANS'
2 --dp 2
2 --tp 2 --sequence-parallel on
2 --pp 2
2 --cp 2
4 --dp 2 --pp 2
2 --dp 2 --zero 3
2 --tp 2 --precision bf16
2 --cp 2 --cp-comm ulysses
2 --dp 2 --zero 1 --offload-optimizer host
2 --dp 2 --zero 3 --offload-optimizer host --offload-weights host
2 --tp 2 --framework torchtitan --norm-kernel fused --recompute selective
PLANS
}

if wanted ranks; then
  heading "numbers: several ranks on one GPU"
  if command -v mpirun >/dev/null; then check_ranks; else leave_out ranks "no mpirun is here"; fi
fi

if wanted sanitizer; then
  heading "the kernels under compute-sanitizer"
  tools="memcheck racecheck initcheck synccheck"
  command -v compute-sanitizer >/dev/null || { leave_out sanitizer "no compute-sanitizer is here"; tools=; }
  for tool in $tools; do
    # our kernels, by the file in the mangled name; no API errors: those cuBLASLt expects look like any other
    calls=$([ "$tool" = memcheck ] && echo "--report-api-errors no")
    # shellcheck disable=SC2086 # a list of words
    STEPREAL_CUDNN=0 alone 100 compute-sanitizer --tool $tool $calls --kernel-name kns=cuda_ --print-limit 20 \
      --error-exitcode 99 "$build/tests/test_cuda" >"$work/$tool.txt" 2>&1
    code=$?
    [ $code -eq 0 ] || status=1
    echo "$tool: exit $code; $(grep -E '^=+ (ERROR|RACECHECK) SUMMARY|rror: ' "$work/$tool.txt" | tail -n 1)"
    keep
  done
fi
heading "done, status $status"
finish $status
