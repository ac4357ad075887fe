"""How should a diffusion model be drawn from: guidance, mean of samples, and a pull towards the recovered feature?

Exact features of rows that the model was not trained on (by default TinyImageNet's own validation split), each setting
from the same noise. The pull moves every denoising step towards the feature through the frozen ResNet-18. The mismatch
is what it makes smaller and is shown for that reason alone; what counts is what it does not optimise: PSNR, SSIM, and
re-identification among 1,000 test rows by pixels and by MobileNetV2. A setting is compared with the first one by
sign tests on paired rows: wins to losses, and the one-sided probability of as many wins by chance. It is better if it
wins by PSNR or by SSIM at 1% and loses by none of the four at 1%.

    python benchmarks/guided_sampling.py --settings 2:1:0 2:1:0.3 --rows 200     # guidance:samples:pull
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.stats import binomtest

from exhume.data import load_features
from exhume.data.encoders import Options
from exhume.data.encoders import build as build_encoder
from exhume.data.home import home_folder
from exhume.decode import load
from exhume.decode.images import in_8_bits, in_shape
from exhume.decode.judge import CROWD, Judge
from exhume.decode.measures import LEVEL, Scores

SETTINGS = ("2:1:0", "2:1:0.3")
COUNTS = {"psnr": "PSNR", "ssim": "SSIM", "pixels": "re-identified, pixels", "second": "re-identified, MobileNetV2"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--weights", type=Path, default=home_folder() / "decoders/diffusion-tinyimagenet-resnet18.safetensors"
    )
    parser.add_argument("--data", default="tinyimagenet")
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--settings", nargs="+", default=SETTINGS, help="guidance:samples:pull, the first is the base")
    options = parser.parse_args()
    if not options.weights.is_file():
        print(f"skipped: no trained model at {options.weights}")
        return
    decoder = load(options.weights, decoder="diffusion", encoder="resnet18")
    found = load_features(options.data, "resnet18", images=True)
    features = found.test_features[: options.rows]
    judge = _judge(found.images, len(features))
    encoder = build_encoder("resnet18", Options(width=0))
    print(f"{decoder.record.steps} steps of training, {options.data}, {len(features)} rows")
    print(f"| guidance:samples:pull | mismatch | {' | '.join(COUNTS.values())} | CPU s |")
    print("|---" * (len(COUNTS) + 3) + "|", flush=True)
    base: Scores | None = None
    for setting in options.settings:
        guidance, samples, pull = setting.split(":")
        decoder.guidance, decoder.samples, decoder.pull = float(guidance), int(samples), float(pull)
        began = time.process_time()
        drawn = decoder.decode(features, generator=np.random.default_rng(0))
        drawn = in_shape(drawn, judge.targets.shape[1:])
        spent = time.process_time() - began
        mismatch = _relative(encoder.encode(in_8_bits(drawn)), features).mean()
        scores = judge.score(drawn)
        cells = [_cell(getattr(scores, name), getattr(base or scores, name)) for name in COUNTS]
        print(f"| {setting} | {mismatch:.3f} | {' | '.join(cells)} | {spent:.0f} |", flush=True)
        if base is not None:
            print(f"\n{setting} is {'' if _better(scores, base) else 'not '}better\n", flush=True)
        base = base or scores


def _judge(images, rows: int) -> Judge:
    """A judge of test rows: the first ones are the targets, and the crowd is the first 1,000."""
    swapped = replace(images, train_images=images.test_images[:CROWD], train_labels=images.test_labels[:CROWD])
    return Judge.of(swapped, np.arange(rows), home_folder())


def _relative(found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    return np.linalg.norm(found - wanted, axis=1) / np.linalg.norm(wanted, axis=1)


def _chances(values: np.ndarray, base: np.ndarray) -> tuple[int, int, float, float]:
    """Wins, losses, and how likely as many of each would be by chance."""
    wins, losses = int((values > base).sum()), int((values < base).sum())
    if wins + losses == 0:
        return 0, 0, 1.0, 1.0
    more, less = (binomtest(n, wins + losses, alternative="greater").pvalue for n in (wins, losses))
    return wins, losses, more, less


def _better(scores: Scores, base: Scores) -> bool:
    chances = {name: _chances(getattr(scores, name), getattr(base, name)) for name in COUNTS}
    wins = [name for name, (_, _, more, _) in chances.items() if more < LEVEL]
    losses = [name for name, (_, _, _, less) in chances.items() if less < LEVEL]
    return not losses and ("psnr" in wins or "ssim" in wins)


def _cell(values: np.ndarray, base: np.ndarray) -> str:
    mean = f"{int(values.sum())}/{len(values)}" if values.dtype == bool else f"{values.mean():.3f}"
    wins, losses, more, _ = _chances(values, base)
    return mean if wins + losses == 0 else f"{mean} ({wins}:{losses}, p = {more:.2g})"


if __name__ == "__main__":
    main()
