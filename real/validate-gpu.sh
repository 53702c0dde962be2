#!/bin/sh
# Everything that needs a GPU, in parts: kernels against the CPU's, training numerics, calibration, predicted against
# measured steps, other programs' times of the same kernels. Needs the build folder, or what pack-gpu.sh made of it.
#
# OUT_FOLDER gets
#   measurements/GPU/  ready to commit: README.md, the CSV files it is made from, and the calibrated cluster and GPU files
#   report.txt         what each run printed, one after the other
#   details/PART/      logs, measured traces, and TASK.result: verdict, seconds, first line of what was said
# and keeps what earlier runs put there: what has passed is not run again, what failed or was left out is. So parts can
# be run one by one, and a run that was ended goes on. A signal (HUP, INT, TERM) ends the running command.
#
# usage: real/validate-gpu.sh BUILD_FOLDER OUT_FOLDER [BASE_GPU_FILE]
#        real/validate-gpu.sh --list   parts with the most seconds each may take, steps that are timed, plans of ranks
# environment:
#   PARTS   parts to run (default: all); page: only predict again and write the page, which needs no GPU
#   LIMIT   seconds for the whole run; what is not done by then is left out
#   FRESH   yes: forget what earlier runs found in these parts
#   TP      tensor-parallel sizes of the calibration (default 1,8)
#   DEVICE  cuda (default), or cpu: the same with sizes divided by 64, two layers and few steps, to try this script
# Exit status: 0 all is well; 1 something failed, a signal, or a GPU that cannot be used; 2 it cannot start; 3 nothing
# failed, but time ran out: the same command goes on; 77 no GPU. What this machine does not have (PyTorch, ncu) is said,
# and is no failure.
# shellcheck disable=SC2317 # tasks are called by attempt, parts by their names
set -u
export LC_ALL=C # for awk's number format

# --- what there is to do ---

# Parts in their order, and the most seconds each may take: at most 540 each, 2,100 together
parts_table() {
  cat <<'END'
machine 90
kernels 150
numbers 240
calibration 450
steps 330
again 60
crosscheck 360
ranks 240
sanitizer 180
END
}

# name, family, hidden, ffn, layers, heads, key heads, words
models_table() {
  cat <<'END'
llama-2048 llama 2048 5632 16 16 16 32000
llama-4096 llama 4096 11008 8 32 8 32000
llama-8192 llama 8192 28672 3 64 8 32000
llama-5120 llama 5120 13824 6 40 40 32000
llama-3072-128k llama 3072 8192 8 24 8 128256
gpt-2560 gpt2 2560 10240 16 20 20 50304
moe-3584 mixtral 3584 2560 6 28 4 32000
llama-1024 llama 1024 2816 24 8 8 32000
END
}

# Steps that are timed: kind, model, tokens, micro-batch, format, steps. The calibration times the layers of each
# calibrated model at each calibrated length, so no product of a held-out step may be among those; predictions say
# whether that is so, and a step on the wrong side fails. Enough steps to bring the clock to what it is under load.
rows_table() {
  cat <<'END'
calibrated llama-4096 2048 1 bf16 14
held-out llama-5120 2048 1 bf16 12
calibrated llama-2048 2048 1 bf16 24
held-out llama-4096 3072 1 bf16 10
calibrated llama-8192 2048 1 bf16 12
held-out llama-3072-128k 2048 1 bf16 14
held-out gpt-2560 2048 1 bf16 14
held-out moe-3584 2048 1 bf16 14
held-out llama-1024 512 1 bf16 60
held-out llama-4096 4096 2 bf16 8
calibrated llama-4096 4096 1 bf16 10
calibrated llama-2048 4096 1 bf16 14
calibrated llama-8192 4096 1 bf16 8
held-out llama-5120 2048 1 fp8 14
END
}

# Plans whose numbers are compared with one rank's: communication, ranks, options. Each kind of transfer once by NCCL.
plans_table() {
  cat <<'END'
nccl 2 --tp 2 --sequence-parallel on
nccl 4 --dp 2 --pp 2
nccl 2 --cp 2
nccl 2 --cp 2 --cp-comm ulysses
nccl 2 --dp 2 --zero 3 --offload-optimizer host --offload-weights host
mpi 4 --dp 2 --pp 2
mpi 2 --tp 2 --precision bf16
END
}

if [ "${1:-}" = --list ] && [ $# -eq 1 ]; then
  parts_table | sed 's/^/part /'
  rows_table | sed 's/^/step /'
  plans_table | sed 's/^/plan /'
  exit 0
fi

# --- what is asked for ---

if [ $# -lt 2 ] || [ $# -gt 3 ]; then
  echo "usage: $0 BUILD_FOLDER OUT_FOLDER [BASE_GPU_FILE]" >&2
  exit 2
fi
build=$1
out=$2
base=${3:-}
scripts=$(cd "$(dirname "$0")" && pwd)
device=${DEVICE:-cuda}
all_parts=$(parts_table | sed 's/ .*//' | tr '\n' ' ')
parts=${PARTS:-$all_parts}
for program in sim/stepsim real/stepreal tests/test_cuda; do
  [ -x "$build/$program" ] && continue
  echo "$0: found no program $build/$program; expected a folder built by ninja with -Dcuda=enabled, or what pack-gpu.sh packed" >&2
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
case $device in
cuda | cpu) ;;
*)
  echo "$0: DEVICE: found \"$device\", expected cuda or cpu" >&2
  exit 2
  ;;
