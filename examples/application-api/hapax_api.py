"""The application API of hapax with nothing but Python's standard library: requests that are sent again, and a lease that stays alive."""

import json
import os
import threading
import time
import urllib.error
import urllib.request


class Refused(Exception):
    """The server has refused, and why: `code` is stable, for programs to act on."""

    def __init__(self, problem):
        super().__init__(problem.get("detail") or problem["title"])
        self.code = problem["code"]
        self.problem = problem


class Api:
    """One caller of the application listener."""

    def __init__(self, url=None, key=None):
        self.url = url or os.environ.get("HAPAX_API", "http://127.0.0.1:8082")
        self.key = key or os.environ["HAPAX_KEY"]

    def ask(self, method, path, body=None):
        """Sends a request until there is an answer. Every request of this API may be sent again."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        for attempt in range(10):
            request = urllib.request.Request(self.url + path, data, headers, method=method)
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as refusal:
                problem = json.load(refusal)
                if not problem["retryable"]:
                    raise Refused(problem) from None
            except OSError:
                pass  # It may have arrived or not: sending it again finds out.
            time.sleep(0.1 * 2**attempt)
        raise TimeoutError(f"no answer to {method} {path}")

    def post(self, path, **body):
        return self.ask("POST", path, body)

    def get(self, path):
        return self.ask("GET", path)


class Lease:
    """What this process holds hangs on it. While the process lives it is renewed; when it dies, the lease lapses."""

    def __init__(self, api, seconds=30):
        self.api = api
        self.id = api.post("/v1/leases", term=f"{seconds}s")["lease"]
        self.over = threading.Event()
        self.every = seconds / 3
        threading.Thread(target=self._renew, daemon=True).start()

    def _renew(self):
        while not self.over.wait(self.every):
            try:
                self.api.post(f"/v1/leases/{self.id}/renew")
            except (Refused, TimeoutError):
                self.over.set()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.over.set()
        try:
            self.api.ask("DELETE", f"/v1/leases/{self.id}")
        except (Refused, TimeoutError):
            pass  # Then it lapses by itself.
