#!/usr/bin/env bash
# The part of packages.sh that runs inside of a bare root, which has the packages in /packages.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
log=/packages/log
say() { printf '[%4d s] packages: %s\n' "$SECONDS" "$*"; }
fail() {
  echo "packages: $*" >&2
  tail -n 30 /packages/*.log >&2
  exit 1
}
apt() { apt-get -q -y "$@" >$log.apt.log 2>&1 || fail "apt-get $*: failed"; }
now_ms() { date +%s%3N; }

# As the units start them; no systemd is here. Sets a variable of its name to the process.
daemon() {  # master|worker
  local home=/var/lib/leat/$1
  install -d -m 0700 -o leat -g leat "$home"
  rm -f "/run/$1.ready"
  (umask 077 && STATE_DIRECTORY=$home exec setpriv --reuid leat --regid leat --init-groups \
    leatd "$1" --config "/etc/leat/$1.yaml" --ready-fd 3 3>"/run/$1.ready" 2>>"$log.$1.log") &
  eval "$1=$!"
  local tries
  for ((tries = 0; tries < 300; tries++)); do
    [ -s "/run/$1.ready" ] && return
    sleep 0.05
  done
  fail "leatd $1 did not start"
}
stop() {
  kill -TERM "${!1}"
  wait "${!1}" || fail "leatd $1 did not stop in order"
}

mlp=/usr/share/doc/leat/examples/jobs/fashion_mnist_mlp.yaml
hash_of() { sed -n 's/.*weights_sha256 \([0-9a-f]*\).*/\1/p' "$1"; }

say "apt install ./leat*.deb in a bare Debian $(cat /etc/debian_version)"
cd /packages
began=$(now_ms)
apt install ./leat*.deb
installed=$(now_ms)
for unit in leat-master leat-worker; do
  [ -L /etc/systemd/system/multi-user.target.wants/$unit.service ] || fail "$unit is not enabled"
done
getent passwd leat >/dev/null || fail "there is no user leat"
[ "$(stat -c %U /var/lib/leat)" = leat ] || fail "/var/lib/leat is not of the user leat"

daemon master
daemon worker
leat submit --follow --workers 1 $mlp >$log.first.out 2>$log.first.log &
first=$!
until grep -qs 'loss' $log.first.log; do
  kill -0 $first 2>/dev/null || fail "the first job ended without a loss"
  [ $(($(now_ms) - began)) -lt 120000 ] || fail "there is no loss after 120 s"
  sleep 0.02
done
seen=$(now_ms)
say "installed after $((installed - began)) ms, first loss line $((seen - began)) ms after the install began"
grep -m 1 loss $log.first.log
[ $((seen - began)) -le 30000 ] || fail "the first loss came later than 30 s after the install began"
wait $first || fail "the first job did not succeed"
wanted=$(hash_of $log.first.out)
[ -n "$wanted" ] || fail "the first job has no hash"
say "the first job: weights_sha256 $wanted"

say "an upgrade in the middle of a job"
second=$(leat submit --workers 1 --set checkpoint.every_steps=100 $mlp 2>/dev/null)
until leat show "$second" --json | grep -q '"step":[1-9][0-9][0-9]'; do
  ! leat show "$second" --json | grep -q -e SUCCEEDED -e FAILED || fail "the second job has ended"
  sleep 0.1
done
echo '# of this machine' >>/etc/leat/worker.yaml  # conffiles are kept
apt install ./later/leat*.deb
dpkg-query -W -f='${Version}\n' leat | grep -q '+1$' || fail "the later version is not installed"
grep -q '# of this machine' /etc/leat/worker.yaml || fail "the upgrade lost a changed config"
stop worker
stop master
daemon master
daemon worker
leat show --wait "$second" >$log.second.out 2>$log.second.log || fail "the second job did not succeed"
[ "$(hash_of $log.second.out)" = "$wanted" ] ||
  fail "expected the weights $wanted after the upgrade, received '$(hash_of $log.second.out)'"
[ "$(leat ps --all --quiet | wc -l)" -eq 2 ] || fail "the journal lost a job: $(leat ps --all)"
say "the job went on after the upgrade, with the same weights; the journal has both jobs"

stop worker
stop master
apt remove leat leat-dev
[ -n "$(ls -A /var/lib/leat/master)" ] || fail "removal took the journal"
[ -e /etc/leat/master.yaml ] || fail "removal took the configs"
apt install ./later/leat*.deb
daemon master
[ "$(leat ps --all --quiet | wc -l)" -eq 2 ] || fail "a new installation lost the journal"
stop master
echo secret >/etc/leat/secret
apt purge leat leat-dev
left=$(find / -xdev \( -path /proc -o -path /packages -o -path '/var/cache/apt' -o -path /run \) -prune -o \
  \( -name '*leat[-._]*' -o -name leat -o -name leatd \) -print | grep -v -e '/dpkg/' -e '/apt/' || true)
[ -z "$left" ] || fail "purge left $left"
say "removal keeps journal and jobs, purge takes them"
