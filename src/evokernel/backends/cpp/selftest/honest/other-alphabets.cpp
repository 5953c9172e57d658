// selftest: task=starter/argmax
// Größter Wert jeder Zeile; 各行の最大値; наибольший элемент; 🔍
static const char* const names[] = {"größte", "最大", "наибольший"};

extern "C" void kernel(const float* x, const int64_t* x_shape, int64_t* out, const int64_t* out_shape) {
    /* «первый из равных» */
    for (int64_t r = 0; r < x_shape[0]; ++r) {
        int64_t best = 0;
        for (int64_t c = 1; c < x_shape[1]; ++c)
            if (x[r * x_shape[1] + c] > x[r * x_shape[1] + best]) best = c;
        out[r] = best + (names[0][0] != 'g');
    }
}
