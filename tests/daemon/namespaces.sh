#!/usr/bin/env bash
# namespaces.sh BIN_DIR: three network namespaces with an address each, a worker in each of them and
# the master in the first, joined by a bridge. A job of three workers must end with the weights of
# one process; and when a worker is cut off in the middle of a job, the job must say so, and whom it
# lost, within the time of detection. Needs root; exits with 77 where namespaces cannot be had.
set -euo pipefail
bin=$1
id=leat$$
work=$(mktemp -d)
pids=()
clean() {
  local code=$? pid n
  [ $code -eq 0 ] || tail -n 20 "$work"/*.log >&2 2>/dev/null || true
  for pid in "${pids[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  for n in 1 2 3; do ip netns del "$id-$n" 2>/dev/null || true; done
  ip link del "$id" 2>/dev/null || true
  rm -rf "$work"
  exit $code
}
fail() { echo "namespaces: $*" >&2; exit 1; }

net=10.$((RANDOM % 200 + 20)).$((RANDOM % 250 + 1))
make_namespaces() {
  local n
  ip link add "$id" type bridge && ip link set "$id" up || return
  for n in 1 2 3; do
    ip netns add "$id-$n" && ip link add "v$n-$$" type veth peer name eth0 netns "$id-$n" &&
      ip link set "v$n-$$" master "$id" up && ip -n "$id-$n" addr add "$net.$n/24" dev eth0 &&
      ip -n "$id-$n" link set eth0 up && ip -n "$id-$n" link set lo up || return
  done
  ip netns exec "$id-1" nft list ruleset >/dev/null
}
trap clean EXIT
if [ "$(id -u)" -ne 0 ] || ! make_namespaces 2>"$work/why"; then
  echo "namespaces: skipped: needs root, 'ip netns' and nft: $(tail -n 1 "$work/why" 2>/dev/null)"
  exit 77
fi

head -c 32 /dev/urandom | base64 >"$work/secret"
chmod 600 "$work/secret"

# daemon NAMESPACE NAME ARGUMENTS...
daemon() {
  local namespace=$1 name=$2
  shift 2
  ip netns exec "$id-$namespace" "$bin/leatd" "$@" --state-dir "$work/$name" \
    --secret-file "$work/secret" --ready-fd 3 3>"$work/$name.ready" >/dev/null 2>"$work/$name.log" &
  pids+=($!)
  for _ in $(seq 200); do
    [ -s "$work/$name.ready" ] && return
    sleep 0.1
  done
  fail "$name did not start"
}
leat() {
  local verb=$1
  shift
  ip netns exec "$id-1" "$bin/leat" "$verb" --master "$net.1:17461" --secret-file "$work/secret" "$@"
}

daemon 1 master master --listen "$net.1:17461" --http 127.0.0.1:0
for n in 1 2 3; do
  daemon "$n" "w$n" worker --name "w$n" --master "$net.1:17461" --http off \
    --data "$net.$n:17463" --threads 1 --set datasets.data="$2"
done
for _ in $(seq 200); do
  [ "$(leat nodes --json | grep -o '"READY"' | wc -l)" = 3 ] && break
  sleep 0.1
done

hash_of() { sed -n 's/.*"weights_sha256": *"\([0-9a-f]\{64\}\)".*/\1/p' | tail -n 1; }
job=$2/job.yaml
expected=$("$bin/leat" train "$job" --output "$work/run" --set num_workers=1 --set "data.root=$2" \
  --json 2>/dev/null | hash_of)
got=$(leat submit "$job" --wait --json --set num_workers=3 --set data.root=data | hash_of)
[ -n "$expected" ] || fail "no hash of one process"
[ "$got" = "$expected" ] || fail "expected the weights $expected, got '$got'"
echo "namespaces: 3 workers of 3 addresses: $got, as one process"

id_of_job=$(leat submit "$job" --set num_workers=3 --set data.root=data --set steps=100000000)
for _ in $(seq 300); do
  leat show "$id_of_job" --json | grep -q '"RUNNING"' && break
  sleep 0.1
done
ip netns exec "$id-3" nft -f - <<'N'
table inet cut {
  chain in { type filter hook input priority 0; iif "eth0" drop; }
  chain out { type filter hook output priority 0; oif "eth0" drop; }
}
N
cut=$(date +%s%N)
until leat show "$id_of_job" --json | grep -qE '"(RECOVERING|FAILED|QUEUED)"'; do
  [ $(($(date +%s%N) - cut)) -lt 10000000000 ] || fail "the cut was not noticed in 10 s"
  sleep 0.05
done
took=$((($(date +%s%N) - cut) / 1000000))
said=$(leat show "$id_of_job" --json)
grep -q 'w3' <<<"$said" || fail "the culprit w3 is not named: $said"
[ "$took" -le 3600 ] || fail "expected the cut to be noticed within 3 s, it took $took ms"
echo "namespaces: the cut was noticed after $took ms: $(sed -n 's/.*"reason": *"\([^"]*\)".*/\1/p' <<<"$said" | head -n 1)"
leat cancel "$id_of_job" >/dev/null || true
