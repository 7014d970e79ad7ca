"""What is not known of the schema is not taken for good."""

from collections.abc import Callable

import psycopg
import pytest
from fencepost.errors import DatabaseUnavailable, SchemaMismatch

from shared.database import Database
from shared.schema.grants import Service
from shared.schema_fit import SchemaFit
from tests.database_proxy import DatabaseProxy
from tests.shared.database.conftest import settings_for
from tests.waiting import until


@pytest.mark.guarantee("X3")
async def test_nothing_is_served_before_the_schema_was_seen_once(
    owner_url: str, service_url: Callable[[Service], str]
) -> None:
    with psycopg.connect(owner_url) as owner:
        owner.execute("UPDATE fencepost.schema_revision SET revision = 0")
    async with DatabaseProxy.before(service_url("dispatcher")) as proxy:
        await proxy.cut()
        settings = settings_for(proxy.url(), database_connect_timeout_ms=500)
        async with Database.create(settings, application_name="test") as database:
            fit = SchemaFit(database)
            with pytest.raises(DatabaseUnavailable):
                await fit.check()
            await proxy.restore()
            with pytest.raises(DatabaseUnavailable):
                fit.require()
            await until(lambda: seen_not_to_fit(fit), deadline_s=20, what="the schema to be seen")
            with pytest.raises(SchemaMismatch):
                fit.require()


async def seen_not_to_fit(fit: SchemaFit) -> bool:
    """Asks the database, which may not be back yet."""
    with pytest.raises((DatabaseUnavailable, SchemaMismatch)) as refused:
        await fit.check()
    return refused.errisinstance(SchemaMismatch)
