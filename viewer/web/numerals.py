"""Numbers as the page writes them."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """A number of things, with separators: "1 Gaussian", "12,000 Gaussians"."""
    return f"{count:,} {noun[:-1] if count == 1 and noun.endswith('s') else noun}"


def number(value: float) -> str:
    """A measured number with four digits, without powers of ten where it is large: "12,345", "0.01235"."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"
