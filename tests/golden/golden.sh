#!/bin/sh
# Hashes of what stepsim prints for plans drawn at random, compared with the ones kept in golden.txt: a change that means to
# change no prediction changes none of them. A line of it: the plan's number, the exit status, then hashes of the report
# (--json), the Program (--dump), the trace (--trace) and the memory table (`memory --json`); of a sweep (`s` before its
# number) and of the rows of `validate` one hash. Where a run exits 2 there is no hash: messages may change.
# usage: golden.sh STEPSIM DRAW_PLANS SOURCE check [EVERY]   compares every EVERY-th line (default 1); prints TAP
#        golden.sh STEPSIM DRAW_PLANS SOURCE update          writes golden.txt anew, of all files (without later.txt)
#        golden.sh STEPSIM DRAW_PLANS SOURCE show LINE FOLDER  writes what line `LINE` (17, s3) is made of into FOLDER
set -eu
export LC_ALL=C
n_plans=3000 # plans, and sweeps
n_sweeps=120
stepsim=$1
draw=$2
source=$3
verb=$4
golden=$source/tests/golden/golden.txt
export STEPSIM_DATA="$source"
unset STEPSIM_JOBS

hash_of() { # files
  sha256sum "$@" | while read -r hash file; do
    [ -s "$file" ] && printf ' %.10s' "$hash" || printf ' -'
  done
}
# The wall clock's, and how far off predictions may be: that changes with the rows it is made from, and has a test of its
# own (tests/explore/test_error_table.c). In tables it is the last two columns, before a sweep's checksum. What was asked
# for, which the report repeats, is no prediction: an option more is in it.
timeless() {
  sed -e '/"wall_s"/d' -e '/"interval" : {/,/}/d' -e '/^  "plan" : {/,/}/d' -e '/^  "cost" : {/,/}/d' \
    -e '/^  "\(model\|cluster\|options\)" :/d'
}
without_last() { sed -E "s/(,[^,]*){$1}\$//"; } # so many columns
run_plan() { # number, folder
  set -- "$1" "$2" "$("$draw" "$source" "$1" 1)"
  status=0
  # shellcheck disable=SC2086 # a list of options
  "$stepsim" simulate $3 --json --dump "$2/program" --trace "$2/trace" >"$2/json" 2>"$2/error" || status=$?
  timeless <"$2/json" >"$2/report"
  : >"$2/memory"
  case $3 in
  *--slow-rank*) ;; # not an option of memory
  *)
    # shellcheck disable=SC2086
    "$stepsim" memory $3 --json >"$2/memory" 2>"$2/error-memory" || true
    ;;
  esac
  for file in program trace; do [ -e "$2/$file" ] || : >"$2/$file"; done
  echo "$1 $status$(hash_of "$2/report" "$2/program" "$2/trace" "$2/memory")"
}
run_sweep() { # number, folder
  set -- "$1" "$2" "$("$draw" "$source" "$1" 1 sweep)"
  status=0
  # shellcheck disable=SC2086
  "$stepsim" sweep $3 --jobs 1 --csv - >"$2/table" 2>"$2/error" || status=$?
  without_last 3 <"$2/table" | sed 's/\.yaml,/,/' >"$2/rows" # it repeats how the framework's file was named
  echo "s$1 $status$(hash_of "$2/rows")"
}
run_rows() { # file's name, folder
  path=$source/measurements/$1.csv
  [ "$1" != measured ] || path=$source/../shared/measured/measured.csv
  [ -e "$path" ] || return 0
  "$stepsim" validate "$path" --rows "$2/table" >/dev/null 2>"$2/error"
  without_last 2 <"$2/table" >"$2/rows"
  echo "$1 0$(hash_of "$2/rows")"
}
run_line() { # a line's first word
  folder=$(mktemp -d)
  case $1 in
  s*) run_sweep "${1#s}" "$folder" ;;
  [0-9]*) run_plan "$1" "$folder" ;;
  *) run_rows "$1" "$folder" ;;
  esac
  rm -rf "$folder"
}
lines() { # all of them, every so many-th; the rows of `validate` only with all
  seq 1 "$1" $n_plans
  seq -f 's%g' 1 "$1" $n_sweeps
  [ "$1" -gt 1 ] || printf '%s\n' published nanotron measured
}
run_all() { # every so many-th, on all processors
  lines "$1" | xargs -P "$(nproc)" -n 1 "$0" "$stepsim" "$draw" "$source" line | sort -V
}

case $verb in
line) run_line "$5" ;;
show)
  mkdir -p "$6"
  case $5 in
  s*) run_sweep "${5#s}" "$6" && "$draw" "$source" "${5#s}" 1 sweep ;;
  [0-9]*) run_plan "$5" "$6" && "$draw" "$source" "$5" 1 ;;
  *) run_rows "$5" "$6" ;;
  esac
  ;;
update) rm -f "$source/tests/golden/later.txt" && run_all 1 >"$golden.new" && mv "$golden.new" "$golden" ;;
check)
  found=$(mktemp)
  trap 'rm -f "$found"' EXIT
  run_all "${5:-1}" >"$found"
  awk 'NR == FNR { kept[$1] = $0; next }
    $0 != kept[$1] { print "not ok " ++n " - " $1; print "# expected " kept[$1]; print "# found    " $0 }
    END { print (n ? "not ok " : "ok ") n + 1 " - " FNR - n " of " FNR " lines are as they were"; print "1.." n + 1; exit n > 0 }' \
    "$golden" "$found"
  ;;
*) echo "$0: found $verb, expected check, update or show" >&2; exit 2 ;;
esac
