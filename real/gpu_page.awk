# The page of a GPU's measurements, from the files beside it (validate-gpu.sh): facts.csv (name, value), rows.csv (steps,
# with a header), checks.csv (part, check, verdict, seconds, what was said) and crosscheck.csv (what, shape, us by
# stepreal, by whom else, us by it). No cell has a comma or quotes.
# usage: awk -f gpu_page.awk facts.csv rows.csv checks.csv crosscheck.csv
BEGIN { FS = "," }
function file_is(name) { return FILENAME == name || FILENAME ~ "/" name "$" }
file_is("facts.csv") { n_facts++; fact_name[n_facts] = $1; fact[$1] = substr($0, length($1) + 2); next }
file_is("rows.csv") && !n_columns { n_columns = split($0, header); for (i in header) column[header[i]] = i; next }
file_is("rows.csv") {
  n_rows++
  for (name in column) row[n_rows, name] = $column[name]
  if (index(builds " ", " " row[n_rows, "build"] " ") == 0) builds = builds " " row[n_rows, "build"]
  next
}
file_is("checks.csv") { n_checks++; check[n_checks] = $0; next }
file_is("crosscheck.csv") {
  key = $1 "," $4
  if (!(key in n_compared)) compared[++n_kinds] = key
  n_compared[key]++
  ours_us[key, n_compared[key]] = $3; theirs_us[key, n_compared[key]] = $5; shape[key, n_compared[key]] = $2
}

function ms(seconds) { return seconds > 0 ? sprintf("%.2f", 1e3 * seconds) : "–" }
function absolute(x) { return x < 0 ? -x : x }
# of a row in percent; "" without both times
function error_of(r) {
  if (!(row[r, "step_time_s"] > 0 && row[r, "predicted_step_time_s"] > 0)) return ""
  return 100 * (row[r, "predicted_step_time_s"] / row[r, "step_time_s"] - 1)
}

# Steps of one kind and their errors, which no other kind's are mixed with
function steps_table(kind,   r, e, n, sum, worst, worst_name, n_missing, products) {
  print "| model | layers | hidden | tokens | micro-batch | format | predicted (ms) | measured (ms) | error | least … most (ms) | MFU | clock (MHz) | products timed / near such / modelled | late ops | attention |"
  print "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
  for (r = 1; r <= n_rows; r++) {
    if (row[r, "kind"] != kind) continue
    e = error_of(r)
    if (e == "") n_missing++
    else {
      n++; sum += absolute(e)
      if (n == 1 || absolute(e) > absolute(worst)) { worst = e; worst_name = row[r, "name"] }
    }
    products = row[r, "measured_products"] == "" ? "–" : row[r, "measured_products"] " / " row[r, "interpolated_products"] " / " row[r, "modelled_products"]
    printf("| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s … %s | %s | %s | %s | %s | %s |\n", row[r, "model_name"],
      row[r, "layers"], row[r, "hidden"], row[r, "seq_len"], row[r, "micro_batch"], row[r, "precision"],
      ms(row[r, "predicted_step_time_s"]), ms(row[r, "step_time_s"]), e == "" ? "–" : sprintf("%+.1f %%", e),
      ms(row[r, "least_step_s"]), ms(row[r, "most_step_s"]), row[r, "mfu"] > 0 ? sprintf("%.1f %%", 100 * row[r, "mfu"]) : "–",
      row[r, "clock_MHz"], products, row[r, "late_ops"] == "" ? "–" : row[r, "late_ops"] " of " row[r, "ops"],
      row[r, "attention_backend"] == "" ? "–" : row[r, "attention_backend"])
  }
  print ""
  if (n) printf("%d %s step%s: mean error %.1f %%, worst %+.1f %% (%s)", n, kind, n > 1 ? "s" : "", sum / n, worst, worst_name)
  else printf "No %s step was both predicted and measured", kind
  printf "%s.\n", n_missing ? "; " n_missing " without one of the two times" : ""
}

# Median of the n ratios of a comparison, sorted by insertion
function comparison(key,   i, j, n, ratio, sorted, worst, worst_shape, parts) {
  n = 0
  for (i = 1; i <= n_compared[key]; i++) {
    if (!(ours_us[key, i] > 0 && theirs_us[key, i] > 0)) continue
    ratio = ours_us[key, i] / theirs_us[key, i]
    if (n == 0 || absolute(log(ratio)) > absolute(log(worst))) { worst = ratio; worst_shape = shape[key, i] }
    for (j = ++n; j > 1 && sorted[j - 1] > ratio; j--) sorted[j] = sorted[j - 1]
    sorted[j] = ratio
  }
  split(key, parts)
  if (n) printf "| %s | %s | %d | %.3f | %.2f | %s |\n", parts[1], parts[2], n, (sorted[int((n + 1) / 2)] + sorted[int(n / 2) + 1]) / 2, worst, worst_shape
}

END {
  print "# " fact["GPU"] ": measured by stepreal, predicted by stepsim"
  print ""
  print "Written by real/validate-gpu.sh from the files beside it. `" fact["cluster file"] "`, which names the GPU file, is what"
  print "`stepreal calibrate` measured; `PARTS=page` predicts from it again, without a GPU."
  print ""
  print "| | |"
  print "| --- | --- |"
  for (i = 1; i <= n_facts; i++) print "| " fact_name[i] " | " fact[fact_name[i]] " |"
  print ""
  print "## Steps"
  print ""
  print "One GPU and one rank (`stepreal run --comm null`, recipe megatron, " (n_rows ? row[1, "global_batch"] : 4) " sequences a step): the median step after"
  print "a first one, beside `stepsim simulate` with the calibrated file. Late ops: those the host had not issued in time,"
  print "so that they contain a launch. MFU: of the format's peak." (n_rows ? " Checksum of the stepreal that ran:" builds "." : "")
  print ""
  print "### Calibrated: all their products were timed by the calibration"
  print ""
  steps_table("calibrated")
  print ""
  print "### Held out: none of their products was"
  print ""
  steps_table("held-out")
  print ""
  print "## Checks"
  print ""
  print "| part | check | verdict | seconds | what was found |"
  print "| --- | --- | --- | --- | --- |"
  for (i = 1; i <= n_checks; i++) {
    split(check[i], cell)
    print "| " cell[1] " | " cell[2] " | " cell[3] " | " cell[4] " | " cell[5] " |"
  }
  print ""
  print "## Kernels beside other programs' times of them"
  print ""
  if (n_kinds) {
    print "| what | by | compared | stepreal / theirs, median | worst | of |"
    print "| --- | --- | --- | --- | --- | --- |"
    for (i = 1; i <= n_kinds; i++) comparison(compared[i])
    print ""
    print "\"step of a framework\": what stepsim predicts of it / what it takes."
  } else print "None was compared."
}
