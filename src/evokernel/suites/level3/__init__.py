"""Twenty small models and blocks of models, from a convolutional block to a selective scan."""
