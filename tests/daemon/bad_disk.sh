#!/usr/bin/env bash
# bad_disk.sh BIN_DIR JOB_DIR: a master on a disk of its own, which is full, and then read-only. It
# starts, shows and gives out what it has, refuses what it cannot do, and goes on when there is room.
# In a mount namespace; exits with 77 where there are none.
set -euo pipefail
bin=$1
if [ "${3:-}" != inside ]; then
  for flags in -m -Urm; do
    unshare $flags mount -t tmpfs none /mnt 2>/dev/null || continue
    exec unshare $flags bash "$0" "$1" "$2" inside
  done
  echo "bad_disk: skipped: no mount namespace can be had"
  exit 77
fi
work=$(mktemp -d)
master=
clean() {
  local code=$?
  [ $code -eq 0 ] || tail -n 20 "$work"/*.log >&2 2>/dev/null || true
  for pid in $master ${worker:-}; do
    kill -KILL "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  umount "$work/disk" 2>/dev/null || true
  rm -rf "$work"
  exit $code
}
trap clean EXIT
fail() { echo "bad_disk: $*" >&2; exit 1; }
address() { sed -n 's/.*"listen": *"\([^"]*\)".*/\1/p' "$work/master.ready"; }
leat() {
  local verb=$1
  shift
  "$bin/leat" "$verb" --master "$(address)" "$@"
}
# start_master NAME: its log is NAME.log.
start_master() {
  : >"$work/master.ready"
  "$bin/leatd" master --listen 127.0.0.1:0 --http off --state-dir "$work/disk/state" \
    --ready-fd 3 3>"$work/master.ready" >/dev/null 2>"$work/$1.log" &
  master=$!
  for _ in $(seq 600); do
    [ -s "$work/master.ready" ] && return
    kill -0 "$master" 2>/dev/null || fail "the master did not start: $1"
    sleep 0.1
  done
  fail "the master is not ready: $1"
}
stop_master() {
  kill -TERM "$master"
  wait "$master" || fail "the master did not stop in order"
  master=
}
# shows_all: what the master can read, it serves.
shows_all() {
  leat ps --all --json >"$work/out"
  grep -q "\"$job\"" "$work/out" || fail "ps does not list $job"
  leat show "$job" | grep -q "$hash" || fail "show does not give the weights of $job"
  leat logs "$job" | grep -q 'weights sha256' || fail "logs does not give the log of $job"
  rm -rf "$work/fetched"
  leat fetch "$job" -o "$work/fetched" >/dev/null || fail "$job cannot be fetched"
  cmp "$work/fetched/weights.safetensors" "$work/weights" || fail "other weights were fetched"
}
# refuses WORDS: a submit, with these.
refuses() {
  leat submit "$2/job.yaml" --set data.root=data >"$work/out" 2>&1 && fail "a job was taken"
  grep -q "$1" "$work/out" || fail "expected '$1' of a submit, received: $(cat "$work/out")"
}

mkdir "$work/disk"
mount -t tmpfs -o size=64m,nr_inodes=2000 none "$work/disk"
start_master first
"$bin/leatd" worker --name w0 --master "$(address)" --http off --data 127.0.0.1:0 --threads 1 \
  --state-dir "$work/w0" --set "datasets.data=$2" >/dev/null 2>"$work/w0.log" &
worker=$!
leat submit "$2/job.yaml" --set data.root=data --wait --json >"$work/out" || fail "no first job"
job=$(sed -n 's/.*"id": *"\([^"]*\)".*/\1/p' "$work/out" | tail -n 1)
hash=$(sed -n 's/.*"weights_sha256": *"\([0-9a-f]*\)".*/\1/p' "$work/out" | tail -n 1)
cp "$work/disk/state/jobs/$job/weights.safetensors" "$work/weights"
kill -KILL "$worker"
stop_master

dd if=/dev/zero of="$work/disk/filler" bs=1M 2>/dev/null && fail "the disk is not full"
start_master full
grep -q 'the journal cannot be written' "$work/full.log" || fail "a full disk is not logged"
shows_all
refuses 'disk is full\|No space left' "$2"
leat cluster | grep -q 'Journal .*full' || fail "cluster does not say that the disk is full"
rm "$work/disk/filler"
for _ in $(seq 100); do
  leat submit "$2/job.yaml" --set data.root=data >"$work/out" 2>&1 && break
  sleep 0.1
done
grep -q '^[a-z].*-' "$work/out" || fail "no job is taken though there is room: $(cat "$work/out")"
stop_master
echo "bad_disk: full: shown, fetched, refused, and taken when there was room"

# Not even an empty file can be made: the log of the journal, which an orderly stop removed.
[ ! -e "$work/disk/state/journal.sqlite-wal" ] || fail "an orderly stop left the journal's log"
dd if=/dev/zero of="$work/disk/filler" bs=1M 2>/dev/null && fail "the disk is not full"
mkdir "$work/disk/many"
for i in $(seq 4000); do
  (: >"$work/disk/many/$i") 2>/dev/null || break
done
[ "$i" -lt 4000 ] || fail "there is room for more files"
start_master no_file
grep -q 'cannot be written' "$work/no_file.log" || fail "a disk without room for a file is not logged"
shows_all
refuses 'disk is full\|No space left' "$2"
leat cluster | grep -q 'Journal .*no room left' || fail "cluster does not say that there is no room"
stop_master
rm -r "$work/disk/filler" "$work/disk/many"
start_master room
leat submit "$2/job.yaml" --set data.root=data >"$work/out" 2>&1 || fail "no job: $(cat "$work/out")"
stop_master
echo "bad_disk: no room for a file: shown, fetched, refused, and taken when there was room"

mount -o remount,ro "$work/disk"
start_master read_only
grep -q 'read-only' "$work/read_only.log" || fail "a read-only disk is not logged"
shows_all
refuses 'ead-only' "$2"
leat cluster | grep -q 'Journal .*read-only' || fail "cluster does not say that it is read-only"
stop_master
echo "bad_disk: read-only: shown, fetched, refused"
