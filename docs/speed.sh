#!/bin/sh
# speed.sh BUILD: prints docs/speed.md, how long stepsim takes for tasks that other simulators were timed with, and for
# the rows of sweeps. speed.txt has the tasks and the others' times, kinds.txt the sweeps; BUILD is a build folder. Times
# are of one core.
export LC_ALL=C # decimal points in awk's numbers
[ $# -eq 1 ] && [ -x "$1/sim/stepsim" ] || { echo "usage: $0 BUILD (a build folder with sim/stepsim)" >&2; exit 2; }
build=$1
tasks=$(dirname "$0")/speed.txt
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# User and system time of the command, in seconds; the least of three runs if below ten. Output: $work/out. A sweep of
# plans that do not fit, which run all the same, exits with 1.
cpu_seconds() { # command
  for run in 1 2 3; do
    (cd "$build" && { $1 >"$work/out" || [ $? -eq 1 ]; } && times) | awk 'NR == 2 { for (i = 1; i <= 2; i++) { split($i, t, /[ms]/)
        sum += 60 * t[1] + t[2] } print sum }' >>"$work/runs" || exit 1
    [ "$(awk 'END { print ($1 < 10) }' "$work/runs")" = 1 ] || break
  done
  sort -g "$work/runs" | head -n 1
  rm "$work/runs"
}

# Each command once: number|processor time|command; its output is in $work/NUMBER
grep -v '^#' "$tasks" | cut -d'|' -f5 | sort -u >"$work/commands"
while read -r command; do
  n=$((n + 1))
  seconds=$(cpu_seconds "$command" </dev/null) || exit 1
  cp "$work/out" "$work/$n"
  echo "$n|$seconds|$command"
done <"$work/commands" >"$work/times" || exit 1

grep -v '^#' "$tasks" | awk -F'|' -v work="$work" '
  BEGIN { while ((getline line < (work "/times")) > 0) { split(line, cell, "|"); number[cell[3]] = cell[1]; cpu[cell[3]] = cell[2] } }
  # seconds of the row, from the first line that has the pattern
  function seconds(command, how,   kind, pattern, line) {
    if (how == "cpu") return cpu[command]
    kind = how; sub(/.* /, "", kind); pattern = substr(how, 1, length(how) - length(kind) - 1)
    while ((getline line < (work "/" number[command])) > 0)
      if (index(line, pattern) > 0) {
        close(work "/" number[command])
        if (kind == "ms") { sub(/ ms.*/, "", line); sub(/.* /, "", line); return line / 1e3 }
        sub(/.*, in numbers +/, "", line); sub(/\/s.*/, "", line); return 1 / line
      }
    print "no line with " pattern " from " command | "cat >&2"
    exit 1
  }
  function grouped(x,   text) {
    text = sprintf("%.0f", x)
    return length(text) > 3 ? substr(text, 1, length(text) - 3) "," substr(text, length(text) - 2) : text
  }
  function told(s) { return s >= 1000 ? grouped(s) " s" : s < 1e-3 ? sprintf("%.0f us", 1e6 * s) : s < 1 ? sprintf("%.3g ms", 1e3 * s) : sprintf("%.3g s", s) }
  # two significant digits: the times have no more, and machines differ
  function times_as(x,   unit) {
    if (x < 9.95) return sprintf("%.1f", x)
    for (unit = 1; x / unit >= 99.5; unit *= 10) ;
    return grouped(unit * sprintf("%.0f", x / unit))
  }
  # seconds, a range or a bound of them; if here > 0 as a multiple of here, i.e. how many times as fast stepsim is
  function theirs(text, here,   sign, ends, n) {
    sign = text ~ /^[<>]/ ? substr(text, 1, 1) " " : ""
    sub(/^[<>]/, "", text)
    n = split(text, ends, "-")
    return sign (here > 0 ? times_as(ends[1] / here) : told(ends[1])) \
      (n < 2 ? "" : " to " (here > 0 ? times_as(ends[2] / here) : told(ends[2])))
  }
  { here = seconds($5, $6); short = $5; sub(/.*\//, "", short)
    printf "| %s | %s | %s | %s | %s | %s | `%s` |\n", $1, $2, theirs($3, 0), $4, told(here), theirs($3, here), short }
' >"$work/table" || exit 1
# Sweeps, whole: rows that ran, events in each, processor time
grep -v '^#' "$(dirname "$0")/kinds.txt" | while IFS='|' read -r name options; do
  rm -f "$work/runs"
  seconds=$(cpu_seconds "sim/stepsim sweep $options --prune off --jobs 1 --csv -" </dev/null) || exit 1
  python3 -c 'import csv, sys
name, seconds, events = sys.argv[1], float(sys.argv[2]), []
for row in csv.DictReader(open(sys.argv[3])):
  events += [int(row["engine_events"])] if row["engine_events"] else []
n = len(events)
print(f"| {name} | {n:,} | {sum(events) / n:,.0f} | {n / seconds:,.0f} | {sum(events) / seconds / 1e6:.1f} |")
  ' "$name" "$seconds" "$work/out" || exit 1
done >"$work/kinds" || exit 1
processor=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)
cat <<END
# How fast it is

Tasks for which times of other simulators are known; \`make speed\` regenerates this page from [speed.txt](speed.txt).
stepsim: one core of $(nproc) ($processor), processor time, $(date -u +%F). Others: M, measured for this table on one
core of a 2-core machine in 2026, medians; P, published by its authors, on their machine; O, published by others who ran
it, on theirs. For P and O the machines differ, so *times as fast* gives only the order of magnitude; it has two digits
everywhere. It is a bound (<, >) where the other's time is one. If the other simulator treats every rank, message or
order separately, so does stepsim here; against formulas stepsim still simulates events.

| task | simulator | its time | says who | stepsim | times as fast | command |
| --- | --- | ---: | --- | ---: | ---: | --- |
$(cat "$work/table")

## Rows of sweeps

Each line is one sweep, whole, of plans that differ in the length of their sequences and a few other options, with
\`--prune off --jobs 1\` ([kinds.txt](kinds.txt)). Of events, those left out at the steady state count too.

| kind of plan | rows | events in a row | rows a second | million events a second |
| --- | ---: | ---: | ---: | ---: |
$(cat "$work/kinds")

## What is left out

Ranks of a symmetric plan need not be simulated separately: folded (the default), the step of 1,024 ranks takes a
thousandth of the time, with the same result to the nanosecond. Sweeps stop simulating a long pipeline's micro-batches
[at the steady state](../sim/predict/steady.h), and the ring all-reduce, folded, takes 0.1 ms. \`make bench\` prints
more: predictions, events and messages per second.
END
