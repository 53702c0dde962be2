#!/bin/sh
# test_plans.sh STEPSIM: plans in files, stepsim's own and of other programs, and two of them beside each other (TAP).
[ $# -eq 1 ] || { echo "usage: $0 STEPSIM" >&2; exit 2; }
. "$(dirname "$0")/../fixtures/tap.sh"
stepsim=$(absolute "$1")
data=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
small="--model llama-3-8b --cluster dgx-h100 --gpus 16 --global-batch 32 --seq-len 2048"

run() { # arguments; leaves out, err, got
  timeout 60 "$stepsim" "$@" >out 2>err </dev/null
  got=$?
}

options() { # of a result: what was asked for
  sed -n 's/^  "options" : "\(.*\)",$/\1/p' out
}

has_options() { # name, options parted by ;
  found=$(options)
  [ "$got" -le 1 ] && has_words "$2" "$found "
  result $? "$1" "exit status $got: $found $(cat err)"
}

same_bytes() { # but for the wall clock's
  grep -v wall_s "$1" >a.bytes
  grep -v wall_s "$2" >b.bytes
  cmp -s a.bytes b.bytes
}

# --- stepsim's own
mkdir -p folder/of
printf '0F0,0B0\n1F0,1B0\n' >order.csv
cp "$data/models/gpt2.json" mine.json
while read -r plan; do
  # shellcheck disable=SC2086 # a list of words
  run simulate $plan --json --save-plan own.yaml
  cp out before
  run simulate --plan own.yaml --json
  same_bytes before out
  result $? "a plan that was saved is read as the same: $(printf '%.60s' "$plan")" "$(cat err own.yaml)"
  # shellcheck disable=SC2086
  run simulate $plan --json --save-plan folder/of/own.yaml
  (cd folder && "$stepsim" simulate --plan of/own.yaml --json) >there 2>err
  grep -v '"schedule"\|"options"' before >one
  grep -v '"schedule"\|"options"' there >two # which name the order's file as it is seen from there
  same_bytes one two
  result $? "and from another folder" "$(cat err folder/of/own.yaml)"
done <<'END'
--model llama-3-8b --cluster dgx-h100 --gpus 16 --tp 2 --pp 2 --chunks 2 --zero 1 --recompute selective --recompute-modules mlp+core_attn --framework megatron-core
--model mine.json --cluster dgx-h100 --gpus 2 --pp 2 --schedule file:order.csv --global-batch 1 --slow-rank 0=1.5 --slow-rank 1=1.1
--model deepseek-v3 --cluster gb200-nvl72 --gpus 256 --pp 8 --ep 32 --pipeline-layout Et*7|(t*8|)*6t*6L --precision fp8 --recipe deepseek-v3 --zero 1
--model gpt2 --cluster dgx-h100 --gpus 16 --schedule auto --pp 4 --memory-cap 60GB --jitter 0.01 --seq-lengths lognormal:300+1.1
END
printf 'model: gpt2\ncluster: dgx-h100\ngpus: 8\ntp: 2\nmicro_batch: 2\nsequence-parallel: true\n' >own.yaml
run simulate --plan own.yaml --tp 4 --json
has_options "what is typed goes before the file, whose keys may be columns" "--tp 4 ;--micro-batch 2 ;--sequence-parallel on "
run memory --plan own.yaml
expect "memory takes a plan's file" 0 "tp × pp 2, dp 4"
run explain --plan own.yaml
expect "so does explain" 0 "tp 2, pp 1, dp 4"
run topology dgx-h100 --plan own.yaml
expect "and topology" 0 "tp 2, dp 4"
run topology --cluster=dgx-h100 "--plan=--tp 2 --dp 4"
expect "which takes options in quotes behind =, too" 0 "tp 2, dp 4"
run sweep --plan own.yaml --tp 1,2,4
expect "a sweep varies what is typed" 0 "3 configurations"
run plan --plan own.yaml --global-batch 16
expect "plan searches what is left open" 0 "--tp 2;--micro-batch 2"
run plan $small --save-plan best.yaml --json
best=$(sed -n 's/.*"rank" : \([0-9]*\),/\1/p' out)
time=$(sed -n 's/^ *"step_time_s" : \(.*\),/\1/p' out | sed -n "$((best + 1))p")
run simulate --plan best.yaml --json
[ -n "$time" ] && [ "$time" = "$(sed -n 's/^  "step_time_s" : \(.*\),/\1/p' out)" ] && ! grep -q '^dp:' best.yaml
result $? "what plan recommends is saved" "$best: $time: $(cat best.yaml err)"

# --- mistakes
mistake() { # name, words, lines
  printf '%b' "$3" >bad.yaml
  run simulate --plan bad.yaml --model gpt2 --cluster dgx-h100 --gpus 8
  expect "$1" 2 "$2"
}
mistake "an unknown key" 'bad.yaml:2: unknown key "global-batches";did you mean "global-batch"?' 'tp: 2\nglobal-batches: 2\n'
mistake "a key that stands twice" 'bad.yaml:2: tp: found twice;line 1' 'tp: 2\ntp: 4\n'
mistake "one in both spellings" 'bad.yaml:2: seq_len;beside seq-len in line 1' 'seq-len: 2\nseq_len: 4\n'
mistake "a wrong value" 'bad.yaml:2: --tp: found "two"' 'pp: 1\ntp: two\n'
mistake "a list where one plan is asked for" 'bad.yaml:1: --tp: found "1,2"' 'tp: [1, 2]\n'
mistake "a mapping" 'bad.yaml:1: tp: found a mapping' 'tp: {a: 1}\n'
mistake "nothing of a plan" "bad.yaml: found nothing of a plan" 'echo hello\n'
mistake "another JSON" "bad.yaml: found nothing of a plan, expected DeepSpeed's keys" '{"a": 1}\n'
mistake "another TOML" "bad.yaml: found nothing of a plan, expected torchtitan's keys" '[tool.x]\nname = "a"\n'
mistake "broken JSON" 'bad.yaml:2:' '{"train_batch_size": 1,\n}\n'
mistake "broken TOML" 'bad.yaml:2: found "x", expected a value' '[training]\nseq_len = x\n'
mistake "a plan of another model" 'bad.yaml:2: num-layers: found 99, model gpt2 has 12' '--tensor-model-parallel-size 1 \\\n--num-layers 99\n'
launch="torchrun --nproc_per_node 8 --nnodes 4 x.py --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 \
--micro-batch-size 1 --global-batch-size 64 --seq-length 4096 --bf16 --num-layers 32"
while IFS='|' read -r options words; do
  printf '%s\n%s' '#!/bin/sh' "$launch $options" >bad.sh
  run simulate --plan bad.sh --model llama-3-8b --cluster dgx-h100
  expect "of Megatron-LM: $options" 2 "bad.sh:2: ;$words"
done <<'END'
--num-virtual-stages-per-pipeline-rank two|num-virtual-stages-per-pipeline-rank: found "two", expected a whole number
--num-virtual-stages-per-pipeline-rank 99999999999999999999|found "99999999999999999999", expected a whole number
--num-layers-per-virtual-pipeline-stage 3|num-layers-per-virtual-pipeline-stage: found 3;--num-layers 32
--decoder-first-pipeline-num-layers x|found "x", expected a whole number
--num-distributed-optimizer-instances x|found "x", expected a whole number
--moe-token-dispatcher-type foo|found "foo", expected one of allgather, alltoall, flex
--attention-backend bar|found "bar", expected one of
--recompute-method zig|found "zig", expected one of uniform, block
--nnodes=0|nnodes: found "0", expected a whole number from 1
--fp16|fp16: found beside --bf16 in line 2
END
while IFS='|' read -r text words; do
  printf '%b\n' "$text" >bad.toml
  run simulate --plan bad.toml --model llama-3-8b --cluster dgx-h100 --gpus 8
  expect "of torchtitan: $words" 2 "bad.toml:2: ;$words"
done <<'END'
[training]\nlocal_batch_size = 99999999999999999999|training.local_batch_size: found "99999999999999999999", expected a whole
[training]\nlocal_batch_size = -1|found "-1", expected a whole number
[training]\nglobal_batch_size = -5|found "-5", expected a whole number
[training]\nbatch_size = 1\nlocal_batch_size = 1|training.batch_size: found beside training.local_batch_size in line 3
[training]\nmixed_precision_param = "float16"|found "float16", expected one of bfloat16, float32
[parallelism]\ndata_parallel_shard_degree = "x"|found "x", expected a whole number
[parallelism]\nfsdp_reshard_after_forward = "foo"|found "foo", expected one of default, always, never
[activation_checkpoint]\nselective_ac_option = "foo"|found "foo", expected a whole number
END
for gpus in "--nnodes 2:4" "--nproc-per-node gpu" '--nnodes $NODES'; do
  printf '%s\n' "$launch $gpus 2>&1 | tee log" >open.sh
  run simulate --plan open.sh --model llama-3-8b --cluster dgx-h100
  expect "GPUs that are not said: $gpus" 0 "on 4 ×"
  has_words "open.sh:1: n;how many GPUs there are is not said" "$(cat err)"
  result $? "are told of: $gpus" "$(cat err)"
done
{ echo "$launch \\" && seq 3000 | sed 's/.*/--foo-& 3 \\/'; } >many.sh
run simulate --plan many.sh --model llama-3-8b --cluster dgx-h100
[ "$(grep -c foo err)" -eq 2 ] && has_words "line 6: foo-5 3: not;foo-1 3: and 2995 more like that" "$(cat err)"
result $? "what is not understood does not bury the rest" "$(head -c 2000 err)"
printf '%s\n' "$launch "'"$@"' >open.sh
run simulate --plan open.sh --model gpt2 --cluster dgx-h100
expect "what is given to the script does not hide the value before it" 2 "open.sh:1: num-layers: found 32, model gpt2 has 12"
run simulate --plan open.sh --model llama-3-8b --cluster dgx-h100
has_words 'open.sh:1: num-layers 32: what $@ behind it stands for' "$(cat err)"
result $? "and is told of" "$(cat err)"
printf '%s\n' "$launch "'--unknown $X --use-distributed-optimizer $EXTRA' >open.sh
run simulate --plan open.sh --model llama-3-8b --cluster dgx-h100 --json
has_options "nor the option" "--zero 1 "
has_words 'unknown $X: not understood;use-distributed-optimizer $EXTRA: what stands behind it' "$(cat err)"
result $? "which is told, too" "$(cat err)"
run simulate --plan nowhere.yaml
expect "no such file" 2 "nowhere.yaml"
cp own.yaml same.yaml
run simulate --plan same.yaml --save-plan same.yaml
expect "a plan is not written over the one that is read" 2 "--save-plan would write over what --plan reads"
run sweep --plan bad.yaml --model gpt2 --cluster dgx-h100 --gpus 8
expect "a space's model is held against the file, too" 2 "bad.yaml:2: num-layers"

# --- of other programs
cat >train.sh <<'END'
#!/bin/bash
# what --tensor-model-parallel-size 16 says here is a comment
TP=${TP:-4}
GPUS_PER_NODE=8
DISTRIBUTED_ARGS=(--nproc_per_node $GPUS_PER_NODE --nnodes=2 --master_addr $MASTER)
MODEL_ARGS=(
    --num-layers 32 --hidden-size 4096   # as the model has them
    --num-attention-heads 32 --seq-length 2048
)
OPTIONS="--tensor-model-parallel-size $TP \
    --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 8 --sequence-parallel"
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py "${MODEL_ARGS[@]}" $OPTIONS \
    --micro-batch-size=2 --global-batch-size 64 --bf16 --use-distributed-optimizer \
    --overlap-grad-reduce --overlap-param-gather --recompute-granularity selective \
    --tp-comm-overlap --recompute-modules core_attn mlp --save "$1" --lr 1e-4 --data-path 1.0 a 2.0 b && echo done
END
run simulate --plan train.sh --model llama-3-8b --cluster dgx-h100 --json
has_options "a script for Megatron-LM is a plan" "--gpus 16 ;--tp 4 --pp 2 ;--schedule interleaved --chunks 2 ;--micro-batch 2 \
--global-batch 64 ;--zero 1 ;--sequence-parallel on;--recompute-modules core_attn+mlp ;--framework megatron-core"
expect "and what is not understood is named" 0 "train.sh:15: tp-comm-overlap: not understood;--framework megatron-core"
has_words "notice" "$(cat err)" && ! grep -q 'save\|lr\|data-path' err
result $? "but not what cannot matter" "$(cat err)"
run simulate --plan train.sh --model llama-3-8b --cluster dgx-h100 --framework nemo --tp 8 --json
has_options "options go before it" "--tp 8 ;--framework nemo "
cat >ds.json <<'END'
{
  "train_batch_size": 64,
  "train_micro_batch_size_per_gpu": 1,
  "bf16": {"enabled": true},
  "zero_optimization": {
    "stage": 3,
    "stage3_max_live_parameters": 1e9,
    "stage3_of_later": 1e9,
    "offload_optimizer": {"device": "cpu"}
  },
  "steps_per_print": 10
}
END
run simulate --plan ds.json --model llama-3-8b --cluster dgx-h100 --gpus 16 --seq-len 2048 --json
has_options "a configuration of DeepSpeed's is a plan" "--global-batch 64 ;--zero 3 ;--framework deepspeed ;--offload-optimizer host"
expect "whose gaps are named" 0 "ds.json:8: zero_optimization.stage3_of_later 1000000000: not understood;which layers are recomputed: said by the program, not here: --recompute"
has_words "notice" "$(cat err)" && ! grep -q -e '--seq-len\|max_live' err
result $? "but not those that are typed or harmless" "$(cat err)"
sed -i 's/"train_batch_size": 64/"train_batch_size": "auto"/' ds.json
run simulate --plan ds.json --model llama-3-8b --cluster dgx-h100 --gpus 16 --json
has_options "what Transformers fills in follows from the GPUs" "--global-batch 16 ;--framework deepspeed"
cat >auto.json <<'END'
{
  "train_batch_size": "auto",
  "train_micro_batch_size_per_gpu": "auto",
  "gradient_accumulation_steps": "auto",
  "fp16": {"enabled": "auto"},
  "bf16": {"enabled": "auto"},
  "zero_optimization": {"stage": 3, "overlap_comm": true, "reduce_bucket_size": "auto"}
}
END
auto="--plan auto.json --model llama-3-8b --cluster dgx-h100 --gpus 16 --global-batch 32 --micro-batch 1 --recompute full"
# shellcheck disable=SC2086 # a list of words
run simulate $auto --json
expect "bf16 that Transformers may switch on is on" 0 \
  "auto.json:6: bf16.enabled auto: Transformers sets it from its own arguments: taken for bf16 unless typed: --precision"
expect "and what options can still say stands in one line" 0 \
  "zero_optimization.reduce_bucket_size auto, line 1: length of sequences: said by the program, not here: --bucket, --seq-len"
taken=$(grep step_time_s out)
# shellcheck disable=SC2086
run simulate $auto --precision bf16 --bucket 500000000 --seq-len 4096 --json
[ "$taken" = "$(grep step_time_s out)" ] && ! grep -q 'auto.json:[0-9]' err
result $? "as if it had been typed" "$taken: $(grep step_time_s out) $(cat err)"
sed '/bf16/d; s/"fp16".*/"fp16": {"enabled": "auto"},/' auto.json >fp16.json
run simulate --plan fp16.json --model llama-3-8b --cluster dgx-h100 --gpus 16
expect "fp16 alone likewise" 0 "fp16.enabled auto;taken for fp16"
cat >titan.toml <<'END'
[training]
local_batch_size = 2
seq_len = 2048
[parallelism]
data_parallel_shard_degree = -1
data_parallel_replicate_degree = 2
tensor_parallel_degree = 2 # two
[activation_checkpoint]
mode = 'full'
[compile]
enable = true
[metrics]
log_freq = 10
END
run simulate --plan titan.toml --model llama-3-8b --cluster dgx-h100 --gpus 16 --json
has_options "a configuration of torchtitan's is a plan" "--tp 2 ;--micro-batch 2 --global-batch 16 --seq-len 2048 --zero 3 \
--recompute full --sequence-parallel on;--framework torchtitan ;--zero-ranks 4"
printf '[model]\nname = "llama3"\nflavor = "8B"\n' | cat titan.toml - >flavor.toml
run simulate --plan flavor.toml --model llama-3-70b --cluster dgx-h100 --gpus 16
expect "which is of a model of that size" 2 'flavor.toml:16: model.flavor "8B": found 8 billion parameters, model llama-3-70b has 70.55'
run simulate --plan flavor.toml --model llama-3-8b --cluster dgx-h100 --gpus 16
expect "named by a rounded one" 0 "model.name llama3"
run simulate --plan titan.toml --model llama-3-8b --cluster dgx-h100 --gpus 16 --json
compiled=$(sed -n 's/^  "step_time_s" : \([0-9.]*\),/\1/p' out)
sed 's/^enable = true/enable = false/' titan.toml >eager.toml
run simulate --plan eager.toml --model llama-3-8b --cluster dgx-h100 --gpus 16 --json
awk -v compiled="$compiled" -v eager="$(sed -n 's/^  "step_time_s" : \([0-9.]*\),/\1/p' out)" \
  'BEGIN { exit !(eager > 1.05 * compiled) }'
result $? "and is slower where it is not compiled" "$compiled, $(grep step_time_s out) $(cat err)"
run simulate --plan titan.toml --model llama-3-8b --cluster dgx-h100
expect "which says what it cannot know" 0 "--gpus, which is missing"

while IFS='|' read -r name text; do
  printf '\357\273\277%b' "$text" >marked
  run simulate --plan marked --model llama-3-8b --cluster dgx-h100 --gpus 16 --seq-len 2048 --json
  [ "$got" -le 1 ] && has_words "--seq-len 2048" "$(options) "
  result $? "a byte order mark is none of a plan: $name" "$(cat err)"
done <<'END'
YAML|tp: 2\n
JSON|{"train_batch_size": 64, "zero_optimization": {"stage": 3}}
TOML|[training]\nlocal_batch_size = 0x1\n
Megatron-LM|--tensor-model-parallel-size 2\n
END
sed -i 's/"auto"/64/' ds.json
mkfifo pipe
timeout 60 cat ds.json >pipe &
run simulate --plan pipe --model llama-3-8b --cluster dgx-h100 --gpus 16 --seq-len 2048 --json
has_options "a pipe is read once" "--global-batch 64 ;--framework deepspeed"

# --- beside each other
run diff "--tp 2" "--tp 4 --pp 2" $small --json
awk -F'[:,]' '/^  "/ { at = $1 } /^  "(step_time_s|breakdown_s)"/ { on = 1 } /"difference"/ {
    if (at ~ /step_time_s/) step = $2; else if (at ~ /breakdown_s/) sum += $2 }
  END { off = sum - step; exit !(step != 0 && off < 2e-9 && off > -2e-9) }' out
