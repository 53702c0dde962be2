#!/bin/sh
# Everything that needs a GPU, in one go: kernels against the CPU's, numerics of training, calibration, and steps predicted
# beside measured. Needs the build folder, or what pack-gpu.sh made of it; several ranks need an mpirun. Goes on after
# what fails; every command has a time limit. OUT_FOLDER keeps what is needed to judge, report.txt what is printed.
# Exits 77 where there is no GPU, 1 after a failure or where LIMIT left something out, 2 on what it cannot begin with.
# usage: real/validate-gpu.sh BUILD_FOLDER OUT_FOLDER [BASE_GPU_FILE]
# environment: PARTS, of which to run (default: all, as below); TP, of the calibration (default 1); LIMIT, seconds for all
# of it: what is under way then is ended, what comes after is left out, both are said. An H100 takes some ten minutes; in
# two goes, with half of that each: PARTS="machine kernels numbers ranks", PARTS="calibration steps again sanitizer"
set -u
export LC_ALL=C # by which awk reads and writes numbers
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
case ${LIMIT:-0} in
*[!0-9]*) echo "$0: LIMIT: found \"$LIMIT\", expected a whole number of seconds" >&2; exit 2 ;;
esac
for part in $parts; do
  case " $all_parts " in
  *" $part "*) ;;
  *) echo "$0: PARTS: found \"$part\", expected some of $all_parts" >&2; exit 2 ;;
  esac
done
mkdir -p "$out" || exit 2
if [ -z "${VALIDATE_GPU_TOLD:-}" ]; then # once more, with a copy of what it prints
  { VALIDATE_GPU_TOLD=1 sh "$0" "$@" 2>&1; echo $? >"$out/status"; } | tee "$out/report.txt"
  exit "$(cat "$out/status")"
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
status=0
began=$(date +%s)

# libraries: packed ones, CUDA's, those that come with Python packages (cuDNN, NCCL)
python_libraries() {
  python3 -c 'import glob, importlib.util as u
s = u.find_spec("nvidia")
print(":".join(d for p in (s.submodule_search_locations if s else []) for d in sorted(glob.glob(p + "/*/lib"))))' 2>/dev/null
}
libraries=$build/libs:/usr/local/cuda/lib64:$(python_libraries):${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/local/nvidia/lib64:/usr/local/nvidia/lib
PATH=$build/bin:$PATH
export PATH
export UCX_LOG_FILE=stderr # what MPI's transport has to say is no output of ours
: "${STEPSIM_DATA:=$build}"
export STEPSIM_DATA

number() { sed -n "s/.*\"$1\" *: *\([-0-9.e+]*\).*/\1/p" | head -n 1; }
heading() { printf '\n== %s (after %d s)\n' "$*" $(($(date +%s) - began)); }
# wanted PART: is it to be run, and is there time for it?
wanted() {
  case " $parts " in *" $1 "*) ;; *) return 1 ;; esac
  [ "$(left_s)" -ge 10 ] && return 0
  printf '\n== %s: left out, no time is left of LIMIT\n' "$1"
  status=1
  return 1
}
left_s() { echo $((${LIMIT:-1000000} - $(date +%s) + began)); }
# limited SECONDS COMMAND…: ours, with our libraries; 124 or 137 when it did not end, 125 when there was no time for it
limited() {
  limit=$1
  shift
  left=$(left_s)
  [ "$left" -lt 10 ] && { echo "not run: $left s are left of LIMIT" >&2; return 125; }
  [ "$limit" -lt "$left" ] || limit=$((left - 5))
  LD_LIBRARY_PATH=$libraries timeout -k 5 "$limit" "$@"
}
# alone SECONDS COMMAND…: one rank waits for nobody, so that CUDA may load kernels when they are first needed
alone() {
  export CUDA_MODULE_LOADING=LAZY
  limited "$@"
  code=$?
  unset CUDA_MODULE_LOADING
  return $code
}
# verdict FILE STATUS: what went wrong, and the whole status
verdict() {
  [ "$2" -eq 0 ] && return
  status=1
  echo "FAILED with status $2: $1"
  tail -n 5 "$1"
}
# A Llama of a given width: name, hidden, ffn, layers, heads, key heads
llama() {
  cat >"$out/$1.json" <<END
{"model_type": "llama", "hidden_size": $2, "intermediate_size": $3, "num_hidden_layers": $4, "num_attention_heads": $5,
 "num_key_value_heads": $6, "vocab_size": 32000, "max_position_embeddings": 8192, "tie_word_embeddings": false}
END
}
llama tiny 256 512 2 8 4
llama llama-2048 2048 5632 16 16 16
llama llama-4096 4096 11008 8 32 8
llama llama-8192 8192 28672 3 64 8

