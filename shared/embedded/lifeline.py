"""Becomes the given program, which is then interrupted as soon as its parent dies.

A script of its own, run as `python -I -S lifeline.py PARENT_PID PROGRAM ARGUMENT...`: the signal
has to be asked for in the child, and code between fork and exec is not safe in a threaded parent.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ties this process to its parent and becomes the program; SIGINT is a clean, fast stop."""
    parent_id, *command = sys.argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGINT), 0, 0, 0) != 0:
        sys.exit(f"prctl(PR_SET_PDEATHSIG): {os.strerror(ctypes.get_errno())}")
    # A parent that died before the call above sends no signal any more.
    if os.getppid() != int(parent_id):
        sys.exit("the process that started this one has died")
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
