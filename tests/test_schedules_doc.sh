#!/bin/sh
# test_schedules_doc.sh STEPSIM: docs/schedules.md says what its commands print now, and each of its pictures is there.
docs=$(dirname "$0")/../docs
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
"$docs/schedules.sh" "$1" --text > "$work/schedules.md"
if cmp -s "$work/schedules.md" "$docs/schedules.md"; then
  echo 'ok 1 - docs/schedules.md is current'
else
  echo 'not ok 1 - docs/schedules.md is current: make schedules writes it'
  diff "$docs/schedules.md" "$work/schedules.md" | sed 's/^/# /'
fi
missing=$(sed -n 's/^!\[.*\](\(.*\))$/\1/p' "$docs/schedules.md" | while read -r picture; do
  [ -s "$docs/$picture" ] || echo "$picture"
done)
if [ -z "$missing" ] && grep -q '^!\[' "$docs/schedules.md"; then
  echo 'ok 2 - its pictures are there'
else
  echo 'not ok 2 - its pictures are there'
  echo "# missing: $missing"
fi
echo 1..2
