"""MobileSAM (Zhang et al. 2023, arXiv 2306.14289): masks from clicks and boxes.

A TinyViT-5M image encoder (Wu et al. 2022), once per image, and SAM's prompt encoder and mask decoder (Kirillov et
al. 2023), once per prompt. For inference only: batch normalisation is folded into the convolutions at load.
"""

from luxel.render.nets.mobile_sam.embeddings import EmbeddingCache
from luxel.render.nets.mobile_sam.network import Embedding, MobileSam, Predictions, load_mobile_sam
from luxel.render.nets.mobile_sam.weights import VARIABLE, WEIGHTS_SHA256, WeightsError, find_weights

__all__ = [
    "VARIABLE",
    "WEIGHTS_SHA256",
    "Embedding",
    "EmbeddingCache",
    "MobileSam",
    "Predictions",
    "WeightsError",
    "find_weights",
    "load_mobile_sam",
]
