# shellcheck shell=sh
# Sourced: a table of plans, each checked against one rank (TAP; tap.sh is sourced before). A line is
#
#     name | ranks | model | options          "= OPTIONS": of the lines that follow
#
# Every line is also run as it says: two steps, so that the second one's gradients depend on the first one's optimizer,
# and its update on the first one's moments. The errors stand behind each result. All lines with equally many ranks up to
# check_plans are run by the same processes, one after the other: to start ranks takes longer than to run most of them.
# Needs $mpirun, $run_list, $data, the models of make_small and an empty folder.

number() { # key: its $value in the $report; empty where it has none. Starts no process, as all of a check_run but one cat
  value=${report#*"\"$1\": "}
  [ "$value" != "$report" ] || value=
  value=${value%%[,\}]*}
}

# few/models: of few words; short/models: of two layers, too, which have every kernel that more have, but where layers
# take turns.
make_small() {
  mkdir -p few/models short/models
  for file in "$data"/models/tiny-*.json; do
    name=${file##*/}
    case $name in *-turns* | *-deep.json | *-sparse* | *-by-layer*) layers=4 ;; *) layers=2 ;; esac
    sed 's/"vocab_size": 300/"vocab_size": 76/' "$file" >"few/models/$name"
    sed "s/\(\"num_hidden_layers\"\|\"n_layers*\"\): *4/\1: $layers/" "few/models/$name" >"short/models/$name"
  done
}

# Line k of list-RANKS is a run; report-RANKS-k and status-RANKS-k what came of it. Models are no deeper, and batches no
# larger, than what a plan cuts needs.
run_lists() {
  rm -f list-* report-* status-*
  while IFS='|' read -r _ ranks model options; do
    folder=short batch=4
    case $options in
      *--pp* | *--zero* | *--bucket* | *--program*) folder=few ;;
      *--dp* | *--micro-batch*) ;;
      *) batch=2 ;;
    esac
    echo "--model '$folder/models/$model.json' --global-batch $batch --steps 2 --check --json $options" >>"list-$ranks"
  done <table
  for list in list-*; do
    ranks=${list#list-}
    timeout 300 "$mpirun" -n "$ranks" "$run_list" "$list" >out 2>"err-$ranks" </dev/null ||
      echo "exit status $? of $ranks ranks" >>"err-$ranks"
    awk -v ranks="$ranks" 'BEGIN { k = 1 }
      /^= / { sub("^= ", ""); print > "status-" ranks "-" k++; next }
      { print > "report-" ranks "-" k }' out
  done
}

check_run() { # name, ranks, model, options, which of the runs with so many ranks
  report=$(cat "report-$2-$5" 2>/dev/null)
  problem= said=
  read -r said 2>/dev/null <"status-$2-$5"
  [ "$said" = '0 -' ] || problem="status $said;"
  case $report in *'"passed": true, "reasons": []'*) ;; *) problem="$problem not passed;" ;; esac
  number missing
  [ "$value" = 0 ] || problem="$problem numbers are missing;"
  [ ! -s "err-$2" ] || problem="$problem messages; $(cat "err-$2")"
  number loss_error
  errors="loss $value"
  number gradient_error
  errors="$errors, gradients $value"
  number update_error
  errors="$errors, updates $value"
  [ -z "$problem" ]
  result $? "$1: $3, $errors" "$problem $4 $report"
}

plans() { # options of all; a table on standard input, for check_plans
  awk -F'|' -v OFS='|' -v given="$1" '/^(#|$)/ { next } /^= / { more = substr($0, 2); next }
    { $4 = given more " " $4; print }' >>table
}

check_plans() {
  run_lists
  for ranks in 1 2 3 4 8; do
    eval "k_$ranks=0"
  done
  while IFS='|' read -r name ranks model options; do
    eval "k_$ranks=\$((k_$ranks + 1)) k=\$k_$ranks"
    check_run "$name" "$ranks" "$model" "$options" "$k"
  done <table
  rm table
}

check_table() { # options of all; the table on standard input
  plans "$1"
  check_plans
}
