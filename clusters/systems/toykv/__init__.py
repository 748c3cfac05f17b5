"""toykv: a small replicated store of our own, with a switch for each of twelve planted bugs."""
