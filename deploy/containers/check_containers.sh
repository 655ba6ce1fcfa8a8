# For check: the cluster of compose.yaml in containers.
export LEAT_IMAGE=localhost/leat LEAT_SECRETS=$work/secrets LEAT_DATA=/usr/share/datasets
compose() { podman-compose -p leat-check -f "$here/compose.yaml" "$@" >>"$work/compose.log" 2>&1; }

up() { compose up -d || { cat "$work/compose.log" >&2; return 1; }; }
down() {
  compose down -t 5 || true
  podman rm --all --force >/dev/null 2>&1 || true
}
logs() {
  local name
  for name in leat-master leat-worker-1 leat-worker-2 leat-worker-3; do
    podman logs --tail 15 $name 2>&1
  done
}
pid_of() { podman inspect --format '{{.State.Pid}}' "$1"; }
inside() {
  local name=$1
  shift
  podman exec "$name" "$@"
}
# SIGTERM, and what podman does besides goes on behind.
stop() { podman stop --time 20 "$1" >"$work/stop.log" 2>&1 & }
revive() {
  eventually "$1 to have ended" sh -c "! podman top $1"
  podman start "$1" >/dev/null
}
