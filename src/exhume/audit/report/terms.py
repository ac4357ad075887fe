"""The words of the report that need an explanation: shown where one points at them, and listed at its end."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

__all__ = ["TERMS", "commands_marked", "term"]

_COMMAND = re.compile(r"exhume (?:audit|advise)(?: --[a-z-]+(?: (?:'[^']*'|[^\s-]\S*))?)*")

TERMS: dict[str, str] = {
    "head": "The classifier that the server sends to everybody after a change: one column of weights per class.",
    "feature": "A number that the frozen encoder makes of a record. A record is a vector of them.",
    "sums": "What clients send for the rows that they add or delete: the gram S (features times features) and the "
    "moment G (features times labels), summed over the rows.",
    "hidden state": "The server's totals of all sums. Clients never see them; heads follow from them.",
    "probe": "Updates that the attacker chose and therefore knows. The heads that come back tell it the hidden state.",
    "designed": "A probe of made-up sums that needs no data.",
    "own-data": "A probe of the attacker's own records, which looks like an honest update.",
    "recovery": "How the attacker gets from the heads to what was deleted.",
    "difference": "A recovery that reads the whole hidden state before and after the deletion, and subtracts.",
    "rank-one": "A recovery of one record from the hidden state before the deletion and one head after it.",
    "replay": "Sending the recovered sums back as new data: the deletion is undone.",
    "estimate": "An answer of the attack. Where a probe fails or is refused there is none: the trial counts as failed.",
    "relative error": "The length of the difference over the length of the truth: 0 is exact, 1 is as good as nothing.",
    "rank": "How many independent directions the heads have shown; the attacker needs as many as there are features.",
    "condition": "How much rounding errors grow in the solve: large is bad for the attacker.",
    "exposure": "The rank that a client has seen over the rank that it needs: at 1 it can solve for the hidden state.",
    "mu": "The account of noise: telling a record's presence from the heads is as hard as telling two bell curves "
    "apart whose centres are mu widths apart. At 0.5 the best test beats a coin by 20 points, at 3 by 87.",
    "advantage": "How much more often than a coin the best possible test could tell whether the record was there.",
    "guessing": "Always naming the class that is most frequent among the honest records.",
    "flagged": "Larger than 99% of honest batches with as many records.",
}


def term(name: str, shown: str = "") -> Markup:
    """Return a word with its explanation on hover."""
    return Markup('<abbr title="{}">{}</abbr>').format(TERMS[name], escape(shown or name))


def commands_marked(text: str) -> Markup:
    """Return a sentence whose commands are marked as code; a line breaks between their words, not at a hyphen."""
    pieces, end = [], 0
    for found in _COMMAND.finditer(text):
        words = Markup(" ").join(Markup("<span>{}</span>").format(word) for word in found[0].split(" "))
        pieces += [escape(text[end : found.start()]), Markup('<code class="command">{}</code>').format(words)]
        end = found.end()
    return Markup("").join([*pieces, escape(text[end:])])
