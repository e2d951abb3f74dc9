"""How far two halves of vectors are from independent: the distance correlation and its slope."""

from __future__ import annotations

import numpy as np

from counterpop.embeddings import FloatArray


def distance_correlation(x: FloatArray, y: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """The distance correlation of paired rows x (N, D) and y (N, E), from 0 to 1, and its slopes along both.

    dcor = sqrt(V_xy) / (V_xx V_yy)^(1/4), with V the mean product of the two doubly centred matrices of
    distances. Memory: eight N x N matrices.
    Source: Szekely, Rizzo and Bakirov, Measuring and testing dependence by correlation of distances, 2007.

    >>> x = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)
    >>> round(distance_correlation(x, 2 * x)[0], 4)
    1.0
    """
    (a, A), (b, B) = _distances(x), _distances(y)
    v_xy, v_xx, v_yy = (max(float(np.mean(product)), 1e-12) for product in (A * B, A * A, B * B))
    value = (v_xy**2 / (v_xx * v_yy)) ** 0.25
    scale = 0.5 * value / len(x) ** 2
    slopes = [
        _along(rows, distances, scale * (other / v_xy - own / v))
        for rows, distances, own, other, v in ((x, a, A, B, v_xx), (y, b, B, A, v_yy))
    ]
    return value, slopes[0], slopes[1]


def _distances(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(N, N) distances, and the same doubly centred."""
    squares = (rows * rows).sum(axis=1)
    distances = np.sqrt(np.maximum(squares[:, None] + squares - 2 * rows @ rows.T, 0))
    np.fill_diagonal(distances, 0)
    means = distances.mean(axis=1)
    return distances, distances - means[:, None] - means + means.mean()


def _along(rows: FloatArray, distances: FloatArray, slope: FloatArray) -> FloatArray:
    """The slope along the rows from that along their distances: d|x - y| / dx = (x - y) / |x - y|."""
    pull = np.divide(slope, distances, out=np.zeros_like(slope), where=distances > 0)
    slopes: FloatArray = (2 * (pull.sum(axis=1)[:, None] * rows - pull @ rows)).astype(np.float32)
    return slopes
