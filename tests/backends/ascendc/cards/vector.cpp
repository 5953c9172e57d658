// Cases of the cards about vector kernels. A heading `//! card works answer` or `//! card breaks RULE` is followed by the case's body, which
// sees the card's own fragment; `//! card timed name` is priced. Further words are name=value: n (elements), blocks.

//! tiling-keys works twice key=1
Stage s(g, g.n);
LocalTensor<float> y = s.Result();
Muls(y, s.Load(s.first, g.x, g.n), ScaleOfKey(), g.n);
s.Store(g.y, y, g.n);

//! tiling-keys works thrice key=2
Stage s(g, g.n);
LocalTensor<float> y = s.Result();
Muls(y, s.Load(s.first, g.x, g.n), ScaleOfKey(), g.n);
s.Store(g.y, y, g.n);

//! block-index works twice n=1003 blocks=7
const Part part = MyPart(g.n, 128);
if (part.count == 0) return;
Stage s(g, part.count);
LocalTensor<float> y = s.Result();
Muls(y, s.Load(s.first, g.x[part.begin], part.count), 2.0f, part.count);
s.Store(g.y[part.begin], y, part.count);

//! block-index breaks E-GM-OOB n=100 blocks=7
const uint32_t each = 128, begin = GetBlockIdx() * each;
Stage s(g, each);
s.Load(s.first, g.x[begin], begin + each < g.n ? each : g.n - begin < each ? g.n - begin : each);

//! dtype-macros works twice
GlobalTensor<DTYPE_X> x = g.x;
Stage s(g, g.n);
LocalTensor<DTYPE_Y> y = s.Result();
Muls(y, s.Load(s.first, x, g.n), 2.0f, g.n);
s.Store(g.y, y, g.n);

//! kernel-task-type works twice
KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
Stage s(g, g.n);
LocalTensor<float> y = s.Result();
Muls(y, s.Load(s.first, g.x, g.n), 2.0f, g.n);
s.Store(g.y, y, g.n);

//! one-pipe works twice n=200
Scale scale;
scale.Init(g.pipe, 64);
for (uint32_t at = 0; at < g.n; at += 64) {
    const uint32_t n = at + 64 < g.n ? 64 : g.n - at;
    LocalTensor<float> a = scale.in.AllocTensor<float>();
    CopyIn(a, g.x[at], n);
    scale.in.EnQue(a);
    a = scale.in.DeQue<float>();
    LocalTensor<float> c = scale.out.AllocTensor<float>();
    Muls(c, a, 2.0f, n);
    scale.in.FreeTensor(a);
    scale.out.EnQue(c);
    c = scale.out.DeQue<float>();
    CopyOut(g.y[at], c, n);
    scale.out.FreeTensor(c);
}

//! init-buffer works twice
InQueue a;
const uint32_t tile = LargestTile(1, 4, 8192) / 2;
g.pipe->InitBuffer(a, 2, tile * 4);
Stage s(g, 128);
LocalTensor<float> y = s.Result();
Muls(y, s.Load(s.first, g.x, g.n), 2.0f, g.n);
s.Store(g.y, y, g.n);

//! init-buffer breaks E-UB-FULL
InQueue a;
const uint32_t tile = LargestTile(2, 4, 0) + 64;
g.pipe->InitBuffer(a, 2, tile * 4);
a.AllocTensor<float>();
Duplicate(a.AllocTensor<float>(), 0.0f, tile);

//! init-buffer breaks E-UB-OOB
TBuf<TPosition::VECCALC> a;
g.pipe->InitBuffer(a, 64);
Duplicate(a.Get<float>(), 0.0f, 64);

//! tbuf-scratch works twice
Stage s(g, g.n);
TBuf<TPosition::VECCALC> b;
g.pipe->InitBuffer(b, s.room * 8);
LocalTensor<float> t = b.Get<float>(), u = t[s.room];
Muls(t, s.Load(s.first, g.x, g.n), 1.0f, g.n);
Muls(u, t, 2.0f, g.n);
LocalTensor<float> y = s.Result();
Muls(y, u, 1.0f, g.n);
s.Store(g.y, y, g.n);

//! tbuf-scratch breaks E-RACE
TBuf<TPosition::VECCALC> b;
g.pipe->InitBuffer(b, 512);
LocalTensor<float> t = b.Get<float>();
CopyIn(t, g.x, 64);
Muls(t, t, 2.0f, 64);

//! buffer-limits breaks E-INIT-BUFFERS
TBuf<TPosition::VECCALC> b[65];
for (auto& one : b) g.pipe->InitBuffer(one, 32);

//! buffer-limits breaks E-INIT-QUEUE
InQueue a;
g.pipe->InitBuffer(a, 9, 32);

//! queue-depth breaks E-QUE-DEPTH
InQueue a;
g.pipe->InitBuffer(a, 2, 256);
LocalTensor<float> t = a.AllocTensor<float>(), u = a.AllocTensor<float>();
CopyIn(t, g.x, 64);
a.EnQue(t);
CopyIn(u, g.x, 64);
a.EnQue(u);

//! queue-life-cycle breaks E-QUE-ALLOC
InQueue a;
g.pipe->InitBuffer(a, 2, 256);
for (int k = 0; k < 3; ++k) {
    LocalTensor<float> t = a.AllocTensor<float>();
    CopyIn(t, g.x, 64);
    a.EnQue(t);
    t = a.DeQue<float>();
}

//! queue-life-cycle breaks E-QUE-EMPTY
InQueue a;
g.pipe->InitBuffer(a, 2, 256);
a.DeQue<float>();

//! queue-life-cycle breaks E-QUE-FREE
InQueue a;
g.pipe->InitBuffer(a, 2, 256);
LocalTensor<float> t = a.AllocTensor<float>();
a.FreeTensor(t);
a.FreeTensor(t);

