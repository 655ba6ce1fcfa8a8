#!/usr/bin/env bash
# Trains each recipe of configs/jobs for a few steps, on small data from deploy/recipe-data, with one
# worker and with two: the weights must be the same.
#
#   recipes.sh <leat>
set -euo pipefail
leat=$1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
[ -d /usr/share/games/fortunes ] || {
  echo "skipped: expected the package fortunes, see deploy/install-deps --test"
  exit 0
}
"$root/deploy/recipe-data" --small --into "$folder/data" >"$folder/made"

# The hash in the last line of train's JSON.
train() {  # <job file> <workers> <options...>
  local log=$folder/log
  "$leat" train "$1" --workers "$2" --threads 1 --json --output "$folder/run-$2" \
    --set steps=4 --set global_batch_size=16 "${@:3}" >"$log" 2>"$log.err" || {
    cat "$log" "$log.err" >&2
    echo "recipes: $1: expected to train 4 steps with $2 workers" >&2
    return 1
  }
  tail -n 1 "$log" | grep -o '"weights_sha256": *"[0-9a-f]*"'
  rm -rf "$folder/run-$2"
}

trained=0
for job in "$root"/configs/jobs/*.yaml; do
  options=()
  data=$(sed -n 's|^  root: ../../leat-data/\([a-z]*\)$|\1|p' "$job")
  [ -z "$data" ] || options=(--set "data.root=$folder/data/$data")
  one=$(train "$job" 1 "${options[@]}")
  two=$(train "$job" 2 "${options[@]}")
  if [ -z "$one" ] || [ "$one" != "$two" ]; then
    echo "recipes: $job: expected equal weights, received '$one' and '$two'" >&2
    exit 1
  fi
  echo "$(basename "$job" .yaml): $one"
  trained=$((trained + 1))
done
[ "$trained" -ge 13 ] || { echo "recipes: expected at least 13 recipes, found $trained" >&2; exit 1; }
