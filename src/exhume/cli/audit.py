"""`exhume audit`: run the attacks, print a verdict, write the report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from exhume.cli._options import (
    JsonTo,
    check_file,
    check_folder,
    command_line,
    completing,
    completing_files,
    console_for,
    put_json,
    say,
    tell,
)
from exhume.errors import ExhumeError, InputError
from exhume.files import write_files

if TYPE_CHECKING:
    from exhume.audit.accepted import Risk
    from exhume.audit.compare import Earlier
    from exhume.audit.records import Report
    from exhume.audit.settings import Settings

__all__ = ["audit"]

LIVE_TRIALS = 20
"""Deletions that are played on a live service, unless told otherwise: each is two events of its noise."""

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
            help="With an address: a second client's token. It adds records of --features and deletes them, and the "
            "audit measures what comes out."
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
    chosen = False
    if target is not None:
        if values.get("defence") is not None:
            raise InputError("defence", "left out with a live target, which has settings of its own", values["defence"])
        if values.get("engine") is not None:
            raise InputError("engine", "left out with a live target, which has its own", values["engine"])
        chosen = "probe" in values
        values.setdefault("probe", "designed")
        values.setdefault("trials", LIVE_TRIALS)
    settings = make_settings(values, live=target is not None)
    if explain:
        typer.echo(threat_model(settings))
        return
    access = None
    if any(given is not None for given in (target, undo, token_file, owner_token_file, ca_file)):
        from exhume.cli import _audit_live

        access = _audit_live.LiveAccess(token_file, owner_token_file, ca_file)
        access.check(target)
        if undo is not None:
            _audit_live.undo(undo, target, operated, access)
            return
    check_folder("out", settings.out)
    for name in ("json", "sarif", "junit", "markdown"):
        check_file(name, getattr(settings, "json_file" if name == "json" else name))
    surroundings = _surroundings(settings)
    with stopping():
        if target is None or access is None:
            report = _simulated(settings, fresh)
        else:
            report = _audit_live.live(settings, target, operated, access, chosen=chosen)
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
            done = run(settings, command=command_line(), fresh=fresh, progress=progress, plan=plan)
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


def _finish(report: Report, settings: Settings, earlier: Earlier | None, risks: tuple[Risk, ...]) -> None:
    """Write and print what was found, and end with the exit code that it asks for."""
    from exhume.audit.conclusion import conclusion_of
    from exhume.audit.report import report_text

    done = conclusion_of(report, settings, earlier, risks)
    typer.echo(f"Report: {settings.out / 'report.html'}", err=True)
    put_json(report_text(report), settings.json_file)
    write_files(done.files)
    tell(report.verdict, settings.json_file)
    console = console_for(settings.json_file)
    for line in done.lines:
        say(console, line)
    if report.verdict.severity is None:  # a guard must not take this for a clean bill
        raise typer.Exit(2)
    if done.fails:
        raise typer.Exit(1)