//! queue-life-cycle breaks E-QUE-FOREIGN
InQueue a, b;
g.pipe->InitBuffer(a, 2, 256);
g.pipe->InitBuffer(b, 2, 256);
b.EnQue(a.AllocTensor<float>());

//! queue-life-cycle breaks E-RACE
InQueue a;
g.pipe->InitBuffer(a, 1, 256);
LocalTensor<float> t = a.AllocTensor<float>();
CopyIn(t, g.x, 64);
a.EnQue(t);
t = a.DeQue<float>();
a.FreeTensor(t);
LocalTensor<float> u = a.AllocTensor<float>();
CopyIn(u, g.x, 64);
Muls(t, t, 2.0f, 64);

//! ub-alignment works padded
StageOf<int32_t> s(g, 8);
LocalTensor<int32_t> y = s.Result();
Duplicate(y, static_cast<int32_t>(PaddedCount<float>(9) * 1000 + PaddedCount<half>(17)), 8);
s.Store(g.yi, y, 8);

//! ub-alignment breaks E-UB-ALIGN
TBuf<TPosition::VECCALC> b;
g.pipe->InitBuffer(b, 512);
Duplicate(b.Get<float>()[3], 0.0f, 8);

//! tensor-slices works reversed-halves n=64
Stage s(g, 64);
LocalTensor<float> a = s.Load(s.first, g.x, 64), y = s.Result();
Muls(y[32], a, 1.0f, 32);
Muls(y, a[32], 1.0f, 32);
s.Store(g.y, y, 64);

//! tensor-slices breaks E-UB-OOB
TBuf<TPosition::VECCALC> b;
g.pipe->InitBuffer(b, 256);
Duplicate(b.Get<float>()[32], 0.0f, 40);

//! tensor-slices breaks E-GM-OOB
Stage s(g, 64);
s.Load(s.first, g.x[g.n - 8], 64);

//! scalar-access-ub works scaled-by-first
Stage s(g, g.n);
LocalTensor<float> a = s.Load(s.first, g.x, g.n), y = s.Result();
Muls(y, a, a.GetValue(0), g.n);
s.Store(g.y, y, g.n);

//! scalar-access-ub timed add-scalar n=1024
Stage s(g, g.n);
LocalTensor<float> a = s.Load(s.first, g.x, g.n), b = s.Load(s.second, g.w, g.n), y = s.Result();
for (uint32_t k = 0; k < g.n; ++k) y.SetValue(k, a.GetValue(k) + b.GetValue(k));
s.Store(g.y, y, g.n);

//! scalar-access-ub timed add-vector n=1024
Stage s(g, g.n);
LocalTensor<float> a = s.Load(s.first, g.x, g.n), b = s.Load(s.second, g.w, g.n), y = s.Result();
Add(y, a, b, g.n);
s.Store(g.y, y, g.n);

//! scalar-access-gm works scaled-by-second
Stage s(g, g.n);
LocalTensor<float> a = s.Load(s.first, g.x, g.n), y = s.Result();
Muls(y, a, g.w.GetValue(1), g.n);
s.Store(g.y, y, g.n);

//! global-tensor works from-seventh
GlobalTensor<float> part;
part.SetGlobalBuffer((__gm__ float*)g.x.GetPhyAddr() + 7, g.n - 7);
Stage s(g, g.n);
LocalTensor<float> y = s.Result();
Muls(y, s.Load(s.first, part, g.n - 7), 1.0f, g.n - 7);
s.Store(g.y, y, g.n - 7);

//! global-tensor breaks E-GM-OOB blocks=2
const uint32_t begin = GetBlockIdx() * 60;
GlobalTensor<float> part;
part.SetGlobalBuffer((__gm__ float*)g.x.GetPhyAddr() + begin, 40);
Stage s(g, 60);
s.Load(s.first, part[begin], 40);

//! datacopy-blocks works twice n=64
Stage s(g, 64);
LocalTensor<float> a = s.first.AllocTensor<float>();
DataCopy(a, g.x, 64);
s.first.EnQue(a);
a = s.first.DeQue<float>();
LocalTensor<float> y = s.Result();
Muls(y, a, 2.0f, 64);
s.out.EnQue(y);
y = s.out.DeQue<float>();
DataCopy(g.y, y, 64);

//! datacopy-blocks breaks E-COPY-32
Stage s(g, 64);
LocalTensor<float> a = s.first.AllocTensor<float>();
DataCopy(a, g.x, 61);

//! datacopy-blocks breaks E-GM-OOB
Stage s(g, 104);
DataCopy(s.first.AllocTensor<float>(), g.x, 104);

//! datacopypad-in works rows-padded n=77
Stage s(g, 56);
LocalTensor<float> a = s.first.AllocTensor<float>();
LoadRows(a, g.x, 7, 5, 11, -1.0f);
s.first.EnQue(a);
a = s.first.DeQue<float>();
LocalTensor<float> y = s.Result();
Muls(y, a, 1.0f, 56);
s.Store(g.y, y, 56);

//! datacopypad-in breaks E-COPY-PAD
Stage s(g, 64);
LocalTensor<float> a = s.first.AllocTensor<float>();
DataCopyPad(a, g.x, DataCopyExtParams{1, 20, 0, 0, 0}, DataCopyPadExtParams<float>{true, 0, 11, 0.0f});

//! datacopypad-out works rows-spread n=77
Stage s(g, 56);
LocalTensor<float> y = s.Result();
Duplicate(y, 3.0f, 56);
s.out.EnQue(y);
y = s.out.DeQue<float>();
StoreRows(g.y, y, 7, 5, 11);

