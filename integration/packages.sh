# install_missing, for scripts that read this file: installs the packages given, of a Debian-like system, as root or with sudo. A server that a
# package would start is kept from starting: tests start their own, and its port may belong to somebody.
as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	else
		sudo "$@"
	fi
}

install_missing() {
	guard=/usr/sbin/policy-rc.d
	made=
	if [ ! -e "$guard" ]; then
		printf '#!/bin/sh\nexit 101\n' | as_root tee "$guard" >/dev/null
		as_root chmod +x "$guard"
		made=yes
	fi
	status=0
	as_root apt-get update -q || status=$?
	[ "$status" -ne 0 ] ||
		as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@" || status=$?
	if [ -n "$made" ]; then
		as_root rm -f "$guard"
	fi
	return "$status"
}
