"""What the paper proves of a run, for an evaluator with the hidden values: bounds, and what cannot be told apart."""

from __future__ import annotations

from exhume.attack.theory import ambiguity, bounds

__all__ = ["ambiguity", "bounds"]
