"""A small continual learner in the manner of RanPAC: frozen random features, a running Gram matrix, a ridge head.

It knows nothing of Exhume. It stands for any server that keeps additive sums and publishes the head they give.
"""

import numpy as np


class RanPAC:
    """Random projection, ReLU, class prototypes decorrelated by a ridge inverse (McDonnell et al., 2023)."""

    def __init__(self, inputs, projected, classes, ridge=1.0, seed=0):
        self.projection = np.random.default_rng(seed).standard_normal((inputs, projected))
        self.gram = np.zeros((projected, projected))
        self.prototypes = np.zeros((projected, classes))
        self.ridge = ridge
        self.classes = classes

    def features(self, images):
        return np.maximum(images @ self.projection, 0.0)

    def learn(self, images, labels):
        """Take in one task: a batch of images with labels."""
        h = self.features(images)
        self.merge(h.T @ h, h.T @ np.eye(self.classes)[labels])

    def merge(self, gram, prototypes):
        """Add sums that somebody computed elsewhere (to forget, they are subtracted)."""
        self.gram += gram
        self.prototypes += prototypes

    def published_head(self):
        return np.linalg.solve(self.gram + self.ridge * np.eye(len(self.gram)), self.prototypes)
