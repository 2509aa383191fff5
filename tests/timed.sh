#!/usr/bin/env bash
# timed.sh BESIDE COMMAND: runs both at once, fails if one fails, and says how long each has taken.
set -uo pipefail

run() {
    local began=$SECONDS
    bash -c "$1"
    local code=$? took=$((SECONDS - began))
    printf '\n%d:%02d  %s\n' $((took / 60)) $((took % 60)) "$1"
    return $code
}

run "$1" &
beside=$!
trap 'kill $beside 2> /dev/null' INT
run "$2"
code=$?
wait $beside && exit $code
exit 1
