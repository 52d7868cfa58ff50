#!/bin/sh
# Looks for new inputs with each fuzz target for a while: sh integration/fuzz.sh [time] [package]
#
# The time is 10s for each target unless it is given, like 10m. The package is one like ./resp; without
# it, all targets run. Inputs that fail are written to testdata/fuzz of their package; go test runs
# these from then on.
set -eu
cd "$(dirname "$0")/.."

status=0
for file in $(grep -rl --include='*_test.go' '^func Fuzz' "${2:-.}"); do
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file"); do
		printf '\n== %s\n' "$target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "${1:-10s}" "./$(dirname "$file")" || status=1
	done
done
exit $status