esac
case ${FRESH:-no} in
yes | no) ;;
*)
  echo "$0: FRESH: found \"$FRESH\", expected yes or no" >&2
  exit 2
  ;;
esac
for tool in timeout awk gzip; do
  command -v "$tool" >/dev/null && continue
  echo "$0: found no $tool on PATH, without which nothing can be run" >&2
  exit 2
done
for part in $parts; do
  case " $all_parts page " in
  *" $part "*) ;;
  *)
    echo "$0: PARTS: found \"$part\", expected some of ${all_parts}page" >&2
    exit 2
    ;;
  esac
done
mkdir -p "$out" || exit 2
build=$(cd "$build" && pwd)
out=$(cd "$out" && pwd)
details=$out/details
if [ -z "${VALIDATE_GPU_WORK:-}" ]; then # run this script again, with a copy of its output
  if ! { (: >>"$out/report.txt") && mkdir -p "$details"; } 2>/dev/null; then
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
  (trap '' HUP INT TERM; exec tee -a "$out/report.txt") <"$VALIDATE_GPU_WORK/printed" &
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
work=$VALIDATE_GPU_WORK
exec 3>&1 # where a signal is reported, whatever stdout is at that time
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
stepsim=$build/sim/stepsim
stepreal=$build/real/stepreal
short="timeout -k 5 30" # for commands that take a second, unless a GPU or a disk hangs
spare_s=5               # what ending a command and writing the page may take
began=$(date +%s)
part_ends=$((began + 1000000000))
n_passed=0 failed='' late='' absent=''

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

# name of the GPU, as files are named; the folder to commit; its cluster file
set_name() {
  name=$(sed 's/,.*//' "$details/machine/name" 2>/dev/null | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9-')
  name=${name:-gpu}
  page=$out/measurements/$name
  cluster=$page/$name.yaml
  gpu_file=$page/gpus/$name.yaml
}
set_name

# --- time, results, signals ---

heading() { printf '\n== %s (after %d s)\n' "$*" $(($(date +%s) - began)); }
# has_time: is there time for anything? Sets $now, and $left_s of the whole run or of this part, whichever ends first
has_time() {
  now=$(date +%s)
  left_s=$((${LIMIT:-1000000000} - now + began))
  [ "$left_s" -lt $((part_ends - now)) ] || left_s=$((part_ends - now))
  [ "$left_s" -ge $((2 * spare_s)) ]
}
# Ends background processes: the clock log and, on a signal, the running command. Each is a timeout, which passes TERM
# on to its whole group and kills what is left 5 s later.
end_jobs() {
  jobs -p >"$work/jobs"
  while read -r job; do kill "$job" 2>/dev/null; done <"$work/jobs"
  wait
}
finish() { # exit status
  trap '' HUP INT TERM
  end_jobs
  exit "$1"
}
# shellcheck disable=SC2317 # the trap calls it
end_early() {
  trap '' HUP INT TERM
  heading "ended by a signal" >&3
  end_jobs >&3 2>&1
  write_page >&3 2>&1
  finish 1 >&3
}
trap end_early HUP INT TERM

# limited SECONDS COMMAND…: one of our programs, with our libraries; 124 or 137 if it timed out, 125 if no time was left.
# $is_short: it got less than these seconds
limited() {
  limit=$1
  shift
  has_time || return 125
  most=$((left_s - spare_s))
  is_short=
  [ "$limit" -le "$most" ] || { limit=$most is_short=yes; }
  LD_LIBRARY_PATH=$libraries timeout -k 5 "$limit" "$@" </dev/null 3>&- &
  wait $! # a signal interrupts this; without it the command would have to end first
}

# What a task returns, beside 0 (passed) and the statuses of programs (failed)
not_here=69 # what it needs is not on this machine
no_time=75

# record VERDICT SECONDS LINE: the result of $task of $part, with what it said
record() {
  said=$3
  case $said in *[,\"\|]*) said=$(echo "$said" | tr ',"|' ';  ') ;; esac
  echo "$part,$task,$1,$2,$said" >"$folder/$task.result"
}
read_line() { IFS= read -r line <"$1" 2>/dev/null || line=; } # FILE: its first line, "" if there is none

# attempt TASK COMMAND…: runs a task of $part unless it has passed, and shows what it says
attempt() {
  task=$1
  shift
  before=
  if [ -f "$folder/$task.result" ]; then
    IFS=, read -r _ _ before _ <"$folder/$task.result"
  fi
  if [ "$before" = passed ]; then
    n_passed=$((n_passed + 1))
    printf '(before) '
    cat "$folder/$task.said"
    return 0
  fi
  is_short=yes code=125 line=
  has_time && code=0
  from=$now
  if [ $code -eq 0 ]; then
    "$@" >"$folder/$task.said" 2>&1
    code=$?
    cat "$folder/$task.said"
    read_line "$folder/$task.said"
  fi
  took=$(($(date +%s) - from))
  case $code,$is_short in
  0,*)
    n_passed=$((n_passed + 1))
    record passed $took "$line"
    ;;
  "$not_here",*)
    absent="$absent $part/$task"
    record "not here" $took "$(tail -n 1 "$folder/$task.said")"
    ;;
  "$no_time",* | 125,* | 124,yes | 137,yes)
    late="$late $part/$task"
    echo "$task: left out, no time is left; the same command goes on"
    [ "$before" = FAILED ] || record "left out" $took "$line" # an earlier failure stays one
    ;;
  *)
    failed="$failed $part/$task"
    case $code in 124 | 137) echo "did not end within $limit s" ;; esac
    echo "FAILED with status $code: $part/$task"
    record FAILED $took "$line"
    ;;
  esac
  return $code
}

