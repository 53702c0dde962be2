#!/bin/sh
# test_cli.sh STEPSIM: what the command line does with mistakes (TAP).
#
# The tables: cli_options.txt, of what verbs share, most by way of simulate; cli_verbs.txt, of one verb after the
# other. A line of them:
#
#     exit status | words that must appear, parted by ; | arguments, as a shell reads them, PLAN standing for $plan
#
# One with status 2 or with an error must print exactly one message, to standard error, and nothing to standard
# output.
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
printf 'name: bare\nbase: h800\nnode: {host: none}\n' >bare.yaml
printf 'name: x\ngpu: [\n' >broken.yaml
printf '{"model_type": "llama",\n "hidden_size": }\n' >broken.json
printf '{"model_type": "llama", "hidden_size": 4096' >cut.json
printf '0F0,0B0\n1F0,1B9\n' >bad.csv
printf '0F0,0B0\n1F0,1B0\n' >good.csv
printf '0F0,1F0,1B0,0B0,0F1,1F1,1I1,0B1,1W1\n' >ends.csv
printf '0F0,3F0,3I0,0B0,3W0,0F1,3F1,3B1,0B1\n1F0,2F0,2B0,1B0,1F1,2F1,2B1,1B1\n' >v.csv
printf '0F0,1F0,1I0,0B0,1W0\n' >heads.csv
printf '0F0,(0F1;0B0)OVERLAP_F_B,0B1\n' >pairs.csv
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
printf '%s,source,framework\n2,256,4,selene,1,b,megatorn-core\n2,256,4,selene,1,a,megatorn-core\n2,256,4,selene,1,,mine\n' \
  "$columns" >frameworks.csv
printf 'name: own\nsource: made up\nbase: %s/topologies/frameworks/megatron-core.yaml\n' "$tests/.." >own-framework.yaml
printf '%s,framework\n2,256,4,selene,1,./own-framework.yaml\n2,256,4,selene,1,./none.yaml\n' "$columns" >paths.csv
printf '%s,kv_heads,gated,vocab,framework\n%s\n%s\n%s\n' "$columns" 2,64,4,selene,1,4,1,32000,Megatron-LM \
  2,64,4,selene,1,4,1,32000,megatron-lm 2,64,4,dgx-h100,1,2,1,128256,pytorch-fsdp >plain.csv
printf '%s\n2,256,4,selene,1\n' "$columns" >one.csv
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

for table in options verbs; do
  [ -s "$tests/commands/cli_$table.txt" ] || exit 2
  while IFS= read -r line; do
    case $line in '' | \#*) continue ;; esac
    case $line in *PLAN*) line=${line%%PLAN*}$plan${line#*PLAN} ;; esac
    check_line "$line"
  done <"$tests/commands/cli_$table.txt"
done

# The errors that intervals come from: a folder's own file comes before the shipped one.
published=topologies/published/prediction-errors.yaml
mkdir -p topologies/published
check_errors() { # words, text
  printf '%s\n' "$2" >$published
  check_line "2|$published:$1|simulate $plan"
}
shipped=$(cat "$tests/../$published")
spans='{dense_in_a_domain: {low: 1, high: 1}, dense_over_domains: {low: 1, high: 1}, experts: {low: 1, high: 1}}'
whole="{gpus: [a], ratio: {dense_in_a_domain: 0, dense_over_domains: 0, experts: 0}, first_look: $spans, undescribed: $spans"
check_errors '1: the key "gpus" is missing' '{}'
check_errors '1: unknown key "seem";did you mean "seen"' "$whole, seem: []}"
check_errors '1: low: found "1.5";0.001 to 1' "$(echo "$whole}" | sed 's/low: 1/low: 1.5/')"
check_errors '1: models: found "moe";experts' "$whole, seen: [{cluster: a, framework: b, models: moe, rows: 1, low: 1, high: 1}]}"
check_errors '1: the same was measured twice' "$whole, seen: [$(printf '{cluster: a, framework: b, models: experts, rows: 1, low: 1, high: 1}, %.0s' 1 2)]}"
printf '%s}\n' "$whole" >$published
check_line "0|step time;GPU without published steps|simulate $plan"
printf '%s\n' "$shipped" >$published
check_line "0|no framework, its overheads are left out|simulate $plan"
finish
