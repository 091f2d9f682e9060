"""Embeddings of images, kept by view and version of the scene."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class EmbeddingCache(Generic[Value]):
    """The most recently used embeddings; safe to use from several threads.

    Args:
        limit: how many are retained; one of MobileSAM takes 4 MiB.

    Raises:
        ValueError: ``limit`` below 1.
    """

    def __init__(self, limit: int = 32) -> None:
        if limit < 1:
            raise ValueError(f"limit must be at least 1, got {limit}")
        self.limit = limit
        self._cached: OrderedDict[Hashable, Value] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._cached)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._cached

    def get(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """The embedding of a key, computed where it is not retained.

        Args:
            key: what the image shows, such as (name of the view, version of the scene). Images never change:
                any constant serves as their version.
            compute: runs outside of the lock; two threads that miss at once both compute.
        """
        with self._lock:
            if key in self._cached:
                self._cached.move_to_end(key)
                return self._cached[key]
        value = compute()
        with self._lock:
            self._cached[key] = value
            self._cached.move_to_end(key)
            while len(self._cached) > self.limit:
                self._cached.popitem(last=False)
        return value

    def clear(self) -> None:
        """Forgets all embeddings."""
        with self._lock:
            self._cached.clear()
