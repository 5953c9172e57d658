"""Elements read, written or added up at places that indices or masks give."""
