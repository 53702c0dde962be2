#!/bin/sh
# test_plan.sh STEPSIM: a search for the best plan as it is typed: margins, failures, what ends it early (TAP).
[ $# -eq 1 ] || { echo "usage: $0 STEPSIM" >&2; exit 2; }
. "$(dirname "$0")/../fixtures/tap.sh"
stepsim=$(absolute "$1")
data=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
small="--model llama-3-8b --cluster dgx-h100 --gpus 8 --global-batch 16 --pp 1 --zero 1,3 --micro-batch 1 --recompute none"

plan() { # arguments; leaves out, err, got
  timeout 60 "$stepsim" plan "$@" >out 2>err </dev/null
  got=$?
}

number() { # file, name: the first such member of a JSON object
  sed -n "s/.*\"$2\" : \([-0-9.e+]*\).*/\1/p" "$1" | head -1
}

holds() { # an awk expression of $1, $2 … which are the other arguments
  expression=$1
  shift
  echo "$*" | awk "{ exit !($expression) }"
}

# --- memory
plan $small
expect "the report says how full the fullest GPU is" 0 "on the fullest GPU, "
mv out plain
plan $small --memory-margin 0
grep -v 'plans simulated of' plain >expected
grep -v 'plans simulated of' out | cmp -s expected -
result $? "no margin is the default" "$(diff plain out | head -4)"
full=$(sed -n 's/.*fullest GPU, \([0-9]*\)\.[0-9] %.*/\1/p' plain)
plan $small --memory-margin "$((100 - full))%"
less=$(sed -n 's/.*fullest GPU, \([0-9]*\)\.[0-9] %.*/\1/p' out)
[ "$got" -eq 0 ] && [ "$less" -lt "$full" ]
result $? "a margin of what is left and a little more is another plan" "$full % without, $less % with it: $(cat err)"
expect "and is told" 0 "are kept free (--memory-margin)"
plan $small --memory-margin "20 GB" --json
off='($1 * ($2 + $3) - $4) / $4'
holds "\$3 > 0 && $off < 1e-9 && $off > -1e-9" "$(number out used)" "$(number out capacity_bytes)" \
  "$(number out margin_bytes)" "$(number out total_bytes)"
result $? "JSON has the share, the margin and what it is of" "$(grep -A 6 '"memory"' out | head -7) $(cat err)"
plan $small --memory-margin 5
expect "a bare number is no margin" 2 "--memory-margin: found \"5\";5 % or 0.05;4 GB"
plan $small --memory-margin 99%
expect "nor is one that leaves nothing" 2 "dgx-h100.yaml: a margin of;leaves nothing"
for tokens in 6144 7168; do # 5.4 GB apart
  plan --model llama-3-8b --cluster dgx-h100 --gpus 8 --global-batch 8 --tp 1 --pp 1 --zero 1 --micro-batch 1 \
    --seq-len $tokens --recompute none
  sed -n 's/.*fullest GPU, \([0-9.]*\) %.*/\1/p; s/^  warning .*/warned/p' out >"warned.$tokens"
done
[ "$(cat warned.6144 warned.7168 | tr '\n' ' ')" = "$(head -1 warned.6144) $(head -1 warned.7168) warned " ] &&
  awk 'NR == 1 { exit !($1 < 95) }' warned.6144 && awk 'NR == 1 { exit !($1 > 95) }' warned.7168
result $? "above 95 % and only there is a warning" "$(cat warned.*)"

# --- weights gathered by more ranks than any run compared
for ranks in 512 1024; do
  plan --model llama-3-8b --cluster dgx-h100 --gpus 1024 --global-batch 1024 --tp 1 --pp 1 --zero 3 --zero-ranks $ranks \
    --micro-batch 1 --recompute none --json
  grep -c 'gather each layer' out >"gathers.$ranks"
done
[ "$(cat gathers.512)" -eq 0 ] && [ "$(cat gathers.1024)" -gt 0 ]
result $? "a plan whose weights more than 512 ranks gather is warned of" "$(cat gathers.*)"
"$stepsim" simulate --model llama-3-8b --cluster dgx-h100 --gpus 1024 --zero 3 >out 2>err
got=$?
expect "so is simulate" 0 "warning: 1024 ranks gather;--zero-ranks 512"
warning=$(sed -n 's/^  warning: //p' out)
"$stepsim" simulate --model llama-3-8b --cluster dgx-h100 --gpus 1024 --zero 3 --json >out 2>err
got=$?
expect "in its JSON as in its text" 0 "\"$warning\""
"$stepsim" simulate --model llama-3-8b --cluster dgx-h100 --gpus 8 --zero 3 --json >out 2>err
got=$?
expect "which has an empty list without one" 0 '"warnings" : []'
for form in "" --json; do
  # shellcheck disable=SC2086
  "$stepsim" sweep --model llama-3-8b --cluster dgx-h100 --gpus 8 --global-batch 8 --zero 1 --seq-len 7168 $form >out 2>err
  got=$?
  expect "sweep${form:+ $form} says that its best leaves no memory" 0 "% of GPU memory is used"
done
# Of 576 and of 1,048 = 8 · 131 ranks: the largest divisor up to 512, and that which groups of 8 experts can be made in;
# of 4,112 = 16 · 257 on nodes of 8 GPUs not 257, but the most of whole nodes.
while read -r model cluster gpus options advised; do
  # shellcheck disable=SC2086
  set -- --model "$model" --cluster "$cluster" --gpus "$gpus" --zero 3 --micro-batch 1 $(echo "$options" | tr , ' ')
  "$stepsim" simulate "$@" >out 2>err
  ranks=$(sed -n 's/.*warning: .*--zero-ranks \([0-9]*\) .*/\1/p' out)
  "$stepsim" simulate "$@" --zero-ranks "${ranks:-0}" >out 2>err
  code=$?
  [ "$ranks" = "$advised" ] && [ $code -lt 2 ] && ! grep -q "does not divide\|does not fit into\|ranks gather" out err
  result $? "the number of ranks that it names is one that $model can have" "$ranks: $(cat err)"
done <<'EOF'
llama-3-8b gb200-nvl72 1152 --tp,2 288
mixtral-8x7b dgx-h100 1048 --ep,8 8
llama-3-8b dgx-h100 4112 --tp,1 16
EOF

# --- shards and prices
plan $small --zero 3 --zero-ranks 2,4
expect "how far shards span is told" 0 "ZeRO-3 within 4 ranks;tp 2, pp 1, dp 4, ZeRO-3 within 2 ranks"
# Of 1,024 ranks fewer gather faster: the plan that says so is the one that simulates so, on any number of threads.
wide="--model llama-3-8b --cluster dgx-h100 --gpus 1024 --global-batch 1024 --tp 1 --pp 1 --zero 3 --micro-batch 1 --recompute none"
plan $wide --jobs 1 --json
cp out one.json
found=$(sed -n 's/.*"options" : "\(.*\)",/\1/p' out | head -1)
plan $wide --zero-ranks 0 --json
# shellcheck disable=SC2086 # a list of words
"$stepsim" simulate --model llama-3-8b --cluster dgx-h100 $found --json >simulated.json 2>err
case $found in *--zero-ranks\ 0) false ;; *--zero-ranks\ *) true ;; *) false ;; esac &&
  [ "$(number one.json step_time_s)" = "$(number simulated.json step_time_s)" ] &&
  holds '$1 < $2' "$(number one.json step_time_s)" "$(number out step_time_s)"
