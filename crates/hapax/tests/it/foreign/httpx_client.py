# Charges with httpx: the program makes the key, and sends the same again when the way breaks.
# Arguments: base address, API key, calls as JSON, and the header of the key where that is another one. Prints a line of JSON for each call.
import json
import sys
import time
import uuid

import httpx

base, api_key, calls, *header = sys.argv[1:]
key_header = header[0] if header else "Idempotency-Key"
client = httpx.Client(base_url=base, headers={"Authorization": f"Bearer {api_key}"}, trust_env=False)


def charge(amount, key, tries):
    headers = {key_header: key or str(uuid.uuid4())}
    for left in range(max(tries, 3), 0, -1):
        try:
            answer = client.post("/v1/charges", data={"amount": amount, "currency": "eur"}, headers=headers)
            answer.raise_for_status()
            return {"id": answer.json()["id"], "status": answer.json()["status"]}
        except httpx.HTTPStatusError as error:
            problem = error.response.json()
            return {"error": "HTTPStatusError", "http": problem["status"], "code": problem["code"], "told": problem["title"]}
        except httpx.TransportError:
            if left == 1:
                raise
            time.sleep(0.05)


for call in json.loads(calls):
    print(json.dumps(charge(**call)), flush=True)
