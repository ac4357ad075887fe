"""`exhume audit --target`: a live server or service, as one of its clients."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from exhume.cli._options import command_line, tell
from exhume.errors import ExhumeError, InputError

if TYPE_CHECKING:
    from exhume.audit.live_deletion import Owner
    from exhume.audit.records import Report
    from exhume.audit.settings import Settings
    from exhume.protocol.target import Target
    from exhume.service import Remote

__all__ = ["LiveAccess", "live", "undo"]


def _check_operated(target: str, operated: bool) -> None:
    if not operated:
        raise InputError("target", "probed only by its operator: add --i-operate-this-server", f"'{target}'")


@dataclass(frozen=True)
class LiveAccess:
    """How to reach a service, and as whom."""

    client: Path | None
    owner: Path | None
    ca: Path | None

    def check(self, target: str | None) -> None:
        """Refuse what does not go together, before any work."""
        address = target is not None and "://" in target
        for name, given in (("token-file", self.client), ("owner-token-file", self.owner), ("ca-file", self.ca)):
            if given is not None and not address:
                raise InputError(name, "left out unless --target is the address of a service", f"'{given}'")
        if address and self.client is None:
            raise InputError("token-file", "given with the address of a service", "nothing")

    def service(self, target: str) -> Remote | None:
        """Return the service, if the target is one."""
        return None if self.client is None else self._remote(target, self.client)

    def owning(self, target: str) -> Remote | None:
        """Return the service as the second client sees it, if there is one."""
        return None if self.owner is None else self._remote(target, self.owner)

    def _remote(self, target: str, token: Path) -> Remote:
        from exhume.service import Remote, read_token

        return Remote(target, read_token(token), ca_file=self.ca)

    def target(self, target: str) -> Target:
        """Return the live target."""
        from exhume.audit.target import guarded, load_target

        remote = self.service(target)
        return load_target(target) if remote is None else guarded(remote)

    def owner_of(self, target: str, settings: Settings) -> Owner | None:
        """Return who owns the test record of a whole deletion, if somebody does."""
        remote = self.owning(target)
        if remote is None:
            return None
        if settings.features is None:
            raise InputError("owner-token-file", "given with --features, whose first row is the test record", "none")
        from exhume.audit.live_deletion import Owner
        from exhume.audit.row_journal import RowJournal
        from exhume.data.own import read_own

        features, labels, _, _ = read_own(settings.features, settings.labels)
        return Owner(RowJournal({"owner": remote}, settings.out, target), features[0], int(labels[0]))


def undo(file: Path, target: str | None, operated: bool, tokens: LiveAccess) -> None:
    """Send what an earlier audit could not take back."""
    if target is None:
        raise InputError("undo", "given together with --target, the server to send it to", "no target")
    _check_operated(target, operated)
    from exhume.audit.live import undo as undo_sums
    from exhume.audit.outstanding import read
    from exhume.audit.row_journal import is_row_journal

    if is_row_journal(file):
        _undo_rows(file, target, tokens)
        return
    left = read(file)
    back, careful = undo_sums(tokens.target(target), left, file.parent)
    sent = file.replace(file.with_suffix(".sent"))
    if not back:
        more = "" if careful.file is None else f"; what is left is in '{careful.file}'"
        raise ExhumeError(f"sent '{sent}', but the head is off by {careful.residual:.2g} of what it was{more}")
    typer.echo(f"Taken back: the head is as it was, to within {careful.residual:.2g}. The file is now '{sent}'.")


def _undo_rows(file: Path, target: str, tokens: LiveAccess) -> None:
    from exhume.audit.row_journal import RowJournal

    service, owner = tokens.service(target), tokens.owning(target)
    if service is None:
        raise InputError("target", "the address of the service that the rows were sent to", f"'{target}'")
    journal = RowJournal.resumed({"attacker": service} | ({} if owner is None else {"owner": owner}), file)
    found = journal.undo()
    typer.echo(f"Taken back: {found} messages of rows still stood, and are deleted now. '{file}' is gone.")


def live(settings: Settings, target: str, operated: bool, tokens: LiveAccess, *, chosen: bool) -> Report:
    """Probe a live target, say what was done, and return the report; ``chosen`` says that a probe was asked for."""
    _check_operated(target, operated)
    from exhume.audit.live_report import report_live, report_rows

    service, begun = tokens.service(target), f"Probing the live target {target}; every probe is taken back."
    owner = None if service is None else tokens.owning(target)
    if service is not None and _wants_rows(service, settings, chosen=chosen):
        service.head()  # who cannot be reached is said before anything is sent
        typer.echo(begun, err=True)
        report = report_rows(service, settings, target, command_line(), owner)
    else:
        server, test = tokens.target(target), tokens.owner_of(target, settings)
        server.head()
        typer.echo(begun, err=True)
        report = report_live(server, settings, target, command_line(), test)
    assert report.live is not None
    for action in report.live.actions:
        typer.echo(f"  - {action}", err=True)
    if not report.live.restored:
        tell(report.verdict)
        raise ExhumeError(f"the head did not come back: relative residual {report.live.residual}")
    if report.live.failed and report.verdict.severity is None:
        tell(report.verdict)
        raise ExhumeError(f"the target broke down, so there is no verdict: {report.live.reason}")
    if report.live.interrupted:
        tell(report.verdict)
        raise typer.Exit(130)
    return report


def _wants_rows(service: Remote, settings: Settings, *, chosen: bool) -> bool:
    """Whether to show rows: where they were asked for, and where the service takes nothing else."""
    if chosen:
        return settings.probe == ("own-data",)
    return service.bounds is not None or "rows" in service.asks
