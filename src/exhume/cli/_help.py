"""How the help is laid out: options in groups, and examples that can be copied."""

from __future__ import annotations

__all__ = ["EXAMPLES", "panel_of"]

PANELS: dict[str, tuple[str, ...]] = {
    "Data": ("data", "encoder", "dim", "features", "labels", "limit", "home"),
    "Federation": ("clients", "alpha", "gamma", "kind", "engine"),
    "Attack": (
        "probe", "attack", "estimator", "recovery", "trials", "responses", "scale", "averaged", "colluders",
        "concurrent", "detector",
    ),
    "Server": ("precision", "defence", "remedy", "max-accuracy-loss", "max-staleness"),
    "Live server": ("target", "i-operate-this-server", "token-file", "owner-token-file", "ca-file", "undo"),
    "Output": ("out", "page", "json", "sarif", "junit", "markdown", "renew"),
    "Judgement": ("fail-on", "compare", "accept", "explain", "only", "table"),
    "Run": ("config", "seed", "jobs", "fresh", "quick", "size", "backend", "scheduler"),
}  # fmt: skip
"""Which option stands in which group; what is in none stands with the help itself."""

EXAMPLES: dict[str, tuple[str, ...]] = {
    "exhume audit": (
        "exhume audit",
        "exhume audit --features mine.npz --defence hardened",
        "exhume audit --defence server.toml --fail-on label --sarif found.sarif",
        "exhume audit --compare earlier.json --fail-on worse",
    ),
    "exhume advise": ("exhume advise --quick", "exhume advise --features mine.npz --max-accuracy-loss 0.5"),
    "exhume paper run": ("exhume paper run rank_threshold --quick", "exhume paper run all --data mnist"),
    "exhume paper compare": ("exhume paper compare --out docs/results --only differ",),
}
"""Commands to copy, under the help of each."""


def panel_of(option: str) -> str | None:
    """Return the group of an option."""
    return next((panel for panel, options in PANELS.items() if option in options), None)
