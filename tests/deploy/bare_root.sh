# Bare Debian roots, for the tests of packages and containers to source. As root.
#
# The first call of make_bare_root makes one with debootstrap, which needs a mirror, and keeps it in
# build/bare-root: later ones copy it.

bare_cache=${LEAT_BARE_ROOT:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/build/bare-root}
bare_mirror=${LEAT_DEBIAN_MIRROR:-http://deb.debian.org/debian}

# make_bare_root FOLDER PACKAGE...: a Debian 12 with nothing but what is essential, and apt. The
# packages are not installed; they and what they need lie where apt looks before it loads them.
make_bare_root() {
  local folder=$1
  shift
  local key
  key=$(printf '%s\n' "$@" | sha256sum | cut -c 1-12)
  if [ ! -e "$bare_cache/base/.done" ]; then
    rm -rf "$bare_cache/base"
    mkdir -p "$bare_cache"
    debootstrap --variant=minbase bookworm "$bare_cache/base" "$bare_mirror" \
      >"$bare_cache/debootstrap.log" 2>&1 || {
      tail -n 20 "$bare_cache/debootstrap.log" >&2
      return 1
    }
    touch "$bare_cache/base/.done"
  fi
  if [ ! -e "$bare_cache/$key/.done" ]; then
    rm -rf "${bare_cache:?}/$key"
    cp -a "$bare_cache/base" "$bare_cache/$key"
    rm "$bare_cache/$key/.done"
    cp /etc/resolv.conf "$bare_cache/$key/etc/resolv.conf"
    {
      chroot "$bare_cache/$key" apt-get -q update &&
        chroot "$bare_cache/$key" apt-get -q -y install --download-only "$@"
    } >"$bare_cache/$key.log" 2>&1 || {
      tail -n 20 "$bare_cache/$key.log" >&2
      return 1
    }
    touch "$bare_cache/$key/.done"
  fi
  cp -a "$bare_cache/$key/." "$folder"
}

# in_root FOLDER COMMAND...: runs it there as root, as the first process of namespaces of its own,
# without a network but the loopback. Nothing that it starts outlives it.
in_root() {
  local folder=$1
  shift
  # shellcheck disable=SC2016 # expanded there
  unshare --mount --pid --fork --kill-child --net --ipc --uts -- bash -euo pipefail -c '
    ip link set lo up
    hostname bare
    cd "$1"
    shift
    mount --make-rprivate /
    mount -t proc proc proc
    mount -t tmpfs tmpfs run
    mount -t tmpfs -o mode=755 tmpfs dev
    mkdir dev/shm dev/pts
    mount -t tmpfs tmpfs dev/shm
    for device in null zero full random urandom tty; do
      touch dev/$device
      mount --bind /dev/$device dev/$device
    done
    ln -s /proc/self/fd dev/fd
    exec chroot . /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 "$@"
  ' in_root "$folder" "$@"
}
