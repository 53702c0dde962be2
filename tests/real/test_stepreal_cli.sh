#!/bin/sh
# test_stepreal_cli.sh MPIRUN STEPREAL STEPSIM RUN_LIST DATA: what stepreal's command line does with mistakes, and what it writes
# (TAP).
#
# The table: exit status | words that must appear, parted by ; | ranks | arguments. However many ranks there are, a
# mistake is told by one of them, once, on standard error, and nothing goes to standard output. To start ranks takes ten
# times as long as to find a mistake: of each kind one is made on several, the others on one that no launcher starts (0),
# or by two that are started once for all of them (w).
[ $# -eq 5 ] || { echo "usage: $0 MPIRUN STEPREAL STEPSIM RUN_LIST DATA" >&2; exit 2; }
. "$(dirname "$0")/../fixtures/tap.sh"
mpirun=$1 stepreal=$2 stepsim=$3 run_list=$(absolute "$4") data=$5
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
export OPENBLAS_NUM_THREADS=1

run() { # ranks, arguments; a calibration of two ranks lasts 5 s, and many times that on a busy machine
  ranks=$1
  shift
  case $ranks in
    0) timeout 120 "$stepreal" "$@" >out 2>err </dev/null ;;
    *) timeout 120 "$mpirun" -n "$ranks" "$stepreal" "$@" >out 2>err </dev/null ;;
  esac
  got=$?
}

check_line() { # status|words|ranks|arguments
  IFS='|' read -r want words ranks arguments <<LINE
$1
LINE
  eval "run $ranks $arguments"
  problem=
  [ "$got" -eq "$want" ] || problem="exit status $got, expected $want;"
  has_words "$words" "$(cat out err)" || problem="$problem not all of \"$words\" were printed;"
  n_messages=$(grep -c -e '^stepreal: ' -e '^usage: ' -e '^Usage:' err out | awk -F: '{ n += $NF } END { print n }')
  [ "$n_messages" -eq 1 ] || problem="$problem $n_messages messages;"
  [ "$want" -eq 0 ] || [ ! -s out ] || problem="$problem printed to standard output beside an error;"
  [ -z "$problem" ]
  result $? "$want $arguments" "$problem $(cat err out)"
}

# What came of a line of two ranks that others follow: "= STATUS MESSAGE", and nothing but that.
check_world_line() { # status|words|ranks|arguments, what came of it
  IFS='|' read -r want words ranks arguments <<LINE
$1
LINE
  case $2 in "= $want "*) has_words "$words" "$2" ;; *) false ;; esac
  result $? "$want $arguments" "expected exit status $want and \"$words\": $2"
}

check_world() { # the lines of the file world
  sed 's/^[^|]*|[^|]*|w|run //' world >world.list
  timeout 120 "$mpirun" -n 2 "$run_list" world.list >world.out 2>err </dev/null
  result $? "two ranks meet one mistake after the other" "$(cat err world.out)"
  [ "$(wc -l <world.out)" -eq "$(wc -l <world)" ] && [ ! -s err ]
  result $? "each is told once, by the first rank" "$(cat err world.out)"
  while IFS= read -r line && IFS= read -r came <&3; do
    check_world_line "$line" "$came"
  done <world 3<world.out
}

cp "$data/models/tiny-llama.json" m.json
cp "$data/models/tiny-qwen2-moe-sparse.json" "$data/models/tiny-mixtral.json" "$data/models/tiny-qwen3.json" \
  "$data/models/tiny-mpt-qk-ln.json" "$data/models/tiny-deepseek.json" "$data/models/tiny-deepseek-v3.json" \
  "$data/models/tiny-deepseek-wide.json" .
printf 'name: odd\nsource: >-\n  this test\ntime:\n  gradient_sum_bytes: 3\n' >odd.yaml
"$stepsim" simulate --model m.json --cluster dgx-h100 --gpus 4 --pp 4 --global-batch 8 --dump four.txt >out
while IFS= read -r line; do
  case $line in
    '' | \#*) ;;
    *'|w|run '*) echo "$line" >>world ;;
    *) check_line "$line" ;;
  esac
