static float gate(float y, float a) { return y > 0 ? y : a * y; }
