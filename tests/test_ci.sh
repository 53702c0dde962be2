#!/bin/sh
# test_ci.sh FOLDER: what the scripts of continuous integration say of machines and of tests (TAP). FOLDER: .ci
[ $# -eq 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
. "$(dirname "$0")/fixtures/tap.sh"
ci=$(absolute "$1")
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2

# --- what is missing on a machine: a folder of programs that stands for it ---

mkdir bin
for program in sh cat tr grep; do
  ln -s "$(command -v $program)" bin/
done
for program in gcc meson ninja gnuplot pgrep mpirun pkg-config; do
  printf '#!/bin/sh\nexit 0\n' >bin/$program
  chmod +x bin/$program
done
deps() {
  PATH=$work/bin "$ci/deps" >out 2>err
  got=$?
}
deps
expect "a machine that has all needs nothing" 0 ""
[ ! -s out ] && [ ! -s err ]
result $? "and nothing is said of it" "$(cat out err)"
rm bin/ninja
printf '#!/bin/sh\ncase "$*" in *yaml*) exit 1 ;; esac\n' >bin/pkg-config
deps
expect "without apt-get it says what is missing" 1 "not found here: ninja-build libyaml-dev; install it"
printf '#!/bin/sh\nexit 1\n' >bin/apt-get
printf '#!/bin/sh\n[ "$1" = -u ] && echo 1000\n' >bin/id
printf '#!/bin/sh\n[ "$2" != libyaml-dev ] || echo "Status: install ok installed"\n' >bin/dpkg
chmod +x bin/*
deps
expect "who may not install is told what to have installed" 1 "not root, and no sudo;--no-install-recommends ninja-build"
! grep -q 'recommends.*libyaml-dev' err
result $? "and not what is installed" "$(cat err)"
printf '#!/bin/sh\necho "Status: install ok installed"\n' >bin/dpkg
deps
expect "what is installed and not found is named" 1 "not found, though installed: ninja-build libyaml-dev: look at PATH"

# --- tests that ended early ---

mkdir -p build/meson-logs
log_test() { # its number, name, exit status, output
  printf '\n==== %s/9 ====\ntest:         %s\nresult:       exit status %s\n---- stdout ----\n%s\n' "$@" >>build/meson-logs/testlog.txt
}
echo "Log of Meson test suite" >build/meson-logs/testlog.txt
log_test 1 "stepsim / whole" 0 "ok 1 - x
1..1"
log_test 2 "stepsim:readers / cut" 0 "ok 1 - x
ok 2 - of 1..9 values"
log_test 3 "stepsim / failed" 1 "ok 1 - x"
log_test 4 "stepsim / skipped" 0 "1..0 # SKIP not here"
log_test 5 "stepsim / no gpu" 77 "skipped"
log_test 6 "stepsim / kernels" 0 "0 of 594 kernels differ, 0 other failures"
log_test 7 "stepsim / silent" 0 ""
log_test 8 "stepsim / planned first" 0 "1..1
ok 1 - x"
log_test 9 "stepsim / last" 0 "ok 1 - x"
"$ci/cut_tests" build >out
[ "$(cat out)" = "stepsim:readers / cut
stepsim / silent
stepsim / last" ]
result $? "tests that end with status 0 before their last line are named" "$(cat out)"
finish
