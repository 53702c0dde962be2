#!/bin/sh
# test_figures.sh STEPSIM: every figure of tests/data/figures.csv comes out of the command that its row names (TAP).
# With $STEPSIM_SHARED/reference/seed_figures.csv there, also: every figure which that file says holds has a row here,
# and what we expect is its `correct` value, to the digits it gives.
[ $# -eq 1 ] || { echo "usage: $0 STEPSIM" >&2; exit 2; }
here=$(dirname "$0")
LC_ALL=C exec awk -v stepsim="$1" -v table_file="$here/../data/figures.csv" \
  -v seed_file="${STEPSIM_SHARED:+$STEPSIM_SHARED/reference/seed_figures.csv}" \
  -f "$here/figures.awk" -f "$here/figures_check.awk"
