"""The command ``hellinger``, which ``python -m hellinger`` is too."""

from __future__ import annotations

import sys

from hellinger.errors import MissingExtraError, needs_extra

__all__ = ["main"]

_LABORATORY = ("", "coldstart", "families", "leaderboard", "policies", "reproduce", "show", "simulate")
"""Commands that come with the extra ``lab``; all others are the service's."""


def main() -> None:
    """Run the command line, or say what to install where the library is there without it."""
    command = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    try:
        with needs_extra("lab" if command in _LABORATORY else "serve"):
            from hellinger import cli
    except MissingExtraError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:  # while it imports what it needs
        print("stopped", file=sys.stderr)
        sys.exit(130)
    cli.main()


if __name__ == "__main__":
    main()
