// selftest: task=starter/softmax
// Unrolled by hand, as generators of text like to do.
static inline float step_0(float sum, const float* x) {
    // Adds elements 0 to 3 of a block of 256; written out in full.
    sum += x[0];
    sum += x[1];
    sum += x[2];
    sum += x[3];
    return sum;
}

static inline float step_1(float sum, const float* x) {
    // Adds elements 4 to 7 of a block of 256; written out in full.
    sum += x[4];
    sum += x[5];
    sum += x[6];
    sum += x[7];
    return sum;
}

static inline float step_2(float sum, const float* x) {
    // Adds elements 8 to 11 of a block of 256; written out in full.
    sum += x[8];
    sum += x[9];
    sum += x[10];
    sum += x[11];
    return sum;
}

static inline float step_3(float sum, const float* x) {
    // Adds elements 12 to 15 of a block of 256; written out in full.
    sum += x[12];
    sum += x[13];
    sum += x[14];
    sum += x[15];
    return sum;
}

static inline float step_4(float sum, const float* x) {
    // Adds elements 16 to 19 of a block of 256; written out in full.
    sum += x[16];
    sum += x[17];
    sum += x[18];
    sum += x[19];
    return sum;
}

static inline float step_5(float sum, const float* x) {
    // Adds elements 20 to 23 of a block of 256; written out in full.
    sum += x[20];
    sum += x[21];
    sum += x[22];
    sum += x[23];
    return sum;
}

static inline float step_6(float sum, const float* x) {
    // Adds elements 24 to 27 of a block of 256; written out in full.
    sum += x[24];
    sum += x[25];
    sum += x[26];
    sum += x[27];
    return sum;
}

static inline float step_7(float sum, const float* x) {
    // Adds elements 28 to 31 of a block of 256; written out in full.
    sum += x[28];
    sum += x[29];
    sum += x[30];
    sum += x[31];
    return sum;
}

static inline float step_8(float sum, const float* x) {
    // Adds elements 32 to 35 of a block of 256; written out in full.
    sum += x[32];
    sum += x[33];
    sum += x[34];
    sum += x[35];
    return sum;
}

static inline float step_9(float sum, const float* x) {
    // Adds elements 36 to 39 of a block of 256; written out in full.
    sum += x[36];
    sum += x[37];
    sum += x[38];
    sum += x[39];
    return sum;
}

static inline float step_10(float sum, const float* x) {
    // Adds elements 40 to 43 of a block of 256; written out in full.
    sum += x[40];
    sum += x[41];
    sum += x[42];
    sum += x[43];
    return sum;
}

static inline float step_11(float sum, const float* x) {
    // Adds elements 44 to 47 of a block of 256; written out in full.
    sum += x[44];
    sum += x[45];
    sum += x[46];
    sum += x[47];
    return sum;
}

static inline float step_12(float sum, const float* x) {
    // Adds elements 48 to 51 of a block of 256; written out in full.
    sum += x[48];
    sum += x[49];
    sum += x[50];
    sum += x[51];
    return sum;
}

static inline float step_13(float sum, const float* x) {
    // Adds elements 52 to 55 of a block of 256; written out in full.
    sum += x[52];
    sum += x[53];
    sum += x[54];
    sum += x[55];
    return sum;
}

static inline float step_14(float sum, const float* x) {
    // Adds elements 56 to 59 of a block of 256; written out in full.
    sum += x[56];
    sum += x[57];
    sum += x[58];
    sum += x[59];
    return sum;
}

static inline float step_15(float sum, const float* x) {
    // Adds elements 60 to 63 of a block of 256; written out in full.
    sum += x[60];
    sum += x[61];
    sum += x[62];
    sum += x[63];
    return sum;
}

static inline float step_16(float sum, const float* x) {
    // Adds elements 64 to 67 of a block of 256; written out in full.
    sum += x[64];
    sum += x[65];
    sum += x[66];
    sum += x[67];
    return sum;
}

static inline float step_17(float sum, const float* x) {
    // Adds elements 68 to 71 of a block of 256; written out in full.
    sum += x[68];
    sum += x[69];
    sum += x[70];
    sum += x[71];
    return sum;
}

static inline float step_18(float sum, const float* x) {
    // Adds elements 72 to 75 of a block of 256; written out in full.
    sum += x[72];
    sum += x[73];
    sum += x[74];
    sum += x[75];
    return sum;
}

