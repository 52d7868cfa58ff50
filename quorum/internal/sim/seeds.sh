#!/bin/sh
# Simulates new runs: as many as the argument says (1000), from a random seed on. All that fail are
# listed. Before that TestModel searches five times as many states as in the test command, and the
# model of locks is searched for the cases that take long.
set -eu
cd "$(dirname "$0")"
MODEL_STATES="${MODEL_STATES:-100000}" go test -count=1 -timeout 0 -v -run '^TestModel$' ../admission
MODEL_ALL=1 go test -count=1 -timeout 0 -run '^Test(EveryOrderOfMessages|Tidy)$' ../model
QUORUM_SEEDS="${1:-1000}" QUORUM_ALL=1 exec go test -count=1 -timeout 0 -v -run '^TestSimulation$' .
