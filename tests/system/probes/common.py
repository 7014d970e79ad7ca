"""What every service is asked."""

from fencepost.common.v1 import server_info_pb2

from tests.system.probes.asking import Probe, presenting

PROBES: dict[str, tuple[Probe, ...]] = {
    "fencepost.common.v1.ServerInfoService.GetServerInfo": (
        Probe(
            "carries no id: it tells of the process and the schema alone",
            presenting(lambda _: server_info_pb2.GetServerInfoRequest()),
        ),
    ),
}
