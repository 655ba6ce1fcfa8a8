#!/usr/bin/env bash
# first_process.sh LEATD: a worker that is process 1 of its namespace, as in a container, takes the
# exit status of orphans, stops in order upon SIGTERM, and ends with what its daemon ended with.
set -euo pipefail
leatd=$1
work=$(mktemp -d)
outer=
clean() {
  local code=$?
  [ -z "$outer" ] || kill -KILL "$outer" 2>/dev/null || true  # its namespace goes with it
  [ $code -eq 0 ] || tail -n 20 "$work"/*.log >&2
  rm -rf "$work"
  exit $code
}
trap clean EXIT
fail() {
  echo "first_process: $*" >&2
  exit 1
}
eventually() {  # WHAT COMMAND...
  local what=$1 tries
  shift
  for ((tries = 0; tries < 600; tries++)); do
    "$@" && return
    sleep 0.05
  done
  fail "expected $what"
}

own=() join=()  # users other than root get a namespace of users, too
if [ "$(id -u)" -ne 0 ]; then
  own=(--user --map-root-user)
  join=(--user --preserve-credentials)
fi
if ! unshare "${own[@]}" --pid --fork --mount --mount-proc true 2>"$work/why"; then
  echo "first_process: skipped: no namespace of processes: $(cat "$work/why")"
  exit 0
fi

# start NAME: sets `outer` to unshare's process and `first` to the worker's.
start() {
  unshare "${own[@]}" --pid --fork --kill-child --mount --mount-proc -- "$leatd" worker \
    --name "$1" --master 127.0.0.1:1 --http off --data 127.0.0.1:0 --threads 1 \
    --state-dir "$work/$1" --ready-fd 3 3>"$work/$1.ready" >/dev/null 2>"$work/$1.log" &
  outer=$!
  eventually "the worker to be ready" test -s "$work/$1.ready"
  first=$(cat "/proc/$outer/task/$outer/children")
  first=${first// /}
}
inside() { nsenter -t "$first" --pid --mount "${join[@]}" -- "$@"; }
# A zombie has its name still.
no_sleep() { ! inside sh -c 'grep -qs "^sleep$" /proc/[0-9]*/comm'; }

start orphans
# Each `sleep` outlives the shell that started it, and becomes a child of process 1.
inside sh -c 'for i in 1 2 3 4 5 6 7 8; do sleep 0.2 & done'
eventually "no orphan to stay as a zombie" no_sleep
kill -TERM "$first"
code=0
wait "$outer" || code=$?
outer=
[ $code -eq 0 ] || fail "expected exit code 0 after SIGTERM, received $code"
grep -q 'received SIGTERM: stopping' "$work/orphans.log" || fail "expected the daemon to be told of SIGTERM"
grep -q ' stopped$' "$work/orphans.log" || fail "expected the daemon to stop in order"

start killed
# From outside: a process of the namespace would be killed with it, perhaps before it returns.
daemon=$(cat "/proc/$first/task/$first/children")
kill -KILL "${daemon// /}"
code=0
wait "$outer" || code=$?
outer=
[ $code -eq 137 ] || fail "expected exit code 137 after SIGKILL of the daemon, received $code"
