"""How values travel: whole numbers always as bigint, so that a statement has one type signature.

Arrays travel in binary: as text every string in them is escaped and a body is written out in hex,
which costs a list as much again as everything else done for it, and twice the memory.
"""

from psycopg import adapters
from psycopg.adapt import AdaptersMap
from psycopg.types.array import ListBinaryDumper
from psycopg.types.json import JsonbBinaryDumper
from psycopg.types.numeric import Int8BinaryDumper, Int8BinaryLoader, Int8Dumper

XID8_OID = 5069

ADAPTERS = AdaptersMap(adapters)
ADAPTERS.register_dumper(int, Int8Dumper)
ADAPTERS.register_dumper(int, Int8BinaryDumper)
ADAPTERS.register_dumper(dict, JsonbBinaryDumper)
ADAPTERS.register_dumper(list, ListBinaryDumper)
ADAPTERS.register_loader(XID8_OID, Int8BinaryLoader)
