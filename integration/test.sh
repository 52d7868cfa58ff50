#!/bin/sh
# Runs every check and test of the project: sh integration/test.sh
#
# Needs Go (the version go.mod names, or newer) and, if redis-server or a C compiler is missing, a Debian-like system
# with root or sudo to install it. Takes about ten minutes on two cores. Runs all there is, whatever fails; what failed
# is listed last.
set -eu
cd "$(dirname "$0")/.."

# step names what comes next, so that a failure far down in the output has a heading.
step() { printf '\n== %s\n' "$*"; }

scratch=$(mktemp -d)
searches=
trap '[ -z "$searches" ] || kill "$searches" 2>/dev/null; rm -rf "$scratch"' EXIT

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

# The simulation's seeds are always the same here: what fails was changed. New ones are tried by sh quorum/seeds.sh.
export QUORUM_FROM="${QUORUM_FROM:-1}"

# check runs a command, which fails by its exit code.
check() {
	step "$*"
	"$@" </dev/null || failed "$*"
}

# silent runs a command, which fails by what it prints.
silent() {
	step "$*"
	found=$("$@" || true)
	[ -z "$found" ] || { printf '%s\n' "$found" && failed "$*"; }
}

# Node's clients are tried where npm is there and reaches its registry; their tests say so if not.
if command -v npm >/dev/null; then
	step npm install
	(cd integration/clients/node && timeout 120 npm install --no-package-lock --no-audit --no-fund) || echo 'no Node clients'
fi

silent gofmt -l .
check go mod verify
check go vet ./...
silent go fix -diff ./...
check go tool staticcheck ./...
check go -C integration/browser vet . # a module of its own, for the sake of what drives a browser

# A short run of each fuzz target.
grep -rl --include='*_test.go' '^func Fuzz' . >"$scratch/fuzzed" || true
while read -r file; do
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file"); do
		check go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-3s}" "$(dirname "$file")"
	done
done <"$scratch/fuzzed"

# Its tests take half a minute: they run where Chromium is installed, which nothing here does.
if command -v chromium >/dev/null; then
	step go test, integration/browser
	(cd integration/browser && { go test -count=1 -timeout 5m . || go test -count=1 -timeout 5m .; }) || failed integration/browser
else
	step 'no Chromium: the page is not opened in a browser'
fi

# What searches states and simulates seeds needs a processor for itself and does without the race detector, which others are run with: it takes
# what the tests of real servers leave over.
alone='TestExclusionModel|TestModel|TestModelOfLess|TestExplored|TestExploredMutations|TestNewDeploymentExplored|TestKindsExplored.*|TestKindsAtRandom|TestKindsMutations'
step 'go test, simulation and models: in the background'
QUORUM_SEEDS="${QUORUM_SEEDS:-2000}" MODEL_STATES="${MODEL_STATES:-100000}" nice -n 19 \
	go test -p 1 -count=1 -timeout 40m -v -run "^(TestSimulation|$alone)\$" ./quorum ./quorum/internal/admission >"$scratch/searches" 2>&1 &
searches=$!

# failing prints the tests that failed in an output, in a line.
failing() { sed -n 's/^--- FAIL: \(\(Test\|Example\|Fuzz\)[A-Za-z0-9_]*\).*/\1/p' "$1" | sort -u | tr '\n' ' ' | sed 's/ $//'; }

# run_tests runs the tests of a package, so many side by side. Those that fail run once more in the end, one at a time with nothing beside
# them: some measure times, which a machine that is busy with other things spoils. A data race has failed at once,
# and so has a history that shows a lock broken.
# -count=1: what integration/ tests is a binary, which the cache of test results knows nothing of.
run_tests() {
	status=0
	go test -race -count=1 -parallel "$2" -skip "^($alone)\$" -timeout 40m "$1" >"$scratch/log" 2>&1 || status=$?
	cat "$scratch/log"
	[ "$status" -ne 0 ] || return 0
	tests=$(failing "$scratch/log")
	if [ -z "$tests" ]; then
		failed "$1: did not build, or did not end"
	elif [ "$(printf '%s' "$tests" | wc -w)" -gt 12 ] || grep -qE 'DATA RACE|violation' "$scratch/log"; then
		failed "$1: $tests"
	else
		printf '%s %s\n' "$1" "$tests" >>"$scratch/again"
	fi
}

step go test
go list ./... >"$scratch/packages"
for package in $(grep -v /integration/ "$scratch/packages"); do
	run_tests "$package" 2
done
# One binary of each kind for all packages that test it.
go build -race -o "$scratch/lockproxy-race" ./cmd/lockproxy && go build -o "$scratch/lockproxy" ./cmd/lockproxy || failed 'go build ./cmd/lockproxy'
export INTEGRATION_BINARY="${INTEGRATION_BINARY:-$scratch/lockproxy-race}" INTEGRATION_PLAIN_BINARY="${INTEGRATION_PLAIN_BINARY:-$scratch/lockproxy}"
for package in $(grep /integration/ "$scratch/packages"); do # one after the other: each has tests that measure, and run before its others
	run_tests "$package" 5 # most of them wait most of the time
done

step 'simulation and models'
status=0
wait "$searches" || status=$?
searches=
cat "$scratch/searches"
[ "$status" -eq 0 ] || failed "simulation and models: $(failing "$scratch/searches")"

while read -r package tests; do
	step "once more, alone: $package $tests"
	if go test -race -count=1 -parallel 1 -timeout 40m -run "^($(printf '%s' "$tests" | tr ' ' '|'))\$" "$package" >"$scratch/log" 2>&1 </dev/null; then
		printf '%s: %s\n' "$package" "$tests" >>"$scratch/passed"
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
