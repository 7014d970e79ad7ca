"""The figures and the statement that observes each: a value and its time, one row or one a label.

`tenant` NULL stands for all tenants. A value that is NULL means that there was nothing to observe.
Every statement is bounded by an index or by a table that holds only what is under way, so that a
long history makes none of them slow.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import psycopg
from psycopg import errors

from shared.database import Statement, Transaction, statement

READINGS_MAX = 1000
"""Of one figure: more are not told, and none is left out without a word."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure; `when_nothing` says why there is no value where its query finds none.

    `labelled`: there are several, told apart by labels; `when_none` says why there is not one.
    """

    name: str
    description: str
    query: Statement
    when_nothing: str = "there is nothing to observe"
    labelled: bool = False
    when_none: str = "there is nothing to observe"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a query found, and when on the database's clock."""

    value: float | None
    at: datetime
    labels: Mapping[str, str] = field(init=False, default_factory=dict)
    since: datetime | None = field(init=False, default=None)


@dataclass(frozen=True, kw_only=True)
class LabelledReading(Reading):
    """What a query found of one of several; `since` says from when on there was nothing."""

    labels: Mapping[str, str]
    since: datetime | None


class NotObservableError(Exception):
    """The database refused the query; the message says why."""


async def read_figure(tx: Transaction, figure: Figure, *, tenant: str | None) -> list[Reading]:
    """Observes the figure now; raises NotObservableError."""
    into = LabelledReading if figure.labelled else Reading
    try:
        readings = await tx.all(figure.query, into, tenant=tenant)
    except errors.QueryCanceled as error:
        why = "its query took longer than a statement may"
        raise NotObservableError(why) from error
    except errors.InsufficientPrivilege as error:
        why = "the watchdog's database role may not read what it is made of"
        raise NotObservableError(why) from error
    except psycopg.ProgrammingError as error:
        why = f"its query does not fit the database's schema (SQLSTATE {error.sqlstate})"
        raise NotObservableError(why) from error
    if len(readings) > READINGS_MAX:
        raise NotObservableError(f"there are more than {READINGS_MAX} of them; name a tenant")
    return list(readings)


_DELIVERIES_RECEIVED = statement("""
    WITH RECURSIVE seen (tenant) AS (
        (
            SELECT coalesce(
                %(tenant)s::text, (SELECT d.tenant FROM deliveries AS d ORDER BY d.tenant LIMIT 1)
            )
        )
        UNION ALL
        SELECT (
            SELECT d.tenant FROM deliveries AS d
            WHERE d.tenant > seen.tenant AND %(tenant)s::text IS NULL
            ORDER BY d.tenant LIMIT 1
        )
        FROM seen WHERE seen.tenant IS NOT NULL
    )
    SELECT coalesce(sum(counted.deliveries), 0)::float8 AS value, statement_timestamp() AS at
    FROM seen, LATERAL (
        SELECT count(*) AS deliveries FROM deliveries AS d
        WHERE d.tenant = seen.tenant
            AND d.received_at > statement_timestamp() - interval '1 hour'
    ) AS counted
""")

_DELIVERIES_BY_OUTCOME = statement("""
    WITH counted AS (
        SELECT received.outcome, received.reason, count(*) AS deliveries
        FROM (
            SELECT DISTINCT e.tenant FROM endpoints AS e
            WHERE %(tenant)s::text IS NULL OR e.tenant = %(tenant)s
        ) AS known, LATERAL (
            SELECT d.outcome, d.reason FROM deliveries AS d
            WHERE d.tenant = known.tenant
                AND d.received_at > statement_timestamp() - interval '1 hour'
            OFFSET 0
        ) AS received
        GROUP BY received.outcome, received.reason
    )
    SELECT jsonb_build_object('outcome', known.outcome, 'reason', coalesce(counted.reason, ''))
            AS labels,
        coalesce(counted.deliveries, 0)::float8 AS value, statement_timestamp() AS at,
        NULL::timestamptz AS since
    FROM unnest(ARRAY['accepted', 'duplicate', 'ignored', 'refused'])
        WITH ORDINALITY AS known (outcome, turn)
    LEFT JOIN counted USING (outcome)
    ORDER BY known.turn, value DESC, counted.reason
""")

