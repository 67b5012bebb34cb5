"""Signs a delivery with the official packages, as their providers sign theirs; or writes a secret into a KV store.

Arguments: provider, secret, body, and the URL that the settings of Twilio have, or that of the KV store. Prints the headers of the
delivery as JSON.
"""

import json
import sys
import time
from datetime import datetime, timezone
from urllib.parse import parse_qs

provider, secret, body, url = (sys.argv[1:] + [""])[:4]


class Fields(dict):
    """The fields of a form, as web frameworks give them to Twilio's package."""

    def getall(self, name):
        return self[name]


def twilio(algorithm=None):
    from twilio.request_validator import RequestValidator

    fields = Fields(parse_qs(body, keep_blank_values=True))
    return {"x-twilio-signature": RequestValidator(secret).compute_signature(url, fields, algorithm)}


def twilio_sha256():
    settings = {"x-twilio-webhooks-signature-settings": "key=k,algorithm=HMAC_SHA256"}
    return {**twilio("HMAC_SHA256"), **settings}


def twilio_events():
    from twilio.request_validator import RequestValidator

    validator = RequestValidator(secret)
    query = "?bodySHA256=" + validator.compute_hash(body)
    return {"query": query, "x-twilio-signature": validator.compute_signature(url + query, {})}


def standard():
    from standardwebhooks import Webhook

    now = datetime.now(tz=timezone.utc)
    return {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign("msg_1", now, body),
    }


def slack():
    from slack_sdk.signature import SignatureVerifier

    now = str(int(time.time()))
    signature = SignatureVerifier(secret).generate_signature(timestamp=now, body=body)
    return {"x-slack-request-timestamp": now, "x-slack-signature": signature}


def kv():
    """Writes `body`, the fields as JSON, to acme:web:github, with the token `secret`; reads it back, and says its version."""
    import hvac

    client = hvac.Client(url=url, token=secret)
    store = client.secrets.kv.v2
    store.create_or_update_secret(path="acme:web:github", secret=json.loads(body), mount_point="secret")
    read = store.read_secret_version(path="acme:web:github", mount_point="secret", raise_on_deleted_version=True)
    assert read["data"]["data"] == json.loads(body)
    return {"version": str(read["data"]["metadata"]["version"])}


print(json.dumps(globals()[provider]()))