done <<'TABLE'
# verbs and help
2|usage: [mpirun -n RANKS] stepreal VERB;calibrate|0|
0|usage: [mpirun -n RANKS] stepreal VERB;calibrate|2|--help
2|no verb "runn";did you mean "run"?|2|runn
0|Usage:;(default 10);(default 0.0003);--steps=N;(default 4);Example:;mpirun -n 2 stepreal run;Exit status:|2|run --help
# options
2|--model is missing;tinystories-15m|2|run
2|unknown option --modell; did you mean --model?|2|run --modell m.json
2|unexpected "extra"|0|run --model m.json extra
2|--memory: found "5" without a unit|0|run --model m.json --memory 5
2|--lr: found nan|0|run --model m.json --lr nan
2|--start-timeout: found 0|0|run --model m.json --start-timeout 0
2|--stall-timeout: found -1|0|run --model m.json --stall-timeout -1
2|--repeats: found 601, expected 1 to 600|0|calibrate --model m.json --repeats 601
2|--kernel-timeout: found -3, expected seconds, or 0 for ever|0|calibrate --model m.json --kernel-timeout -3
2|--start-timeout: found 0, expected seconds, more than 0|0|calibrate --model m.json --start-timeout 0
2|steps: found 0|w|run --model m.json --steps 0
2|--check-on needs --check|0|run --model m.json --check-on cpu
2|a loss scale belongs to --precision fp16, found bf16: leave --loss-scale out|2|run --model m.json --loss-scale 1024
2|a loss scale belongs to --precision fp16, found fp32: leave --loss-scale-window out|0|run --model m.json --precision fp32 --loss-scale-window 5
2|--loss-scale: found "dynamical", expected dynamic or a number from 5.96046e-08 to 1.70141e+38|0|run --model m.json --precision fp16 --loss-scale dynamical
2|--loss-scale: found "0", expected dynamic or a number from 5.96046e-08 to 1.70141e+38|0|run --model m.json --precision fp16 --loss-scale 0
2|--loss-scale: found "1e-8", expected dynamic or a number from|0|run --model m.json --precision fp16 --loss-scale 1e-8
2|--initial-loss-scale: found -1, expected a number from 1|0|run --model m.json --precision fp16 --initial-loss-scale -1
2|--loss-scale-window: found -1, expected steps, more than 0|0|run --model m.json --precision fp16 --loss-scale-window -1
2|--loss-scale 1024 stays what it is: leave --initial-loss-scale|0|run --model m.json --precision fp16 --loss-scale 1024 --initial-loss-scale 4
2|--initial-loss-scale: found 0.5, expected a number from 1|0|run --model m.json --precision fp16 --initial-loss-scale 0.5
2|--loss-scale-window: found 0, expected steps, more than 0|0|run --model m.json --precision fp16 --loss-scale-window 0
2|--check and --device null clash;the device null computes nothing;use cpu or cuda|2|run --model m.json --dp 2 --device null --check
2|--check-fp32: found "no", expected on or off|0|run --model m.json --check --check-fp32 no
2|--check-fp32 needs --check|0|run --model m.json --check-fp32 off
2|--check-time: found "never", expected on or off|0|run --model m.json --check --check-time never
2|--check-time needs --check|0|run --model m.json --check-time off
2|--check and --check-on null clash|w|run --model m.json --dp 2 --check --check-on null
2|--check and --comm null clash;nothing is moved between the 2 ranks;use mpi or nccl|w|run --model m.json --dp 2 --comm null --check
2|no device "gpu";did you mean "cpu"?|0|run --model m.json --device gpu
2|no communication "mpii";did you mean "mpi"?|0|run --model m.json --comm mpii
2|unknown schedule "1f2b";did you mean "1f1b"?|w|run --model m.json --pp 2 --schedule 1f2b
2|--cp-comm: found "rings", expected one of ring, all_gather, ulysses|0|calibrate --model m.json --cp 2 --cp-comm rings
2|--cp-comm: ring stands twice in "ring,ring"|0|calibrate --model m.json --cp 2 --cp-comm ring,ring
2|--cp: found "0"|0|calibrate --model m.json --cp 0
# files
2|tinystories-15n;did you mean "tinystories-15m"?|0|run --model tinystories-15n
2|nowhere.txt|0|run --model m.json --program nowhere.txt
2|four.txt has 4 ranks, 4 stages;the plan pp 2|2|run --model m.json --pp 2 --global-batch 8 --program four.txt
2|cannot write nowhere/t.json|2|run --model m.json --trace nowhere/t.json
2|x.bmp;.svg, .png or .pdf|0|run --model m.json --timeline x.bmp
# plans that cannot be
2|--gpus 3 and 2 ranks clash;mpirun -n 3|2|run --model m.json --gpus 3
1|on 2 ranks: ;dp 4 = 4 is not gpus 2|2|run --model m.json --dp 4
1|tp 3 does not divide the attention heads 8|3|run --model m.json --tp 3
1|global-batch 3 is not a multiple of micro-batch 2|w|run --model m.json --pp 2 --global-batch 3 --micro-batch 2
# what cannot be trained
1|cp-comm ring: seq-len 32 is beyond the attention window 10 of model tiny-qwen3;expected cp-comm all_gather or ulysses|2|run --model tiny-qwen3.json --cp 2
1|--mtp-layers 1 with --zero 2 cannot be trained here where one rank has the model's first stage and its last, as with;expected --zero 0 or 1|4|run --model tiny-deepseek.json --mtp-layers 1 --pp 2 --schedule zb-v --dp 2 --zero 2
1|33 tokens of a rank, each to 2 experts, cannot be dealt out evenly to the 8 of model mixtral-8x7b|w|run --model mixtral-8x7b --dp 2 --ep 2 --seq-len 33
1|--recompute-modules mla_up_proj with --cp 2 cannot be trained here;expected --cp 1|w|run --model tiny-deepseek.json --cp 2 --recompute selective --recompute-modules mla_up_proj
1|no kernels for experts that get more than others|w|run --model tiny-qwen2-moe-sparse.json --dp 2 --ep 2 --expert-load 1.5
1|no kernels for experts without a gate, or with biases|w|run --model gpt-oss-20b --dp 2 --seq-len 64
1|--expert-dispatch deepep cannot be run here (stepsim simulate predicts it);give --expert-dispatch all_to_all or all_gather|w|run --model tiny-mixtral.json --dp 2 --ep 2 --expert-dispatch deepep
1|--framework gpt-neox: there is no kernel for "attention_copies" here;leave --framework out|w|run --model m.json --framework gpt-neox --precision fp16
1|--cp-comm ring as framework torchtitan-eager has it;--cp-comm all_gather or ulysses;leave --framework out|w|run --model m.json --cp 2 --framework torchtitan-eager --norm-kernel fused
1|product by product, cannot be trained here with --cp;use --recompute none or full|w|run --model m.json --cp 2 --cp-comm all_gather --framework torchtitan-eager --norm-kernel fused --recompute selective
1|the 6 tokens of half a rank's part of a sequence under cp 2, each to 2 experts, cannot be dealt out evenly to the 8|w|run --model tiny-mixtral.json --cp 2 --seq-len 24
1|model tiny-qwen2-moe-sparse has experts in one of 2 layers, and cut into 2 stages|w|run --model tiny-qwen2-moe-sparse.json --pp 2
1|--precision mxfp8 cannot be trained here: expected fp32, bf16, fp16 or fp8|0|run --model m.json --precision mxfp8
1|--precision fp8: qkv multiplies (24×64)·(128) on a rank; expected tokens and widths that are multiples of 16|0|run --model m.json --precision fp8 --seq-len 24
1|--precision fp8 with heads that predict a token further cannot be trained here|0|run --model tiny-deepseek-wide.json --mtp-layers 1 --precision fp8
1|--precision fp8 and --framework megatron-bridge with gathers over tp in fp8 cannot be trained here|w|run --model m.json --tp 2 --sequence-parallel on --precision fp8 --framework megatron-bridge
1|--precision fp8 and --recipe fp8+master clash: weights of 1 bytes where they are kept in 2;use --recipe bf16+master|0|run --model m.json --precision fp8 --recipe fp8+master
1|--precision fp16 and --grad-norm-barrier off clash;use --grad-norm-barrier on|0|run --model m.json --precision fp16 --grad-norm-barrier off
1|cp 2 needs --attention flash|w|run --model m.json --cp 2 --attention unfused
1|--cuda-graphs full cannot be run here (stepsim simulate predicts it); expected none|0|run --model m.json --cuda-graphs full
1|cannot be trained with here under the loss scales|2|run --model m.json --dp 2 --precision fp16 --compress-grad onebit
1|--compress-grad bf16 cannot be trained with here in --precision fp32|2|run --model m.json --dp 2 --precision fp32 --compress-grad bf16
1|--data cannot be run here (stepsim simulate predicts it)|0|run --model m.json --data 1MB+storage=1GB/s
1|--parameter-servers 2: other servers than workers, in step|w|run --model m.json --dp 2 --parameter-servers 2
1|--outer mean+delay=1: sums that run beside steps|w|run --model m.json --dp 2 --islands 2 --local-steps 2 --outer mean+delay=1
1|--outer mean+bytes=1: sums of another width than 4 bytes|w|run --model m.json --dp 2 --islands 2 --local-steps 2 --outer mean+bytes=1
1|--offload-weights host cannot be trained with here where weights are in one shard|0|run --model m.json --zero 3 --offload-optimizer host --offload-weights host
1|--offload-optimizer and -weights nvme cannot be trained with here (stepsim simulate predicts it)|0|run --model m.json --offload-optimizer nvme
1|--precision fp32 and --recipe megatron clash;use --recipe fp32|0|run --model m.json --precision fp32 --recipe megatron
1|--precision bf16 and --recipe fp32 clash;use --recipe bf16+master|0|run --model m.json --recipe fp32
1|stepreal: recipe w2+g6+p4+m4+v4, as framework nanotron has it, cannot be trained here: gradients of 4 bytes|0|run --model m.json --framework nanotron --norm-kernel fused
1|stepreal: --recipe w2+g6+p4+m4+v4 cannot be trained here|0|run --model m.json --recipe w2+g6+p4+m4+v4
1|--norm-kernel plain: RMSNorm is one kernel here, expected fused|0|run --model m.json --norm-kernel plain
1|--loss chunked cannot be trained with here|0|run --model m.json --loss chunked
1|--batching balanced with another dealing on every number of ranks cannot be trained with here (stepsim simulate predicts it)|0|run --model m.json --seq-lengths uniform:1-9 --batching balanced
1|--batching packed with --cp cannot be trained with here|w|run --model m.json --cp 2 --seq-lengths uniform:1-9 --batching packed
1|--batching longest with experts, to which tokens are dealt out evenly|0|run --model tiny-mixtral.json --seq-lengths uniform:1-9 --batching longest
1|--batching longest with fp8|0|run --model m.json --precision fp8 --seq-len 16 --seq-lengths uniform:1-9 --batching longest
1|batching packed needs sequences of unequal lengths|0|run --model m.json --batching packed
1|--norm-kernel plain, as framework megatron-deepspeed: RMSNorm is one kernel here, expected fused|0|run --model m.json --framework megatron-deepspeed
1|--framework internevo: ranks that own whole matrices and broadcast them cannot be run here;expected --zero 0|2|run --model m.json --dp 2 --zero 1 --framework internevo --norm-kernel fused
1|gradients as framework odd.yaml sums them over dp, in 3 bytes, cannot be summed here: expected 2 or 4;leave --framework out|w|run --model m.json --dp 2 --framework odd.yaml
TABLE
check_world

