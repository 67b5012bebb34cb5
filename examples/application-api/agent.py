"""A durable execution: an agent that is killed anywhere and started again comes to the same end, and pays each order once.

    HAPAX_API=http://127.0.0.1:8082 HAPAX_KEY=hpx_… python3 agent.py EXECUTION_ID LEDGER_FILE

Each line of LEDGER_FILE is one payment: the effect that must not happen twice. DIE_AT=N kills the process at its N-th step.
"""

import os
import signal
import sys
import time
import uuid

from hapax_api import Api, Lease, Refused

ORDERS = ["order-1", "order-2", "order-3"]
LEASE_SECONDS = int(os.environ.get("LEASE_SECONDS", "30"))
STEPS = {"left": int(os.environ.get("DIE_AT", "0"))}


def may_die():
    STEPS["left"] -= 1
    if STEPS["left"] == 0:
        os.kill(os.getpid(), signal.SIGKILL)


def plan(state):
    """What the next iteration does: pays one order, and says so. A real agent would ask a model here."""
    order = ORDERS[len(state["paid"])]
    return [{"tool": "pay", "args": {"order": order}}, {"tool": "note", "args": {"text": f"paid {order}"}}]


def pay(args, key, ledger):
    """Not idempotent by itself. It looks whether this very call was made before, because it is handed the same key again."""
    with open(ledger, "a+", encoding="utf-8") as file:
        file.seek(0)
        if not any(line.startswith(key) for line in file):
            file.write(f"{key} {args['order']}\n")
    return {"receipt": key[:8]}


def note(args, _key, _ledger):
    return args["text"]


TOOLS = {"pay": pay, "note": note}


def started(api, execution, lease):
    """Makes the execution, or goes on with it once the lease of its former runner has lapsed."""
    attempt = str(uuid.uuid4())
    while True:
        try:
            return api.post(
                "/v1/executions",
                executionId=execution,
                agentId="clerk",
                lease=lease.id,
                input={"paid": []},
                attempt=attempt,
            )
        except Refused as refusal:
            if refusal.code != "already-exists":
                raise
        try:
            return api.post(f"/v1/executions/{execution}/resume", lease=lease.id, attempt=attempt)
        except Refused as refusal:
            if refusal.code == "ended":
                return None
            if refusal.code != "fenced":
                raise
        time.sleep(0.1)


def step(api, path, run, iteration, call, planned, lease, ledger):
    """Makes one call happen once, and gives its result."""
    attempt = str(uuid.uuid4())
    while True:
        begun = api.post(
            f"{path}/begin",
            runner=run["runner"],
            lease=lease.id,
            attempt=attempt,
            iteration=iteration,
            call=call,
            declaration="IDEMPOTENT",
        )
        may_die()
        if begun["step"] == "granted":
            result = TOOLS[begun["tool"]](planned["args"], begun["key"], ledger)
            may_die()
            begun = api.post(
                f"{path}/finish", iteration=iteration, call=call, epoch=begun["epoch"], result=result
            )
            may_die()
        if begun["step"] == "done":
            return begun["result"]
        if begun["step"] == "waits":
            api.post(f"{path}/pause", runner=run["runner"], reason="a person has to decide")
            sys.exit("a person has to decide: hapax executions decide")
        # Held by a former process whose lease has not lapsed yet, or given back.
        attempt = str(uuid.uuid4())
        time.sleep(0.1)


def main():
    execution, ledger = sys.argv[1:]
    api = Api()
    path = f"/v1/executions/{execution}"
    with Lease(api, LEASE_SECONDS) as lease:
        run = started(api, execution, lease)
        if run is None:
            print(api.get(f"{path}/status")["status"])
            return
        may_die()
        iteration, state, recorded = run["iteration"], run["state"], run["plan"]
        while len(state["paid"]) < len(ORDERS):
            # A plan that is recorded counts, whatever would be planned now.
            recorded = recorded or api.post(
                f"{path}/plan", runner=run["runner"], iteration=iteration, calls=plan(state)
            )
            may_die()
            for call, planned in enumerate(recorded["calls"]):
                step(api, path, run, iteration, call, planned, lease, ledger)
            state = {"paid": state["paid"] + [recorded["calls"][0]["args"]["order"]]}
            api.post(f"{path}/checkpoint", runner=run["runner"], iteration=iteration, checkpoint=state)
            may_die()
            iteration, recorded = iteration + 1, None
        api.post(f"{path}/complete", runner=run["runner"], output=state)
        print(api.get(f"{path}/status")["status"])


if __name__ == "__main__":
    main()
