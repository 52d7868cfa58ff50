#!/bin/sh
# Runs every check and test of the project: sh integration/test.sh
#
# Needs Go (the version go.mod names, or newer) and, if redis-server or a C compiler is missing, a Debian-like system
# with root or sudo to install it. Takes about ten minutes on two cores. Ends with the first check that fails.
set -eu
cd "$(dirname "$0")/.."

# step names what comes next, so that a failure far down in the output has a heading.
step() { printf '\n== %s\n' "$*"; }

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
	install_missing $missing
fi
export CGO_ENABLED=1 CI="${CI:-1}"

# Node's clients are tried where npm is there and reaches its registry; their tests say so if not.
if command -v npm >/dev/null; then
	step npm install
	(cd integration/clients/node && timeout 120 npm install --no-package-lock --no-audit --no-fund) || echo 'no Node clients'
fi

step gofmt
unformatted=$(gofmt -l .)
if [ -n "$unformatted" ]; then
	printf 'not formatted:\n%s\n' "$unformatted"
	exit 1
fi

step go mod verify
go mod verify

step go vet
go vet ./...

step go fix
fixes=$(go fix -diff ./... || true)
if [ -n "$fixes" ]; then
	printf '%s\n' "$fixes"
	exit 1
fi

step staticcheck
go tool staticcheck ./...

# What drives a browser is a module of its own. Its tests take half a minute: they run where Chromium is installed, which nothing here does.
step go vet, integration/browser
(cd integration/browser && go vet .)

step go build
go build -o /dev/null ./cmd/lockproxy

# run_tests runs the tests of a package, so many side by side. Those that fail run once more, one at a time with nothing beside them: some measure
# times, which a machine that is busy with other things spoils. What fails then has failed, and a data race has at once. Both outputs are shown.
# -count=1: what integration/ tests is the binary that it builds, which the cache of test results knows nothing of.
run_tests() {
	status=0
	go test -race -count=1 -parallel "$2" -skip "^($alone)\$" -timeout 40m "$1" >"$scratch/log" 2>&1 || status=$?
	cat "$scratch/log"
	[ "$status" -ne 0 ] || return 0
	failed=$(sed -n 's/^--- FAIL: \(Test[A-Za-z0-9_]*\).*/\1/p' "$scratch/log" | sort -u)
	count=$(printf '%s\n' "$failed" | grep -c Test || true)
	if [ "$count" -eq 0 ] || [ "$count" -gt 12 ] || grep -q 'DATA RACE' "$scratch/log"; then
		return "$status"
	fi
	step "once more, alone:" $failed
	go test -race -count=1 -parallel 1 -timeout 40m -run "^($(printf '%s' "$failed" | tr '\n' '|'))\$" "$1"
}

scratch=$(mktemp -d)
searches=
trap '[ -z "$searches" ] || kill "$searches" 2>/dev/null; rm -rf "$scratch"' EXIT

# A short run of each fuzz target, before the tests so that these have the last word.
grep -rl --include='*_test.go' '^func Fuzz' . | while read -r file; do
	sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file" | while read -r target; do
		step "fuzz $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-3s}" "$(dirname "$file")" </dev/null
	done
done

if command -v chromium >/dev/null; then
	step go test, integration/browser
	(cd integration/browser && { go test -count=1 -timeout 5m . || go test -count=1 -timeout 5m .; })
else
	step 'no Chromium: the page is not opened in a browser'
fi

# What searches states and simulates seeds needs a processor for itself and does without the race detector, which others are run with: it takes
# what the tests of real servers leave over.
alone='TestExclusionModel|TestModel|TestModelOfLess|TestExplored|TestExploredMutations|TestNewDeploymentExplored'
step 'go test, simulation and models: in the background'
QUORUM_SEEDS="${QUORUM_SEEDS:-2000}" MODEL_STATES="${MODEL_STATES:-100000}" nice -n 19 \
	go test -p 1 -count=1 -timeout 40m -v -run "^(TestSimulation|$alone)\$" ./quorum ./quorum/internal/admission >"$scratch/searches" 2>&1 &
searches=$!

step go test
for package in $(go list ./...); do
	case $package in
	*/integration) run_tests "$package" 4 ;; # most of them wait most of the time
	*) run_tests "$package" 2 ;;
	esac
done

step 'simulation and models'
status=0
wait "$searches" || status=$?
searches=
cat "$scratch/searches"
exit "$status"
