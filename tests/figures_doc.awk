# Lines of the document that are replaced:
#
#     {{table VERDICT PREFIX}}       the rows of the table with that verdict whose id begins with PREFIX
#     {{until WORD: ARGUMENTS}}      what `stepsim ARGUMENTS` prints, up to the first line that begins with WORD
#     {{all: ARGUMENTS}}             all that it prints
#     {{shares TITLE: ARGUMENTS}}    MFU and the step's parts in percent, as one line of a table
# Variables: stepsim, table_file.

function print_table(verdict, prefix,   row, value) {
  print "| | figure | document | stepsim | expected | command |"
  print "| --- | --- | ---: | ---: | ---: | --- |"
  for (row = 1; row <= n_rows; row++) {
    if (rows[row, "verdict"] != verdict || index(rows[row, "id"], prefix) != 1)
      continue
    value = row_value(rows[row, "arguments"], rows[row, "value"])
    if (value == "" || row_status(rows[row, "arguments"]) > 1)
      fail(rows[row, "id"] " has no value")
    printf "| %s | %s | %s | %.6g %s | %s | %s |\n", rows[row, "id"], with_note(rows[row, "figure"], rows[row, "note"]), \
      rows[row, "stated"], value, rows[row, "unit"], rows[row, "expected"], commands_text(rows[row, "arguments"])
  }
}

function with_note(text, note) {
  return note == "" ? text : text "<br>*" note "*"
}

function commands_text(arguments) {
  gsub(/ ; /, "`<br>`", arguments)
  return "`" arguments "`"
}

function print_command(arguments) {
  print "```"
  print "$ stepsim " arguments
}

function print_until(word, arguments,   lines, n, i) {
  print_command(arguments)
  n = split(run(arguments), lines, "\n")
  if (row_status(arguments) > 1)
    fail("stepsim " arguments ": " outputs[arguments])
  while (n > 0 && lines[n] == "")
    n--
  for (i = 1; i <= n && !(word != "" && index(lines[i], word) == 1); i++)
    printf "%s%s", i > 1 ? "\n" : "", lines[i]
  print (i > n || lines[i - 1] != "" ? "\n" : "") "```"
}

function part_percent(arguments, part) {
  return 100 * number_in(run(arguments), "breakdown_s>\"" part "\"") / number_in(run(arguments), "step_time_s")
}

function print_shares(title, arguments,   text) {
  text = run(arguments " --json")
  if (row_status(arguments " --json") > 1)
    fail("stepsim " arguments ": " text)
  arguments = arguments " --json"
  printf "| %s | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f |\n", title, 100 * number_in(text, "mfu"), \
    part_percent(arguments, "compute"), part_percent(arguments, "tp"), part_percent(arguments, "pp"), \
    part_percent(arguments, "dp"), part_percent(arguments, "bubble")
}

function fail(message) {
  print "figures_doc: " message | "cat >&2"
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

/^\{\{(until|all|shares)/ {
  sub(/^\{\{/, "")
  sub(/\}\}$/, "")
  arguments = substr($0, index($0, ": ") + 2)
  subject = substr($0, index($0, " ") + 1, index($0, ": ") - index($0, " ") - 1)
  if ($0 ~ /^shares/)
    print_shares(subject, arguments)
  else
    print_until($0 ~ /^all/ ? "" : subject, arguments)
  next
}

{ print }
