#!/bin/sh
# Fuzz every reader under the sanitizers, from what is shipped and what stepsim writes. Findings are kept beside the
# program: one is run again with `fuzz --reader=NAME FILE`.
# usage: fuzz.sh FUZZ_BUILD_FOLDER [INPUTS_PER_READER [READER…]]
set -eu
export LC_ALL=C # by which awk reads and writes numbers
source=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd)
inputs=${2:-60000}
shift $(($# < 2 ? $# : 2))
stepsim=$build/sim/stepsim
findings=$build/findings
data=$source/tests/data
memory=/dev/shm # a file on disk for each input takes longer than its reader
[ -w "$memory" ] || memory=${TMPDIR:-/tmp}
scratch=$(mktemp -d -p "$memory")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM
export TMPDIR="$scratch"
readers=${*:-"model cluster gpu collective-library framework rank-map nccl-xml smi-matrix nccl-tests order program trace
profile space csv measured database words plan"}

quiet() { "$@" >/dev/null 2>"$scratch/said" || { cat "$scratch/said" >&2; exit 1; }; }

# a file for each line of standard input
lines() {
  n=0
  while IFS= read -r line; do
    n=$((n + 1))
    printf '%b' "$line" >"line-$n"
  done
}

small_plan="--model $data/models/tiny-gpt2.json --cluster dgx-h100 --pp 2 --global-batch 1 --seq-len 16"

seeds() { # reader → files in this folder
  case $1 in
  model) cp "$source"/models/*.json "$data"/models/*.json . ;;
  cluster)
    cp "$source"/topologies/*.yaml "$data"/cluster*.yaml "$data"/topology/*.yaml .
    # what they name is to be found from any folder
    sed -i -e "s|^gpu: gpu|gpu: $data/gpu|; s|^gpu: $data/gpus/\(.*\)\.yaml|gpu: \1|; s|^collectives: nccl/\(.*\)\.yaml|collectives: \"\1\"|" \
      ./*.yaml
    ;;
  gpu) cp "$source"/topologies/gpus/*.yaml "$data"/gpu*.yaml . ;;
  collective-library) cp "$source"/topologies/nccl/*.yaml . ;;
  framework) cp "$source"/topologies/frameworks/*.yaml . ;;
  nccl-xml) cp "$data"/topology/*.xml . ;;
  smi-matrix) cp "$data"/topology/*.txt . ;;
  nccl-tests) cp "$data"/nccl-tests/* . ;;
  rank-map)
    lines <<'END'
0,8,16,24..27
rank,node,gpu\n0,node0,0\n1,node1,0\n2,node0,7
node4 slots=8\nnode2:4\nnode3 gpus=6,7
# words\n\n3,2,1,0
END
    ;;
  order)
    for schedule in gpipe 1f1b interleaved zb-h1 zb-v dualpipe; do
      quiet "$stepsim" schedule --schedule $schedule --pp 2 --micro-batches 4 --csv $schedule.csv
      quiet "$stepsim" schedule --schedule $schedule --pp 2 --micro-batches 4 --csv-format comms --csv $schedule-comms.csv
    done
    ;;
  program)
    awk '/^program / { n++ } n > 0 { print > "pass-" n }' "$data"/passes/*.txt # several in each
    # shellcheck disable=SC2086 # a list of words
    quiet "$stepsim" simulate $small_plan --dump folded.txt
    quiet "$stepsim" schedule --schedule zb-h1 --pp 2 --micro-batches 2 --dump bare.txt
    ;;
  profile)
    # shellcheck disable=SC2086 # a list of words
    quiet "$stepsim" simulate $small_plan --trace step.json
    lines <<'END'
{"distributedInfo":{"rank":0,"world_size":2},"traceEvents":[{"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","ts":0,"dur":9,"tid":1},{"ph":"X","cat":"cpu_op","name":"aten::mm","ts":1,"dur":4,"tid":1,"args":{"External id":4,"Input Dims":[[64,32],[32,16]],"Input type":["float","float"],"Input Strides":[[32,1],[1,32]]}},{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","ts":2,"dur":1,"tid":1,"args":{"correlation":7}},{"ph":"X","cat":"kernel","name":"sgemm","ts":5.25,"dur":3,"args":{"stream":7,"correlation":7,"External id":4}},{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce","ts":6,"dur":8,"args":{"stream":8,"In msg nelems":9,"dtype":"Float","Group size":2,"Process Group Ranks":"[0, 1]"}}]}
{"distributedInfo":{"rank":0,"world_size":128},"baseTimeNanoseconds":1711964646000000000,"traceEvents":[{"ph":"X","cat":"cpu_op","name":"aten::add_","ts":1,"dur":4,"tid":1,"args":{"External id":4,"Input Dims":[[64,32],[32],[]],"Input type":["float","c10::Half","Scalar"]}},{"ph":"X","cat":"cpu_op","name":"aten::_fused_adamw_","ts":6,"dur":4,"tid":1,"args":{"External id":5,"Input Dims":[[[64,32],[9]],[[64,32],[9]],[[64]],[[64]]],"Input type":["TensorList","TensorList","TensorList","TensorList"]}},{"ph":"X","cat":"kernel","name":"elementwise","ts":5.25,"dur":3,"args":{"External id":4}},{"ph":"X","cat":"kernel","name":"multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>","ts":9,"dur":3,"args":{"External id":5}},{"ph":"X","cat":"gpu_memcpy","name":"Memcpy DtoD","ts":15,"dur":2,"args":{"bytes":4096}},{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce","ts":20,"dur":8,"args":{"stream":8,"Collective name":"allreduce","In msg nelems":9,"dtype":"Float","Group size":64,"Process Group Ranks":"[0, 2, 4, ..., 126]"}}]}
END
    ;;
  trace)
    # shellcheck disable=SC2086 # a list of words
    quiet "$stepsim" simulate $small_plan --trace step.json
    quiet "$stepsim" schedule --schedule zb-h1 --pp 2 --micro-batches 2 --trace order.json
    ;;
  space)
    lines <<'END'
model: gpt2\ncluster: [dgx-h100, dgx-a100]\ntp: 1..8*2\nzero: [0, 1..3]\n
model: gpt2\ncluster: dgx-h100\ngpus: 8..64+8\nschedule: [1f1b, zb-v]\nmicro-batch: "1,2,4"\nrecompute: none,full\n
model: gpt2\ncluster: dgx-h100\nmemory-cap: 60GB\nrecipe: [megatron, w2+g4+p4+m4+v4]\norder: tp-cp-ep-dp-pp\n
END
    ;;
  csv | measured)
    lines <<'END'
layers,hidden,heads,cluster,step_time_s\n2,64,4,selene,1\n3,64,4,"dgx-h100",\n
id,source,layers,hidden,heads,kv_heads,ffn_hidden,gated,vocab,tied,positions,experts,seq_len,cluster,gpus,tp,pp,chunks,cp,dp,zero,micro_batch,global_batch,schedule,recompute,sequence_parallel,precision,attention,overlap_grad,overlap_param,framework,step_time_s,memory_gb,notes\na,b,32,4096,32,8,14336,1,128256,0,rotary,,4096,dgx-h100,64,4,2,1,1,8,1,1,64,1f1b,full,1,bf16,flash,on,off,megatron-lm,1.5,60.1,"x, ""y""\\n"\r\n
\\xef\\xbb\\xbflayers,hidden,heads,cluster,step_time_s,notes\r\n\r\n2,64,4,selene,1.0,"a\r\nb"\r\n
END
    ;;
  database)
    quiet "$stepsim" sweep --model gpt2 --cluster dgx-h100 --gpus 8 --global-batch 8 --tp 1,2 --output sweep.db
    ;;
  words)
    lines <<'END'
450 GB/s
1.2 us
80 GiB
989 TFLOP/s
2.50 $/h
1.7 GHz
15.6T
0..7,16
1..16*2
8..64+8,3
w2+g2+p4+m4+v4
bf16+master
mxfp8
tp-cp-ep-dp-pp
(0F3;1B2)OVERLAP_F_B
2SEND_F1
1REDUCE_GRAD
F=1,I=1.5ms,W=1,FB=2,send=0.1
F=1,I=0,W=1
8.5
all_reduce
off
END
    ;;
  plan)
    lines <<'END'
--tp=4\n--pp=2\n--chunks=2\n--gpus=64\n--zero=1\n--sequence-parallel=on\n--global-batch=128
--pp\n4\n--schedule\nzb-h1\n--memory-cap\n60GB\n--steps=3\n--recipe=w2+g4+p4+m4+v4\n--precision=fp8
--tp=2\n--dp=4\n--order=tp-dp-cp-ep-pp\n--slow-rank=5=1.4\n--jitter=0.02\n--seed=7\n--fold=off\n--recompute=selective\n--recompute-modules=layernorm+mlp
--dp=4\n--pp=2\n--compress-grad=topk:0.01\n--recipe=megatron\n--overlap-grad=off
--tp=2\n--gpus=8\n--recompute=block:2\n--train=lora:16:q_proj+v_proj\n--freeze=layers:3+embedding\n--recipe=qlora
--gpus=8\n--seq-lengths=lognormal:1200+1.1\n--batching=packed
--framework=megatron-lm\n--cp=2\n--cp-comm=ulysses\n--attention=flash\n--overlap-grad=off\n--mtp-layers=1\n--expert-load=1.2\n--expert-dispatch=deepep\n--overlap-experts=on\n--cuda-graphs=attention\n--bucket=1000000\n--prefetch=2
END
    ;;
  esac
}

mkdir -p "$findings"
status=0
for reader in $readers; do
  mkdir -p "$scratch/$reader"
  (cd "$scratch/$reader" && seeds "$reader")
  [ -n "$(ls "$scratch/$reader")" ] || { echo "fuzz: found $reader, expected a reader" >&2; exit 2; }
  log=$findings/$reader.log
  # the first must be of what users hand over, or what follows would be refused at the door
  "$build"/tests/fuzz/fuzz --reader="$reader" --tell "$scratch/$reader"/* >"$log" 2>&1 || true
  if ! grep -q '^accepted' "$log"; then
    status=1
    echo "$reader: none of the files to begin with is accepted, see $log"
    continue
  fi
  runs=$inputs
  [ "$reader" != database ] || runs=$((inputs / 10)) # SQLite writes a journal for each
  if "$build"/tests/fuzz/fuzz --reader="$reader" -seed=1 -runs="$runs" -timeout=10 -rss_limit_mb=2048 \
    -artifact_prefix="$findings/$reader-" "$scratch/$reader" >"$log" 2>&1; then
    echo "$reader: $(sed -n 's/^Done //p' "$log"), no finding"
    rm -f "$log"
  else
    status=1
    echo "$reader: FINDING, see $log"
    grep -E '^SUMMARY|ERROR: |runtime error|does not hold|artifact_prefix' "$log" | head -5
  fi
done
exit "$status"
