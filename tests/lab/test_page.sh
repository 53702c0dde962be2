#!/bin/sh
# The lab's page in a headless browser: test_page.sh STEPSIM [EDITS|bench]. Skipped where there is no Chromium or no Node.
set -eu
chromium=""
for name in chromium chromium-browser google-chrome; do
  [ -n "$chromium" ] || chromium=$(command -v "$name" || true)
done
if [ -z "$chromium" ]; then
  echo "1..0 # SKIP no Chromium: the page was not opened (Debian's package chromium)"
  exit 0
fi
if ! node -e 'process.exit(Number(process.versions.node.split(".")[0] < 18))' 2>/dev/null; then
  echo "1..0 # SKIP no Node of 18 or later: the page was not opened (Debian's package nodejs)"
  exit 0
fi
stepsim=$(realpath "$1")
folder=$(mktemp -d)
cleanup() { # the browser may still be writing there
  for _ in 1 2 3 4 5; do
    ! rm -rf "$folder" 2>/dev/null || return 0
    sleep 1
  done
}
trap cleanup EXIT
node "$(dirname "$0")/page.mjs" "$chromium" "$stepsim" "$folder" "${2:-40}"
