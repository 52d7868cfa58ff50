#!/bin/sh
# Runs every check and test of the project: sh integration/test.sh
#
# Needs Go (the version go.mod names, or newer) and, if redis-server or a C compiler is missing, a Debian-like system
# with root or sudo to install it. Takes about ten minutes on two cores, and up to fifteen where others use them. Runs
# all there is, whatever fails; what failed is listed last.
set -eu
cd "$(dirname "$0")/.."

# step names what comes next, so that a failure far down in the output has a heading.
step() { printf '\n== %s\n' "$*"; }

scratch=$(mktemp -d)
searches= # processes in the background
lane=
tests=
end() {
	for process in $searches $lane $tests; do
		kill "$process" 2>/dev/null || true
	done
}
trap 'end; rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Lists, a line each: what failed; packages with tests that are to run once more; tests that passed then.
: >"$scratch/failed"
: >"$scratch/again"
: >"$scratch/passed"

failed() { printf '%s\n' "$*" >>"$scratch/failed"; }

. integration/packages.sh

missing=
command -v redis-server >/dev/null && command -v redis-cli >/dev/null || missing="$missing redis-server"
command -v cc >/dev/null || missing="$missing gcc libc6-dev" # for the race detector, and for masters' own clocks
command -v haproxy >/dev/null || missing="$missing haproxy" # a relay that knows nothing of Redis, to compare with
command -v nft >/dev/null || missing="$missing nftables" # for networks that lose packets, which only root can make
command -v ip >/dev/null || missing="$missing iproute2"
command -v nsenter >/dev/null || missing="$missing util-linux"
/usr/bin/python3 -c 'import redis' 2>/dev/null || missing="$missing python3-redis" # two clients of many: others are tried where they are
[ -e /usr/include/hiredis/hiredis.h ] || missing="$missing libhiredis-dev"
# The names are to be split: each is a package.
# shellcheck disable=SC2086
if [ -n "$missing" ]; then
	step "install$missing"
	install_missing $missing || failed "install$missing"
fi
export CGO_ENABLED=1 CI="${CI:-1}"

# The simulation's seeds are always the same here: what fails was changed. New ones are tried by sh quorum/internal/sim/seeds.sh.
export QUORUM_FROM="${QUORUM_FROM:-1}"

# Three things run side by side: checks, and then tests of packages; tests of real servers, which often wait; and searches,
# which compute all the time. Tests go before checks, and checks before searches: some tests measure times.

# check runs a command, which fails by its exit code.
check() {
	step "$*"
	nice -n 5 "$@" </dev/null || failed "$*"
}

# silent runs a command, which fails by what it prints.
silent() {
	step "$*"
	found=$(nice -n 5 "$@" || true)
	[ -z "$found" ] || { printf '%s\n' "$found" && failed "$*"; }
}

# Node's clients are tried where npm is there and reaches its registry; their tests say so if not.
if command -v npm >/dev/null; then
	step npm install
	(cd integration/clients/node && timeout 120 npm install --no-package-lock --no-audit --no-fund) || echo 'no Node clients'
fi

# One binary of each kind for all packages that test it.
step go build
go build -race -o "$scratch/lockproxy-race" ./cmd/lockproxy && go build -o "$scratch/lockproxy" ./cmd/lockproxy || failed 'go build ./cmd/lockproxy'
export INTEGRATION_BINARY="${INTEGRATION_BINARY:-$scratch/lockproxy-race}" INTEGRATION_PLAIN_BINARY="${INTEGRATION_PLAIN_BINARY:-$scratch/lockproxy}"

# What searches states and simulates seeds does without the race detector, which others are run with: it takes what the rest
# leaves over. timeout ends it with all that it has started.
alone='TestModel|TestModelOfLess|TestStorm|TestExplored|TestExploredMutations|TestNewDeploymentExplored|TestTidy|TestAtRandom|TestMutations'
step 'go test, simulation and models: in the background'
QUORUM_SEEDS="${QUORUM_SEEDS:-1000}" MODEL_STATES="${MODEL_STATES:-100000}" timeout 1h nice -n 19 \
	go test -vet=off -p 1 -count=1 -timeout 40m -v -run "^(TestSimulation|$alone)\$" ./quorum/internal/admission ./quorum/internal/model ./quorum/internal/sim >"$scratch/searches" 2>&1 &
searches=$!