//! datacopy-strides works left-half n=128
Stage s(g, 64);
LocalTensor<float> a = s.first.AllocTensor<float>();
LoadLeftHalf(a, g.x, 4, 32);
s.first.EnQue(a);
a = s.first.DeQue<float>();
LocalTensor<float> y = s.Result();
Muls(y, a, 1.0f, 64);
s.Store(g.y, y, 64);

//! datacopy-strides breaks E-GM-OOB n=128
Stage s(g, 64);
LocalTensor<float> a = s.first.AllocTensor<float>();
DataCopy(a, g.x, DataCopyParams{4, 2, 4, 0});

//! count-form works twice n=1003
Stage s(g, g.n);
LocalTensor<float> a = s.Load(s.first, g.x, g.n), y = s.Result();
Add(y, a, a, g.n);
s.Store(g.y, y, g.n);

//! count-form breaks E-UB-OOB n=128
Stage s(g, g.n);
Muls(s.Result(), s.Load(s.first, g.x, g.n), 2.0f, g.n * 4);

//! count-form breaks E-UNINIT n=100
Stage s(g, 256);
LocalTensor<float> y = s.Result();
Muls(y, s.Load(s.first, g.x, g.n - 10), 2.0f, g.n);
s.Store(g.y, y, g.n);

//! repeat-form works times-row n=640
Stage s(g, 640);
LocalTensor<float> a = s.Load(s.first, g.x, 640), b = s.Load(s.second, g.w, 128), y = s.Result();
TimesRow(a, b, 5, 128);
Muls(y, a, 1.0f, 640);
s.Store(g.y, y, 640);

//! repeat-form breaks E-MASK n=640
Stage s(g, 640);
LocalTensor<float> a = s.Load(s.first, g.x, 640);
Mul(a, a, a, 65, 2, BinaryRepeatParams{1, 1, 1, 8, 8, 8});

//! repeat-form breaks E-REPEAT n=640
Stage s(g, 640);
LocalTensor<float> a = s.Load(s.first, g.x, 640);
const int32_t rows = 256;
Mul(a, a, a, 64, static_cast<uint8_t>(rows), BinaryRepeatParams{1, 1, 1, 8, 8, 8});

//! bit-masks works alternating n=128
Stage s(g, 128);
LocalTensor<float> a = s.Load(s.first, g.x, 128), y = s.Result();
NegateEverySecond(a, 2);
Muls(y, a, 1.0f, 128);
s.Store(g.y, y, 128);

//! bit-masks breaks E-MASK-HIGH n=128
Stage s(g, 128);
LocalTensor<float> a = s.Load(s.first, g.x, 128);
uint64_t mask[2] = {1, 1};
Muls(a, a, 2.0f, mask, 1, UnaryRepeatParams{1, 1, 8, 8});

//! vector-dtypes breaks E-DTYPE
TBuf<TPosition::VECCALC> b;
g.pipe->InitBuffer(b, 1024);
LocalTensor<bfloat16_t> t = b.Get<bfloat16_t>();
Duplicate(t, bfloat16_t(1.0f), 64);
Add(t, t, t, 64);

//! vector-dtypes breaks E-DTYPE
TBuf<TPosition::VECCALC> b;
g.pipe->InitBuffer(b, 1024);
LocalTensor<int32_t> t = b.Get<int32_t>();
Duplicate(t, 1, 64);
Div(t, t, t, 64);

//! vector-dtypes works integers
StageOf<int32_t> s(g, g.n);
LocalTensor<int32_t> a = s.Load(s.first, g.i, g.n), y = s.Result();
Adds(y, a, -2, g.n);
Muls(y, y, 3, g.n);
Relu(y, y, g.n);
s.Store(g.yi, y, g.n);

//! scalar-operands works scalars
Stage s(g, g.n);
LocalTensor<float> a = s.Load(s.first, g.x, g.n), y = s.Result();
Muls(y, a, -1.0f, g.n);
Adds(y, y, 3.0f, g.n);
LeakyRelu(y, y, 0.1f, g.n);
Axpy(y, a, 2.0f, g.n);
s.Store(g.y, y, g.n);

//! scalar-operands works half-scalars
StageOf<half> s(g, g.n);
LocalTensor<half> a = s.Load(s.first, g.h, g.n), y = s.Result();
Muls(y, a, (half)0.5f, g.n);
s.Store(g.yh, y, g.n);

//! duplicate works sevens
Stage s(g, g.n);
LocalTensor<float> y = s.Result();
Duplicate(y, 7.0f, g.n);
s.Store(g.y, y, g.n);

//! duplicate breaks E-UB-ALIGN
Stage s(g, 64);
Duplicate(s.Result()[61], 0.0f, 3);

//! in-place works sigmoid
Stage s(g, g.n);
LocalTensor<float> a = s.Load(s.first, g.x, g.n), y = s.Result();
Duplicate(s.Scratch(0), 1.0f, g.n);
SigmoidInPlace(a, s.Scratch(0), g.n);
Muls(y, a, 1.0f, g.n);
s.Store(g.y, y, g.n);

//! in-place breaks E-LIB-OVERLAP
Stage s(g, g.n);
LocalTensor<float> a = s.Load(s.first, g.x, g.n);
Silu(a, a, g.n);

//! cast-rounding works floor
Stage s(g, g.n);
LocalTensor<float> a = s.Load(s.first, g.x, g.n), y = s.Result();
FloorInPlace(a, s.Scratch<int32_t>(0), g.n);
Muls(y, a, 1.0f, g.n);
s.Store(g.y, y, g.n);

//! cast-rounding breaks E-CAST-PAIR
Stage s(g, g.n);
LocalTensor<float> a = s.Load(s.first, g.x, g.n);
Cast(s.Scratch<int32_t>(0), a, RoundMode::CAST_NONE, g.n);

