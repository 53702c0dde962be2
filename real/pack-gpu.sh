#!/bin/sh
# Packs what validate-gpu.sh needs into one file, for a machine that has only a GPU and CUDA's libraries: the programs,
# the shared libraries they use (except the C library's, the compiler's and CUDA's), mpirun, descriptions of GPUs and
# frameworks, and the scripts. There (Python unpacks where tar finds no xz):
#   { tar -xf FILE || python3 -m tarfile -e FILE; } && sh gpu/validate-gpu.sh gpu OUT_FOLDER
# ARCHITECTURE is the compute capability of that GPU without the point, 90 for an H200. A build without code for it is
# refused; on a machine without such a GPU, build it with
#   meson configure BUILD -Dgpu_architectures=90 && ninja -C BUILD
# (meson setup leaves a folder that exists as it is configured). Without ARCHITECTURE, all that the build has is packed.
# usage: real/pack-gpu.sh BUILD_FOLDER FILE.tar.xz [ARCHITECTURE]   (FILE.tar.gz: twice as large; FILE.tar: not compressed)
set -eu
export LC_ALL=C # for awk's number format
if [ $# -lt 2 ] || [ $# -gt 3 ]; then
  echo "usage: $0 BUILD_FOLDER FILE.tar.xz [ARCHITECTURE]" >&2
  exit 2
fi
build=$1
file=$2
architecture=${3:-}
source=$(cd "$(dirname "$0")/.." && pwd)
programs="sim/stepsim real/stepreal tests/test_cuda"
for program in $programs; do
  [ -x "$build/$program" ] && continue
  echo "$0: found no program $build/$program; expected a folder built by ninja with -Dcuda=enabled" >&2
  exit 2
done
case $architecture in
*[!0-9]*)
  echo "$0: ARCHITECTURE: found \"$architecture\", expected a compute capability without the point, such as 90" >&2
  exit 2
  ;;
esac
# for later architectures, the driver compiles the last one's PTX whenever a program starts
built=$(grep -o 'code=sm_[0-9a-z]*' "$build/build.ninja" | sed 's/.*_//; s/[a-z]*$//' | sort -un | paste -sd, -)
case ,$built, in
*",${architecture:-$built},"*) ;;
*)
  echo "$0: found code for compute capability ${built:-none} in $build, expected $architecture:" \
    "meson configure $build -Dgpu_architectures=$architecture && ninja -C $build" >&2
  exit 2
  ;;
esac
case $file in
*.xz) tools="strip objdump ldd tar xz" ;;
*) tools="strip objdump ldd tar" ;;
esac
for tool in $tools; do
  command -v "$tool" >/dev/null && continue
  echo "$0: found no $tool on PATH, without which nothing can be packed" >&2
  exit 2
done
[ -e "$file" ] && is_there=yes || is_there=no
if ! (: >>"$file") 2>/dev/null; then
  echo "$0: cannot write $file" >&2
  exit 2
fi
[ "$is_there" = yes ] || rm "$file" # until it is packed
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/gpu/libs" "$folder/gpu/bin" "$folder/gpu/topologies"

for program in $programs; do
  mkdir -p "$folder/gpu/$(dirname "$program")"
  cp "$build/$program" "$folder/gpu/$program"
  strip "$folder/gpu/$program"
done
cp -R "$source/topologies/gpus" "$source/topologies/frameworks" "$folder/gpu/topologies/"
cp "$source/real/validate-gpu.sh" "$source/real/gpu_page.awk" "$source/real/crosscheck.py" "$folder/gpu/"
echo "$built" >"$folder/gpu/ARCHITECTURES"

# MPICH's mpirun starts its proxy from its own folder; Open MPI's has many parts and is not packed
launcher=$(readlink -f "$(command -v mpirun || echo /)")
proxy=$(dirname "$launcher")/hydra_pmi_proxy
set -- "$build/sim/stepsim" "$build/real/stepreal" "$build/tests/test_cuda"
if [ -x "$proxy" ]; then
  cp -L "$launcher" "$folder/gpu/bin/mpirun"
  cp -L "$proxy" "$folder/gpu/bin/hydra_pmi_proxy"
  set -- "$@" "$launcher" "$proxy"
else
  echo "no mpirun is packed: $launcher is not MPICH's" >&2
fi

ldd "$@" >"$folder/needed"
awk '$2 == "=>" && $3 ~ /^\// { print $3 }' "$folder/needed" | sort -u |
  grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv|libstdc\+\+|libgcc_s|libcuda|libcudart|libcublas|libcublasLt|libnccl|ld-linux[^/]*)\.so' |
  while read -r library; do
    cp -L "$library" "$folder/gpu/libs/"
    strip --strip-unneeded "$folder/gpu/libs/$(basename "$library")" 2>/dev/null || true
  done

oldest=$(find "$folder/gpu" -type f -size +8k -exec objdump -T {} + 2>/dev/null | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
echo "for a C library of version ${oldest#GLIBC_} or later"
echo "code for compute capability $built"
XZ_OPT=${XZ_OPT:--6 -T0} tar -C "$folder" -caf "$file" gpu
echo "$file: $(($(wc -c <"$file") / 1024)) KiB"