result $? "what the parts of the step differ by is what the step differs by" "$(cat out err)"
expect "and what the plans differ in is told" 0 '"option" : "tp";"option" : "pp"'
for tp in 2 4; do
  run simulate --tp $tp $small --json --save-plan tp$tp.yaml
  cp out tp$tp.json
done
run diff "--tp 2" "--tp 4" $small
cp out strings
sed -i '1,2d' strings
for pair in "tp2.yaml tp4.yaml" "tp2.json tp4.json" "tp2.yaml tp4.json"; do
  # shellcheck disable=SC2086 # two files
  run diff $pair
  sed '1,2d' out | cmp -s - strings && has_words "What it costs;Where the time goes" "$(cat out)"
  result $? "files, results and options say the same: $pair" "$(cat out err)"
done
run diff tp2.yaml "--plan tp2.yaml"
expect "a plan is as itself" 0 "The plans do not differ"
run diff tp2.yaml "--plan tp2.yaml --global-batch 64"
expect "steps of other sizes are told apart" 0 "A's step is of 65536 tokens, B's of 131072: for the same tokens B takes"
run diff tp2.yaml tp4.yaml --zero 1 --json
[ "$(grep -c -- '--zero 1 ' out)" -eq 2 ]
result $? "options of both go before the files" "$(grep options out) $(cat err)"
grep -v '"plan"' tp2.json >no-plan.json
while IFS='|' read -r status words arguments; do
  eval "set -- $arguments"
  run diff "$@"
  expect "diff $arguments" "$status" "$words"
