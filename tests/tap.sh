# shellcheck shell=sh
# What scripts of checks share, to be sourced. Results go to standard output as TAP; `finish` ends the list.
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

finish() {
  echo "1..$n"
}

has_words() { # words parted by ;, text: all of them are in it
  rest=$1
  while [ -n "$rest" ]; do
    word=${rest%%;*}
    case $2 in *"$word"*) ;; *) return 1 ;; esac
    case $rest in *\;*) rest=${rest#*;} ;; *) rest= ;; esac
  done
}

# how they begin, text: $n_lines of its lines do. Starts no process, as it is for every line of a table.
count_lines() {
  n_lines=0 rest="
$2"
  while :; do
    case $rest in
      *"
$1"*) n_lines=$((n_lines + 1)) rest=${rest#*"
$1"} ;;
      *) return ;;
    esac
  done
}

expect() { # name, exit status, words parted by ; - of what was run last: out, err, got
  problem=
  [ "$got" -eq "$2" ] || problem="exit status $got, expected $2;"
  has_words "$3" "$(cat out err)" || problem="$problem not all of \"$3\" were printed:"
  [ -z "$problem" ]
  result $? "$1" "$problem
$(cat out err)"
}

absolute() { # path
  case $1 in /*) echo "$1" ;; *) echo "$PWD/$1" ;; esac
}

unmapped() { # files: those that are there and that no process maps
  for file in "$@"; do
    [ ! -e "$file" ] || grep -qs "$file" /proc/[0-9]*/maps || echo "$file"
  done
}

# file: memory shared since it was made that nobody has any more. Others may run beside this test, and have not mapped
# yet what they just made: looked at twice.
shared_left() {
  # shellcheck disable=SC2046 # a list of words
  left=$(unmapped $(find /dev/shm -maxdepth 1 -type f -newer "$1" 2>/dev/null))
  # shellcheck disable=SC2086
  [ -z "$left" ] || { sleep 0.5 && unmapped $left; }
}
