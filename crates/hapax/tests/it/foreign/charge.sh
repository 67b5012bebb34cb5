#!/bin/sh
# Charges with curl. Arguments: base address, API key, amount, Idempotency-Key. Prints the status, a space and the answer.
set -eu
answer=$(mktemp)
trap 'rm -f "$answer"' EXIT

# Into a file, which curl begins anew with each attempt; to a pipe, the part that came of a broken one would go out, too.
charge() {
  curl --silent --show-error --noproxy '*' --retry 5 --retry-all-errors --retry-delay 1 \
    --output "$answer" --write-out '%{http_code}' \
    -H "Authorization: Bearer $2" -H "Idempotency-Key: $4" -d "amount=$3" -d currency=eur "$1/v1/charges"
}

status=$(charge "$@")
# An answer that breaks off in its head is one without a body to curl.
[ -s "$answer" ] || status=$(charge "$@")
printf '%s ' "$status"
cat "$answer"