done <<'END'
2|found 1 plan, expected two|tp2.yaml
2|found 3 plans, expected two|tp2.yaml tp2.yaml tp2.yaml
2|nowhere.yaml|tp2.yaml nowhere.yaml
2|no-plan.json|tp2.yaml no-plan.json
2|unknown option --tpp; did you mean --tp?|tp2.yaml "--tpp 2"
2|--price: found "3" without a unit|tp2.yaml tp4.yaml --price 3
1|--plan tp2.yaml --tp 3: |tp2.yaml "--plan tp2.yaml --tp 3"
1|B does not fit in memory|tp2.yaml "--plan tp2.yaml --micro-batch 2 --global-batch 128 --seq-len 65536"
END

# --- in pictures
if command -v gnuplot >/dev/null; then
  run plot mfu --plan tp2.yaml --plan tp4.yaml --gpu-list 16..64*2 --data - --output both.svg
  expect "plans are drawn together, on other numbers of GPUs" 0 '"tp2";"tp4"'
  run plot breakdown --plan tp2.yaml --plan train.sh --model llama-3-8b --cluster dgx-h100 --gpus 16 --terminal
  expect "of whatever files" 0 "tp2;train;--framework megatron-core"
  run plot timeline --plan tp2.yaml --plan tp4.yaml --terminal
  expect "but where one is drawn" 2 "plot timeline draws a single plan, found --plan 2 times"
fi
far="--model llama-3-8b --cluster dgx-h100 --zero 3 --micro-batch 1"
# shellcheck disable=SC2086 # a list of words
run simulate $far --gpus 1024 --global-batch 1024
warning=$(sed -n 's/^  warning: //p' out)
# shellcheck disable=SC2086
run plot mfu $far --global-batch 1024 --gpu-list 512,1024 --data -
[ -n "$warning" ] && has_words "warning: ;at 1024 GPUs: $warning" "$(cat err)"
result $? "a figure warns as simulate does" "$warning: $(cat err)"
finish
