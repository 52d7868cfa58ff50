#!/bin/sh
# Runs the storms of TestFaultStorm for as long as asked, ten minutes by default: sh integration/soak.sh 1h
#
# Four deployments of real servers live all the time; round after round, each with a seed of its own, they are broken at
# random while clients work on them, and what the clients were told is checked. What happened so far is printed once a
# minute. A violation ends the rounds of its deployment; its seed is printed, and the history, a picture of it, the faults
# and the logs are kept in _artifacts. INTEGRATION_SEED=... repeats the faults of a run.
set -eu
cd "$(dirname "$0")/.."
export INTEGRATION_SOAK="${1:-10m}"
exec go test -count=1 -timeout 0 -parallel 4 -v -artifacts -run '^TestSoak$' ./integration/faults
