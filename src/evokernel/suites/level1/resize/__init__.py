"""Images sampled on another grid."""
