"""`exhume serve`: the protocol over HTTP, and what its operator does with the store."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from exhume.cli._options import Command, JsonTo, check_file, check_folder, console_for, json_text, put_json, say
from exhume.errors import InputError
from exhume.files import PRIVATE, atomic_file

if TYPE_CHECKING:
    from exhume.service import Address, ServiceConfig

__all__ = ["app"]

app = typer.Typer(help="The protocol over HTTP on a durable ledger.", invoke_without_command=True)

CONFIG = "service.toml"
TOKEN = "operator.token"
KEY = "service.key"

ConfigFile = Annotated[Path, typer.Option("--config", help="The service's configuration.")]


@app.callback()
def serve(
    ctx: typer.Context,
    demo: Annotated[bool, typer.Option("--demo", help="The bundled digits and simulated clients, to look at.")] = False,
    config: Annotated[
        Path | None, typer.Option("--config", help="The service's configuration (init writes one).")
    ] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port for clients.")] = None,
    operator_port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port for the operator.")] = None,
) -> None:
    """Serve the protocol over HTTP until Ctrl-C: --demo to look at, --config for the real one."""
    if ctx.invoked_subcommand is not None:
        if demo or config is not None:
            raise InputError(ctx.invoked_subcommand, "given its own options, after its name", "options before it")
        return
    if demo == (config is not None):
        raise InputError(
            "serve", "--demo or --config FILE (exhume serve init writes one)", "both" if demo else "neither"
        )
    if demo:
        _demo(port, operator_port)
    elif config is not None:
        _real(config, port, operator_port)


def _demo(port: int | None, operator_port: int | None) -> None:
    from exhume.service import Address, serve
    from exhume.service.demo import demo_service

    console, stop = console_for(), threading.Event()
    with tempfile.TemporaryDirectory(prefix="exhume-demo-") as name:
        made = demo_service(Path(name))

        def started(addresses: list[str]) -> None:
            clients, operator = addresses
            say(console, "A hardened server of the bundled digits, with four honest clients that add and delete.")
            say(console, f"  for the operator  {operator}/    token {made.operator}")
            say(console, f"  for clients       {clients}/v1/head    token of 'ada' {made.tokens['ada']}")
            say(console, "Stop it with Ctrl-C; everything is in a folder that goes away then.")
            made.play(clients, stop)

        try:
            serve(made.service, Address(port=8000 if port is None else port), _operator(operator_port), started=started)
        finally:
            stop.set()


def _operator(port: int | None) -> Address:
    from exhume.service import Address

    return Address(port=8001 if port is None else port)


def _real(file: Path, port: int | None, operator_port: int | None) -> None:
    from exhume.service import FederationService, load, serve
    from exhume.service.config import first_operator
    from exhume.store import DurableServer, OperatorKey

    config = load(file)
    forgetting, gathering, limits = config.bounds_of
    key = OperatorKey.load(config.path(config.store.key_file))
    listen, operator = (_resolved(config, name, new) for name, new in (("listen", port), ("operator", operator_port)))
    store = DurableServer(config.url, config.setup, key, forgetting=forgetting)
    service = FederationService(store, limits, gathering)
    first_operator(config, service.tokens)
    console = console_for()

    def started(addresses: list[str]) -> None:
        say(console, f"Serving clients on {addresses[0]} and the operator on {addresses[1]}.")
        if config.defence.undefended is not None:
            say(console, f"There is no defence: {config.defence.undefended}.")

    serve(service, listen, operator, started=started, log_level="info")


def _resolved(config: ServiceConfig, name: str, port: int | None) -> Address:
    address: Address = getattr(config, name)
    files = {
        part: None if getattr(address, part) is None else str(config.path(getattr(address, part)))
        for part in ("certificate", "private_key")
    }
    return address.model_copy(update=files | ({} if port is None else {"port": port}))


@app.command(cls=Command)
def init(
    folder: Annotated[Path, typer.Argument(help="Where to write it.")] = Path(),
    d: Annotated[int, typer.Option(min=1, help="Feature dimensions.")] = 512,
    c: Annotated[int, typer.Option(min=1, help="Classes.")] = 10,
    grid: Annotated[float | None, typer.Option(help="Grid step of the bit-exact mode, a power of two.")] = None,
) -> None:
    """Write a commented configuration, the operator's key and the operator's first token."""
    from exhume.service import template
    from exhume.service.auth import new_token
    from exhume.store import OperatorKey

    check_folder("folder", folder)
    for name in (CONFIG, KEY, TOKEN, "store.db"):
        if (folder / name).exists():
            raise InputError("folder", f"one without a {name}", f"'{folder}'")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFIG).write_text(template(d, c, grid), encoding="utf-8")
    OperatorKey.make().save(folder / KEY)
    with atomic_file(folder / TOKEN, PRIVATE) as stream:
        stream.write(f"{new_token('operator')[0]}\n".encode())
    console = console_for()
    say(console, f"Wrote {folder / CONFIG}, {folder / KEY} (the operator's key) and {folder / TOKEN} (a token).")
    say(console, "The bounds under [defence] are examples: set them before the first start; a store keeps its rules.")
    say(console, f"Start it: exhume serve --config {folder / CONFIG}")


@app.command(cls=Command)
def backup(
    file: Annotated[Path, typer.Argument(help="The new file.")],
    config: ConfigFile = Path(CONFIG),
) -> None:
    """Copy the store into a new SQLite file, also while the service runs; delete old backups in time."""
    from exhume.service import load
    from exhume.store.copying import backup

    check_file("file", file)
    count = backup(load(config).url, file)
    say(console_for(), f"Wrote {file}: {count} receipts, and what had not left the disk by now. Keep the key apart.")


@app.command(cls=Command)
def restore(
    file: Annotated[Path, typer.Argument(help="A backup.")],
    config: ConfigFile = Path(CONFIG),
) -> None:
    """Copy a backup into the configuration's store, which must not be there yet."""
    from exhume.service import load
    from exhume.store.copying import restore

    made = load(config)
    count = restore(file, made.url)
    console = console_for()
    say(console, f"Restored {count} receipts. What was deleted after the backup is back: delete it again.")
    say(console, "Tokens are those of the backup: revoke again whom you revoked since.")


