# Charges with the official Stripe client for Python, as a program would: base address, key, retries, nothing else.
# Arguments: base address, API key, calls as JSON. Prints a line of JSON for each call.
import json
import sys

import stripe

base, api_key, calls = sys.argv[1:]
client = stripe.StripeClient(api_key, base_addresses={"api": base}, max_network_retries=2)


def charge(amount, key, tries):
    options = {"idempotency_key": key} if key else {}
    while True:
        try:
            made = client.v1.charges.create({"amount": amount, "currency": "eur"}, options)
            return {"id": made.id, "status": made.status}
        except stripe.StripeError as error:
            # An answer that broke off is a connection error, or a success that cannot be read, to this client, which does
            # not try again: with a key of its own, the program can.
            lost = (error.http_status or 0) < 400
            tries -= 1
            if lost and tries > 0:
                continue
            code = error.error.code if error.error else None
            told = {"error": type(error).__name__, "http": error.http_status, "code": code}
            return told | {"told": error.user_message}


for call in json.loads(calls):
    print(json.dumps(charge(**call)), flush=True)