# One more than READINGS_MAX, to see that there are more.
_ENDPOINT_LAST_DELIVERY_AGE = statement("""
    SELECT jsonb_build_object('tenant', e.tenant, 'endpoint', e.name) AS labels,
        extract(epoch FROM statement_timestamp() - newest.received_at)::float8 AS value,
        statement_timestamp() AS at, e.created_at AS since
    FROM endpoints AS e
    LEFT JOIN LATERAL (
        SELECT d.received_at FROM deliveries AS d
        WHERE d.tenant = e.tenant AND d.endpoint = e.name AND d.delivery_seq > 0
        ORDER BY d.received_at DESC LIMIT 1
    ) AS newest ON true
    WHERE e.disabled_at IS NULL AND (%(tenant)s::text IS NULL OR e.tenant = %(tenant)s)
    ORDER BY e.tenant, e.name
    LIMIT 1001
""")

_LAST_DELIVERY_AGE = statement("""
    SELECT extract(epoch FROM statement_timestamp() - newest.received_at)::float8 AS value,
        statement_timestamp() AS at
    FROM (VALUES (1)) AS always (one)
    LEFT JOIN (
        (
            SELECT d.received_at FROM deliveries AS d
            WHERE d.tenant = %(tenant)s::text
            ORDER BY d.received_at DESC LIMIT 1
        )
        UNION ALL
        (
            SELECT d.received_at FROM deliveries AS d
            WHERE %(tenant)s::text IS NULL
            ORDER BY d.delivery_seq DESC LIMIT 1
        )
    ) AS newest ON true
""")

_INTENTS_OPEN = statement("""
    SELECT (
            (
                SELECT count(*) FROM ready AS r
                WHERE %(tenant)s::text IS NULL OR r.tenant = %(tenant)s
            ) + (
                SELECT count(*) FROM waiting AS w
                WHERE %(tenant)s::text IS NULL OR w.tenant = %(tenant)s
            ) + (
                SELECT count(*) FROM leases AS l
                WHERE l.state = 'running'
                    AND (%(tenant)s::text IS NULL OR l.tenant = %(tenant)s)
            )
        )::float8 AS value,
        statement_timestamp() AS at
""")

_INTENTS_READY = statement("""
    SELECT count(*)::float8 AS value, statement_timestamp() AS at
    FROM ready
    WHERE %(tenant)s::text IS NULL OR tenant = %(tenant)s
""")

_OLDEST_READY_AGE = statement("""
    SELECT coalesce(
            extract(epoch FROM statement_timestamp() - min(entered_at)), 0
        )::float8 AS value,
        statement_timestamp() AS at
    FROM ready
    WHERE %(tenant)s::text IS NULL OR tenant = %(tenant)s
""")

_INTENTS_WAITING = statement("""
    SELECT count(*)::float8 AS value, statement_timestamp() AS at
    FROM waiting
    WHERE %(tenant)s::text IS NULL OR tenant = %(tenant)s
""")

_INTENTS_DEAD = statement("""
    SELECT count(*)::float8 AS value, statement_timestamp() AS at
    FROM intents
    WHERE status = 'dead' AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
""")

_LEASES_RUNNING = statement("""
    SELECT count(*)::float8 AS value, statement_timestamp() AS at
    FROM leases
    WHERE state = 'running' AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
""")

_LEASES_OVERDUE = statement("""
    SELECT count(*)::float8 AS value, statement_timestamp() AS at
    FROM leases
    WHERE state = 'running' AND claimable_at <= statement_timestamp()
        AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
""")

