# install_missing, for scripts that read this file: installs the packages given, of a Debian-like system, as root or with
# sudo. It waits while somebody else installs. A server that a package would start is kept from starting: tests start their
# own, and its port may belong to somebody.
as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	else
		sudo "$@"
	fi
}

# apt runs apt-get, again while another process holds a lock of apt or dpkg, for ten minutes at most. apt-get waits by itself
# for the lock of dpkg only.
apt() {
	said=$(mktemp)
	tries=0
	while :; do
		status=0
		as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=600 "$@" 2>"$said" || status=$?
		cat "$said" >&2
		tries=$((tries + 1))
		if [ "$status" -eq 0 ] || [ "$tries" -ge 120 ] || ! grep -qE 'Could not get lock|Unable to lock' "$said"; then
			break
		fi
		sleep 5
	done
	rm -f "$said"
	return "$status"
}

install_missing() {
	guard=/usr/sbin/policy-rc.d
	made=
	if [ ! -e "$guard" ]; then
		printf '#!/bin/sh\nexit 101\n' | as_root tee "$guard" >/dev/null
		as_root chmod +x "$guard"
		made=yes
	fi
	result=0
	apt update && apt install -y --no-install-recommends "$@" || result=$?
	if [ -n "$made" ]; then
		as_root rm -f "$guard"
	fi
	return "$result"
}
