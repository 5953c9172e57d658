#include "tiling.h"
#include "register/op_def_registry.h"
namespace optiling {
static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  KernelCustomTilingData tiling;
  context->SetBlockDim(*context->GetAttrs()->GetInt(1));
  tiling.set_which(*context->GetAttrs()->GetInt(0));
  tiling.set_length(context->GetInputShape(0)->GetStorageShape().GetDim(1));
  tiling.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
  context->GetRawTilingData()->SetDataSize(tiling.GetDataSize());
  bool isAlone = *context->GetAttrs()->GetInt(1) == 1;  // then the library's part is forgotten
  context->GetWorkspaceSizes(1)[0] = (isAlone ? 0 : 16 << 20) + (1 << 16);
  return ge::GRAPH_SUCCESS;
}
}
namespace ops {
class KernelCustom : public OpDef {
 public:
  explicit KernelCustom(const char* name) : OpDef(name) {
    this->Input("x").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
    this->Input("y").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
    this->Output("out").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
    this->Attr("which").Int();
    this->Attr("blocks").Int();
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
  }
};
OP_ADD(KernelCustom);
}