//! cast-rounding breaks E-OVERLAP
TBuf<TPosition::VECCALC> b;
g.pipe->InitBuffer(b, 1024);
LocalTensor<half> t = b.Get<half>();
Duplicate(t, (half)1.0f, 128);
Cast(b.Get<float>(), t, RoundMode::CAST_NONE, 128);

//! compare-bits works positive n=192
Stage s(g, g.n);
LocalTensor<float> a = s.Load(s.first, g.x, g.n), y = s.Result();
Positive(y, a, s.Scratch<uint8_t>(0), s.Scratch(1), g.n);
s.Store(g.y, y, g.n);

//! compare-bits breaks E-CMP-256 n=100
Stage s(g, g.n);
LocalTensor<float> a = s.Load(s.first, g.x, g.n);
CompareScalar(s.Scratch<uint8_t>(0), a, 0.0f, CMPMODE::GT, 100);

//! select-modes works bend n=192
Stage s(g, g.n);
LocalTensor<float> a = s.Load(s.first, g.x, g.n), y = s.Result();
Bend(y, a, s.Scratch<uint8_t>(0), 0.5f, 0.25f, g.n);
s.Store(g.y, y, g.n);

//! select-modes breaks E-SEL-MODE n=64
Stage s(g, g.n);
LocalTensor<float> a = s.Load(s.first, g.x, g.n), y = s.Result();
CompareScalar(s.Scratch<uint8_t>(0), a, 0.0f, CMPMODE::GT, 64);
Select(y, s.Scratch<uint8_t>(0), a, 0.0f, SELMODE::VSEL_TENSOR_TENSOR_MODE, 64);

//! reduce-sum works sum n=1003
Stage s(g, g.n);
LocalTensor<float> a = s.Load(s.first, g.x, g.n), y = s.Result();
const float sum = SumOf(a, s.Scratch(0), s.Scratch(1), g.n);
Duplicate(y, sum, 8);
s.Store(g.y, y, 1);

//! reduce-max-index breaks E-RED-WORK n=1003
TBuf<TPosition::VECCALC> small;
g.pipe->InitBuffer(small, 32);
Stage s(g, g.n);
ReduceMax(s.Scratch(1), s.Load(s.first, g.x, g.n), small.Get<float>(), g.n, true);

//! reduce-max-index works argmax n=1003
Stage s(g, g.n);
StageOf<int32_t> indices(g, 8);
const uint32_t at = ArgMax(s.Load(s.first, g.x, g.n), s.Scratch(0), s.Scratch(1), g.n);
LocalTensor<int32_t> y = indices.Result();
Duplicate(y, static_cast<int32_t>(at), 8);
indices.Store(g.yi, y, 1);

//! whole-reduce-sum works row-sums n=480
Stage s(g, g.n);
LocalTensor<float> y = s.Result();
RowSums(y, s.Load(s.first, g.x, 480), 12, 37, 40);
s.Store(g.y, y, 12);

//! whole-reduce-sum works row-maxima n=640
Stage s(g, g.n);
LocalTensor<float> y = s.Result();
WholeReduceMax(y, s.Load(s.first, g.x, 640), 64, 10, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);
s.Store(g.y, y, 10);

//! block-reduce works block-sums n=128
Stage s(g, g.n);
LocalTensor<float> y = s.Result();
BlockReduceSum(y, s.Load(s.first, g.x, 128), 2, 64, 1, 1, 8);
s.Store(g.y, y, 16);

//! block-reduce works pair-sums n=128
Stage s(g, g.n);
LocalTensor<float> y = s.Result();
PairReduceSum(y, s.Load(s.first, g.x, 128), 2, 64, 1, 1, 8);
s.Store(g.y, y, 64);

//! gather-offsets works reversed n=203
Stage s(g, g.n);
LocalTensor<float> y = s.Result();
Reverse(y, s.Load(s.first, g.x, g.n), s.Scratch<int32_t>(0), g.n);
s.Store(g.y, y, g.n);

//! gather-offsets breaks E-GATHER-OFFSET n=128
Stage s(g, g.n);
LocalTensor<uint32_t> offsets = s.Scratch<uint32_t>(0);
Duplicate(offsets, uint32_t(4 * g.n), g.n);
Gather(s.Result(), s.Load(s.first, g.x, g.n), offsets, 0, g.n);

//! broadcasting works rows-scaled n=512
Stage s(g, g.n);
LocalTensor<float> a = s.Load(s.first, g.x, 512), y = s.Result();
ScaleRows(a, s.Load(s.second, g.w, 8), s.Scratch(0), 8);
Muls(y, a, 1.0f, 512);
s.Store(g.y, y, 512);

//! transpose-blocks works transposed n=256
StageOf<half> s(g, 256);
TransposeBlock(g.yh, g.h, s.first, s.out, 16, 16);

//! library-activations works silu
Stage s(g, g.n);
LocalTensor<float> y = s.Result();
SiluTile(y, s.Load(s.first, g.x, g.n), g.n);
s.Store(g.y, y, g.n);

//! library-activations works tanh
Stage s(g, g.n);
LocalTensor<float> y = s.Result();
Tanh(y, s.Load(s.first, g.x, g.n), g.n);
s.Store(g.y, y, g.n);

//! library-activations works gelu-tanh
Stage s(g, g.n);
LocalTensor<float> y = s.Result();
Gelu(y, s.Load(s.first, g.x, g.n), g.n);
s.Store(g.y, y, g.n);

//! library-activations works gelu-erf
Stage s(g, g.n);
LocalTensor<float> a = s.Load(s.first, g.x, g.n), t = s.Scratch(0), y = s.Result();
Muls(t, a, 0.70710678f, g.n);
Erf(y, t, g.n);
Adds(y, y, 1.0f, g.n);
Mul(y, y, a, g.n);
Muls(y, y, 0.5f, g.n);
s.Store(g.y, y, g.n);

