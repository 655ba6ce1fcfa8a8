#!/usr/bin/env bash
# Builds the examples of leat-dev, inside of a root that has the packages in /packages, and runs one
# of them on a cluster.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get -q -y install /packages/leat*.deb cmake g++ ninja-build >/packages/apt.log 2>&1 || {
  tail -n 20 /packages/apt.log >&2
  exit 1
}
cmake -G Ninja -S /usr/share/doc/leat-dev/examples -B /tmp/examples >/packages/cmake.log
cmake --build /tmp/examples
leatd dev --ready-fd 3 3>/run/ready 2>/packages/dev.log &
dev=$!
until [ -s /run/ready ]; do
  kill -0 $dev
  sleep 0.05
done
said=$(/tmp/examples/fit_a_line "$(sed -n 's/.*"listen": *"\([^"]*\)".*/\1/p' /run/ready)")
kill -TERM $dev
wait $dev
echo "$said"
grep -q '^y = ' <<<"$said"
echo "packages: the examples are built against leat-dev, and run"
