#!/bin/sh
# fill.sh STEPSIM PAGE [GROUP...]: prints PAGE with what its commands print now. A page of docs/ holds, for each table
# that a command makes, the command, what it printed, and an end:
#
#     <!-- $ stepsim validate measurements/published.csv --markdown - -->
#
#     | source | rows | …
#
#     <!-- end -->
#
# Commands are run by sh in the folder above docs, with STEPSIM's folder in front of PATH. With $$ instead of $ the
# command and what it prints are shown as code. `<!-- GROUP $ … -->` is left as it stands unless GROUP is asked for: what
# takes minutes, measures a machine or reads files that are elsewhere.
[ $# -ge 2 ] || { echo "usage: $0 STEPSIM PAGE [GROUP...]" >&2; exit 2; }
PATH=$(cd "$(dirname "$1")" && pwd):$PATH
export PATH LC_ALL=C # decimal points in awk's numbers
unset COLUMNS        # width of drawings
page=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
shift 2
cd "$(dirname "$page")/.." || exit 1
exec awk -v groups=" $* " '
  /^<!-- ([a-z]+ )?\$\$? .* -->$/ {
    print
    is_code = match($0, /\$\$ /)
    if (substr($2, 1, 1) != "$" && index(groups, " " $2 " ") == 0)
      next
    command = substr($0, index($0, "$ ") + 2)
    sub(/ -->$/, "", command)
    print is_code ? "\n```\n$ " command : ""
    while ((command | getline line) > 0)
      print line
    if (close(command) != 0) {
      print FILENAME ": failed: " command | "cat >&2"
      exit 1
    }
    print is_code ? "```\n" : ""
    in_block = 1
  }
  /^<!-- end -->$/ { in_block = 0 }
  !in_block { print }' "$page"
