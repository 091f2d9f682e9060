"""Quantisers of SOG: codebooks of 256 numbers, and palettes of vectors, both by k-means."""

from __future__ import annotations

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from torch import Tensor

SIZE = 256  # numbers of a codebook
BINS = 2048  # of the values of a codebook
WIDEST = 6  # bins of a cell, over their mean number
SCALAR_STEPS = 200  # at most, of k-means in one dimension
LARGEST_ERROR = 2.25  # over that of a codebook of equal steps
LARGEST_ERROR = 2.25  # over that of a codebook of equal steps
CELL = 256  # vectors of a palette that are compared together
PROBES = 2  # cells that are searched for the nearest vector
PER_ENTRY = 4  # vectors of the sample per entry of the palette
STEPS = 3  # of the training of a palette; twice as many up to LARGE vectors
LARGE = 1 << 16
ROUNDS = 4  # in which its first entries are drawn
BLOCK = 1 << 24  # numbers of a block of distances


def make_codebook(values: np.ndarray, size: int = SIZE) -> np.ndarray:
    """The numbers, ascending, float32 [size], to which values are rounded with the least squared error.

    No value moves by more than `LARGEST_ERROR` times what equal steps over the full range would move it. The values
    are gathered in bins, whose best division into ``size`` cells is found exactly, by dynamic programming; k-means
    (Lloyd 1982) on the values themselves follows. Half of the bins are equal, the density of the others is that of the
    values to the power of 1/3, with which the bins of all cells are about as many (Panter and Dite 1951).

    Args:
        values: finite, of any shape.
        size: of the codebook; its last number is repeated where there are fewer different values.
    """
    unique, counts = np.unique(values.ravel().astype(np.float64), return_counts=True)
    if len(unique) <= size:
        return _padded(unique, size)
    masses = np.concatenate([[0], np.cumsum(counts)])
    sums = np.concatenate([[0], np.cumsum(counts * (unique - unique.mean()))])
    squares = np.concatenate([[0], np.cumsum(counts * (unique - unique.mean()) ** 2)])
    bound = LARGEST_ERROR * (unique[-1] - unique[0]) / (2 * size)
    bins = _bin_edges(unique, masses)
    values_before = np.append(unique[bins[:-1]], np.inf), np.append(-np.inf, unique[bins[1:] - 1])
    edges = bins[_best_division(masses[bins], sums[bins], squares[bins], values_before, 2 * bound, size)]
    centres = None
    for _ in range(SCALAR_STEPS):
        edges = np.unique(edges)
        means = np.diff(sums[edges]) / np.diff(masses[edges]) + unique.mean()
        # Each value is within the bound of its number, and stays so: the nearest number is never further away.
        means = np.clip(means, unique[edges[1:] - 1] - bound, unique[edges[:-1]] + bound)
        if centres is not None and len(means) == len(centres) and np.array_equal(means, centres):
            break
        centres = means
        edges = np.searchsorted(unique, (centres[1:] + centres[:-1]) / 2)
        edges = np.concatenate([[0], edges, [len(unique)]])
    assert centres is not None
    return _padded(centres, size)


def _bin_edges(unique: np.ndarray, masses: np.ndarray) -> np.ndarray:
    """Positions among the ascending values between which bins lie, from 0 to their number, none of them empty."""
    positions = np.linspace(0, masses[-1] - 1, min(BINS, len(unique)))
    knots = np.unique(unique[np.searchsorted(masses[1:], positions, side="right")])
    lengths = np.diff(knots) ** (2 / 3)
    for _ in range(20):  # a gap before values far outside needs no more bins than there are values
        lengths = np.minimum(lengths, 4 * lengths.sum() / BINS)
    lengths = np.concatenate([[0], np.cumsum(lengths)])
    dense = np.interp(np.arange(1, BINS) / BINS * lengths[-1], lengths, knots)
    equal = np.linspace(unique[0], unique[-1], BINS + 1)[1:-1]
    inner = np.searchsorted(unique, np.concatenate([dense, equal]))
    return np.unique(np.concatenate([[0], inner, [len(unique)]]))


