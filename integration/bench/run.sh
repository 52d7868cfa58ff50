#!/bin/sh
# Measures lockproxy beside HAProxy, twemproxy, redsync and slock: sh integration/bench/run.sh
#
# Needs Go and, if redis-server, HAProxy or nutcracker (twemproxy) is missing, a Debian-like system with root or sudo to install
# them. Takes about half an hour on two cores. Prints Markdown; a whole run also writes it to RESULT.md beside this file.
#
# For the shape in two minutes, for parts of it, or for one figure while tuning (doc.go has all settings):
#   BENCH_QUICK=1 sh integration/bench/run.sh
#   BENCH_ONLY=relay BENCH_QUICK=1 sh integration/bench/run.sh
#   BENCH_ONLY=cpu BENCH_ROUNDS=3 BENCH_SECONDS=1 sh integration/bench/run.sh
#   BENCH_ONLY=relay BENCH_SUBJECTS=haproxy,lockproxy BENCH_CASES=get64-p16 sh integration/bench/run.sh
#   BENCH_ONLY=locks BENCH_SLOCK=/path/to/slock sh integration/bench/run.sh
#   BENCH_ONLY=kinds BENCH_ROUNDS=3 sh integration/bench/run.sh
#   BENCH_ONLY=adopt BENCH_ROUNDS=3 sh integration/bench/run.sh
#   BENCH_ONLY=load BENCH_ROUNDS=1 sh integration/bench/run.sh
#   BENCH_ONLY=cpu BENCH_BASE=/path/to/earlier/lockproxy sh integration/bench/run.sh
#   BENCH_ONLY=versions BENCH_BASE=/path/to/earlier/lockproxy sh integration/bench/run.sh
set -eu
cd "$(dirname "$0")"

. ../packages.sh

missing=
command -v redis-server >/dev/null && command -v redis-benchmark >/dev/null || missing="$missing redis-server redis-tools"
command -v haproxy >/dev/null || missing="$missing haproxy"
command -v nutcracker >/dev/null || missing="$missing nutcracker"
# Unquoted, because each word is a package.
# shellcheck disable=SC2086
[ -z "$missing" ] || install_missing $missing >&2

scratch=$(mktemp -d)
bench=
trap 'rm -rf "$scratch"' EXIT
trap '[ -z "$bench" ] || { kill -TERM "$bench" || :; wait "$bench" || :; }; exit 130' INT TERM HUP
go build -o "$scratch/bench" .
if [ -z "${BENCH_LOCKPROXY:-}" ]; then
	go -C ../.. build -o "$scratch/lockproxy" ./cmd/lockproxy
	BENCH_LOCKPROXY=$scratch/lockproxy
fi
# Only a whole run is a result.
if [ -z "${BENCH_ONLY:-}${BENCH_QUICK:-}${BENCH_CASES:-}${BENCH_SUBJECTS:-}${BENCH_BASE:-}" ]; then
	BENCH_RESULT=${BENCH_RESULT:-$PWD/RESULT.md}
fi
export BENCH_LOCKPROXY BENCH_RESULT="${BENCH_RESULT:-}"
# In the background, so that any end of this script ends the measurement, which ends its servers.
TMPDIR=$scratch "$scratch/bench" &
bench=$!
wait "$bench"
