#!/bin/sh
# The main job, end to end: Llama-3.1-405B on 16,384 H100 predicted against the published values, with pictures.
# Then the same tools on this machine's own cores: calibrate, predict, execute, compare.
# usage: plots/demo.sh STEPSIM OUT_FOLDER [STEPREAL]
set -eu
export LC_ALL=C # by which awk reads and writes numbers
stepsim=$1
out=$2
stepreal=${3:-}
mkdir -p "$out"

# Tensor, pipeline and data parallel sizes, batch and sequence: Llama Team, The Llama 3 Herd of Models, arXiv
# 2407.21783, §3.3.2, table 4 (tp 8, cp 1, pp 16, dp 128, sequence 8,192, 16 sequences per dp rank, BF16 MFU 41 %).
# One layer per model chunk, embedding and output layer as chunks of their own, asynchronous sends between stages:
# ibid., "Pipeline parallelism".
plan="--model llama-3.1-405b --cluster llama3-h100 --gpus 16384 --tp 8 --pp 16 --dp 128 --chunks 8
      --seq-len 8192 --global-batch 2048 --zero 2 --sequence-parallel on --overlap-p2p on"

echo "Llama-3.1-405B on 16,384 H100"
echo
# shellcheck disable=SC2086 # the plan is a list of words
"$stepsim" simulate $plan --timeline "$out/timeline.svg" --trace "$out/trace.json" || [ $? -eq 1 ]
# shellcheck disable=SC2086
mfu=$("$stepsim" simulate $plan --json | sed -n 's/.*"mfu" *: *\([0-9.]*\).*/\1/p')
echo
echo "$mfu" | awk '{ printf "MFU predicted %.1f %%, published 41 %% (arXiv 2407.21783, table 4): %+.1f %% of it\n", 100 * $1, 100 * ($1 / 0.41 - 1) }'

"$stepsim" plot bubble --schedules gpipe,1f1b,interleaved --pp 16 --chunks 8 --micro-batches '16..256*2' \
  --output "$out/bubble.svg"
# shellcheck disable=SC2086
"$stepsim" plot mfu ${plan%--gpus*} --tp 8 --pp 16 --chunks 8 --seq-len 8192 --global-batch 2048 --zero 2 \
  --sequence-parallel on --overlap-p2p on --gpu-list '1024..16384*2' --output "$out/mfu.svg"
# shellcheck disable=SC2086
"$stepsim" plot memory $plan --output "$out/memory.svg"
echo
echo "Written: $out/timeline.svg, bubble.svg, mfu.svg, memory.svg, and trace.json for https://ui.perfetto.dev"
echo "To change this plan and see the step move: $stepsim lab"

[ -n "$stepreal" ] && [ -x "$stepreal" ] || exit 0
echo
real/demo.sh "$stepsim" "$stepreal" "$out"
