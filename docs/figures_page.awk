# Fills in docs/figures.md.in: see figures.sh. Its lines that are replaced:
#
#     {{table VERDICT PREFIX}}       the rows of the table with that verdict whose id begins with PREFIX
#     {{until WORD: ARGUMENTS}}      what `stepsim ARGUMENTS` prints, up to the first line that begins with WORD
#     {{all: ARGUMENTS}}             all that it prints
#     {{shares TITLE: ARGUMENTS}}    MFU and the step's parts in percent, as one line of a table
#     {{updates TITLE: ARGUMENTS}}   step, update and wait for copies, in seconds, likewise as one line of a table
#
# A TITLE holds no ": ".
# Variables: stepsim, table_file.

function print_table(verdict, prefix,   row, right) {
  right = verdict == "erratum"
  print "| | figure | stated | " (right ? "right | " : "") "stepsim prints | where | stepsim … |"
  print "| --- | --- | ---: | " (right ? "---: | " : "") "---: | --- | --- |"
  for (row = 1; row <= n_rows; row++)
    if (rows[row, "verdict"] == verdict && index(rows[row, "id"], prefix) == 1)
      print_row(row, right)
}

function print_row(row, right,   value) {
  value = row_value(rows[row, "arguments"], rows[row, "value"])
  if (value == "" || row_status(rows[row, "arguments"]) > 1)
    fail(rows[row, "id"] " has no value: stepsim " rows[row, "arguments"])
  printf "| %s (%s) | %s | %s | ", rows[row, "id"], rows[row, "document"], \
    with_note(rows[row, "figure"], rows[row, "note"]), rows[row, "stated"]
  if (right)
    printf "%s | ", with_unit(rows[row, "expected"], rows[row, "unit"])
  printf "%s | `%s` | %s |\n", with_unit(number_text(value), rows[row, "unit"]), rows[row, "value"], \
    commands_text(rows[row, "arguments"])
}

function with_unit(number, unit) {
  return unit == "" ? number : number " " unit
}

# Six digits, whole numbers in full.
function number_text(value) {
  return value == int(value) && value < 1e8 ? sprintf("%d", value) : sprintf("%.6g", value)
}

function with_note(text, note) {
  return note == "" ? text : text "<br>*" note "*"
}

function commands_text(arguments) {
  gsub(/ ; /, "`<br>`", arguments)
  return "`" arguments "`"
}

function print_until(word, arguments,   lines, n, i, text) {
  text = run(arguments)
  if (row_status(arguments) > 1)
    fail("stepsim " arguments ": " text)
  n = split(text, lines, "\n")
  for (i = 1; word != "" && i <= n; i++)
    if (index(lines[i], word) == 1)
      n = i - 1
  while (n > 0 && lines[n] == "")
    n--
  print "```"
  print "$ stepsim " arguments
  for (i = 1; i <= n; i++)
    print lines[i]
  print "```"
}

function part_percent(arguments, part) {
  return 100 * number_in(run(arguments), "breakdown_s>\"" part "\"") / number_in(run(arguments), "step_time_s")
}

function print_shares(title, options,   arguments, mfu, compute) {
  arguments = options " --json"
  mfu = 100 * number_in(run(arguments), "mfu")
  if (row_status(arguments) > 1)
    fail("stepsim " arguments ": " run(arguments))
  compute = part_percent(arguments, "compute")
  printf "| %s | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | `%s` |\n", title, mfu, 100 * mfu / compute, compute, \
    part_percent(arguments, "tp"), part_percent(arguments, "pp"), part_percent(arguments, "dp"), \
    part_percent(arguments, "bubble"), differing(options)
}

function print_updates(title, options,   arguments, text) {
  arguments = options " --json"
  text = run(arguments)
  if (row_status(arguments) > 1)
    fail("stepsim " arguments ": " text)
  printf "| %s | %.2f | %.0f | %.2f | %.2f |\n", title, number_in(text, "step_time_s"), \
    number_in(text, "tokens_per_s_per_gpu"), number_in(text, "breakdown_s>\"optimizer\""), \
    number_in(text, "breakdown_s>\"offload\"")
}

# The options that stand after the last "--" of those all runs share.
function differing(options) {
  sub(/^.*--sequence-parallel on /, "", options)
  return options
}

function fail(message) {
  print "figures.sh: " message | "cat >&2"
  close("cat >&2")
  failed = 1
  exit 1
}

BEGIN {
  n_rows = csv_read(table_file, rows)
  if (n_rows < 1)
    fail(table_file " has no rows")
}

/^\{\{table / {
  gsub(/[{}]/, "")
  print_table($2, $3)
  next
}

/^\{\{(until|all|shares|updates)/ {
  sub(/^\{\{/, "")
  sub(/\}\}$/, "")
  arguments = substr($0, index($0, ": ") + 2)
  subject = substr($0, index($0, " ") + 1, index($0, ": ") - index($0, " ") - 1)
  if ($0 ~ /^shares/)
    print_shares(subject, arguments)
  else if ($0 ~ /^updates/)
    print_updates(subject, arguments)
  else
    print_until($0 ~ /^all/ ? "" : subject, arguments)
  next
}

{ print }