@app.command(cls=Command)
def verify(
    config: ConfigFile = Path(CONFIG),
    file: Annotated[Path | None, typer.Option(help="A backup to check in place of the store.")] = None,
    json: JsonTo = None,
) -> None:
    """Check a store that nobody runs: the database, the snapshot, the whole log done again, the head."""
    from dataclasses import asdict

    from exhume.service import load
    from exhume.store import OperatorKey
    from exhume.store.copying import inspect

    check_file("json", json)
    made = load(config)
    key = OperatorKey.load(made.path(made.store.key_file))
    found = inspect(made.url if file is None else str(file), made.setup, key)
    put_json(json_text(asdict(found)), json)
    text = f"Whole: {found.accepted} messages accepted, {found.refused} refused, head {found.serial}"
    say(console_for(json), f"{text}; {found.pending} deletions have yet to leave the disk.")


@app.command("operator-token", cls=Command)
def operator_token(
    file: Annotated[Path, typer.Argument(help="Where the new token goes.")],
    config: ConfigFile = Path(CONFIG),
) -> None:
    """Give the operator a new token, while nobody runs the service; the old ones are no longer taken."""
    from exhume.service import Tokens, load
    from exhume.service.auth import new_token
    from exhume.store import DurableServer, OperatorKey

    check_file("file", file)
    if file.exists():
        raise InputError("file", "a name that is not taken", f"'{file}'")
    made = load(config)
    key = OperatorKey.load(made.path(made.store.key_file))
    with DurableServer(made.url, made.setup, key, watch=False) as store:
        tokens, token = Tokens(store.engine), new_token("operator")[0]
        with atomic_file(file, PRIVATE) as stream:  # on the disk before the old ones end
            stream.write(f"{token}\n".encode())
        tokens.adopt(token, "operator", "operator", alone=True)
    say(console_for(), f"Wrote {file}. Every earlier token of an operator has ended.")


@app.command("verify-receipt", cls=Command)
def verify_receipt(
    receipt: Annotated[Path, typer.Argument(help="The receipt of a deletion, as the service gave it (JSON).")],
    public_key: Annotated[str, typer.Option(help="The service's public key (in /v1/info).")],
    message: Annotated[Path | None, typer.Option(help="The message that was sent, if it is to be of that.")] = None,
) -> None:
    """Check the signed statement of a deletion offline: what it says, and that nobody else can have said it."""
    import json as reader
    from datetime import UTC, datetime

    from exhume.store import check_statement

    try:
        content = reader.loads(receipt.read_text(encoding="utf-8"))
        signed = content.get("deletion") or content
    except (OSError, ValueError, AttributeError) as error:
        raise InputError("receipt", "a JSON file that can be read", f"'{receipt}' ({error})") from None
    told = check_statement(signed, public_key, None if message is None else message.read_bytes())

    def moment(at: float) -> str:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")

    gone = told.erased_at
    left = "has not left the disk yet" if gone is None else f"had left at {moment(gone)}: {told.erased_from}"
    taken = f"the deletion '{told.key}' of '{told.client}' was taken at {moment(told.accepted_at)}"
    say(console_for(), f"Signed by the service: {taken} and {left}.")