show_end() { [ ! -s "$1" ] || tail -n 5 "$1"; }
# of a JSON object: key, file
number() { sed -n "s/.*\"$1\" *: *\([-0-9.e+]*\).*/\1/p" "$2" | head -n 1; }
text() { sed -n "s/.*\"$1\" *: *\"\([^\"]*\)\".*/\1/p" "$2" | head -n 1; }

# by_cudnn BACKEND: is all attention cuDNN's? On a CPU there is none.
by_cudnn() {
  [ "$device" = cuda ] || return 0
  case $1 in
  *"own kernels"*) ;;
  cuDNN*) return 0 ;;
  esac
  echo "attention was by ${1:-nothing that says its name}, expected cuDNN"
  return 1
}

# compute capabilities that there is code for: by the folder's build file, or as pack-gpu.sh read it there
architectures() {
  if [ -f "$build/ARCHITECTURES" ]; then
    cat "$build/ARCHITECTURES"
  else
    grep -o 'code=sm_[0-9]*' "$build/build.ninja" 2>/dev/null | sed 's/.*_//' | sort -un | paste -sd, -
  fi
}

# --- models and steps ---

scale=1 # what sizes are divided by; if by more than 1, steps are few as well
[ "$device" = cuda ] || scale=64
models=$work/models
mkdir "$models"
# divide_sizes: of a line of models_table, read into variables of these names
divide_sizes() {
  hidden=$((hidden / scale)) ffn=$((ffn / scale / 16 * 16)) words=$((words / scale)) # fp8 multiplies by sixteens
  [ "$scale" -eq 1 ] || layers=2
}
# write_models LAYERS SUFFIX: all of the table, with so many layers or with their own
write_models() {
  models_table | while read -r model family hidden ffn layers heads key_heads words; do
    layers=${1:-$layers}
    divide_sizes
    experts=
    [ "$family" = mixtral ] && experts=', "num_local_experts": 8, "num_experts_per_tok": 2'
    if [ "$family" = gpt2 ]; then
      echo "{\"model_type\": \"gpt2\", \"n_embd\": $hidden, \"n_inner\": $ffn, \"n_layer\": $layers, \"n_head\": $heads," \
        "\"vocab_size\": $words, \"n_positions\": 8192, \"resid_pdrop\": 0, \"attn_pdrop\": 0, \"embd_pdrop\": 0}"
    else
      echo "{\"model_type\": \"$family\", \"hidden_size\": $hidden, \"intermediate_size\": $ffn, \"num_hidden_layers\": $layers," \
        "\"num_attention_heads\": $heads, \"num_key_value_heads\": $key_heads, \"vocab_size\": $words," \
        "\"max_position_embeddings\": 8192, \"tie_word_embeddings\": false$experts}"
    fi >"$models/$model$2.json"
  done
}
write_models '' ''
write_models 2 -of-2
cat >"$models/tiny.json" <<'END'
{"model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 8,
 "num_key_value_heads": 4, "vocab_size": 1000, "max_position_embeddings": 8192, "tie_word_embeddings": false}
END
tiny="--model $models/tiny.json --seq-len 128 --global-batch 4 --steps 3"
[ "$scale" -eq 1 ] || tiny="--model $models/llama-1024-of-2.json --seq-len 16 --global-batch 4 --steps 1"

# set_row KIND MODEL TOKENS MICRO-BATCH FORMAT STEPS: a line of rows_table
set_row() {
  kind=$1 model=$2 tokens=$(($3 / scale)) micro_batch=$4 precision=$5 steps=$6
  row=$2-$3-$4-$5
  [ "$scale" -eq 1 ] || steps=3
  plan="--model $models/$model.json --seq-len $tokens --micro-batch $micro_batch --global-batch 4 --precision $precision
    --recipe megatron --steps $steps"
  measured=$details/steps/$row.json predicted=$details/steps/$row-predicted
}

# --- the page ---

checksum() { cksum "$@" | cksum | cut -d ' ' -f 1; }

# Predicts measured steps from the calibration that there is, unless that was done with the same files
predict_rows() {
  [ -f "$cluster" ] || return 0
  key=$(checksum "$cluster" "$gpu_file" "$stepsim")
  rows_table >"$work/rows"
  while read -r line; do
    # shellcheck disable=SC2086 # a list of words
    set_row $line
    [ -s "$measured" ] || continue
    asks="$key $line"
    [ ! -f "$predicted.key" ] || read_line "$predicted.key"
    [ "$line" != "$asks" ] || continue
    # shellcheck disable=SC2086
    LD_LIBRARY_PATH=$libraries $short "$stepsim" simulate $plan --gpus 1 --cluster "$cluster" --fold off --json \
      --trace "$work/predicted-trace.json" >"$predicted.json" 2>"$predicted.txt"
    [ ! -s "$predicted.json" ] || echo "$asks" >"$predicted.key"
    gzip -dc "$details/steps/$row-trace.json.gz" >"$work/measured-trace.json" 2>/dev/null &&
      LD_LIBRARY_PATH=$libraries $short "$stepsim" compare "$work/predicted-trace.json" "$work/measured-trace.json" \
        >"$details/steps/$row-compare.txt" 2>&1
    rm -f "$work/predicted-trace.json" "$work/measured-trace.json"
  done <"$work/rows"
}

