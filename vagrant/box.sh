#!/bin/sh
# box.sh ROOTFS PUBLIC_KEY BOX: packs a Debian root directory, which stays as it is, into a box for
# Vagrant's provider lxc. A user `vagrant` with sudo logs in by the key; host keys are made at the
# first start.
set -eu
rootfs=$1 public_key=$2 box=$3

work=$(mktemp -d "$box.XXXXXX")
root=$work/rootfs
clean() {
    mountpoint -q "$root" && umount "$root"
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM HUP
mkdir "$work/upper" "$work/work" "$root"
mount -t overlay overlay -o "lowerdir=$rootfs,upperdir=$work/upper,workdir=$work/work" "$root"

# No password fits `*`, and unlike `!` it does not lock the account.
chroot "$root" useradd --create-home --shell /bin/sh --password '*' vagrant
install -d -m 700 "$root/home/vagrant/.ssh"
install -m 600 "$public_key" "$root/home/vagrant/.ssh/authorized_keys"
chroot "$root" chown -R vagrant:vagrant /home/vagrant/.ssh
printf 'vagrant ALL=(ALL) NOPASSWD: ALL\n' > "$root/etc/sudoers.d/vagrant"
chmod 440 "$root/etc/sudoers.d/vagrant"
mkdir -p "$root/etc/systemd/system/ssh.service.d"
cat > "$root/etc/systemd/system/ssh.service.d/host-keys.conf" <<'UNIT'
[Service]
ExecStartPre=
ExecStartPre=/bin/sh -c 'key=/etc/ssh/ssh_host_ed25519_key; \
    test -e "$$key" || ssh-keygen -q -t ed25519 -N "" -f "$$key"'
UNIT

# The provider's template strips one component, and wants the `./` before it.
tar -C "$work" -I 'gzip -1' -cf "$work/rootfs.tar.gz" ./rootfs
printf '{"provider": "lxc", "version": "1.0.0"}\n' > "$work/metadata.json"
cat > "$work/lxc-config" <<'CONFIG'
lxc.include = /usr/share/lxc/config/common.conf
lxc.apparmor.profile = unconfined
lxc.mount.auto = proc:mixed sys:mixed cgroup:mixed
lxc.mount.entry = /dev/fuse dev/fuse none bind,create=file,optional 0 0
lxc.signal.halt = SIGRTMIN+3
lxc.tty.max = 0
CONFIG
tar -C "$work" -czf "$work/box" metadata.json lxc-config rootfs.tar.gz
mv "$work/box" "$box"
