#!/bin/sh
# test_numerics.sh MPIRUN STEPREAL STEPSIM RUN_LIST DATA: losses, gradients and updates under every kind of
# plan are those of one rank, and the comparison notices programs that are wrong (wrong_programs.txt; TAP).
[ $# -eq 5 ] || { echo "usage: $0 MPIRUN STEPREAL STEPSIM RUN_LIST DATA" >&2; exit 2; }
. "$(dirname "$0")/../fixtures/tap.sh"
. "$(dirname "$0")/numerics_table.sh"
here=$(absolute "$(dirname "$0")")
# name | ranks | model | options | edit | what is told: words of a refusal before the first op, "ENDS: " and words of an
# end in the middle, or NOT EQUAL
wrong_programs=$here/wrong_programs.txt
[ -s "$wrong_programs" ] && [ -s "$here/numerics_plans.txt" ] || exit 2
mpirun=$(absolute "$1") stepreal=$(absolute "$2") stepsim=$(absolute "$3") run_list=$(absolute "$4")
data=$(absolute "$5")
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
ln -s "$data" data && data=data # options are split at blanks, which its path may have
export OPENBLAS_NUM_THREADS=1
# Of plans whose kernels are new, not their overlap: a run that waits for nothing shows what a Program forgot to wait for.
untimed=" --check-time off"
# whose like is a line in fp32
single="$untimed --check-fp32 off"

make_small

cat >blocks.yaml <<'YAML'
name: blocks
source: a test; scales of blocks in fp8
time:
  scales: blocks
YAML
cat >few-live.yaml <<'YAML'
name: few-live
source: a test; no layer is small enough to stay gathered
time:
  zero3_tensors: {list_entry: 1 us, memory_passes: 1, live_parameters: 1}
YAML

# 16 tokens cut by every cp, fewer than a window of the models has; products in fp8 need 32
plans "--precision fp32 --seq-len 16" <"$here/numerics_plans.txt"

# experts: whole and cut, on ranks of dp and of tp; their gradients and shards on other ranks than all else's
plans "--precision fp32 --seq-len 16$untimed" <<'TABLE'
experts and a shared one, alone|1|tiny-qwen2-moe|--micro-batch 2 --global-batch 8
every rank has all experts|2|tiny-mixtral|--dp 2 --zero 3
ep 2, many buckets|2|tiny-qwen2-moe|--dp 2 --ep 2 --bucket 1
ep 2, ZeRO-1|2|tiny-mixtral|--dp 2 --ep 2 --zero 1
ep 2, forwards and backwards that take turns, ZeRO-2|2|tiny-mixtral|--dp 2 --ep 2 --zero 2 --overlap-experts on
pp 2 × ep 2, interleaved chunks that take turns|4|tiny-mixtral|--pp 2 --chunks 2 --dp 2 --ep 2 --zero 2 --overlap-experts on
ep 2, ZeRO-2, overlap off|2|tiny-qwen2-moe|--dp 2 --ep 2 --zero 2 --overlap-grad off --overlap-param off
ep 2, ZeRO-3, full recompute|2|tiny-qwen2-moe|--dp 2 --ep 2 --zero 3 --recompute full
every other layer without experts, ZeRO-3|2|tiny-qwen2-moe-sparse|--dp 2 --ep 2 --zero 3
every other layer without experts, tp 2, full recompute|2|tiny-qwen2-moe-sparse|--tp 2 --sequence-parallel on --recompute full
tp 2, experts cut|2|tiny-qwen2-moe|--tp 2 --sequence-parallel on
tp 2, experts whole, ZeRO-2 of experts alone|2|tiny-qwen2-moe|--tp 2 --sequence-parallel on --expert-tp 1 --zero 2
tp 2, ep 2 over tp|2|tiny-mixtral|--tp 2 --sequence-parallel on --expert-tp 1 --ep 2
pp 2, zb-h1, full recompute|2|tiny-qwen2-moe|--pp 2 --schedule zb-h1 --recompute full
ep 2, norms made again|2|tiny-qwen2-moe|--dp 2 --ep 2 --recompute selective --recompute-modules layernorm
pp 2, dualpipe, all experts everywhere|2|tiny-mixtral|--pp 2 --schedule dualpipe
cp 2, ep 2, ring|2|tiny-mixtral|--cp 2 --ep 2
cp 2, ep 2, Ulysses, ZeRO-1|2|tiny-qwen2-moe|--cp 2 --ep 2 --zero 1 --cp-comm ulysses
cp 2 × dp 2, ep 2, ZeRO-2|4|tiny-qwen2-moe|--cp 2 --dp 2 --ep 2 --zero 2
cp 2 × tp 2, ep 4, experts whole, ZeRO-1|4|tiny-mixtral|--cp 2 --tp 2 --ep 4 --sequence-parallel on --expert-tp 1 --zero 1
dp 4, ep 2|4|tiny-mixtral|--dp 4 --ep 2
dp 4, ep 2, ZeRO-3|4|tiny-mixtral|--dp 4 --ep 2 --zero 3
dp 4, ep 2, ZeRO-3 in shards of 2|4|tiny-qwen2-moe|--dp 4 --ep 2 --zero 3 --zero-ranks 2
tp 2 × dp 2, ep 2, experts cut|4|tiny-mixtral|--tp 2 --dp 2 --ep 2 --sequence-parallel on
tp 2 × dp 2, ep 4, experts whole, ZeRO-2|4|tiny-qwen2-moe|--tp 2 --dp 2 --ep 4 --sequence-parallel on --expert-tp 1 --zero 2
pp 2, ep 2, 1f1b|4|tiny-mixtral|--pp 2 --dp 2 --ep 2
pp 2, ep 2, zb-v, ZeRO-3|4|tiny-mixtral|--pp 2 --dp 2 --ep 2 --schedule zb-v --zero 3
pp 2, ep 2, dualpipe, which takes turns|4|tiny-mixtral|--pp 2 --dp 2 --ep 2 --schedule dualpipe --global-batch 8
pp 2, ep 2, dualpipe-v, ZeRO-1, full recompute|4|tiny-mixtral|--pp 2 --dp 2 --ep 2 --schedule dualpipe-v --zero 1 --recompute full --global-batch 8
tokens gathered, ep 2, ZeRO-1|2|tiny-mixtral|--dp 2 --ep 2 --expert-dispatch all_gather --zero 1
tokens gathered, a shared expert, ep 2, full recompute|2|tiny-qwen2-moe|--dp 2 --ep 2 --expert-dispatch all_gather --recompute full
tokens gathered, experts cut by tp alone|2|tiny-qwen2-moe|--tp 2 --sequence-parallel on --expert-dispatch all_gather
tokens gathered, tp 2 × dp 2, ep 2, experts cut|4|tiny-mixtral|--tp 2 --dp 2 --ep 2 --sequence-parallel on --expert-dispatch all_gather --zero 2
tokens gathered, tp 2 × dp 2, ep 4, experts whole|4|tiny-qwen2-moe|--tp 2 --dp 2 --ep 4 --sequence-parallel on --expert-tp 1 --expert-dispatch all_gather
tokens gathered, pp 2, ep 2, zb-v, ZeRO-3|4|tiny-mixtral|--pp 2 --dp 2 --ep 2 --schedule zb-v --zero 3 --expert-dispatch all_gather
tokens gathered, pp 2, ep 2, dualpipe, which takes turns|4|tiny-mixtral|--pp 2 --dp 2 --ep 2 --schedule dualpipe --global-batch 8 --expert-dispatch all_gather
tokens gathered, cp 2 × dp 2, ep 4|4|tiny-mixtral|--cp 2 --dp 2 --ep 4 --expert-dispatch all_gather
tokens gathered, latent attention, a head that predicts further|2|tiny-deepseek-v3|--dp 2 --ep 2 --mtp-layers 1 --expert-dispatch all_gather
activations of experts made again, a shared one, pp 2, zb-h1|4|tiny-qwen2-moe|--pp 2 --tp 2 --sequence-parallel on --schedule zb-h1 --recompute selective --recompute-modules moe_act
the shared expert made again, too, ZeRO-3|2|tiny-qwen2-moe|--dp 2 --ep 2 --zero 3 --recompute selective --recompute-modules moe_act+shared_experts
experts made again, exchanges included, pp 2, zb-h1|4|tiny-mixtral|--pp 2 --dp 2 --ep 2 --schedule zb-h1 --recompute selective --recompute-modules layernorm+moe
… where tokens are gathered, with a shared expert|2|tiny-qwen2-moe|--dp 2 --ep 2 --expert-dispatch all_gather --recompute selective --recompute-modules moe
MLPs made again where other layers have experts|2|tiny-qwen2-moe-sparse|--dp 2 --ep 2 --recompute selective --recompute-modules mlp
TABLE
# latent attention: of a Q that is made of few columns, and of one that is not, with scores that a bias balances
plans "--precision fp32 --seq-len 16$untimed" <<'TABLE'
latent attention, alone|1|tiny-deepseek|--micro-batch 2 --global-batch 8
latent attention, ZeRO-3|2|tiny-deepseek-v3|--dp 2 --zero 3
latent attention, ep 2, ZeRO-1|2|tiny-deepseek|--dp 2 --ep 2 --zero 1
latent attention, tp 2|2|tiny-deepseek|--tp 2 --sequence-parallel on
latent attention, tp 2, full recompute|2|tiny-deepseek-v3|--tp 2 --sequence-parallel on --recompute full
latent attention, zb-h1, full recompute|2|tiny-deepseek|--pp 2 --schedule zb-h1 --recompute full
latent attention, norms made again|2|tiny-deepseek-v3|--dp 2 --recompute selective --recompute-modules layernorm
latent attention, made again behind its down projections|2|tiny-deepseek|--dp 2 --zero 3 --recompute selective --recompute-modules mla_up_proj
… of a whole Q, unfused, with norms and experts, tp 2|2|tiny-deepseek-v3|--tp 2 --sequence-parallel on --attention unfused --recompute selective --recompute-modules layernorm+mla_up_proj+moe
… zb-h1|4|tiny-deepseek|--pp 2 --tp 2 --sequence-parallel on --schedule zb-h1 --recompute selective --recompute-modules mla_up_proj
latent attention, dualpipe|2|tiny-deepseek-v3|--pp 2 --schedule dualpipe
latent attention, cp 2, ring|2|tiny-deepseek|--cp 2
latent attention, cp 2, all-gather, ZeRO-2|2|tiny-deepseek|--cp 2 --cp-comm all_gather --zero 2 --micro-batch 2 --global-batch 8
latent attention, cp 2, Ulysses|2|tiny-deepseek-v3|--cp 2 --cp-comm ulysses
latent attention, cp 2 × tp 2, ring|4|tiny-deepseek|--cp 2 --tp 2 --sequence-parallel on
latent attention, unfused, alone|1|tiny-deepseek|--attention unfused --micro-batch 2 --global-batch 8
latent attention, unfused, tp 2|2|tiny-deepseek|--tp 2 --sequence-parallel on --attention unfused
latent attention, unfused, selective recompute, ZeRO-3|2|tiny-deepseek-v3|--dp 2 --zero 3 --attention unfused --recompute selective
latent attention, unfused, zb-h1|2|tiny-deepseek-v3|--pp 2 --schedule zb-h1 --attention unfused
latent attention, tp 2, zb-v|4|tiny-deepseek|--tp 2 --pp 2 --schedule zb-v --sequence-parallel on
TABLE
# heads that predict further: their table the embedding's own, a copy of it, one of another pipe; two losses more
plans "--precision fp32 --seq-len 16$untimed" <<'TABLE'
two heads further, alone|1|tiny-deepseek|--mtp-layers 2
two heads further, ep 2, ZeRO-1|2|tiny-deepseek|--mtp-layers 2 --dp 2 --ep 2 --zero 1
two heads further, tp 2|2|tiny-deepseek|--mtp-layers 2 --tp 2 --sequence-parallel on
a head further, pp 2|2|tiny-deepseek-v3|--mtp-layers 1 --pp 2
two heads further, zb-v, full recompute|2|tiny-deepseek|--mtp-layers 2 --pp 2 --schedule zb-v --recompute full
two heads further, dualpipe|2|tiny-deepseek|--mtp-layers 2 --pp 2 --schedule dualpipe
two heads further, cp 2|2|tiny-deepseek|--mtp-layers 2 --cp 2
a head further, ZeRO-2, many buckets|2|tiny-deepseek|--mtp-layers 1 --dp 2 --zero 2 --bucket 1
two heads further, ZeRO-3, ep 2, full recompute|2|tiny-deepseek|--mtp-layers 2 --dp 2 --ep 2 --zero 3 --recompute full
a head further, dp 2 × pp 2, ZeRO-3|4|tiny-deepseek|--mtp-layers 1 --dp 2 --pp 2 --zero 3
a head further, dualpipe × cp 2, the table's gradient is whole behind a head's|4|tiny-deepseek-v3|--mtp-layers 1 --pp 2 --cp 2 --schedule dualpipe --global-batch 7 --seq-len 16
a head further, ZeRO-2, whole experts in shards over tp alone|2|tiny-deepseek-v3|--mtp-layers 1 --tp 2 --expert-tp 1 --sequence-parallel on --zero 2
a head further, ZeRO-3, whole experts in shards over tp alone, pp 2|4|tiny-deepseek-v3|--mtp-layers 1 --pp 2 --tp 2 --expert-tp 1 --sequence-parallel on --zero 3
a head further, ZeRO-3, ep 2, forwards and backwards that take turns|4|tiny-deepseek-v3|--mtp-layers 1 --overlap-experts on --zero 3 --prefetch 2 --dp 4 --ep 2 --global-batch 12 --seq-len 16
a head further, ZeRO-3, ep 2, full recompute, turns: a layer's gathers for its forward and its backward|4|tiny-deepseek-v3|--mtp-layers 1 --overlap-experts on --zero 3 --prefetch 2 --dp 4 --ep 2 --recompute full --global-batch 12 --seq-len 16
two heads further, tp 2, zb-h1|4|tiny-deepseek|--mtp-layers 2 --tp 2 --pp 2 --schedule zb-h1 --sequence-parallel on
TABLE
plans "--precision bf16 --seq-len 16$single" <<'TABLE'
a head further, tp 2|2|tiny-deepseek-v3|--mtp-layers 1 --tp 2 --sequence-parallel on
latent attention, ep 2|2|tiny-deepseek|--dp 2 --ep 2
ep 2, gradients in fp32|2|tiny-qwen2-moe|--dp 2 --ep 2 --recipe megatron
tp 2 × dp 2, ep 2|4|tiny-mixtral|--tp 2 --dp 2 --ep 2 --sequence-parallel on
tokens gathered, experts cut and shared, ep 2|4|tiny-qwen2-moe|--tp 2 --dp 2 --ep 2 --sequence-parallel on --expert-dispatch all_gather
latent attention and experts made again|2|tiny-deepseek|--dp 2 --ep 2 --recompute selective --recompute-modules mla_up_proj+moe
TABLE

# Both ends on a rank: the embedding's backward is the last of one micro-batch, the head's of the other.
cat >ends.csv <<'CSV'
0F0,1F0,1B0,0B0,0F1,1F1,1I1,0B1,1W1
CSV
cat >turns.csv <<'CSV'
0F0,1F0,0F1,1F1,1I0,1B1,0B0,1W0,0B1
CSV
cat >v.csv <<'CSV'
0F0,3F0,3I0,0B0,3W0,0F1,3F1,3B1,0B1
1F0,2F0,2B0,1B0,1F1,2F1,2B1,1B1
CSV

# A V of two ranks whose weight gradients come last, the head's behind the embedding's.
cat >late.csv <<'CSV'
0F0,0F1,0F2,0F3,3F0,3F1,3F2,3F3,3I0,3I1,3I2,3I3,0I0,0W0,0I1,0W1,0I2,0W2,0I3,0W3,3W0,3W1,3W2,3W3
1F0,2F0,1F1,2F1,1F2,2F2,1F3,2F3,2I0,1I0,2I1,1I1,2I2,1I2,2I3,1I3,2W0,2W1,2W2,2W3,1W0,1W1,1W2,1W3
CSV

# Orders that say themselves when to send, gather and reduce, as PyTorch writes them: a V, and two pipes.
cat >told-v.csv <<'CSV'
0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2,3RECV_F0,3UNSHARD,3F0,3I0,3SEND_B0,3RECV_F1,3W0,3F1,3I1,3SEND_B1,3W1,0RECV_B0,0F3,0SEND_F3,0I0,3RECV_F2,0W0,3F2,3I2,3SEND_B2,3W2,0RECV_B1,0I1,0W1,3RECV_F3,3F3,3I3,3SEND_B3,3W3,3RESHARD,3REDUCE_GRAD,0RECV_B2,0I2,0W2,0RECV_B3,0I3,0W3,0RESHARD,0REDUCE_GRAD
1RECV_F0,1RECV_F1,1UNSHARD,1F0,1RECV_F2,2UNSHARD,2F0,2SEND_F0,1F1,2RECV_B0,2F1,2SEND_F1,2I0,2W0,2RECV_B1,1F2,1I0,1SEND_B0,1RECV_F3,1W0,2F2,2SEND_F2,2I1,2W1,2RECV_B2,1F3,1I1,1SEND_B1,1W1,2F3,2SEND_F3,2I2,2RECV_B3,2W2,1I2,1SEND_B2,2I3,1I3,1SEND_B3,1W2,2W3,2RESHARD,2REDUCE_GRAD,1W3,1RESHARD,1REDUCE_GRAD
CSV
cat >told-pipes.csv <<'CSV'
0UNSHARD,0F0,0SEND_F0,3RECV_F2,3UNSHARD,3F2,(0F1;3B2)OVERLAP_F_B,0SEND_F1,3SEND_B2,3RECV_F3,0RECV_B0,(3F3;0B0)OVERLAP_F_B,3B3,3RESHARD,3REDUCE_GRAD,3SEND_B3,0RECV_B1,0I1,0W1,0RESHARD,0REDUCE_GRAD
1RECV_F0,2UNSHARD,2F2,2SEND_F2,1UNSHARD,1F0,(2F3;1B0)OVERLAP_F_B,1RECV_F1,2RECV_B2,2SEND_F3,1SEND_B0,(1F1;2B2)OVERLAP_F_B,2RECV_B3,1B1,1RESHARD,1REDUCE_GRAD,1SEND_B1,2I3,2W3,2RESHARD,2REDUCE_GRAD
CSV

plans "--precision fp32 --seq-len 16" <<'TABLE'
# every schedule: neighbours in the chain on one rank, both ends on one rank, W long after its I, two copies of a stage
pp 2, interleaved in groups of 3|2|tiny-gpt2|--pp 2 --schedule interleaved --chunks 2 --micro-batch-group 3 --global-batch 8
pp 2, looped-bfs|2|tiny-llama|--pp 2 --schedule looped-bfs --chunks 2
pp 2, zb-h1|2|tiny-gpt2|--pp 2 --schedule zb-h1
pp 2, zb-h2|2|tiny-llama|--pp 2 --schedule zb-h2
pp 2, zb-v, all wait for the norm|2|tiny-gpt2|--pp 2 --schedule zb-v --grad-norm-barrier on
pp 2, v-half|2|tiny-llama|--pp 2 --schedule v-half
pp 2, v-min|2|tiny-gpt2|--pp 2 --schedule v-min
pp 2, dualpipe|2|tiny-llama|--pp 2 --schedule dualpipe
pp 2, dualpipe|2|tiny-gpt2|--pp 2 --schedule dualpipe
pp 2, dualpipe-v|2|tiny-gpt2|--pp 2 --schedule dualpipe-v
pp 4, interleaved in groups of 5|4|tiny-gpt2-deep|--pp 4 --schedule interleaved --chunks 2 --micro-batch-group 5 --global-batch 9
pp 4, looped-bfs|4|tiny-gpt2-deep|--pp 4 --schedule looped-bfs --chunks 2
pp 4, zb-h1|4|tiny-gpt2|--pp 4 --schedule zb-h1
pp 4, zb-h2|4|tiny-llama|--pp 4 --schedule zb-h2 --global-batch 6
pp 4, zb-v|4|tiny-gpt2-deep|--pp 4 --schedule zb-v
pp 4, v-half|4|tiny-gpt2-deep|--pp 4 --schedule v-half
pp 4, v-min|4|tiny-gpt2-deep|--pp 4 --schedule v-min
pp 4, dualpipe|4|tiny-llama|--pp 4 --schedule dualpipe --global-batch 8
pp 4, dualpipe-v|4|tiny-gpt2-deep|--pp 4 --schedule dualpipe-v
pp 2, layers as asked for|2|tiny-gpt2|--pp 2 --pipeline-layout 3+1
pp 2, zb-v, layers balanced, ZeRO-1|4|tiny-llama|--dp 2 --pp 2 --schedule zb-v --pipeline-layout balanced --zero 1
pp 3, zb-v, ends without layers|3|tiny-gpt2|--pp 3 --schedule zb-v --global-batch 6
pp 3, interleaved, ends without layers|3|tiny-llama|--pp 3 --schedule interleaved --chunks 2 --global-batch 3
# crossed with what else cuts a model
tp 2, zb-v|4|tiny-llama|--tp 2 --pp 2 --schedule zb-v
tp 2, zb-v, sequence parallel|4|tiny-gpt2|--tp 2 --pp 2 --schedule zb-v --sequence-parallel on
tp 2, dualpipe, sequence parallel|4|tiny-gpt2|--tp 2 --pp 2 --schedule dualpipe --sequence-parallel on
dp 2, zb-h1, ZeRO-1|4|tiny-gpt2|--dp 2 --pp 2 --schedule zb-h1 --zero 1
dp 2, zb-h1, ZeRO-2|4|tiny-llama|--dp 2 --pp 2 --schedule zb-h1 --zero 2 --grad-norm-barrier on
dp 2, zb-h1, ZeRO-3|4|tiny-gpt2|--dp 2 --pp 2 --schedule zb-h1 --zero 3 --grad-norm-barrier on
dp 2, zb-v, ZeRO-2, many buckets|4|tiny-gpt2|--dp 2 --pp 2 --schedule zb-v --zero 2 --bucket 1 --global-batch 8 --grad-norm-barrier on
dp 2, zb-v, ZeRO-3|4|tiny-gpt2|--dp 2 --pp 2 --schedule zb-v --zero 3 --global-batch 8
dp 2, dualpipe|4|tiny-llama|--dp 2 --pp 2 --schedule dualpipe --global-batch 8
dp 2, dualpipe, ZeRO-1|4|tiny-gpt2|--dp 2 --pp 2 --schedule dualpipe --global-batch 8 --zero 1
dp 2, dualpipe, ZeRO-2, overlap off|4|tiny-llama|--dp 2 --pp 2 --schedule dualpipe --global-batch 8 --zero 2 --overlap-grad off
dp 2, dualpipe, ZeRO-3|4|tiny-gpt2|--dp 2 --pp 2 --schedule dualpipe --global-batch 8 --zero 3
embedding and head on one rank, either's backward last, ZeRO-2|2|tiny-gpt2|--dp 2 --zero 2 --schedule file:ends.csv --global-batch 4
…, ZeRO-3|2|tiny-gpt2|--dp 2 --zero 3 --schedule file:ends.csv --global-batch 4
…, micro-batches in turns, ZeRO-2, many buckets|2|tiny-gpt2|--dp 2 --zero 2 --bucket 1 --schedule file:turns.csv --global-batch 4
…, a V, ZeRO-2|4|tiny-gpt2|--pp 2 --dp 2 --zero 2 --overlap-p2p on --schedule file:v.csv --global-batch 4
W last of all, the head's last|2|tiny-gpt2|--pp 2 --schedule file:late.csv --global-batch 4
W last of all, the head's last, dp 2|4|tiny-gpt2|--dp 2 --pp 2 --schedule file:late.csv --global-batch 8
W last of all, the head's last, ZeRO-2|4|tiny-gpt2|--dp 2 --pp 2 --schedule file:late.csv --global-batch 8 --zero 2
W last of all, the head's last, ZeRO-3|4|tiny-gpt2|--dp 2 --pp 2 --schedule file:late.csv --global-batch 8 --zero 3
told when to gather and reduce, ZeRO-1|4|tiny-gpt2|--dp 2 --pp 2 --schedule file:told-v.csv --global-batch 8 --zero 1
told when to gather and reduce, ZeRO-2|4|tiny-gpt2|--dp 2 --pp 2 --schedule file:told-v.csv --global-batch 8 --zero 2
told when to gather and reduce, ZeRO-3|4|tiny-gpt2|--dp 2 --pp 2 --schedule file:told-v.csv --global-batch 8 --zero 3
told when to gather and reduce, two pipes|4|tiny-llama|--dp 2 --pp 2 --schedule file:told-pipes.csv --global-batch 8 --zero 3
zb-h1, full recompute|2|tiny-gpt2|--pp 2 --schedule zb-h1 --recompute full
tp 2, zb-v, full recompute, sequence parallel|4|tiny-llama|--tp 2 --pp 2 --schedule zb-v --recompute full --sequence-parallel on
dualpipe, selective recompute|2|tiny-gpt2|--pp 2 --schedule dualpipe --recompute selective --attention unfused
# activations of a stage sent by each rank of tp in its part
stage tensors in parts|4|tiny-gpt2|--framework megatron-deepspeed --tp 2 --pp 2
stage tensors in parts, dualpipe|4|tiny-llama|--framework megatron-deepspeed --norm-kernel fused --tp 2 --pp 2 --schedule dualpipe
# master copy, moments and reduced gradients in host memory
optimizer on the host, alone, in parts|1|tiny-llama|--offload-optimizer host --bucket 30000
optimizer on the host, no norm over ranks|2|tiny-gpt2|--dp 2 --offload-optimizer host --grad-norm-barrier off
optimizer on the host, ZeRO-1, many buckets|2|tiny-gpt2|--dp 2 --zero 1 --offload-optimizer host --bucket 1
optimizer on the host, ZeRO-3, norms of heads, sequence parallel|4|tiny-qwen3|--dp 2 --tp 2 --zero 3 --sequence-parallel on --offload-optimizer host
a share of the optimizer on the host, ZeRO-3|2|tiny-llama|--dp 2 --zero 3 --offload-optimizer host:0.4
a share of it, ZeRO-1, in parts, no norm over ranks|2|tiny-gpt2|--dp 2 --zero 1 --bucket 30000 --offload-optimizer host:0.3 --grad-norm-barrier off
a share of it, tied ends apart, experts, no dp|2|tiny-mixtral|--pp 2 --schedule zb-h1 --offload-optimizer host:0.6
weights on the host, too, ZeRO-3, tied ends on one rank|2|tiny-gpt2|--dp 2 --zero 3 --offload-optimizer host --offload-weights host
weights on the host, too, zb-v, gathered far ahead|4|tiny-llama|--dp 2 --pp 2 --schedule zb-v --zero 3 --prefetch 3 --offload-optimizer host --offload-weights host
weights on the host, too, experts in shards|4|tiny-mixtral|--dp 4 --ep 2 --zero 3 --offload-optimizer host --offload-weights host
optimizer on the host, tied ends apart, zb-v, ZeRO-2|4|tiny-gpt2|--dp 2 --pp 2 --schedule zb-v --zero 2 --offload-optimizer host
optimizer on the host, dualpipe|2|tiny-llama|--pp 2 --schedule dualpipe --offload-optimizer host
optimizer on the host, experts that no other rank has, in parts|2|tiny-mixtral|--dp 2 --ep 2 --bucket 1 --offload-optimizer host
optimizer on the host, experts, zb-h1, in parts|2|tiny-mixtral|--pp 2 --schedule zb-h1 --bucket 20000 --offload-optimizer host
# what layers save in host memory, from a forward to its backward
activations on the host, alone|1|tiny-llama|--offload-activations host
activations on the host, tp 2, sequence parallel|2|tiny-gpt2|--tp 2 --sequence-parallel on --offload-activations host
activations on the host, zb-h1, linears that read layers' inputs|2|tiny-olmo2|--pp 2 --schedule zb-h1 --offload-activations host
activations on the host, inputs of layers alone, interleaved, ZeRO-3|4|tiny-llama|--dp 2 --pp 2 --schedule interleaved --chunks 2 --zero 3 --recompute full --offload-activations host
activations on the host, experts, dualpipe, which takes turns|4|tiny-mixtral|--pp 2 --dp 2 --ep 2 --schedule dualpipe --global-batch 8 --offload-activations host
activations and optimizer on the host, cp 2, norms and MLPs made again|2|tiny-llama|--cp 2 --recompute selective --recompute-modules layernorm,mlp --offload-activations host --offload-optimizer host
activations on the host, every other product made again|2|tiny-llama|--tp 2 --framework torchtitan-eager --norm-kernel fused --recompute selective --offload-activations host
# parts of a layer made again
= --check-time off
norms made again|2|tiny-llama|--dp 2 --zero 3 --recompute selective --recompute-modules layernorm
MLPs made again|2|tiny-gpt2|--tp 2 --recompute selective --recompute-modules mlp
norms and MLPs made again, sequence parallel|2|tiny-llama|--tp 2 --sequence-parallel on --recompute selective --recompute-modules layernorm,mlp
zb-h1, norms and MLPs made again|2|tiny-gpt2|--pp 2 --schedule zb-h1 --recompute selective --recompute-modules layernorm,mlp
tp 2, zb-v, norms made again, sequence parallel|4|tiny-gpt2|--tp 2 --pp 2 --schedule zb-v --sequence-parallel on --recompute selective --recompute-modules layernorm
tp 2, flash attention made again|2|tiny-llama|--framework megatron-core --norm-kernel fused --tp 2 --recompute selective --attention flash
zb-h1, latent flash attention made again|2|tiny-deepseek|--framework megatron-core --norm-kernel fused --pp 2 --schedule zb-h1 --recompute selective --attention flash
every other product made again, alone|1|tiny-gpt2|--framework torchtitan-eager --recompute selective
every other product made again, tp 2|2|tiny-llama|--tp 2 --framework torchtitan-eager --norm-kernel fused --recompute selective
every other product made again, norms of q and k, tp 2, sequence parallel|2|tiny-qwen3|--tp 2 --sequence-parallel on --framework torchtitan-eager --norm-kernel fused --recompute selective
exchanges of each linear, tp 2, sequence parallel|2|tiny-llama|--tp 2 --sequence-parallel on --framework kempnerforge --norm-kernel fused
every other product made again, biases, dropout, tp 2, zb-v, sequence parallel|4|tiny-bloom|--tp 2 --pp 2 --schedule zb-v --sequence-parallel on --framework torchtitan-eager --recompute selective
every other product made again, zb-h1|2|tiny-llama|--pp 2 --schedule zb-h1 --framework torchtitan-compile --norm-kernel fused --recompute selective
every other product made again, biases of Q, K and V alone, dualpipe|2|tiny-stablelm|--pp 2 --schedule dualpipe --framework torchtitan-eager --recompute selective
dualpipe, norms, MLPs and unfused attention made again|2|tiny-llama|--pp 2 --schedule dualpipe --recompute selective --recompute-modules core_attn,layernorm,mlp --attention unfused
TABLE

plans "--precision bf16 --seq-len 16$single" <<'TABLE'
pp 2, zb-v|2|tiny-gpt2|--pp 2 --schedule zb-v
pp 2, dualpipe, gradients in fp32|2|tiny-llama|--pp 2 --schedule dualpipe --recipe megatron
dp 2|2|tiny-gpt2|--dp 2
dp 2, gradients in fp32|2|tiny-llama|--dp 2 --recipe megatron
tp 2, sequence parallel|2|tiny-llama|--tp 2 --sequence-parallel on
tp 4|4|tiny-llama|--tp 4
pp 2, interleaved, tied|2|tiny-gpt2|--pp 2 --schedule interleaved --chunks 2
ZeRO-3, gradients in fp32|2|tiny-gpt2|--dp 2 --zero 3 --recipe megatron
dp 2 × tp 2, ZeRO-2, full recompute|4|tiny-llama|--dp 2 --tp 2 --zero 2 --recompute full
unfused attention, no master copy|2|tiny-gpt2|--tp 2 --attention unfused --recipe no-master
every other product made again, tp 2, sequence parallel|2|tiny-llama|--tp 2 --sequence-parallel on --framework torchtitan-eager --norm-kernel fused --recompute selective
optimizer on the host, gradients in fp32, ZeRO-2|2|tiny-llama|--dp 2 --zero 2 --recipe megatron --offload-optimizer host
weights on the host, too, no master copy|2|tiny-llama|--dp 2 --zero 3 --recipe no-master --offload-optimizer host --offload-weights host
optimizer on the host, no master copy, ZeRO-1|2|tiny-gpt2|--dp 2 --zero 1 --recipe no-master --offload-optimizer host
whole gradients summed in fp32, ZeRO-1|2|tiny-gpt2|--framework megatron-deepspeed --dp 2 --zero 1 --bucket 1
gradients summed in fp32, ZeRO-2|2|tiny-llama|--framework megatron-deepspeed --norm-kernel fused --dp 2 --zero 2
whole gradients summed in fp32, stage tensors in parts|8|tiny-gpt2|--framework megatron-deepspeed --tp 2 --pp 2 --dp 2 --zero 1
matrices gathered one by one, ZeRO-3|4|tiny-gpt2|--framework deepspeed-2021 --dp 4 --zero 3 --recompute full
matrices gathered again for backward, ZeRO-3|2|tiny-llama|--framework few-live.yaml --dp 2 --zero 3 --recompute full
gradients summed in fp32, ZeRO-3 in shards of 2|4|tiny-gpt2|--framework megatron-deepspeed --dp 4 --zero 3 --zero-ranks 2
activations on the host, latent attention, a head further, ep 2|2|tiny-deepseek|--dp 2 --ep 2 --mtp-layers 1 --offload-activations host
cp 2, ring|2|tiny-gpt2|--cp 2 --micro-batch 2 --global-batch 8
cp 4, all-gather, gradients in fp32|4|tiny-llama|--cp 4 --cp-comm all_gather --recipe megatron
cp 4, Ulysses, each key head to two ranks|4|tiny-falcon|--cp 4 --cp-comm ulysses
TABLE

# Of many layers with norms behind their branches: rounding alone takes gradients beyond bf16's usual bounds.
plans "--precision bf16 --seq-len 16 --steps 4$untimed" <<'TABLE'
eight layers, tp 2, rounding measured|2|tiny-olmo2-deep|--tp 2 --seed 1
eight layers, tp 2, rounding measured, sequence parallel, full recompute|2|tiny-olmo2-deep|--tp 2 --seed 4 --sequence-parallel on --recompute full
eight layers, tp 4, rounding measured|4|tiny-olmo2-deep|--tp 4 --seed 5
TABLE

plans "--precision fp16 --seq-len 16$single" <<'TABLE'
alone|1|tiny-llama|
dp 2|2|tiny-llama|--dp 2
dp 2, gradients in fp32|2|tiny-gpt2|--dp 2 --recipe megatron
tp 2, sequence parallel|2|tiny-gpt2|--tp 2 --sequence-parallel on
pp 2|2|tiny-llama|--pp 2
pp 2, zb-h1|2|tiny-gpt2|--pp 2 --schedule zb-h1 --grad-norm-barrier on
cp 2, ring|2|tiny-llama|--cp 2
ZeRO-1|2|tiny-gpt2|--dp 2 --zero 1
ZeRO-3|2|tiny-llama|--dp 2 --zero 3
dp 2 × tp 2, ZeRO-2, full recompute|4|tiny-gpt2|--dp 2 --tp 2 --zero 2 --recompute full
unfused attention, no master copy|2|tiny-llama|--tp 2 --attention unfused --recipe no-master
a constant loss scale|2|tiny-gpt2|--dp 2 --loss-scale 1000
TABLE

# against one rank in fp8, which is compared with one in bf16; and with all copies for products in fp32
plans "--precision fp8$untimed" <<'TABLE'
tp 2|2|tiny-llama|--tp 2 --recipe megatron
ZeRO-3, weights copied each time, full recompute|2|tiny-llama|--dp 2 --zero 3 --recompute full
biases, tp 2, sequence parallel|2|tiny-gpt2-wide|--tp 2 --sequence-parallel on
biases, zb-h1|2|tiny-gpt2-wide|--pp 2 --schedule zb-h1
norms behind the branches, zb-h1, tp 2, sequence parallel, full recompute|4|tiny-olmo2|--pp 2 --tp 2 --schedule zb-h1 --sequence-parallel on --recompute full
branches side by side, a norm for both, scales of blocks, tp 2|2|tiny-falcon|--tp 2 --framework blocks.yaml
latent attention, experts, tp 2|2|tiny-deepseek-wide|--tp 2 --sequence-parallel on --micro-batch 2
latent attention, experts, scales of blocks, zb-h1, made again|2|tiny-deepseek-wide|--pp 2 --schedule zb-h1 --recompute selective --recompute-modules mla_up_proj+layernorm+moe_act --framework blocks.yaml
ep 2 by turns, ZeRO-2|2|tiny-mixtral|--dp 2 --ep 2 --zero 2 --overlap-experts on --micro-batch 2
cp 2, activations on the host|4|tiny-llama|--cp 2 --pp 2 --offload-activations host
TABLE
check_plans

# Gradients of these models overflow at 2^24, and not at 2^16.
check_table "--precision fp16 --seq-len 16 --initial-loss-scale 16777216 --steps 8$single" <<'TABLE'
gradients overflow at first|1|tiny-gpt2|
gradients overflow at first, dp 2|2|tiny-llama|--dp 2
gradients overflow at first, tp 2|2|tiny-gpt2|--tp 2
gradients overflow at first, pp 2, again and again|2|tiny-llama|--pp 2 --loss-scale-window 1
gradients overflow at first, ZeRO-1|2|tiny-gpt2|--dp 2 --zero 1
gradients overflow at first, ZeRO-3|2|tiny-llama|--dp 2 --zero 3
gradients overflow at first, ep 2|2|tiny-mixtral|--dp 2 --ep 2
gradients overflow at first, optimizer on the host|2|tiny-llama|--dp 2 --zero 1 --offload-optimizer host
gradients overflow at first, a share of it|2|tiny-llama|--dp 2 --zero 2 --offload-optimizer host:0.5
gradients overflow at first, zb-v, ZeRO-2|4|tiny-gpt2|--dp 2 --pp 2 --schedule zb-v --zero 2 --grad-norm-barrier on
TABLE

# Two layers of three with a window are no model of eight layers with it, nor without.
for edit in '' 's/"sliding_window_pattern": 3/"sliding_window_pattern": 1/' 's/"sliding_window": 10/"sliding_window": 32/'; do
  sed "$edit" "$data/models/tiny-gemma3-turns.json" >turns.json
  "$stepreal" run --model turns.json --precision fp32 --global-batch 1 --steps 1 --json 2>err |
    sed 's/.*"losses": \[\([^]]*\)\].*/\1/' >>losses
done
[ "$(sort -u losses | grep -c '^[0-9.]*$')" -eq 3 ]
result $? "layers with a window and without are told apart" "$(cat losses err)"

# A skipped step halves the scale; with a window of 1 every other doubles it, else it stays. Some are skipped, some are not.
follows_from_skips() { # report, window
  sed 's/.*"loss_scales": \[\([^]]*\)\], "skipped_steps": \[\([^]]*\)\].*/\1;\2/' "$1" | awk -F';' -v window="$2" '{
    n = split($1, scale, ", "); k = split($2, list, ", ")
    for (i = 1; i <= k; i++) skipped[list[i] + 1] = 1
    for (i = 1; i < n; i++) bad += scale[i + 1] != scale[i] * (skipped[i] ? 0.5 : window == 1 ? 2 : 1)
    exit !(n == 8 && k > 0 && k < n && skipped[1] && !bad)
  }'
}
for report in report-*; do
  [ "$report" = report-2-3 ] && window=1 || window=1000
  follows_from_skips "$report" "$window"
  result $? "${report#report-}: overflow skips a step and halves the scale, then training goes on" "$(cat "$report")"
