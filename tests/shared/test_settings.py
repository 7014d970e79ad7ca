"""Settings are read once; whatever is wrong is said in a sentence for each variable (exit 2)."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import Field, SecretStr
from pydantic_settings import SettingsConfigDict

from shared.environment import OTHERS, AlsoRead, SettingsError, read, variables
from shared.settings import Address, CallerSettings, headers_in, host_and_port, is_loopback, load

TREE = Path(__file__).parents[2]
URL = "postgresql://role:canary-password@127.0.0.1:5432/fencepost"
CERTIFICATE = {"GATE_TLS_CERTIFICATE_FILE": "/tls/cert.pem", "GATE_TLS_KEY_FILE": "/tls/key.pem"}


class GateSettings(CallerSettings):
    """A service that does not exist."""

    model_config = SettingsConfigDict(env_prefix="GATE_")
    calls = ("yard",)

    grpc_address: Address = "127.0.0.1:7900"
    admin_address: Address = "127.0.0.1:7901"
    names: tuple[str, ...] = Field(default=(), description="Some names.")
    own_ms: Annotated[int, AlsoRead("OLD_OWN_MS")] = Field(default=5, ge=1, description="Own.")
    door_secret: SecretStr | None = Field(default=None, description="A secret.")
    yard_tls_certificate_file: Path | None = None
    yard_tls_key_file: Path | None = None


def read_gate(environment: Mapping[str, str]) -> GateSettings:
    """With a valid database URL unless given."""
    return read(GateSettings, {"GATE_DATABASE_URL": URL, **environment})


def problems(environment: Mapping[str, str]) -> str:
    """What is said to be wrong, a line each."""
    with pytest.raises(SettingsError) as wrong:
        read_gate(environment)
    return str(wrong.value)


def test_a_services_own_variable_wins_over_the_common_one() -> None:
    assert read_gate({"FENCEPOST_DRAIN_GRACE_MS": "5"}).drain_grace_ms == 5
    both = {"FENCEPOST_DRAIN_GRACE_MS": "5", "GATE_DRAIN_GRACE_MS": "6"}
    assert read_gate(both).drain_grace_ms == 6


@pytest.mark.guarantee("X2")
def test_no_common_variable_stands_in_for_what_is_a_services_own() -> None:
    assert read_gate({"FENCEPOST_API_KEY": "a person's"}).api_key is None
    with pytest.raises(SettingsError) as refused:
        read(GateSettings, {"FENCEPOST_DATABASE_URL": URL, "FENCEPOST_GRPC_ADDRESS": "127.0.0.1:1"})
    said = refused.value.problems
    assert said[0] == "FENCEPOST_DATABASE_URL: no such setting; did you mean GATE_DATABASE_URL?"
    assert said[1] == "FENCEPOST_GRPC_ADDRESS: no such setting; did you mean GATE_GRPC_ADDRESS?"
    assert said[2].startswith("GATE_DATABASE_URL or GATE_DATABASE_URL_FILE must be set.")


def test_a_variable_with_a_name_of_its_own_comes_last() -> None:
    assert read_gate({"OLD_OWN_MS": "7"}).own_ms == 7
    assert read_gate({"OLD_OWN_MS": "7", "GATE_OWN_MS": "8"}).own_ms == 8
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317"}
    assert read_gate(endpoint).otlp_endpoint == "http://collector:4317"


def test_an_empty_variable_is_not_set() -> None:
    assert read_gate({"GATE_OWN_MS": "", "GATE_API_KEY_FILE": ""}).own_ms == 5


def test_a_list_is_separated_by_commas() -> None:
    assert read_gate({"GATE_NAMES": "a, b,,c "}).names == ("a", "b", "c")


def test_a_secret_may_stand_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("from a file\n")
    found = read_gate({"GATE_DOOR_SECRET_FILE": str(file)}).door_secret
    assert found is not None
    assert found.get_secret_value() == "from a file"


def test_only_a_secret_has_a_file_form() -> None:
    assert "GATE_OWN_MS_FILE: no such setting" in problems({"GATE_OWN_MS_FILE": "/x"})


def test_a_secret_set_twice_is_refused() -> None:
    said = problems({"GATE_API_KEY": "canary-one", "GATE_API_KEY_FILE": "/x"})
    assert said == "GATE_API_KEY and GATE_API_KEY_FILE are both set: keep one of them."


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "cannot be read: No such file or directory."),
        (b"", "is empty."),
        (b"\n", "is empty."),
        (b"\xff\xfe", "is not UTF-8 text."),
        (b"x" * 70_000, "is larger than 65536 bytes: not a secret."),
    ],
)
def test_a_file_without_a_secret_is_told(
    tmp_path: Path, content: bytes | None, complaint: str
) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    said = problems({"GATE_API_KEY_FILE": str(file)})
    assert said == f"GATE_API_KEY_FILE: {file} {complaint}"


def test_an_unreadable_file_of_a_required_secret_is_told_once() -> None:
    with pytest.raises(SettingsError) as wrong:
        read(GateSettings, {"GATE_DATABASE_URL_FILE": "/nowhere"})
    assert len(wrong.value.problems) == 1


def test_every_problem_is_told_at_once_with_what_is_allowed() -> None:
    said = problems(
        {
            "GATE_DRAIN_GRACE_MS": "10s",
            "GATE_KEY_CACHE_MS": "2001",
            "GATE_GRPC_ADDRESS": "7101",
            "FENCEPOST_LOG_LEVEL": "chatty",
            "GATE_LOG_LEVLE": "info",
        }
    ).splitlines()
    assert [line.partition(" ")[0].rstrip(":") for line in said] == [
        "GATE_LOG_LEVLE",
        "GATE_GRPC_ADDRESS",
        "GATE_DRAIN_GRACE_MS",
        "GATE_KEY_CACHE_MS",
        "FENCEPOST_LOG_LEVEL",
    ]
    assert "did you mean GATE_LOG_LEVEL?" in said[0]
    assert "'7101', but must be host:port" in said[1]
    assert "'10s', but should be a valid integer" in said[2]
    assert "'2001', but should be less than or equal to 2000" in said[3]
    assert "'chatty', but should be 'debug', 'info', 'warning' or 'error'" in said[4]


def test_a_secret_is_never_shown() -> None:
    assert "canary" not in problems({"GATE_DATABASE_URL": "mysql://canary:canary@host/db"})


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("FENCEPOST_LOG_LEVLE", "did you mean FENCEPOST_LOG_LEVEL?"),
        ("FENCEPOST_OWN_MS", "did you mean GATE_OWN_MS?"),
        ("FENCEPOST_SERVE_PLAINTXT", "did you mean FENCEPOST_SERVE_PLAINTEXT?"),
        ("FENCEPOST_Q", "see docs/configuration.md."),
        ("FENCEPOST_GRPC_PORT", "see docs/configuration.md."),
    ],
)
def test_a_common_name_that_nobody_knows_is_refused(variable: str, meant: str) -> None:
    assert problems({variable: "1"}).startswith(f"{variable}: no such setting; {meant}")


def test_what_a_client_or_compose_reads_is_left_alone_and_is_no_setting_of_a_service() -> None:
    read_gate(dict.fromkeys(OTHERS, "x"))
    ours = {name for field in GateSettings.model_fields for name in variables(GateSettings, field)}
    assert not ours & OTHERS


def test_every_common_name_in_the_tree_is_known() -> None:
    """Whatever is told to set a variable, a service must not refuse it."""
    kept = [*TREE.glob("*.yaml"), *TREE.glob("deploy/*"), *TREE.glob("docs/*.md")]
    kept += [TREE / name for name in ("README.md", "Makefile", "Dockerfile")]
    kept += [*TREE.glob("services/*.py"), *TREE.glob("examples/**/*.py")]
    told = {
        name
        for file in kept
        if file.is_file()
        for name in re.findall(r"(?<![A-Z_])FENCEPOST_[A-Z_]*[A-Z]", file.read_text())
    }
    ours = {name for field in GateSettings.model_fields for name in variables(GateSettings, field)}
    assert "FENCEPOST_LOG_LEVEL" in told
    assert told <= ours | OTHERS


@pytest.mark.parametrize("wrong", ["http://h:notaport", "http://h:70000", "http://:4317", "h:4317"])
def test_an_endpoint_is_a_host_and_a_port_that_can_be(wrong: str) -> None:
    said = problems({"GATE_OTLP_ENDPOINT": wrong})
    assert said.startswith(f"GATE_OTLP_ENDPOINT is '{wrong}', but must be http://host:port or")


def test_headers_are_pairs_and_never_shown() -> None:
    assert headers_in("X-Key=a%20b, other = c=d,") == (("x-key", "a b"), ("other", "c=d"))
    for variable in ("GATE_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"):
        said = problems({variable: "=canary"})
        assert said.startswith(f"{variable} must be name=value")
        assert "canary" not in said


def test_what_kubernetes_sets_for_a_service_of_that_name_is_not_ours() -> None:
    read_gate(
        {
            "FENCEPOST_DISPATCHER_SERVICE_HOST": "10.0.0.1",
            "FENCEPOST_DISPATCHER_PORT": "tcp://10.0.0.1:7102",
            "FENCEPOST_PORT_7102_TCP": "tcp://10.0.0.1:7102",
            "GATE_SERVICE_HOST": "10.0.0.1",
            "GATE_SERVICE_PORT_GRPC": "7101",
            "GATE_PORT": "tcp://10.0.0.1:7101",
            "GATE_PORT_7101_TCP_ADDR": "10.0.0.1",
        }
    )


@pytest.mark.parametrize("url", ["host/db", "mysql://h/d", "postgresql://h", "postgresql://h/"])
def test_a_database_url_names_a_database(url: str) -> None:
    assert problems({"GATE_DATABASE_URL": url}).startswith("GATE_DATABASE_URL must ")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://role:canary word@h/d",
        "postgresql://role:canary%word@h/d",
        "postgresql://role:canary@h/d?canary=1",
    ],
)
def test_a_url_that_libpq_cannot_read_is_told_and_not_quoted(url: str) -> None:
    said = problems({"GATE_DATABASE_URL": url})
    assert said.startswith("GATE_DATABASE_URL cannot be read as a connection URL: write what")
    assert "canary" not in said


@pytest.mark.parametrize("address", ["0.0.0.0:7101", "[::]:7101", "10.1.2.3:7101", "gate:7101"])
def test_plaintext_off_loopback_is_refused_unless_it_is_allowed(address: str) -> None:
    said = problems({"GATE_GRPC_ADDRESS": address})
    assert f"GATE_GRPC_ADDRESS is '{address}', which other machines can reach" in said
    assert "GATE_SERVE_PLAINTEXT=true" in said
    assert read_gate(
        {"GATE_GRPC_ADDRESS": address, "GATE_SERVE_PLAINTEXT": "true"}
    ).serves_plaintext
    assert not read_gate({"GATE_GRPC_ADDRESS": address, **CERTIFICATE}).serves_plaintext


def test_certificate_and_key_belong_together() -> None:
    only = {"GATE_TLS_CERTIFICATE_FILE": "/tls/cert.pem"}
    assert "belong together" in problems(only)
    for half in ("GATE_YARD_TLS_KEY_FILE", "GATE_YARD_TLS_CERTIFICATE_FILE"):
        assert problems({half: "/tls/x.pem"}) == (
            "GATE_YARD_TLS_CERTIFICATE_FILE and GATE_YARD_TLS_KEY_FILE belong together: "
            "set both or neither."
        )
    assert "GATE_TLS_CLIENT_CA_FILE needs" in problems({"GATE_TLS_CLIENT_CA_FILE": "/tls/ca.pem"})


def test_reflection_is_on_loopback_only_unless_it_is_said() -> None:
    far = {"GATE_GRPC_ADDRESS": "0.0.0.0:7101", "GATE_SERVE_PLAINTEXT": "true"}
    assert read_gate({}).serves_reflection
    assert not read_gate(far).serves_reflection
    assert read_gate({**far, "GATE_REFLECTION": "true"}).serves_reflection


def test_a_pool_has_room() -> None:
    said = problems({"GATE_DATABASE_POOL_MIN": "9"})
    assert said == "GATE_DATABASE_POOL_MIN (9) must not exceed GATE_DATABASE_POOL_MAX (8)."


def test_loading_wrong_settings_says_it_and_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        load(GateSettings, {"GATE_DATABASE_URL": URL, "GATE_OWN_MS": "0"})
    assert left.value.code == 2
    assert "The configuration is wrong:\n  GATE_OWN_MS is '0', but" in capsys.readouterr().err


def test_settings_read_no_environment_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATE_OWN_MS", "99")
    assert GateSettings(database_url=SecretStr(URL)).own_ms == 5


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:80", ("::1", 80)),
        ("host-a:65535", ("host-a", 65535)),
    ],
)
def test_an_address_is_host_and_port(address: str, parts: tuple[str, int]) -> None:
    assert host_and_port(address) == parts


@pytest.mark.parametrize("address", ["::1:80", "host", ":80", "host:65536", "host:-1", "a b:1"])
def test_anything_else_is_no_address(address: str) -> None:
    with pytest.raises(ValueError, match="must be host:port"):
        host_and_port(address)


def test_loopback_is_known() -> None:
    assert all(map(is_loopback, ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1"]))
    assert not any(map(is_loopback, ["0.0.0.0:1", "[::]:1", "example.com:1"]))