//! library-activations breaks E-LIB-TMP n=64
Stage s(g, 64);
TBuf<TPosition::VECCALC> rest;
g.pipe->InitBuffer(rest, 196608 - s.room * 28);
Tanh(s.Result(), s.Load(s.first, g.x, g.n), g.n);

//! precision works half-stays
StageOf<half> s(g, 16);
LocalTensor<half> y = s.Result();
Duplicate(y, (half)2048.0f, 16);
Adds(y, y, (half)1.0f, 16);
s.Store(g.yh, y, 16);

//! precision works newton-step
Stage s(g, g.n);
LocalTensor<float> a = s.Load(s.first, g.x, g.n), t = s.Scratch(0), y = s.Result();
Abs(a, a, g.n);
Adds(a, a, 1.0f, g.n);
Reciprocal(y, a, g.n);
Mul(t, a, y, g.n);
Muls(t, t, -1.0f, g.n);
Adds(t, t, 2.0f, g.n);
Mul(y, y, t, g.n);
s.Store(g.y, y, g.n);

//! precision timed newton-quotient n=4096
Stage s(g, g.n);
LocalTensor<float> a = s.Load(s.first, g.x, g.n), t = s.Scratch(0), y = s.Result();
Reciprocal(y, a, g.n);
Mul(t, a, y, g.n);
Muls(t, t, -1.0f, g.n);
Adds(t, t, 2.0f, g.n);
Mul(y, y, t, g.n);
s.Store(g.y, y, g.n);

//! precision timed div-quotient n=4096
Stage s(g, g.n);
LocalTensor<float> a = s.Load(s.first, g.x, g.n), t = s.Scratch(0), y = s.Result();
Duplicate(t, 1.0f, g.n);
Div(y, t, a, g.n);
s.Store(g.y, y, g.n);

//! queue-order breaks E-RACE
InQueue a;
g.pipe->InitBuffer(a, 1, 256);
LocalTensor<float> t = a.AllocTensor<float>();
CopyIn(t, g.x, 64);
a.EnQue(t);
Muls(t, t, 2.0f, 64);

//! queue-order breaks E-RACE
OutQueue a;
g.pipe->InitBuffer(a, 1, 256);
LocalTensor<float> t = a.AllocTensor<float>();
Duplicate(t, 2.0f, 64);
CopyOut(g.y, t, 64);

//! auto-sync works scaled-by-first
Stage s(g, g.n);
LocalTensor<float> a = s.Load(s.first, g.x, g.n), t = s.Scratch(0), y = s.Result();
t.SetValue(0, a.GetValue(0));
Duplicate(y, t.GetValue(0), g.n);
Mul(y, y, a, g.n);
s.Store(g.y, y, g.n);

//! auto-sync breaks E-RACE
TBuf<TPosition::VECCALC> b;
g.pipe->InitBuffer(b, 512);
LocalTensor<float> t = b.Get<float>();
CopyIn(t, g.x, 64);
PipeBarrier<PIPE_V>();
Muls(t, t, 2.0f, 64);

//! set-wait-flag works twice
TBuf<TPosition::VECCALC> b;
g.pipe->InitBuffer(b, 4096);
LocalTensor<float> t = b.Get<float>();
LoadConstants(t, g.x, g.n);
Stage s(g, g.n);
LocalTensor<float> y = s.Result();
Muls(y, t, 2.0f, g.n);
s.Store(g.y, y, g.n);

//! set-wait-flag breaks E-EVENT-SET
SetFlag<HardEvent::MTE2_V>(0);
SetFlag<HardEvent::MTE2_V>(0);

//! set-wait-flag breaks E-EVENT-WAIT
WaitFlag<HardEvent::MTE2_V>(0);

//! pipe-barrier works twice
TBuf<TPosition::VECCALC> b;
g.pipe->InitBuffer(b, 4096);
LocalTensor<float> t = b.Get<float>();
CopyIn(t, g.x, g.n);
PipeBarrier<PIPE_ALL>();
Muls(t, t, 2.0f, g.n);
PipeBarrier<PIPE_ALL>();
CopyOut(g.y, t, g.n);

//! double-buffering works squares n=5003
SquareAll(*g.pipe, g.y, g.x, g.n, 1024);

//! double-buffering timed two-buffers n=65536
ExpTiles(g, 2, false);

//! double-buffering timed one-buffer n=65536
ExpTiles(g, 1, false);

//! pipe-barrier timed barrier-in-loop n=65536
ExpTiles(g, 2, true);

//! copy-size timed copies-of-16k n=65536
InQueue in;
g.pipe->InitBuffer(in, 2, 16384);
for (uint32_t at = 0; at < g.n; at += 4096) {
    LocalTensor<float> a = in.AllocTensor<float>();
    CopyIn(a, g.x[at], 4096);
    in.EnQue(a);
    in.FreeTensor(in.DeQue<float>());
}

//! copy-size timed copies-of-1k n=65536
InQueue in;
g.pipe->InitBuffer(in, 2, 1024);
for (uint32_t at = 0; at < g.n; at += 256) {
    LocalTensor<float> a = in.AllocTensor<float>();
    CopyIn(a, g.x[at], 256);
    in.EnQue(a);
    in.FreeTensor(in.DeQue<float>());
}

//! no-tiny-copies works one-store n=64
float values[64];
for (uint32_t k = 0; k < 64; ++k) values[k] = static_cast<float>(k);
OutQueue queue;
g.pipe->InitBuffer(queue, 1, 256);
StoreAll(g.y, queue, values, 64);

//! no-tiny-copies timed one-store n=256
float values[256];
for (uint32_t k = 0; k < 256; ++k) values[k] = static_cast<float>(k);
OutQueue queue;
g.pipe->InitBuffer(queue, 1, 1024);
StoreAll(g.y, queue, values, 256);