static inline float step_19(float sum, const float* x) {
    // Adds elements 76 to 79 of a block of 256; written out in full.
    sum += x[76];
    sum += x[77];
    sum += x[78];
    sum += x[79];
    return sum;
}

static inline float step_20(float sum, const float* x) {
    // Adds elements 80 to 83 of a block of 256; written out in full.
    sum += x[80];
    sum += x[81];
    sum += x[82];
    sum += x[83];
    return sum;
}

static inline float step_21(float sum, const float* x) {
    // Adds elements 84 to 87 of a block of 256; written out in full.
    sum += x[84];
    sum += x[85];
    sum += x[86];
    sum += x[87];
    return sum;
}

static inline float step_22(float sum, const float* x) {
    // Adds elements 88 to 91 of a block of 256; written out in full.
    sum += x[88];
    sum += x[89];
    sum += x[90];
    sum += x[91];
    return sum;
}

static inline float step_23(float sum, const float* x) {
    // Adds elements 92 to 95 of a block of 256; written out in full.
    sum += x[92];
    sum += x[93];
    sum += x[94];
    sum += x[95];
    return sum;
}

static inline float step_24(float sum, const float* x) {
    // Adds elements 96 to 99 of a block of 256; written out in full.
    sum += x[96];
    sum += x[97];
    sum += x[98];
    sum += x[99];
    return sum;
}

static inline float step_25(float sum, const float* x) {
    // Adds elements 100 to 103 of a block of 256; written out in full.
    sum += x[100];
    sum += x[101];
    sum += x[102];
    sum += x[103];
    return sum;
}

static inline float step_26(float sum, const float* x) {
    // Adds elements 104 to 107 of a block of 256; written out in full.
    sum += x[104];
    sum += x[105];
    sum += x[106];
    sum += x[107];
    return sum;
}

static inline float step_27(float sum, const float* x) {
    // Adds elements 108 to 111 of a block of 256; written out in full.
    sum += x[108];
    sum += x[109];
    sum += x[110];
    sum += x[111];
    return sum;
}

static inline float step_28(float sum, const float* x) {
    // Adds elements 112 to 115 of a block of 256; written out in full.
    sum += x[112];
    sum += x[113];
    sum += x[114];
    sum += x[115];
    return sum;
}

static inline float step_29(float sum, const float* x) {
    // Adds elements 116 to 119 of a block of 256; written out in full.
    sum += x[116];
    sum += x[117];
    sum += x[118];
    sum += x[119];
    return sum;
}

static inline float step_30(float sum, const float* x) {
    // Adds elements 120 to 123 of a block of 256; written out in full.
    sum += x[120];
    sum += x[121];
    sum += x[122];
    sum += x[123];
    return sum;
}

static inline float step_31(float sum, const float* x) {
    // Adds elements 124 to 127 of a block of 256; written out in full.
    sum += x[124];
    sum += x[125];
    sum += x[126];
    sum += x[127];
    return sum;
}

static inline float step_32(float sum, const float* x) {
    // Adds elements 128 to 131 of a block of 256; written out in full.
    sum += x[128];
    sum += x[129];
    sum += x[130];
    sum += x[131];
    return sum;
}

static inline float step_33(float sum, const float* x) {
    // Adds elements 132 to 135 of a block of 256; written out in full.
    sum += x[132];
    sum += x[133];
    sum += x[134];
    sum += x[135];
    return sum;
}

static inline float step_34(float sum, const float* x) {
    // Adds elements 136 to 139 of a block of 256; written out in full.
    sum += x[136];
    sum += x[137];
    sum += x[138];
    sum += x[139];
    return sum;
}

static inline float step_35(float sum, const float* x) {
    // Adds elements 140 to 143 of a block of 256; written out in full.
    sum += x[140];
    sum += x[141];
    sum += x[142];
    sum += x[143];
    return sum;
}

static inline float step_36(float sum, const float* x) {
    // Adds elements 144 to 147 of a block of 256; written out in full.
    sum += x[144];
    sum += x[145];
    sum += x[146];
    sum += x[147];
    return sum;
}

static inline float step_37(float sum, const float* x) {
    // Adds elements 148 to 151 of a block of 256; written out in full.
    sum += x[148];
    sum += x[149];
    sum += x[150];
    sum += x[151];
    return sum;
}

static inline float step_38(float sum, const float* x) {
    // Adds elements 152 to 155 of a block of 256; written out in full.
    sum += x[152];
    sum += x[153];
    sum += x[154];
    sum += x[155];
    return sum;
}

