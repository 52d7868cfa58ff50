#!/bin/sh
# Makes the Debian package: sh deploy/debian/build.sh [version [folder]]. The default folder is build.
set -eu
cd "$(dirname "$0")/../.."
VERSION=${1:-0.0.0}
folder=${2:-build}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
BUILT=$(mktemp -d)
trap 'rm -rf "$BUILT"' EXIT
GOARCH=$(go env GOARCH)
export VERSION BUILT GOARCH
# grpcnotrace leaves unused parts of OpenTelemetry's dependencies out of the binary
CGO_ENABLED=0 go build -trimpath -tags grpcnotrace -buildvcs=false -ldflags "-s -w -X main.version=v$VERSION" \
	-o "$BUILT/lockproxy" ./cmd/lockproxy
host=$BUILT/lockproxy
if [ "$GOARCH" != "$(go env GOHOSTARCH)" ]; then # what prints the completions must run here
	host=$BUILT/host
	GOARCH= CGO_ENABLED=0 go build -o "$host" ./cmd/lockproxy
fi
for shell in bash zsh fish; do
	"$host" completion "$shell" >"$BUILT/$shell"
done
sh deploy/debian/manual.sh "$host" "$VERSION" | gzip -9n >"$BUILT/lockproxy.1.gz"
(cd deploy/check && GOARCH= go build -o "$BUILT/nfpm" github.com/goreleaser/nfpm/v2/cmd/nfpm)
"$BUILT/nfpm" package --config deploy/debian/nfpm.yaml --packager deb --target "$folder"
