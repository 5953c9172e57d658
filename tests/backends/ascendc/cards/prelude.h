// What every case of a card's claims is given, and the usual way of a tile from GM through UB and back.
#include "kernel_operator.h"
using namespace AscendC;

struct Given {
    GlobalTensor<float> x, w, y;
    GlobalTensor<half> h, yh;
    GlobalTensor<int32_t> i, yi;
    GlobalTensor<uint8_t> b;
    GlobalTensor<int64_t> l;
    GM_ADDR workspace;
    uint32_t n;
    TPipe* pipe;
};

template <typename T> __aicore__ inline void CopyIn(const LocalTensor<T>& to, const GlobalTensor<T>& from, uint32_t count) {
    const uint32_t bytes = count * sizeof(T);
    DataCopyPad(to, from, DataCopyExtParams{1, bytes, 0, 0, 0}, DataCopyPadExtParams<T>{false, 0, 0, T(0)});
}
template <typename T> __aicore__ inline void CopyOut(const GlobalTensor<T>& to, const LocalTensor<T>& from, uint32_t count) {
    const uint32_t bytes = count * sizeof(T);
    DataCopyPad(to, from, DataCopyExtParams{1, bytes, 0, 0, 0});
}

using InQueue = TQue<TPosition::VECIN, 1>;
using OutQueue = TQue<TPosition::VECOUT, 1>;

// Two loads, four scratch tensors, one store; all of `room` elements.
template <typename T> struct StageOf {
    InQueue first, second;
    OutQueue out;
    TBuf<TPosition::VECCALC> scratch;
    uint32_t room;

    __aicore__ inline StageOf(Given& given, uint32_t elements) : room((elements + 127) / 128 * 128) {
        given.pipe->InitBuffer(first, 1, room * sizeof(T));
        given.pipe->InitBuffer(second, 1, room * sizeof(T));
        given.pipe->InitBuffer(out, 1, room * sizeof(T));
        given.pipe->InitBuffer(scratch, room * 4 * sizeof(float));
    }
    __aicore__ inline LocalTensor<T> Load(InQueue& queue, const GlobalTensor<T>& from, uint32_t count) {
        LocalTensor<T> t = queue.AllocTensor<T>();
        CopyIn(t, from, count);
        queue.EnQue(t);
        return queue.DeQue<T>();
    }
    template <typename U = float> __aicore__ inline LocalTensor<U> Scratch(uint32_t slot) {
        return scratch.Get<float>()[slot * room].template ReinterpretCast<U>();
    }
    __aicore__ inline LocalTensor<T> Result() { return out.AllocTensor<T>(); }
    __aicore__ inline void Store(const GlobalTensor<T>& to, LocalTensor<T> t, uint32_t count) {
        out.EnQue(t);
        t = out.DeQue<T>();
        CopyOut(to, t, count);
        out.FreeTensor(t);
    }
};
using Stage = StageOf<float>;

// This block's share of y = x * x, in tiles with two buffers each.
__aicore__ inline void SquareTiles(Given& g, uint32_t tile) {
    InQueue in;
    OutQueue result;
    g.pipe->InitBuffer(in, 2, tile * sizeof(float));
    g.pipe->InitBuffer(result, 2, tile * sizeof(float));
    const uint32_t each = (g.n + GetBlockNum() - 1) / GetBlockNum(), begin = GetBlockIdx() * each;
    const uint32_t end = begin + each < g.n ? begin + each : g.n;
    for (uint32_t at = begin; at < end; at += tile) {
        const uint32_t n = at + tile < end ? tile : end - at;
        LocalTensor<float> a = in.AllocTensor<float>();
        CopyIn(a, g.x[at], n);
        in.EnQue(a);
        a = in.DeQue<float>();
        LocalTensor<float> c = result.AllocTensor<float>();
        Mul(c, a, a, n);
        in.FreeTensor(a);
        result.EnQue(c);
        c = result.DeQue<float>();
        CopyOut(g.y[at], c, n);
        result.FreeTensor(c);
    }
}

// y = 2x + 1, in one pass or with y read back for the second.
__aicore__ inline void FusedOrNot(Given& g, bool fused) {
    InQueue in;
    OutQueue result;
    g.pipe->InitBuffer(in, 2, 16384);
    g.pipe->InitBuffer(result, 2, 16384);
    for (int pass = 0; pass < (fused ? 1 : 2); ++pass) {
        for (uint32_t at = 0; at < g.n; at += 4096) {
            LocalTensor<float> a = in.AllocTensor<float>();
            CopyIn(a, pass ? g.y[at] : g.x[at], 4096);
            in.EnQue(a);
            a = in.DeQue<float>();
            LocalTensor<float> c = result.AllocTensor<float>();
            if (pass == 0) Muls(c, a, 2.0f, 4096);
            if (pass == 1) Adds(c, a, 1.0f, 4096);
            if (fused) Adds(c, c, 1.0f, 4096);
            in.FreeTensor(a);
            result.EnQue(c);
            c = result.DeQue<float>();
            CopyOut(g.y[at], c, 4096);
            result.FreeTensor(c);
        }
        PipeBarrier<PIPE_ALL>();
    }
}

// y = exp(exp(... x ...)) in tiles: about as much for the vector unit as for the copies.
__aicore__ inline void ExpTiles(Given& g, uint8_t buffers, bool barrier) {
    InQueue in;
    OutQueue result;
    g.pipe->InitBuffer(in, buffers, 16384);
    g.pipe->InitBuffer(result, buffers, 16384);
    for (uint32_t at = 0; at < g.n; at += 4096) {
        LocalTensor<float> a = in.AllocTensor<float>();
        CopyIn(a, g.x[at], 4096);
        in.EnQue(a);
        a = in.DeQue<float>();
        LocalTensor<float> c = result.AllocTensor<float>();
        Exp(c, a, 4096);
        Muls(c, c, -1.0f, 4096);
        Exp(c, c, 4096);
        in.FreeTensor(a);
        result.EnQue(c);
        c = result.DeQue<float>();
        CopyOut(g.y[at], c, 4096);
        result.FreeTensor(c);
        if (barrier) PipeBarrier<PIPE_ALL>();
    }
}
