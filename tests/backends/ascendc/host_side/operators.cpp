// One operator that works, and one per rule of the host side that is broken.
#include "register/op_def_registry.h"
#include "tiling.h"
#include "tiling/platform/platform_ascendc.h"

namespace optiling {

static ge::graphStatus Saved(gert::TilingContext* context, CopyTilingData& tiling) {
  auto* raw = context->GetRawTilingData();
  tiling.SaveToBuffer(raw->GetData(), raw->GetCapacity());
  raw->SetDataSize(tiling.GetDataSize());
  context->SetBlockDim(2);
  return ge::GRAPH_SUCCESS;
}

static ge::graphStatus Copy(gert::TilingContext* context) {
  CopyTilingData tiling;
  const uint16_t list[3] = {7, 8, 9};
  const gert::RuntimeAttrs* attributes = context->GetAttrs();
  tiling.set_first(static_cast<uint8_t>(context->GetInputShape(0)->GetStorageShape().GetDim(0)));
  tiling.set_number(*attributes->GetFloat(1));
  tiling.set_list(list);
  tiling.inner.set_small(static_cast<uint8_t>(*attributes->GetInt(0)));
  tiling.inner.set_large(platform_ascendc::PlatformAscendC(context->GetPlatformInfo()).GetCoreNumAiv());
  tiling.set_last(*attributes->GetAttrPointer<bool>(2) ? -1 : 1);
  context->SetTilingKey(5);
  context->GetWorkspaceSizes(1)[0] = 4096;
  return Saved(context, tiling);
}

static ge::graphStatus Plain(gert::TilingContext* context) {
  CopyTilingData tiling;
  return Saved(context, tiling);
}

static ge::graphStatus Fail(gert::TilingContext*) { return ge::GRAPH_FAILED; }

static ge::graphStatus NoBlocks(gert::TilingContext* context) {
  CopyTilingData tiling;
  context->GetRawTilingData()->SetDataSize(0);
  return ge::GRAPH_SUCCESS;
}

static ge::graphStatus ManyBlocks(gert::TilingContext* context) {
  context->SetBlockDim(65536);
  return ge::GRAPH_SUCCESS;
}

static ge::graphStatus NoSize(gert::TilingContext* context) {
  CopyTilingData tiling;
  tiling.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
  context->SetBlockDim(1);
  return ge::GRAPH_SUCCESS;
}

static ge::graphStatus OddSize(gert::TilingContext* context) {
  NoSize(context);
  context->GetRawTilingData()->SetDataSize(12);
  return ge::GRAPH_SUCCESS;
}

static ge::graphStatus Overflow(gert::TilingContext* context) {
  CopyTilingData tiling;
  tiling.SaveToBuffer(context->GetRawTilingData()->GetData(), 8);
  return Saved(context, tiling);
}

static ge::graphStatus Null(gert::TilingContext* context) {
  context->SetBlockDim(static_cast<uint32_t>(context->GetInputShape(3)->GetStorageShape().GetDim(0)));
  return ge::GRAPH_SUCCESS;
}

static ge::graphStatus AskedNull(gert::TilingContext* context) {
  return context->GetInputShape(3) == nullptr ? Plain(context) : ge::GRAPH_FAILED;
}

static ge::graphStatus Dimension(gert::TilingContext* context) {
  context->SetBlockDim(static_cast<uint32_t>(context->GetInputShape(0)->GetStorageShape().GetDim(4)));
  return Plain(context);
}

struct Parsed {
  uint32_t cores = 0;
};
static ge::graphStatus Parse(gert::TilingParseContext* context) {
  context->GetCompiledInfo<Parsed>()->cores = platform_ascendc::PlatformAscendC(context->GetPlatformInfo()).GetCoreNumAic();
  return ge::GRAPH_SUCCESS;
}
static ge::graphStatus WithParsed(gert::TilingContext* context) {
  CopyTilingData tiling;
  tiling.set_number(static_cast<float>(reinterpret_cast<const Parsed*>(context->GetCompileInfo())->cores));
  return Saved(context, tiling);
}
static ge::graphStatus WithValues(gert::TilingContext* context) {
  CopyTilingData tiling;
  const float* values = context->GetInputTensor(0)->GetData<float>();
  tiling.set_number(values ? values[5] : -1.0f);
  return Saved(context, tiling);
}
// The fields are in the buffer of the context from the beginning: nothing is saved.
static ge::graphStatus Placed(gert::TilingContext* context) {
  CopyTilingData tiling;
  tiling.SetDataPtr(context->GetRawTilingData()->GetData());
  tiling.set_number(6.5f);
  tiling.inner.set_small(3);
  context->GetRawTilingData()->SetDataSize(tiling.GetDataSize());
  context->SetBlockDim(1);
  return ge::GRAPH_SUCCESS;
}
IMPL_OP_OPTILING(ValuesCustom).Tiling(WithValues).TilingInputsDataDependency({0});
IMPL_OP_OPTILING(NoValuesCustom).Tiling(WithValues);
IMPL_OP_OPTILING(ParsedCustom).Tiling(WithParsed).TilingParse<Parsed>(Parse);

}  // namespace optiling