static inline float step_39(float sum, const float* x) {
    // Adds elements 156 to 159 of a block of 256; written out in full.
    sum += x[156];
    sum += x[157];
    sum += x[158];
    sum += x[159];
    return sum;
}

static inline float step_40(float sum, const float* x) {
    // Adds elements 160 to 163 of a block of 256; written out in full.
    sum += x[160];
    sum += x[161];
    sum += x[162];
    sum += x[163];
    return sum;
}

static inline float step_41(float sum, const float* x) {
    // Adds elements 164 to 167 of a block of 256; written out in full.
    sum += x[164];
    sum += x[165];
    sum += x[166];
    sum += x[167];
    return sum;
}

static inline float step_42(float sum, const float* x) {
    // Adds elements 168 to 171 of a block of 256; written out in full.
    sum += x[168];
    sum += x[169];
    sum += x[170];
    sum += x[171];
    return sum;
}

static inline float step_43(float sum, const float* x) {
    // Adds elements 172 to 175 of a block of 256; written out in full.
    sum += x[172];
    sum += x[173];
    sum += x[174];
    sum += x[175];
    return sum;
}

static inline float step_44(float sum, const float* x) {
    // Adds elements 176 to 179 of a block of 256; written out in full.
    sum += x[176];
    sum += x[177];
    sum += x[178];
    sum += x[179];
    return sum;
}

static inline float step_45(float sum, const float* x) {
    // Adds elements 180 to 183 of a block of 256; written out in full.
    sum += x[180];
    sum += x[181];
    sum += x[182];
    sum += x[183];
    return sum;
}

static inline float step_46(float sum, const float* x) {
    // Adds elements 184 to 187 of a block of 256; written out in full.
    sum += x[184];
    sum += x[185];
    sum += x[186];
    sum += x[187];
    return sum;
}

static inline float step_47(float sum, const float* x) {
    // Adds elements 188 to 191 of a block of 256; written out in full.
    sum += x[188];
    sum += x[189];
    sum += x[190];
    sum += x[191];
    return sum;
}

static inline float step_48(float sum, const float* x) {
    // Adds elements 192 to 195 of a block of 256; written out in full.
    sum += x[192];
    sum += x[193];
    sum += x[194];
    sum += x[195];
    return sum;
}

static inline float step_49(float sum, const float* x) {
    // Adds elements 196 to 199 of a block of 256; written out in full.
    sum += x[196];
    sum += x[197];
    sum += x[198];
    sum += x[199];
    return sum;
}

static inline float step_50(float sum, const float* x) {
    // Adds elements 200 to 203 of a block of 256; written out in full.
    sum += x[200];
    sum += x[201];
    sum += x[202];
    sum += x[203];
    return sum;
}

static inline float step_51(float sum, const float* x) {
    // Adds elements 204 to 207 of a block of 256; written out in full.
    sum += x[204];
    sum += x[205];
    sum += x[206];
    sum += x[207];
    return sum;
}

static inline float step_52(float sum, const float* x) {
    // Adds elements 208 to 211 of a block of 256; written out in full.
    sum += x[208];
    sum += x[209];
    sum += x[210];
    sum += x[211];
    return sum;
}

static inline float step_53(float sum, const float* x) {
    // Adds elements 212 to 215 of a block of 256; written out in full.
    sum += x[212];
    sum += x[213];
    sum += x[214];
    sum += x[215];
    return sum;
}

static inline float step_54(float sum, const float* x) {
    // Adds elements 216 to 219 of a block of 256; written out in full.
    sum += x[216];
    sum += x[217];
    sum += x[218];
    sum += x[219];
    return sum;
}

static inline float step_55(float sum, const float* x) {
    // Adds elements 220 to 223 of a block of 256; written out in full.
    sum += x[220];
    sum += x[221];
    sum += x[222];
    sum += x[223];
    return sum;
}

static inline float step_56(float sum, const float* x) {
    // Adds elements 224 to 227 of a block of 256; written out in full.
    sum += x[224];
    sum += x[225];
    sum += x[226];
    sum += x[227];
    return sum;
}

static inline float step_57(float sum, const float* x) {
    // Adds elements 228 to 231 of a block of 256; written out in full.
    sum += x[228];
    sum += x[229];
    sum += x[230];
    sum += x[231];
    return sum;
}

static inline float step_58(float sum, const float* x) {
    // Adds elements 232 to 235 of a block of 256; written out in full.
    sum += x[232];
    sum += x[233];
    sum += x[234];
    sum += x[235];
    return sum;
}