# A task: are the steps on the side that rows_table says, and are all measured ones predicted?
check_rows() {
  n_wrong=0 n_rows=0 unpredicted=
  rows_table >"$work/rows"
  while read -r line; do
    # shellcheck disable=SC2086 # a list of words
    set_row $line
    [ -s "$measured" ] || continue
    if [ ! -s "$predicted.json" ]; then
      unpredicted="$row was not predicted: $(head -n 1 "$predicted.txt" 2>/dev/null)"
      grep -qs 'has no peak rate for$' "$predicted.txt" && continue # in this format
      echo "$unpredicted"
      n_wrong=$((n_wrong + 1))
      continue
    fi
    n_rows=$((n_rows + 1))
    n_timed=$(number measured "$predicted.json")
    n_others=$(($(number interpolated "$predicted.json") + $(number modelled "$predicted.json")))
    case $kind in
    held-out) [ "$n_timed" -eq 0 ] && continue ;;
    *) [ "$n_others" -eq 0 ] && continue ;;
    esac
    echo "$row is not $kind: the calibration timed $n_timed of its $((n_timed + n_others)) products"
    n_wrong=$((n_wrong + 1))
  done <"$work/rows"
  [ "$n_wrong" -gt 0 ] || echo "$n_rows steps are calibrated or held out, as they are said to be${unpredicted:+; $unpredicted}"
  return $((n_wrong > 0))
}

