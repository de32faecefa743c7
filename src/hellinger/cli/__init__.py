"""The command ``hellinger``: every public module of this package adds its commands to it."""

from __future__ import annotations

import importlib
import pkgutil

from hellinger.cli._app import app, flow_help, run

__all__ = ["app", "main"]

for _module in pkgutil.iter_modules(__path__):
    if not _module.name.startswith("_"):
        importlib.import_module(f"{__name__}.{_module.name}")
flow_help()


def main() -> None:
    """Run the command line."""
    run()