static inline float step_59(float sum, const float* x) {
    // Adds elements 236 to 239 of a block of 256; written out in full.
    sum += x[236];
    sum += x[237];
    sum += x[238];
    sum += x[239];
    return sum;
}

static inline float step_60(float sum, const float* x) {
    // Adds elements 240 to 243 of a block of 256; written out in full.
    sum += x[240];
    sum += x[241];
    sum += x[242];
    sum += x[243];
    return sum;
}

static inline float step_61(float sum, const float* x) {
    // Adds elements 244 to 247 of a block of 256; written out in full.
    sum += x[244];
    sum += x[245];
    sum += x[246];
    sum += x[247];
    return sum;
}

static inline float step_62(float sum, const float* x) {
    // Adds elements 248 to 251 of a block of 256; written out in full.
    sum += x[248];
    sum += x[249];
    sum += x[250];
    sum += x[251];
    return sum;
}

static inline float step_63(float sum, const float* x) {
    // Adds elements 252 to 255 of a block of 256; written out in full.
    sum += x[252];
    sum += x[253];
    sum += x[254];
    sum += x[255];
    return sum;
}

static float added(const float* x, int64_t count) {
    float sum = 0;
    int64_t c = 0;
    for (; c + 256 <= count; c += 256) {
        sum = step_0(sum, x + c);
        sum = step_1(sum, x + c);
        sum = step_2(sum, x + c);
        sum = step_3(sum, x + c);
        sum = step_4(sum, x + c);
        sum = step_5(sum, x + c);
        sum = step_6(sum, x + c);
        sum = step_7(sum, x + c);
        sum = step_8(sum, x + c);
        sum = step_9(sum, x + c);
        sum = step_10(sum, x + c);
        sum = step_11(sum, x + c);
        sum = step_12(sum, x + c);
        sum = step_13(sum, x + c);
        sum = step_14(sum, x + c);
        sum = step_15(sum, x + c);
        sum = step_16(sum, x + c);
        sum = step_17(sum, x + c);
        sum = step_18(sum, x + c);
        sum = step_19(sum, x + c);
        sum = step_20(sum, x + c);
        sum = step_21(sum, x + c);
        sum = step_22(sum, x + c);
        sum = step_23(sum, x + c);
        sum = step_24(sum, x + c);
        sum = step_25(sum, x + c);
        sum = step_26(sum, x + c);
        sum = step_27(sum, x + c);
        sum = step_28(sum, x + c);
        sum = step_29(sum, x + c);
        sum = step_30(sum, x + c);
        sum = step_31(sum, x + c);
        sum = step_32(sum, x + c);
        sum = step_33(sum, x + c);
        sum = step_34(sum, x + c);
        sum = step_35(sum, x + c);
        sum = step_36(sum, x + c);
        sum = step_37(sum, x + c);
        sum = step_38(sum, x + c);
        sum = step_39(sum, x + c);
        sum = step_40(sum, x + c);
        sum = step_41(sum, x + c);
        sum = step_42(sum, x + c);
        sum = step_43(sum, x + c);
        sum = step_44(sum, x + c);
        sum = step_45(sum, x + c);
        sum = step_46(sum, x + c);
        sum = step_47(sum, x + c);
        sum = step_48(sum, x + c);
        sum = step_49(sum, x + c);
        sum = step_50(sum, x + c);
        sum = step_51(sum, x + c);
        sum = step_52(sum, x + c);
        sum = step_53(sum, x + c);
        sum = step_54(sum, x + c);
        sum = step_55(sum, x + c);
        sum = step_56(sum, x + c);
        sum = step_57(sum, x + c);
        sum = step_58(sum, x + c);
        sum = step_59(sum, x + c);
        sum = step_60(sum, x + c);
        sum = step_61(sum, x + c);
        sum = step_62(sum, x + c);
        sum = step_63(sum, x + c);
    }
    for (; c < count; ++c) sum += x[c];
    return sum;
}

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    const int64_t cols = x_shape[1];
    for (int64_t r = 0; r < x_shape[0]; ++r) {
        const float* row = x + r * cols;
        float *to = out + r * cols, most = row[0];
        for (int64_t c = 1; c < cols; ++c) most = std::max(most, row[c]);
        for (int64_t c = 0; c < cols; ++c) to[c] = std::exp(row[c] - most);
        const float sum = added(to, cols);
        for (int64_t c = 0; c < cols; ++c) to[c] /= sum;
    }
}