result $? "shards over part of the ranks are sought where they are faster" "$found: $(grep step_time_s one.json out err)"
plan $wide --jobs 2 --json
[ "$(grep -v wall_s one.json)" = "$(grep -v wall_s out)" ]
result $? "and found by any number of threads" "$(diff one.json out)"
# Over the 4 ranks that experts are dealt out to nobody gathers an expert.
plan --model olmoe-1b-7b --cluster gcp-a3mega --gpus 96 --tp 1 --pp 1 --cp 2 --ep 4 --expert-tp 1 --zero 3 --micro-batch 1 \
  --global-batch 384 --seq-len 512 --recompute none --sequence-parallel on --schedule 1f1b --pipeline-layout auto --chunks 1
expect "and in less than a node" 0 "ZeRO-3 within 4 ranks"
plan $wide --emit torchtitan
replicas=$(sed -n 's/^data_parallel_replicate_degree = //p' out) shards=$(sed -n 's/^data_parallel_shard_degree = //p' out)
holds '$1 > 1 && $2 > 1 && $1 * $2 == 1024' "${replicas:-0}" "${shards:-0}"
result $? "torchtitan is told as replicas" "$replicas × $shards: $(cat err)"
plan $wide --emit megatron --emit-to flags
grep -q -- "--num-distributed-optimizer-instances $replicas\$" flags
result $? "and Megatron-LM as instances of the optimizer" "$(cat flags err)"

