// An operator on lists of tensors, tiled by the one of two classes that is for it.
#include "register/op_def_registry.h"
#include "tiling.h"
#include "tiling/tiling_templates_registry.h"

namespace optiling {

class ListTiling : public TilingBaseClass {
 public:
  explicit ListTiling(gert::TilingContext* context) : TilingBaseClass(context) {}

 protected:
  bool IsCapable() override { return true; }
  ge::graphStatus GetPlatformInfo() override { return ge::GRAPH_SUCCESS; }
  ge::graphStatus GetShapeAttrsInfo() override {
    auto* list = context_->GetComputeNodeInfo()->GetInputInstanceInfo(0);
    tiling_.set_count(static_cast<uint32_t>(list->GetInstanceNum()));
    uint32_t found = 0;
    while (context_->GetDynamicInputShape(0, found)) found++;
    return found == list->GetInstanceNum() ? ge::GRAPH_SUCCESS : ge::GRAPH_FAILED;
  }
  ge::graphStatus DoOpTiling() override {
    float factor = *context_->GetAttrs()->GetFloat(0);
    if (context_->GetOptionalInputDesc(1)) factor = -factor;
    tiling_.set_factor(factor);
    context_->SetBlockDim(1);
    return ge::GRAPH_SUCCESS;
  }
  ge::graphStatus DoLibApiTiling() override { return ge::GRAPH_SUCCESS; }
  uint64_t GetTilingKey() const override { return 7; }
  ge::graphStatus GetWorkspaceSize() override { return ge::GRAPH_SUCCESS; }
  ge::graphStatus PostTiling() override {
    auto* raw = context_->GetRawTilingData();
    tiling_.SaveToBuffer(raw->GetData(), raw->GetCapacity());
    raw->SetDataSize(tiling_.GetDataSize());
    return ge::GRAPH_SUCCESS;
  }
  ListTilingData tiling_;
};

class NotForThis : public ListTiling {
 public:
  explicit NotForThis(gert::TilingContext* context) : ListTiling(context) {}

 protected:
  bool IsCapable() override { return false; }
};

REGISTER_TILING_TEMPLATE("ScaleList", ListTiling, 20);
REGISTER_TILING_TEMPLATE("ScaleList", NotForThis, 10);

static ge::graphStatus Tiling(gert::TilingContext* context) { return TilingRegistry::GetInstance().DoTilingImpl(context); }

}  // namespace optiling

namespace ops {

class ScaleList : public OpDef {
 public:
  explicit ScaleList(const char* name) : OpDef(name) {
    this->Input("x").ParamType(DYNAMIC).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
    this->Input("negated").ParamType(OPTIONAL).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
    this->Output("y").ParamType(DYNAMIC).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
    this->Attr("factor").AttrType(OPTIONAL).Float(2.0);
    this->AICore().SetTiling(optiling::Tiling);
    this->AICore().AddConfig("ascend910b");
  }
};
OP_ADD(ScaleList);

class Pairs : public OpDef {
 public:
  explicit Pairs(const char* name) : OpDef(name) {
    this->Input("one").ParamType(DYNAMIC).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
    this->Input("other").ParamType(DYNAMIC).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
    this->Output("y").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
    this->AICore().SetTiling(optiling::Tiling);
    this->AICore().AddConfig("ascend910b");
  }
};
OP_ADD(Pairs);

}  // namespace ops
