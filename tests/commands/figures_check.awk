# The figures test: see test_figures.sh. Variables: stepsim, table_file, seed_file ("" = none).

function report(passed, name) {
  print (passed ? "ok " : "not ok ") ++n_tests " - " name
  n_failed += !passed
}

function check_row(row,   value, status, name, passed) {
  name = rows[row, "id"] " " rows[row, "figure"]
  if ((row, "broken") in rows) {
    report(0, name)
    print "# this line has not as many fields as the first: " rows[row, "broken"]
    return
  }
  value = row_value(rows[row, "arguments"], rows[row, "value"])
  status = row_status(rows[row, "arguments"])
  passed = status <= 1 && value != "" && rows[row, "expected"] != "" && \
    is_near(value, rows[row, "expected"], rows[row, "tolerance"])
  report(passed, name)
  if (!passed)
    printf "# stepsim %s\n# exit status %d; %s: %s, expected %s within %s of it\n", rows[row, "arguments"], status, \
      rows[row, "value"], value == "" ? "not found" : sprintf("%.9g", value), rows[row, "expected"], \
      rows[row, "tolerance"]
}

# Half a unit of the last digit written: "1.08e8" → 0.005e8; a whole number is exact.
function rounding(text,   exponent, decimals) {
  if (text ~ /^[0-9]+$/)
    return 0
  exponent = 0
  if (match(text, /[eE][-+]?[0-9]+$/)) {
    exponent = substr(text, RSTART + 1) + 0
    text = substr(text, 1, RSTART - 1)
  }
  decimals = index(text, ".") ? length(text) - index(text, ".") : 0
  return 0.5 * 10 ^ (exponent - decimals)
}

# Some row of `id` expects `text`; the share is for what binary fractions add.
function is_expected(id, text,   row, difference) {
  for (row = 1; row <= n_rows; row++) {
    difference = rows[row, "expected"] - text
    if (difference < 0)
      difference = -difference
    if (rows[row, "id"] == id && difference <= rounding(text) * 1.000001)
      return 1
  }
  return 0
}

# Rows that hold must be covered; others, where we have rows, must agree.
function check_seed(row,   id, parts, n, i, passed, covered, own) {
  id = seed[row, "id"]
  covered = 0
  passed = 1
  for (own = 1; own <= n_rows; own++)
    if (rows[own, "id"] == id) {
      covered = 1
      if (rows[own, "verdict"] != seed[row, "verdict"]) {
        passed = 0
        print "# " id ": \"" rows[own, "verdict"] "\" here, \"" seed[row, "verdict"] "\" in the reference"
      }
    }
  if (seed[row, "verdict"] == "holds")
    n_holds++
  else if (!covered)
    return
  n = split(seed[row, "correct"], parts, "/")
  for (i = 1; i <= n; i++)
    if (!is_expected(id, parts[i])) {
      passed = 0
      print "# " id ": no row here expects " parts[i]
    }
  report(passed && covered && n > 0, id " is covered and agrees with the reference")
}

BEGIN {
  n_rows = csv_read(table_file, rows)
  for (row = 1; row <= n_rows; row++)
    check_row(row)
  n_seed = seed_file == "" ? -1 : csv_read(seed_file, seed)
  if (n_seed < 0)
    print "ok " ++n_tests " - agreement with the reference # SKIP no reference figures here"
  for (row = 1; row <= n_seed; row++)
    check_seed(row)
  if (n_rows < 1)
    report(0, table_file " has rows")
  if (n_seed >= 0 && n_holds < 1)
    report(0, seed_file " has rows that hold")
  print "1.." n_tests
  exit n_failed > 0
}
