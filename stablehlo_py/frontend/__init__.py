"""Front end: sources of StableHLO, and what is done to a module before legalization."""