done

# --- programs that are wrong ---------------------------------------------------------------------------------------------

cat >without.awk <<'AWK'
# The program without the ops that match `drop`, renumbered; what waited for one waits for what it waited for.
/^rank/ { n = 0; delete now }
/^ / {
  after = list = ""
  for (i = 1; i <= NF; i++)
    if ($i ~ /^after=/) { after = substr($i, 7); place = i }
  m = split(after, old, ",")
  for (i = 1; i <= m; i++)
    if (now[old[i]] != "") list = list (list == "" ? "" : ",") now[old[i]]
  if ($0 ~ drop) { now[$1] = list; next }
  now[$1] = n
  if (after != "") $place = list == "" ? "" : "after=" list
  $1 = "  " n++
}
{ print }
AWK

without() { # pattern of ops
  awk -v drop="$1" -f without.awk
}

on_rank() { # pipeline rank, command of sed
  sed "/^rank $1 /,/^rank $(($1 + 1)) /{$2}"
}

# Ranks that stop in the middle of a run end one by one: the launcher kills those that its first sees still there.
was_ended() {
  [ "$status" -eq 9 ] && grep -q '^stepreal: rank [0-9]*: ' err
}

# Writes broken-$k.txt. What the run of it is given; what the edit changed is seen.
break_program() { # ranks, model, options, edit
  options="--model few/models/$2.json --precision fp32 --seq-len 16 --global-batch 8 --steps 2 $3"
  good=good-$1-$(echo "$2 $3" | tr ' /:' '___').txt
  # shellcheck disable=SC2086
  [ -e "$good" ] || "$stepsim" simulate $options --cluster dgx-h100 --gpus "$1" --fold off --dump "$good" >/dev/null
  eval "$4" <"$good" >"broken-$k.txt"
  ! cmp -s "$good" "broken-$k.txt" || echo "the edit changed nothing;" >"unchanged-$k"
}