# --- what it writes -------------------------------------------------------------------------------------------------------

keys() { # of the object on one line, in order, those of inner objects among them
  grep -o '"[A-Za-z_]*": ' out | tr -d '": ' | tr '\n' ' '
}

expected="step_time_s step_times_s tokens_per_s tokens_per_s_per_gpu tflops_per_gpu mfu flops_convention bubble_fraction \
bubble_overhead breakdown_s compute recompute tp pp cp ep dp bubble optimizer host offload other losses device device_name \
comm clock_Hz ranks_per_processor host_lead ops late late_s launch_s "
is_json() { # the reader of models takes any JSON object, and says where one is broken
  "$stepsim" simulate --model out --cluster dgx-h100 2>&1 | grep -q 'out:[0-9]*:.*\(expected JSON\|Parse\|parse\)' && return 1
  [ "$(wc -l <out)" -eq 1 ]
}
run 2 run --model m.json --pp 2 --global-batch 8 --json
[ "$got" -eq 0 ] && is_json && [ "$(keys)" = "$expected" ] && [ ! -s err ]
result $? "keys of run --json" "$(keys) $(cat out err)"
sum=$(tr -d '{}' <out | sed 's/.*"breakdown_s": //; s/, "losses.*//' | grep -o '[0-9.e-]*\(,\|$\)' | tr -d , | awk '{ s += $1 } END { printf "%.9f", s }')
step=$(sed 's/.*"step_times_s": \[\([^]]*\)\].*/\1/' out | awk -F', ' '{ printf "%.9f", $NF }')
awk -v a="$sum" -v b="$step" 'BEGIN { exit !(a > 0 && a - b < 1e-6 && b - a < 1e-6) }'
result $? "the parts of the last step are its time" "sum $sum s, step $step s; $(cat out)"