namespace ops {

static void Describe(OpDef& op, const char* soc = "ascend910b") {
  op.Input("x").ParamType(REQUIRED).DataType({ge::DT_FLOAT, ge::DT_FLOAT16}).Format({ge::FORMAT_ND, ge::FORMAT_ND}).AutoContiguous();
  op.Output("y").ParamType(REQUIRED).DataType({ge::DT_FLOAT, ge::DT_FLOAT16}).Format({ge::FORMAT_ND, ge::FORMAT_ND});
  op.AICore().AddConfig(soc);
}

class CopyCustom : public OpDef {
 public:
  explicit CopyCustom(const char* name) : OpDef(name) {
    Describe(*this);
    this->Attr("count").AttrType(REQUIRED).Int();
    this->Attr("scale").AttrType(OPTIONAL).Float(1.5);
    this->Attr("flag").AttrType(OPTIONAL).Bool(false);
    this->AICore().SetTiling(optiling::Copy);
  }
};
OP_ADD(CopyCustom);

#define BROKEN(type, function)                                   \
  class type : public OpDef {                                    \
   public:                                                       \
    explicit type(const char* name) : OpDef(name) {              \
      Describe(*this);                                           \
      this->AICore().SetTiling(optiling::function);              \
    }                                                            \
  };                                                             \
  OP_ADD(type)
BROKEN(PlainCustom, Plain);
BROKEN(FailCustom, Fail);
BROKEN(NoBlocksCustom, NoBlocks);
BROKEN(ManyBlocksCustom, ManyBlocks);
BROKEN(NoSizeCustom, NoSize);
BROKEN(OddSizeCustom, OddSize);
BROKEN(OverflowCustom, Overflow);
BROKEN(NullCustom, Null);
BROKEN(AskedNullCustom, AskedNull);
BROKEN(DimensionCustom, Dimension);
BROKEN(PlacedCustom, Placed);

class ParsedCustom : public OpDef {
 public:
  explicit ParsedCustom(const char* name) : OpDef(name) { Describe(*this); }
};
OP_ADD(ParsedCustom);

class ValuesCustom : public OpDef {
 public:
  explicit ValuesCustom(const char* name) : OpDef(name) { Describe(*this); }
};
OP_ADD(ValuesCustom);

class NoValuesCustom : public OpDef {
 public:
  explicit NoValuesCustom(const char* name) : OpDef(name) { Describe(*this); }
};
OP_ADD(NoValuesCustom);

class NoTilingCustom : public OpDef {
 public:
  explicit NoTilingCustom(const char* name) : OpDef(name) { Describe(*this); }
};
OP_ADD(NoTilingCustom);

class OtherChipCustom : public OpDef {
 public:
  explicit OtherChipCustom(const char* name) : OpDef(name) {
    Describe(*this, "ascend310p");
    this->AICore().SetTiling(optiling::Plain);
  }
};
OP_ADD(OtherChipCustom);

class TwoInputsCustom : public OpDef {
 public:
  explicit TwoInputsCustom(const char* name) : OpDef(name) {
    Describe(*this);
    this->Input("bias").ParamType(OPTIONAL).DataType({ge::DT_FLOAT, ge::DT_FLOAT16}).Format({ge::FORMAT_ND, ge::FORMAT_ND});
    this->AICore().SetTiling(optiling::Plain);
  }
};
OP_ADD(TwoInputsCustom);

}  // namespace ops