# one step of one rank: whatever else may fail in it is for the parts to say
if [ "$(left_s)" -ge 10 ]; then
  alone 60 "$stepreal" run --device cuda --comm null --model "$out/tiny.json" --seq-len 128 --global-batch 1 --steps 1 \
    >"$out/gpu.txt" 2>&1
  grep -q 'cudaGetDeviceCount' "$out/gpu.txt" && { echo "no GPU here: $(cat "$out/gpu.txt")"; exit 77; }
fi

if wanted machine; then
  heading "the machine"
  { date -u; uname -a; nvidia-smi; nvidia-smi -q -d CLOCK,POWER,PERFORMANCE,COMPUTE; } >"$out/machine.txt" 2>&1
  LD_LIBRARY_PATH=$libraries ldd "$stepreal" >"$out/libraries.txt" 2>&1
  # what is looked for when it is wanted
  for name in libcublasLt libcudnn libnccl; do
    # shellcheck disable=SC2046 # a list of folders
    find -L $(echo "$libraries" | tr ':' ' ') -maxdepth 1 -name "$name.so.*" 2>/dev/null | head -n 1 | grep . || echo "$name: not found"
  done >>"$out/libraries.txt"
  grep -m 1 -i 'driver version' "$out/machine.txt"
  grep -i 'not found' "$out/libraries.txt"
fi

if wanted kernels; then
  heading "kernels, streams and memory against the CPU's"
  alone 150 "$build/tests/test_cuda" >"$out/test_cuda.tap" 2>&1
  code=$?
  head -n 1 "$out/test_cuda.tap"
  grep -v '^ok' "$out/test_cuda.tap" | tail -n +2 | head -n 40
  grep -h -o 'cuDNN[^;]*' "$out/test_cuda.tap" | sort | uniq -c
  [ "$code" -eq 0 ] || { status=1; echo "FAILED with status $code: $out/test_cuda.tap"; tail -n 3 "$out/test_cuda.tap"; }
fi

if [ -z "$base" ]; then # by the GPU's name; none: peaks are the best that is measured
  case $(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1) in
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
    alone 60 "$stepreal" run --device cuda --model "$out/tiny.json" --seq-len 128 --global-batch 4 --steps 3 \
      --precision $precision --comm null --check --check-on cpu >"$out/check-$precision.txt" 2>&1
    verdict "$out/check-$precision.txt" $?
    sed -n '/numerics/,$p' "$out/check-$precision.txt"
  done
fi

if wanted calibration; then
  heading "calibration"
  calibrate() { # seconds, more options: goes on where it was stopped
    limit=$1
    shift
    alone "$limit" "$stepreal" calibrate --device cuda --comm null ${base:+--base "$base"} --model "$out/llama-2048.json" \
      --model "$out/llama-4096.json" --model "$out/llama-8192.json" --tp "${TP:-1}" --seq-len 2048,4096 --repeats 7 "$@" \
      --output "$out/gpu.yaml" >"$out/calibration.txt" 2>&1
    code=$?
    verdict "$out/calibration.txt" $code
    return $code
  }
  if ! calibrate 300; then
    echo "the same without the grid of sizes:"
    calibrate 150 --quick
  fi
  cat "$out/calibration.txt"
fi

# one_step MODEL LENGTH STEPS: a row of the table; traces, and what differs by kind of op, are kept
one_step() {
  model=$1
  length=$2
  name=$model-$length
  set -- --model "$out/$model.json" --seq-len "$length" --global-batch 4 --recipe megatron --steps "$3"
  cluster=
  [ -f "$out/gpu.yaml" ] && cluster=$out/gpu.yaml
  : >"$out/predicted-$name.json"
  if [ -n "$cluster" ]; then
    limited 60 "$stepsim" simulate "$@" --gpus 1 --cluster "$cluster" --fold off --trace "$out/trace-predicted-$name.json" --json \
      >"$out/predicted-$name.json" 2>"$out/predicted-$name.txt"
    verdict "$out/predicted-$name.txt" $?
  fi
  alone 90 "$stepreal" run "$@" --device cuda --comm null ${cluster:+--cluster "$cluster"} --json \
    --trace "$out/trace-measured-$name.json" >"$out/measured-$name.json" 2>"$out/measured-$name.txt"
  verdict "$out/measured-$name.txt" $?
  [ -n "$cluster" ] && limited 60 "$stepsim" compare "$out/trace-predicted-$name.json" "$out/trace-measured-$name.json" \
    >"$out/compare-$name.txt" 2>&1
  p=$(number step_time_s <"$out/predicted-$name.json")
  m=$(number step_time_s <"$out/measured-$name.json")
  f=$(number mfu <"$out/measured-$name.json")
  c=$(number clock_Hz <"$out/measured-$name.json")
  a=$(sed -n 's/.*"attention_backend" *: *"\([^"]*\)".*/\1/p' "$out/measured-$name.json" | head -n 1)
  echo "$model $length ${p:-0} ${m:-0} ${f:-0} ${c:-0}" | awk -v attention="${a:-}" '
    function ms(seconds) { return seconds > 0 ? sprintf("%.2f ms", 1e3 * seconds) : "none" }
    { e = ($3 > 0 && $4 > 0) ? sprintf("%+.1f%%", 100 * ($3 / $4 - 1)) : "none"
      printf("%-12s %6d %12s %12s %8s %7.1f%% %7.0f MHz  %s\n", $1, $2, ms($3), ms($4), e, 100 * $5, $6 / 1e6, attention) }'
}

