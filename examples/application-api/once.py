"""A claim: however often this runs with one key, at once or after a crash, the mail is sent once, and every run prints the same.

    HAPAX_API=http://127.0.0.1:8082 HAPAX_KEY=hpx_… python3 once.py KEY OUTBOX_FILE
"""

import sys
import uuid

from hapax_api import Api, Lease


def send(outbox, key):
    """The effect."""
    with open(outbox, "a", encoding="utf-8") as file:
        file.write(f"{key}\n")
    return {"sent": key}


def main():
    key, outbox = sys.argv[1:]
    api = Api()
    with Lease(api) as lease:
        claim = api.post(
            "/v1/claims",
            lease=lease.id,
            attempt=str(uuid.uuid4()),
            operation="mail.send",
            key=key,
            body={"to": "alice@example.com"},
            scope="project",
            wait="30s",
        )
        if claim["verdict"] == "granted":
            path = f"/v1/claims/{claim['operation_id']}"
            try:
                result = send(outbox, key)
            except OSError as error:
                # It may have been sent: where that must not happen twice, an operator decides.
                api.post(f"{path}/release", epoch=claim["epoch"], ran="perhaps", cause=str(error))
                raise
            claim = {"verdict": "replay", **api.post(f"{path}/settle", epoch=claim["epoch"], result=result)}
        if claim["verdict"] != "replay":
            sys.exit(f"not done: {claim['verdict']}")
        print(claim["outcome"]["result"]["sent"])


if __name__ == "__main__":
    main()
