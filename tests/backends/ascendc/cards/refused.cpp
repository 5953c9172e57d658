// What the cards say does not compile. Each body stands in a function of its own, with t and u LocalTensor<float>, gm a GlobalTensor<float>;
// the words after `refused` are in what the compiler says about it.

//! invented-names refused Dup
Dup(t, 1.0f, 8);

//! invented-names refused Memset
Memset(t, 0.0f, 8);

//! invented-names refused Maximum
Maximum(t, t, u, 8);

//! invented-names refused Minimum
Minimum(t, t, u, 8);

//! invented-names refused Subs
Subs(t, t, 1.0f, 8);

//! invented-names refused Divs
Divs(t, t, 1.0f, 8);

//! invented-names refused Exps
Exps(t, t, 8);

//! invented-names refused Pow
Pow(t, t, u, 8);

//! invented-names refused Square
Square(t, u, 8);

//! invented-names refused Rec
Rec(t, u, 8);

//! invented-names refused Clip
Clip(t, u, 0.0f, 1.0f, 8);

//! invented-names refused Clamp
Clamp(t, u, 0.0f, 1.0f, 8);

//! invented-names refused Greater
Greater(t, t, u, 8);

//! invented-names refused Less
Less(t, t, u, 8);

//! invented-names refused Where
Where(t, t, u, 8);

//! invented-names refused Softmax
Softmax(t, u, 8);

//! invented-names refused MatMul
MatMul(t, t, u, 8);

//! invented-names refused ReLU
ReLU(t, u, 8);

//! invented-names refused SiLU
SiLU(t, u, 8);

//! invented-names refused GELU
GELU(t, u, 8);

//! invented-names refused Neg
Neg(t, u, 8);

//! invented-names refused DataCopyPad
DataCopyPad(t, gm, 8);

//! datacopypad-out refused DataCopyPad
DataCopyPad(gm, t, DataCopyExtParams{1, 32, 0, 0, 0}, DataCopyPadExtParams<float>{false, 0, 0, 0.0f});

//! dtype-macros refused DTYPE_A
GlobalTensor<DTYPE_A> other;

//! tiling-data-in-kernel refused get_length
optiling::SomeTilingData td;
uint32_t length = td.get_length();

//! tiling-data-in-kernel refused tileLength
optiling::SomeTilingData td;
uint32_t length = td.tileLength;

//! softmax-library refused SoftMax
SoftMax(t, u, 8);

//! norm-library refused LayerNorm
LayerNorm(t, u, 8);

//! transpose-blocks refused Transpose
Transpose(t, u, 32);
