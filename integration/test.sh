#!/bin/sh
# Runs every check and test of the project: sh integration/test.sh
#
# Needs Go (the version in go.mod, or newer) and, if redis-server or a C compiler is missing, a
# Debian-like system with root or sudo to install it. Continues after a failure, and lists all
# failures at the end. It repeats no test: a test that passes only when repeated is wrong.
set -eu
cd "$(dirname "$0")/.."

# step prints a heading for the output that follows.
step() { printf '\n== %s\n' "$*"; }

scratch=$(mktemp -d)
searches_run= # processes in the background
first_run=
second_run=
end() {
	for process in $searches_run $first_run $second_run; do
		kill "$process" 2>/dev/null || true
	done
}
trap 'end; rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

: >"$scratch/failed" # a line for each thing that failed

failed() { printf '%s\n' "$*" >>"$scratch/failed"; }

. integration/packages.sh

missing=
command -v redis-server >/dev/null && command -v redis-cli >/dev/null || missing="$missing redis-server"
# The race detector needs a C compiler, and so do masters with clocks of their own.
command -v cc >/dev/null || missing="$missing gcc libc6-dev"
# A test compares lockproxy with HAProxy, a relay that does not know the protocol.
command -v haproxy >/dev/null || missing="$missing haproxy"
# nft, ip and nsenter make networks that lose packets; only root may make these.
command -v nft >/dev/null || missing="$missing nftables"
command -v ip >/dev/null || missing="$missing iproute2"
command -v nsenter >/dev/null || missing="$missing util-linux"
# These two clients are always tested; the others are tested if they are installed.
/usr/bin/python3 -c 'import redis' 2>/dev/null || missing="$missing python3-redis"
[ -e /usr/include/hiredis/hiredis.h ] || missing="$missing libhiredis-dev"
# Unquoted, because each word is a package.
# shellcheck disable=SC2086
if [ -n "$missing" ]; then
	step "install$missing"
	install_missing $missing || failed "install$missing"
fi
# Laravel's locks are tested if these 4 MB of packages can be installed; otherwise their test is
# skipped.
if ! php -r 'exit(class_exists("Redis") && stream_resolve_include_path("Illuminate/Redis/autoload.php") ? 0 : 1);' 2>/dev/null; then
	step 'install PHP'
	install_missing php-cli php-redis php-illuminate-cache php-illuminate-redis || echo 'no PHP clients'
fi
export CGO_ENABLED=1 CI="${CI:-1}"

export QUORUM_FROM="${QUORUM_FROM:-1}"

# Four lanes run side by side: two of tests of real servers, which mostly wait; searches, which
# compute; and checks followed by the tests of all other packages. No test measures time, so none fails
# because the lanes compete. The lowest priority goes to the searches: they use the processor time
# that the tests of real servers leave.

# check runs a command that reports failure by its exit code.
check() {
	step "$*"
	nice -n 5 "$@" </dev/null || failed "$*"
}

# silent runs a command that reports failure by printing something.
silent() {
	step "$*"
	found=$(nice -n 5 "$@" || true)
	[ -z "$found" ] || { printf '%s\n' "$found" && failed "$*"; }
}

# failures collects the names of failed tests from the output of go test, one line per package.
failures() {
	awk '/^--- FAIL: /{ names = names " " $3 }
		/^FAIL\t/{ print $2 ":" (names == "" ? " did not build, or did not end" : names); names = "" }
		/^ok/{ names = "" }' "$1" >>"$scratch/failed"
}

# Node's clients and lock libraries are tested if npm is installed and reaches its registry; otherwise
# their tests are skipped.
if command -v npm >/dev/null; then
	for folder in integration/clients/node integration/adopt/node; do
		step "npm install in $folder"
		(cd "$folder" && timeout 120 npm install --no-package-lock --no-audit --no-fund) || echo 'no Node clients'
	done
fi

# The searches run without the race detector, which makes them ten times as slow; the other tests of
# their packages run with it. Most searches use one processor, so the packages run at once:
# one after the other they would end last, with a processor idle.
#
# Why 150 seeds: they are always the same, so they show only whether a change broke something that
# worked. mutations.sh shows how fast the simulation finds faults that were made on purpose. seeds.sh
# tries new seeds, and lets TestModel visit five times as many states as here.
alone='TestModel|TestModelOfLess|TestStorm|TestExplored|TestExploredMutations|TestNewDeploymentExplored|TestTidy|TestAtRandom|TestMutations|TestSimulation'
step 'go test, simulation and models: in the background'
QUORUM_SEEDS="${QUORUM_SEEDS:-150}" timeout 1h nice -n 10 go test -vet=off -p 3 -count=1 -timeout 40m -v -run "^($alone)\$" \
	./quorum/internal/admission ./quorum/internal/model/... ./quorum/internal/sim >"$scratch/searches" 2>&1 &
