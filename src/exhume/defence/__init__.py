"""What a server refuses and withholds: admission rules, release rules, accountants, and a default that works."""

from exhume.defence import accountants, admission, privacy, release
from exhume.defence.accountants import Identification, IdentificationAccountant
from exhume.defence.bounds import Bounds
from exhume.defence.calibration import sigma_within
from exhume.defence.config import Config, Defences, Entry, build, build_server, dump, load
from exhume.defence.default import hardened, hardened_config, sigma_for
from exhume.defence.interference import interfering, reads_of
from exhume.defence.memory import Memory, Saveable
from exhume.defence.release import Chain, DeletionMask, PosteriorNoise, PrivacyBudget
from exhume.defence.store import load_server, save_server

__all__ = [
    "Bounds",
    "Chain",
    "Config",
    "Defences",
    "DeletionMask",
    "Entry",
    "Identification",
    "IdentificationAccountant",
    "Memory",
    "PosteriorNoise",
    "PrivacyBudget",
    "Saveable",
    "accountants",
    "admission",
    "build",
    "build_server",
    "dump",
    "hardened",
    "hardened_config",
    "interfering",
    "load",
    "load_server",
    "privacy",
    "reads_of",
    "release",
    "save_server",
    "sigma_for",
    "sigma_within",
]
