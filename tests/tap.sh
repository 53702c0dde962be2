# shellcheck shell=sh
# What scripts of checks share: `. tap.sh` before leaving the folder. Results go to standard output as TAP; `finish` ends
# the list.
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

absolute() { # path
  case $1 in /*) echo "$1" ;; *) echo "$PWD/$1" ;; esac
}
