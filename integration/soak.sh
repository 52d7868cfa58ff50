#!/bin/sh
# Runs the storms of TestFaultStorm for the given time, by default ten minutes:
# sh integration/soak.sh 1h
#
# Four deployments of real servers run for the whole time. In each round, with a seed of its own, the
# test injects random faults while clients work, and checks the replies that the clients got. It
# prints its progress once a minute. A violation ends the rounds of its deployment: the test prints
# the seed, and keeps the history, a picture of it, the faults and the logs in _artifacts.
# INTEGRATION_SEED=... repeats the faults of a run.
set -eu
cd "$(dirname "$0")/.."
export INTEGRATION_LONG=1 INTEGRATION_SOAK="${1:-10m}"
exec go test -count=1 -timeout 0 -parallel 4 -v -artifacts -run '^TestSoak$' ./integration/faults
