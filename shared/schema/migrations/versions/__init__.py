"""A file per migration, numbered like the schema revision it makes."""
