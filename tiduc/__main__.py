"""`python -m tiduc`, and the command `tiduc`."""

import signal
import sys


def main() -> None:
    """Runs the command line.

    Until its libraries are loaded, an interrupt ends the process at once, as other signals do: there is nothing to
    clean up yet, and an exception within a native library that loads is a crash.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # and not ignored, as in the background
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from tiduc.cli import attend, run

    sys.exit(run(loaded=attend))


if __name__ == "__main__":
    main()
