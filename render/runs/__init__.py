"""What every training run has, whatever it trains: the loop, the run folder, checkpoints, interrupts, progress."""
