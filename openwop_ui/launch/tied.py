"""Runs a program that does not outlive its parent: `python tied.py PARENT PROGRAM ARGUMENT…`.

The kernel ends the program when the parent dies, however it dies. This is a small process that becomes the
program, because the request belongs between fork and exec, where a parent with threads may run no Python.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # The parent may have died before the request took hold.
    if os.getppid() != parent:
        sys.exit("the parent is gone")
    os.execv(command[0], command)


main()