plan $small --cluster l40s-pcie,dgx-h100 --objective cost
expect "of different GPUs the least dollars win, by the clusters' own prices" 0 "plans by cost;per million tokens"
plan $small --cluster a100-pcie,dgx-h100 --objective cost
expect "what has no price is not compared in dollars" 2 "a100-pcie.yaml has none;add --price"
for cluster in kempner-h200 gcp-a3mega dgx-a100-40gb; do
  plan $small --cluster $cluster,dgx-h100 --objective cost
  expect "nor has $cluster that of its base, which is another's" 2 "$cluster.yaml has none;add --price"
done

# --- energy: GPUs times watts times seconds
one="--model llama-3-8b --gpus 8 --global-batch 16 --zero 1 --recompute full"
"$stepsim" simulate $one --cluster dgx-h100 --json >out 2>err
got=$?
holds '$1 * 3600 / $2 > 5599.999 && $1 * 3600 / $2 < 5600.001' "$(number out gpu_energy_Wh)" "$(number out step_time_s)"
result $? "eight H100 draw at most 5600 W" "$(grep -e Wh -e step_time out) $(cat err)"
"$stepsim" simulate $one --cluster dgx-h100 --tokens 1T >out 2>err
expect "which the text says of a run" 0 "$ per GPU-hour, at most ;Wh at the GPUs' 700 W"
sed '/^power:/d' "$data/topologies/gpus/l40s.yaml" >unknown.yaml
printf '%s\n' 'name: unstated' 'base: l40s-pcie' 'gpu: unknown.yaml' >unstated.yaml
"$stepsim" simulate --model gpt2 --gpus 8 --cluster unstated.yaml --json >out 2>err
got=$?
expect "of what has no power none is told" 0 '"gpu_energy_Wh" : null'

# An H200 draws 700 W at most, as an H100 does; an A100 400.
while read -r name other; do
  printf '%s\n' "name: $name" 'base: dgx-h100' "other_gpus: [{nodes: 1, gpu: $data/topologies/gpus/$other.yaml}]" >mixed.yaml
  "$stepsim" simulate --model llama-3-8b --gpus 16 --global-batch 16 --zero 1 --cluster mixed.yaml --json >out 2>err
  number out gpu_energy_Wh >"energy.$name" && number out step_time_s >>"energy.$name"
done <<'EOF'
alike h200-sxm5-141gb
unlike a100-sxm4-80gb
EOF
# shellcheck disable=SC2046 # two numbers
holds '$1 * 3600 / $2 > 11199.999 && $1 * 3600 / $2 < 11200.001' $(cat energy.alike) && [ -z "$(head -1 energy.unlike)" ]
result $? "kinds that draw as much draw it together, of others it is not told" "$(cat energy.alike energy.unlike err)"

# --- failures
sed -e '/^failures:/,$d' -e "s|gpus/|$data/topologies/gpus/|; s|nccl/|$data/topologies/nccl/|" \
  "$data/topologies/llama3-h100.yaml" >sound.yaml
sed 's/^name: .*/name: fails/' sound.yaml >fails.yaml
cat >>fails.yaml <<'END'
failures:
  source: made up
  node_mtbf: 200 h
  restart: 10 min
  checkpoint_bandwidth: 10 GB/s
END
for cluster in sound fails; do
  plan --model llama-3-8b --cluster $cluster.yaml --gpus 64 --global-batch 64 --tp 1 --pp 1 --zero 1 --micro-batch 1 \
    --recompute full --tokens 1T --json
  mv out $cluster.json
done
! grep -q failures sound.json && [ -n "$(number sound.json days)" ]
result $? "of a cluster that does not say how often it fails nothing is told" "$(grep -A 5 training sound.json)"
# 8 nodes, one failure in 200 h each: one in 25 h
holds '$1 > 89999 && $1 < 90001 && $2 > 0.9 && $2 < 1' "$(number fails.json mtbf_s)" "$(number fails.json goodput)"
result $? "of one that does, how often the job is interrupted" "$(grep -A 16 training fails.json)"
holds '$3 > 0 && $1 / $2 / $3 > 1 - 1e-9 && $1 / $2 / $3 < 1 + 1e-9' "$(number fails.json days)" \
  "$(number fails.json goodput)" "$(number fails.json expected_days)"
result $? "and the days to expect beside the ideal ones" "$(grep -A 16 training fails.json)"
# a deadline between the two
between=$(echo "$(number fails.json days) $(number fails.json expected_days)" | awk '{ print ($1 + $2) / 2 }')
for cluster in sound fails; do
  plan --model llama-3-8b --cluster $cluster.yaml --gpus 64 --global-batch 64 --tp 1 --pp 1 --zero 1 --micro-batch 1 \
    --recompute full --tokens 1T --deadline "$between d"
  eval "$cluster=\$got"
