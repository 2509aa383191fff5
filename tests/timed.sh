#!/usr/bin/env bash
# timed.sh COMMAND...: runs each, stops at the first that fails, and says how long each has taken.
set -uo pipefail
told=""
for command in "$@"; do
    began=$SECONDS
    bash -c "$command"
    code=$?
    took=$((SECONDS - began))
    told+=$(printf '%d:%02d  %s' $((took / 60)) $((took % 60)) "$command")$'\n'
    [ $code -eq 0 ] || break
done
printf '\n%s' "$told"
exit $code
