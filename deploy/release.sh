#!/bin/sh
# Makes the files of a release: sh deploy/release.sh version [folder]. The default folder is dist.
#
#   lockproxy_1.2.3_linux_amd64             a static program; also for arm64, macOS and Windows
#   lockproxy_1.2.3_linux_amd64.cdx.json    the modules in it (CycloneDX)
#   lockproxy_1.2.3_amd64.deb               a Debian package; also for arm64
#   SHA256SUMS                              for sha256sum -c
#
# Two runs on one revision with one version of Go give the same bytes. Times come from
# SOURCE_DATE_EPOCH; without it, from the last commit. Needs the Go module proxy, or its cache.
set -eu
cd "$(dirname "$0")/.."
version=${1-}
version=${version#v}
case $version in
'' | [!0-9]* | *[!0-9A-Za-z.+~-]*)
	echo 'usage: sh deploy/release.sh version [folder]; a version begins with a digit: 1.2.3' >&2
	exit 2
	;;
esac
folder=${2:-dist}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
unset GOFLAGS GOOS GOARCH GOAMD64 GOARM64 GOEXPERIMENT # what differs between machines
umask 022

mkdir -p "$folder"
rm -f "$folder"/lockproxy_* "$folder/SHA256SUMS"
folder=$(cd "$folder" && pwd)
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
GOBIN=$tools CGO_ENABLED=0 go install -trimpath github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.9.0
written=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)

for target in linux_amd64 linux_arm64 darwin_amd64 darwin_arm64 windows_amd64; do
	program=$folder/lockproxy_${version}_$target
	list=$program.cdx.json
	[ "$target" != windows_amd64 ] || program=$program.exe
	GOOS=${target%_*} GOARCH=${target#*_} CGO_ENABLED=0 go build -trimpath -tags grpcnotrace -buildvcs=false \
		-ldflags "-s -w -X main.version=v$version" -o "$program" ./cmd/lockproxy
	"$tools/cyclonedx-gomod" bin -json -noserial -std -version "v$version" "$program" |
		sed "s/\"timestamp\": \"[^\"]*\"/\"timestamp\": \"$written\"/" >"$list"
	[ -s "$list" ]
done
for processor in amd64 arm64; do
	GOARCH=$processor sh deploy/debian/build.sh "$version" "$folder"
done
(cd "$folder" && sha256sum lockproxy_* >SHA256SUMS && cat SHA256SUMS)
