"""Moments in requests: a Timestamp can hold what no moment is, which no field rule sees."""

from datetime import UTC, datetime

from fencepost.errors import FieldInvalid
from google.protobuf.timestamp_pb2 import Timestamp


def moment(stamp: Timestamp, field: str) -> datetime:
    """The moment in UTC; raises FieldInvalid, which names the field (X4)."""
    try:
        return stamp.ToDatetime(UTC)
    except ValueError:
        sentence = "must be a moment of the years 1 to 9999, its nanos from 0 to 999,999,999"
        raise FieldInvalid(violations=[(field, sentence)]) from None
