#!/usr/bin/env bash
# namespaces.sh BIN_DIR JOB_DIR [CUTS [SEED]]: three network namespaces with an address each, a
# worker in each of them and the master in the first, joined by a bridge. A job of three workers must
# end with the weights of one process. Then CUTS times (1) a worker is cut off in the middle of such
# a job, as the seed has it: both ways, one way, or from another worker alone. The job must say so
# within the time of detection, and name the worker that it lost; a node that hears no other keeps
# nothing of the job; and when the network is whole again, the job ends with the same weights. Needs
# root; exits with 77 on a system that does not allow namespaces.
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
  daemon "$n" "w$n" worker --name "w$n" --master "$net.1:17461" --set adopt_within=1s --http off \
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


long=(--set steps=240 --set checkpoint.every_steps=20 --set num_workers=3 --set data.root=data)
long_expected=$("$bin/leat" train "$job" --output "$work/long" --set steps=240 \
  --set checkpoint.every_steps=20 --set num_workers=1 --set "data.root=$2" --json 2>/dev/null | hash_of)

now_ms() { echo $(($(date +%s%N) / 1000000)); }
# Over HTTP, on loopback: looks as often as these would pass what one address may connect.
show() {
  ip netns exec "$id-1" bash -c 'exec 3<>"/dev/tcp/${1%:*}/${1##*:}" &&
    printf "GET /api/v1/jobs/%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" "$2" >&3 &&
    cat <&3' _ "$(sed -n 's/.*"http": *"\([^"]*\)".*/\1/p' "$work/master.ready")" "$1"
}
step_of() { sed -n 's/.*"step": *\([0-9]*\).*/\1/p' | head -n 1; }
runner_on() { pgrep -P "$(sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' "$work/w$1.ready")" >/dev/null; }

# cut KIND NODE: what the node's own firewall drops from now on.
cut() {
  local in='' out=''
  case $1 in
    both) in='iif "eth0" drop;' out='oif "eth0" drop;' ;;
    in) in='iif "eth0" drop;' ;;
    out) out='oif "eth0" drop;' ;;
    pair) in="ip saddr $net.$((5 - $2)) drop;" out="ip daddr $net.$((5 - $2)) drop;" ;;  # 2 and 3
  esac
  ip netns exec "$id-$2" nft -f - <<N
table inet cut {
  chain in { type filter hook input priority 0; $in }
  chain out { type filter hook output priority 0; $out }
}
N
}
heal() { ip netns exec "$id-$1" nft delete table inet cut; }
await_workers() {
  for _ in $(seq 200); do
    [ "$(leat nodes --json | grep -o '"READY"' | wc -l)" = 3 ] && return
    sleep 0.1
  done
  fail "a worker did not come back"
}

misses=0
miss() { echo "  MISS: $*"; misses=$((misses + 1)); }
kinds=(both in out pair)

# strike SEED: one job that meets a cut.
strike() {
  RANDOM=$1
  local node=$((2 + RANDOM % 2)) phase=$((RANDOM % 150)) kind=${kinds[$(($1 % 4))]}
  local job_id began detected=- said='' reason='' named=no state='' left=no
  job_id=$(leat submit "$job" "${long[@]}")
  for _ in $(seq 600); do
    said=$(show "$job_id")
    grep -qE '"(SUCCEEDED|FAILED)"' <<<"$said" && break
    [ "$(step_of <<<"$said")" -ge "$phase" ] 2>/dev/null && break
    sleep 0.02
  done
  began=$(now_ms)
  cut "$kind" "$node"
  while :; do
    said=$(show "$job_id")
    # It may run again by the time that it is asked: then its history has the cause.
    grep -qE '"(RECOVERING|FAILED|SUCCEEDED)"|"cause"' <<<"$said" && break
    [ $(($(now_ms) - began)) -lt 60000 ] || break
    sleep 0.02
  done
  detected=$(($(now_ms) - began))
  state=$(sed -n 's/.*"state": *"\([A-Z]*\)".*/\1/p' <<<"$said" | head -n 1)
  reason=$(sed -n 's/.*"reason": *"\(\([^"\\]\|\\.\)*\)".*/\1/p' <<<"$said" | head -n 1)
  [ -n "$reason" ] || reason=$(sed -n 's/.*"cause": *"\(\([^"\\]\|\\.\)*\)".*/\1/p' <<<"$said" | tail -n 1)
  if [ "$state" != SUCCEEDED ]; then
    grep -q "w$node" <<<"$reason" && named=yes
    [ -z "${LEAT_TIMES:-}" ] || [ "$detected" -le 3600 ] || missed+=("noticed after $detected ms")
    [ "$named" = yes ] || missed+=("the culprit is not named")
    if [ "$kind" = pair ]; then  # both live: w3 goes, as the one of the higher name
      grep -q "'w3' goes; the link between 'w2' and 'w3' was lost" <<<"$reason" ||
        missed+=("the link is not named")
    else
      local patience=60000
      [ -z "${LEAT_TIMES:-}" ] || patience=6000
      while runner_on "$node" && [ $(($(now_ms) - began)) -lt "$patience" ]; do sleep 0.05; done
      runner_on "$node" && missed+=("the node that was cut off has a runner after $patience ms")
    fi
  fi
  heal "$node"
  for _ in $(seq 600); do
    said=$(show "$job_id")
    grep -qE '"(SUCCEEDED|FAILED|CANCELLED)"' <<<"$said" && break
    sleep 0.05
  done
  local end hash equal=no
  end=$(sed -n 's/.*"state": *"\([A-Z]*\)".*/\1/p' <<<"$said" | head -n 1)
  hash=$(hash_of <<<"$said")
  [ "$hash" = "$long_expected" ] && equal=yes
  [ "$equal" = yes ] || missed+=("ended $end with the weights '$hash'")
  if [ "$kind" = pair ] && [ "$state" != SUCCEEDED ]; then
    grep -q '"source": *"memory"' <<<"$said" || missed+=("what the others held was not used")
  fi
  echo "fault seed=$1 transport=tcp deed=cut_$kind phase=step_$phase victim=w$node" \
    "$([ "$state" = SUCCEEDED ] && echo too-late) detected_ms=$detected named=$named" \
    "ended_ms=$(($(now_ms) - began)) end=$end equal=$equal reason=\"$reason\""
  await_workers
}

[ -n "$long_expected" ] || fail "no hash of one process"
for ((n = 0; n < ${3:-1}; ++n)); do
  missed=()
  strike $((${4:-0} + n))
  for each in "${missed[@]}"; do miss "$each"; done
done
[ "$misses" = 0 ] || fail "$misses misses"