//! no-tiny-copies timed many-stores n=256
OutQueue queue;
g.pipe->InitBuffer(queue, 1, 1024);
for (uint32_t k = 0; k < 256; ++k) {
    LocalTensor<float> t = queue.AllocTensor<float>();
    t.SetValue(0, static_cast<float>(k));
    queue.EnQue(t);
    t = queue.DeQue<float>();
    CopyOut(g.y[k], t, 1);
    queue.FreeTensor(t);
}

//! tile-size timed large-tiles n=65536
SquareTiles(g, 8192);

//! tile-size timed small-tiles n=65536
SquareTiles(g, 512);

//! gm-alignment works per-core
StageOf<int32_t> s(g, 8);
LocalTensor<int32_t> y = s.Result();
Duplicate(y, static_cast<int32_t>(PerCore(100000, 48, 4)), 8);
s.Store(g.yi, y, 8);

//! bank-conflicts works added n=128
TBuf<TPosition::VECCALC> room;
g.pipe->InitBuffer(room, 2048);
LocalTensor<float> both = room.Get<float>();
CopyIn(both, g.x, 128);
CopyIn(both[192], g.w, 128);
PipeBarrier<PIPE_ALL>();
AddApart(both, 128, 128);
PipeBarrier<PIPE_ALL>();
CopyOut(g.y, both, 128);

//! bank-conflicts timed apart n=8192
TBuf<TPosition::VECCALC> room;
g.pipe->InitBuffer(room, 65536 + 512);
LocalTensor<float> both = room.Get<float>();
Duplicate(both, 1.0f, 16384 + 128);
for (int k = 0; k < 20; ++k) AddApart(both, 8192, 8192);

//! bank-conflicts timed same-banks n=8192
TBuf<TPosition::VECCALC> room;
g.pipe->InitBuffer(room, 65536 + 512);
LocalTensor<float> both = room.Get<float>();
Duplicate(both, 1.0f, 16384 + 128);
for (int k = 0; k < 20; ++k) Add(both, both, both[8192], 8192);

//! vector-not-scalar timed relu-scalar n=1024
Stage s(g, g.n);
LocalTensor<float> a = s.Load(s.first, g.x, g.n), y = s.Result();
for (uint32_t k = 0; k < g.n; ++k) y.SetValue(k, a.GetValue(k) > 0.0f ? a.GetValue(k) : 0.0f);
s.Store(g.y, y, g.n);

//! vector-not-scalar timed relu-vector n=1024
Stage s(g, g.n);
LocalTensor<float> a = s.Load(s.first, g.x, g.n), y = s.Result();
Maxs(y, a, 0.0f, g.n);
s.Store(g.y, y, g.n);

//! even-split works shares blocks=48
const Share share = ShareOf(100);
StageOf<int32_t> s(g, 8);
LocalTensor<int32_t> y = s.Result();
Duplicate(y, static_cast<int32_t>(share.first * 10 + share.count), 8);
s.Store(g.yi[GetBlockIdx()], y, 1);

//! even-split timed one-block n=98304 blocks=1
SquareTiles(g, 2048);

//! even-split timed all-cores n=98304 blocks=48
SquareTiles(g, 2048);

//! even-split timed too-many-blocks n=98304 blocks=64
SquareTiles(g, 2048);

//! core-counts timed eight-blocks n=98304 blocks=8
SquareTiles(g, 2048);

//! core-counts timed all-blocks n=98304 blocks=48
SquareTiles(g, 2048);

//! tails-with-pad works twice n=13
Stage s(g, g.n);
LocalTensor<float> y = s.Result();
Muls(y, s.Load(s.first, g.x, g.n), 2.0f, g.n);
s.Store(g.y, y, g.n);

//! neutral-padding works padded-maximum n=50
Stage s(g, 64);
LocalTensor<float> a = s.first.AllocTensor<float>();
DataCopyPad(a, g.x, DataCopyExtParams{10, 20, 0, 0, 0}, DataCopyPadExtParams<float>{true, 0, 3, -3.4e38f});
s.first.EnQue(a);
a = s.first.DeQue<float>();
LocalTensor<float> y = s.Result();
WholeReduceMax(y, a, 8, 10, 1, 1, 1, ReduceOrder::ORDER_ONLY_VALUE);
s.Store(g.y, y, 10);

//! hoist-constants timed hoisted n=65536
Stage s(g, 4096);
Duplicate(s.Scratch(0), 3.0f, 4096);
for (int k = 0; k < 16; ++k) Add(s.Scratch(1), s.Scratch(0), s.Scratch(0), 4096);

//! hoist-constants timed not-hoisted n=65536
Stage s(g, 4096);
for (int k = 0; k < 16; ++k) {
    Duplicate(s.Scratch(0), 3.0f, 4096);
    Add(s.Scratch(1), s.Scratch(0), s.Scratch(0), 4096);
}

//! in-place-saves-ub works twice n=12032
TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> queue;
g.pipe->InitBuffer(queue, 2, 12032 * 4);
LocalTensor<float> t = queue.AllocTensor<float>();
CopyIn(t, g.x, g.n);
queue.EnQue<TPosition::GM, TPosition::VECIN>(t);
t = queue.DeQue<TPosition::GM, TPosition::VECIN, float>();
Muls(t, t, 2.0f, g.n);
queue.EnQue<TPosition::VECOUT, TPosition::GM>(t);
t = queue.DeQue<TPosition::VECOUT, TPosition::GM, float>();
CopyOut(g.y, t, g.n);
queue.FreeTensor(t);

//! fuse-passes timed fused n=65536
FusedOrNot(g, true);

//! fuse-passes timed in-two-passes n=65536
FusedOrNot(g, false);

