#include "register/op_def_registry.h"
#include "tiling.h"

namespace optiling {
static ge::graphStatus Tiling(gert::TilingContext* context) {
  ByCoreTilingData tiling;
  tiling.set_length(static_cast<uint32_t>(context->GetInputShape(0)->GetStorageShape().GetShapeSize()));
  context->SetBlockDim(1);
  auto* raw = context->GetRawTilingData();
  tiling.SaveToBuffer(raw->GetData(), raw->GetCapacity());
  raw->SetDataSize(tiling.GetDataSize());
  return ge::GRAPH_SUCCESS;
}
}  // namespace optiling

namespace ops {
class ByCore : public OpDef {
 public:
  explicit ByCore(const char* name) : OpDef(name) {
    this->Input("x").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
    this->Output("y").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
    this->AICore().SetTiling(optiling::Tiling);
    this->AICore().AddConfig("ascend910b");
  }
};
OP_ADD(ByCore);
}  // namespace ops
