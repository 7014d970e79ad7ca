"""Settings: what belongs together."""

import pytest

from services.dispatcher.settings import DispatcherSettings
from shared.settings import MIB, SettingsError, read

NEEDED = {"DISPATCHER_DATABASE_URL": "postgresql://dispatcher:x@127.0.0.1:5432/fencepost"}


def test_what_workers_count_on_fits_a_frame() -> None:
    assert read(DispatcherSettings, NEEDED).frame_limit_bytes == 4 * MIB
    with pytest.raises(SettingsError, match="DISPATCHER_FRAME_LIMIT_BYTES"):
        read(DispatcherSettings, NEEDED | {"DISPATCHER_FRAME_LIMIT_BYTES": str(4 * MIB - 1)})


def test_a_frame_fits_a_message() -> None:
    messages = NEEDED | {"DISPATCHER_MESSAGE_LIMIT_BYTES": str(4 * MIB)}
    read(DispatcherSettings, messages)
    with pytest.raises(SettingsError, match="DISPATCHER_MESSAGE_LIMIT_BYTES"):
        read(DispatcherSettings, messages | {"DISPATCHER_FRAME_LIMIT_BYTES": str(4 * MIB + 1)})