# Runs to the end, and its numbers are wrong, or is refused before its first op: status 1, and the report or the message
# says so. By the same processes as others.
check_told() { # what is wrong, ranks, options, words or NOT EQUAL, which of the runs with so many ranks
  problem=$(cat "unchanged-$k" 2>/dev/null)
  if [ "$4" = 'NOT EQUAL' ]; then
    grep -q '^1 -$' "status-$2-$5" 2>/dev/null || problem="$problem status;"
    grep -q '"passed": false, "reasons": \["' "report-$2-$5" 2>/dev/null || problem="$problem passed, or no reason;"
  else
    grep -q -e "^1 .*$4" "status-$2-$5" 2>/dev/null || problem="$problem no \"$4\";"
    [ ! -s "report-$2-$5" ] || problem="$problem it ran;"
  fi
  [ ! -s "err-$2" ] || problem="$problem messages;"
  [ -z "$problem" ]
  result $? "$2 ranks, $3: $1" "$problem $(cat "err-$2" "status-$2-$5" "report-$2-$5" 2>&1)"
}

# Ended in the middle: exit status 1, nothing on standard error but messages, and the words; no crash, no wait.
check_ended() { # what is wrong, ranks, options, words
  # shellcheck disable=SC2086
  timeout 30 "$mpirun" -n "$2" "$stepreal" run $options --program "broken-$k.txt" --check >out 2>err </dev/null
  status=$?
  problem=$(cat "unchanged-$k" 2>/dev/null)
  [ $status -eq 1 ] || was_ended || problem="$problem exit status $status;"
  grep -q -e "$4" out err || problem="$problem no \"$4\";"
  ! grep -v '^stepreal: ' err | grep -q -e 'signal [^9]' -e ERROR || problem="$problem it crashed;"
  [ -z "$problem" ]
  result $? "$2 ranks, $3: $1" "$problem $(cat err out)"
}

