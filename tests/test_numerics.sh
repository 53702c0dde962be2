#!/bin/sh
# test_numerics.sh MPIRUN STEPREAL STEPSIM DATA: losses, gradients and updates under every kind of plan are those of one
# rank, and the comparison notices programs that are wrong (TAP).
#
# The table: name | ranks | model | options. Every line is also run as it says: two steps, so that the second one's
# gradients depend on the first one's optimizer. The errors stand behind each result.
[ $# -eq 4 ] || { echo "usage: $0 MPIRUN STEPREAL STEPSIM DATA" >&2; exit 2; }
absolute() {
  case $1 in /*) echo "$1" ;; *) echo "$PWD/$1" ;; esac
}
mpirun=$(absolute "$1") stepreal=$(absolute "$2") stepsim=$(absolute "$3") data=$(absolute "$4")
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
export OPENBLAS_NUM_THREADS=1
n=0

result() { # status of the check, name, what to show when it failed
  n=$((n + 1))
  if [ "$1" -eq 0 ]; then
    echo "ok $n - $2"
  else
    echo "not ok $n - $2"
    printf '%s\n' "$3" | head -c 2000 | sed 's/^/# /'
  fi
}

number() { # key: its number in the report
  sed -n "s/.*\"$1\": \([^,}]*\).*/\1/p" report.json
}

check_plan() { # name, ranks, model, options
  # shellcheck disable=SC2086 # the options are a list of words
  timeout 60 "$mpirun" -n "$2" "$stepreal" run --model "$data/models/$3.json" --global-batch 8 --steps 2 --check --json \
    $4 >report.json 2>err </dev/null
  status=$?
  problem=
  [ $status -eq 0 ] || problem="exit status $status;"
  grep -q '"passed": true' report.json || problem="$problem not passed;"
  [ "$(number missing)" = 0 ] || problem="$problem numbers are missing;"
  [ ! -s err ] || problem="$problem messages;"
  [ -z "$problem" ]
  result $? "$1: $3, loss $(number loss_error), gradients $(number gradient_error), updates $(number update_error)" \
    "$problem $4 $(cat err report.json)"
}

check_table() { # precision
  while IFS='|' read -r name ranks model options; do
    case $name in '' | \#*) continue ;; esac
    check_plan "$name" "$ranks" "$model" "$1 $options"
  done
}

check_table "--precision fp32" <<'TABLE'
alone|1|tiny-llama|
alone|1|tiny-gpt2|--micro-batch 2
dp 2|2|tiny-llama|--dp 2
dp 2|2|tiny-gpt2|--dp 2
dp 2, overlap off|2|tiny-llama|--dp 2 --overlap-grad off --overlap-param off
dp 2, many buckets|2|tiny-gpt2|--dp 2 --bucket 1
dp 2, micro-batches of 2|2|tiny-llama|--dp 2 --micro-batch 2
dp 2, no norm over ranks|2|tiny-llama|--dp 2 --grad-norm-barrier off
tp 2|2|tiny-llama|--tp 2
tp 2|2|tiny-gpt2|--tp 2
tp 4, more than the key heads allow to share|4|tiny-llama|--tp 4
tp 2, sequence parallel|2|tiny-llama|--tp 2 --sequence-parallel on
tp 4, sequence parallel|4|tiny-gpt2|--tp 4 --sequence-parallel on
pp 2, gpipe|2|tiny-llama|--pp 2 --schedule gpipe
pp 2, 1f1b|2|tiny-gpt2|--pp 2
pp 2, interleaved|2|tiny-llama|--pp 2 --schedule interleaved --chunks 2
pp 4, gpipe|4|tiny-gpt2|--pp 4 --schedule gpipe
pp 4, 1f1b|4|tiny-llama|--pp 4
pp 4, micro-batches not a multiple of pp|4|tiny-gpt2|--pp 4 --global-batch 6
pp 3, stages of unequal layers|3|tiny-llama|--pp 3
ZeRO-1|2|tiny-llama|--dp 2 --zero 1
ZeRO-1, overlap off|2|tiny-gpt2|--dp 2 --zero 1 --overlap-grad off --overlap-param off
ZeRO-1, many buckets|2|tiny-gpt2|--dp 2 --zero 1 --bucket 1
ZeRO-2|2|tiny-gpt2|--dp 2 --zero 2
ZeRO-2, overlap off|2|tiny-llama|--dp 2 --zero 2 --overlap-grad off --overlap-param off
ZeRO-2, many buckets|2|tiny-llama|--dp 2 --zero 2 --bucket 1
ZeRO-3|2|tiny-llama|--dp 2 --zero 3
ZeRO-3|2|tiny-gpt2|--dp 2 --zero 3
ZeRO-3, overlap off|2|tiny-gpt2|--dp 2 --zero 3 --overlap-grad off --overlap-param off
ZeRO-3, gathered far ahead|2|tiny-llama|--dp 2 --zero 3 --prefetch 3
ZeRO-1 in shards of 2|4|tiny-gpt2|--dp 4 --zero 1 --zero-ranks 2
ZeRO-2 in shards of 2|4|tiny-llama|--dp 4 --zero 2 --zero-ranks 2
ZeRO-3 in shards of 2|4|tiny-gpt2|--dp 4 --zero 3 --zero-ranks 2
ZeRO-3 over 3 ranks|3|tiny-llama|--dp 3 --zero 3 --global-batch 6
dp 2 × pp 2|4|tiny-gpt2|--dp 2 --pp 2
dp 2 × pp 2, ZeRO-1, interleaved|4|tiny-gpt2|--dp 2 --pp 2 --schedule interleaved --chunks 2 --zero 1
tp 2 × pp 2, tied ends apart|4|tiny-gpt2|--tp 2 --pp 2
dp 2 × tp 2, ZeRO-3|4|tiny-gpt2|--dp 2 --tp 2 --zero 3
dp 2 × tp 2 × pp 2|8|tiny-llama|--dp 2 --tp 2 --pp 2
dp 2 × tp 2 × pp 2, ZeRO-3, sequence parallel|8|tiny-gpt2|--dp 2 --tp 2 --pp 2 --zero 3 --sequence-parallel on
dp 2 × tp 2 × pp 2, pp before dp|8|tiny-gpt2|--dp 2 --tp 2 --pp 2 --zero 1 --order tp-cp-ep-pp-dp
unfused attention|2|tiny-llama|--tp 2 --attention unfused
full recompute|2|tiny-llama|--dp 2 --recompute full
full recompute|4|tiny-gpt2|--tp 2 --pp 2 --recompute full --sequence-parallel on
full recompute of gathered weights|2|tiny-gpt2|--dp 2 --zero 3 --recompute full
selective recompute|2|tiny-gpt2|--pp 2 --recompute selective --attention unfused
selective recompute|2|tiny-llama|--tp 2 --recompute selective --attention unfused --sequence-parallel on
TABLE
echo "1..$n"
