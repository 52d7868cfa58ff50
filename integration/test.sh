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
runs= # processes in the background
trap 'kill $runs 2>/dev/null || :; rm -rf "$scratch"' EXIT
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

# Three runs of go test share the processors, because most tests wait most of the time: searches,
# which compute, with a lower priority; the packages under the race detector; and all others.

# check runs a command that reports failure by its exit code.
check() {
	step "$*"
	"$@" </dev/null || failed "$*"
}

# silent runs a command that reports failure by printing something.
silent() {
	step "$*"
	found=$("$@" || true)
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

# Build the binary once for all packages that test it.
step go build
go build -o "$scratch/lockproxy" ./cmd/lockproxy || failed 'go build ./cmd/lockproxy'
export INTEGRATION_BINARY="${INTEGRATION_BINARY:-$scratch/lockproxy}"

go list ./... >"$scratch/packages"

# The searches run without the race detector, which makes them ten times as slow. Most use one
# processor, so the packages run at once: one after the other they would end last, with a processor
# idle. They depend on nothing but their code and QUORUM_*, so go test may cache their results.
#
# Why 60 seeds: they are always the same, so they show only whether a change broke something that
# worked. mutations.sh shows how fast the simulation finds faults that were made on purpose. seeds.sh
# tries new seeds, and searches more of the models. TestSeedReplays has a command of its own: see
# docs/contributing.md.
step 'go test, simulation and models: in the background'
QUORUM_SEEDS="${QUORUM_SEEDS:-60}" timeout 1h nice -n 5 go test -vet=off -ldflags=-w -p 3 -timeout 40m -v \
	./quorum/internal/admission ./quorum/internal/model/... ./quorum/internal/sim >"$scratch/searches" 2>&1 &
searches=$! runs=$!

silent gofmt -l .
check go mod verify
check go vet ./...
# For systems that no test here runs on. The tests of real servers are left out: on Windows they cannot
# pause a process.
portable=$(grep -v '/integration/' "$scratch/packages")
for system in darwin/arm64 windows/amd64; do
	step "go vet for $system"
	# shellcheck disable=SC2086
	GOOS=${system%/*} GOARCH=${system#*/} CGO_ENABLED=0 go vet $portable || failed "go vet for $system"
done
silent go fix -diff ./...
check go tool staticcheck ./...

# Other modules are only built and vetted, because their tests take minutes, a browser or a network.
for module in $(git ls-files '*/go.mod' 2>/dev/null || find . -mindepth 2 -name go.mod -not -path '*/node_modules/*'); do
	module=$(dirname "$module")
	check go -C "$module" vet ./...
done
check go -C integration/bench test -vet=off .

# -count=1, because go test caches results without regard to the binary and the servers that most
# packages test. -vet=off, because go vet has run. -ldflags=-w leaves out what only a debugger needs,
# and some forty programs are linked.
tests='timeout 1h go test -vet=off -ldflags=-w -count=1 -timeout 20m'

# A program with the race detector takes three times as much processor time, so it is used where
# goroutines share state. docs/contributing.md has the command that tests the whole program with it.
# Without GORACE each program sleeps for a second at its end.
shared='/(admin|commands|commands/internal/(queue|session)|quorum|quorum/internal/(clock|master|notify)|resp|resp/internal/(netpoll|protocol)|upstream)$'
searched='/quorum/internal/(admission|model.*|sim)$'
longest='/integration/(faults|clients|operations|relay)$' # these begin first

# Unquoted, because each word is a package.
# shellcheck disable=SC2046
{
	GORACE=atexit_sleep_ms=20 $tests -race -p 2 $(grep -E "$shared" "$scratch/packages") >"$scratch/raced" 2>&1 &
	raced=$!
	$tests -p 3 -parallel 4 $(grep -E "$longest" "$scratch/packages") \
		$(grep -vE "$shared|$searched|$longest" "$scratch/packages") >"$scratch/others" 2>&1 &
	others=$!
}
runs="$searches $raced $others"

# finish waits for a process, whose output is in the file.
finish() {
	step "$1"
	status=0
	wait "$2" || status=$?
	cat "$3"
	[ "$status" -eq 0 ] || failures "$3"
	[ "$status" -lt 124 ] || failed "$1: did not end"
}
finish 'go test' "$others" "$scratch/others"
finish 'go test -race' "$raced" "$scratch/raced"
finish 'simulation and models' "$searches" "$scratch/searches"
runs=

if [ -s "$scratch/failed" ]; then
	step failed
	cat "$scratch/failed"
	exit 1
fi
step 'all passed'
