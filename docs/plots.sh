#!/bin/sh
# plots.sh STEPSIM [FOLDER]: writes FOLDER/plots.md and FOLDER/plots/*.svg (default: docs). Every picture is drawn by
# the command that the page shows. --text draws nothing and prints the page.
[ $# -ge 1 ] || { echo "usage: $0 STEPSIM [FOLDER | --text]" >&2; exit 2; }
stepsim=$1
here=$(cd "$(dirname "$0")" && pwd)
folder=${2:-$here}
[ "$folder" = --text ] || mkdir -p "$folder/plots" || exit 1
tables=$(mktemp -d) || exit 1
trap 'rm -rf "$tables"' EXIT
page=$tables/plots.md
cp "$here/plots.md.in" "$page" || exit 1

section() { # name, heading, words below it, arguments of plot without --output
  name=$1 heading=$2 words=$3
  shift 3
  if [ "$folder" != --text ]; then
    (cd "$tables" && "$stepsim" plot "$@" --output "$name.svg") || exit 1
    mv "$tables/$name.svg" "$folder/plots/$name.svg" || exit 1
  fi
  printf '\n## %s\n\n%s\n\n![%s](plots/%s.svg)\n\n    stepsim plot' "$heading" "$words" "$heading" "$name" >>"$page"
  printf ' %s' "$@" >>"$page"
  printf ' --output %s.svg\n' "$name" >>"$page"
}

case $stepsim in /*) ;; *) stepsim=$PWD/$stepsim ;; esac
STEPSIM_DATA=$(dirname "$here")
export STEPSIM_DATA
model="--model llama-3-70b --cluster dgx-h100"

# shellcheck disable=SC2086 # the plan is a list of words
{
  section bubble 'Bubble against micro-batches' \
    'Uniform stages with free sends: simulated points lie on the closed forms where these are exact.' \
    bubble --pp 8 --chunks 2 --schedules gpipe,1f1b,interleaved,zb-h1,zb-v,dualpipe
  section bubble-model 'Bubble of a model' \
    'The same with predicted times: unequal stages, sends, reductions and the optimizer. Dashed: the closed form for mean pass times.' \
    bubble $model --tp 8 --pp 8 --chunks 2 --schedules 1f1b,interleaved,zb-h1,zb-v
  section mfu 'MFU against GPUs' \
    'Strong scaling keeps the batch, weak scaling the sequences per GPU. `--vary model=llama-3-8b,llama-3-70b` draws strong scaling with one line per model; any other option works, too.' \
    mfu --model llama-3.1-405b --cluster llama3-h100 --tp 8 --pp 16 --chunks 8 --zero 2 --sequence-parallel on \
    --seq-len 8192 --global-batch 2048 --gpu-list '1024..16384*2'
  section breakdown 'Where the time of a step goes' \
    'One bar per configuration. Any plan option can be varied; several give all combinations.' \
    breakdown $model --gpus 64 --tp 8 --zero 1 --global-batch 128 --vary pp=1,2,4,8 --vary recompute=none,full
  section breakdown-ranks 'The same by pipeline rank' \
    'One configuration, one bar per pipeline rank.' \
    breakdown $model --gpus 64 --tp 8 --pp 8 --zero 1 --global-batch 128
  section memory 'Memory by ZeRO stage' \
    'On the fullest GPU, including what context and libraries reserve.' \
    memory $model --tp 8 --dp 8
  section memory-time 'Memory over a step' \
    'What each pipeline rank holds, on top of what context and libraries reserve. Dashed: the capacity of a GPU.' \
    memory-time $model --tp 8 --pp 4 --dp 2
  section heat 'A map of two options' \
    'Also `--value tokens_per_s` and `step_time_s`; `--vary` chooses any two options.' \
    heat --model llama-3-8b --cluster dgx-h100 --gpus 64 --global-batch 256
  section pareto 'Throughput against memory' \
    'All combinations of `--vary`, or a table: `stepsim plot pareto sweep.csv`.' \
    pareto --model llama-3-8b --cluster dgx-h100 --gpus 64 --global-batch 256 --vary tp=1..8*2 --vary pp=1,2,4 --vary zero=0..3
  section busbw 'Bus bandwidth of a collective' \
    'Every algorithm against size, and the one chosen.' \
    busbw --cluster dgx-h100 --gpus 64
  [ "$folder" = --text ] || "$stepsim" validate "$here/plots-measured.csv" --rows "$tables/rows.csv" >/dev/null || exit 1
  section validation 'Predicted against measured' \
    'From a table written by `stepsim validate runs.csv --rows rows.csv`; here [published steps](plots-measured.csv) on A100, including those that the efficiency of this GPU was fitted to.' \
    validation rows.csv
  section timeline 'One step' \
    'Predicted, as here, or from a trace of `simulate --trace` or `stepreal run --trace`: `stepsim plot timeline trace.json`.' \
    timeline --model llama-3-8b --cluster dgx-h100 --pp 4 --chunks 2 --global-batch 8
}
if [ "$folder" = --text ]; then cat "$page"; else mv "$page" "$folder/plots.md"; fi