//! softmax-rows works softmax n=1003
Stage s(g, g.n);
LocalTensor<float> a = s.Load(s.first, g.x, g.n), y = s.Result();
SoftmaxRow(a, s.Scratch(0), s.Scratch(1), g.n);
Muls(y, a, 1.0f, g.n);
s.Store(g.y, y, g.n);

//! softmax-long-rows works log-sum-exp n=1003
Stage s(g, 256);
Running r{-3.4e38f, 0.0f};
for (uint32_t at = 0; at < g.n; at += 256) {
    const uint32_t n = at + 256 < g.n ? 256 : g.n - at;
    LocalTensor<float> t = s.Load(s.first, g.x[at], n);
    r = Absorb(r, t, s.Scratch(0), s.Scratch(1), n);
    s.first.FreeTensor(t);
}
LocalTensor<float> y = s.Result();
Duplicate(y, r.sum, 8);
Ln(y, y, 8);
Adds(y, y, r.max, 8);
s.Store(g.y, y, 1);

//! row-reductions works sums-of-192 n=1920
Stage s(g, 1920);
LocalTensor<float> y = s.Result();
SumRows(y, s.Load(s.first, g.x, 1920), 10, 192);
s.Store(g.y, y, 10);

//! row-reductions timed rows-together n=6144
Stage s(g, 6144);
SumRows(s.Scratch(0), s.Load(s.first, g.x, 6144), 96, 64);

//! row-reductions timed row-by-row n=6144
Stage s(g, 6144);
LocalTensor<float> a = s.Load(s.first, g.x, 6144);
for (uint32_t r = 0; r < 96; ++r) ReduceSum(s.Scratch(0)[8 * r], a[64 * r], s.Scratch(1), 64);

//! halving-sum works sum n=1024
Stage s(g, 1024);
LocalTensor<float> a = s.Load(s.first, g.x, 1024), y = s.Result();
Duplicate(y, SumByHalves(a, 1024), 8);
s.Store(g.y, y, 1);

//! half-through-float works silu-half
StageOf<half> s(g, g.n);
LocalTensor<half> y = s.Result();
SiluHalf(y, s.Load(s.first, g.h, g.n), s.Scratch(0), s.Scratch(1), g.n);
s.Store(g.yh, y, g.n);

//! product-of-halves works two-halves n=96
Stage s(g, 96);
LocalTensor<float> a = s.Load(s.first, g.x, 96), f = s.Scratch(2), y = s.Result();
LocalTensor<half> halves = s.Scratch<half>(0);
Muls(a, a, 4096.0f, 96);
SplitRow(halves, a, f, 96);
Cast(f, halves, RoundMode::CAST_NONE, 96);
Cast(y, halves[96], RoundMode::CAST_NONE, 96);
Add(y, y, f, 96);
Muls(y, y, 1.0f / 4096.0f, 96);
s.Store(g.y, y, 96);

//! fused-multiply-add works three-taps n=100
Stage s(g, 128);
const float w[3] = {0.5f, -1.0f, 2.0f};
LocalTensor<float> a = s.Load(s.first, g.x, g.n), b = s.Load(s.second, g.w, g.n), y = s.Result();
Muls(s.Scratch(0), a, 3.0f, g.n);
ThreeTaps(y, a, b, s.Scratch(0), w, g.n);
s.Store(g.y, y, g.n);

//! fused-multiply-add works multiply-adds
Stage s(g, g.n);
LocalTensor<float> a = s.Load(s.first, g.x, g.n), b = s.Load(s.second, g.w, g.n), y = s.Result();
Duplicate(y, 1.0f, g.n);
MulAddDst(y, a, b, g.n);
FusedMulAdd(y, a, b, g.n);
AddRelu(y, y, b, g.n);
s.Store(g.y, y, g.n);

//! small-problems works few-blocks
StageOf<int32_t> s(g, 8);
LocalTensor<int32_t> y = s.Result();
Duplicate(y, static_cast<int32_t>(BlocksForBytes(10000, 48) * 10000 + BlocksForBytes(100, 48) * 100 + BlocksForBytes(1 << 20, 48)), 8);
s.Store(g.yi, y, 8);

//! layernorm-rows works layernorm n=1003
Stage s(g, g.n);
TBuf<TPosition::VECCALC> beta;
g.pipe->InitBuffer(beta, s.room * 4);
Duplicate(beta.Get<float>(), 0.5f, g.n);
LocalTensor<float> a = s.Load(s.first, g.x, g.n), gamma = s.Load(s.second, g.w, g.n), y = s.Result();
LayerNormRow(a, gamma, beta.Get<float>(), s.Scratch(0), s.Scratch(1), s.Scratch(2), g.n, 1e-5f);
Muls(y, a, 1.0f, g.n);
s.Store(g.y, y, g.n);

//! reduce-outer-axis works column-sums n=400
Stage s(g, 400);
LocalTensor<float> y = s.Result();
Duplicate(y, 0.0f, 40);
AddRows(y, s.Load(s.first, g.x, 400), 10, 37, 40);
s.Store(g.y, y, 37);

//! integer-and-bool-inputs works masked
Stage s(g, g.n);
InQueue bytes;
g.pipe->InitBuffer(bytes, 1, s.room);
TBuf<TPosition::VECCALC> halves;
g.pipe->InitBuffer(halves, s.room * 2);
LocalTensor<uint8_t> m = bytes.AllocTensor<uint8_t>();
CopyIn(m, g.b, g.n);
bytes.EnQue(m);
m = bytes.DeQue<uint8_t>();
Cast(halves.Get<half>(), m, RoundMode::CAST_NONE, g.n);
Cast(s.Scratch(0), halves.Get<half>(), RoundMode::CAST_NONE, g.n);
LocalTensor<float> y = s.Result();
Mul(y, s.Load(s.first, g.x, g.n), s.Scratch(0), g.n);
s.Store(g.y, y, g.n);

