"""How should a diffusion model be drawn from: guidance, mean of samples, and a pull towards the recovered feature?

Exact features of rows that the model was not trained on (TinyImageNet's own validation split), each setting from the
same noise. The pull moves every denoising step towards the feature through the frozen ResNet-18. The mismatch is what
it makes smaller and is shown for that reason alone; what counts is what it does not optimise: PSNR, SSIM, and
re-identification by pixels among all 1,000 validation rows. A setting is compared with the first one by one-sided sign
tests on paired rows: wins to losses, and the probability of as many wins by chance.

    python benchmarks/guided_sampling.py --settings 2:1:0 2:1:0.3 --rows 200     # guidance:samples:pull
"""

import argparse
import time
from pathlib import Path

import numpy as np
from scipy.stats import binomtest

from exhume.data import load_features
from exhume.data.encoders import Options
from exhume.data.encoders import build as build_encoder
from exhume.data.home import home_folder
from exhume.decode import load
from exhume.decode.images import in_8_bits
from exhume.decode.measures import nearest, psnr, ssim

SETTINGS = ("2:1:0", "2:1:0.3")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--weights", type=Path, default=home_folder() / "decoders/diffusion-tinyimagenet-resnet18.safetensors"
    )
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--settings", nargs="+", default=SETTINGS, help="guidance:samples:pull, the first is the base")
    options = parser.parse_args()
    if not options.weights.is_file():
        print(f"skipped: no trained model at {options.weights}")
        return
    decoder = load(options.weights, decoder="diffusion", encoder="resnet18")
    found = load_features("tinyimagenet", "resnet18", images=True)
    pool = found.images.test_images / 255
    features, targets = found.test_features[: options.rows], pool[: options.rows]
    encoder = build_encoder("resnet18", Options(width=0))
    print(f"{decoder.record.steps} steps of training, {options.rows} rows")
    print(
        "| guidance:samples:pull | mismatch | PSNR | SSIM | re-identified, pixels | CPU s |\n|---|---|---|---|---|---|"
    )
    base: dict[str, np.ndarray] = {}
    for setting in options.settings:
        guidance, samples, pull = setting.split(":")
        decoder.guidance, decoder.samples, decoder.pull = float(guidance), int(samples), float(pull)
        began = time.process_time()
        drawn = decoder.decode(features, generator=np.random.default_rng(0))
        spent = time.process_time() - began
        again = encoder.encode(in_8_bits(drawn)) if pull != "0" else None
        mismatch = "-" if again is None else f"{_relative(again, features).mean():.3f}"
        right = nearest(drawn, pool) == np.arange(options.rows)
        values = {"psnr": psnr(drawn, targets), "ssim": ssim(drawn, targets), "right": right.astype(float)}
        base = base or values
        cells = [_cell(name, value, base[name]) for name, value in values.items()]
        print(f"| {setting} | {mismatch} | {' | '.join(cells)} | {spent:.0f} |", flush=True)


def _relative(found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    return np.linalg.norm(found - wanted, axis=1) / np.linalg.norm(wanted, axis=1)


def _cell(name: str, values: np.ndarray, base: np.ndarray) -> str:
    mean = f"{int(values.sum())}/{len(values)}" if name == "right" else f"{values.mean():.3f}"
    wins, losses = int((values > base).sum()), int((values < base).sum())
    if wins + losses == 0:
        return mean
    p = binomtest(wins, wins + losses, alternative="greater").pvalue
    return f"{mean} ({wins}:{losses}, p = {p:.2g})"


if __name__ == "__main__":
    main()
