# Charges with the official Square client, which puts the key into the body.
# Arguments: base address, API key, calls as JSON. Prints a line of JSON for each call.
import json
import sys
import time
import uuid

import httpx
from square import Square
from square.core.api_error import ApiError

base, api_key, calls = sys.argv[1:]
client = Square(base_url=base, token=api_key, httpx_client=httpx.Client(trust_env=False))


def charge(amount, key, tries):
    # The client tries again after some answers, and never where there was none.
    options = {"max_retries": 0} if key else {}
    key = key or str(uuid.uuid4())
    money = {"amount": amount, "currency": "EUR"}
    for left in range(max(tries, 3), 0, -1):
        try:
            answer = client.payments.create(
                source_id="cnon:card-nonce-ok", idempotency_key=key, amount_money=money, request_options=options
            )
            done = answer.payment.status == "COMPLETED"
            return {"id": answer.payment.id, "status": "succeeded" if done else answer.payment.status}
        except ApiError as error:
            return {"error": "ApiError", "http": error.status_code, "code": error.body["code"]}
        except httpx.TransportError:
            if left == 1:
                raise
            time.sleep(0.05)


for call in json.loads(calls):
    print(json.dumps(charge(**call)), flush=True)
