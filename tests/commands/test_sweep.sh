#!/bin/sh
# test_sweep.sh STEPSIM: what a sweep does with mistakes, full disks, signals and files of its own and of others (TAP).
[ $# -eq 1 ] || { echo "usage: $0 STEPSIM" >&2; exit 2; }
. "$(dirname "$0")/../fixtures/tap.sh"
stepsim=$(absolute "$1")
data=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
small="--model gpt2 --cluster selene --gpus 8 --tp 1,2,3 --pp 1,2 --zero 0,1 --micro-batch 1,2"

sweep() { # arguments; leaves out, err, got
  timeout 60 "$stepsim" sweep "$@" >out 2>err </dev/null
  got=$?
  return "$got"
}

# --- mistakes
sweep --help
expect "help has lists, an example and the statuses" 0 "--tp=LIST;1..16*2;Examples:;--resume;Exit status"
sweep
expect "a model is needed" 2 "--model is missing"
sweep --model gpt2
expect "a cluster is needed" 2 "--cluster is missing"
sweep $small --scheduel 1f1b
expect "the nearest option is suggested" 2 "unknown option --scheduel; did you mean --schedule?"
sweep $small --schedule 1f1b,1f2b
expect "a wrong value is found before anything runs" 2 "unknown schedule \"1f2b\""
sweep $small --seq-len ""
expect "an empty list is a mistake" 2 "--seq-len: found nothing"
sweep $small --output - --jobs 1
expect "standard output takes no database" 2 "--output -: standard output takes no database"
sweep $small --output x.db --csv ./x.db
expect "two names of one file are one file" 2 "--output and --csv are both ./x.db"
sweep $small --jobs 0
expect "there must be a thread" 2 "--jobs: found 0, expected 1 to"
sweep $small --objective speed
expect "objectives are listed" 2 "mfu;tokens_per_s;cost"
sweep --model gpt2 --cluster dgx-1-v100 --gpus 8 --precision fp16 --objective cost
expect "cost needs a price" 2 "--objective cost needs a price;--price"
sweep $small --price 2
expect "a price has a unit" 2 "--price"
sweep $small --resume
expect "resume needs a file" 2 "--resume needs --output"
sweep $small --sample-seed 3
expect "a seed needs a sample" 2 "--sample-seed needs --sample"
sweep $small --json --csv -
expect "standard output holds one thing" 2 "clash"
sweep $small --output a.db --csv a.db
expect "two files do not have one name" 2 "--output and --csv are both a.db"
sweep --space nowhere.yaml
expect "a space file must be there" 2 "nowhere.yaml"
printf 'model: gpt2\ncluster: selene\ntp: [1, two]\n' >space.yaml
sweep --space space.yaml
expect "a mistake in a space file names its line" 2 "space.yaml:3;two;whole number"
printf 'model: gpt2\ncluster: selene\ntp: []\n' >space.yaml
sweep --space space.yaml
expect "an empty list is one" 2 "space.yaml:3: tp: found 0 items, expected 1 to"
printf 'model: gpt2\ncluster: selene\ntp: {a: 1}\n' >space.yaml
sweep --space space.yaml
expect "so is a mapping" 2 "space.yaml:3: tp: found a mapping, expected a value or a list of some"

# --- sizes
sweep --model gpt2 --cluster selene --tp 1..1000 --pp 1..1000 --micro-batch 1..1000
expect "a billion configurations are refused, with a way out" 2 "1e+09 configurations are more than 1000000;--sample;--limit"
sweep --model gpt2 --cluster selene --tp 1..1000 --pp 1..1000 --micro-batch 1..1000 --gpus 1..1000 --global-batch 1..1000 \
  --seq-len 1..1000 --zero-ranks 1..1000
expect "more than can be counted are refused too" 2 "more than 9.2e18 configurations"
sweep --model gpt2 --cluster selene --tp 1..1000 --pp 1..1000 --micro-batch 1..1000 --gpus 1..1000 --global-batch 1..1000 \
  --seq-len 1..1000 --zero-ranks 1..1000 --sample 5
expect "and not drawn from, as many would never be" 2 "more than 9.2e18 configurations"
sweep --model gpt2 --cluster selene --tp 1..1000 --pp 1..1000 --micro-batch 1..1000 --gpus 1..1000 --sample 50
[ "$got" -le 1 ] && got=0
expect "a few of them can be drawn" 0 "50 configurations, a random sample"
sweep $small --sample 1000
expect "not more than there are" 2 "--sample 1000 of a space of 24"
sweep $small --limit 10
expect "a limit is kept" 2 "24 configurations are more than 10"
sweep --model gpt2 --cluster selene --gpus 8 --tp 3,5
expect "nothing possible is exit 1, with the reasons" 1 "2 impossible;gpus 8 is not a multiple of tp 3"

# --- results
sweep $small --output a.db --csv a.csv
expect "a sweep reports counts, the best, the front and why the rest lost" 0 \
  "24 configurations;16 ran, 8 impossible;Best by MFU;Pareto front;gpus 8 is not a multiple of tp 3"
[ ! -s err ]
result $? "a short sweep says nothing on standard error" "$(cat err)"
[ "$(wc -l <a.csv)" -eq 25 ] && head -1 a.csv | grep -q '^config,status,kind,reason,model,cluster,gpus,tp,'
result $? "the CSV has a row per configuration" "$(head -3 a.csv)"
[ "$(cut -d, -f1 a.csv | tail -n +2)" = "$(seq 0 23)" ]
result $? "in the order of their indices" "$(cut -d, -f1 a.csv)"
sweep $small --csv -
cmp -s out a.csv
result $? "the CSV can go to standard output, alone" "$(head -3 out)"
sweep $small --jobs 3 --csv b.csv
cmp -s a.csv b.csv
result $? "threads change nothing" "$(diff a.csv b.csv | head -4)"

# --- resuming
sweep $small --output a.db
expect "a file with a sweep is not written over" 2 "a.db holds a sweep already: --resume"
rm -f b.csv
sweep --resume --output a.db --best-of recomputing
expect "an option that is not varied has no best of each" 2 "--best-of: found \"recomputing\", expected one of"
sweep --resume --output a.db --best-of TP
expect "a complete sweep says the best of each value, by any spelling of the option" 0 "Best by MFU for each tp"
sweep --model gpt2 --cluster selene --gpus 8 --best-of gpus
expect "a sweep of one value has no best of each" 2 "no option of this sweep has several values"
sweep --resume --output a.db --csv b.csv
expect "a complete sweep is reported from its file alone" 0 "24 configurations;Best by MFU"
cmp -s a.csv b.csv
result $? "and gives the same CSV" "$(diff a.csv b.csv | head -4)"
sweep $small --resume --output a.db
expect "the same options resume too" 0 "16 ran"
sweep $small --zero-ranks 1 --resume --output a.db
expect "other options do not, and what differs is said" 2 "a.db holds another sweep;zero-ranks=1"
sweep $small --resume --price '3 $/h' --output a.db
expect "nor does another price" 2 "price: in the file;now 3"
sweep --resume --price '3 $/h' --output a.db
expect "nor alone" 2 "--price differs"
sweep --resume --output a.db --tp 4
expect "nor with a part of its space" 2 "--resume goes on with the sweep in a.db: give all options of its space, or none"
sweep --resume --output missing.db
expect "there must be something to resume" 2 "there is no missing.db to resume"
sweep --model nope --cluster selene --output none.db
expect "a mistake leaves no file behind" 2 "nope"
[ ! -e none.db ]
result $? "none at all" "$(ls)"
cp "$data/models/gpt2.json" mine.json
sweep --model mine.json --cluster selene --gpus 8 --tp 1,2 --output mine.db
rm -f mine.json
sweep --resume --output mine.db
expect "a complete sweep needs its inputs no more" 0 "2 configurations"

# --- files that cannot be written
sweep $small --csv /dev/full --output full.db
expect "a full disk under the CSV is an error" 2 "cannot write /dev/full: No space left"
sweep --resume --output full.db --csv b.csv
cmp -s a.csv b.csv
result $? "and loses no result" "$(diff a.csv b.csv | head -4)"
sweep $small --output nowhere/x.db
expect "a folder must be there" 2 "cannot open nowhere/x.db: No such file or directory"
sweep $small --output /dev/null
expect "and the file be one" 2 "/dev/null: it is no regular file"
sweep $small --output ""
expect "a file has a name" 2 "without a name"
sweep $small --output :memory: && [ -s :memory: ]
result $? "a file may have an odd one" "$(ls)"
echo "a text that is longer than the header of a database, which has one hundred bytes, and surely no database at all" >text.db
sweep $small --output text.db
expect "a file of another kind is left alone" 2 "text.db is not a database"
many="--model gpt2 --cluster selene --gpus 8 --tp 1,2,4 --pp 1,2 --zero 0..3 --micro-batch 1..8 --seq-len 64..1024+64"
# a file may grow to 200 kB: an error of the system while rows are written
(ulimit -f 200 && trap '' XFSZ && sweep $many --output small.db && exit "$got")
got=$?
expect "a file that cannot grow is an error" 2 "small.db"
sweep --resume --output small.db --csv many.csv
expect "after which the sweep goes on" 0 "3,072 configurations"
if [ "$(id -u)" -eq 0 ] && setpriv --reuid 65534 --clear-groups test -x "$stepsim" 2>/dev/null; then
  as_user="setpriv --reuid 65534 --clear-groups"
else
  as_user=
fi
if [ "$(id -u)" -ne 0 ] || [ -n "$as_user" ]; then
  mkdir shut && cp a.db shut && chmod 755 "$work" shut && chmod 444 shut/a.db && [ "$(id -u)" -eq 0 ] || chmod 555 shut
  $as_user "$stepsim" sweep --resume --output shut/a.db >out 2>err
  got=$?
  expect "a file that may not be written is an error" 2 "shut/a.db;read-only"
  $as_user "$stepsim" plot pareto shut/a.db --data - >out 2>err
  got=$?
  chmod 755 shut
  expect "but it can be drawn" 0 '"front"'
fi

# --- memory that is left free
few="--model gpt2 --cluster selene --gpus 8 --tp 1,2 --zero 0,3 --micro-batch 1,2"
sweep $few --memory-margin "83 GB" --output free.db --csv free.csv
expect "a margin leaves out what does not fit beside it" 0 "ran, ; too large to run;used"
sweep --resume --output free.db --memory-margin 83e9B
expect "the same margin in other words goes on" 0 "too large to run"
sweep --resume --output free.db --memory-margin 5%
expect "another one does not" 2 "--memory-margin differs from that of the sweep in free.db"
sweep $few --memory-margin 100%
expect "a mistake in it is told" 2 "--memory-margin: found \"100%\";such as 5 % or 0.05"

# --- ending early
mkfifo space.fifo
"$stepsim" sweep --space space.fifo >out 2>err &
pid=$!
exec 9>space.fifo # once it reads
kill -TERM "$pid"
(printf 'model: gpt2\ncluster: selene\n' >&9) 2>/dev/null
exec 9>&-
wait "$pid"
got=$?
[ "$got" -eq 143 ] && [ ! -s out ] && [ ! -s err ]
result $? "while inputs are read a signal ends it at once" "status $got: $(cat err)"
rm -f early.db*
env --default-signal=INT "$stepsim" sweep $many --jobs 1 --prune off --output early.db >out 2>err &
pid=$!
for try in $(seq 200); do # until some rows are there
  [ "$(stat -c %s early.db-wal 2>/dev/null || echo 0)" -gt 100000 ] && break
  sleep 0.02
done
kill -INT "$pid" 2>/dev/null
wait "$pid"
got=$?
expect "Ctrl-C ends it with 130 and says how to go on" 130 "interrupted after;stepsim sweep --resume --output early.db"
[ ! -s out ]
result $? "without a report of half a sweep" "$(head -3 out)"
sweep --resume --output early.db --csv early.csv
expect "which then completes it" 0 "3,072 configurations"
sweep $many --prune off --csv many.csv
cmp -s early.csv many.csv
result $? "as if it had never been disturbed" "$(diff early.csv many.csv | head -4)"
finish
