"""The parts that every training run shares: loop, readbacks, run folder, checkpoints, interrupts, memory, progress.

Nothing here depends on what is trained.
"""
