#!/bin/sh
# Breaks the rules of the quorum one by one, and shows that the simulation finds each within a minute: how long it took (the
# median of QUORUM_TIMES runs, 1 if not set), and the fault. Arguments: part of the names, for some only.
set -eu
cd "$(dirname "$0")"
QUORUM_MUTATIONS="${1:-all}" exec go test -count=1 -timeout 0 -v -run '^TestMutationsAreFound$' .