if wanted steps; then
  heading "one-rank steps: predicted beside measured"
  printf '%-12s %6s %12s %12s %8s %8s %11s\n' model tokens predicted measured error MFU clock | tee "$out/steps.txt"
  # enough steps to bring the clock down, as the calibration does: two seconds and more
  for row in "llama-2048 2048 24" "llama-2048 4096 14" "llama-4096 2048 14" "llama-4096 4096 10" "llama-8192 2048 12" \
    "llama-8192 4096 8"; do
    [ "$(left_s)" -ge 10 ] || { echo "no time is left of LIMIT: $row and what comes after are left out"; status=1; break; }
    # shellcheck disable=SC2086 # a list of words
    one_step $row >"$out/row.txt"
    tee -a "$out/steps.txt" <"$out/row.txt"
    grep -q '^FAILED' "$out/row.txt" && status=1
  done
  sed -n 1,40p "$out/compare-llama-4096-2048.txt" 2>/dev/null
fi

# Times of products by shape: "number layout accumulate batch m n k" and us
products() { sed -n 's/^ *- {number: \(.*\), time: \([0-9.e+-]*\) us}$/\1|\2/p' "$1" | grep 'layout:' | sort; }

if wanted again && [ -f "$out/gpus/gpu.yaml" ]; then
  heading "one model calibrated again: how far do the same products repeat?"
  alone 100 "$stepreal" calibrate --device cuda --comm null ${base:+--base "$base"} --model "$out/llama-4096.json" --tp 1 \
    --seq-len 2048 --repeats 7 --quick --fresh --output "$out/again.yaml" >"$out/again.txt" 2>&1
  verdict "$out/again.txt" $?
  products "$out/gpus/gpu.yaml" >"$out/products-first.txt"
  products "$out/gpus/again.yaml" >"$out/products-again.txt"
  awk -F'|' 'NR == FNR { first[$1] = $2; next } $1 in first { e = 100 * ($2 / first[$1] - 1); n++; s += e < 0 ? -e : e
    if (e * e > worst * worst) { worst = e; shape = $1 } }
    END { if (n) printf "%d products: %.1f %% apart in the mean, at most %+.1f %% (%s)\n", n, s / n, worst, shape }' \
    "$out/products-first.txt" "$out/products-again.txt"
fi

if wanted ranks && command -v mpirun >/dev/null; then
  heading "numbers: several ranks on one GPU"
  for comm in mpi nccl; do
    [ "$(left_s)" -ge 10 ] || { echo "no time is left of LIMIT: --comm $comm is left out"; status=1; break; }
    for plan in "--dp 2" "--tp 2 --sequence-parallel on" "--pp 2" "--dp 2 --zero 3" "--cp 2"; do
      log=$out/ranks-$comm-$(echo "$plan" | tr -d ' -').txt
      # shellcheck disable=SC2086 # a list of words
      limited 75 mpirun -n 2 "$stepreal" run --device cuda --comm $comm --model "$out/tiny.json" --seq-len 128 \
        --global-batch 4 --steps 3 --precision fp32 $plan --check --stall-timeout 40 >"$log" 2>&1
      code=$?
      [ "$code" -eq 0 ] || status=1
      echo "$comm $plan: exit $code $(grep -E 'equal|EQUAL|stepreal:' "$log" | head -n 1)"
    done
  done
fi
if wanted sanitizer && command -v compute-sanitizer >/dev/null; then
  heading "the kernels under compute-sanitizer"
  for tool in memcheck racecheck initcheck synccheck; do
    STEPREAL_CUDNN=0 alone 100 compute-sanitizer --tool $tool --kernel-regex kns=cuda_ --print-limit 20 "$build/tests/test_cuda" \
      >"$out/$tool.txt" 2>&1
    echo "$tool: exit $?; $(grep -E '^=+ (ERROR|RACECHECK) SUMMARY' "$out/$tool.txt" | tail -n 1)"
  done
fi
heading "done, status $status"
exit $status
