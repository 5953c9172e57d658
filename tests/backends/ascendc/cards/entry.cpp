extern "C" __global__ __aicore__ void kernel_custom(GM_ADDR x, GM_ADDR w, GM_ADDR h, GM_ADDR i, GM_ADDR b, GM_ADDR l, GM_ADDR y, GM_ADDR yh,
                                                    GM_ADDR yi, GM_ADDR workspace, GM_ADDR tiling) {
    GET_TILING_DATA(td, tiling);
    TPipe pipe;
    Given g;
    g.x.SetGlobalBuffer((__gm__ float*)x, td.n);
    g.w.SetGlobalBuffer((__gm__ float*)w, td.n);
    g.h.SetGlobalBuffer((__gm__ half*)h, td.n);
    g.i.SetGlobalBuffer((__gm__ int32_t*)i, td.n);
    g.b.SetGlobalBuffer((__gm__ uint8_t*)b, td.n);
    g.l.SetGlobalBuffer((__gm__ int64_t*)l, td.n);
    g.y.SetGlobalBuffer((__gm__ float*)y, td.n);
    g.yh.SetGlobalBuffer((__gm__ half*)yh, td.n);
    g.yi.SetGlobalBuffer((__gm__ int32_t*)yi, td.n);
    g.workspace = workspace;
    g.n = td.n;
    g.pipe = &pipe;
    switch (td.which) {
// calls
    }
}
