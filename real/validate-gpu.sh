#!/bin/sh
# Everything that needs a GPU, in one go: kernels against the CPU's, numerics of training, calibration, and steps predicted
# beside measured. Needs the build folder, nothing else; several ranks need an mpirun.
# usage: real/validate-gpu.sh BUILD_FOLDER OUT_FOLDER [BASE_GPU_FILE]
set -u
build=$1
out=$2
base=${3:-}
stepsim=$build/sim/stepsim
stepreal=$build/real/stepreal
mkdir -p "$out"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
status=0

number() { sed -n "s/.*\"$1\" *: *\([-0-9.e+]*\).*/\1/p" | head -n 1; }
heading() { printf '\n== %s\n' "$*"; }
# A Llama of a given width: name, hidden, ffn, layers, heads, key heads
llama() {
  cat >"$out/$1.json" <<END
{"model_type": "llama", "hidden_size": $2, "intermediate_size": $3, "num_hidden_layers": $4, "num_attention_heads": $5,
 "num_key_value_heads": $6, "vocab_size": 32000, "max_position_embeddings": 8192, "tie_word_embeddings": false}
END
}

heading "kernels, streams and memory against the CPU's"
"$build/tests/test_cuda" >"$out/test_cuda.tap" 2>&1
code=$?
grep -v '^ok' "$out/test_cuda.tap" | head -n 40
[ "$code" -eq 77 ] && { echo "no GPU here"; exit 77; }
[ "$code" -eq 0 ] || status=1

heading "numbers: one rank on the GPU against one on the CPU"
llama tiny 256 512 2 8 4
for precision in fp32 bf16; do
  "$stepreal" run --device cuda --model "$out/tiny.json" --seq-len 128 --global-batch 4 --steps 3 --precision $precision \
    --comm null --check --check-on cpu >"$out/check-$precision.txt" 2>&1 || status=1
  sed -n '/numerics/,$p' "$out/check-$precision.txt"
done

if command -v mpirun >/dev/null; then
  heading "numbers: several ranks on one GPU"
  for plan in "--dp 2" "--tp 2 --sequence-parallel on" "--pp 2" "--dp 2 --zero 3"; do
    for comm in mpi nccl; do
      # shellcheck disable=SC2086 # a list of words
      mpirun -n 2 "$stepreal" run --device cuda --comm $comm --model "$out/tiny.json" --seq-len 128 --global-batch 4 \
        --steps 3 --precision fp32 $plan --check >"$out/ranks.txt" 2>&1
      echo "$comm $plan: exit $? $(grep -E 'equal|EQUAL|stepreal:' "$out/ranks.txt" | head -n 1)"
    done
  done
fi

heading "calibration"
llama llama-2048 2048 5632 16 16 16
llama llama-4096 4096 11008 8 32 8
llama llama-8192 8192 28672 3 64 8
# shellcheck disable=SC2086
"$stepreal" calibrate --device cuda --comm null ${base:+--base $base} --model "$out/llama-2048.json" --model "$out/llama-4096.json" \
  --model "$out/llama-8192.json" --tp 1,2,4,8 --seq-len 2048,4096 --repeats 5 --output "$out/gpu.yaml" || status=1

heading "one-rank steps: predicted beside measured"
printf '%-12s %5s %12s %12s %8s %8s\n' model tokens predicted measured error MFU
for model in llama-2048 llama-4096 llama-8192; do
  for length in 2048 4096; do
    plan="--model $out/$model.json --seq-len $length --global-batch 4 --recipe megatron"
    # shellcheck disable=SC2086
    "$stepsim" simulate $plan --gpus 1 --cluster "$out/gpu.yaml" --steps 3 --fold off --trace "$out/$model-$length-predicted.json" \
      --json >"$out/predicted.json"
    # shellcheck disable=SC2086
    "$stepreal" run $plan --device cuda --comm null --steps 6 --cluster "$out/gpu.yaml" \
      --trace "$out/$model-$length-measured.json" >"$out/$model-$length.txt" 2>&1 || status=1
    # shellcheck disable=SC2086
    "$stepreal" run $plan --device cuda --comm null --steps 6 --cluster "$out/gpu.yaml" --json >"$out/measured.json" || status=1
    p=$(number step_time_s <"$out/predicted.json")
    m=$(number step_time_s <"$out/measured.json")
    f=$(number mfu <"$out/measured.json")
    echo "$model $length ${p:-0} ${m:-0} ${f:-0}" | awk '{ printf "%-12s %5d %9.2f ms %9.2f ms %+7.1f%% %7.1f%%\n", $1, $2, 1e3 * $3, 1e3 * $4, $4 > 0 ? 100 * ($3 / $4 - 1) : 0, 100 * $5 }'
  done
done | tee "$out/steps.txt"
exit $status
