"""The command that carries out some settings, to be copied."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from exhume.audit.settings import ASIDE, FIELDS, GIVEN, Settings

__all__ = ["command_of", "shown"]


def command_of(settings: Settings, **changes: Any) -> str:
    """Return a command line with these settings, but for some that are changed.

    Where the features were given in Python there is no such line: it is then the call.
    """
    if "defence" in changes:
        changes.setdefault("precision", Settings.model_fields["precision"].default)
    wanted = settings.model_copy(update=changes)
    names = {field: name for name, field in FIELDS.items()}
    options = {
        names[field]: value
        for field, info in Settings.model_fields.items()
        if field not in ASIDE and (value := getattr(wanted, field)) not in (None, info.default)
    }
    options |= {name: shown(options[name]) for name in ("features", "labels", "defence", "home") if name in options}
    if wanted.out.is_absolute():
        options.pop("out", None)
    if settings.features == Path(GIVEN):
        call = {k.replace("-", "_"): v for k, v in options.items() if k not in ("data", "encoder", "features")}
        return f"exhume.audit(features, labels{''.join(f', {k}={_literal(v)}' for k, v in call.items())})"
    words = ["exhume", "audit"]
    for name, value in options.items():
        words += [f"--{name}", ",".join(value) if isinstance(value, tuple) else str(value)]
    return shlex.join(words)


def shown(path: str | Path) -> str:
    """Return a path as a report may have it: where a file lies on one machine is nobody else's business."""
    return Path(path).name if Path(path).is_absolute() else str(path)


def _literal(value: Any) -> str:
    return repr(str(value) if isinstance(value, Path) else value)
