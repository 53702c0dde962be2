#!/bin/sh
# test_trace_sums.sh STEPSIM: what `stepsim trace` sums up of public recordings equals an independent count of the file
# to the microsecond (TAP). The recordings are not part of the source: $STEPSIM_SHARED/traces has them.
. "$(dirname "$0")/../fixtures/tap.sh"
stepsim=$1 count=$(dirname "$0")/count_trace.py
set -- "${STEPSIM_SHARED:-/nowhere}"/traces/*.json.gz
[ -e "$1" ] || { echo "1..0 # SKIP no traces in STEPSIM_SHARED"; exit; }
command -v python3 >/dev/null || { echo "1..0 # SKIP no python3"; exit; }
for file; do
  counted=$(python3 "$count" "$stepsim" "$file" 2>&1)
  result $? "$(basename "$file"): $(printf '%s\n' "$counted" | head -1)" "$counted"
done
finish
