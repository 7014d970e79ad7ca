"""Ingress under load: the parts that drive it, each given the stage and told how long."""

import asyncio
import json
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench.load import Measured
from bench.payloads import MIB, large, one_text
from bench.peer_runs import PEER_NAMES, Peer, PeerAbsentError, install
from bench.results import Results
from bench.rounds import Effort, medians
from bench.runtime_echo import measure as echo
from bench.stage import ENDPOINT, ROOT, TENANT, Stage
from bench.webhooks import Webhooks

LARGE_BODIES = 8
LARGE_BODY_BYTES = 24 * MIB
IDLE_SECONDS_MAX = 2.0
OURS = "sdk"
LISTS_IN_FLIGHT = 2
TRIAL_S = 0.2


def load(
    stage: Stage, kind: str, *, seconds: float, in_flight: int = 1, per_s: float = 0
) -> Measured:
    """One load on ingress, from a process of its own."""
    ingress = stage.ingress
    address = {
        "webhook": lambda: stage.webhook_address,
        "unnest": lambda: stage.database_url("unnest"),
    }.get(kind, lambda: ingress.target)()
    command = [sys.executable, "-m", "bench.load", kind, address]
    command += [f"--tenant={TENANT}", f"--endpoint={ENDPOINT}", f"--seconds={seconds}"]
    command += [f"--in-flight={in_flight}", f"--per-s={per_s}"]
    said = subprocess.check_output(command, cwd=ROOT, text=True, input=f"{ingress.api_key}\n")
    return Measured(**json.loads(said))


def _per_s(stage: Stage, kind: str, effort: Effort) -> float:
    return load(stage, kind, seconds=effort.seconds, in_flight=effort.in_flight).per_s


def _echo_per_s(effort: Effort) -> float:
    return echo("recorded", seconds=effort.seconds, in_flight=effort.in_flight).calls_per_s


def submit_unary_vs_echo(stage: Stage, effort: Effort, results: Results) -> None:
    """Unary SubmitDelivery beside an echo on the same runtime, all of it on in both."""
    measured = medians(
        {
            "unary": partial(_per_s, stage, "unary", effort),
            "echo": partial(_echo_per_s, effort),
        },
        effort.rounds,
    )
    results.figure("submit_unary_per_s", measured["unary"])
    results.ratio("submit_unary_vs_echo", measured["unary"] / measured["echo"])


def submit_batch_vs_unnest(stage: Stage, effort: Effort, results: Results) -> None:
    """Lists of 500 deliveries beside the same lists inserted bare, as many at a time."""
    few = replace(effort, in_flight=LISTS_IN_FLIGHT)
    measured = medians(
        {kind: partial(_per_s, stage, kind, few) for kind in ("batch", "unnest")}, effort.rounds
    )
    results.figure("submit_batch_per_s", measured["batch"])
    results.figure("unnest_per_s", measured["unnest"])
    results.ratio("submit_batch_vs_unnest", measured["batch"] / measured["unnest"])


def webhook_vs_unary(stage: Stage, effort: Effort, results: Results) -> None:
    """The HTTP door, its signature and parsing included, beside the gRPC door."""
    measured = medians(
        {kind: partial(_per_s, stage, kind, effort) for kind in ("unary", "webhook")},
        effort.rounds,
    )
    results.figure("webhook_per_s", measured["webhook"])
    results.ratio("webhook_vs_unary", measured["webhook"] / measured["unary"])


def accept_p99_ms(stage: Stage, effort: Effort, results: Results) -> None:
    """How long a durable answer takes at half the peak rate, beside the idle median."""
    peak_per_s = _per_s(stage, "unary", effort)
    seconds = effort.seconds * effort.rounds
    half = load(stage, "unary", seconds=seconds, per_s=peak_per_s / 2)
    idle = load(stage, "unary", seconds=min(seconds, IDLE_SECONDS_MAX))
    results.figure("accept_rate_per_s", peak_per_s / 2)
    results.figure("accept_p50_ms", half.p50_ms)
    results.figure("accept_p99_ms", half.p99_ms)
    results.figure("accept_idle_p50_ms", idle.p50_ms)


def submit_sdk_vs_best_peer(stage: Stage, effort: Effort, results: Results) -> None:
    """Tasks that submit one at a time through the SDK, beside the same tasks of each peer.

    Each peer has a database of its own on the same server, and keeps the same body.
    """
    payload = one_text()
    peers = {
        peer.name: partial(peer.enqueued_per_s, stage.database_url(peer.name), payload, effort)
        for peer in _present(stage, payload, effort, results)
    }
    measured = medians({OURS: partial(_per_s, stage, OURS, effort), **peers}, effort.rounds)
    results.figure("submit_sdk_per_s", measured[OURS])
    for name in peers:
        results.figure(f"peer_{name}_per_s", measured[name])
    if peers:
        best_per_s = max(measured[name] for name in peers)
        results.ratio("submit_sdk_vs_best_peer", measured[OURS] / best_per_s)


def _present(stage: Stage, payload: str, effort: Effort, results: Results) -> list[Peer]:
    """The peers that are installed and were seen to enqueue; the others are noted as absent."""
    present = []
    for name in PEER_NAMES:
        try:
            peer = install(name)
            peer.enqueued_per_s(stage.database_url(name), payload, replace(effort, seconds=TRIAL_S))
        except PeerAbsentError as absent:
            results.absent[name] = str(absent)
        else:
            present.append(peer)
    return present


def hwm_mb_8x24mb(stage: Stage, _effort: Effort, results: Results) -> None:
    """The most memory that ingress ever held, after bodies of 24 MB came in side by side."""
    bodies = large(LARGE_BODY_BYTES, LARGE_BODIES)

    async def post_all() -> None:
        path = f"/webhooks/github/{ENDPOINT}"
        async with Webhooks.to(stage.webhook_address, path, connections=LARGE_BODIES) as webhooks:
            await asyncio.gather(*(webhooks.post(body) for body in bodies))

    asyncio.run(post_all())
    status = Path(f"/proc/{stage.suite.process_ids['ingress']}/status").read_text()
    [peak_kib] = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    results.figure("hwm_mb_8x24mb", int(peak_kib) * 1024 / 1e6)
