#!/bin/sh
# test_outputs.sh STEPSIM: what verbs write: keys of JSON, pictures, tables, programs, orders and traces, which are read
# back; where it cannot be written nothing is left, and the locale changes nothing (TAP).
[ $# -eq 1 ] || { echo "usage: $0 STEPSIM" >&2; exit 2; }
. "$(dirname "$0")/../fixtures/tap.sh"
stepsim=$(absolute "$1")
tests=$(cd "$(dirname "$0")/.." && pwd)
topologies=$tests/../topologies
work=$(mktemp -d) || exit 2
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
cd "$work" || exit 2
plan='--model llama-3-8b --cluster dgx-h100 --gpus 8 --tp 8'

columns=layers,hidden,heads,cluster,step_time_s
printf '%s,source\n2,256,4,selene,1,a\n2,256,4,selene,2,b\n' "$columns" >runs.csv
printf '%s,cp\n2,256,4,selene,1,3\n' "$columns" >refused.csv
printf '%s,kv_heads,gated,vocab,framework\n%s\n%s\n%s\n' "$columns" 2,64,4,selene,1,4,1,32000,Megatron-LM \
  2,64,4,selene,1,4,1,32000,megatron-lm 2,64,4,dgx-h100,1,2,1,128256,pytorch-fsdp >plain.csv
cp "$tests/data/nccl-tests/unranked.log" own.log

keys() { # top-level keys of a pretty-printed object, on one line
  sed -n 's/^  "\([A-Za-z0-9_]*\)" :.*/\1/p' | tr '\n' ' '
}

check_keys() { # expected keys, arguments…
  expected=$1
  shift
  found=$("$stepsim" "$@" | keys)
  [ "$found" = "$expected " ]
  result $? "keys of $1 --json" "$found"
}

check_picture() { # words parted by ;, kind, arguments…
  expected=$1
  shift
  "$stepsim" "$@" picture.svg >out 2>err && has_words "$expected" "$(cat picture.svg)"
  result $? "picture of $1 $2" "$(cat err) $(grep -o '<text>.*</text>' picture.svg)"
  rm -f picture.svg
}

# fp16 with fp32 copies of gradients: 20 bytes per parameter, 4 + 16 / 8 of 8 distributed optimizers, times 1e9 (Megatron-LM's
# dist_optimizer.md)
"$stepsim" memory --params 1e9 --dp 8 --precision fp16 --framework megatron-lm-2022 >out 2>err
[ "$(awk '/ZeRO-[01]/ { printf "%s ", $(NF - 1) }' out)" = "20 6 " ] && has_words "4 bytes of each updated parameter" "$(cat out)"
result $? "memory counts copies of gradients, and says so" "$(cat out err)"
"$stepsim" memory --params 1e9 --dp 8 --zero 1 --precision fp16 --framework megatron-lm-2022 --json >out 2>err
has_words '"buffers_bytes" : 500000000' "$(cat out)" && has_words '"total_bytes" : 6000000000' "$(cat out)"
result $? "and --json has them by themselves, and in the total" "$(cat out err)"
# 5.2e9 parameters of 16 and of 20 bytes are 83 and 104 GB.
"$stepsim" memory --params 5.2e9 --capacity 85.9GB --precision fp16 --framework megatron-lm-2022 --gpus 1 >out 2>err
has_words "hold the state: 2" "$(cat out)" && has_words "on these ranks: 4.295e+09 parameters" "$(cat out)"
result $? "limits count them too" "$(cat out err)"

# Whichever ZeRO stage is asked for, `memory` exits as `simulate` does, and its rows say the same of the others: 0 fits,
# 1 does not fit or is impossible.
for of_stages in "qwen2.5-7b --cluster dgx-h200 --gpus 16 --tp 2 --pp 2 --schedule dualpipe-v --global-batch 24 \
--offload-optimizer nvme --framework torchtitan-eager" "starcoder2-15b --cluster dgx-h100 --gpus 16 --pp 2 --schedule auto \
--global-batch 16" "llama-3-70b --cluster dgx-h100 --gpus 8 --offload-optimizer host --offload-weights host --recompute full"; do
  simulated='' asked=''
  : >told
  for zero in 0 1 2 3; do
    # shellcheck disable=SC2086 # the plan is a list of words
    {
      "$stepsim" simulate --model $of_stages --zero $zero >out 2>err
      simulated="$simulated $?"
      "$stepsim" memory --model $of_stages --zero $zero >table 2>err
      asked="$asked $?"
      "$stepsim" memory --model $of_stages --zero $zero --json >json 2>err
    }
    [ ! -s table ] || awk '/^[^a-z]* ZeRO-/ { all = all (/  fits$/ ? " 0" : " 1"); possible += !/impossible:/ }
      FILENAME == "json" && /"impossible" : null/ { possible-- }
      END { print possible == 0 ? all : "not so in JSON" }' table json >>told
  done
  [ "$asked" = "$simulated" ] && [ "$(sort -u told)" = "$simulated" ]
  result $? "memory says of each ZeRO stage what simulate says: ${of_stages%% *}" "$simulated, asked$asked, told: $(cat told)"
done

# Of a kernel: … at its time, at the peak, and the share of it: each is the others' quotient, but for its last digit.
# shellcheck disable=SC2086 # the plan is a list of words
"$stepsim" simulate $plan --kernels >out 2>err
awk '$NF == "%" && $(NF - 2) + 0 > 1 { n++; off = $(NF - 1) - 100 * $(NF - 2) / $(NF - 3); bad += off > 0.06 || off < -0.06 }
  END { exit !(n >= 10 && !bad) }' out
result $? "kernels reach the share of the peak that their times say" "$(cat out err)"

# shellcheck disable=SC2086 # the plan is a list of words
{
  check_keys "model cluster options plan cost step_time_s interval tokens_per_s tokens_per_s_per_gpu tflops_per_gpu mfu hfu flops_convention gpu_energy_Wh bubble_fraction \
bubble_overhead breakdown_s memory links bounding_link kernels engine warnings" simulate $plan --json
  check_keys "makespan step_time span bubble_time bubble_fraction bubble_overhead makespan_bubble_time makespan_bubble_fraction makespan_bubble_overhead closed_form_bubble closed_form_is_exact in_flight peak_memory actions sends" \
    schedule --pp 4 --micro-batches 4 --json
  check_keys "state_bytes_per_gpu weights_bytes gradients_bytes optimizer_bytes activations_bytes buffers_bytes reserved_bytes total_bytes sent_bytes fits min_gpus max_micro_batch max_seq_len parameters bubble_fraction bubble_overhead zero_stages" \
    memory --params 7e9 --json
  check_keys "op gpus bytes time_s algbw_Bps busbw_Bps algorithm protocol sent_bytes sms note" \
    collective --cluster dgx-h100 --bytes 1MiB --json

  check_keys "rows predicted failed mape median_ape p90_ape bias baseline_mape timed inside_intervals memory_rows memory_mape memory_bias \
out_of_memory without read_as rows_per_s threads groups" validate runs.csv --json

  "$stepsim" validate runs.csv refused.csv --rows - >rows.csv 2>err && [ "$(wc -l <rows.csv)" -eq 4 ] &&
    "$stepsim" validate rows.csv --rows again.csv >out 2>>err && cmp rows.csv again.csv &&
    "$stepsim" validate runs.csv --by cluster --plot runs.svg >out 2>>err && grep -q '^selene  *2 ' out
  result $? "validated rows are written, and read again, and - holds nothing else" "$(cat err rows.csv)"

  "$stepsim" validate plain.csv --rows - >plain-rows.csv 2>err &&
    "$stepsim" validate plain.csv --releases off --rows - >as-named.csv 2>>err &&
    [ "$(awk -F, 'NR > 1 { print $(NF - 2) }' plain-rows.csv | tr '\n' ' ')" = "megatron-lm-2023 megatron-lm-2023 torchtitan " ] &&
    [ "$(awk -F, 'NR > 1 { print $(NF - 2) }' as-named.csv | tr '\n' ' ')" = "megatron-lm megatron-lm pytorch-fsdp " ]
  result $? "rows say which file they were read with" "$(cat err plain-rows.csv as-named.csv)"

  if command -v gnuplot >/dev/null; then
    check_picture "<text>6</text>;<text>96</text>" plot bubble --schedules 1f1b --pp 6 --output
    check_picture "<text>72</text>;<text>144</text>" \
      plot mfu --model llama-3-8b --cluster gb200-nvl72 --gpu-list 72,144 --global-batch 288 --output
    check_picture "gpipe;interleaved;pp 4" plot bubble --schedules gpipe,interleaved --pp 4 --chunks 2 --output
    check_picture "strong scaling: 64 sequences per step;weak scaling;llama-3-8b" \
      plot mfu --model llama-3-8b --cluster dgx-h100 --tp 8 --gpu-list 8,16 --global-batch 64 --output
    check_picture "zero 3;reserved;llama-3-8b" plot memory $plan --output
    check_picture "pp 2, recompute full;time of a step;on dgx-h100; gpus 8, tp 4" \
      plot breakdown $plan --tp 4 --vary pp=1,2 --vary recompute=none,full --output
    check_picture "rank 1;compute;bubble" plot breakdown $plan --tp 4 --pp 2 --output
    check_picture "held + reserved (GB = 1e9 bytes);peak" plot memory-time $plan --output
    check_picture "over 3 steps" plot memory-time $plan --tp 4 --pp 2 --schedule zb-h1 --output
    check_picture "Thousand tokens per second: llama-3-8b;impossible" \
      plot heat $plan --value tokens_per_s --vary tp=2,4,8,16 --vary zero=0..2 --output
    check_picture "the front;zero 3;capacity 85.9 GB" plot pareto $plan --tp 4 --vary zero=0,3 --output
    check_picture "runs.csv" plot pareto runs.csv --x layers --y hidden --output
    check_picture "ring: at most" plot busbw --cluster dgx-h100 --gpus 16 --op reduce_scatter --output
    check_picture "forward;llama-3-8b on dgx-h100" plot timeline $plan --tp 4 --pp 2 --output
    # 4 stages of 4 forwards and backwards; then of 48 × 2, of which 90 have room for a digit
    for batch in "--pp 4 --global-batch 4:32" "--pp 4 --chunks 2 --global-batch 48:0"; do
      "$stepsim" plot timeline $plan --gpus 8 --tp 2 ${batch%:*} --output numbers.svg >out 2>err &&
        [ "$(grep -c 'font-size="11' numbers.svg)" -eq "${batch#*:}" ]
      result $? "a timeline of ${batch%:*} has ${batch#*:} numbers in its boxes" "$(cat err; grep -c 'font-size="11' numbers.svg)"
    done
    "$stepsim" simulate $plan --tp 4 --pp 2 --trace drawn.json >out 2>err
    check_picture "drawn.json: one simulated step of;forward;tensor-parallel" plot timeline drawn.json --output
    check_picture "published;MAPE" plot validation rows.csv --title "published, MAPE" --output
    check_picture "the library's choice;nvls_tree;hierarchical;ring: at most 360 GB/s;all_reduce over 16 GPUs" \
      collective --cluster dgx-h100 --gpus 16 --bytes 1MiB..1GiB --plot
  fi

  for curves in '' --curves; do # 400 us + 1.75 · 100 MB / 100 GB/s; the curve's line between 80 and 160 MB
    { sed "s|gpus/|$topologies/gpus/|; s|nccl/|$topologies/nccl/|" "$topologies/dgx-h100.yaml" &&
      "$stepsim" collective --fit own.log --op all_reduce --gpus 8 $curves; } >fitted.yaml
    "$stepsim" collective --cluster ./fitted.yaml --bytes 100MB >out 2>err && has_words " 2150.00 " "$(cat out)"
    result $? "what --fit $curves prints makes a cluster file go by it" "$(cat err out)"
  done

  "$stepsim" simulate $plan --dump - >dump.txt && "$stepsim" simulate $plan --program dump.txt --dump again.txt >out &&
    cmp dump.txt again.txt
  result $? "a dumped program is read back, and - holds nothing else" "$(head -3 dump.txt)"

  "$stepsim" simulate $plan --steps 3 --dump three.txt >out 2>err && "$stepsim" simulate $plan --program three.txt >out 2>err
  [ $? -eq 2 ] && has_words "the program has 3 steps, expected 1 as --steps" "$(cat err)"
  result $? "and refused where the plan has other steps" "$(cat err out)"

  "$stepsim" schedule --pp 3 --micro-batches 4 --csv - >order.csv && "$stepsim" schedule --from order.csv --csv - |
    cmp - order.csv
  result $? "a written order is read back, and - holds nothing else" "$(head -3 order.csv)"

  "$stepsim" schedule --schedule dualpipe-v --pp 2 --micro-batches 6 --csv comms.csv --csv-format comms >one &&
    "$stepsim" schedule --from comms.csv --csv again.csv >two && cmp comms.csv again.csv &&
    "$stepsim" schedule --from comms.csv --csv - --csv-format compute >compute.csv &&
    "$stepsim" schedule --schedule dualpipe-v --pp 2 --micro-batches 6 --csv - | cmp - compute.csv &&
    grep -q 'OVERLAP_F_B,0SEND_F' comms.csv && [ "$(sed '1d;/closed form/d' one)" = "$(sed 1d two)" ]
  result $? "an order with communication is read back and runs as long, or is left without it" "$(head -3 comms.csv)"

  "$stepsim" simulate $plan >&- 2>err
  [ $? -eq 2 ] && grep -q 'standard output' err
  result $? "closed standard output is an error" "$(cat err)"

  "$stepsim" simulate --help >/dev/full 2>err
  [ $? -eq 2 ] && grep -q 'standard output' err
  result $? "help that cannot be printed is an error" "$(cat err)"

  "$stepsim" simulate $plan --trace closed.json <&- >&- 2>&-
  [ $? -eq 2 ] && grep -q '^{"displayTimeUnit"' closed.json && ! grep -q 'step time' closed.json
  result $? "a file is no substitute for closed standard output" "$(head -c 200 closed.json)"

  "$stepsim" simulate $plan --dump /dev/null >out 2>err && [ -c /dev/null ]
  result $? "a device is written in place" "$(ls -l /dev/null)"

  echo old >kept.txt
  mkdir read-only && cp kept.txt read-only && chmod 555 read-only
  if [ "$(id -u)" -ne 0 ]; then
    ! "$stepsim" simulate $plan --dump read-only/kept.txt >out 2>err
    result $? "a folder without write permission is an error" "$(cat err)"
  fi
  "$stepsim" simulate $plan --dump read-only/kept.txt --trace nowhere/t.json >out 2>err
  [ $? -eq 2 ] && [ "$(cat read-only/kept.txt)" = old ]
  result $? "an error leaves files as they were" "$(cat read-only/kept.txt)"
  [ -z "$(find . -name '.stepsim-*')" ]
  result $? "no temporary file is left" "$(find . -name '.stepsim-*')"

  mkdir "fol der ü" && "$stepsim" simulate $plan --dump "fol der ü/pro gram" >out &&
    (cd "fol der ü" && env -i LC_ALL=C "$stepsim" simulate $plan --program "../fol der ü/pro gram" >../out 2>../err)
  result $? "names with spaces and letters beyond ASCII are read in any locale and place" "$(cat err)"

  "$stepsim" plot mfu --model llama-3-8b --cluster dgx-h100 --tp 8 --global-batch 16 --gpu-list '8..32*2' \
    --output mfu.svg >out 2>err && grep -q 'strong scaling: 16 sequences' mfu.svg && grep -q 'weak scaling: 0.5 ' mfu.svg
  result $? "the series of a picture are named" "$(cat err)"
  "$stepsim" plot bubble --pp 4 --schedules 1f1b --micro-batches 4..20+8,32..64*2 --data - >out 2>err &&
    [ "$(grep -o '^[0-9]* ' out | tr -d '\n')" = '4 12 20 32 64 ' ]
  result $? "counts are listed one by one, by steps and by factors" "$(cat out err)"

  # two ranks of tp 2 on two stages; measured stands for the same run, which every number must then agree with
  trace_plan='--model gpt2 --cluster dgx-h100 --gpus 8 --tp 2 --pp 2 --global-batch 8 --zero 1'
  "$stepsim" simulate $trace_plan --fold off --trace one.json >out && cp one.json other.json &&
    "$stepsim" simulate $trace_plan --fold off --trace one.json >out && cmp one.json other.json &&
    "$stepsim" simulate $trace_plan --fold on --trace folded.json >out
  result $? "the same plan gives the same trace" "$(ls -l one.json other.json)"
  check_keys "step_time_s kinds phases ranks order" compare one.json other.json --json
  for predicted in one.json folded.json; do
    "$stepsim" compare $predicted other.json --json >compared.json 2>err &&
      [ "$(grep -c 'error" : 0.0' compared.json)" -eq $((1 + 11 + 8 * 4 + 8 * 2)) ] &&
      [ "$(grep -c 'error" : ' compared.json)" -eq $((1 + 11 + 8 * 4 + 8 * 2)) ] &&
      grep -q '"inversions" : 0' compared.json && grep -q '"violations" : 0' compared.json
    result $? "$predicted against its own run: no error in step, 11 kinds, 4 phases and 2 times of 8 ranks" \
      "$(cat err; grep 'error" : [^0]' compared.json)"
  done
  "$stepsim" simulate $trace_plan --fold off --jitter 0.05 --seed 3 --trace other.json >out &&
    "$stepsim" compare folded.json other.json >out 2>err && grep -q 'error  *-[0-9.]* %' out &&
    grep -q 'every stream ran its ops in the planned order' out && grep -q 'no op ran before what it needs' out
  result $? "a run with jitter is longer than predicted, in the same order" "$(cat err out)"
  run="--model gpt2 --cluster dgx-h100 --gpus 4 --pp 2 --global-batch 8 --framework megatron-core"
  # shellcheck disable=SC2086
  "$stepsim" simulate $run --trace own.json >out 2>err && "$stepsim" explain $run --measured own.json >out 2>>err &&
    grep -q ': as predicted$' out && [ "$(grep -c ' +0.0 % ' out)" -ge 10 ] && ! grep -q '[1-9] % *[0-9.-]* [mu]s$' out
  result $? "a prediction's own trace explains it wholly" "$(cat err out)"
  "$stepsim" compare one.json other.json --csv - --rank 3 >ops.csv 2>err &&
    [ "$(cut -d, -f1 ops.csv | sort -u | tr '\n' ' ')" = "3 rank " ] && grep -q '^3,compute,"0F3",0,[0-9,]*$' ops.csv
  result $? "one rank's ops as CSV" "$(cat err; head -3 ops.csv)"
  if command -v gnuplot >/dev/null; then
    "$stepsim" compare one.json other.json --plot both.svg >out 2>err &&
      has_words "rank 7;predicted;measured;: error -;tensor-parallel" "$(cat both.svg)"
    result $? "both timelines as a picture" "$(cat err)"
  fi
  "$stepsim" schedule --pp 2 --micro-batches 2 --trace small.json >out && ! "$stepsim" compare small.json one.json 2>err &&
    has_words "not of one Program;has ranks 2;has 8" "$(cat err)"
  result $? "traces of two programs are refused" "$(cat err)"
  head -c 100000 one.json >cut.json
  ! "$stepsim" compare cut.json one.json >out 2>err && grep -q 'cut.json:[0-9]*: .*end of the file' err
  result $? "a trace that was cut off is refused, with line" "$(cat err)"

  for locale in C POSIX C.UTF-8 de_DE.UTF-8; do
    LC_ALL=$locale "$stepsim" simulate $plan --json | grep -v wall_s >"json.$locale"
  done
  cmp json.C json.POSIX && cmp json.C json.C.UTF-8 && cmp json.C json.de_DE.UTF-8
  result $? "numbers do not depend on the locale" ""
}

# what a terminal gets: of a locale without UTF-8, without colours, without a home to write to
cat >terminal.py <<'END'
import os, pty, subprocess, sys
master, slave = pty.openpty()
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=slave, stderr=slave)
os.close(slave)
try:
    while got := os.read(master, 65536):
        sys.stdout.buffer.write(got)
except OSError: # all writers are gone
    pass
sys.exit(child.wait())
END
shown() { # variables and what to run
  timeout 60 env -u DISPLAY TERM=xterm "$@" >out 2>err
}
not_ascii() { LC_ALL=C tr -d '\000-\177' <out | wc -c; }
small="simulate --model gpt2 --cluster dgx-h100 --gpus 8"
# shellcheck disable=SC2086
shown LC_ALL=C python3 terminal.py "$stepsim" $small && [ "$(not_ascii)" -eq 0 ] && has_words "8 x h100;###" "$(cat out)"
result $? "a terminal whose locale is C gets ASCII" "$(cat out err)"
shown LC_ALL=C python3 terminal.py "$stepsim" schedule --pp nothing
[ $? -eq 2 ] && [ "$(not_ascii)" -eq 0 ] && has_words "found \"nothing\"" "$(cat out)"
result $? "and so do its errors" "$(cat out err)"
# shellcheck disable=SC2086
shown LC_ALL=C.UTF-8 python3 terminal.py "$stepsim" $small && has_words "8 × h100;█" "$(cat out)" && grep -q "$(printf '\033')" out
result $? "one of UTF-8 gets bars and colours" "$(cat out err)"
for without in NO_COLOR=1 TERM=dumb; do
  # shellcheck disable=SC2086
  shown LC_ALL=C.UTF-8 $without python3 terminal.py "$stepsim" $small && ! grep -q "$(printf '\033')" out
  result $? "no colours with $without" "$(cat out err)"
done
if command -v gnuplot >/dev/null; then
  shown HOME=/nowhere XDG_CACHE_HOME=/nowhere/cache "$stepsim" plot bubble --pp 4 --output home.svg && [ -s home.svg ]
  result $? "pictures need no home and no display" "$(cat err)"
fi

# which a page needs
cat >lab.py <<'END'
import subprocess, sys
lab = subprocess.Popen([sys.argv[1], "lab", "--port", "0"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
print(lab.stderr.readline())
lab.terminate()
lab.wait()
END
timeout 60 env -u DISPLAY -u WAYLAND_DISPLAY python3 lab.py "$stepsim" >out 2>&1
has_words "No browser was opened;DISPLAY and WAYLAND_DISPLAY are not set;by ssh, forward" "$(cat out)"
result $? "without a display lab says where its page is" "$(cat out)"

# what is validated adds up to the rows that intervals come from
for kind in clusters frameworks gpus; do # two frameworks may be one file
  "$stepsim" list $kind --json | awk -F'"' '/"(name|file)" :/ { name = $4 } /"published_steps" :/ { gsub(/[^0-9]/, "", $3); if (!seen[name]++) n += $3 } END { print n }'
done | sort -u >counted
sed -n 's/.* rows: \([0-9]*\),.*/\1/p' "$tests/../topologies/published/prediction-errors.yaml" | awk '{ n += $1 } END { print n }' | cmp - counted
result $? "list counts each published step once in every kind" "$(cat counted)"

# whatever --help says is written, and whatever is read: a file is refused that is both, before anything is written
cp "$tests/../models/gpt2.json" read.json && ln -s read.json by_link.json && ln read.json by_link_too.json
sum=$(cksum <read.json)
refuse() { # verb, arguments with the name of a file that is read; every file that the verb writes
  verb=$1
  shift
  for option in $("$stepsim" "$verb" --help | sed -n 's/^ *--\([a-z-]*\)=FILE[^ ]* .*\(write \|draw \|keep every\|file for\).*/\1/p'); do
    for file in ./read.json "$PWD/by_link.json" by_link_too.json; do
      "$stepsim" "$verb" "$@" "--$option" "$file" >out 2>err </dev/null
      [ $? -eq 2 ] && grep -q -- "--$option would write over what" err && [ "$(cksum <read.json)" = "$sum" ] && [ ! -s out ]
      result $? "$verb --$option does not write over what is read, called $file" "$(cat err)"
    done
  done
}
refuse simulate --model read.json --cluster dgx-h100
refuse sweep --model gpt2,read.json --cluster dgx-h100
refuse plot mfu --vary model=gpt2,read.json --cluster dgx-h100
refuse validate read.json
refuse compare read.json read.json
refuse collective --cluster read.json
refuse topology read.json
refuse schedule --from read.json
refuse plan --model read.json --cluster dgx-h100
mv read.json kept.json && "$stepsim" schedule --pp 2 --micro-batches 2 --csv read.json >out && ln -f read.json by_link_too.json
sum=$(cksum <read.json)
refuse schedule --schedule file:read.json --pp 2 --micro-batches 2
mv kept.json read.json

# files that only other files name: of a cluster, of a space, of the rows of a table
cp -r "$tests/../topologies" . && cp topologies/dgx-h100.yaml own.yaml && ln -s topologies/gpus topologies/nccl .
printf 'model: read.json\ncluster: own.yaml\ngpus: 8\n' >space.yaml
head -n 2 "$tests/../measurements/published.csv" >row.csv
row_cluster=topologies/$(python3 -c 'import csv; print(next(csv.DictReader(open("row.csv")))["cluster"])').yaml
keep() { # a file that is read, verb, arguments
  read=$1
  sum=$(cksum <"$read")
  shift
  ! "$stepsim" "$@" "$read" >out 2>err && grep -q "was read" err && [ "$(cksum <"$read")" = "$sum" ]
  result $? "$1 … $read, which is read by way of another file, is not written over" "$(cat err)"
}
for read_file in "$(sed -n 's/^gpu: //p' own.yaml)" "$(sed -n 's/^collectives: //p' own.yaml)"; do
  keep "$read_file" simulate --model read.json --cluster own.yaml --gpus 8 --trace
  keep "$read_file" simulate --model read.json --cluster own.yaml --gpus 8 --dump
  keep "$read_file" plan --model read.json --cluster own.yaml --gpus 8 --global-batch 8 --zero 0 --micro-batch 1 \
    --emit megatron --emit-to
  keep "$read_file" sweep --model read.json --cluster own.yaml --gpus 8 --csv
  keep "$read_file" plot timeline --model read.json --cluster own.yaml --gpus 8 --data
done
keep read.json sweep --space space.yaml --csv
keep own.yaml sweep --space space.yaml --csv
STEPSIM_DATA=. keep "$row_cluster" validate row.csv --rows
finish
