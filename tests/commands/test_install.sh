#!/bin/sh
# test_install.sh BUILD: what is installed works wherever it is moved to; man pages and completion have what --help
# prints, in every shell that is here (TAP).
[ $# -eq 1 ] || { echo "usage: $0 BUILD" >&2; exit 2; }
. "$(dirname "$0")/../fixtures/tap.sh"
build=$(absolute "$1")
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 99

# --- an installation, staged and then moved ---

# `make uninstall` takes away what was installed before this test
log=$build/meson-logs/install-log.txt
[ ! -f "$log" ] || cp "$log" log
meson install -C "$build" --no-rebuild --quiet --destdir "$work/stage" >out 2>err
got=$?
if [ -f log ]; then cp log "$log"; else rm -f "$log"; fi
expect "everything is installed below DESTDIR" 0 ""
prefix="$work/moved here"
mv "$(dirname "$(dirname "$(find stage -path '*/bin/stepsim')")")" "$prefix" && rm -rf stage
stepsim=$prefix/bin/stepsim
# 2 layers of 12 tell this model from that of the source folder
sed -i 's/"n_layer": 12/"n_layer": 2/' "$prefix/share/stepsim/models/gpt2.json"

mkdir elsewhere
away() { # command: from another folder, with a home that nobody can write
  (cd elsewhere && env -u STEPSIM_DATA HOME=/proc/nowhere "$@")
}
for model in llama-3-8b gpt2; do
  plan="--model $model --cluster dgx-h100 --gpus 8 --tp 2 --pp 2 --global-batch 8 --framework megatron-core"
  # shellcheck disable=SC2086 # several words
  away "$stepsim" simulate $plan --json --trace trace.json >installed.json 2>err &&
    STEPSIM_DATA=$prefix/share/stepsim "$build/sim/stepsim" simulate $plan --json --trace trace.json >built.json 2>>err &&
    sed -i '/"wall_s"/d' built.json installed.json && cmp built.json installed.json >>err && cmp trace.json elsewhere/trace.json >>err
  result $? "$model is predicted to the byte as by the built program with the installed data" "$(cat err)"
done
# shellcheck disable=SC2086
"$build/sim/stepsim" simulate $plan --json | sed '/"wall_s"/d' >built.json && ! cmp -s built.json installed.json
result $? "which are not those of the source folder" ""
away "$stepsim" plot bubble --pp 4 --schedules 1f1b --output b.svg >out 2>err && [ -s elsewhere/b.svg ]
result $? "a picture is drawn by installed scripts" "$(cat out err)"

# --- man pages and what completion offers, of every verb of every program ---

check_verb() { # program, verb
  page="$prefix/share/man/man1/$(basename "$1")-$2.1"
  "$1" "$2" --help >help
  sed 's/\\f.//g; s/\\-/-/g' "$page" >plain || return
  for option in $(grep -oE -e '^  (-h, )?--[a-z0-9-]+' help | grep -oE -e '--[a-z0-9-]+'); do
    grep -qE -e "^(-h, )?$option(=|\$)" plain || echo "$page: no $option"
  done
  for section in NAME SYNOPSIS DESCRIPTION OPTIONS EXAMPLES "EXIT STATUS" FILES "SEE ALSO"; do
    grep -qxF ".SH $section" plain || echo "$page: no $section"
  done
  "$1" --complete "$2" - | cut -f 1 | sort >offered
  grep -oE -e '^  (-h, )?--[a-z0-9-]+' help | sed 's/^  \(-h, \)\?//' | sort | diff - offered | sed "s/^/$2: completion: /"
}
for program in stepsim stepreal; do
  if [ ! -x "$prefix/bin/$program" ]; then
    result 0 "man pages and completion of $program # SKIP it is not built"
    continue
  fi
  verbs=$("$prefix/bin/$program" --help | awk '/^  [a-z]/ { print $1 }')
  problems=$(for verb in $verbs; do check_verb "$prefix/bin/$program" "$verb"; done 2>&1)
  [ -n "$verbs" ] && [ -z "$problems" ]
  result $? "$program: man pages list, and completion offers, the options of every verb's --help" "$problems"
done
render() { # locale: the warnings of all pages, and nothing else
  for page in "$prefix"/share/man/man1/*.1; do
    LC_ALL=$1 MANWIDTH=80 man --warnings -l "$page" 2>&1 >rendered | sed "s|^|$(basename "$page"): |"
    grep -q '^EXIT STATUS' rendered || echo "$page: not rendered"
  done
}
if command -v man >/dev/null && man --version 2>/dev/null | grep -q '^man 2'; then
  warnings=$(render C.UTF-8 && render C)
  [ -z "$warnings" ]
  result $? "man renders every page without a warning, in UTF-8 and in ASCII" "$warnings"
else
  result 0 "man renders every page # SKIP man-db is not installed"
fi

# --- values that completion offers ---

offers() { # candidates, word...: these, and no others where they end with a dot
  wanted=$1
  shift
  found=$("$stepsim" --complete "$@" | cut -f 1 | tr '\n' ' ')
  case $wanted in
    . | *' .') [ "${found}." = "$wanted" ] ;;
    *) has_words "$(echo "$wanted" | tr ' ' ';')" "$found" ;;
  esac || echo "$*: $found"
}
problems=$(
  offers "simulate sweep help --version" ""
  offers "simulate ." sim
  offers "collective compare ." help co
  offers "llama-3.1-405b ." simulate --model llama-3.
  offers "--model=llama-3.1-405b ." simulate --model=llama-3.
  offers "gpt2,llama-3.1-405b ." sweep --model gpt2,llama-3.
  offers "dgx-h100 dgx-h200 ." topology dgx-h
  offers "h100-sxm5-80gb" topology --gpu ''
  offers "megatron-core nemo" simulate --framework ''
  offers "torchtitan torchtitan-eager" simulate --framework tor
  offers "torchtitan-eager ." simulate --framework torchtitan-e
  offers "megatron-core@0.9 megatron-core@0.14" simulate --framework megatron-core@
  offers "megatron-core@0.14 ." simulate --framework megatron-core@0.14
  offers "deepspeed,megatron-core@0.14 ." sweep --framework deepspeed,megatron-core@0.14
  offers "models clusters gpus frameworks schedules ." list ''
  offers "models ." list m
  offers "." list models ''
  offers "on off ." simulate --overlap-grad ''
  offers "zb-h1 zb-h2 zb-v ." simulate --schedule z
  offers "1f1b,zb-v ." sweep --schedule=1f1b --schedule 1f1b,zb-v
  offers "bf16+master qlora" simulate --recipe ''
  offers "core_attn+moe_act core_attn+moe ." simulate --recompute-modules core_attn+moe
  offers "none fp16 bf16 topk: onebit powersgd: ." simulate --compress-grad ''
  offers "full lora: ." simulate --train ''
  offers "sync async gathered ." simulate --checkpoint ''
  offers "mfu tokens_per_s cost ." sweep --objective ''
  offers "bubble breakdown busbw ." plot b
  offers "schedule=1f1b,zb-v ." plot heat --vary schedule=1f1b,zb-v
  offers "framework,host ." validate --without framework,ho
  offers "all_reduce" collective --op ''
  offers ":files ." simulate --timeline x
  offers ":files ." validate runs
  offers "." nonsense ''
)
[ -z "$problems" ]
result $? "values are offered by what an option takes" "$problems"

# --- in shells: a line as it is typed, and what it is completed to ---

mkdir typed && cd typed && mkdir folder && touch 'my runs.csv' orders.csv || exit 99
lines='stepsim sim|simulate
stepsim simulate --model=llama-3.|--model=llama-3.1-405b
stepsim simulate --model llama-3.|llama-3.1-405b
stepsim sweep --model gpt2,llama-3.|gpt2,llama-3.1-405b
stepsim simulate --schedule fil|file:
stepsim sweep --schedule file:or|file:orders.csv
stepsim simulate --overlap-gr|--overlap-grad
stepsim simulate --timeline=fol|--timeline=folder
stepsim validate my|my runs.csv'
check_shell() { # shell: in_SHELL prints what the line is completed to
  if ! command -v "$1" >/dev/null; then
    result 0 "$1 completes lines # SKIP it is not installed"
    return
  fi
  printf '%s\n' "$lines" | while IFS='|' read -r typed expected; do
    found=$("in_$1" "$typed" 2>&1)
    [ "$found" = "$expected" ] || echo "$typed: found \"$found\", expected \"$expected\""
  done >../problems
  [ ! -s ../problems ]
  result $? "$1 completes lines" "$(cat ../problems)"
}
# bash parts words at =, : and @, and replaces what is behind
in_bash() {
  PATH=$prefix/bin:$PATH bash -c '. "$1"
    COMP_LINE=$2 COMP_POINT=${#2}
    read -ra COMP_WORDS <<<"$(sed "s/[=:@]/ & /g" <<<"$2")"
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _stepsim
    last=${2##* }
    [[ $last == *[=:@]* ]] && echo -n "${last%"${last##*[=:@]}"}"
    printf "%s\n" "${COMPREPLY[@]}"' bash "$prefix/share/bash-completion/completions/stepsim" "$1"
}
in_fish() {
  # shellcheck disable=SC2016 # for fish
  HOME=$work XDG_CONFIG_HOME=$work PATH=$prefix/bin:$PATH fish --no-config -c 'source $argv[1]
    complete -C $argv[2]' "$prefix/share/fish/vendor_completions.d/stepsim.fish" "$1" | sed 's/	.*//; s|/$||'
}
# a terminal, in which the completed line is printed between marks
in_zsh() {
  # shellcheck disable=SC2016 # for zsh
  HOME=$work PATH=$prefix/bin:$PATH timeout 60 zsh -f -c 'zmodload zsh/zpty
    zpty shell zsh -f -i
    zpty -w shell "PS1= fpath=(${(q)1} \$fpath); autoload -Uz compinit; compinit -u -D
      show() { zle complete-word; print -rn -- \"<<\$LBUFFER>>\"; }; zle -N show; bindkey \"^I\" show; print READ\Y"
    zpty -r shell out "*READY*"
    zpty -w -n shell "$2"$'"'\\t'"'
    zpty -r shell out "*<<*>>*"
    out=${${out##*<<}%%>>*}
    print -r -- ${${${(Q)${(z)out}[-1]}%%/}% }' zsh "$prefix/share/zsh/site-functions" "$1"
}
check_shell bash
check_shell zsh
check_shell fish
finish
