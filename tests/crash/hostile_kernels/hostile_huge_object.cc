// A hundred megabytes of object from one line.
asm(".data\n.fill 104857600, 1, 1\n");
