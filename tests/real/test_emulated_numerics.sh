#!/bin/sh
# test_emulated_numerics.sh MPIRUN RUN_LIST DATA: the cuda device with NCCL and with MPI computes what one rank does, in
# plans that use each of their parts; the GPU is emulated (TAP). What is planned is tested on the cpu device.
[ $# -eq 3 ] || { echo "usage: $0 MPIRUN RUN_LIST DATA" >&2; exit 2; }
. "$(dirname "$0")/../fixtures/tap.sh"
. "$(dirname "$0")/numerics_table.sh"
mpirun=$(absolute "$1") run_list=$(absolute "$2") data=$(absolute "$3")
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
make_small
data=short
printf 'name: blocks\nsource: a test\ntime:\n  scales: blocks\n' >blocks.yaml
export OPENBLAS_NUM_THREADS=1
# of one step the run that is timed would be the run that is checked
small="--seq-len 8 --global-batch 2 --steps 1 --check-time off --device cuda --check-on cpu"

plans "$small --precision fp32 --comm nccl --attention unfused" <<'TABLE'
dp 2, many buckets|2|tiny-gpt2-short|--dp 2 --bucket 1 --global-batch 4 --steps 2 --check-time on
tp 2, sequence parallel|2|tiny-llama-short|--tp 2 --sequence-parallel on
norms of heads, a window, fused attention|2|tiny-qwen3-short|--tp 2 --attention flash --seq-len 16
norms around branches, capped logits, tp 2|2|tiny-gemma2|--tp 2
multiplied by its own numbers, tp 2|2|tiny-granite|--tp 2
norms of all heads, tp 2|2|tiny-mpt-qk-ln|--tp 2
norms behind branches, zb-h1|2|tiny-olmo2|--pp 2 --schedule zb-h1
layers with a window and without, zb-h1|2|tiny-gemma3-turns-short|--pp 2 --schedule zb-h1 --seq-len 16
a window, cp 2, all-gather|2|tiny-qwen3-short|--cp 2 --cp-comm all_gather --attention flash --seq-len 32 --global-batch 1
ALiBi, dropout, tp 2, sequence parallel|2|tiny-bloom|--tp 2 --sequence-parallel on
side by side, tp 2, sequence parallel|2|tiny-neox|--tp 2 --sequence-parallel on --seq-len 8
pp 2, dualpipe|2|tiny-gpt2-short|--pp 2 --schedule dualpipe --global-batch 4
ZeRO-3|2|tiny-gpt2-short|--dp 2 --zero 3 --steps 2 --check-time on
optimizer on the host, ZeRO-2|2|tiny-gpt2-short|--dp 2 --zero 2 --steps 2 --check-time on --offload-optimizer host
latent attention, tp 2, sequence parallel|2|tiny-deepseek|--tp 2 --sequence-parallel on --attention flash
latent attention, unfused, tp 2|2|tiny-deepseek|--tp 2 --sequence-parallel on
a head further, tp 2|2|tiny-deepseek|--mtp-layers 1 --tp 2 --sequence-parallel on --attention flash
experts, ep 2, ZeRO-2|2|tiny-qwen2-moe|--dp 2 --ep 2 --zero 2
tokens gathered, experts cut and shared, ep 2|4|tiny-qwen2-moe|--tp 2 --dp 2 --ep 2 --sequence-parallel on --expert-dispatch all_gather
latent attention and experts made again|2|tiny-deepseek|--dp 2 --ep 2 --recompute selective --recompute-modules mla_up_proj+moe
pp 2, ep 2, dualpipe, which takes turns|4|tiny-mixtral|--pp 2 --dp 2 --ep 2 --schedule dualpipe --global-batch 8
every other product made again, tp 2, sequence parallel|2|tiny-llama-short|--tp 2 --sequence-parallel on --framework torchtitan-eager --norm-kernel fused --attention flash --recompute selective
every other product made again, zb-h1|2|tiny-gpt2-short|--pp 2 --schedule zb-h1 --framework torchtitan-eager --attention flash --recompute selective
norms without weights, tp 2, sequence parallel|2|tiny-olmo|--tp 2 --sequence-parallel on
cp 4, Ulysses, each key head to two ranks|4|tiny-falcon|--cp 4 --cp-comm ulysses --attention flash --global-batch 1
cp 2, Ulysses, attention run again|2|tiny-gpt2-short|--cp 2 --cp-comm ulysses --attention flash --recompute selective --framework megatron-core --recipe fp32 --norm-kernel fused --global-batch 1
TABLE

plans "$small --precision bf16 --comm nccl" <<'TABLE'
a share of the optimizer on the host, ZeRO-3|2|tiny-gpt2-short|--dp 2 --zero 3 --steps 2 --check-time on --offload-optimizer host:0.4
weights on the host, too, ZeRO-3|2|tiny-llama-short|--dp 2 --zero 3 --steps 2 --check-time on --offload-optimizer host --offload-weights host
cp 2, ring|2|tiny-llama-short|--cp 2 --global-batch 1
# whose like is above in fp32
= --check-fp32 off
fused attention, gradients in fp32|2|tiny-llama-short|--tp 2 --recipe megatron
optimizer on the host, pp 2|2|tiny-llama-short|--pp 2 --steps 2 --check-time on --offload-optimizer host
cp 2, Ulysses|2|tiny-gpt2-short|--cp 2 --cp-comm ulysses --global-batch 1
cp 2, all-gather|2|tiny-llama-short|--cp 2 --cp-comm all_gather --global-batch 1
TABLE
plans "--seq-len 32 --global-batch 2 --steps 1 --check-time off --device cuda --check-on cpu --precision fp8 --comm nccl" <<'TABLE'
fp8, biases, tp 2, sequence parallel|2|tiny-gpt2-wide|--tp 2 --sequence-parallel on --recipe megatron
fp8, latent attention, experts, scales of blocks, ZeRO-3|2|tiny-deepseek-wide|--dp 2 --ep 2 --zero 3 --framework blocks.yaml
TABLE
check_plans

check_table "$small --precision fp16 --comm nccl --attention unfused" <<'TABLE'
fp16, tp 2|2|tiny-gpt2-short|--tp 2
fp16, ZeRO-1, gradients overflow at first|2|tiny-llama-short|--dp 2 --zero 1 --initial-loss-scale 262144 --steps 3 --check-time on
TABLE
grep -q '"skipped_steps": \[0' report-2-2
result $? "gradients did overflow" "$(cat report-2-2)"

# A rank whose host never comes to make a communicator.
echo "--model $data/models/tiny-gpt2-short.json $small --comm nccl --dp 2 --check" >missing
EMULATED_NCCL_MISSING=1 STEPREAL_NCCL_TIMEOUT=0.3 timeout 20 "$mpirun" -n 2 "$run_list" missing >out 2>err </dev/null
got=$?
[ "$got" -ne 0 ] && [ "$got" -ne 124 ] && grep -q 'NCCL: initialisation of communicators has not moved for 0.3 s' out err
result $? "a communicator that a rank does not join is given up" "exit status $got; $(cat out err)"
STEPREAL_NCCL_TIMEOUT=soon timeout 20 "$mpirun" -n 2 "$run_list" missing >out 2>err </dev/null
grep -q 'STEPREAL_NCCL_TIMEOUT: found "soon", expected seconds, more than 0' out err
result $? "a timeout that is none is refused" "$(cat out err)"

check_table "$small --precision fp32 --comm mpi" <<'TABLE'
through the host: cp 2, all-gather|2|tiny-gpt2-short|--cp 2 --cp-comm all_gather --global-batch 1
TABLE

# what a GPU must have for fp8: with scales of tensors, and of blocks
refused_in_fp8() { # compute capability, words, options
  echo "--model '$data/models/tiny-llama-short.json' --seq-len 16 --global-batch 1 --steps 1 --device cuda --precision fp8 $3" >list-8
  EMULATED_CUDA_CAPABILITY=$1 timeout 60 "$mpirun" -n 1 "$run_list" list-8 >out 2>err </dev/null
  grep -q "kernel matmul: products in fp8$2" err
  result $? "compute capability $1: fp8$2" "$(cat out err)"
}
refused_in_fp8 80 ' need a GPU of compute capability 8.9 or later, found 8.0'
refused_in_fp8 100 ' with scales of blocks need a GPU of compute capability 9.0, found 10.0' '--framework blocks.yaml'
finish
