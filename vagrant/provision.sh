#!/bin/sh
# provision.sh LAB_ID HOSTS PACKAGES: runs as root on a node, when it is made.
set -eu
lab_id=$1 hosts=$2 packages=$3

missing=
for package in $packages; do
    dpkg-query --show --showformat='${Status}' "$package" 2>/dev/null | grep -q ' installed$' ||
        missing="$missing $package"
done
if [ -n "$missing" ]; then
    # What a package brings may not start by itself: tests start, stop and kill the systems.
    printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d
    chmod 755 /usr/sbin/policy-rc.d
    apt-get update
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends $missing
fi

printf '127.0.0.1 localhost\n::1 localhost ip6-localhost\n%s\n' "$hosts" > /etc/hosts
# Faults are refused on a host without it.
printf '%s\n' "$lab_id" > /etc/dstest-lab