k=0
while IFS='|' read -r name ranks model plan edit words; do
  case $name in '' | \#*) continue ;; esac
  k=$((k + 1))
  break_program "$ranks" "$model" "$plan" "$edit"
  case $words in
    'ENDS: '*) check_ended "$name" "$ranks" "$plan" "${words#ENDS: }" ;;
    *)
      echo "$name|$ranks|$model|--precision fp32 --seq-len 16 --global-batch 8 --steps 2$untimed $plan --program broken-$k.txt" >>table
      echo "$k|$name|$ranks|$plan|$words" >>told
      ;;
  esac
done <"$wrong_programs"
run_lists
k_1=0 k_2=0 k_3=0 k_4=0
while IFS='|' read -r k name ranks plan words; do
  eval "k_$ranks=\$((k_$ranks + 1)) nth=\$k_$ranks"
  # shellcheck disable=SC2154 # nth is set by eval
  check_told "$name" "$ranks" "$plan" "$words" "$nth"
done <told

runs_program() { # name, ranks, model and options of both, of the Program, of the run, edit, status, words that are said
  both="--model $data/models/tiny-$3"
  # shellcheck disable=SC2086 # lists of words
  "$stepsim" simulate $both $4 --cluster dgx-h100 --gpus "$2" --dump good.txt >/dev/null
  sed "$6" <good.txt >edited.txt
  changes=0
  cmp -s good.txt edited.txt || changes=1
  # shellcheck disable=SC2086
  timeout 30 "$mpirun" -n "$2" "$stepreal" run $both $5 --program edited.txt --check >out 2>err </dev/null
  [ $? -eq "$7" ] && grep -q -e "$8" out err && { [ -z "$6" ] || [ "$changes" -eq 1 ]; }
  result $? "$1" "$(cat err out)"
}

