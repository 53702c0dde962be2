#!/bin/sh
# test_no_memory.sh STEPSIM: every verb under limits of its memory, drawn from what its libraries need upwards. It is
# done, or says on standard error why not and ends with status 2; no signal ends it, what it leaves is whole, and a sweep
# goes on (TAP).
[ $# -eq 1 ] || { echo "usage: $0 STEPSIM" >&2; exit 2; }
. "$(dirname "$0")/../fixtures/tap.sh"
stepsim=$(absolute "$1")
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
draws=5 n_refused=0 n_done=0 wrong=

limited() { # KiB, folder, arguments; leaves out, err, got
  kib=$1 folder=$2
  shift 2
  (cd "$folder" && ulimit -c 0 && ulimit -v "$kib" && exec timeout 60 "$stepsim" "$@") >out 2>err </dev/null
  got=$?
}

# a command of each verb
gpt2="--model gpt2 --cluster selene --gpus 8"
cat >verbs <<END
memory --params 7e9 --dp 8
explain $gpt2 --global-batch 16
plan $gpt2 --tp 1,2 --pp 1 --global-batch 16 --seq-len 512 --jobs 2
simulate $gpt2 --trace trace.json
simulate $gpt2 --timeline picture.svg
schedule --schedule zb-v --pp 4 --micro-batches 8 --csv orders.csv
collective --cluster selene --gpus 16 --bytes 1MiB,1GiB --plot busbw.svg
plot heat $gpt2 --vary tp=1,2 --vary zero=0,1 --data data
compare ../whole/trace.json ../whole/trace.json --csv table.csv
diff ../own.yaml ../own.yaml
trace ../whole/trace.json --timeline step.svg --trace clock.json
validate ../runs.csv --rows rows.csv
fit ../runs.csv --cluster selene --output mine.yaml
topology --cluster selene --gpus 16 --svg node.svg
list schedules
sweep $gpt2 --tp 1,2 --zero 0,1 --jobs 2 --output few.db --csv few.csv
END
printf 'layers,hidden,heads,cluster,step_time_s,source\n2,256,4,selene,1,a\n2,256,4,selene,2,b\n' >runs.csv
printf 'model: gpt2\ncluster: selene\ngpus: 8\n' >own.yaml
for verb in $("$stepsim" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
  [ "$verb" != lab ] || continue # runs until it is ended; what it runs are these
  grep -q "^$verb " verbs || wrong="$wrong $verb"
done
[ -z "$wrong" ]
result $? "every verb is among those that are tried" "$wrong"

mkdir whole few
least=8192 got=1 # KiB
while [ "$got" -ne 0 ] && [ "$least" -lt 65536 ]; do
  least=$((least + 512))
  limited "$least" whole --version
done
while read -r verb; do
  # shellcheck disable=SC2086 # a list of words
  (cd whole && "$stepsim" $verb) >out 2>err </dev/null || wrong="$wrong
$verb: without a limit: $(cat err)"
  for limit in $(awk -v seed="${#verb}" -v n="$draws" -v least="$least" \
    'BEGIN { srand(seed); for (i = 0; i < n; i++) printf "%d\n", least + rand() * rand() * 30000 }'); do
    rm -rf few && mkdir few
    # shellcheck disable=SC2086 # a list of words
    limited "$limit" few $verb
    case $got in
      0) n_done=$((n_done + 1)) ;;
      2) n_refused=$((n_refused + 1)) && [ -s err ] ;;
      *) false ;;
    esac || wrong="$wrong
$verb: $limit KiB: status $got: $(tail -c 300 err)"
    if [ -e few/few.db ] && [ "$got" -eq 2 ]; then
      # shellcheck disable=SC2086 # a list of words
      limited unlimited few $verb --resume
      [ "$got" -eq 0 ] || wrong="$wrong
$verb: $limit KiB: it cannot be resumed: $(tail -c 300 err)"
    fi
    for file in few/*; do
      case $file in *.db* | "few/*") continue ;; esac
      cmp -s "$file" "whole/${file#few/}" || wrong="$wrong
$verb: $limit KiB: it left half of $file"
    done
  done
done <verbs
[ -z "$wrong" ]
result $? "with little memory each does all or says why it does nothing" "$wrong"
[ "$n_refused" -gt "$draws" ] && [ "$n_done" -gt "$draws" ]
result $? "both were seen" "$n_refused refused, $n_done done"
(ulimit -s 128 && exec "$stepsim" memory --params 7e9) >out 2>err
got=$?
expect "a small stack is said, too" 2 "out of memory: a stack may have 128 KiB"
finish