# failing prints the tests that failed in an output, in a line.
failing() { sed -n 's/^--- FAIL: \(\(Test\|Example\|Fuzz\)[A-Za-z0-9_]*\).*/\1/p' "$1" | sort -u | tr '\n' ' ' | sed 's/ $//'; }

# run_tests log n package... runs the tests of packages one after the other, n tests of a package side by side. Those that
# fail run once more in the end, one at a time with nothing beside them: some measure times, which a machine that is busy
# with other things spoils. A data race has failed at once, and so has a history that shows a lock broken.
# -count=1: what integration/ tests is a binary, which the cache of test results knows nothing of. -vet=off: it was run.
run_tests() {
	log=$1
	parallel=$2
	shift 2
	for package; do
		status=0
		case $package in
		*/quorum/internal/*) skip="^($alone)\$" ;;
		*) skip='^$' ;;
		esac
		timeout 1h nice -n "$niceness" go test -race -vet=off -count=1 -parallel "$parallel" -skip "$skip" -timeout 40m "$package" >"$log" 2>&1 &
		tests=$!
		wait "$tests" || status=$?
		tests=
		cat "$log"
		[ "$status" -ne 0 ] || continue
		names=$(failing "$log")
		if [ -z "$names" ]; then
			failed "$package: did not build, or did not end"
		elif [ "$(printf '%s' "$names" | wc -w)" -gt 12 ] || grep -qE 'DATA RACE|violation' "$log"; then
			failed "$package: $names"
		else
			printf '%s %s\n' "$package" "$names" >>"$scratch/again"
		fi
	done
}

# Tests of real servers often wait: so many side by side. Their packages run one after the other, as each has
# tests that measure, which run before its others.
go list ./... >"$scratch/packages"
servers='/integration/(attacks|clients.*|compare|docs|faults|load|locks|operations|relay|sessions)$'
step 'go test, tests of real servers: in the background'
(
	trap end EXIT
	trap 'exit 143' TERM
	lane=
	searches=
	niceness=0
	# The names are to be split: each is a package.
	# shellcheck disable=SC2046
	run_tests "$scratch/log-servers" 5 $(grep -E "$servers" "$scratch/packages")
) >"$scratch/servers" 2>&1 &
lane=$!

silent gofmt -l .
check go mod verify
check go vet ./...
silent go fix -diff ./...
check go tool staticcheck ./...
check go -C integration/browser vet . # a module of its own, for the sake of what drives a browser

# A short run of each fuzz target. It builds its package once more.
grep -rl --include='*_test.go' '^func Fuzz' . >"$scratch/fuzzed" || true
while read -r file; do
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file"); do
		check go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-3s}" "$(dirname "$file")"
	done
done <"$scratch/fuzzed"

# Its tests take half a minute: they run where Chromium is installed, which nothing here does.
if command -v chromium >/dev/null; then
	step go test, integration/browser
	(cd integration/browser && { nice -n 5 go test -count=1 -timeout 5m . || nice -n 5 go test -count=1 -timeout 5m .; }) || failed integration/browser
else
	step 'no Chromium: the page is not opened in a browser'
fi

step go test
niceness=5 # the tests of real servers measure times
# shellcheck disable=SC2046
run_tests "$scratch/log" 2 $(grep -vE "$servers" "$scratch/packages")
wait "$lane" || failed 'tests of real servers: did not end'
lane=
cat "$scratch/servers"

step 'simulation and models'
status=0
wait "$searches" || status=$?
searches=
cat "$scratch/searches"
[ "$status" -eq 0 ] || failed "simulation and models: $(failing "$scratch/searches")"

while read -r package names; do
	step "once more, alone: $package $names"
	if go test -race -vet=off -count=1 -parallel 1 -timeout 40m -run "^($(printf '%s' "$names" | tr ' ' '|'))\$" "$package" >"$scratch/log" 2>&1 </dev/null; then
		printf '%s: %s\n' "$package" "$names" >>"$scratch/passed"
	else
		failed "$package: $(failing "$scratch/log")"
	fi
	cat "$scratch/log"
done <"$scratch/again"

if [ -s "$scratch/passed" ]; then
	step 'failed once, and passed alone'
	cat "$scratch/passed"
fi
if [ -s "$scratch/failed" ]; then
	step failed
	cat "$scratch/failed"
	exit 1
fi
step 'all passed'
