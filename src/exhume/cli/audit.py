"""`exhume audit`: run the attacks, print a verdict, write the report."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from exhume.cli._options import (
    JsonTo,
    check_file,
    check_folder,
    completing,
    completing_files,
    console_for,
    put_json,
    say,
)
from exhume.errors import ExhumeError, InputError
from exhume.files import write_files

if TYPE_CHECKING:
    from exhume.audit.accepted import Risk
    from exhume.audit.compare import Earlier
    from exhume.audit.live_deletion import Owner
    from exhume.audit.records import Report, Verdict
    from exhume.audit.settings import Settings
    from exhume.protocol.target import Target

__all__ = ["audit"]

Text = str | None
Number = int | None


def audit(
    data: Annotated[
        Text,
        typer.Option(
            help="Data set: {data}, or 'features' for your own file. (default: digits)",
            autocompletion=completing("data"),
        ),
    ] = None,
    encoder: Annotated[
        Text,
        typer.Option(help="Frozen encoder: {encoders}. (default: random-relu)", autocompletion=completing("encoders")),
    ] = None,
    dim: Annotated[Number, typer.Option(help="Features, where the encoder leaves it open. (default: 128)")] = None,
    features: Annotated[
        Path | None, typer.Option(help="Your own features: .npz, .safetensors, .csv, .parquet or .npy.")
    ] = None,
    labels: Annotated[Path | None, typer.Option(help="The labels, if your features are a .npy file.")] = None,
    clients: Annotated[Number, typer.Option(help="Number of clients. (default: 5)")] = None,
    alpha: Annotated[float | None, typer.Option(help="Dirichlet concentration of the split. (default: 1)")] = None,
    gamma: Annotated[float | None, typer.Option(help="Ridge coefficient. (default: 0.001)")] = None,
    probe: Annotated[
        Text,
        typer.Option(help="Comma list of {probes}. (default: designed,own-data)", autocompletion=completing("probes")),
    ] = None,
    kind: Annotated[
        Text,
        typer.Option(
            help="What is deleted: comma list of {kinds}. (default: all three)", autocompletion=completing("kinds")
        ),
    ] = None,
    precision: Annotated[
        Text, typer.Option(help="Comma list of float64, float32, float16, bfloat16, Nbits. (default: float64,float32)")
    ] = None,
    defence: Annotated[
        Text,
        typer.Option(
            help="Your server's settings: a configuration file with rules of admission ({admission}), of release "
            "({release}) and an accountant ({accountants}), or 'hardened'. Attacked beside the bare server, in place "
            "of --precision.",
            autocompletion=completing_files("shipped"),
        ),
    ] = None,
    attack: Annotated[
        Text,
        typer.Option(
            help="With --defence: comma list of attackers that know it, of {attacks}. (default: all but burn)",
            autocompletion=completing("attacks"),
        ),
    ] = None,
    estimator: Annotated[
        Text,
        typer.Option(
            help="How a state is estimated from answers: {estimators}. (default: direct)",
            autocompletion=completing("estimators"),
        ),
    ] = None,
    recovery: Annotated[
        Text,
        typer.Option(
            help="Comma list of {recoveries}. (default: difference,rank-one)", autocompletion=completing("recoveries")
        ),
    ] = None,
    trials: Annotated[
        Number, typer.Option(help="Deletions per probe, at most (classes and clients are few). (default: 100)")
    ] = None,
    responses: Annotated[
        Number, typer.Option(help="Probe responses per state, where the probe leaves it open.")
    ] = None,
    scale: Annotated[float | None, typer.Option(help="Size of made-up probes. (default: 10000)")] = None,
    seed: Annotated[Number, typer.Option(help="Seed of everything random. (default: 0)")] = None,
    engine: Annotated[
        Text,
        typer.Option(
            help="What carries messages between clients and server: {engines}. (default: in-process)",
            autocompletion=completing("engines"),
        ),
    ] = None,
    jobs: Annotated[Number, typer.Option(help="Processes; 0 is one per core. (default: 0)")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the report. (default: exhume-report)")] = None,
    json: JsonTo = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with the same names; options win over it.")] = None,
    fail_on: Annotated[
        Text,
        typer.Option(
            help="Exit with 1 at this severity or worse: {levels}; 'worse' with --compare.",
            autocompletion=completing("fail_on"),
        ),
    ] = None,
    home: Annotated[Path | None, typer.Option(help="Home folder of data and features.")] = None,
    compare: Annotated[Path | None, typer.Option(help="An earlier report.json: say what got worse since.")] = None,
    accept: Annotated[
        Path | None, typer.Option(help="TOML file of accepted risks, each with a reason and an expiry date.")
    ] = None,
    sarif: Annotated[Path | None, typer.Option(help="Also write SARIF, for code scanning.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Also write JUnit XML, for pipelines.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Also write Markdown, for pull requests.")] = None,
    remedy: Annotated[
        bool | None,
        typer.Option(help="Measure the hardened server in the same trials, for 'What to do now'. (default: if cheap)"),
    ] = None,
    target: Annotated[
        Text, typer.Option(help="Audit your own live server: package.module:function, or the address of a service.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="With an address: the file of the client's token that the audit plays.")
    ] = None,
    owner_token_file: Annotated[
        Path | None,
        typer.Option(
            help="With an address: a second client's token. It adds the first row of --features and deletes it, and "
            "the audit measures what comes out."
        ),
    ] = None,
    ca_file: Annotated[
        Path | None, typer.Option(help="With an address: the certificate of the authority that signed the service's.")
    ] = None,
    undo: Annotated[
        Path | None, typer.Option(help="With --target: send what an earlier audit could not take back, from its file.")
    ] = None,
    operated: Annotated[
        bool, typer.Option("--i-operate-this-server", help="Say that the live target is yours to probe.")
    ] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Print the threat model in force and exit.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget the trials that an earlier run finished.")] = False,
    heads: Annotated[Text, typer.Option(hidden=True)] = None,
    delete: Annotated[Text, typer.Option(hidden=True)] = None,
) -> None:
    """Attack a federation that unlearns exactly, and say what a client could dig up."""
    from exhume.audit.explain import explain as threat_model
    from exhume.audit.settings import from_toml, make_settings
    from exhume.audit.signals import stopping

    given = {
        "data": data, "encoder": encoder, "dim": dim, "features": features, "labels": labels, "clients": clients,
        "alpha": alpha, "gamma": gamma, "probe": probe, "kind": kind, "precision": precision, "defence": defence,
        "attack": attack, "estimator": estimator, "recovery": recovery, "trials": trials, "responses": responses,
        "scale": scale, "seed": seed, "engine": engine, "jobs": jobs, "out": out, "json": json, "fail-on": fail_on,
        "home": home, "heads": heads, "delete": delete, "remedy": remedy, "compare": compare, "accept": accept,
        "sarif": sarif, "junit": junit, "markdown": markdown,
    }  # fmt: skip
    values: dict[str, Any] = {} if config is None else from_toml(config)
    values |= {name: value for name, value in given.items() if value is not None}
    if target is not None:
        if values.get("defence") is not None:
            raise InputError("defence", "left out with a live target, which has settings of its own", values["defence"])
        if values.get("engine") is not None:
            raise InputError("engine", "left out with a live target, which has its own", values["engine"])
        values.setdefault("probe", "designed")
    settings = make_settings(values, live=target is not None)
    if explain:
        typer.echo(threat_model(settings))
        return
    tokens = _Tokens(token_file, owner_token_file, ca_file)
    tokens.check(target, settings)
    if undo is not None:
        _undo(undo, target, operated, tokens)
        return
    check_folder("out", settings.out)
    for name in ("json", "sarif", "junit", "markdown"):
        check_file(name, getattr(settings, "json_file" if name == "json" else name))
    surroundings = _surroundings(settings)
    with stopping():
        report = _live(settings, target, operated, tokens) if target is not None else _simulated(settings, fresh)
        _finish(report, settings, *surroundings)


def _surroundings(settings: Settings) -> tuple[Earlier | None, tuple[Risk, ...]]:
    """Read the earlier report and the accepted risks, before any work."""
    from exhume.audit.accepted import read_risks
    from exhume.audit.compare import read_earlier

    earlier = None if settings.compare is None else read_earlier(settings.compare)
    return earlier, () if settings.accept is None else read_risks(settings.accept)


def _simulated(settings: Settings, fresh: bool) -> Report:
    from exhume.audit.forecast import said
    from exhume.audit.plan import prepare
    from exhume.audit.run import audit as run
    from exhume.data.progress import extraction_bar
    from exhume.jobs.progress import progress_bar

    console = Console(stderr=True)
    try:
        with extraction_bar(console) as tick:
            plan = prepare(settings, tick)
        if (needs := said(plan)) is not None:
            typer.echo(needs, err=True)
        with progress_bar(console, "attacking") as progress:
            done = run(settings, command=_command(), fresh=fresh, progress=progress, plan=plan)
    except KeyboardInterrupt:
        typer.echo("exhume: interrupted; finished trials are kept, and the same command goes on from them", err=True)
        raise typer.Exit(130) from None
    if done.reused:
        typer.echo(
            f"{done.reused} of {done.total} tasks were done by an earlier run (--fresh does them anew).", err=True
        )
    if not done.carried_out:  # a guard must not take this for a clean bill
        reasons = [failure["reason"] for failure in done.report.failures]
        refused = [reason for reason in reasons if reason.startswith("deletion refused")]
        first = next(iter(refused or reasons), "no deletion to attack")
        raise ExhumeError(f"no trial could be carried out, so there is no verdict: {first}")
    return done.report


def _check_operated(target: str, operated: bool) -> None:
    if not operated:
        raise InputError("target", "probed only by its operator: add --i-operate-this-server", f"'{target}'")


@dataclass(frozen=True)
class _Tokens:
    """How to reach a service, and as whom."""

    client: Path | None
    owner: Path | None
    ca: Path | None

    def check(self, target: str | None, settings: Settings) -> None:
        """Refuse what does not go together, before any work."""
        address = target is not None and "://" in target
        for name, given in (("token-file", self.client), ("owner-token-file", self.owner), ("ca-file", self.ca)):
            if given is not None and not address:
                raise InputError(name, "left out unless --target is the address of a service", f"'{given}'")
        if address and self.client is None:
            raise InputError("token-file", "given with the address of a service", "nothing")
        if self.owner is not None and settings.features is None:
            raise InputError("owner-token-file", "given with --features, whose first row is the test record", "none")

    def target(self, target: str) -> Target:
        """Return the live target."""
        from exhume.audit.target import guarded, load_target

        if self.client is None:
            return load_target(target)
        from exhume.service import Remote, read_token

        safe = guarded(Remote(target, read_token(self.client), ca_file=self.ca))
        safe.head()  # who cannot be reached is said before anything is sent
        return safe

    def owning(self, target: str, settings: Settings) -> Owner | None:
        """Return who owns the test record, if somebody does."""
        if self.owner is None or settings.features is None:
            return None
        from exhume.audit.live_deletion import Owner
        from exhume.data.own import read_own
        from exhume.service import Remote, read_token

        features, labels, _, _ = read_own(settings.features, settings.labels)
        remote = Remote(target, read_token(self.owner), ca_file=self.ca)
        return Owner(remote.client("owner"), features[0], int(labels[0]))


def _undo(file: Path, target: str | None, operated: bool, tokens: _Tokens) -> None:
    if target is None:
        raise InputError("undo", "given together with --target, the server to send it to", "no target")
    _check_operated(target, operated)
    from exhume.audit.live import undo
    from exhume.audit.outstanding import read

    left = read(file)
    back, careful = undo(tokens.target(target), left, file.parent)
    sent = file.replace(file.with_suffix(".sent"))
    if not back:
        more = "" if careful.file is None else f"; what is left is in '{careful.file}'"
        raise ExhumeError(f"sent '{sent}', but the head is off by {careful.residual:.2g} of what it was{more}")
    typer.echo(f"Taken back: the head is as it was, to within {careful.residual:.2g}. The file is now '{sent}'.")


def _live(settings: Settings, target: str, operated: bool, tokens: _Tokens) -> Report:
    _check_operated(target, operated)
    from exhume.audit.live_report import report_live

    server, owner = tokens.target(target), tokens.owning(target, settings)
    typer.echo(f"Probing the live target {target}; every probe is taken back.", err=True)
    report = report_live(server, settings, target, _command(), owner)
    assert report.live is not None
    for action in report.live.actions:
        typer.echo(f"  - {action}", err=True)
    if not report.live.restored:
        _tell(report.verdict)
        raise ExhumeError(f"the head did not come back: relative residual {report.live.residual}")
    if report.live.failed and report.verdict.severity is None:
        _tell(report.verdict)
        raise ExhumeError(f"the target broke down, so there is no verdict: {report.live.reason}")
    if report.live.interrupted:
        _tell(report.verdict)
        raise typer.Exit(130)
    return report


def _finish(report: Report, settings: Settings, earlier: Earlier | None, risks: tuple[Risk, ...]) -> None:
    """Write and print what was found, and end with the exit code that it asks for."""
    from exhume.audit.conclusion import conclusion_of
    from exhume.audit.report import report_text

    done = conclusion_of(report, settings, earlier, risks)
    typer.echo(f"Report: {settings.out / 'report.html'}", err=True)
    put_json(report_text(report), settings.json_file)
    write_files(done.files)
    _tell(report.verdict, settings.json_file)
    console = console_for(settings.json_file)
    for line in done.lines:
        say(console, line)
    if report.verdict.severity is None:  # a guard must not take this for a clean bill
        raise typer.Exit(2)
    if done.fails:
        raise typer.Exit(1)


def _tell(verdict: Verdict, json: str | None = None) -> None:
    """Print verdict and next steps: folded at words and coloured by level on a terminal, line by line elsewhere."""
    from exhume.audit.next_steps import TITLE, in_full

    console = console_for(json)
    lines = in_full(verdict, console.width if console.is_terminal else None).splitlines()
    tone = {"none": "cyan", "aggregate": "yellow", "replay": "red", None: "yellow"}.get(
        verdict.severity, "dark_orange3"
    )
    for number, line in enumerate(lines):
        style = f"bold {tone}" if number == 0 else "bold" if line == f"{TITLE}:" else ""
        say(console, line, style)


def _command() -> str:
    return shlex.join(["exhume", *sys.argv[1:]])