# rows.csv of all measured steps, in the order of the table. Columns that stepsim validate knows have its names.
write_rows() {
  printf '%s' kind,name,model_name,layers,hidden,heads,kv_heads,ffn_hidden,gated,vocab,experts,experts_per_token,seq_len,
  printf '%s' micro_batch,global_batch,precision,steps,attention_backend,step_time_s,least_step_s,most_step_s,
  printf '%s' tflops_per_gpu,mfu,clock_MHz,late_ops,ops,predicted_step_time_s,measured_products,interpolated_products,
  printf '%s\n' modelled_products,build
  rows_table >"$work/rows"
  models_table >"$work/models-table"
  while read -r line; do
    # shellcheck disable=SC2086 # a list of words
    set_row $line
    [ -s "$measured" ] || continue
    while read -r each family hidden ffn layers heads key_heads words; do [ "$each" != "$model" ] || break; done <"$work/models-table"
    divide_sizes
    gated=1 experts=,
    [ "$family" = gpt2 ] && gated=0
    [ "$family" = mixtral ] && experts=8,2
    printf '%s,' "$kind" "$row" "$model" "$layers" "$hidden" "$heads" "$key_heads" "$ffn" $gated "$words" $experts "$tokens" \
      "$micro_batch" 4 "$precision" "$steps"
    printf '|%s|%s|%s\n' "$measured" "$predicted.json" "${measured%.json}.build"
  done <"$work/rows" | awk -F'|' '
    function text_of(file,   line, text) {
      while ((getline line <file) > 0) text = text line
      close(file)
      return text
    }
    function value(key, text) { # a number, a word, or the numbers of a list
      if (!match(text, "\"" key "\" *: *(\"[^\"]*\"|\\[[^]]*|[-0-9.e+]*)")) return ""
      text = substr(text, RSTART, RLENGTH)
      sub(/^"[^"]*" *: */, "", text)
      gsub(/[\["]/, "", text)
      return text
    }
    {
      measured = text_of($2); predicted = text_of($3)
      n = split(value("step_times_s", measured), times, ", *")
      least = most = n > 1 ? times[2] : "" # the first warms up
      for (i = 3; i <= n; i++) { if (times[i] < least) least = times[i]; if (times[i] > most) most = times[i] }
      backend = value("attention_backend", measured); gsub(",", ";", backend)
      tflops = value("tflops_per_gpu", measured); clock = value("clock_Hz", measured)
      predicted_tflops = value("tflops_per_gpu", predicted) # by the same convention, of the same peak
      print $1 backend "," value("step_time_s", measured) "," least "," most "," tflops "," \
        (predicted_tflops > 0 ? sprintf("%.4g", tflops / predicted_tflops * value("mfu", predicted)) : "") "," \
        (clock > 0 ? sprintf("%.0f", clock / 1e6) : "") "," \
        value("late", measured) "," value("ops", measured) "," value("step_time_s", predicted) "," \
        value("measured", predicted) "," value("interpolated", predicted) "," value("modelled", predicted) "," text_of($4)
    }'
}

write_facts() {
  echo "GPU,$(cat "$details/machine/name")"
  cat "$details/machine/facts.csv" 2>/dev/null
  awk -F', ' '$2 + 0 > 0 { clock[++n] = $2 + 0; power += $4
      for (i = n; i > 1 && clock[i - 1] > clock[i]; i--) { c = clock[i]; clock[i] = clock[i - 1]; clock[i - 1] = c } }
    END { if (n) printf "SM clock while steps ran,%.0f MHz in the median of %d looks; mean power %.0f W\n",
        clock[int((n + 1) / 2)], n, power / n }' "$details/steps/clocks.csv" 2>/dev/null
  echo "cluster file,$name.yaml"
  sed -n '/^ *source: >-$/ { n; s/^ */calibration,/p; q }' "$gpu_file" 2>/dev/null
}

# Makes the folder to commit anew from the details
write_page() {
  [ -s "$details/machine/name" ] || return 0
  mkdir -p "$page"
  write_facts >"$page/facts.csv"
  write_rows >"$page/rows.csv"
  parts_table | while read -r each _; do cat "$details/$each"/*.result 2>/dev/null; done >"$page/checks.csv"
  cat "$details"/crosscheck/*.csv >"$page/crosscheck.csv" 2>/dev/null
  awk -f "$scripts/gpu_page.awk" "$page/facts.csv" "$page/rows.csv" "$page/checks.csv" "$page/crosscheck.csv" \
    >"$work/README.md" && mv "$work/README.md" "$page/README.md"
}

# --- machine ---

fact() { # name, value, if there is one
  [ -z "$2" ] || echo "$1,$2"
}

describe_machine() {
  { date -u; uname -a; $short lscpu; free -g; $short df -h /dev/shm /tmp; } >"$folder/machine.txt" 2>&1
  { $short nvidia-smi; $short nvidia-smi topo -m; $short nvidia-smi -q; } >"$folder/nvidia-smi.txt" 2>&1
  LD_LIBRARY_PATH=$libraries $short ldd "$stepreal" >"$folder/libraries.txt" 2>&1
  # libraries that are loaded on first use
  for library in libcublasLt libcudnn libnccl libnvidia-ml; do
    # shellcheck disable=SC2046 # a list of folders
    $short find -L $(echo "$libraries" | tr ':' ' ') -maxdepth 1 -name "$library.so.*" 2>/dev/null | head -n 1 | grep . ||
      $short ldconfig -p 2>/dev/null | grep -m 1 "$library.so" || echo "$library: not found"
  done >>"$folder/libraries.txt"
  driver=$($short nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1)
  {
    fact "measured on" "$(date -u +%Y-%m-%d)"
    fact driver "$driver"
    fact "compute capability" "$capability"
    fact "code in the build for" "$(architectures)"
    fact processor "$(sed -n 's/^Model name: *//p' "$folder/machine.txt" | head -n 1)"
    fact kernel "$(uname -sr)"
  } >"$folder/facts.csv"
  # one step of one rank
  # shellcheck disable=SC2086 # a list of words
  limited 80 "$stepreal" run --device "$device" --comm null $tiny --global-batch 1 --steps 1 --json >"$folder/first.json" 2>"$folder/first.txt"
  code=$?
  text device_name "$folder/first.json" >"$folder/name"
  [ -s "$folder/name" ] || echo "${gpu:-gpu}" >"$folder/name"
  echo "$(cat "$folder/name"), driver ${driver:-none}"
  grep -i 'not found' "$folder/libraries.txt"
  show_end "$folder/first.txt"
  return "$code"
}

part_machine() {
  attempt first describe_machine
  if grep -qs 'no CUDA device on this machine' "$folder/first.txt"; then
    echo "no GPU here"
    finish 77
  fi
  if grep -qs 'driver is too old\|cudaGetDeviceCount' "$folder/first.txt"; then
    echo "the GPU here cannot be used"
    finish 1
  fi
  set_name
}

# --- kernels ---

compare_kernels() {
  log=$folder/test_cuda.txt
  [ "$device" = cuda ] || export STEPREAL_TEST_DEVICE=cpu
  limited 120 "$build/tests/test_cuda" >"$log" 2>&1
  code=$?
  tail -n 1 "$log"
  head -n 1 "$log"
  grep -v '^ok' "$log" | sed '1d; $d' | head -n 40
  grep -o '\(cuDNN [0-9]\|own kernels\)[^;]*' "$log" | sort | uniq -c
  return "$code"
}

part_kernels() { attempt kernels compare_kernels; }

# --- numbers ---

# check_verdict FILE STATUS: prints the verdict in a log of --check and, if there is one, that of the same Program in fp32,
# or why there is none. Returns STATUS, or 1 if it is 0 and a verdict is not "equal".
check_verdict() {
  awk '
    /^ *(equal|NOT EQUAL):/ { sub(/^ */, ""); print n_verdicts++ ? "in fp32: " $0 : $0 }
    /stepreal:/ && !n_errors++' "$1"
  [ "$2" -eq 0 ] || return "$2"
  grep -qE '^ *equal:' "$1" && ! grep -q 'NOT EQUAL' "$1"
}

# check_numbers SECONDS FORMAT OPTIONS…: one rank on the GPU against one on the CPU
check_numbers() {
  seconds=$1 precision=$2 log=$folder/$task.txt
  shift 2
  limited "$seconds" "$stepreal" run --device "$device" --comm null "$@" --precision "$precision" --check --check-on cpu >"$log" 2>&1
  code=$?
  if grep -q 'cannot be trained here' "$log"; then
    cat "$log"
    return "$not_here"
  fi
  backend=$(sed -n 's/^ *attention  *//p' "$log" | head -n 1)
  check_verdict "$log" "$code" >"$work/verdict" || code=$?
  echo "$task: exit $code $(paste -s -d ';' "$work/verdict")${backend:+; attention by $backend}"
  if [ "$code" -eq 0 ] && [ "$precision" = bf16 ]; then by_cudnn "$backend" || code=1; fi
  sed -n '/^numerics/,$p' "$log"
  return "$code"
}

# The same training by cuDNN's attention and by ours, at a length that is timed. Losses may differ by the bound of
# --check for losses in bf16.
compare_backends() {
  log=$folder/$task
  for cudnn in 1 0; do
    STEPREAL_CUDNN=$cudnn limited 60 "$stepreal" run --device "$device" --comm null --model "$models/llama-2048-of-2.json" \
      --seq-len $((2048 / scale)) --global-batch 2 --precision bf16 --steps 3 --json >"$log-$cudnn.json" 2>"$log-$cudnn.txt"
    code=$?
    [ "$code" -eq 0 ] || { show_end "$log-$cudnn.txt"; return "$code"; }
  done
  for cudnn in 1 0; do sed -n 's/.*"losses": \[\([^]]*\)\].*/\1/p' "$log-$cudnn.json"; done | awk -F', *' '
    NR == 1 { n = split($0, first) }
    NR == 2 { n_second = NF; for (i = 1; i <= n; i++) { d = ($i - first[i]) / first[i]; d = d < 0 ? -d : d; if (!(d <= worst)) worst = d } }
    END { printf "%d losses by cuDNN and by own kernels: at most %.1e apart, allowed 2e-4\n", n, worst
      exit !(n == 3 && n_second == n && worst <= 2e-4) }' || return 1
  by_cudnn "$(text attention_backend "$log-1.json")"
}

part_numbers() {
  for each in fp32 bf16 fp16 fp8; do
    # shellcheck disable=SC2086 # a list of words
    attempt "$each" check_numbers 60 "$each" $tiny
  done
  attempt timed-shapes check_numbers 120 bf16 --model "$models/llama-2048-of-2.json" --seq-len $((512 / scale)) \
    --global-batch 1 --steps 1
  attempt backends compare_backends
}

# --- calibration ---

# calibrate SECONDS FILE OPTIONS…: goes on where it was stopped
calibrate() {
  seconds=$1 file=$2
  shift 2
  limited "$seconds" "$stepreal" calibrate --device "$device" --comm null --precision bf16 ${base:+--base "$base"} "$@" \
    --output "$file" >"$folder/$task.txt" 2>&1
}

calibrated_options() {
  rows_table | awk -v models="$models" -v scale="$scale" '$1 == "calibrated" {
      if (!seen[$2]++) options = options " --model " models "/" $2 ".json"
      if (!seen[$3]++) lengths = lengths (lengths == "" ? "" : ",") $3 / scale }
    END { print options " --seq-len " lengths }'
}

