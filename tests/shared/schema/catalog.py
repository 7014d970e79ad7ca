"""Everything a database says about a schema, as text that can be compared."""

import psycopg

QUERIES = {
    "objects": """
        SELECT c.relname, format('%%s %%s%%s', c.relkind, c.relpersistence, c.reloptions::text)
        FROM pg_class c WHERE c.relnamespace = to_regnamespace(%(schema)s) AND c.relkind <> 'i'
    """,
    "columns": """
        SELECT c.relname || '.' || a.attname,
            format('%%s not null %%s default %%s identity %%s generated %%s collation %%s',
                format_type(a.atttypid, a.atttypmod), a.attnotnull,
                pg_get_expr(d.adbin, d.adrelid), a.attidentity, a.attgenerated,
                a.attcollation::regcollation)
        FROM pg_class c
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
        WHERE c.relnamespace = to_regnamespace(%(schema)s) AND c.relkind IN ('r', 'p', 'v', 'm')
    """,
    "constraints": """
        SELECT c.conrelid::regclass || ' ' || c.conname,
            format('%%s validated %%s', pg_get_constraintdef(c.oid), c.convalidated)
        FROM pg_constraint c WHERE c.connamespace = to_regnamespace(%(schema)s)
    """,
    "indexes": """
        SELECT i.indexrelid::regclass::text,
            format('%%s valid %%s', pg_get_indexdef(i.indexrelid), i.indisvalid)
        FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
        WHERE c.relnamespace = to_regnamespace(%(schema)s)
    """,
    "sequences": """
        SELECT s.seqrelid::regclass::text,
            format('%%s start %%s by %%s from %%s to %%s cache %%s cycle %%s', s.seqtypid::regtype,
                s.seqstart, s.seqincrement, s.seqmin, s.seqmax, s.seqcache, s.seqcycle)
        FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid
        WHERE c.relnamespace = to_regnamespace(%(schema)s)
    """,
    "triggers": """
        SELECT t.tgrelid::regclass || ' ' || t.tgname, pg_get_triggerdef(t.oid)
        FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
        WHERE c.relnamespace = to_regnamespace(%(schema)s) AND NOT t.tgisinternal
    """,
    "functions": """
        SELECT p.oid::regprocedure::text, pg_get_functiondef(p.oid)
        FROM pg_proc p WHERE p.pronamespace = to_regnamespace(%(schema)s)
    """,
    "types": """
        SELECT t.typname, t.typtype::text FROM pg_type t
        WHERE t.typnamespace = to_regnamespace(%(schema)s) AND t.typtype NOT IN ('b', 'c')
    """,
}

# Alembic's own bookkeeping; no table of ours.
IGNORED = "alembic_version"


def describe(url: str, schema: str) -> dict[str, str]:
    """One line for each object, column, constraint, index, sequence, trigger, function and type."""
    found: dict[str, str] = {}
    with psycopg.connect(url) as connection:
        for subject, query in QUERIES.items():
            rows = connection.execute(query.encode(), {"schema": schema}).fetchall()
            found |= {f"{subject}: {name}": text for name, text in rows if IGNORED not in name}
    return found