def _best_division(
    masses: np.ndarray,
    sums: np.ndarray,
    squares: np.ndarray,
    ends: tuple[np.ndarray, np.ndarray],
    span: float,
    cells: int,
) -> np.ndarray:
    """The edges between B bins that divide them into cells with the least squared error, int [cells + 1].

    Args:
        masses, sums, squares: number, sum and sum of squares of the values before each edge, [B + 1].
        ends: the first value after each edge and the last one before it, [B + 1] each.
        span: the most by which the values of a cell may differ, unless it is one bin.
        cells: at most B; a cell has at most `WIDEST` times the mean number of bins.
    """
    count = len(masses) - 1
    widest = min(count, WIDEST * -(-count // cells))
    starts = np.arange(count + 1)[:, None] - np.arange(1, widest + 1)
    outside = starts < 0
    starts = starts.clip(0)
    mass, total = (array[:, None] - array[starts] for array in (masses, sums))
    costs = squares[:, None] - squares[starts] - total**2 / np.maximum(mass, 1)
    outside[:, 1:] |= (ends[1][:, None] - ends[0][starts] > span)[:, 1:]
    costs[outside] = np.inf
    best = np.full(count + 1, np.inf)
    best[0] = 0
    widths = np.empty((cells, count + 1), np.int32)
    for cell in range(cells):
        before = np.concatenate([np.full(widest, np.inf), best[:-1]])
        options = sliding_window_view(before, widest)[:, ::-1] + costs
        widths[cell] = options.argmin(1)
        best = np.take_along_axis(options, widths[cell][:, None], 1)[:, 0]
    edges = [count]
    for cell in range(cells - 1, -1, -1):
        edges.append(edges[-1] - 1 - int(widths[cell, edges[-1]]))
    return np.array(edges[::-1])


def _padded(centres: np.ndarray, size: int) -> np.ndarray:
    """A codebook whose last number is repeated; zeros where there are none."""
    padding = np.full(size - len(centres), centres[-1] if len(centres) else 0.0)
    return np.concatenate([centres, padding]).astype(np.float32)


def indices(values: np.ndarray, codebook: np.ndarray) -> np.ndarray:
    """The index of the nearest number of an ascending codebook for every value, uint8."""
    middles = (codebook[1:].astype(np.float64) + codebook[:-1]) / 2
    return np.searchsorted(middles, values.astype(np.float64)).clip(0, len(codebook) - 1).astype(np.uint8)


def make_palette(vectors: Tensor, size: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """The vectors by which others are replaced with a small squared error, and which replaces which.

    k-means of few steps, on a sample. The first entries are drawn at random, those that follow with a probability
    proportional to the squared distance from what is there (k-means||, Bahmani et al. 2012). The nearest entry of a
    large palette is searched among the cells with the nearest centres, so that it is not always the nearest one.

    Args:
        vectors: float [N, D], N > 0.
        size: of the palette, 1 to N.
        seed: of the random numbers.

    Returns:
        entries: float32 [size, D]
        labels: int64 [N]
    """
    vectors = vectors.detach().float()
    if size == len(vectors):
        return vectors.clone(), torch.arange(size)
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(vectors), generator=generator)
    sample = vectors[order[: PER_ENTRY * size].sort().values]
    entries = _first_entries(sample, size, generator)
    for _ in range(STEPS if len(sample) > LARGE else 2 * STEPS):
        labels, errors = nearest(sample, entries)
        entries = _means(sample, labels, errors, entries)
    labels, errors = nearest(vectors, entries, 2 * PROBES)
    return _means(vectors, labels, errors, entries), labels


def _first_entries(sample: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """The entries with which k-means begins, [size, D]."""
    share = -(-size // ROUNDS)
    entries = sample[torch.randperm(len(sample), generator=generator)[:share]]
    errors = nearest(sample, entries)[1]
    while len(entries) < size:
        # The keys of a sample without replacement by weights (Efraimidis and Spirakis 2006).
        keys = errors / torch.empty(len(sample)).exponential_(generator=generator)
        more = sample[keys.topk(min(share, size - len(entries))).indices]
        errors = torch.minimum(errors, nearest(sample, more)[1])
        entries = torch.cat([entries, more])
    return entries


def _means(vectors: Tensor, labels: Tensor, errors: Tensor, entries: Tensor) -> Tensor:
    """The mean of the vectors of each entry; entries without any move to the vectors with the largest errors."""
    counts = torch.bincount(labels, minlength=len(entries))
    sums = torch.zeros_like(entries).index_add_(0, labels, vectors)
    means = sums / counts.clamp_min(1)[:, None]
    unused = torch.nonzero(counts == 0)[:, 0]
    most = min(len(unused), len(vectors))
    means[unused[:most]] = vectors[errors.topk(most).indices]
    return means


def nearest(vectors: Tensor, entries: Tensor, probes: int = PROBES) -> tuple[Tensor, Tensor]:
    """The nearest entry of each vector, int64 [N], and its squared distance, [N].

    Args:
        vectors, entries: float32 [N, D] and [K, D].
        probes: cells in which each is searched; in all where there are few.
    """
    cells = len(entries) // CELL
    if cells <= 4 * PROBES:
        return _nearest(vectors, entries)
    centres = entries[torch.linspace(0, len(entries) - 1, cells).long()]
    for _ in range(3):
        home, errors = _nearest(entries, centres)
        centres = _means(entries, home, errors, centres)
    home, _ = _nearest(entries, centres)
    near = _ordered(vectors, centres, probes).flatten()
    pairs = near.argsort(stable=True)
    ends = torch.bincount(near, minlength=cells).cumsum(0).tolist()
    labels = torch.zeros(len(vectors), dtype=torch.long)
    best = torch.full((len(vectors),), torch.inf)
    for cell, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        inside = torch.nonzero(home == cell)[:, 0]
        rows = pairs[start:end] // probes
        if not len(inside) or not len(rows):
            continue
        closest, errors = _nearest(vectors[rows], entries[inside])
        better = errors < best[rows]
        rows = rows[better]
        best[rows], labels[rows] = errors[better], inside[closest[better]]
    return labels, best


def _nearest(vectors: Tensor, entries: Tensor) -> tuple[Tensor, Tensor]:
    """`nearest` by comparison with every entry."""
    labels = torch.empty(len(vectors), dtype=torch.long)
    errors = torch.empty(len(vectors))
    block = max(1, BLOCK // len(entries))
    norms = entries.square().sum(1)
    for start in range(0, len(vectors), block):
        part = vectors[start : start + block]
        distances = torch.addmm(norms, part, entries.T, alpha=-2)
        closest = torch.from_numpy(distances.numpy().argmin(1))  # four times as fast as that of torch
        least = distances.gather(1, closest[:, None])[:, 0] + part.square().sum(1)
        labels[start : start + block], errors[start : start + block] = closest, least.clamp_min(0)
    return labels, errors


def _ordered(vectors: Tensor, entries: Tensor, count: int) -> Tensor:
    """The ``count`` nearest entries of each vector, int64 [N, count]."""
    result = torch.empty(len(vectors), count, dtype=torch.long)
    block = max(1, BLOCK // len(entries))
    norms = entries.square().sum(1)
    for start in range(0, len(vectors), block):
        distances = torch.addmm(norms, vectors[start : start + block], entries.T, alpha=-2)
        result[start : start + block] = distances.topk(count, largest=False).indices
    return result
