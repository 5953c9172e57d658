// Cases of the cards about cores that wait for each other; headings as in vector.cpp.

//! sync-all works meet blocks=8
OutQueue out;
g.pipe->InitBuffer(out, 1, 256);
GlobalTensor<float> parts;
parts.SetGlobalBuffer((__gm__ float*)GetUserWorkspace(g.workspace), 512);
LocalTensor<float> t = out.AllocTensor<float>();
Duplicate(t, static_cast<float>(GetBlockIdx()), 8);
out.EnQue(t);
t = out.DeQue<float>();
DataCopy(parts[GetBlockIdx() * 8], t, 8);
out.FreeTensor(t);
PipeBarrier<PIPE_ALL>();
SyncAll();
if (GetBlockIdx() != 0) return;
InQueue in;
g.pipe->InitBuffer(in, 1, 1024);
LocalTensor<float> all = in.AllocTensor<float>();
DataCopy(all, parts, 64);
in.EnQue(all);
all = in.DeQue<float>();
t = out.AllocTensor<float>();
Muls(t, all, 1.0f, 64);
out.EnQue(t);
t = out.DeQue<float>();
DataCopy(g.y, t, 64);
out.FreeTensor(t);

//! sync-all breaks E-SYNC-LOST blocks=8
if (GetBlockIdx() == 0) return;
SyncAll();

//! sync-all breaks E-SYNC-CORES blocks=64
SyncAll();

//! atomic-add works counted blocks=8
OutQueue out;
g.pipe->InitBuffer(out, 1, 256);
LocalTensor<float> t = out.AllocTensor<float>();
Duplicate(t, 0.0f, 64);
out.EnQue(t);
t = out.DeQue<float>();
if (GetBlockIdx() == 0) DataCopy(g.y, t, 64);
out.FreeTensor(t);
PipeBarrier<PIPE_ALL>();
SyncAll();
t = out.AllocTensor<float>();
Duplicate(t, 1.0f, 64);
out.EnQue(t);
t = out.DeQue<float>();
SetAtomicAdd<float>();
DataCopy(g.y, t, 64);
SetAtomicNone();
out.FreeTensor(t);

//! init-global-memory works counted blocks=8
if (GetBlockIdx() == 0) InitGlobalMemory(g.y, 64, 0.0f);
PipeBarrier<PIPE_ALL>();
SyncAll();
OutQueue out;
g.pipe->InitBuffer(out, 1, 256);
LocalTensor<float> t = out.AllocTensor<float>();
Duplicate(t, 1.0f, 64);
out.EnQue(t);
t = out.DeQue<float>();
SetAtomicAdd<float>();
DataCopy(g.y, t, 64);
SetAtomicNone();
out.FreeTensor(t);

//! one-number works sum blocks=8 n=1003
Stage s(g, 256);
const uint32_t each = 128, begin = GetBlockIdx() * each;
const uint32_t count = begin + each < g.n ? each : g.n - begin;
GlobalTensor<float> parts;
parts.SetGlobalBuffer((__gm__ float*)GetUserWorkspace(g.workspace), 512);
LocalTensor<float> a = s.Load(s.first, g.x[begin], count), part = s.Result();
Duplicate(part, 0.0f, 8);
ReduceSum(part, a, s.Scratch(0), count);
s.Store(parts[GetBlockIdx() * 8], part, 8);
s.first.FreeTensor(a);
PipeBarrier<PIPE_ALL>();
SyncAll();
if (GetBlockIdx() != 0) return;
LocalTensor<float> all = s.Load(s.first, parts, 64), y = s.Result();
ReduceSum(y, all, s.Scratch(0), 64);
s.Store(g.y, y, 1);

//! workspace works twice
Stage s(g, g.n);
GlobalTensor<float> kept;
kept.SetGlobalBuffer((__gm__ float*)GetUserWorkspace(g.workspace), g.n);
LocalTensor<float> t = s.Result();
Muls(t, s.Load(s.first, g.x, g.n), 2.0f, g.n);
s.Store(kept, t, g.n);
PipeBarrier<PIPE_ALL>();
LocalTensor<float> back = s.Load(s.second, kept, g.n);
t = s.Result();
Muls(t, back, 1.0f, g.n);
s.Store(g.y, t, g.n);