# Gradients of one stage overflow, those of the other do not, and each decides for itself.
runs_program "a step that one rank skips alone is seen" 2 \
  "gpt2.json --precision fp16 --global-batch 8 --steps 2 --pp 2" "--fold off" "--initial-loss-scale 1048576" \
  "/^group [0-9]* world /s/ pp=all//" 1 "the loss's scale, .*, is not the one rank's, or not all skip the step"

# A window of gathers that the plan of the run knows nothing of.
runs_program "a Program with five gathers in flight has the buffers it needs" 2 \
  "llama.json --precision fp32 --global-batch 8 --steps 2 --dp 2 --zero 3" "--prefetch 4 --fold off" "" "" 0 ""

# Where W is apart and layers are gathered, an I may have no kernels: all that it does is to wait.
runs_program "a Program with ops of no kernels runs as its plan does" 4 \
  "llama.json --precision fp32 --global-batch 8 --steps 2 --dp 2 --zero 3 --pp 2 --schedule zb-h1" "" "" "" 0 ""

# Tokens are gathered over the ranks of two axes.
runs_program "a Program that gathers tokens over tp and ep runs" 4 \
  "mixtral.json --precision fp32 --global-batch 4 --steps 1 --tp 2 --dp 2 --ep 2 --sequence-parallel on --expert-dispatch all_gather" \
  "" "" "" 0 ""

