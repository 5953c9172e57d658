// An operator that changes the tensors of a list, with a number as an input and attributes of every kind.
#include "register/op_def_registry.h"
#include "tiling.h"

namespace optiling {

static ge::graphStatus Tiling(gert::TilingContext* context) {
  const gert::RuntimeAttrs* attributes = context->GetAttrs();
  BlendTilingData tiling;
  float shift = attributes->GetListFloat(1)->GetData()[attributes->GetListFloat(1)->GetSize() - 1];
  int64_t steps = attributes->GetListInt(2)->GetData()[attributes->GetListInt(2)->GetSize() - 1];
  tiling.set_sign(std::string(attributes->GetStr(0)) == "minus" ? -1.0f : 1.0f);
  tiling.set_offset(shift + float(steps));
  context->SetBlockDim(1);
  auto* raw = context->GetRawTilingData();
  tiling.SaveToBuffer(raw->GetData(), raw->GetCapacity());
  raw->SetDataSize(tiling.GetDataSize());
  return ge::GRAPH_SUCCESS;
}

}  // namespace optiling

namespace ops {

class BlendList : public OpDef {
 public:
  explicit BlendList(const char* name) : OpDef(name) {
    this->Input("x").ParamType(DYNAMIC).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
    this->Input("factors").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND}).ScalarList();
    this->Output("x").ParamType(DYNAMIC).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
    this->Attr("mode").AttrType(REQUIRED).String();
    this->Attr("shift").AttrType(REQUIRED).ListFloat();
    this->Attr("steps").AttrType(REQUIRED).ListInt();
    this->AICore().SetTiling(optiling::Tiling);
    this->AICore().AddConfig("ascend910b");
  }
};
OP_ADD(BlendList);

}  // namespace ops
