#!/bin/sh
# test_emulated_calibration.sh MPIRUN STEPREAL STEPSIM DATA: what is written of a GPU whose times are known (TAP). STEPREAL
# is linked with the emulation (emulated.h): events take 1 us, products 10 and more.
[ $# -eq 4 ] || { echo "usage: $0 MPIRUN STEPREAL STEPSIM DATA" >&2; exit 2; }
. "$(dirname "$0")/../fixtures/tap.sh"
mpirun=$(absolute "$1") stepreal=$(absolute "$2") stepsim=$(absolute "$3") data=$(absolute "$4")
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
cp "$data/models/tiny-llama.json" m.json
export OPENBLAS_NUM_THREADS=1 EMULATED_CUDA_TIMES=1000
calibrate() { # FILE, options, which may name the model
  file=$1
  shift
  case "$*" in *--model*) ;; *) set -- --model m.json "$@" ;; esac
  timeout 60 "$stepreal" calibrate --device cuda --comm null --tp 1 --seq-len 64 --repeats 2 --quick --output "$file" \
    "$@" >out 2>err </dev/null
  got=$?
}

# heads of 4, which cuDNN cannot read 16 bytes at a time
sed 's/"num_attention_heads": [0-9]*/"num_attention_heads": 16/; s/"num_key_value_heads": [0-9]*/"num_key_value_heads": 16/' m.json >narrow.json
calibrate narrow.yaml --model narrow.json
[ "$got" -eq 1 ] && grep -q 'left out: narrow bf16.*attention was by own kernels (cuDNN: .*STEPREAL_CUDNN=0' err && [ ! -e gpus/narrow.yaml ]
result $? "attention that falls back from cuDNN is not timed" "exit status $got; $(cat out err)"

export STEPREAL_CUDNN=0
calibrate machine.yaml --base h200-sxm5-141gb
[ "$got" -eq 0 ] && grep -q '^  attention by own kernels (cuDNN: switched off)$' out &&
  tr '\n' ' ' <gpus/machine.yaml | grep -q 'source: >- *stepreal calibrate, [^:]*, attention by own kernels (cuDNN: switched off) '
result $? "it is timed where that is wanted, and said in the summary and in the file" "exit status $got; $(cat out err)"
grep -q '^  events around a kernel added 1 us before it all, which was subtracted, and 1 us after it$' out
result $? "what events add is said, before and after" "$(cat out)"
grep -q '^  the host was not ahead at [0-9]* of [0-9]* timed items: ' out
result $? "so is how many items have launches in their times" "$(cat out)"

# 2 m n k FLOPs at a PFLOP/s, in whole nanoseconds
n_wrong=$(sed -n 's/.*- {number: bf16, layout.* batch: \([0-9]*\), m: \([0-9]*\), n: \([0-9]*\), k: \([0-9]*\), time: \([0-9.]*\) us}/\1 \2 \3 \4 \5/p' gpus/machine.yaml |
  awk '{ n++; d = $5 - 10 - 2e-9 * $1 * $2 * $3 * $4; if (d < -0.0011 || d > 0.0011) wrong++ } END { print n < 10 ? "no products" : wrong + 0 }')
[ "$n_wrong" = 0 ]
result $? "products take between their events what the GPU takes for them" "$n_wrong; $(cat gpus/machine.yaml)"
[ "$(grep -c 'name: memory, ' gpus/machine.yaml)" -eq 6 ] && [ "$(grep -c 'name: memory.cached, ' gpus/machine.yaml)" -eq 6 ]
result $? "memory has a column in the cache and one beyond it" "$(cat gpus/machine.yaml)"

