#!/bin/sh
# test_deb.sh FOLDER: the Debian packages that `make deb` made there, which runs this: what is in them, what they need,
# and that what they unpack works from any folder (TAP).
[ $# -eq 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
. "$(dirname "$0")/../fixtures/tap.sh"
packages=$(absolute "$1")
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 99

deb() { # package: its file
  echo "$packages/$1"_*.deb
}
mkdir elsewhere all
dpkg -x "$(deb stepsim)" alone >out 2>err
got=$?
stepsim=$work/alone/usr/bin/stepsim
expect "stepsim is unpacked" 0 ""
cp alone/usr/share/stepsim/models/gpt2.json alone/usr/share/stepsim/models/only-here.json
(cd elsewhere && env -u STEPSIM_DATA HOME=/proc/nowhere "$stepsim" memory --model only-here --cluster dgx-h100 --gpus 8) >out 2>err
got=$?
expect "it works without a home, from another folder, on its own data" 0 "only-here: 124439808 parameters;fits"
"$stepsim" --version >out && [ "$(cat out)" = "stepsim $(dpkg-deb -f "$(deb stepsim)" Version)" ]
result $? "its version is the package's" "$(cat out)"
! dpkg-deb -f "$(deb stepsim)" Depends | grep -iE 'mpi|blas'
result $? "it needs neither MPI nor BLAS" "$(dpkg-deb -f "$(deb stepsim)" Depends)"
for file in man/man1/stepsim-plan.1.gz bash-completion/completions/stepsim zsh/vendor-completions/_stepsim \
  fish/vendor_completions.d/stepsim.fish doc/stepsim/README.md doc/stepsim/copyright stepsim/plots/look.gp \
  stepsim/topologies/frameworks/megatron-core.yaml stepsim/topologies/published/rows.yaml; do
  [ -s "alone/usr/share/$file" ] || echo "no $file"
done >problems
[ ! -s problems ]
result $? "pages, completion, documentation and data are in it" "$(cat problems)"
for package in "$packages"/*.deb; do
  dpkg -x "$package" all
  dpkg-deb --fsys-tarfile "$package" | tar -t | grep -v '/$' >>files
done
sort files | uniq -d >problems
[ ! -s problems ]
result $? "no file is in two packages" "$(cat problems)"
if [ -x all/usr/bin/stepreal ]; then
  [ -s all/usr/share/man/man1/stepreal-run.1.gz ] && dpkg-deb -f "$(deb stepreal)" Depends | grep -q 'mpi.*blas' &&
    [ -n "$(find all/usr/lib -name stepsim-ranks.so)" ] && (cd elsewhere && ../all/usr/bin/stepreal --version) >out 2>&1
  result $? "stepreal and sweeps under MPI are in a package of their own" "$(cat out)"
fi
if apt-get --version >/dev/null 2>&1; then
  apt-get --simulate install "$packages"/*.deb >out 2>&1
  result $? "apt can install what they depend on" "$(cat out)"
else
  result 0 "apt can install what they depend on # SKIP there is no apt"
fi
if command -v lintian >/dev/null; then
  lintian --allow-root "$packages"/*.deb >out 2>&1
  ! grep '^[EW]:' out
  result $? "lintian finds nothing wrong" "$(cat out)"
else
  result 0 "lintian finds nothing wrong # SKIP it is not installed"
fi
finish