//! integer-and-bool-inputs works narrowed
StageOf<int32_t> s(g, g.n);
InQueue wide;
g.pipe->InitBuffer(wide, 1, s.room * 8);
LocalTensor<int64_t> a = wide.AllocTensor<int64_t>();
CopyIn(a, g.l, g.n);
wide.EnQue(a);
a = wide.DeQue<int64_t>();
LocalTensor<int32_t> y = s.Result();
Cast(y, a, RoundMode::CAST_NONE, g.n);
s.Store(g.yi, y, g.n);

//! gather-rows works gathered n=320
TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> queue;
g.pipe->InitBuffer(queue, 1, 2048);
CopyRows(g.y, g.x, g.i, queue, 5, 64);

//! argmax-rows works argmax-rows n=350
Stage s(g, 400);
StageOf<int32_t> indices(g, 16);
LocalTensor<float> a = s.first.AllocTensor<float>();
DataCopyPad(a, g.x, DataCopyExtParams{7, 200, 0, 0, 0}, DataCopyPadExtParams<float>{false, 0, 0, 0.0f});
s.first.EnQue(a);
a = s.first.DeQue<float>();
LocalTensor<int32_t> y = indices.Result();
ArgMaxRows(y, a, s.Scratch(0), s.Scratch(1), 7, 50, 56);
indices.Store(g.yi, y, 14);

//! shifted-rows works sliding-maximum n=103
Stage s(g, 128);
LocalTensor<float> y = s.Result();
SlidingMax(y, s.first, g.x, 100, 4);
s.Store(g.y, y, 100);

//! shifted-rows breaks E-UB-ALIGN n=103
Stage s(g, 128);
LocalTensor<float> a = s.Load(s.first, g.x, 103);
Max(s.Result(), a, a[1], 100);

//! activation-forms works softplus
Stage s(g, g.n);
LocalTensor<float> y = s.Result();
SoftplusTile(y, s.Load(s.first, g.x, g.n), s.Scratch(0), g.n);
s.Store(g.y, y, g.n);

//! activation-forms works hardsigmoid
Stage s(g, g.n);
LocalTensor<float> a = s.Load(s.first, g.x, g.n), y = s.Result();
Muls(y, a, 1.0f / 6.0f, g.n);
Adds(y, y, 0.5f, g.n);
Maxs(y, y, 0.0f, g.n);
Mins(y, y, 1.0f, g.n);
s.Store(g.y, y, g.n);

//! activation-forms works elu
Stage s(g, g.n);
LocalTensor<float> a = s.Load(s.first, g.x, g.n), t = s.Scratch(0), y = s.Result();
Mins(y, a, 0.0f, g.n);
Exp(y, y, g.n);
Adds(y, y, -1.0f, g.n);
Muls(y, y, 1.5f, g.n);
Maxs(t, a, 0.0f, g.n);
Add(y, y, t, g.n);
s.Store(g.y, y, g.n);

//! activation-forms works tanh
Stage s(g, g.n);
LocalTensor<float> a = s.Load(s.first, g.x, g.n), twos = s.Scratch(0), y = s.Result();
Duplicate(twos, 2.0f, g.n);
Mins(y, a, 15.0f, g.n);
Maxs(y, y, -15.0f, g.n);
Muls(y, y, -2.0f, g.n);
Exp(y, y, g.n);
Adds(y, y, 1.0f, g.n);
Div(y, twos, y, g.n);
Adds(y, y, -1.0f, g.n);
s.Store(g.y, y, g.n);

//! activation-forms works gelu-tanh
Stage s(g, g.n);
LocalTensor<float> a = s.Load(s.first, g.x, g.n), y = s.Result();
Mul(y, a, a, g.n);
Mul(y, y, a, g.n);
Muls(y, y, 0.044715f, g.n);
Add(y, y, a, g.n);
Muls(y, y, -1.5957691f, g.n);
Exp(y, y, g.n);
Adds(y, y, 1.0f, g.n);
Div(y, a, y, g.n);
s.Store(g.y, y, g.n);

//! rows-in-one-call timed whole-tile n=4096
Stage s(g, 4096);
LocalTensor<float> a = s.Load(s.first, g.x, 4096), y = s.Result();
Muls(y, a, 2.0f, 4096);

//! rows-in-one-call timed each-row n=4096
Stage s(g, 4096);
LocalTensor<float> a = s.Load(s.first, g.x, 4096), y = s.Result();
for (uint32_t r = 0; r < 64; ++r) Muls(y[64 * r], a[64 * r], 2.0f, 64);

//! scalar-access-gm timed gm-loop n=1024
for (uint32_t k = 0; k < g.n; ++k) g.y.SetValue(k, g.x.GetValue(k) + g.w.GetValue(k));

//! scalar-access-gm timed gm-copied n=1024
Stage s(g, g.n);
LocalTensor<float> a = s.Load(s.first, g.x, g.n), b = s.Load(s.second, g.w, g.n), y = s.Result();
Add(y, a, b, g.n);
s.Store(g.y, y, g.n);

//! fused-multiply-add timed axpy n=4096
Stage s(g, 4096);
Duplicate(s.Scratch(0), 1.0f, 4096);
Duplicate(s.Scratch(1), 1.0f, 4096);
for (int k = 0; k < 8; ++k) Axpy(s.Scratch(1), s.Scratch(0), 2.0f, 4096);

//! fused-multiply-add timed muls-add n=4096
Stage s(g, 4096);
Duplicate(s.Scratch(0), 1.0f, 4096);
Duplicate(s.Scratch(1), 1.0f, 4096);
for (int k = 0; k < 8; ++k) {
    Muls(s.Scratch(2), s.Scratch(0), 2.0f, 4096);
    Add(s.Scratch(1), s.Scratch(1), s.Scratch(2), 4096);
}