# publish FOLDER: its files become those that steps are predicted from
publish() {
  mkdir -p "$page/gpus" "$page/nccl"
  for each in $name.yaml gpus/$name.yaml nccl/$name.yaml; do cp "$1/$each" "$page/$each" || return 1; done
}

# All of it; if that does not end in time, what was measured by then, without the grid of other sizes
calibrate_all() {
  how="--tp ${TP:-1,8} --repeats 7" grid=
  [ "$scale" -eq 1 ] || { how="--tp ${TP:-1,8} --repeats 2" grid=--quick; }
  quick_s=90
  has_time
  seconds=$((left_s - quick_s))
  [ "$seconds" -ge 20 ] || seconds=20
  # shellcheck disable=SC2046,SC2086 # lists of words
  calibrate "$seconds" "$folder/$name.yaml" $(calibrated_options) $how $grid
  code=$?
  case $code in
  124 | 137)
    echo "not ended after $limit s; measured by then:"
    sed -n 's/^done /  /p' "$folder/$name.yaml.progress" 2>/dev/null
    mkdir -p "$folder/quick"
    cp "$folder/$name.yaml.progress" "$folder/quick/" 2>/dev/null
    # shellcheck disable=SC2046,SC2086
    calibrate "$quick_s" "$folder/quick/$name.yaml" $(calibrated_options) $how --quick &&
      publish "$folder/quick" && echo "steps are predicted without the grid of sizes"
    return "$no_time"
    ;;
  0) ;;
  *)
    show_end "$folder/$task.txt"
    return "$code"
    ;;
  esac
  publish "$folder" || return 1
  cat "$folder/$task.txt"
  by_cudnn "$(sed -n 's/.*attention by //p' "$gpu_file" | head -n 1)"
}

part_calibration() { attempt calibrate calibrate_all; }

# --- steps ---

time_row() {
  log=$details/steps/$row
  # shellcheck disable=SC2086 # a list of words
  limited 90 "$stepreal" run $plan --device "$device" --comm null --json --trace "$work/trace.json" >"$work/measured.json" 2>"$log.txt"
  code=$?
  if grep -q 'cannot be trained here' "$log.txt"; then
    cat "$log.txt"
    return "$not_here"
  fi
  [ "$code" -eq 0 ] || { show_end "$log.txt"; return "$code"; }
  checksum "$stepreal" >"$log.build"
  gzip -c "$work/trace.json" >"$log-trace.json.gz"
  mv "$work/measured.json" "$measured"
  backend=$(text attention_backend "$measured")
  echo "$row: $(number step_time_s "$measured" | awk '{ printf "%.2f ms", 1e3 * $1 }')${backend:+, attention by $backend}"
  by_cudnn "$backend"
}

part_steps() {
  if [ "$device" = cuda ] && command -v nvidia-smi >/dev/null; then # rarely, and only now: each look takes the driver's locks
    has_time
    timeout -k 5 "$left_s" nvidia-smi --format=csv -lms 2000 \
      --query-gpu=timestamp,clocks.sm,clocks.mem,power.draw,temperature.gpu,memory.used,clocks_event_reasons.active \
      >>"$folder/clocks.csv" 2>&1 </dev/null 3>&- &
  fi
  rows_table >"$work/rows-to-time"
  while read -r line <&4; do
    # shellcheck disable=SC2086 # a list of words
    set_row $line
    attempt "$row" time_row
  done 4<"$work/rows-to-time"
  end_jobs
}

# --- again ---

# Times of products by shape: "number layout accumulate batch m n k" and us
products() { sed -n 's/^ *- {number: \(.*\), time: \([0-9.e+-]*\) us}$/\1|\2/p' "$1" | grep 'layout:' | sort; }

has_calibration() {
  [ -f "$cluster" ] && return
  echo "there is no calibration yet"
  return 1
}