run 2 run --model m.json --dp 2 --precision fp32 --global-batch 8 --json --check
[ "$got" -eq 0 ] && is_json && [ "$(keys)" = "${expected}check passed reasons loss_error gradient_error update_error missing timed " ]
result $? "keys of run --json --check" "$(keys) $(cat out err)"

# Where the gradients of all steps overflow nothing is compared: said wherever the report goes.
for output in '' --json '--trace -'; do
  # shellcheck disable=SC2086
  run 0 run --model m.json --precision fp16 --initial-loss-scale 1e38 --steps 2 --global-batch 1 --check --check-fp32 off $output
  expect "run --check ${output:-as text} says that all steps were skipped" 1 "all steps were skipped;a lower --initial-loss-scale"
done

run 2 run --model m.json --dp 2 --precision fp32 --global-batch 8 --json --check --check-time off
[ "$got" -eq 0 ] && grep -q '"timed": false' out
result $? "a check without a timed run says so" "$(cat out err)"

run 2 run --model m.json --dp 2 --precision fp16 --global-batch 8 --json --loss-scale 512
[ "$got" -eq 0 ] && is_json && [ "$(keys)" = "$(echo "$expected" | sed 's/losses /losses loss_scales skipped_steps /')" ] &&
  grep -q '"loss_scales": \[512, 512, 512, 512\], "skipped_steps": \[\]' out
