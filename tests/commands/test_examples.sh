#!/bin/sh
# test_examples.sh STEPSIM: the examples at the end of every verb's --help run as they are written (TAP), and so do the
# commands of docs/slower.md and the clusters of docs/clusters.md and runs.md; options that the pages name are there. Files that
# examples name are there beforehand; what they write is looked for afterwards. Left out: what takes seconds or more
# ranks than a test should (sweep, plan), which have tests of their own.
[ $# -eq 1 ] || { echo "usage: $0 STEPSIM" >&2; exit 2; }
. "$(dirname "$0")/../fixtures/tap.sh"
stepsim=$(absolute "$1")
tests=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
mkdir bin
ln -s "$stepsim" bin/stepsim
printf '#!/bin/sh\ncat "%s/data/topology/switched-4.txt"\n' "$tests" >bin/nvidia-smi
chmod +x bin/nvidia-smi
PATH=$work/bin:$PATH

cp "$tests/data/nccl-tests/all_reduce-8.log" all_reduce.log
cp "$tests/data/topology/hopper-4.xml" topo.xml
head -n 6 "$tests/../docs/plots-measured.csv" >measured.csv
sed -n '1p; 2s/[^,]*$//p' "$tests/../docs/plots-measured.csv" >out_of_memory.csv
cp measured.csv runs.csv
# of the Program that the example of compare predicts
stepsim simulate --model gpt2 --cluster dgx-h100 --gpus 8 --tp 2 --pp 2 --global-batch 8 --trace measured.json >/dev/null

# a plan, its result, and what starts it
ours="--model llama-3-70b --cluster dgx-h100 --gpus 64 --tp 8 --pp 4 --zero 1 --global-batch 128 --seq-len 8192"
stepsim simulate $ours --save-plan plan.yaml --json >result.json
cp plan.yaml ours.yaml
printf -- '--tensor-model-parallel-size 8 --pipeline-model-parallel-size 4 --micro-batch-size 1 --global-batch-size 128\n' >megatron.sh

examples() { # verb: a command a line
  stepsim "$1" --help | awk '/^$/ { on = 0 } on { if (sub(/\\$/, "")) { printf "%s", $0; next } print } /^Examples?:$/ { on = 1 }'
}

written() { # command: the files its options say it writes
  printf '%s\n' "$1" |
    grep -oE -e '(--(timeline|trace|plot|csv|rows|svg|output) [^ ]+|>[a-z]+)' | sed 's/.*[ >]//'
}

check_example() { # command
  eval "$1" >out 2>err </dev/null
  status=$?
  problem=
  [ $status -eq 0 ] || problem="exit status $status;"
  for file in $(written "$1"); do
    [ -s "$file" ] || problem="$problem $file is not written;"
  done
  [ -s out ] || [ -n "$(written "$1")" ] || problem="$problem nothing is printed;"
  [ -z "$problem" ]
  result $? "$(echo "$1" | tr -s ' ')" "$problem $(cat err)"
}

for verb in simulate schedule memory collective compare diff trace fit validate topology list explain plot; do
  command -v gnuplot >/dev/null || [ $verb != plot ] || continue
  examples $verb >"list-$verb"
  [ -s "list-$verb" ]
  result $? "$verb --help has an example" "none was found"
  while read -r command; do
    check_example "$command"
  done <"list-$verb"
done

page=$tests/../docs/slower.md
sed -n '/^```csv$/,/^```$/{ /^```/!p; }' "$page" >ours.csv
sed -n '/^```yaml$/,/^```$/{ /^```/!p; }' "$page" >slow-nic.yaml
eval "$(grep '^run=' "$page")"
grep '^stepsim ' "$page" >list-page
[ "$(wc -l <list-page)" -ge 15 ]
result $? "docs/slower.md has commands" "$(cat list-page)"
while read -r command; do
  check_example "$command"
done <list-page

# A block names its file in its first line, and how many GPUs it is tried with where that is not 64.
mkdir clusters && cd clusters || exit 2
awk '/^```yaml$/ { getline; file = $2; sub(/:$/, "", file); on = 1
    if (match($0, /: [0-9]+ GPUs/)) print file, substr($0, RSTART + 2) + 0; else print file, 64 }
  /^```$/ { on = 0 } on { print >file }' "$tests/../docs/clusters.md" "$tests/../docs/runs.md" >blocks
[ "$(wc -l <blocks)" -ge 7 ]
result $? "the page of clusters has files" "$(cat blocks)"
while read -r file gpus; do
  grep -q '^\(node\|fabric\|gpu\|failures\):' "$file" || continue # a GPU's
  stepsim topology --cluster "$file" --gpus "$gpus" >out 2>err && grep -q '^no mistakes found$' out &&
    stepsim simulate --model gpt2 --cluster "$file" --gpus "$gpus" --global-batch 64 --tokens 1T >out 2>>err
  result $? "docs: $file is a cluster without mistakes" "$(cat err out)"
done <blocks

# Options that the pages name are ours: of a verb's help, of stepreal, or of who is started with a plan.
of_others="--benchmark --cflags --libs --make-vocab-size-divisible-by --moe-permute-fusion --moe-router-force-load-balancing"
for verb in $(stepsim --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
  stepsim "$verb" --help
done | grep -oE -- '--[a-z][a-z0-9-]+' | sort -u >options
unknown=
for option in $(cat "$tests"/../README.md "$tests"/../docs/*.md | grep -oE -- '(^|[^a-zA-Z0-9-])--[a-z][a-z0-9-]+' |
  grep -oE -- '--.*' | sort -u); do
  grep -qx -e "$option" options || grep -qr "\"${option#--}\"" "$tests/../real/commands" ||
    case " $of_others " in *" $option "*) ;; *) unknown="$unknown $option" ;; esac
done
[ "$(wc -l <options)" -ge 80 ] && [ -z "$unknown" ]
result $? "options that README and docs name are there" "unknown:$unknown"
finish
