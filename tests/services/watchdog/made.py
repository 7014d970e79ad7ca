"""Settings, admins and keys that the watchdog's tests start from."""

from typing import Any

from fencepost.common.v1 import access_pb2
from fencepost.watchdog.v1 import access_pb2 as keys
from psycopg import sql
from pydantic import SecretStr

from services.watchdog.access.operations import Admin, CreateKey, RotateKey
from services.watchdog.settings import WatchdogSettings
from shared.credentials import Credential, new_credential
from tests.rows import Row, Rows

ALL_SCOPES = frozenset({"status_read", "keys_admin", "operate", "work", "deliveries_write"})


def watchdog_settings(database_url: str, **values: Any) -> WatchdogSettings:
    """Settings on this database; waits are generous, since tests share their machine."""
    return WatchdogSettings(
        **{
            "database_url": SecretStr(database_url),
            "database_lock_timeout_ms": 10_000,
            "figure_timeout_ms": 10_000,
            **values,
        }
    )


def admin(tenant: str | None = "acme", **values: Any) -> Admin:
    """Who may do everything for the tenant, or for all."""
    return Admin(**{"key_id": "adminadmin", "tenant": tenant, "scopes": ALL_SCOPES, **values})


def create_key(by: Admin | None = None, **values: Any) -> CreateKey:
    """A key for a worker."""
    return CreateKey(
        **{
            "admin": by or admin(),
            "request_id": "request-1",
            "label": "worker on host 7",
            "scopes": ("work", "status_read"),
            "valid_for_ms": None,
            **values,
        }
    )


def rotate_key(key_id: str, by: Admin | None = None, **values: Any) -> RotateKey:
    """A rotation without overlap."""
    return RotateKey(
        **{
            "admin": by or admin(),
            "request_id": "request-2",
            "key_id": key_id,
            "overlap_ms": 0,
            **values,
        }
    )


async def stored_key(
    rows: Rows, tenant: str | None = "acme", **values: Any
) -> tuple[Credential, Row]:
    """A key that is in the database already, with its credential."""
    credential = new_credential()
    row = await rows.insert(
        "api_keys",
        **{
            "key_id": credential.key_id,
            "tenant": tenant,
            "label": "made before",
            "scopes": ["status_read", "keys_admin"],
            "secret_sha256": credential.secret_sha256,
            "created_by": "test",
            **values,
        },
    )
    return credential, row


async def put_endpoint(rows: Rows, tenant: str, name: str, **values: Any) -> Row:
    """An endpoint that is in use, put just now."""
    return await rows.insert(
        "endpoints",
        **{
            "tenant": tenant,
            "name": name,
            "forge": "github",
            "forge_instance": "github.com",
            "proof": "signature",
            "routes": sql.SQL("""'[{"action": "review", "queue": "reviews"}]'"""),
            "bot_ids": [],
            "wanted_events": [],
            "drafts": "ignore",
            **values,
        },
    )


def key_request(**values: Any) -> keys.CreateKeyRequest:
    """A valid request for a key."""
    return keys.CreateKeyRequest(
        **{
            "request_id": "request-1",
            "label": "worker",
            "scopes": [access_pb2.SCOPE_WORK, access_pb2.SCOPE_STATUS_READ],
            **values,
        }
    )
