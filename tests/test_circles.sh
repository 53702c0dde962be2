#!/bin/sh
# No two files of a library call each other, not even by way of others: whoever reads one file then finds what it stands
# on in files that do not need it again. As the linker sees it: each object of the archives under BUILD with the names
# that it calls, sorted so that whoever calls stands before whoever is called (tsort), which loops do not let themselves
# be.
#
#     test_circles.sh BUILD
set -u
export LC_ALL=C # by which awk reads and writes numbers
arrows=$(mktemp) || exit 1
trap 'rm -f "$arrows" "$arrows".names "$arrows".loops' EXIT

# "caller callee": "libx.a:x.c.o: address kind name", where no address means that somebody else defines it. A name that
# two objects define (one file, compiled for several instruction sets) is nobody's.
cd "$1" || exit 1 # whose path may have blanks, by which awk parts words
find sim real -name '*.a' -exec nm -A {} + 2>/dev/null >"$arrows".names
awk 'NF < 3 { next }
  { object = $1; sub(/:[0-9a-f]*$/, "", object); sub(/.*\/lib/, "lib", object); name = $NF; kind = $(NF - 1) }
  kind == "U" { callers[name] = callers[name] " " object }
  kind ~ /^[TDBRV]$/ { owner[name] = owner[name] == "" ? object : "many" }
  END {
    for (name in callers) {
      n = split(callers[name], who, " ")
      for (i = 1; i <= n; i++)
        if (owner[name] != "" && owner[name] != "many" && owner[name] != who[i])
          print who[i], owner[name]
    }
  }' "$arrows".names | sort -u >"$arrows"

echo 1..3
n=$(wc -l <"$arrows")
if [ "$n" -gt 1000 ]; then echo "ok 1 - calls are found"; else echo "not ok 1 - calls are found: $n"; fi

if tsort "$arrows" >/dev/null 2>"$arrows".loops; then
  echo "ok 2 - no file is called by what it calls"
else
  echo "not ok 2 - no file is called by what it calls"
  sed 's/^/# /' "$arrows".loops
fi

awk 'NR == 1 { print $2, $1 } { print }' "$arrows" >"$arrows".names
if tsort "$arrows".names >/dev/null 2>&1; then echo "not ok 3 - a loop is found"; else echo "ok 3 - a loop is found"; fi
