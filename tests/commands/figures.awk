# Figures: reading the table, running its commands, taking a number out of what they print.
#
# A row of tests/data/figures.csv has `arguments` (commands of stepsim, separated by " ; ") and `value`, which says
# where the number stands:
#
#     value     term, or term OP term OP … with OP one of + - * /, worked off from left to right
#     term      a number, or LABEL>LABEL…#K@C: in what command C prints (default 1), find the first label, after it
#               the next …; the K-th number (default 1) after the last label
#
# A label is plain text: a JSON key, or the words before a number. Needs the variable `stepsim`.

# Fields of one CSV line; fields in double quotes may hold commas and doubled quotes.
function csv_split(line, fields,   n, text, c, quoted, i) {
  split("", fields)
  sub(/\r$/, "", line)
  n = 1
  text = ""
  for (i = 1; i <= length(line); i++) {
    c = substr(line, i, 1)
    if (c == "\"" && quoted && substr(line, i + 1, 1) == "\"") {
      text = text c
      i++
    } else if (c == "\"")
      quoted = !quoted
    else if (c == "," && !quoted) {
      fields[n++] = text
      text = ""
    } else
      text = text c
  }
  fields[n] = text
  return n
}

# Fill table[row, column] from `file`; comment lines start with #. Returns the number of rows.
function csv_read(file, table,   line, names, fields, n, rows, i) {
  rows = -1
  while ((getline line < file) > 0) {
    if (line ~ /^#/ || line == "")
      continue
    if (rows++ < 0) {
      n = csv_split(line, names)
      continue
    }
    if (csv_split(line, fields) != n)
      table[rows, "broken"] = line
    for (i = 1; i <= n; i++)
      table[rows, names[i]] = fields[i]
  }
  close(file)
  return rows
}

# What a command prints, standard error included; run once. `statuses[arguments]` is its exit status.
function run(arguments,   command, line, text) {
  if (arguments in outputs)
    return outputs[arguments]
  command = "{ " stepsim " " arguments "; } 2>&1; echo \"status $?\""
  while ((command | getline line) > 0)
    text = text line "\n"
  close(command)
  match(text, /status [0-9]+\n$/)
  statuses[arguments] = substr(text, RSTART + 7) + 0
  return outputs[arguments] = substr(text, 1, RSTART - 1)
}

# A number, and the two letters behind it: "15T," are 15e12, "5 TB" stay 5.
function times(number, behind) {
  if (behind !~ /^[kMBT]([^A-Za-z]|$)/)
    return number + 0
  return sprintf("%.12g", number * 1000 ^ index("kMBT", substr(behind, 1, 1))) + 0
}

# "" when the label or the number is not there.
function number_in(text, place,   k, labels, n, i, at) {
  k = 1
  if (match(place, /#[0-9]+$/)) {
    k = substr(place, RSTART + 1) + 0
    place = substr(place, 1, RSTART - 1)
  }
  n = split(place, labels, ">")
  for (i = 1; i <= n; i++) {
    at = index(text, labels[i])
    if (at == 0)
      return ""
    text = substr(text, at + length(labels[i]))
  }
  while (match(text, /-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?/)) {
    if (--k == 0)
      return times(substr(text, RSTART, RLENGTH), substr(text, RSTART + RLENGTH, 2))
    text = substr(text, RSTART + RLENGTH)
  }
  return ""
}

function term_value(term, commands,   which) {
  if (term ~ /^[0-9.]+(e[0-9]+)?$/)
    return term + 0
  which = 1
  if (match(term, /@[0-9]+$/)) {
    which = substr(term, RSTART + 1) + 0
    term = substr(term, 1, RSTART - 1)
  }
  return number_in(run(commands[which]), term)
}

function apply(operator, a, b) {
  return operator == "+" ? a + b : operator == "-" ? a - b : operator == "*" ? a * b : a / b
}

# The number of a row of the table; "" when some term has none or divides by zero.
function row_value(arguments, value,   commands, words, n, i, operator, term, number, result) {
  split(arguments, commands, " ; ")
  n = split(value, words, / /)
  operator = "+"
  result = 0
  term = ""
  for (i = 1; i <= n + 1; i++) {
    if (i <= n && words[i] !~ /^[-+*\/]$/) {
      term = term (term == "" ? "" : " ") words[i]
      continue
    }
    number = term_value(term, commands)
    if (number == "" || (operator == "/" && number == 0))
      return ""
    result = apply(operator, result, number)
    operator = words[i]
    term = ""
  }
  return result
}

# The worst exit status of a row's commands: 0, or 1 for "does not fit", are answers.
function row_status(arguments,   commands, n, i, worst) {
  n = split(arguments, commands, " ; ")
  worst = 0
  for (i = 1; i <= n; i++) {
    run(commands[i])
    if (statuses[commands[i]] > worst)
      worst = statuses[commands[i]]
  }
  return worst
}

function is_near(value, expected, tolerance,   difference) {
  difference = value - expected
  return (difference < 0 ? -difference : difference) <= tolerance * (expected < 0 ? -expected : expected)
}
