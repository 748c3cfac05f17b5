"""What the faults of one family have in common: when, whom, in which order, with what proof."""
