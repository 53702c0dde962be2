#!/bin/sh
# figures.sh STEPSIM > docs/figures.md: docs/figures.md.in with its {{…}} lines replaced by what stepsim prints.
[ $# -eq 1 ] || { echo "usage: $0 STEPSIM" >&2; exit 2; }
here=$(dirname "$0")
tests=$here/../tests
LC_ALL=C exec awk -v stepsim="$1" -v table_file="$tests/data/figures.csv" -f "$tests/commands/figures.awk" \
  -f "$here/figures_page.awk" "$here/figures.md.in"
