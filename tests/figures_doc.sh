#!/bin/sh
# figures_doc.sh STEPSIM > docs/figures.md: docs/figures.md.in with its {{…}} lines replaced by what stepsim prints.
[ $# -eq 1 ] || { echo "usage: $0 STEPSIM" >&2; exit 2; }
here=$(dirname "$0")
LC_ALL=C exec awk -v stepsim="$1" -v table_file="$here/data/figures.csv" -f "$here/figures.awk" \
  -f "$here/figures_doc.awk" "$here/../docs/figures.md.in"
