# Scripts read this file for install_missing, which installs packages on a Debian-like system, as
# root or with sudo. It waits while another process installs. It keeps packages from starting their
# servers: tests start their own, and the default port may be in use.
as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	else
		sudo "$@"
	fi
}

# apt runs apt-get, and repeats it for at most ten minutes while another process holds a lock of apt
# or dpkg. apt-get itself waits only for the lock of dpkg.
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
