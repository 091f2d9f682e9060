"""Stages of a training step: loss, Adam, density control, regularisers."""
