// Lets the compiler quote a line of a secret file.
#include "@WHERE@/home/.keys/secret"
