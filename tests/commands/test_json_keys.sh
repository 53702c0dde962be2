#!/bin/sh
# test_json_keys.sh STEPSIM: every key that a verb prints with --json stands in its row of docs/json.md; those of
# breakdown_s in that of simulate, of which the other rows say {…}, and those of explain's sensitivity and of simulate's
# failures in that of plan, of explain's measured kinds in that of compare.
# A plan's keys are its options.
docs=$(dirname "$0")/../../docs/json.md
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
stepsim=$1
. "$(dirname "$0")/../fixtures/tap.sh"

# Words of a row's code, one a line; "of" and the like are among them and do no harm.
words() {
  grep "^| \`$1\` |" "$docs" | tr '`' '\n' | awk 'NR % 2 == 0' | grep -oE '[A-Za-z_]+' | sort -u
}

# Of a run with failures, which stand in the row of plan.
failures() {
  grep '^| `plan` |' "$docs" | sed 's/.*, failures{//; s/}.*//' | grep -oE '[A-Za-z_]+' | sort -u
}

options() {
  "$stepsim" sweep --help | grep -oE '^  --[a-z0-9-]+' | tr -d ' ' | sed 's/^--//; s/memory-cap/memory-cap-bytes/' | tr - _
}

# verb ARGUMENT…: its keys are documented.
documented() {
  "$stepsim" "$@" --json >"$work/out" 2>"$work/err"
  grep -oE '"[A-Za-z_]+" ?:' "$work/out" | tr -cd 'A-Za-z_\n' | sort -u >"$work/keys"
  { words "$1"; [ "$1" != explain ] || { words plan; words compare; }; [ "$1" != simulate ] || failures; case $1 in plan | explain | simulate) options ;; esac; echo compute recompute tp pp cp ep dp bubble optimizer host offload other | tr ' ' '\n'; } | sort -u >"$work/row"
  undocumented=$(comm -23 "$work/keys" "$work/row")
  [ "$(wc -l <"$work/keys")" -ge 5 ] && [ -z "$undocumented" ]
  result $? "docs/json.md has the keys of $1" "not there: $undocumented; $(cat "$work/err")"
}

words simulate | grep -qx offload && words simulate | grep -qx recompute
result $? "docs/json.md has the axes of breakdown_s" "$(words simulate)"
plan="--model llama-3-8b --cluster dgx-h100 --gpus 16 --tp 2 --pp 2 --zero 1 --global-batch 32"
# shellcheck disable=SC2086
documented simulate $plan --offload-optimizer nvme
# shellcheck disable=SC2086
documented simulate $plan --tokens 1T --mtbf 10h --elastic restart
# shellcheck disable=SC2086
documented simulate $plan --data 100MB+storage=1GB/s
documented simulate --model gpt2 --cluster selene --gpus 8 --compress-grad onebit
# shellcheck disable=SC2086
documented simulate $plan --islands 2 --local-steps 10
documented simulate --model gpt2 --cluster dgx-h100 --gpus 16 --parameter-servers 2
# shellcheck disable=SC2086
documented simulate $plan --seq-lengths uniform:9-4096 --batching longest
# shellcheck disable=SC2086
documented diff "--tp 2" "--tp 4" $plan --price "2 \$/h"
documented schedule --pp 4 --micro-batches 8
documented memory --model llama-3-8b --cluster dgx-h100 --dp 8 --zero 1 --offload-optimizer nvme
documented memory --params 7e9 --dp 8 --pp 4 --zero 1
documented collective --cluster dgx-h100 --bytes 1MiB
documented topology --cluster dgx-h100 --gpus 16 --route 0,9
for kind in models clusters gpus schedules; do documented list $kind; done
documented topology --cluster dgx-h100 --plan "--tp 4 --dp 2 --pp 2 --ep 2"
documented explain $plan
documented explain $plan --measured 10s
documented explain $plan --gpus 16,32
documented plan --model llama-3-8b --cluster llama3-h100 --gpus 16 --global-batch 32 --tp 1,2 --pp 1 --zero 1 \
  --emit megatron --tokens 1T
"$stepsim" simulate --model gpt2 --cluster dgx-h100 --gpus 2 --pp 2 --trace "$work/trace.json" >/dev/null
documented compare "$work/trace.json" "$work/trace.json"
documented trace "$work/trace.json"
documented fit "$(dirname "$0")/../../docs/plots-measured.csv" --cluster selene --suggest 1
# a product, a pass and a collective
cat >"$work/kernels.json" <<'END'
{"distributedInfo": {"rank": 0, "world_size": 2}, "traceEvents": [
{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "tid": 1, "ts": 1, "dur": 1, "args": {"External id": 1,
 "Input Dims": [[256, 256], [256, 256]], "Input type": ["c10::BFloat16", "c10::BFloat16"]}},
{"ph": "X", "cat": "cpu_op", "name": "aten::relu", "tid": 1, "ts": 3, "dur": 1, "args": {"External id": 2,
 "Input Dims": [[256, 256]], "Input type": ["c10::BFloat16"]}},
{"ph": "X", "cat": "kernel", "name": "gemm", "ts": 5, "dur": 5, "args": {"External id": 1}},
{"ph": "X", "cat": "kernel", "name": "elementwise", "ts": 15, "dur": 5, "args": {"External id": 2}},
{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce", "ts": 25, "dur": 5, "args": {
 "Collective name": "allreduce", "In msg nelems": 8, "dtype": "Float", "Group size": 2, "Process Group Ranks": "[0, 1]"}}
]}
END
documented trace "$work/kernels.json" --gpu h100-sxm5-80gb --cluster dgx-h100
[ "$(grep -cE '"(modelled_alone_s|operator|waiting_inside)"' "$work/out")" = 3 ]
result $? "trace sets a product, a pass and a collective beside the model" "$(cat "$work/out")"
# shellcheck disable=SC2086
"$stepsim" simulate $plan --trace "$work/recorded.json" >/dev/null
# shellcheck disable=SC2086
documented explain $plan --measured "$work/recorded.json"
grep -q '"difference_s"' "$work/out" && grep -q '"kinds"' "$work/out"
result $? "explain sets a recording beside the step by kind" "$(cat "$work/out")"
finish