done
[ "$sound" -eq 0 ] && [ "$fails" -eq 1 ]
result $? "a deadline counts with them" "status $sound without failures, $fails with: $(cat err)"
"$stepsim" simulate --model llama-3-8b --cluster fails.yaml --gpus 64 --global-batch 64 --zero 1 --recompute full \
  --tokens 1T >out 2>err
got=$?
expect "simulate tells them too" 0 "Failures;one in 1.042 d;of the time trains;expected"
"$stepsim" simulate --model llama-3-8b --cluster fails.yaml --gpus 64 --global-batch 64 --zero 1 --recompute full \
  --gpu-hours 10k >out 2>err
got=$?
expect "and what of a budget is left for training" 0 "GPU-hours then train on"
sed 's/node_mtbf: 200 h/node_mtbf: 200/' fails.yaml >bare.yaml
"$stepsim" simulate --model llama-3-8b --cluster bare.yaml --gpus 64 --global-batch 64 >out 2>err
got=$?
expect "a mistake there has its line" 2 "bare.yaml:$(grep -n node_mtbf bare.yaml | cut -d: -f1): "

# --- what a framework runs is tried unasked
cut="--model llama-3-8b --cluster dgx-h100 --gpus 16 --global-batch 64 --seq-len 4096 --tp 2 --pp 4 --chunks 1,2 --micro-batch 1
  --recompute full"
plan $cut --zero 1 --sequence-parallel on --emit megatron
expect "chunks of Megatron-LM overlap their sends" 0 "--schedule interleaved --chunks 2;--overlap-p2p on"
! grep -q -e --no-overlap-p2p out
result $? "and it is started so" "$(grep overlap out)"
plan --model mistral-7b --cluster dgx-h100 --gpus 16 --global-batch 64 --seq-len 8192 --tp 2 --pp 4 --micro-batch 1 --zero 1 \
  --recompute full --sequence-parallel on --schedule interleaved --chunks 2 --micro-batch-group 8 --bucket 1000000 --emit megatron
expect "its window, groups of micro-batches and buckets are written" 0 \
  "--window-size 4095,0;--microbatch-group-size-per-virtual-pipeline-stage 8;--ddp-bucket-size 1000000"
plan --model llama-3-8b --cluster dgx-h100 --gpus 16 --global-batch 64 --seq-len 8192 --tp 1 --pp 1 --micro-batch 1 --zero 3 \
  --recompute full --sequence-parallel off --emit deepspeed
expect "as much is gathered ahead by DeepSpeed as its file says" 0 '"stage3_prefetch_bucket_size" : 50000000'
tight="--model llama-3-70b --cluster dgx-h100 --gpus 64 --global-batch 64 --seq-len 8192 --tp 4 --pp 2 --micro-batch 1"
plan $tight --emit megatron
expect "FSDP in a pipeline, which Megatron-LM has no test of, is not proposed" 0 "--zero 1 ;--use-distributed-optimizer"
! grep -q -e --use-megatron-fsdp out
result $? "nor written" "$(grep fsdp out)"
plan $tight --zero 0..3 --emit megatron
expect "but where it is asked for" 0 "--zero 2 ;--use-megatron-fsdp;is tried with one"
plan $cut --zero 2 --sequence-parallel on --schedule zb-v --emit torchtitan
expect "torchtitan has a schedule without bubbles" 0 "--schedule zb-v;ZBVZeroBubble;module_fqns_per_model_part"
plan $cut --zero 1 --sequence-parallel off --emit deepspeed
expect "DeepSpeed's is 1f1b, of stages with unequal layers" 0 "--schedule 1f1b --pipeline-layout '9+8*2+7'"

# --- ending early
env --default-signal=INT "$stepsim" plan --model megatron-1t --cluster selene --gpus 3072 --global-batch 3072 --jobs 1 \
  >out 2>err &
pid=$!
for try in $(seq 500); do # until it screens
  [ "$(ls "/proc/$pid/task" | wc -l)" -gt 1 ] && break
  sleep 0.02
done
kill -INT "$pid" 2>/dev/null
wait "$pid"
got=$?
expect "Ctrl-C ends it with 130" 130 "interrupted after"
[ ! -s out ]
result $? "without a report of half a search" "$(head -3 out)"
finish
