#!/bin/sh
# Ends of messages by SimGrid and by the network here, on the same platform: at most 0.1 % apart.
# usage: test_simgrid.sh [SIMGRID_PEER] HOSTS_OF_RING…      without SIMGRID_PEER: skips
set -u
if [ ! -x "$1" ]; then
  echo "1..0 # SKIP SimGrid is not installed (Debian: libsimgrid-dev)"
  exit 0
fi
peer=$1
shift
count=0
status=0

compare() {
  count=$((count + 1))
  if line=$("$peer" "$@" 2>&1); then
    echo "ok $count - $line"
  else
    echo "not ok $count - $* differs or fails"
    echo "$line" | sed 's/^/# /'
    status=1
  fi
}

for hosts; do
  compare ring "$hosts"
done
compare flows-crossbar 64
compare flows-tree 64
compare flows-shared 64
compare pipeline 8 64
compare pipeline-shared 16 64
compare pipeline-tree 16 64
compare pipeline-tree 32 64
echo "1..$count"
exit "$status"
