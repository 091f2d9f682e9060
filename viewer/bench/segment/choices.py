"""Choices of `luxel bench segment`."""

from __future__ import annotations

from typing import Literal

PartName = Literal["times", "network", "quality"]
ProviderName = Literal["ids", "noisy-ids", "mobile-sam"]
