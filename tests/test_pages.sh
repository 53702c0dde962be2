#!/bin/sh
# test_pages.sh STEPSIM: pages of docs that scripts write say what their commands print now, and each of their pictures is
# there.
docs=$(dirname "$0")/../docs
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
n=0
for page in schedules plots; do
  "$docs/$page.sh" "$1" --text > "$work/$page.md"
  n=$((n + 1))
  if cmp -s "$work/$page.md" "$docs/$page.md"; then
    echo "ok $n - docs/$page.md is current"
  else
    echo "not ok $n - docs/$page.md is current: make $page writes it"
    diff "$docs/$page.md" "$work/$page.md" | sed 's/^/# /'
  fi
  missing=$(sed -n 's/^!\[.*\](\(.*\))$/\1/p' "$docs/$page.md" | while read -r picture; do
    [ -s "$docs/$picture" ] || echo "$picture"
  done)
  n=$((n + 1))
  if [ -z "$missing" ] && grep -q '^!\[' "$docs/$page.md"; then
    echo "ok $n - pictures of docs/$page.md are there"
  else
    echo "not ok $n - pictures of docs/$page.md are there"
    echo "# missing: $missing"
  fi
done
echo "1..$n"