predict() { # more options
  "$stepsim" simulate --model m.json --seq-len 64 --gpus 1 --global-batch 2 --precision bf16 --json "$@" >out 2>err
  grep -o '"step_time_s" : [0-9.e-]*' out
}
own=$(predict --cluster machine.yaml)
! grep -q "another program's" out && grep -q '"modelled" : 0[,}]*' out
result $? "stepreal's steps are predicted by what was measured" "$(cat out err)"
framework=$(predict --cluster machine.yaml --framework torchtitan-eager)
[ -n "$own" ] && [ "$own" != "$framework" ] && grep -q "has times of another program's launches and memory-bound kernels" out
result $? "a framework's by its own launches and kernels, with a word" "$own, $framework; $(cat out err)"
printf 'name: anyone\nbase: machine.yaml\nmeasured:\n  origin: any\n' >gpus/anyone.yaml
sed 's/^gpu: .*/gpu: gpus\/anyone.yaml/; s/^name: .*/name: anyone/' machine.yaml >anyone.yaml
asked=$(predict --cluster anyone.yaml --framework torchtitan-eager)
[ -n "$asked" ] && [ "$asked" != "$framework" ] && ! grep -q "another program's" out
result $? "unless a file over it says that they are anyone's" "$asked, $framework; $(cat out err)"

# 0.1 us more for each stream that is made
EMULATED_CUDA_TIMES=1000,100 calibrate drift.yaml
[ "$got" -eq 1 ] && grep -q 'the events around a kernel added [0-9.]* us at one time and [0-9.]* us at another' err &&
  [ ! -e gpus/drift.yaml ] && [ ! -e drift.yaml.progress ] && ! grep -q 'is kept' err
result $? "times between events that change are refused, and not kept" "exit status $got; $(cat out err; ls)"

# a calibration that could not write its files goes on where events take another time
mkdir later.yaml
calibrate later.yaml
grep -q '^done edge 1e-06$' later.yaml.progress && grep -q '^done attention own kernels' later.yaml.progress
result $? "what events add and what ran attention is kept with the times" "exit status $got; $(cat err later.yaml.progress)"
cp later.yaml.progress kept
rmdir later.yaml
calibrate later.yaml
[ "$got" -eq 0 ] && grep -q '^  attention by own kernels (cuDNN: switched off)$' out
result $? "and known when it goes on" "exit status $got; $(cat out err)"
rm -r later.yaml gpus/later.yaml
cp kept later.yaml.progress
EMULATED_CUDA_TIMES=2000 calibrate later.yaml
[ "$got" -eq 1 ] && grep -q 'added 1 us at one time and 2 us at another' err && [ ! -e gpus/later.yaml ]
result $? "it does not go on where events add another time" "exit status $got; $(cat out err)"

calibrate machine.yaml --base gpus/machine.yaml
[ "$got" -eq 2 ] && grep -q 'would be written over its own base' err
result $? "a file is not made the base of itself" "exit status $got; $(cat out err)"

timeout 60 "$mpirun" -n 2 "$stepreal" calibrate --device cuda --comm null --model m.json --tp 1 --seq-len 64 --output two.yaml >out 2>err </dev/null
got=$?
[ "$got" -eq 1 ] && [ "$(grep -c '2 ranks share GPU 0: what they measure would mean nothing' err)" -eq 1 ] && [ ! -e two.yaml ]
result $? "ranks that share a GPU are not calibrated" "exit status $got; $(cat out err)"
for json in '' --json; do
  # shellcheck disable=SC2086 # none, or a word
  timeout 60 "$mpirun" -n 2 "$stepreal" run --device cuda --model m.json --dp 2 --cluster dgx-h200 --seq-len 16 --steps 2 $json >out$json 2>err </dev/null
done
grep -q '^  times mean nothing: 2 ranks share GPU 0$' out && ! grep -q MFU out && grep -q '"mfu": null' out--json &&
  grep -q '"ranks_per_processor": 2' out--json
result $? "times of a run of theirs are said to mean nothing, and there is no MFU" "$(cat out out--json err)"
timeout 60 "$stepreal" run --device cuda --model m.json --cluster dgx-h200 --seq-len 16 --steps 2 >out 2>err </dev/null
grep -q 'MFU' out && ! grep -q 'mean nothing' out
result $? "one rank alone has one" "$(cat out err)"
finish
