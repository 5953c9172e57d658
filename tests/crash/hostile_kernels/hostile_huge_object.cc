// Builds an object of 100 MB from one line.
asm(".data\n.fill 104857600, 1, 1\n");