result $? "keys of run --json in fp16" "$(keys) $(cat out err)"

run 2 run --model m.json --dp 2 --precision fp16 --global-batch 8 --initial-loss-scale 16777216 --steps 2
[ "$got" -eq 0 ] && grep -q '^  step 0: 1.67772e+07×, step 1: 8.38861e+06' out
result $? "a step that was skipped is marked" "$(cat out err)"

# The measured trace and the simulated one are of one Program.
compare() { # name, ranks, plan
  plan="--model m.json --precision fp32 --global-batch 8 --steps 3 $3"
  rm -f ./*.trace
  # shellcheck disable=SC2086 # the plan is a list of words
  {
    run "$2" run $plan --trace measured.trace
    "$stepsim" simulate $plan --gpus "$2" --cluster dgx-h100 --fold off --trace predicted.trace >/dev/null 2>>err
  }
  "$stepsim" compare predicted.trace measured.trace >compared 2>>err
  compared=$?
  [ "$got" -eq 0 ] && [ $compared -eq 0 ] && grep -q 'every stream ran its ops in the planned order' compared &&
    grep -q 'no op ran before what it needs' compared
  result $? "$1: measured against simulated, in the planned order" "$(cat err compared)"
}
compare 'dp 2, ZeRO-1' 2 '--dp 2 --zero 1 --bucket 1'
compare 'ZeRO-3' 2 '--dp 2 --zero 3'
compare 'experts, ep 2' 2 "--model tiny-mixtral.json --dp 2 --ep 2"
compare 'tp 2' 2 '--tp 2 --sequence-parallel on'
compare 'interleaved' 2 '--pp 2 --schedule interleaved --chunks 2'
compare 'dp 2 × pp 2, recompute' 4 '--dp 2 --pp 2 --recompute full'

run 2 run --model m.json --dp 2 --steps 2 --trace -
[ "$got" -eq 0 ] && head -c 20 out | grep -q '^{"displayTimeUnit"' && ! grep -q 'measured$' out
result $? "a trace on standard output stands alone" "$(head -c 300 out; cat err)"

if command -v gnuplot >/dev/null; then
  run 2 run --model m.json --pp 2 --steps 2 --timeline drawn.svg
  [ "$got" -eq 0 ] && grep -q 'Measured training step' drawn.svg
  result $? "a drawn timeline" "$(cat err)"
fi

# A calibration that cannot write what it found keeps it, and says where.
mkdir machine.yaml
calibrate="calibrate --model m.json --seq-len 8 --tp 1 --repeats 1 --quick --output machine.yaml"
# shellcheck disable=SC2086
"$stepreal" $calibrate >out 2>err </dev/null
got=$?
[ $got -ne 0 ] && [ -s machine.yaml.progress ] && grep -q 'kept in machine.yaml.progress: the same command goes on' err
result $? "a calibration that fails says what it keeps" "exit status $got; $(cat err)"
rmdir machine.yaml
cp machine.yaml.progress kept # for what follows
head -n 6 kept >machine.yaml.progress
# shellcheck disable=SC2086
"$stepreal" $calibrate >out 2>err </dev/null && grep -q 'stepreal: machine.yaml.progress: line 6: .*measured again' err &&
  grep -q 'name: flash_forward\|attention:' gpus/machine.yaml
result $? "what is cut off of it is measured again" "$(cat out err gpus/machine.yaml)"
# shellcheck disable=SC2086
"$stepsim" simulate --model m.json --seq-len 8 --global-batch 2 --precision fp32 --gpus 1 --cluster machine.yaml >out 2>>err
result $? "it goes on; stepsim takes a machine of which small products alone are known" "$(cat err)"
"$stepsim" simulate --model m.json --seq-len 8 --global-batch 2 --precision fp32 --gpus 1 --cluster machine.yaml --json \
  --offload-optimizer host >out 2>err && sed -n '/"breakdown_s"/,/}/p' out | grep -q '"offload" : [0-9.e-]*[1-9]'
result $? "the host's memory, copies and updates are calibrated for plans that offload" "$(cat err machine.yaml out)"
rm -rf machine* gpus nccl

# What is kept of other ranks, of another machine or in another form is not taken, and not lost without a word; what a
# calibration that was killed while it wrote has left is gone with the next. That the former is told needs no calibration
# that measures something: tp 3 leaves all out.
told_of_other() { # what is found, words behind the command
  sed "$1" kept >machine.yaml.progress
  # shellcheck disable=SC2086
  "$stepreal" $calibrate $2 >out 2>err </dev/null
  got=$?
  grep -q 'machine.yaml.progress: line 1: found "stepreal calibrate .*nothing of it is kept' err
}
for other in 's/, device cpu, [^,]*/, device cpu, Another Processor/' '1s/calibrate [0-9]*/calibrate 4/'; do
  told_of_other "$other" '--tp 3' && [ "$got" -eq 1 ] && grep -q 'nothing could be measured' err
  result $? "a progress file that is not of this calibration ($other) is told" "exit status $got; $(cat out err)"
done
told_of_other 's/ 1 ranks,/ 2 ranks,/' '' && [ "$got" -eq 0 ] && [ ! -e machine.yaml.progress ]
result $? "one of other ranks, too; it is gone with the next calibration" "exit status $got; $(cat out err; ls)"
rm -rf machine* gpus nccl

# What is kept of fused attention is taken without a word, and is not unfused attention's.
cp kept machine.yaml.progress
# shellcheck disable=SC2086
"$stepreal" $calibrate --attention unfused >out 2>err </dev/null && [ ! -s err ] && grep -q 'name: softmax' gpus/machine.yaml &&
  grep -q 'seq_len: 8, head_dim' gpus/machine.yaml
result $? "a calibration goes on in silence, and measures what is not kept: other attention" "$(cat err gpus/machine.yaml)"
rm -rf machine* gpus nccl kept

# Nothing is kept where nothing can be written.
echo "a file" >folder
# shellcheck disable=SC2086
"$stepreal" $calibrate --output folder/machine.yaml >out 2>err </dev/null
got=$?
[ "$got" -eq 1 ] && grep -q 'cannot write folder/machine.yaml.progress' err && ! grep -q 'is kept' err
result $? "a calibration that cannot write its progress does not say that it did" "exit status $got; $(cat err)"
rm folder

mkdir one other
cp m.json one/config.json
cp "$data/models/tiny-gpt2-short.json" other/config.json
# Latent attention: heads of V have a width of their own. And a head that predicts a token further.
run 1 calibrate --model one/config.json --model other/config.json --model tiny-deepseek-v3.json --seq-len 16 --tp 1,2 --repeats 1 \
  --quick --output machine.yaml
[ "$got" -eq 0 ] && grep -q 'name: silu_mul' gpus/machine.yaml && grep -q 'name: gelu' gpus/machine.yaml
result $? "two models of one name are both measured" "exit status $got; $(cat err gpus/machine.yaml)"
[ "$got" -eq 0 ] && ! grep -q 'left out: [^0-9]' out && [ "$(grep -c 'head_dim: [0-9]*, v_head_dim: ' gpus/machine.yaml)" -eq 4 ] && grep -q 'name: mtp_norm,' gpus/machine.yaml &&
  "$stepsim" simulate --model tiny-deepseek-v3.json --seq-len 16 --precision fp32 --gpus 1 --cluster machine.yaml --json >out 2>>err
result $? "latent attention and experts are calibrated, whole and cut by tp, and a head that predicts further" "exit status $got; $(cat err gpus/machine.yaml)"
rm -rf machine* gpus nccl

for time in first second; do
  run 1 calibrate --model m.json --seq-len 6 --tp 3 --quick --output machine.yaml
  [ "$got" -eq 1 ] && grep -q 'left out: m fp32, tp 3, .*: tp 3 does not divide' err && [ ! -e machine.yaml.progress ] &&
    ! grep -q 'is kept' err
  result $? "where nothing can be measured it is said why, the $time time" "exit status $got; $(cat err)"
done

# Attention to whole sequences, to the own half of one, to half of another's, and over all that a gather brings.
run 2 calibrate --model m.json --seq-len 16 --tp 1 --cp 1,2 --cp-comm ring,all-gather --repeats 1 --quick --output machine.yaml
[ "$got" -eq 0 ] && [ "$(grep -c 'seq_len: 16, head_dim' gpus/machine.yaml)" -eq 2 ] &&
  [ "$(grep -c 'seq_len: 8, head_dim' gpus/machine.yaml)" -eq 2 ] &&
  [ "$(grep -c 'seq_len: 8, keys: 4,' gpus/machine.yaml)" -eq 2 ] &&
  [ "$(grep -c 'seq_len: 8, keys: 16,' gpus/machine.yaml)" -eq 2 ] && grep -q 'name: attention.kv_pack' gpus/machine.yaml
result $? "context parallel cuts are calibrated" "exit status $got; $(cat err gpus/machine.yaml)"
for comm in ring all-gather; do
  "$stepsim" simulate --model m.json --seq-len 16 --precision fp32 --gpus 2 --cp 2 --cp-comm "$comm" --cluster machine.yaml \
    --json >out 2>err && grep -q '"modelled" *: *0[,}]*$' out
  result $? "a plan with cp over $comm is of measured kernels" "$(cat err out)"
done
rm -rf machine* gpus nccl

# Of sequences that its window of 10 does not cut, and of others.
run 1 calibrate --model tiny-qwen3.json --seq-len 8,16 --tp 1 --repeats 1 --quick --output machine.yaml
[ "$got" -eq 0 ] && [ "$(grep -c 'seq_len: 8, head_dim' gpus/machine.yaml)" -eq 2 ] && ! grep -q 'seq_len: 16, head_dim' gpus/machine.yaml &&
  [ "$(grep -c 'left out: attention of .* 16 tokens, flash: it has a window' out)" -eq 1 ] && [ "$(grep -c 'left out: [^0-9]' out)" -eq 1 ]
result $? "attention with a window is left out of a calibration, and said" "exit status $got; $(cat out err gpus/machine.yaml)"
rm -rf machine* gpus nccl

timeout 30 "$stepreal" run --model m.json --steps 2 --json >out 2>err </dev/null && is_json
result $? "alone, without a launcher" "$(cat err out)"
[ -z "$(find . -name '.stepsim-*')" ]
result $? "no temporary file is left" "$(find . -name '.stepsim-*')"

# a launcher of an MPI that stepreal is not built with starts processes that do not meet; one within it is heeded
if "$mpirun" --version 2>&1 | grep -q 'Open MPI\|OpenRTE\|PRRTE'; then
  foreign="PMI_SIZE=2 PMI_RANK"
else
  foreign="OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK"
fi
plan="--model m.json --precision fp32 --seq-len 16 --global-batch 2 --steps 1"
for launched in "$foreign" "SLURM_STEP_NUM_TASKS=2 SLURM_PROCID"; do
  for process in 0 1; do
    # shellcheck disable=SC2086 # lists of words
    timeout 60 env $launched=$process "$stepreal" run $plan >out 2>err </dev/null
    got=$?
    n_said=$(grep -c "started 2 processes (${launched%%=*}).*start them with mpirun of" err)
    [ $got -eq 2 ] && [ ! -s out ] && [ "$n_said" -eq $((1 - process)) ]
    result $? "process $process of ${launched%%=*} does not train alone" "status $got $(cat out err)"
  done
done
# shellcheck disable=SC2086
timeout 60 env $foreign=0 "$mpirun" -n 1 "$stepreal" run $plan >out 2>err </dev/null
result $? "one rank of the right launcher runs under another one" "$(cat err)"
finish
