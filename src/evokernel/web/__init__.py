"""A page to watch and understand runs: reads run folders and memory banks, writes nothing, runs nothing."""
