"""The threat model as paragraphs and lists, from the text that the terminal shows."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

__all__ = ["Passage", "passages"]

_ITEM = re.compile(r" +- (.*)")
_LABELLED = re.compile(r"  (\w+): +(.*)")


@dataclass
class Passage:
    """Some sentences, what they are about if that is said, and the list that follows them."""

    label: str = ""
    text: str = ""
    items: list[tuple[str, str]] = field(default_factory=list)
    """Name and explanation; the name is empty where an item is just a sentence."""


def passages(text: str) -> list[Passage]:
    """Return the passages of a text: blank lines part them, and so does a word with a colon at the margin."""
    found: list[Passage] = []
    for block in re.split(r"\n\s*\n", text.strip()):
        current = Passage()
        found.append(current)
        for line in block.splitlines():
            if item := _ITEM.fullmatch(line):
                name, colon, rest = item[1].partition(": ")
                current.items.append((name, rest) if colon else ("", item[1]))
                continue
            labelled = _LABELLED.fullmatch(line)
            if labelled or current.items:  # sentences after a list begin anew
                current = Passage(labelled[1] if labelled else "")
                found.append(current)
            words = labelled[2] if labelled else line.strip()
            current.text = f"{current.text} {words}".strip()
    return found[1:] if found and found[0].text.startswith("Threat model") and not found[0].items else found
