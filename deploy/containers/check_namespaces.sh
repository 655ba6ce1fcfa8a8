# For check, where no container can run: each daemon of the cluster as process 1 of namespaces of
# its own, over the root file system of the image, which it cannot write; all on one loopback.
net=leat-check-$$
image=$work/image
declare -A outer=()

up() {
  local container
  container=$(buildah from localhost/leat)
  cp -a "$(buildah mount "$container")" "$image"
  buildah rm "$container" >/dev/null
  mkdir -p "$image/run/secrets" "$image/dev/shm"
  touch "$image"/dev/{null,zero,random,urandom}
  ip netns add "$net"
  ip -n "$net" link set lo up
  local name
  for name in leat-master leat-worker-1 leat-worker-2 leat-worker-3; do
    mkdir -p "$work/state/$name"
    chown 17460:17460 "$work/state/$name"
    begin $name
  done
}
down() {
  local name
  exec 2>/dev/null  # bash tells of each that was killed
  for name in "${!outer[@]}"; do kill -KILL "${outer[$name]}" 2>/dev/null || true; done
  wait 2>/dev/null || true
  ip netns del "$net" 2>/dev/null || true
}
logs() { tail -n 15 "$work"/leat-*.log; }

arguments_of() {
  local n=${1##*-}
  case $1 in
    leat-master) echo "master --secret-file /run/secrets/cluster" ;;
    leat-worker-1) echo "worker --name worker-1 --secret-file /run/secrets/cluster" ;;
    *) echo "worker --name worker-$n --secret-file /run/secrets/cluster --http off --data 127.0.0.$n:17463" ;;
  esac
  [ "$1" = leat-master ] || echo "--set datasets.fashion-mnist=/data/fashion-mnist"
}
begin() {  # NAME
  # shellcheck disable=SC2016,SC2046 # expanded there; words
  ip netns exec "$net" unshare --mount --pid --fork --kill-child -- bash -euo pipefail -c '
    image=$1 state=$2 secrets=$3
    shift 3
    mount --make-rprivate /
    mount --bind "$image" "$image"
    mount --bind "$state" "$image/var/lib/leat"
    mount --bind "$secrets" "$image/run/secrets"
    mount --bind -o ro /usr/share/datasets "$image/data"
    for device in null zero random urandom; do mount --bind /dev/$device "$image/dev/$device"; done
    mount -t tmpfs tmpfs "$image/dev/shm"
    mount -t tmpfs tmpfs "$image/tmp"
    mount -t proc proc "$image/proc"
    mount -o remount,ro,bind "$image"
    exec env -i PATH=/usr/sbin:/usr/bin HOME=/var/lib/leat LEAT_MASTER_STATE_DIR=/var/lib/leat/master \
      LEAT_WORKER_STATE_DIR=/var/lib/leat/worker \
      setpriv --no-new-privs chroot --userspec=17460:17460 --groups= "$image" \
      /usr/bin/leatd "$@"
  ' begin "$image" "$work/state/$1" "$work/secrets" $(arguments_of "$1") >>"$work/$1.log" 2>&1 &
  outer[$1]=$!
}
pid_of() { tr -d ' ' <"/proc/${outer[$1]}/task/${outer[$1]}/children"; }
inside() {
  local name=$1
  shift
  nsenter --target "$(pid_of "$name")" --mount --pid --net --root --wd -S 17460 -G 17460 -- "$@"
}
stop() { kill -TERM "$(pid_of "$1")"; }
revive() {
  wait "${outer[$1]}" 2>/dev/null || true
  begin "$1"
}