_SESSIONS_OPEN = statement("""
    SELECT count(*)::float8 AS value, statement_timestamp() AS at
    FROM sessions
    WHERE state <> 'ended' AND state = 'open'
        AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
""")

_PUBLICATIONS_RUNNING = statement("""
    SELECT count(*)::float8 AS value, statement_timestamp() AS at
    FROM publication_attempts
    WHERE status IN ('running', 'uncertain') AND status = 'running'
        AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
""")

_PUBLICATIONS_UNCERTAIN = statement("""
    SELECT count(*)::float8 AS value, statement_timestamp() AS at
    FROM publication_attempts
    WHERE status IN ('running', 'uncertain') AND status = 'uncertain'
        AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
""")

_HOLDS_ACTIVE = statement("""
    SELECT count(*)::float8 AS value, statement_timestamp() AS at
    FROM holds
    WHERE released_at IS NULL
        AND (%(tenant)s::text IS NULL OR tenant IS NULL OR tenant = %(tenant)s)
""")

_SPANS_NOT_EXPORTED = statement("""
    SELECT count(*)::float8 AS value, statement_timestamp() AS at
    FROM run_spans
    WHERE exported_at IS NULL AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
""")


FIGURES: tuple[Figure, ...] = (
    Figure(
        name="deliveries_received_last_hour",
        description="Deliveries stored in the last hour, whatever became of them.",
        query=_DELIVERIES_RECEIVED,
    ),
    Figure(
        name="last_delivery_age_seconds",
        description="How long ago the last delivery was stored.",
        query=_LAST_DELIVERY_AGE,
        when_nothing="no delivery has been stored yet",
    ),
    Figure(
        name="endpoint_heard_age_seconds",
        description="How long ago the endpoint's last delivery was stored.",
        query=_ENDPOINT_LAST_DELIVERY_AGE,
        when_nothing="never heard since it was put",
        labelled=True,
        when_none="no endpoint is in use",
    ),
    Figure(
        name="deliveries_last_hour",
        description="Deliveries stored in the last hour with this outcome, for this reason.",
        query=_DELIVERIES_BY_OUTCOME,
        labelled=True,
    ),
    Figure(
        name="intents_open",
        description="Intents not settled yet: ready, waiting or with a worker.",
        query=_INTENTS_OPEN,
    ),
    Figure(
        name="intents_ready",
        description="Intents that a worker could take now.",
        query=_INTENTS_READY,
    ),
    Figure(
        name="oldest_ready_age_seconds",
        description="How long the oldest of them has been ready; 0 when none is.",
        query=_OLDEST_READY_AGE,
    ),
    Figure(
        name="intents_waiting",
        description="Intents that wait for their time, a holder or a publication.",
        query=_INTENTS_WAITING,
    ),
    Figure(
        name="intents_dead",
        description="Intents that will not be tried again by themselves.",
        query=_INTENTS_DEAD,
    ),
    Figure(
        name="leases_running",
        description="Intents that a worker holds now.",
        query=_LEASES_RUNNING,
    ),
    Figure(
        name="leases_overdue",
        description="Leases past their time that nobody has taken over yet.",
        query=_LEASES_OVERDUE,
    ),
    Figure(
        name="sessions_open",
        description="Workers that hold a stream now.",
        query=_SESSIONS_OPEN,
    ),
    Figure(
        name="publications_running",
        description="Publications that were claimed and are not settled yet.",
        query=_PUBLICATIONS_RUNNING,
    ),
    Figure(
        name="publications_uncertain",
        description="Publications that may or may not have reached the forge.",
        query=_PUBLICATIONS_UNCERTAIN,
    ),
    Figure(
        name="holds_active",
        description="Holds that stop publications now.",
        query=_HOLDS_ACTIVE,
    ),
    Figure(
        name="spans_not_exported",
        description="Workers' spans that no collector has taken yet.",
        query=_SPANS_NOT_EXPORTED,
    ),
)
"""Every figure, in the order in which it is shown."""
