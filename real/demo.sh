#!/bin/sh
# Predicts one training step and executes it on this machine's own cores: calibrate, predict, run, compare.
# usage: real/demo.sh STEPSIM STEPREAL OUT_FOLDER
set -eu
stepsim=$1
stepreal=$2
out=$3
mkdir -p "$out"

# One rank per core, at most two. Works as root, with any MPI.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
ranks=$(nproc)
[ "$ranks" -le 2 ] || ranks=2
launch=""
if [ "$ranks" -gt 1 ] && command -v mpirun >/dev/null; then launch="mpirun -n $ranks"; else ranks=1; fi

# A Llama of 15 million parameters (tinyllamas stories15M), pipeline-parallel.
plan="--model tinystories-15m --pp $ranks --precision fp32 --seq-len 64 --global-batch 8 --steps 4"

echo "A step of a Llama with 15 million parameters on $ranks of this machine's cores"
# shellcheck disable=SC2086 # lists of words
{
  $launch "$stepreal" calibrate --model tinystories-15m --tp 1 --seq-len 64 --quick --fresh --output "$out/this-machine.yaml"
  "$stepsim" simulate $plan --gpus "$ranks" --cluster "$out/this-machine.yaml" --fold off \
    --trace "$out/predicted.json" >"$out/predicted.txt" || [ $? -eq 1 ]
  $launch "$stepreal" run $plan --trace "$out/measured.json"
}
echo
"$stepsim" compare "$out/predicted.json" "$out/measured.json" --plot "$out/compare.svg"
echo
echo "Written: $out/compare.svg (both timelines), predicted.json and measured.json for https://ui.perfetto.dev,"
echo "$out/this-machine.yaml: what was calibrated"