searches_run=$!

# Build each binary once for all packages that test it.
step go build
go build -race -o "$scratch/lockproxy-race" ./cmd/lockproxy && go build -o "$scratch/lockproxy" ./cmd/lockproxy || failed 'go build ./cmd/lockproxy'
export INTEGRATION_BINARY="${INTEGRATION_BINARY:-$scratch/lockproxy-race}" INTEGRATION_PLAIN_BINARY="${INTEGRATION_PLAIN_BINARY:-$scratch/lockproxy}"

# -count=1, because go test caches results without regard to the binary that these packages test.
# -vet=off, because go vet runs below.
go list ./... >"$scratch/packages"

# servers runs the tests of real servers in the packages of a pattern, one package after the other. It
# is called in the background, and ended by SIGTERM.
servers() {
	pattern=$1
	shift
	# Unquoted, because each word is a package.
	# shellcheck disable=SC2046
	timeout 1h go test -vet=off -count=1 -p 1 -parallel 6 -timeout 40m "$@" $(grep -E "/integration/($pattern)\$" "$scratch/packages") &
	trap "kill $!" TERM
	wait "$!"
}

# plainly is servers with a proxy without the race detector, which takes three times as much
# processor time.
plainly() { INTEGRATION_BINARY=$INTEGRATION_PLAIN_BINARY servers "$1"; }

step 'go test, tests of real servers: in the background'
plainly 'faults|load|operations' >"$scratch/first" 2>&1 &
first_run=$!
{
	status=0
	servers 'locks|sessions' -race || status=$?
	[ "$status" -ge 124 ] || plainly 'adopt|attacks|clients.*|docs|relay' || status=$?
	exit "$status"
} >"$scratch/second" 2>&1 &
second_run=$!

silent gofmt -l .
check go mod verify
check go vet ./...
# For systems that no test here runs on. The tests of real servers are left out: on Windows they cannot
# pause a process.
portable=$(grep -v '/integration/' "$scratch/packages")
for system in darwin/arm64 windows/amd64; do
	step "go vet for $system"
	# shellcheck disable=SC2086
	GOOS=${system%/*} GOARCH=${system#*/} CGO_ENABLED=0 nice -n 5 go vet $portable || failed "go vet for $system"
done
silent go fix -diff ./...
step go tool staticcheck ./...
go build -o "$scratch/staticcheck" honnef.co/go/tools/cmd/staticcheck || failed 'go build staticcheck'
check "$scratch/staticcheck" ./...

# Other modules are only built and vetted, because their tests take minutes, a browser or a network.
for module in $(git ls-files '*/go.mod' 2>/dev/null || find . -mindepth 2 -name go.mod -not -path '*/node_modules/*'); do
	module=$(dirname "$module")
	check go -C "$module" vet ./...
done
check go -C integration/bench test -vet=off .

# The tests of the page take half a minute. They run if Chromium is installed; this script does not
# install it.
if command -v chromium >/dev/null; then
	check go -C integration/browser test -count=1 -timeout 5m .
else
	step 'no Chromium: the page is not opened in a browser'
fi

# others runs go test with the given arguments.
others() {
	nice -n 5 timeout 1h go test -vet=off -count=1 -timeout 40m "$@" >"$scratch/log" 2>&1 || failures "$scratch/log"
	cat "$scratch/log"
}

# Packages without goroutines have no races.
step go test
pure='/(conf|goredis|plain|stat|commands/internal/adopt|quorum/internal/(dice|fake|wire)|resp/internal/scan|resp/respio)$'
tested='/integration/(adopt|attacks|clients.*|docs|faults|load|locks|operations|relay|sessions)$'
searched='/quorum/internal/(admission|model.*|sim)$'
# shellcheck disable=SC2046
others $(grep -E "$pure" "$scratch/packages")
# shellcheck disable=SC2046
others -race $(grep -vE "$tested|$pure|$searched" "$scratch/packages")
# shellcheck disable=SC2046
others -race -skip "^($alone)\$" $(grep -E "$searched" "$scratch/packages")

# finish waits for a go test in the background, and prints its output.
finish() {
	step "$1"
	status=0
	wait "$2" || status=$?
	cat "$3"
	[ "$status" -eq 0 ] || failures "$3"
	[ "$status" -lt 124 ] || failed "$1: did not end"
}

finish 'tests of real servers, first lane' "$first_run" "$scratch/first"
first_run=
finish 'tests of real servers, second lane' "$second_run" "$scratch/second"
second_run=
finish 'simulation and models' "$searches_run" "$scratch/searches"
searches_run=

if [ -s "$scratch/failed" ]; then
	step failed
	cat "$scratch/failed"
	exit 1
fi
step 'all passed'
