"""Does pulling diffusion samples towards the recovered feature, through the frozen ResNet-18, bring the picture closer?

Exact features of rows that the model was not trained on, one sample each from the same noise, with and without the
pull. The mismatch is what the pull makes smaller and is shown for that reason alone; what counts is what it does not
optimise: PSNR, SSIM, and re-identification by pixels among all 1,000 test rows of TinyImageNet. The last column counts
the rows whose PSNR is above that without a pull, with the one-sided sign test.

    python benchmarks/guided_sampling.py --rows 40
"""

import argparse
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

PULLS = (0.0, 0.1, 0.3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--weights", type=Path, default=home_folder() / "decoders/diffusion-tinyimagenet-resnet18.safetensors"
    )
    parser.add_argument("--rows", type=int, default=40)
    parser.add_argument("--pulls", type=float, nargs="+", default=PULLS)
    options = parser.parse_args()
    if not options.weights.is_file():
        print(f"skipped: no trained model at {options.weights}")
        return
    decoder = load(options.weights, decoder="diffusion", encoder="resnet18")
    found = load_features("tinyimagenet", "resnet18", images=True)
    pool = found.images.test_images / 255
    features, targets = found.test_features[: options.rows], pool[: options.rows]
    encoder = build_encoder("resnet18", Options(width=0))
    print(
        "| pull | mismatch (optimised) | PSNR, dB | SSIM | re-identified, pixels | closer |\n|---|---|---|---|---|---|"
    )
    free = None
    for pull in options.pulls:
        decoder.pull = pull
        drawn = decoder.decode(features, generator=np.random.default_rng(0))
        again = encoder.encode(in_8_bits(drawn))
        mismatch = np.linalg.norm(again - features, axis=1) / np.linalg.norm(features, axis=1)
        right = (nearest(drawn, pool) == np.arange(options.rows)).sum()
        values = psnr(drawn, targets)
        free = values if free is None else free
        closer = int((values > free).sum())
        p = binomtest(closer, options.rows, alternative="greater").pvalue
        means = f"{values.mean():.2f} | {ssim(drawn, targets).mean():.3f}"
        print(
            f"| {pull:g} | {mismatch.mean():.3f} | {means} | {right}/{options.rows} | {closer} (p = {p:.2g}) |",
            flush=True,
        )


if __name__ == "__main__":
    main()
