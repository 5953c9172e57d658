#include "gated_scale_custom_tiling.h"
#include "register/op_def_registry.h"
namespace optiling {
static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  GatedScaleCustomTilingData tiling;
  const gert::Shape shape = context->GetInputShape(0)->GetStorageShape();
  uint32_t rows = shape.GetDim(0), columns = shape.GetDim(1);
  uint32_t cores = 48;
  uint32_t share = (rows + cores - 1) / cores;
  context->SetBlockDim((rows + share - 1) / share);
  tiling.set_rows(rows);
  tiling.set_columns(columns);
  tiling.set_share(share);
  tiling.set_slope(*context->GetAttrs()->GetFloat(1));
  tiling.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
  context->GetRawTilingData()->SetDataSize(tiling.GetDataSize());
  context->GetWorkspaceSizes(1)[0] = 0;
  return ge::GRAPH_SUCCESS;
}
}
namespace ops {
class GatedScaleCustom : public OpDef {
 public:
  explicit GatedScaleCustom(const char* name) : OpDef(name) {
    this->Input("x").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
    this->Input("scale").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
    this->Input("shift").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
    this->Output("out").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
    this->Attr("columns").Int();
    this->Attr("slope").Float();
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
  }
};
OP_ADD(GatedScaleCustom);
}