# An op of more layers than there are is not taken apart first.
runs_program "more layers than there are" 1 "llama.json --precision fp32 --global-batch 2 --steps 2" "" "" \
  "/^work [0-9]* B/s/layers=[1-9][0-9]*/layers=2147483647/" 1 'no such layer, kernels or shards'

# A Program whose stages lie on other ranks than the plan's.
runs_program "a Program of a V is refused where the plan has a loop" 2 \
  "llama.json --precision fp32 --global-batch 8 --steps 2 --pp 2 --chunks 2" "--schedule zb-v --fold off" \
  "--schedule interleaved" "" 1 'stage 3 is on pipeline rank 1 under .* interleaved'

# A Program whose optimizer is elsewhere than the plan's.
for of_program in '' '--offload-optimizer host'; do
  [ -n "$of_program" ] && of_plan='' || of_plan='--offload-optimizer host'
  runs_program "a Program ${of_program:-without} is refused where the plan is ${of_plan:-without}" 1 \
    "llama.json --precision fp32 --global-batch 2 --steps 2" "$of_program --fold off" "$of_plan" "" 1 \
    'is the program of another plan'
done
# Documents that fill rows exactly are the same sequences as when each has a row and padding of its own.
printf '5\n7\n4\n' >lengths.txt
losses() { # ranks, options
  "$mpirun" -n "$1" "$stepreal" run --model few/models/tiny-llama.json --precision fp32 --seq-len 16 --steps 3 \
    --seq-lengths lengths.txt --json $2 2>err </dev/null | sed -n 's/.*"losses": \[\([^]]*\)\].*/\1/p'
}
# shellcheck disable=SC2046 # three numbers on either side
set -- $(losses 2 '--global-batch 4 --dp 2 --batching concatenated' | tr -d ,) \
  $(losses 1 '--global-batch 12 --micro-batch 3 --batching longest' | tr -d ,) \
  $(losses 1 '--global-batch 12 --batching padded' | tr -d ,)
[ $# -eq 9 ] && awk "BEGIN { exit !(($1 - $4)^2 + ($2 - $5)^2 + ($3 - $6)^2 + ($4 - $7)^2 + ($5 - $8)^2 + ($6 - $9)^2 < 1e-12) }"
result $? "packed documents train as padded ones" "losses: $*; $(cat err)"
finish
