// The compiler shows the line it does not understand.
#include "@WHERE@/home/.keys/secret"
