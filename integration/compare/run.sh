#!/bin/sh
# Compares lockproxy with redsync, node-redlock and others under the same faults: sh integration/compare/run.sh
#
# Needs what integration/test.sh needs, and Node with npm for node-redlock, which is left out without them. Takes about five
# minutes on two cores. Prints the tables, and writes them to RESULT.md beside this file. Only the rows of the other kinds of
# locks, in a minute; the rest of RESULT.md stays:
#   COMPARE_ONLY=kinds sh integration/compare/run.sh
set -eu
cd "$(dirname "$0")"

# The libraries go into a directory of their own, away from the sources.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
COMPARE_NODE= COMPARE_NODE_MISSING=
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
	COMPARE_NODE_MISSING="node or npm not found"
else
	cp -R node "$scratch"
	COMPARE_NODE=$scratch/node
	if ! (cd "$COMPARE_NODE" && npm install --no-audit --no-fund --loglevel=error >&2); then
		COMPARE_NODE_MISSING="npm install failed"
	fi
fi
[ -z "$COMPARE_NODE_MISSING" ] || echo "without node-redlock: $COMPARE_NODE_MISSING" >&2

export COMPARE_NODE COMPARE_NODE_MISSING COMPARE_RESULT="$PWD/RESULT.md"
go test -run '^TestTable' -count=1 -parallel 6 -timeout 20m . >&2
cat RESULT.md
