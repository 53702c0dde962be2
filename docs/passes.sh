#!/bin/sh
# passes.sh STEPSIM [FILE]: errors of predicted forward and backward passes, without the optimizer, against published
# times, beside another simulator's errors, as a Markdown table. FILE (default: measurements/passes.csv) has one
# measurement per row, of models like GPT-2.
export LC_ALL=C # decimal points in awk's numbers
[ $# -ge 1 ] || { echo "usage: $0 STEPSIM [FILE]" >&2; exit 2; }
stepsim=$1
file=${2:-$(cd "$(dirname "$0")/../measurements" && pwd)/passes.csv}
[ -r "$file" ] || { echo "$0: cannot read $file" >&2; exit 2; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# A row's model and plan options, from the columns of these names; a row names its framework's file
awk -F, -v work="$work" '
  NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
  function cell(name) { return $(at[name]) }
  { model = work "/" NR ".json"
    printf "{\"model_type\": \"gpt2\", \"n_layer\": %s, \"n_embd\": %s, \"n_head\": %s, \"vocab_size\": %s, \"n_positions\": %s, ",
      cell("layers"), cell("hidden"), cell("heads"), cell("vocab"), cell("seq_len") >model
    print "\"attn_pdrop\": 0.1, \"embd_pdrop\": 0.1, \"resid_pdrop\": 0.1}" >model
    close(model)
    printf "%s|%s|%s|%s|%s|%s|--model %s", cell("model_name"), cell("cluster"), cell("global_batch"), cell("time_ms"),
      cell("peer"), cell("peer_ms"), model
    n = split("seq_len cluster gpus tp pp dp micro_batch global_batch precision attention framework", options, " ")
    for (i = 1; i <= n; i++) { option = options[i]; gsub(/_/, "-", option); printf " --%s %s", option, cell(options[i]) }
    print ".yaml" }' "$file" >"$work/runs"

while IFS='|' read -r model cluster batch measured peer peer_ms options; do
  # shellcheck disable=SC2086 # options are many words
  "$stepsim" simulate $options --json >"$work/json" || exit 1
  awk -F'[ :,]+' -v row="$model|$cluster|$batch|$measured|$peer|$peer_ms|$options" '
    /"step_time_s"/ { step = $3 } /"optimizer"/ { optimizer = $3 }
    END { printf "%s|%.6f\n", row, 1e3 * (step - optimizer) }' "$work/json"
done <"$work/runs" >"$work/all" || exit 1

awk -F'|' '
  BEGIN { print "| model | 4 GPUs of | plan | sequences | measured (ms) | stepsim (ms) | error % | other simulator | its error % |"
    print "| --- | --- | --- | ---: | ---: | ---: | ---: | --- | ---: |" }
  function size(axis) { match($7, "--" axis " [0-9]+"); return substr($7, RSTART + 5, RLENGTH - 5) + 0 }
  { plan = size("tp") > 1 ? "tp " size("tp") : size("pp") > 1 ? "pp " size("pp") : "dp " size("dp")
    ours = $8 / $4 - 1; theirs = $6 / $4 - 1
    printf "| %s | %s | %s | %s | %s | %.1f | %+.1f | %s | %+.1f |\n", $1, $2, plan, $3, $4, $8, 100 * ours, $5, 100 * theirs
    sum += ours < 0 ? -ours : ours; peer_sum += theirs < 0 ? -theirs : theirs; peer = $5 }
  END { printf "| mean of absolute errors | | | | | | %.1f | %s | %.1f |\n", 100 * sum / NR, peer, 100 * peer_sum / NR }
' "$work/all"
