#!/bin/sh
# plots.sh STEPSIM FOLDER: draws the pictures of plots.md in FOLDER, each by the command that the page shows.
[ $# -eq 2 ] || { echo "usage: $0 STEPSIM FOLDER" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
PATH=$(cd "$(dirname "$1")" && pwd):$PATH
STEPSIM_DATA=$(dirname "$here")
export PATH STEPSIM_DATA
mkdir -p "$2" && cd "$2" || exit 1
cp "$here/plots-measured.csv" . || exit 1
sed -n 's/^    stepsim/stepsim/p' "$here/plots.md" | sh -e >/dev/null
status=$?
rm -f plots-measured.csv rows.csv
exit $status
