#!/bin/sh
# test_ci.sh FOLDER: what the scripts of continuous integration say of machines, of build folders and of tests (TAP). FOLDER: .ci
[ $# -eq 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
. "$(dirname "$0")/fixtures/tap.sh"
ci=$(absolute "$1")
work=$(mktemp -d) || exit 2
export TMPDIR="$work" # what a killed check leaves there goes with it
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
python=true # which has all modules
deps() {
  DEBIAN_PYTHON=$python PATH=$work/bin "$ci/deps" >out 2>err
  got=$?
}
deps
expect "a machine that has all needs nothing" 0 ""
[ ! -s out ] && [ ! -s err ]
result $? "and nothing is said of it" "$(cat out err)"
python=false
deps
expect "without Python's modules their tests are skipped" 0 ""
python=true
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

# --- what is counted of a run of tests ---

mkdir -p build/meson-logs
log_test() { # its number, name, result, output
  printf '\n==== %s/12 ====\ntest:         %s\nresult:       %s\n---- stdout ----\n%s\n' "$@" >>build/meson-logs/testlog.txt
}
echo "Log of Meson test suite" >build/meson-logs/testlog.txt
log_test 1 "stepsim / whole" "exit status 0" "ok 1 - x
1..1"
log_test 2 "stepsim:readers / cut" "exit status 0" "ok 1 - x
ok 2 - of 1..9 values"
log_test 3 "stepsim / failed" "exit status 1" "ok 1 - x
not ok 2 - y
not ok 3 - z
1..3"
log_test 4 "stepsim / skipped" "exit status 0" "1..0 # SKIP not here"
log_test 5 "stepsim / no gpu" "exit status 77" "skipped"
log_test 6 "stepsim / kernels" "exit status 0" "0 of 594 kernels differ, 0 other failures"
log_test 7 "stepsim / silent" "exit status 0" ""
log_test 8 "stepsim / planned first" "exit status 0" "1..2
ok 1 - x
ok 2 - y # SKIP not here"
log_test 9 "stepsim / planned alone" "exit status 0" "1..3"
log_test 10 "stepsim / fell" "killed by signal 11 SIGSEGV" "ok 1 - x
1..1"
log_test 11 "stepsim / other tap" "exit status 0" "ok 1 - x
ok 5 - x
1..2"
log_test 12 "stepsim / late" "killed by signal 15 SIGTERM" "ok 1 - x"
cat >>build/meson-logs/testlog.txt <<'END'

Summary of Failures:

 3/12 stepsim / failed      FAIL       0.02s   exit status 1
11/12 stepsim / other tap   ERROR      0.02s   2 subtests passed
12/12 stepsim / late        TIMEOUT    9.02s   killed by signal 15 SIGTERM

Ok:                 3
END
"$ci/count_tests" build >out
[ "$(cat out)" = "stepsim / failed: not ok 2 - y
stepsim / failed: not ok 3 - z
 3/12 stepsim / failed      FAIL       0.02s   exit status 1
11/12 stepsim / other tap   ERROR      0.02s   2 subtests passed
12/12 stepsim / late        TIMEOUT    9.02s   killed by signal 15 SIGTERM
ended before its last check, with status 0: stepsim:readers / cut
skipped: stepsim / skipped
skipped: stepsim / no gpu
ended before its last check, with status 0: stepsim / silent
skipped: stepsim / planned first
ended before its last check, with status 0: stepsim / planned alone
stepsim / fell: killed by signal 11 SIGSEGV
10 8 3" ]
result $? "what failed, ended early and was skipped is named and counted" "$(cat out)"

# --- builds and runs of tests, of a project that is done in a second ---

mkdir first
ln -s "$ci" first/.ci
cat >first/meson_options.txt <<'END'
option('cuda', type: 'feature')
option('mpi', type: 'feature')
END
cat >first/meson.build <<'END'
project('small')
foreach name : ['whole', 'leaks', 'planned', 'no-gpu', 'late']
  test(name, find_program('sh'), args: [files('small.sh'), name], protocol: name == 'no-gpu' ? 'exitcode' : 'tap',
       timeout: name == 'late' ? 1 : 20, suite: name == 'whole' ? 'readers' : 'others')
endforeach
END
cat >first/small.sh <<'END'
case $1 in
whole) echo "ok 1 - x"; echo "ok 2 - y"; echo "1..2" ;;
leaks) echo "ok 1 - x"; echo "1..1"; exit 23 ;;
planned) echo "1..3" ;;
no-gpu) exit 77 ;;
late) echo "ok 1 - x"; exec sleep 9 ;;
esac
END
check() { # tree
  (cd "$1" && .ci/check build) >out 2>err
  got=$?
}
check first
expect "tests that leak, are late or have no check fail" 1 "small:others / leaks;ERROR;TIMEOUT"
[ "$(tail -n 2 out)" = "1 skipped (named above), which are not counted:
6 passed, 3 failed" ] && grep -q '^build: ended before its last check, with status 0: small:others / planned$' out &&
  grep -q '^build: skipped: small:others / no-gpu$' out
result $? "and the last line counts them, in both folders" "$(tail -n 12 out)"

cp -R first second
sed "s/'leaks', 'planned', 'no-gpu', 'late'/'no-gpu'/" first/meson.build >second/meson.build
check second
expect "a tree that was copied with its build folder is configured anew" 0 "it was configured for $(cd first && pwd -P)"
[ "$(tail -n 1 out)" = "4 passed, 0 failed" ]
result $? "and its own tests are run" "$(tail -n 12 out)"
check second
[ "$got" -eq 0 ] && ! grep -q Configuring out
result $? "once" "exit status $got: $(cat out err)"

echo "error('broken')" >>first/meson.build
check first
expect "after a build file that cannot be read nothing of the run before is listed" 1 "no test was run;0 passed, 2 failed"
! grep -q 'small:others' out
result $? "as failed" "$(cat out)"
rm -rf first/build first/build-sanitize
check first
expect "a folder that cannot be configured is said and counted" 1 "broken;0 passed, 2 failed"
[ "$(tail -n 1 out)" = "0 passed, 2 failed" ]
result $? "in the last line" "$(cat out err)"

# A process that has ended but whose end nobody has asked for yet is not alive.
alive() { # PROCESS
  grep -q '^State:[[:space:]]*[^Z[:space:]]' "/proc/$1/status" 2>/dev/null
}
any_alive() { # PROCESS…
  for process in "$@"; do
    ! alive "$process" || return 0
  done
  return 1
}

# What is built beside the tests: one that would take a minute, and a test that waits for its end.
mkdir third
ln -s "$ci" third/.ci
cp first/meson_options.txt third/
cat >third/meson.build <<'END'
project('beside')
slow = custom_target('slow', output: 'slow', command: [find_program('sh'), '-c', 'echo $$ >"$1"; exec sleep 60', 'sh',
  meson.project_source_root() / 'pid'], build_by_default: false)
alias_target('readers', slow)
test('waits', find_program('sh'), args: ['-c', 'for i in $(seq 500); do [ ! -s "$1" ] || kill -0 $(cat "$1") || break; sleep 0.1; done',
  'sh', meson.project_source_root() / 'pid'], timeout: 90)
END
(cd third && exec .ci/check build) >out 2>err &
checking=$!
for _ in $(seq 500); do
  [ -s third/pid ] && break
  sleep 0.1
done
kill -KILL $checking
wait $checking
for _ in $(seq 50); do
  alive "$(cat third/pid)" || break
  sleep 0.1
done
[ -s third/pid ] && ! alive "$(cat third/pid)"
result $? "a check that is killed leaves nothing behind that builds" "$(cat out err)"
kill "$(cat third/pid)" 2>/dev/null

# A test that would take a minute: it ends within seconds of the check, be that asked to end or killed.
mkdir fourth
ln -s "$ci" fourth/.ci
cp first/meson_options.txt fourth/
cat >fourth/meson.build <<'END'
project('long')
test('sleeps', find_program('sh'), args: ['-c', 'echo $$ >"$1/new"; mv "$1/new" "$1/pid-test"; exec sleep 60', 'sh',
  meson.project_source_root()], timeout: 90)
alias_target('readers', custom_target('none', output: 'none', command: ['touch', '@OUTPUT@'], build_by_default: false))
END
# So does what configures both folders side by side, each saying its process.
mkdir fifth
ln -s "$ci" fifth/.ci
cp first/meson_options.txt fifth/
cat >fifth/meson.build <<'END'
project('long')
run_command('sh', '-c', 'echo $PPID >"$1/new-$2"; mv "$1/new-$2" "$1/pid-$2"; exec sleep 15', 'sh',
  meson.project_source_root(), meson.project_build_root().split('/')[-1], check: false)
END
said() { # FOLDER: the processes written there
  cat "$1"/pid-* 2>/dev/null
}
leaves_none() { # FOLDER SIGNAL WHAT COUNT: of a check there, when so many processes are written
  rm -f "$1"/pid-*
  (cd "$1" && rm -rf build build-sanitize && exec .ci/check build) >out 2>err &
  checking=$!
  for _ in $(seq 500); do
    [ "$(said "$1" | wc -l)" -lt "$4" ] || break
    sleep 0.1
  done
  kill "-$2" $checking
  # shellcheck disable=SC2046 # a word each
  set -- "$2" "$3" "$4" $(said "$1")
  what="a check that gets SIG$1 leaves no $2 behind" count=$3
  shift 3
  for _ in $(seq 100); do
    any_alive "$@" $checking || break
    sleep 0.1
  done
  [ $# -eq "$count" ] && ! any_alive "$@" $checking
  result $? "$what" "$(cat out err; for p in "$@" $checking; do grep -sE '^(Name|State|PPid)' "/proc/$p/status"; done)"
  kill "$@" 2>/dev/null
  wait $checking
}
for signal in TERM KILL; do
  leaves_none fourth $signal test 1
  leaves_none fifth $signal "meson setup" 2
done
finish
