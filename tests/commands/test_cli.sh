#!/bin/sh
# test_cli.sh STEPSIM: what the command line does with mistakes (TAP).
#
# The table: exit status | words that must appear, parted by ; | arguments, as a shell reads them. A line with status 2
# or with an error must print exactly one message, to standard error, and nothing to standard output.
[ $# -eq 1 ] || { echo "usage: $0 STEPSIM" >&2; exit 2; }
. "$(dirname "$0")/../fixtures/tap.sh"
stepsim=$(absolute "$1")
tests=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2

check_line() { # status|words|arguments
  want=${1%%|*} words=${1#*|}
  arguments=${words#*|} words=${words%%|*}
  eval "set -- $arguments"
  "$stepsim" "$@" >out 2>err </dev/null
  got=$?
  problem= said= printed=
  [ ! -s err ] || said=$(cat err)
  [ ! -s out ] || printed=$(cat out)
  [ "$got" -eq "$want" ] || problem="exit status $got, expected $want;"
  has_words "$words" "$printed$said" || problem="$problem not all of \"$words\" were printed;"
  count_lines 'stepsim: ' "$said"
  [ "$want" -ne 2 ] || [ "$n_lines" -eq 1 ] || problem="$problem $n_lines messages;"
  [ "$n_lines" -eq 0 ] || [ ! -s out ] || problem="$problem printed to standard output beside an error;"
  [ "${#said}" -lt 2000 ] || problem="$problem a message of ${#said} bytes;"
  [ -z "$problem" ]
  result $? "$want $(printf '%.100s' "$arguments")" "$problem $said"
}

printf 'name: x\nname: y\n' >twice.yaml
printf 'name: x\ngpu: [\n' >broken.yaml
printf '{"model_type": "llama",\n "hidden_size": }\n' >broken.json
printf '{"model_type": "llama", "hidden_size": 4096' >cut.json
printf '0F0,0B0\n1F0,1B9\n' >bad.csv
printf '0F0,0B0\n1F0,1B0\n' >good.csv
printf 'rank,node,gpu\n0,0,0\n0,0,1\n' >twice.map
echo 'login1 slots=8' >hosts.map
echo '0,8,16,24' >line.map
printf 'program ranks=1 stages=1 micro_batches=1 steps=1 expanded=0\nrank 0\n  0 compute 0F0 work=x\n' >bad.program
printf 'zero\0byte' >zero.program
printf '{"traceEvents": [{"ph": "X"}]}\n' >foreign.json
cp "$tests/data/nccl-tests/unranked.log" own.log
columns=layers,hidden,heads,cluster,step_time_s
printf '%s,source\n2,256,4,selene,1,a\n2,256,4,selene,2,b\n' "$columns" >runs.csv
: >empty.csv
printf '%s,cp\n2,256,4,selene,1,3\n' "$columns" >refused.csv
printf '%s\n\n2,256,4,selene,soon\n' "$columns" >soon.csv
printf '%s\n' "$columns" >headed.csv
wired='{name: t, source: made up, gpu: h100-sxm5-80gb, collectives: "2.30", node: {gpus: 4, nics: 2,
  nic: {bandwidth: 400 Gb/s, efficiency: 1, latency: 1 us},
  scale_up: {kind: nvswitch, bandwidth: 450 GB/s, efficiency: 1, latency: 1 us}'
printf '%s, rails: [{nic: 0, gpus: [0, 1]}, {nic: 1, gpus: [2]}]}}\n' "$wired" >wiring.yaml
printf '%s}, faults: [{at: node0/nic0, factor: dead}]}\n' "$wired" >faulty.yaml
printf '<machine/>\n' >wiring.xml
printf '      GPU0 GPU1 CPU Affinity\nGPU0   X  NV4  0-7\nGPU1  NV4  X   0-7\n' >matrix
head -c 100000 /dev/zero | tr '\0' a >long
plan='--model llama-3-8b --cluster dgx-h100 --gpus 8 --tp 8'

while IFS= read -r line; do
  case $line in '' | \#*) continue ;; esac
  case $line in *PLAN*) line=${line%%PLAN*}$plan${line#*PLAN} ;; esac
  check_line "$line"
done <<'TABLE'
# verbs
2|no verb;did you mean "simulate"?|simulat
2|no verb;did you mean "simulate"?|sim
2|no verb|''
2|no verb|'%s%n'
0|usage: stepsim VERB;collective|--help
0|Usage:;--micro-batches;Example|schedule --help
0|Usage:;--tp=N|simulate --tp abc -h
# options
2|unknown option --tpp; did you mean --tp?|simulate PLAN --tpp 2
2|unknown option --tp-size;did you mean --tp?|simulate PLAN --tp-size 2
2|unknown option -tp;did you mean --tp?|simulate PLAN -tp 2
2|unknown option;did you mean --micro-batches?|schedule --pp 4 --micro-batch 4
2|unknown option --aaaa|simulate --$(cat long)
2|unexpected "aaaa|simulate $(cat long)
2|--tp: its value is missing|simulate PLAN --tp
2|--model: its value is missing|simulate --model --cluster dgx-h100
2|--json takes no value;yes|simulate PLAN --json=yes
2|unexpected "extra"|simulate PLAN extra
2|unexpected "extra"|simulate PLAN -- extra
2|--model is missing|simulate --cluster dgx-h100
2|--cluster is missing|simulate --model llama-3-8b
0|tp 8|simulate PLAN --tp 2 --tp 8
# numbers
2|--tp;found "";whole number|simulate PLAN --tp ''
2|--tp;found "abc"|simulate PLAN --tp abc
2|--tp;found "1.5"|simulate PLAN --tp 1.5
2|--tp;found "0x8"|simulate PLAN --tp 0x8
2|--tp;found "2147483648"|simulate PLAN --tp 2147483648
2|--tp;found "1e18"|simulate PLAN --tp 1e18
2|--micro-batch;9223372036854775808|simulate PLAN --micro-batch 9223372036854775808
2|tp: found 0|simulate PLAN --tp 0
2|tp: found -1|simulate PLAN --tp -1
0|tp 8|simulate PLAN --tp 08
2|--dp: found 0|simulate --model llama-3-8b --cluster dgx-h100 --dp 0
2|--gpus: found -8|simulate --model llama-3-8b --cluster dgx-h100 --gpus -8
2|--global-batch: found 0|simulate PLAN --global-batch 0
2|prefetch: found -5|simulate PLAN --prefetch -5
2|steps: found 1001|simulate PLAN --steps 1001
2|zero: found 4;0 to 3|simulate PLAN --zero 4
2|jitter;nan|simulate PLAN --jitter nan
2|--jitter;found "2%"|simulate PLAN --jitter 2%
2|jitter;0 to 0.5|simulate PLAN --jitter 1e300
2|--slow-rank;found "0=";RANK=FACTOR|simulate PLAN --slow-rank 0=
2|slow-rank 0;nan|simulate PLAN --slow-rank 0=nan
1|slow-rank 9 is not one of gpus 8|simulate PLAN --slow-rank 9=2
0|disturbed by;rank 3|simulate PLAN --slow-rank 3=1.5
# names
2|--recompute;did you mean "full"?|simulate PLAN --recompute ful
2|--recompute-modules;found "moe_atc";did you mean "moe_act"?|simulate PLAN --recompute-modules moe_atc
0|recompute selective (layernorm + mlp)|simulate PLAN --recompute selective --recompute-modules mlp,layernorm
2|--sequence-parallel;found "yes";on or off|simulate PLAN --sequence-parallel yes
2|precision;did you mean "bf16"?|simulate PLAN --precision bf17
2|recipe;w2+g2+w2|simulate PLAN --recipe w2+g2+w2
2|--framework;did you mean "megatron-lm"|simulate PLAN --framework megatron-ml
0|gradients         4.02 GB|simulate --model llama-3-8b --cluster dgx-h100 --gpus 8 --tp 8 --framework megatron-lm
2|order;each once|simulate PLAN --order tp-dp-pp
2|unknown schedule;did you mean "1f1b"?|simulate PLAN --schedule 1f2b
2|no pass;did you mean "place"?|simulate PLAN --dump-after plaec
# impossible plans
1|tp 3 does not divide the attention heads 32|simulate --model llama-3-8b --cluster dgx-h100 --tp 3
1|gpus 12 is not a multiple of tp 8|simulate --model llama-3-8b --cluster dgx-h100 --gpus 12 --tp 8
1|gpus 12 is not whole nodes|simulate --model llama-3-8b --cluster dgx-h100 --gpus 12
1|tp 8 × pp 1 × dp 8 = 64 is not gpus 8|simulate PLAN --dp 8
1|64 stages are more than the 32 layers|simulate --model llama-3-8b --cluster dgx-h100 --pp 64
1|7 stages are more than the 6 layers;with pipeline-layout loss|simulate --model tinystories-15m --cluster dgx-h100 --pp 7
0|1*6+0;tokens|simulate --model tinystories-15m --cluster dgx-h100 --pp 7 --pipeline-layout loss --gpu-hours 30.84M
1|pipeline-layout 5: 1 stage is not the plan's 4|simulate --model llama-3-8b --cluster dgx-h100 --pp 4 --pipeline-layout 5
2|--pipeline-layout: found "3,2,1";did you mean "3+2+1"?|simulate --model tinystories-15m --cluster dgx-h100 --pp 3 --pipeline-layout 3,2,1
1|has 1 m, --mtp-layers is 0|simulate --model tinystories-15m --cluster dgx-h100 --pp 2 --pipeline-layout 'Et*3|t*3mL'
0|2 ran|sweep --model tinystories-15m --cluster dgx-h100 --gpus 6 --tp 2 --pp 3 --pipeline-layout 'Et*2|(t*2|)*1,t*2,L,auto'
0|1 ran, 1 impossible;has 1 m, --mtp-layers is 0|sweep --model deepseek-v3 --cluster dgx-h100 --gpus 256 --pp 4 --ep 64 --zero 1 --seq-len 512 --recompute full --mtp-layers 0,1 --pipeline-layout 'Et*20|t*14|t*14|t*13mL'
1|layers 54+7;1 MTP layer|explain --model deepseek-v3 --cluster dgx-h100 --gpus 64 --pp 2 --ep 32 --zero 1 --seq-len 512 --recompute full --mtp-layers 1 --pipeline-layout 'Et*54|t*7mL'
1|schedule gpipe;2 chunks|simulate --model llama-3-8b --cluster dgx-h100 --pp 2 --chunks 2 --schedule gpipe
1|global-batch 3 is not a multiple|simulate PLAN --global-batch 3 --micro-batch 2
1|gpus 8 is not a multiple of tp 8 × cp 2 × pp 1 = 16|simulate PLAN --cp 2
1|seq-len 8190 is not a multiple of 2 × cp 4|simulate --model llama-3-8b --cluster dgx-h100 --cp 4 --seq-len 8190
2|--cp-comm;"rnig";did you mean "ring"?|simulate PLAN --cp-comm rnig
2|--expert-dispatch;"deepp";did you mean "deepep"?|simulate PLAN --expert-dispatch deepp
0|step time|simulate --model llama-3-8b --cluster dgx-h100 --gpus 8 --tp 4 --pp 2 --schedule ZB_H1 --recipe BF16+Master --overlap-grad ON --seq-len 512
0|zb-h1|schedule --schedule ZB_H1 --pp 2 --micro-batches 4
0|0F0,0F1,2F0,2F1,0F2,0F3,2B0|schedule --schedule interleaved --pp 2 --micro-batches 4 --overlap-experts on --csv -
0|0F0,0F1,2F0,2F1,0F2,2B0|schedule --schedule interleaved --pp 2 --micro-batches 4 --overlap-experts off --csv -
0|0F0,0F1,0B0,0F2,0B1|schedule --pp 1 --micro-batches 4 --overlap-experts on --csv -
2|--cuda-graphs;"ful";did you mean "full"?|simulate PLAN --cuda-graphs ful
2|--cuda-graphs attention;model gpt2 has none|simulate --model gpt2 --cluster dgx-h100 --cuda-graphs attention
2|--cuda-graphs router;gpt2|plan --model gpt2 --cluster dgx-h100 --gpus 8 --global-batch 8 --cuda-graphs router
0|notice: model olmo-2-7b normalises q and k over all heads|plan --model olmo-2-7b --cluster dgx-h100 --gpus 8 --global-batch 8 --tp 2 --pp 1 --zero 1 --emit megatron
1|megatron: model gemma-2-9b has norms behind its branches|plan --model gemma-2-9b --cluster dgx-h100 --gpus 8 --global-batch 8 --tp 2 --emit megatron
0|micro-batch|plan --model mixtral-8x7b --cluster dgx-h100 --gpus 64 --global-batch 64 --seq-len 512 --tp 1 --pp 2 --ep 8 --chunks 1,2 --zero 1 --recompute none --micro-batch 1 --overlap-experts on,off
2|--overlap-experts on;gpt2|plan --model gpt2 --cluster dgx-h100 --gpus 8 --global-batch 8 --overlap-experts on
2|--overlap-experts on;model gpt2 has none|simulate --model gpt2 --cluster dgx-h100 --overlap-experts on
0|4 ran|sweep --model mixtral-8x7b --cluster dgx-h100 --gpus 64 --ep 8 --pp 8 --chunks 2 --overlap-experts on,off --cuda-graphs none,full --seq-len 512 --zero 1
0|1 ran, 1 impossible;1f1b with pp 8 has no rounds|sweep --model mixtral-8x7b --cluster dgx-h100 --gpus 64 --ep 8 --pp 8 --overlap-experts on,off --seq-len 512 --zero 1
1|--overlap-experts on: schedule interleaved with pp 8 and 1 chunk has no rounds|simulate --model mixtral-8x7b --cluster dgx-h100 --gpus 64 --ep 8 --pp 8 --schedule interleaved --chunks 1 --overlap-experts on
1|--overlap-experts off: schedule dualpipe runs a forward and a backward as one|simulate --model mixtral-8x7b --cluster dgx-h100 --gpus 64 --ep 4 --pp 8 --schedule DualPipe --overlap-experts off
0|1 ran, 1 impossible;schedule dualpipe-v runs a forward and a backward as one|sweep --model mixtral-8x7b --cluster dgx-h100 --gpus 64 --ep 4 --pp 8 --schedule dualpipe-v --overlap-experts on,off --seq-len 512 --zero 1
0|no effect;--expert-dispatch deepep, --overlap-experts on: with ep 1|simulate --model mixtral-8x7b --cluster dgx-h100 --gpus 64 --zero 3 --seq-len 512 --expert-dispatch DeepEP --overlap-experts on
0|no effect;--overlap-experts on: with ep 1|simulate --model mixtral-8x7b --cluster dgx-h100 --gpus 64 --pp 4 --chunks 2 --zero 1 --seq-len 512 --overlap-experts on
2|--expert-dispatch deepep;model gpt2 has none|plan --model gpt2 --cluster dgx-h100 --gpus 8 --global-batch 8 --expert-dispatch DeepEP
1|--overlap-experts on: schedule zb-v with pp 8|simulate --model mixtral-8x7b --cluster dgx-h100 --gpus 64 --ep 8 --pp 8 --schedule zb-v --overlap-experts on
2|--norm-kernel;"fussed";did you mean "fused"?|simulate PLAN --norm-kernel fussed
1|recompute-modules layernorm needs --recompute selective: found none|simulate PLAN --recompute-modules layernorm
1|mtp-layers 1: the config of model llama-3-8b names 0 heads|simulate PLAN --mtp-layers 1
2|mtp-layers: found -1|simulate PLAN --mtp-layers -1
1|recompute-modules mla_up_proj: model llama-3-8b has no latent attention|simulate PLAN --recompute selective --recompute-modules mla_up_proj
2|--norm-kernel plain;model gpt2 has LayerNorms|simulate --model gpt2 --cluster dgx-h100 --norm-kernel plain
2|--norm-kernel plain;model gpt2 has LayerNorms|explain --model gpt2 --cluster dgx-h100 --norm-kernel plain
2|--norm-kernel plain;model gpt2 has LayerNorms|memory --model gpt2 --norm-kernel plain
2|--norm-kernel plain;LayerNorms|plan --model gpt2 --cluster dgx-h100 --gpus 8 --global-batch 8 --norm-kernel plain
0|1 ran, 1 impossible;says how an RMSNorm runs: model gpt2|sweep --model gpt2 --cluster dgx-h100 --gpus 8 --norm-kernel plain,fused
2|--expert-dispatch deepep;model gpt2 has none|simulate --model gpt2 --cluster dgx-h100 --expert-dispatch deepep
2|--expert-dispatch deepep;model gpt2 has none|explain --model gpt2 --cluster dgx-h100 --expert-dispatch deepep
2|--expert-dispatch deepep;gpt2|plan --model gpt2 --cluster dgx-h100 --gpus 8 --global-batch 8 --expert-dispatch deepep
0|1 ran, 1 impossible;model gpt2 has none|sweep --model gpt2 --cluster dgx-h100 --gpus 8 --expert-dispatch deepep,alltoall
0|5 ran, 3 impossible|sweep --model llama-3-8b,mixtral-8x7b --cluster dgx-h100 --gpus 64 --zero 3 --seq-len 512 --overlap-experts off,on --cuda-graphs none,router
1|--overlap-grad on;megatron-deepspeed clash|simulate PLAN --framework megatron-deepspeed --overlap-grad on
1|does not fit|simulate --model llama-3-70b --cluster dgx-h100
1|forward passes: at most|simulate --model llama-3-8b --cluster dgx-h100 --gpus 8 --pp 8 --global-batch 1000000
1|every rank apart;at most|simulate PLAN --global-batch 1000000 --fold off
1|layer by layer;at most|simulate --model llama-3-8b --cluster dgx-h100 --gpus 8 --zero 3 --global-batch 4000000
1|busy for;days|simulate --model llama-3.1-405b --cluster dgx-h100 --micro-batch 16 --seq-len 134217720 --global-batch 1600000
# options that clash
2|--fold on and --slow-rank clash|simulate PLAN --fold on --slow-rank 1=2
2|--json and --kernels clash|simulate PLAN --kernels --json
2|--json and --dump - clash|simulate PLAN --dump - --json
2|--json and --tokens clash|simulate PLAN --tokens 1T --json
2|--dump - and --trace - clash|simulate PLAN --dump - --trace -
2|--dump and --trace are both ./t.json|simulate PLAN --dump t.json --trace ./t.json
2|--output and --data are both x.svg|plot bubble --pp 4 --output ./x.svg --data x.svg
2|--rows and --markdown are both ./r|validate runs.csv --rows r --markdown ./r
2|--dump-after and --trace clash|simulate PLAN --dump-after place --trace t.json
2|--tokens 1T and --gpu-hours 1M clash|simulate PLAN --tokens 1T --gpu-hours 1M
2|--price needs --tokens|simulate PLAN --price '2 $/h'
2|--price: found "2" without a unit|simulate PLAN --tokens 1T --price 2
2|--tokens: found "5Q"|simulate PLAN --tokens 5Q
2|--json and --draw clash|schedule --pp 4 --micro-batches 4 --draw --json
2|--chunks 2: the order in good.csv has 1|schedule --from good.csv --chunks 2
2|--from good.csv and --schedule clash|schedule --from good.csv --schedule file:good.csv
2|--memory-cap limits the order that --schedule auto makes|schedule --from good.csv --memory-cap 8
2|--from good.csv and --overlap-experts clash|schedule --from good.csv --overlap-experts on
2|--overlap-experts and --schedule auto clash|schedule --schedule auto --pp 2 --micro-batches 4 --overlap-experts on
2|--overlap-experts: found "maybe"|schedule --pp 2 --micro-batches 4 --overlap-experts maybe
1|schedule 1f1b with pp 2 and 1 chunk has no rounds;expected interleaved|schedule --pp 2 --micro-batches 4 --overlap-experts on
2|--csv-format says how --csv FILE is written|schedule --from good.csv --csv-format comms
2|--csv-format: found "json", expected compute or comms|schedule --from good.csv --csv - --csv-format json
2|not both|memory --params 7e9 --model llama-3-8b
2|--cluster dgx-h100 needs --model|memory --params 7e9 --cluster dgx-h100
2|"-1", expected 0 to 119880119|schedule --pp 4 --micro-batches 4 --times F=-1,I=1,W=1
2|"25 h", expected a time from 0 to one day|schedule --pp 4 --micro-batches 4 --times "F=25 h,I=1 s,W=1 s"
1|1 key-value heads;expected a cp that does|simulate --model gemma-3-1b --cluster dgx-h100 --cp 2 --cp-comm ulysses --seq-len 8192
1|8 key-value heads;use ring or all_gather|simulate --model llama-3-8b --cluster dgx-h100 --cp 16 --cp-comm ulysses --seq-len 8192
0|dp 16 crosses scale-up links and NICs;GB/s over all of these (narrowest: NICs, 50.00 GB/s as specified)|explain --model llama-3-8b --cluster dgx-h100 --gpus 64 --tp 4 --zero 1 --global-batch 64
2|--gpus 3 and --ranks clash: rank 8|collective --cluster dgx-h100 --ranks 0,8 --gpus 3
0|2 GPUs on 2 nodes|collective --cluster dgx-h100 --gpus 16 --ranks 0,8 --bytes 1MiB
0|2 GPUs on 2 nodes|collective --cluster dgx-h100 --gpus 2 --ranks 0,8 --bytes 1MiB
2|--gpu-list and --gpus clash|plot mfu --output x.svg --gpu-list 8 PLAN --global-batch 8
2|plot bubble and --gpu-list clash|plot bubble --pp 4 --output x.svg --gpu-list 8
# numbers that may be left out are no zeros
2|global-batch: found 9223372036854775807, expected 1 to|simulate PLAN --global-batch 9223372036854775807
2|gpus: found 99999999, expected 1 to|simulate --model gpt2 --cluster selene --gpus 99999999
2|expert-tp: found -1, expected 0 to|simulate PLAN --expert-tp -1
2|expert-load: found 0.5, expected the fullest rank's rows over their mean|simulate PLAN --expert-load 0.5
2|expert-load: found nan|simulate PLAN --expert-load nan
1|expert-load 2: one of ep 1 ranks gets at most all rows, 1 times their mean|simulate PLAN --expert-load 2
# prices
2|compares clusters by price;a100-pcie.yaml has none;add --price|plan --model gpt2 --cluster dgx-h100,a100-pcie --gpus 8 --global-batch 8 --objective cost
0|by cost (GPU time: no price is known)|plan --model gpt2 --cluster a100-pcie --gpus 8 --global-batch 8 --tp 1 --pp 1 --zero 1 --objective cost
0|by cost;per million tokens|plan --model gpt2 --cluster dgx-h100,a100-pcie --gpus 8 --global-batch 8 --tp 1 --pp 1 --zero 1 --objective cost --price '2 $/h'
# files to read
2|llama-3-8c;did you mean "llama-3-8b"?|simulate --model llama-3-8c --cluster dgx-h100
2|dgx-h10;did you mean "dgx-h100"?|simulate --model llama-3-8b --cluster dgx-h10
2|empty name|simulate --model '' --cluster dgx-h100
2|a folder|simulate --model . --cluster dgx-h100
2|broken.json:2:|simulate --model broken.json --cluster dgx-h100
2|cut.json:1:|simulate --model cut.json --cluster dgx-h100
2|twice.yaml:2:|simulate --model llama-3-8b --cluster twice.yaml
2|broken.yaml:|simulate --model llama-3-8b --cluster broken.yaml
2|/dev/zero;64 MiB|simulate --model /dev/zero --cluster dgx-h100
2|/dev/zero;64 MiB|simulate --model llama-3-8b --cluster /dev/zero
2|/dev/null:1:|simulate PLAN --program /dev/null
2|/dev/zero;64 MiB|simulate PLAN --program /dev/zero
2|bad.program:3:|simulate PLAN --program bad.program
2|zero.program;zero byte|simulate PLAN --program zero.program
2|bad.csv;line 2, column 2|schedule --from bad.csv
2|/dev/zero: a device|schedule --from /dev/zero
2|/dev/zero: a device|simulate PLAN --pp 2 --schedule file:/dev/zero
2|nowhere.csv|schedule --from nowhere.csv
# files to write
2|cannot write nowhere/t.json|simulate PLAN --trace nowhere/t.json
2|cannot write nowhere/d|simulate PLAN --dump nowhere/d
2|cannot write .|simulate PLAN --dump .
2|without a name|simulate PLAN --dump ''
2|cannot write /dev/full|simulate PLAN --dump /dev/full
2|x.bmp;.svg, .png or .pdf|simulate PLAN --timeline x.bmp
2|x.bmp;.svg, .png or .pdf|plot bubble --pp 4 --output x.bmp
2|--output is missing|plot bubble --pp 4
# schedule
2|--pp is missing|schedule --micro-batches 4
2|--micro-batches: found 0|schedule --pp 4 --micro-batches 0
2|at most 4000000|schedule --pp 4096 --micro-batches 4000
2|at most 4000000|schedule --pp 8 --micro-batches 1000 --steps 1000
1|gpipe has one chunk|schedule --pp 4 --micro-batches 4 --schedule gpipe --chunks 2
2|--times;F=2|schedule --pp 4 --micro-batches 4 --times F=1,I=1,W=1,F=2
2|--times;either all with a unit or none|schedule --pp 4 --micro-batches 4 --times F=1,I=1,W=1ms
2|--times;found "nan"|schedule --pp 4 --micro-batches 4 --times F=nan,I=1,W=1
2|century|schedule --pp 2 --micro-batches 1000000 --times F=1d,I=1d,W=1d
2|F takes 0.0007207 ns;larger numbers|schedule --pp 4 --micro-batches 4 --times F=1e-9,I=1,W=1
2|W takes 0.5 ns a chunk;at least a nanosecond|schedule --pp 4 --micro-batches 4 --schedule zb-v --times F=1s,I=1s,W=1ns
2|unknown schedule "AUTOS";v-half;auto;did you mean "auto"?|schedule --pp 4 --micro-batches 4 --schedule AUTOS
2|unknown schedule;file:orders.csv|schedule --pp 4 --micro-batches 4 --schedule good.csv
2|--memory-cap: found "0x10"|schedule --pp 4 --micro-batches 4 --schedule auto --memory-cap 0x10
1|at least 2 micro-batches, one from each end|schedule --pp 4 --micro-batches 1 --schedule dualpipe
0|a lower bound for these times|schedule --pp 4 --micro-batches 8 --schedule dualpipe-v --times F=1,I=1,W=1,FB=1.5
0|good.csv: 2 pipeline ranks|schedule --schedule file:good.csv
2|cannot draw z.svg: nothing in it takes any time|schedule --pp 4 --micro-batches 4 --times F=0,I=0,W=0 --timeline z.svg
2|cannot draw z.svg: nothing in it takes any time|schedule --pp 4 --micro-batches 4 --times F=0,I=0,W=0 --memory-plot z.svg
2|--width: found -5|schedule --pp 4 --micro-batches 4 --draw --width -5
0|makespan         9 units of --times|schedule --pp 2 --micro-batches 2
0|"makespan" : 0|schedule --pp 2 --micro-batches 2 --times F=0,I=0,W=0 --json
# plan, explain
0|Usage:;--objective;Example|plan --help
2|--model is missing|plan
2|--global-batch is missing|plan --model gpt2 --cluster selene --gpus 8
2|--gpus is missing|plan --model gpt2 --cluster selene --global-batch 8
2|--objective: found "speed";mfu, tokens_per_s, cost|plan --model gpt2 --cluster selene --gpus 8 --global-batch 8 --objective speed
2|--emit: found "megatorn";did you mean "megatron"?|plan --model gpt2 --cluster selene --gpus 8 --global-batch 8 --emit megatorn
2|--emit-to x needs --emit|plan --model gpt2 --cluster selene --gpus 8 --global-batch 8 --emit-to x
2|--json and --emit-to - clash|plan --model gpt2 --cluster selene --gpus 8 --global-batch 8 --emit megatron --emit-to - --json
2|--deadline needs --tokens|plan --model gpt2 --cluster selene --gpus 8 --global-batch 8 --deadline 3d
2|--deadline;without a unit|plan --model gpt2 --cluster selene --gpus 8 --global-batch 8 --tokens 1T --deadline 3
2|--price;without a unit|plan --model gpt2 --cluster selene --gpus 8 --global-batch 8 --price 3
2|--top: found 0|plan --model gpt2 --cluster selene --gpus 8 --global-batch 8 --top 0
2|--jobs: found 0|plan --model gpt2 --cluster selene --gpus 8 --global-batch 8 --jobs 0
1|too slow for the deadline|plan --model gpt2 --cluster selene --gpus 8 --global-batch 8 --tokens 100T --deadline 3min
0|best of 4 plans;pp 1 × 2 chunks|plan --model gpt2 --cluster dgx-h100 --gpus 2 --global-batch 8 --tp 1 --pp 1,2 --schedule 1f1b,interleaved --chunks 2 --pipeline-layout auto --zero 0 --recompute none --micro-batch 1 --sequence-parallel off
0|best of 2 plans;pp 1 × 2 chunks|plan --model gpt2 --cluster dgx-h100 --gpus 2 --global-batch 8 --tp 1 --pp 1,2 --schedule zb-v --chunks 2 --pipeline-layout auto --zero 0 --recompute none --micro-batch 1 --sequence-parallel off
1|a pipeline of one rank has no chunks|plan --model gpt2 --cluster dgx-h100 --gpus 2 --global-batch 8 --tp 1 --pp 1 --schedule interleaved --chunks 2 --pipeline-layout auto --zero 0 --recompute none --micro-batch 1 --sequence-parallel off --emit megatron
1|do not fit in memory;GB more|plan --model gpt3-175b --cluster selene --gpus 8 --global-batch 8
0|the best of;Runners-up;Why the others lost;One step from the best;training;--sequence-parallel|plan --model gpt2 --cluster selene --gpus 8 --global-batch 8 --tokens 1T
0|MEGATRON_ARGS=(;--tensor-model-parallel-size 2|plan --model gpt2 --cluster selene --gpus 8 --tp 2 --global-batch 8 --seq-len 1024 --emit megatron --emit-to -
0|"train_batch_size" : 8|plan --model gpt2 --cluster selene --gpus 8 --tp 1 --zero 0 --overlap-grad off --global-batch 8 --emit deepspeed --emit-to -
0|What crosses which link;Where the time goes;What if;One after the other|explain PLAN
0|Strong scaling;it is bubble|explain --model llama-3-8b --cluster dgx-h100 --gpus 16,128 --tp 2 --pp 2 --global-batch 64 --zero 1
0|Weak scaling|explain --model llama-3-8b --cluster dgx-h100 --gpus 16,32 --tp 2 --pp 2 --global-batch 64 --zero 1 --weak
2|--tp: found several values;only --gpus|explain --model gpt2 --cluster selene --gpus 8 --tp 1,2
2|--weak needs several --gpus|explain PLAN --weak
2|--global-batch is missing|explain --model gpt2 --cluster selene --gpus 8,16
1|on 12 GPUs: ;whole nodes|explain --model gpt2 --cluster selene --gpus 8,12 --global-batch 96
# memory
2|give either --model FILE or --params N|memory
2|--params: found "7G"|memory --params 7G
0|host/GPU;245;fits|memory --params 70e9 --dp 4 --zero 3 --capacity 80GB --offload-optimizer host
0|host_and_nvme_per|memory --params 70e9 --dp 4 --zero 3 --offload-optimizer nvme --json
1|offload-weights host needs --zero 3|memory --params 70e9 --dp 4 --zero 2 --offload-optimizer host --offload-weights host
2|--offload-optimizer: found "disk", expected one of none, host, nvme|memory --params 70e9 --offload-optimizer disk

# offloading
0|optimizer on the host;Host memory of the fullest node;offload|simulate --model llama-3-8b --cluster selene --zero 2 --offload-optimizer host --recompute full
1|host memory does not hold what is offloaded|simulate --model llama-2-70b --cluster dgx-1-v100 --precision fp16 --zero 3 --dp 8 --offload-optimizer host --offload-weights host --recompute full
1|h800.yaml does not state how fast its host is;add "host: {|simulate --model llama-3-8b --cluster h800 --offload-activations host
0|FETCH;GRAD_OUT;on_host=1;route=link_in|simulate --model gpt2 --cluster selene --dp 2 --zero 3 --offload-optimizer host --offload-weights host --dump-after offload
2|--capacity: found "80" without a unit|memory --params 7e9 --capacity 80
2|--capacity;at least one byte|memory --params 7e9 --capacity 0GB
1|gpus 12 is not a multiple of tp 8|memory --params 7e9 --gpus 12 --tp 8
1|at most 16777216 are modelled|memory --params 7e9 --tp 1048576 --pp 1048576
1|tp 3 does not divide|memory --model llama-3-8b --tp 3
0|fits|memory --model gpt2 --cluster dgx-h100 --gpus 2 --pp 2 --schedule zb-v --pipeline-layout 3+3+3+3
1|4 stages are not the plan's 2|memory --model gpt2 --cluster dgx-h100 --gpus 2 --pp 2 --schedule 1f1b --pipeline-layout 3+3+3+3
2|unknown schedule;did you mean|memory --model gpt2 --pp 2 --schedule zb-vv
0|dp 64, shards 64|memory --params 7e9 --gpus 64 --zero 1
# 16 bytes of 13.016e9 parameters are 208.3 GB, of a GPU are 42.95 less 1.61 GB that is reserved: 5.04 of them; 41.34 GB / 16
1|state at least: 6;2.58369e+09 parameters|memory --model llama-2-13b --cluster a100-pcie --gpus 4
1|"fits" : false|memory --params 7e9 --capacity 80GB --json
# topology
0|node: 8;no mistakes found|topology dgx-h100
0|leaf0.2;by way of node0/gpu2;bottleneck|topology dgx-h100 --route 1,10
0|"vertices";"route": null|topology gb200-nvl72 --json
0|<svg|topology selene --svg -
1|GPU 3 is served by no NIC|topology wiring.yaml
0|GPUDirect|topology wiring.yaml --route 0,4
2|expected one: a cluster YAML|topology
2|expected one: a cluster YAML|topology dgx-h100 selene
0|node: 8;no mistakes found|topology --cluster dgx-h100
2|found 2 clusters, expected one: a cluster YAML|topology --cluster dgx-h100 selene
2|did you mean "dgx-h100"?|topology dgx-h10
2|--route: found "1";two ranks|topology dgx-h100 --route 1
2|--route: found "0,-1"|topology dgx-h100 --route 0,-1
1|24576|topology llama3-h100 --route 0,30000
1|16 GPUs are beyond|topology simumax-b200 --gpus 16
2|--gpus: found 0|topology dgx-h100 --gpus 0
2|--svg;ends in .svg|topology dgx-h100 --svg picture.png
2|--json and --svg - clash|topology dgx-h100 --json --svg -
2|--output goes with|topology dgx-h100 --output x.yaml
2|expected <system>|topology --from-nccl-xml wiring.xml
2|No such file|topology --from-nccl-xml nowhere.xml
2|and an import|topology dgx-h100 --from-nccl-xml wiring.xml
2|no line of names|topology --from-nvidia-smi wiring.yaml
2|--generation is missing|topology --from-nvidia-smi matrix
2|--nic-bandwidth;unit|topology --from-nvidia-smi matrix --generation hopper --nic-bandwidth 400
0|name: "our-node";kind: nvlink_mesh|topology --from-nvidia-smi matrix --generation ampere --name our-node --output -
0|# faults leave|collective --cluster faulty.yaml
0|# node wiring: of 120.0 GB/s a GPU rings inside a node get 20.00 GB/s among 2;NVLinks|collective --cluster dgx-1-v100
0|node wiring:;12.64 GB/s among 8; the inter-socket link node0/socket0 - node0/socket1|simulate --model gpt2 --cluster a100-pcie --gpus 8 --global-batch 8 --precision fp16
# collective
2|--cluster is missing|collective
2|--op;did you mean "all_reduce"?|collective --cluster dgx-h100 --op all_reduc
0|# all_reduce on dgx-h100|collective --cluster dgx-h100 --op AllReduce
0|# all_to_all on dgx-h100|collective --cluster dgx-h100 --op alltoall
0|, cp 2 (all_gather)|simulate --model gpt2 --cluster dgx-h100 --gpus 2 --cp 2 --cp-comm all-gather
0|, cp 2 (ring)|simulate --model gpt2 --cluster dgx-h100 --gpus 2 --cp 2 --cp-comm p2p
0|, cp 2 (ulysses)|simulate --model gpt2 --cluster dgx-h100 --gpus 2 --cp 2 --cp-comm a2a
2|--cp-comm: found "rang", expected one of ring, all_gather, ulysses;did you mean "ring"?|simulate --model gpt2 --cluster dgx-h100 --gpus 2 --cp 2 --cp-comm rang
0|2 ran|sweep --model mixtral-8x7b --cluster dgx-h100 --gpus 64 --zero 3 --ep 8 --expert-dispatch deepep,all-to-all
0| 1048576 ; 16777216 ; 268435456 |collective --cluster dgx-h100 --bytes 1MiB..1GiB*16
2|1MiB..1GiB*1;whole number from 2|collective --cluster dgx-h100 --bytes 1MiB..1GiB*1
2|1GiB..1MiB", expected FIRST..LAST|collective --cluster dgx-h100 --bytes 1GiB..1MiB
2|twice.map:3: rank 0 is placed twice|collective --cluster dgx-h100 --rank-map twice.map
2|hosts.map:1: found "login1", expected node|simulate --model llama-3-8b --cluster dgx-h100 --rank-map hosts.map
1|rank map places 4 ranks;has 8|simulate --model llama-3-8b --cluster dgx-h100 --rank-map line.map --tp 8 --dp 1
1|rank 4 is not in the rank map|collective --cluster dgx-h100 --rank-map line.map --ranks 0,4
0|2 GPUs on 2 nodes|collective --cluster dgx-h100 --rank-map line.map --ranks 0..1 --bytes 1MiB
0|ranks by map|simulate --model gpt2 --cluster dgx-h100 --rank-map line.map
2|--rank-map: found an empty name|collective --cluster dgx-h100 --rank-map ''
2|--rank-map: found an empty name|simulate --model gpt2 --cluster dgx-h100 --rank-map ''
2|--root: rank 9 is none of the 9 that take part|collective --cluster dgx-h100 --op gather --gpus 9 --root 9
2|--root: all_reduce has no root|collective --cluster dgx-h100 --root 0
0|none       8      215.44|collective --cluster dgx-h100 --op gather --gpus 9 --root 8 --bytes 9MB
2|--ranks: found nothing|collective --cluster dgx-h100 --ranks ''
2|--ranks: rank 0 is listed twice|collective --cluster dgx-h100 --ranks 0,0
2|--ranks;FIRST..LAST|collective --cluster dgx-h100 --ranks 7..0
2|--bytes;"-1"|collective --cluster dgx-h100 --bytes -1
2|--bytes;did you mean "MiB"?|collective --cluster dgx-h100 --bytes 1Mib
2|--algorithm of all_to_all;tree|collective --cluster dgx-h100 --op all_to_all --algorithm tree
2|--algorithm of all_reduce;did you mean "nvls"?|collective --cluster dgx-h100 --algorithm nvlz
1|--algorithm nvls;8 GPUs of selene;Hopper and later|collective --cluster selene --algorithm nvls
1|--algorithm nvls;all members in one scale-up domain|collective --cluster dgx-h100 --gpus 16 --algorithm nvls
1|--algorithm pat;one member a node|collective --cluster dgx-h100 --op all_gather --algorithm pat
1|--algorithm hierarchical;as many members|collective --cluster dgx-h100 --gpus 12 --algorithm hierarchical
0|float    none       0;LL                0     -|collective --cluster dgx-h100 --op scatter --bytes 0
0|134217728       4194304     float    none      -1;nvls|collective --cluster dgx-h100 --op all_gather --bytes 128MiB --algorithm nvls
2|"busbw.txt";.svg|collective --cluster dgx-h100 --plot busbw.txt
0|ring all_reduce over 4 GPUs;6 steps;2>3 b;*3**  **3*  ***3  3***|collective --steps-of ring
0|tree all_reduce over 5 GPUs;broadcast|collective --steps-of tree --gpus 5
2|--steps-of;found "rink";did you mean "ring"?|collective --steps-of rink
2|--gpus: found 17, expected 2 to 16|collective --steps-of ring --gpus 17
2|--steps-of tree: found --op all_gather|collective --steps-of tree --op all_gather
2|--steps-of ring: found --op broadcast|collective --steps-of ring --op broadcast
2|--steps-of and --cluster clash|collective --steps-of ring --cluster dgx-h100
2|--output goes with --fit|collective --cluster dgx-h100 --output x.yaml
2|--curves goes with --fit|collective --steps-of ring --curves
0|measured:;bytes: 40000000 B, time: 1100 us|collective --fit own.log --op all_reduce --gpus 8 --curves
2|--fit and --json clash|collective --fit x.log --json
2|x.log|collective --fit x.log
2|good.csv:1: found no table of nccl-tests|collective --fit good.csv
2|foreign.json;"args"|collective --fit foreign.json
2|broken.json:2|collective --fit broken.json
2|zero byte|collective --fit zero.program
2|own.log:4: the log does not say which operation|collective --fit own.log
2|own.log:4: the log does not list its ranks|collective --fit own.log --op all_reduce
2|own.log:6: found busbw 1.75 times algbw, expected 0.875;all_gather over 8 ranks|collective --fit own.log --op all_gather --gpus 8
2|own.log:4: found 1 ranks|collective --fit own.log --op all_reduce --gpus 1
0|Simple;400.0 us;protocol: simple, alpha: 400 us, busbw: 100 GB/s|collective --fit own.log --op all_reduce --gpus 8
# compare
2|found 0 files;PREDICTED.json MEASURED.json|compare
2|found 3 files|compare a b c
2|cannot read nowhere.json|compare nowhere.json nowhere.json
2|Is a directory|compare . .
2|broken.json:2:|compare broken.json broken.json
2|byte 0x00;expected JSON|compare /dev/zero /dev/zero
2|no otherData;simulate --trace|compare foreign.json foreign.json
2|unknown option --tokens|compare a b --tokens 1
2|--json and --csv - clash|compare a b --json --csv -
2|x.bmp;.svg, .png or .pdf|compare a b --plot x.bmp
2|--rank;found "x"|compare a b --rank x
0|PREDICTED.json MEASURED.json;default: all;Example|compare --help
# validate
2|no file was given|validate
2|nowhere.csv|validate nowhere.csv
2|Is a directory|validate .
2|empty.csv:1: found no row, expected a header|validate empty.csv
2|/dev/zero;64 MiB|validate /dev/zero
2|headed.csv:1:;no row|validate headed.csv
1|0 predicted, 1 failed;step_time_s;"soon";soon.csv:3|validate soon.csv
0|soon.csv:3|validate runs.csv soon.csv
2|good.csv:1:;no column layers|validate good.csv
2|broken.json:1:|validate broken.json
2|"sorce";did you mean "source"?|validate runs.csv --by sorce
2|--jobs: found 0|validate runs.csv --jobs 0
2|--jobs: found 100000|validate runs.csv --jobs 100000
2|--json and --rows - clash|validate runs.csv --json --rows -
2|--json and --markdown - clash|validate runs.csv --json --markdown -
0|source;worst rows;baseline MAPE|validate runs.csv --markdown -
2|x.bmp;.svg, .png or .pdf|validate runs.csv --plot x.bmp
2|nothing to draw|validate refused.csv --plot x.svg
2|cannot write nowhere/r.csv|validate runs.csv --rows nowhere/r.csv
2|unknown option --job;did you mean --jobs?|validate runs.csv --job 1
2|--without: found "hots";framework, host, waits;did you mean "host"?|validate runs.csv --without hots
2|--without: found "";expected one of framework|validate runs.csv --without skew,
2|--without: "skew" is named twice|validate runs.csv --without skew,host,skew
2|--json and --markdown - clash|validate runs.csv --without skew --json --markdown -
0|without host, skew;errors in %|validate runs.csv --without skew,host
0|"without" : ["skew", "contention"]|validate runs.csv --without contention,skew --json
0|Without memory.;baseline MAPE|validate runs.csv --without memory --markdown -
0|--without=PART;tensor-parallel ;contention |validate --help
1|0 predicted, 1 failed;cp 3|validate refused.csv
0|3 rows of 2 runs: 2 predicted, 1 failed;cp 3|validate runs.csv refused.csv --jobs 2
0|FILE.csv...;step_time_s;Example|validate --help
# plot
2|did you mean "bubble"?|plot buble --output x.svg
2|expected no file|plot bubble mfu --pp 4 --output x.svg
2|2 to 1024 pipeline ranks|plot bubble --output x.svg
2|forward passes|plot bubble --pp 4 --output x.svg --micro-batches 1..1e15*1e15
2|--micro-batches: found nothing|plot bubble --pp 4 --output x.svg --micro-batches ''
2|--micro-batches: found "8..16+0"|plot bubble --pp 4 --output x.svg --micro-batches 8..16+0
2|8..4", expected FIRST..LAST, FIRST..LAST+STEP|plot bubble --pp 4 --output x.svg --micro-batches 8..4
2|--gpu-list is missing|plot mfu --output x.svg
2|expected a word, what to draw|plot
2|--terminal and --data - clash|plot memory --terminal --data -
2|plot bubble and --tp clash|plot bubble --pp 4 --tp 2 --output x.svg
2|plot busbw and --pp clash|plot busbw --cluster dgx-h100 --pp 2 --output x.svg
2|plot mfu and --vary clash|plot mfu PLAN --gpu-list 8 --vary tp=1,2 --output x.svg
2|runs.csv and --model clash|plot pareto runs.csv --model llama-3-8b --output x.svg
2|found 1 --vary, expected two|plot heat PLAN --vary tp=1,2 --output x.svg
2|did you mean --tp?|plot breakdown PLAN --vary tpp=1,2 --output x.svg
2|--output is no option of a plan|plot breakdown PLAN --vary output=1 --output x.svg
2|expected NAME=LIST|plot breakdown PLAN --vary tp= --output x.svg
2|--vary tp: 2 stands twice in "1..4,2"|plot breakdown PLAN --vary tp=1..4,2 --output x.svg
2|--vary schedule: 1f1b stands twice|plot breakdown PLAN --vary schedule=1f1b,1f1b --output x.svg
2|--gpu-list: 16 stands twice in "8..32*2,16"|plot mfu --output x.svg --gpu-list 8..32*2,16 --model gpt2 --cluster selene
2|--schedules: 1f1b stands twice|plot bubble --pp 4 --output x.svg --schedules 1f1b,gpipe,1f1b
2|--micro-batches: 4 stands twice|plot bubble --pp 4 --output x.svg --micro-batches 4,4
2|tp is varied twice|plot breakdown PLAN --vary tp=1 --vary tp=2 --output x.svg
2|more than 4096 combinations|plot breakdown PLAN --vary tp=1..100 --vary pp=1..100 --output x.svg
2|zero 1, tp x: --tp: found "x"|plot breakdown PLAN --vary zero=1 --vary tp=x --output x.svg
1|all of 2 configurations are impossible; tp 3: gpus 8 is not a multiple of tp 3|plot breakdown PLAN --vary tp=3,6 --output x.svg
2|--value: found "mfuu";did you mean "mfu"?|plot heat PLAN --value mfuu --output x.svg
2|or --vary is missing|plot pareto PLAN --output x.svg
2|no column "sped"|plot pareto runs.csv --x layers --y sped --output x.svg
2|there is no column "predicted_step_time_s"|plot validation runs.csv --output x.svg
2|foreign.json|plot timeline foreign.json --output x.svg
2|cannot write nowhere/x.dat|plot bubble --pp 4 --data nowhere/x.dat
0|zero 0;zero 3;W weights|plot memory PLAN --terminal
0|dgx-h100; gpus 64, tp 4'|plot memory --model llama-3-8b --cluster dgx-h100 --gpus 64 --tp 4 --zero 1 --data -
0|dgx-h100; gpus 64, zero 1'|plot heat --model llama-3-8b --cluster dgx-h100 --gpus 64 --tp 4 --zero 1 --data -
0|gpus 8;across: tp;upward: zero|plot heat PLAN --vary tp=1,2,4 --vary zero=0..2 --terminal
0|gnuplot -e;"1f1b"|plot bubble --pp 4 --data -
TABLE
finish
