"""The words of the catalogue: files known by their hash, and the holdings that they make up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from exhume.data.files import digest_of

__all__ = ["Holding", "Item", "Progress", "Source"]

Progress = Callable[[str, int, int | None], None]
"""Called with what is being moved, how many bytes have arrived and how many are expected, if known."""


@dataclass(frozen=True)
class Item:
    """One file: its name in the home folder, its hash and size, and where the hash is from."""

    name: str
    sha256: str
    size: int
    hash_from: str


class Source(Protocol):
    """One place that may have the files: yields each candidate for an item, to be believed only by its hash."""

    @property
    def label(self) -> str:
        """The source in words, for messages."""

    def offer(self, wanted: Sequence[Item], scratch: Path, progress: Progress) -> Iterator[tuple[Item, Path]]:
        """Yield candidate files for the wanted items; raise `OSError` or `DataError` if there are none."""


@dataclass(frozen=True)
class Holding:
    """Something that can be fetched: a data set or the weights of an encoder.

    Attributes
    ----------
    name : str
        What a user calls it.
    kind : {'data', 'weights'}
        Also the folder in the home folder.
    items : tuple of Item
        Its files in their stored form.
    sources : tuple of Source
        Where to look, in order; the folders on EXHUME_DATA_PATH come after them.
    any_one : bool
        True if the items are alternative forms of one content, so that one is enough.
    archives : tuple of str
        File names of archives that, found in a folder, are searched for the items.
    """

    name: str
    kind: Literal["data", "weights"]
    items: tuple[Item, ...]
    sources: tuple[Source, ...] = ()
    any_one: bool = False
    archives: tuple[str, ...] = ()

    @property
    def sha256(self) -> str:
        """The hash of the content: of the first item if one is enough, else of all item hashes together."""
        if self.any_one or len(self.items) == 1:
            return self.items[0].sha256
        return digest_of({item.name: item.sha256 for item in self.items})

    def folder(self, home: Path) -> Path:
        """Return the folder in which the items are stored."""
        return home / self.kind / self.name
