#!/bin/sh
# What validate-gpu.sh does on a GPU, on the CPU and with small sizes: calibrate, time steps, predict them, write the page.
# What crosscheck.py compares, with a PyTorch that computes nothing (TAP).
# usage: test_validate_steps.sh VALIDATE_GPU BUILD_FOLDER
[ $# -eq 2 ] || { echo "usage: $0 VALIDATE_GPU BUILD_FOLDER" >&2; exit 2; }
. "$(dirname "$0")/../fixtures/tap.sh"
script=$(absolute "$1")
build=$(absolute "$2")
scripts=$(dirname "$script")
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
export DEVICE=cpu TP=1
cp "$scripts/gpu_page.awk" "$scripts/crosscheck.py" . # for changed copies of the script

PARTS="calibration steps" sh "$script" "$build" out >log 2>&1
code=$?
page=$(echo out/measurements/*)
[ $code -eq 0 ] && grep -q '^[0-9]* steps are calibrated or held out, as they are said to be' log
result $? "all steps are timed and predicted, and are calibrated or held out as the script lists them" "status $code; $(cat log)"
sh "$script" --list | awk '$1 == "step" { print $2 "," $3 "-" $4 "-" $5 "-" $6 }' >listed
cut -d, -f 1,2 "$page/rows.csv" | sed 1d >timed
grep -v -e '-fp8$' listed >expected
grep -v -e '-fp8$' timed | cmp -s expected -
result $? "every step that is listed has its row" "$(diff listed timed)"
# the errors of a kind, computed anew from the rows
for kind in calibrated held-out; do
  expected=$(awk -F, -v kind=$kind '
    NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
    $1 == kind && $column["predicted_step_time_s"] > 0 { e = 100 * ($column["predicted_step_time_s"] / $column["step_time_s"] - 1); n++; sum += e < 0 ? -e : e
      if (n == 1 || e * e > worst * worst) { worst = e; name = $2 } }
    END { printf("%d %s steps: mean error %.1f %%, worst %+.1f %% (%s)", n, kind, sum / n, worst, name) }' "$page/rows.csv")
  grep -qF "$expected" "$page/README.md" && [ "$(grep -c "^[0-9]* $kind steps: mean error" "$page/README.md")" -eq 1 ]
  result $? "the mean and the worst error of $kind steps are those of their rows alone" "$expected; $(grep 'mean error' "$page/README.md")"
done
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
  $column["predicted_step_time_s"] == "" { next } # no peak rate in its format
  { timed = $column["measured_products"]; others = $column["interpolated_products"] + $column["modelled_products"] }
  $1 == "held-out" && !(timed == 0 && others > 0) || $1 == "calibrated" && !(timed > 0 && others == 0) { exit 1 }' "$page/rows.csv"
result $? "the calibration timed all products of calibrated steps, and none of held-out ones" "$(cat "$page/rows.csv")"

grep -q '^calibration,stepreal calibrate, ' "$page/facts.csv"
result $? "the page says what was calibrated" "$(cat "$page/facts.csv")"
# of the fastest product's rate, which no step exceeds
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
  { mfu = $column["mfu"] } ($column["predicted_step_time_s"] > 0) != (mfu > 0 && mfu < 1) { exit 1 } mfu > 0 { n++ } END { exit !n }' "$page/rows.csv"
result $? "steps that were predicted have an MFU" "$(cat "$page/rows.csv")"

# lists that are wrong
for change in "calibrated llama-8192 4096 1 bf16" "held-out llama-4096 4096 2 bf16"; do
  kind=${change%% *} other=held-out
  [ "$kind" = calibrated ] || other=calibrated
  sed "s/^$change /$other ${change#* } /" "$script" >other.sh
  PARTS=page sh other.sh "$build" out >log 2>&1
  code=$?
  [ $code -eq 1 ] && grep -q "^$(echo "${change#* }" | tr ' ' '-') is not $other: the calibration timed [0-9]* of its 15 products" log && ! cmp -s other.sh "$script"
  result $? "a $kind step that is listed as $other fails" "status $code; $(cat log)"
done

# predictions follow the calibration
column() { awk -F, -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) c = i; next } { print $c }' "$page/rows.csv"; }
PARTS=page sh "$script" "$build" out >log 2>&1
column predicted_step_time_s >predicted-before
column step_time_s >measured-before
name=$(basename "$page")
sed -i 's/, time: [0-9.e+-]* us}/, time: 5000 us}/' "$page/gpus/$name.yaml"
PARTS=page sh "$script" "$build" out >log 2>&1
column predicted_step_time_s | paste predicted-before - | awk 'NF == 2 { n++ } NF == 2 && !($2 > 1.5 * $1) { exit 1 } END { if (!n) exit 1 }' && column step_time_s | cmp -s measured-before -
result $? "another GPU file gives other predictions of the same measured steps" "$(column predicted_step_time_s | paste predicted-before -)"
cp "out/details/calibration/gpus/$name.yaml" "$page/gpus/$name.yaml"

# --- other programs ---
gpu_file=$page/gpus/$name.yaml
check="python3 $scripts/crosscheck.py"
export PYTHONDONTWRITEBYTECODE=1
[ "$($check products "$gpu_file" --parse)" = "$(grep -c 'layout:' "$gpu_file") of product" ] &&
  [ "$($check attention "$gpu_file" --parse)" = "$(grep -c 'head_dim:' "$gpu_file") of attention" ]
result $? "all products and attention of a calibrated file are read" "$($check products "$gpu_file" --parse)"
echo "name: nothing" >none.yaml
$check products none.yaml --parse >log 2>&1
code=$?
[ $code -eq 2 ] && grep -q '^crosscheck.py: none.yaml: no measured products in it; expected a GPU file that stepreal calibrate wrote$' log
result $? "a file without any is refused" "status $code; $(cat log)"

# a step under ncu whose kernels each take 0.8 of what stepsim predicts, and some that are not of the step
cat >llama.json <<'END'
{"model_type": "llama", "hidden_size": 64, "intermediate_size": 172, "num_hidden_layers": 2, "num_attention_heads": 32,
 "num_key_value_heads": 8, "vocab_size": 500, "max_position_embeddings": 8192, "tie_word_embeddings": false}
END
"$build/sim/stepsim" simulate --model llama.json --seq-len 32 --global-batch 1 --precision bf16 --gpus 1 --cluster "$page/$name.yaml" \
  --fold off --kernels >kernels.txt 2>&1
awk '
  BEGIN { print "==PROF== Connected"; print "\"ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"" }
  function ran(kernel, us) { printf "\"%d\",\"%s\",\"gpu__time_duration.sum\",\"ns\",\"%s\"\n", n++, kernel, us }
  /^  (embedding|layer|head) [FB]:/ { section = $1 $2; next }
  section != "" && /^    [a-z]/ {
    us = $(NF - (/%$/ ? 3 : 0)); name = $1
    kernel = / (TN|NN|NT) / ? "nvjet_hsh_128x256" : name ~ /^attention/ ? "cudnn_sdpa_flash" : name ~ /norm/ ? "void <unnamed>::norm_forward<float, 4>(NormKernel)" : name ~ /rope/ ? "void rope<float>(RopeKernel)" : "void other()"
    list[section] = list[section] kernel "|" us "\n"
  }
  END {
    ran("void init<float>(InitKernel)", "1,000,000")
    order = "embeddingF: layerF: layerF: headF: headB: layerB: layerB: embeddingB:"
    for (i = split(order, s, " "); i > 0; i--) { all = list[s[i]] all }
    count = split(all, lines, "\n")
    for (i = 1; i < count; i++) { split(lines[i], part, "|"); ran(part[1], 800 * part[2]); if (i == 6) ran("splitKreduce_kernel<32>", 0) }
  }' kernels.txt >ncu.csv
$check kernels "$gpu_file" kernels.txt ncu.csv --csv compared.csv >log 2>&1
code=$?
[ $code -eq 0 ] && grep -q '^product of a step: stepreal / ncu: median 1.250 of [1-9][0-9]*; worst 1.25 ' log &&
  grep -q '^sum of a step,norms,.*,ncu,' compared.csv && grep -q '^sum of a step,rope,' compared.csv &&
  awk -F, '$1 == "sum of a step" && ($3 / $5 < 1.24 || $3 / $5 > 1.26) { exit 1 }' compared.csv
result $? "each product and each group of kernels is compared with ncu's" "status $code; $(cat log compared.csv)"
grep -v nvjet ncu.csv >fewer.csv
$check kernels "$gpu_file" kernels.txt fewer.csv --parse >log 2>&1
grep -q 'no products of the one are those of the other$' log
result $? "products are not paired with what is not as many" "$(cat log)"
echo "==ERROR== no permission" >none.csv
$check kernels "$gpu_file" kernels.txt none.csv >log 2>&1
code=$?
[ $code -eq 2 ] && grep -q "^crosscheck.py: none.csv: no kernel's gpu__time_duration.sum in it$" log
result $? "output of ncu without times is refused" "status $code; $(cat log)"

mkdir -p lib/torch/nn
cat >lib/torch/__init__.py <<'END'
"""A PyTorch that computes nothing: whatever is asked for is a Thing; an event ends 4 ms after the one before."""
class Thing:
    def __init__(self, *arguments, **named): pass
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Thing()
    def __call__(self, *arguments, **named): return Thing()
    def __enter__(self): return self
    def __exit__(self, *error): return False
    def __getitem__(self, place): return Thing()
    def __iter__(self): return iter([Thing(), Thing(), Thing()])
    def __add__(self, other): return self
    __mul__ = __rmul__ = __matmul__ = __truediv__ = __pow__ = __rpow__ = __sub__ = __add__
    def __neg__(self): return self
class Event(Thing):
    def elapsed_time(self, end): return 4.0
class cuda:
    Event, Stream, CUDAGraph, graph = Event, Thing, Thing, Thing()
    is_available = staticmethod(lambda: True)
    set_stream = synchronize = staticmethod(lambda *a: None)
class autograd:
    grad = Thing()
    class DeviceType:
        CUDA = "cuda"
class Average:
    device_type, self_device_time_total = "cuda", 40.0
class Profile(Thing):
    def key_averages(self): return [Average()]
class profiler:
    ProfilerActivity = Thing()
    profile = staticmethod(lambda **named: Profile())
from . import nn
__version__ = "0"
def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return Thing()
END
cat >lib/torch/nn/__init__.py <<'END'
from torch import Thing
functional = utils = Thing()
class Module(Thing):
    def __call__(self, *arguments): return self.forward(*arguments)
    def parameters(self): return []
    def to(self, number): return self
Linear = Embedding = Parameter = Thing
ModuleList = list
END
echo 'from torch import Thing
SDPBackend = sdpa_kernel = Thing()' >lib/torch/nn/attention.py
check="env PYTHONPATH=$work/lib $check --warm-up 0"
cp "$gpu_file" large.yaml
echo "    - {number: bf16, layout: tn, accumulate: no, batch: 1, m: 4096, n: 4096, k: 4096, time: 200 us}" >>large.yaml
for what in products attention fp8; do
  $check $what large.yaml --csv torch.csv >log-$what 2>&1 || echo "status $?" >>log-$what
done
[ "$(grep -c '^product,.*,a PyTorch graph,' torch.csv)" -eq "$(grep -c 'layout:' large.yaml)" ] && [ "$(grep -c 'by CUPTI,' torch.csv)" -eq 12 ] &&
  [ "$(grep -c '^attention,' torch.csv)" -eq "$(grep -c 'head_dim:' large.yaml)" ] && [ "$(grep -c '^product in fp8,' torch.csv)" -eq 1 ]
result $? "every product and every attention is timed by PyTorch" "$(cat log-* torch.csv)"
cp torch.csv before.csv
$check products large.yaml --csv torch.csv >log 2>&1 && cmp -s torch.csv before.csv
result $? "what has a row is not timed again" "$(cat log; diff torch.csv before.csv)"
$check products large.yaml --seconds 0 >log 2>&1
code=$?
[ $code -eq 75 ] && grep -q "^$(grep -c 'layout:' large.yaml) left out: no time is left$" log
result $? "what there is no time for is left out" "status $code; $(cat log)"
for mode in eager compiled; do
  $check stack llama.json --tokens 32 --mode $mode --predicted 0.01 --csv stack.csv >log-$mode 2>&1 || echo "status $?" >>log-$mode
done
[ "$(grep -c '^step of a framework,.*; \(eager\|compiled\),10000,plain PyTorch,[0-9.]*' stack.csv)" -eq 2 ]
result $? "a step of plain PyTorch is beside what is predicted of it" "$(cat log-eager log-compiled stack.csv)"
finish