calibrate_again() {
  has_calibration || return "$no_time"
  calibrate 60 "$folder/again.yaml" --model "$models/llama-4096.json" --tp 1 --seq-len $((2048 / scale)) --repeats 7 --quick --fresh
  code=$?
  [ "$code" -eq 0 ] || { show_end "$folder/$task.txt"; return "$code"; }
  products "$gpu_file" >"$work/products-first"
  products "$folder/gpus/again.yaml" >"$work/products-again"
  awk -F'|' 'NR == FNR { first[$1] = $2; next } $1 in first { e = 100 * ($2 / first[$1] - 1); n++; s += e < 0 ? -e : e
      if (e * e >= worst * worst) { worst = e; shape = $1 } }
    END { if (n) printf "%d products timed again: %.1f %% apart in the mean, at most %+.1f %% (%s)\n", n, s / n, worst, shape
      exit !n }' "$work/products-first" "$work/products-again"
}

part_again() { attempt again calibrate_again; }

# --- other programs ---

# crosscheck ARGUMENTS…: of crosscheck.py; rows go to a file of this task
crosscheck() {
  has_calibration || return "$no_time"
  command -v python3 >/dev/null || { echo "no python3 here"; return "$not_here"; }
  timeout -k 5 "$((left_s - spare_s))" python3 "$scripts/crosscheck.py" "$@" --csv "$folder/$task.csv" --device "$device" </dev/null 3>&- &
  wait $!
  code=$?
  case $code in 124 | 137) return "$no_time" ;; esac
  return "$code"
}

# A step of a held-out model in plain PyTorch, eager or compiled, beside what stepsim predicts of a framework like that
crosscheck_stack() {
  has_calibration || return "$no_time"
  LD_LIBRARY_PATH=$libraries $short "$stepsim" simulate --model "$models/llama-5120.json" --seq-len $((2048 / scale)) --global-batch 4 \
    --precision bf16 --recipe w2+g2+m2+v2 --framework "$2" --gpus 1 --cluster "$cluster" --json >"$folder/$task.json" 2>"$folder/$task.txt"
  show_end "$folder/$task.txt"
  expected=$(number step_time_s "$folder/$task.json")
  crosscheck stack "$models/llama-5120.json" --tokens $((2048 / scale)) --mode "$1" --predicted "${expected:-0}" --seconds 90
}

# Each kernel of one step of two layers under Nsight Compute
crosscheck_ncu() {
  has_calibration || return "$no_time"
  command -v ncu >/dev/null || { echo "no ncu here"; return "$not_here"; }
  plan="--model $models/llama-4096-of-2.json --seq-len $((2048 / scale)) --global-batch 1 --precision bf16 --recipe megatron --steps 1"
  rm -f "$folder/ncu.csv" "$folder/ncu.log"
  # shellcheck disable=SC2086 # a list of words
  limited 90 ncu --clock-control none --cache-control none --print-units base --metrics gpu__time_duration.sum --csv \
    --log-file "$folder/ncu.log" "$stepreal" run $plan --device "$device" --comm null >"$folder/ncu.txt" 2>&1
  code=$?
  case $code in 124 | 137) echo "not ended after $limit s"; return "$no_time" ;; esac
  if ! grep -qs 'gpu__time_duration' "$folder/ncu.log"; then # a sandbox without counters, say; the step was run before
    echo "ncu timed no kernel (exit $code): $(cat "$folder/ncu.log" "$folder/ncu.txt" 2>/dev/null | grep -i -m 1 'error\|fail\|not support\|permission')"
    return "$not_here"
  fi
  [ "$code" -eq 0 ] || { show_end "$folder/ncu.txt"; return "$code"; }
  # shellcheck disable=SC2086
  LD_LIBRARY_PATH=$libraries $short "$stepsim" simulate $plan --gpus 1 --cluster "$cluster" --fold off --kernels >"$folder/kernels.txt" 2>&1
  crosscheck kernels "$gpu_file" "$folder/kernels.txt" "$folder/ncu.log"
}

part_crosscheck() {
  attempt ncu crosscheck_ncu
  attempt products crosscheck products "$gpu_file" --seconds 90
  attempt attention crosscheck attention "$gpu_file" --seconds 40
  attempt fp8 crosscheck fp8 "$gpu_file" --seconds 30
  attempt eager crosscheck_stack eager torchtitan
  attempt compiled crosscheck_stack compiled torchtitan-compiled-loss
}

# --- ranks ---

# ranks_of COMM RANKS OPTIONS…: compares their numbers with one rank's
ranks_of() {
  comm=$1 n=$2 log=$folder/$task.txt
  shift 2
  command -v mpirun >/dev/null || { echo "no mpirun here"; return "$not_here"; }
  [ "$device" = cuda ] || comm=mpi
  # log what NCCL chooses and why it fails
  export NCCL_DEBUG="${NCCL_DEBUG:-INFO}" NCCL_DEBUG_FILE="$folder/$task-nccl-%p.txt"
  # cuDNN was compared before; each rank would load its libraries, which takes a while
  # shellcheck disable=SC2086 # a list of words
  STEPREAL_CUDNN=0 limited 60 mpirun -n "$n" "$stepreal" run --device "$device" --comm "$comm" $tiny --precision fp32 "$@" --check \
    --start-timeout 30 --stall-timeout 40 >"$log" 2>&1
  code=$?
  check_verdict "$log" "$code" >"$work/verdict" || code=$?
  echo "$comm, $n ranks, $*: exit $code $(paste -s -d ';' "$work/verdict")"
  return "$code"
}

