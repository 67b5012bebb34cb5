#!/bin/sh
# A claim in curl and sh: however often this runs with one key, the mail is sent once.
#
#     HAPAX_API=http://127.0.0.1:8082 HAPAX_KEY=hpx_… sh once.sh KEY OUTBOX_FILE
#
# KEY has letters, digits and . _ - only; the answers are read with sed.
set -eu
key=$1 outbox=$2
api=${HAPAX_API:-http://127.0.0.1:8082}

# post PATH JSON: prints the answer. What breaks off is sent again, as everything here may be.
post() {
    curl --silent --show-error --fail-with-body --retry 5 --retry-all-errors \
        -H "Authorization: Bearer $HAPAX_KEY" -H 'Content-Type: application/json' -d "$2" "$api$1"
}

# member NAME: its value in the answer on standard input, if that is a text.
member() {
    sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"
}

lease=$(post /v1/leases '{"term": "60s"}' | member lease)
claim=$(post /v1/claims "{\"lease\": \"$lease\", \"attempt\": \"$$-$(date +%s)\", \"operation\": \"mail.send\",
    \"key\": \"$key\", \"body\": {\"to\": \"alice@example.com\"}, \"scope\": \"project\", \"wait\": \"30s\"}")

case $(printf %s "$claim" | member verdict) in
granted)
    id=$(printf %s "$claim" | member operation_id)
    epoch=$(printf %s "$claim" | member epoch)
    echo "$key" >>"$outbox"
    post "/v1/claims/$id/settle" "{\"epoch\": \"$epoch\", \"result\": {\"sent\": \"$key\"}}" | member sent
    ;;
replay)
    printf %s "$claim" | member sent
    ;;
*)
    printf 'not done: %s\n' "$claim" >&2
    exit 1
    ;;
esac
