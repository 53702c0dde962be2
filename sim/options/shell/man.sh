#!/bin/sh
# man.sh VERSION DATA FOLDER PROGRAM...: the man pages of programs and of each of their verbs, from what --help prints,
# into FOLDER, which is made anew. DATA: the folder of the installed data.
set -eu
version=$1 data=$2 folder=$3
shift 3
here=$(cd "$(dirname "$0")" && pwd)
export LC_ALL=C.UTF-8
rm -rf "$folder"
mkdir -p "$folder"
page() { # page, what it is about, pages to see; --help on standard input
  awk -v program="$name" -v name="$1" -v version="$version" -v about="$2" -v data="$data" -v see="$3" \
    -f "$here/man.awk" >"$folder/$1.1"
}
for program; do
  name=$(basename "$program")
  whole=$("$program" --help)
  pages=
  for verb in $(printf '%s\n' "$whole" | awk '/^  [a-z]/ { print $1 }'); do
    "$program" "$verb" --help | page "$name-$verb" "$(printf '%s\n' "$whole" | sed -n "s/^  $verb  *//p")" "$name"
    pages="$pages $name-$verb"
  done
  for other; do
    [ "$other" = "$program" ] || pages="$pages $(basename "$other")"
  done
  printf '%s\n' "$whole" | page "$name" "$(printf '%s\n' "$whole" | sed -n 3p)" "$pages"
done