part_ranks() {
  plans_table >"$work/plans"
  while read -r line <&4; do
    # shellcheck disable=SC2086 # a list of words
    attempt "$(echo "$line" | tr -d ' ')" ranks_of $line
  done 4<"$work/plans"
}

# --- sanitizer ---

# sanitize TOOL: our kernels, by the file in the mangled name, in bf16: those of all formats would not end in time
sanitize() {
  command -v compute-sanitizer >/dev/null || { echo "no compute-sanitizer here"; return "$not_here"; }
  log=$folder/$task.txt
  calls=$([ "$1" = memcheck ] && echo "--report-api-errors no") # those cuBLASLt expects look like any other
  [ "$device" = cuda ] || export STEPREAL_TEST_DEVICE=cpu
  # shellcheck disable=SC2086 # a list of words
  STEPREAL_CUDNN=0 limited 85 compute-sanitizer --tool "$1" $calls --kernel-name kns=cuda_ --print-limit 20 \
    --error-exitcode 99 "$build/tests/test_cuda" bf16 >"$log" 2>&1
  code=$?
  echo "$1: exit $code; $(grep -E '^=+ (ERROR|RACECHECK) SUMMARY|rror: ' "$log" | tail -n 1)"
  if grep -qi 'device not supported\|not supported on this\|failed to initialize\|unable to initialize' "$log"; then
    return "$not_here" # a sandbox that hides the GPU's debugging interface
  fi
  case $code in 124 | 137) return "$no_time" ;; esac
  return "$code"
}

part_sanitizer() {
  for tool in memcheck racecheck; do attempt "$tool" sanitize "$tool"; done
}

# --- all of it ---

for program in "$stepsim" "$stepreal"; do
  LD_LIBRARY_PATH=$libraries $short "$program" --help >"$work/start.txt" 2>&1 && continue
  echo "$0: $program does not start here: $(head -n 3 "$work/start.txt")"
  echo "the C library here: $($short ldd --version 2>/dev/null | head -n 1)"
  finish 2
done

# Another GPU's code would be compiled anew by each program, and what ran would not be this GPU's kernels
check_architecture() {
  capability=$($short nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sort -u | paste -sd, -)
  case $capability in
  [0-9]*.[0-9]*) ;;
  *)
    capability=
    return 0
    ;;
  esac
  wanted=$(echo "$capability" | tr -d .)
  case ,$(architectures), in *",$wanted,"*) return 0 ;; esac
  echo "THE BUILD IS FOR ANOTHER GPU: its code is for compute capability $(architectures), the GPU here has $wanted"
  echo "where it was built: meson configure BUILD -Dgpu_architectures=$wanted && ninja -C BUILD"
  finish 1
}

# same WHAT VALUE: is it what earlier runs in this folder had? What one GPU measured is not mixed with another's.
same() {
  [ -n "$2" ] || return 0
  if [ -s "$details/$1" ] && [ "$(cat "$details/$1")" != "$2" ]; then
    echo "$0: $out has results of $1 \"$(cat "$details/$1")\", and here is \"$2\": give another folder"
    finish 2
  fi
  echo "$2" >"$details/$1"
}

echo "validate-gpu.sh, $(date -u '+%Y-%m-%d %H:%M UTC'): $parts"
capability='' gpu=''
asked=$parts
case " $parts " in
" page ")
  [ -s "$details/machine/name" ] || { echo "$0: $out has no measurements yet: run other parts first"; finish 2; }
  ;;
*)
  same device "$device"
  if [ "$device" = cuda ]; then
    gpu=$($short nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1)
    same gpu "$gpu"
    check_architecture
    case ${base:-$gpu} in # find it by the GPU's name; none: peaks are the best measurements
    "$base") ;;
    "NVIDIA H200") base=h200-sxm5-141gb ;;
    "NVIDIA H100 80GB HBM3") base=h100-sxm5-80gb ;;
    "NVIDIA A100-SXM4-80GB") base=a100-sxm4-80gb ;;
    "NVIDIA A100-SXM4-40GB") base=a100-sxm4-40gb ;;
    "NVIDIA B200") base=b200-sxm-180gb ;;
    esac
  fi
  parts="machine $parts" # it finds the GPU's name
  ;;
esac

parts_table >"$work/parts"
while read -r part part_s <&5; do
  case " $parts " in *" $part "*) ;; *) continue ;; esac
  folder=$details/$part
  case ${FRESH:-no}," $asked " in yes,*" $part "*) rm -rf "$folder" ;; esac
  mkdir -p "$folder"
  part_ends=$(($(date +%s) + part_s))
  heading "$part, at most $part_s s"
  "part_$part"
  write_page
done 5<"$work/parts"

part=steps folder=$details/steps part_ends=$((began + 1000000000)) LIMIT=
is_timed=$(find "$folder" -name '*.build' 2>/dev/null)
if [ -n "$is_timed" ]; then
  heading "steps"
  predict_rows
  rm -f "$folder/lists.result" # said anew of what there is now
  if has_calibration; then attempt lists check_rows; fi
fi
write_page
[ -z "$is_timed" ] || sed -n '/^### Calibrated/,/^## Checks/p' "$page/README.md" | sed '$d'
heading "$n_passed passed${failed:+; FAILED:$failed}${late:+; left out for lack of time:$late}${absent:+; not possible here:$absent}"
[ ! -f "$page/README.md" ] || echo "written: $page"
[ -z "$failed" ] || finish 1
[ -z "$late" ] || finish 3
finish 0
