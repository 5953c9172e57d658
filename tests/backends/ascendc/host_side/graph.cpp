// Attributes of every kind, and functions on ge::Operator, which only a graph calls.
#include "graph/operator_reg.h"
#include "register/op_def_registry.h"
#include "tiling.h"

namespace optiling {

// The sum of all attributes.
static ge::graphStatus Lists(gert::TilingContext* context) {
  const gert::RuntimeAttrs* attributes = context->GetAttrs();
  float total = std::string(attributes->GetStr(0)) == "sum" ? 1000.0f : 0.0f;
  for (size_t i = 0; i < attributes->GetListInt(1)->GetSize(); i++) total += float(attributes->GetListInt(1)->GetData()[i]);
  const auto* numbers = attributes->GetAttrPointer<gert::ContinuousVector>(2);
  for (size_t i = 0; i < numbers->GetSize(); i++) total += static_cast<const float*>(numbers->GetData())[i];
  const auto* flags = attributes->GetAttrPointer<gert::TypedContinuousVector<bool>>(3);
  for (size_t i = 0; i < flags->GetSize(); i++) total += flags->GetData()[i] ? 100.0f : 0.0f;
  const gert::ContinuousVectorVector* lists = attributes->GetListListInt(4);
  for (size_t i = 0; i < lists->GetSize(); i++)
    for (size_t j = 0; j < lists->Get(i)->GetSize(); j++) total += float(static_cast<const int64_t*>(lists->Get(i)->GetData())[j]);
  CopyTilingData tiling;
  tiling.set_number(total);
  auto* raw = context->GetRawTilingData();
  tiling.SaveToBuffer(raw->GetData(), raw->GetCapacity());
  raw->SetDataSize(tiling.GetDataSize());
  context->SetBlockDim(1);
  return ge::GRAPH_SUCCESS;
}

}  // namespace optiling

namespace ops {

static ge::graphStatus CheckSupported(const ge::Operator& op, ge::AscendString& result) {
  std::string mode;
  std::vector<int64_t> steps;
  std::vector<float> weights;
  bool isKnown = op.GetAttr("mode", mode) == ge::GRAPH_SUCCESS && op.GetAttr("steps", steps) == ge::GRAPH_SUCCESS &&
                 op.GetAttr("weights", weights) == ge::GRAPH_SUCCESS && op.GetAttr("steps", weights) == ge::GRAPH_FAILED &&
                 op.GetAttr("absent", mode) == ge::GRAPH_FAILED;
  bool isSupported = isKnown && mode == "sum" && steps.size() == 2 && op.GetInputDescByName("x").GetShape().GetDimNum() == 2 &&
                     op.GetInputDesc(0).GetDataType() == ge::DT_FLOAT;
  result = ge::AscendString(isSupported ? R"({"isSupported": "True"})" : R"({"isSupported": "False", "reason": "only two steps"})");
  return isSupported ? ge::GRAPH_SUCCESS : ge::GRAPH_FAILED;
}

class AttributesCustom : public OpDef {
 public:
  explicit AttributesCustom(const char* name) : OpDef(name) {
    this->Input("x").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
    this->Output("y").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
    this->Attr("mode").AttrType(OPTIONAL).String("none");
    this->Attr("steps").AttrType(OPTIONAL).ListInt({1});
    this->Attr("weights").AttrType(OPTIONAL).ListFloat({0.5f, 0.25f});
    this->Attr("flags").AttrType(OPTIONAL).ListBool({true, false, true});
    this->Attr("pairs").AttrType(OPTIONAL).ListListInt({{10, 20}, {30}});
    this->AICore().SetTiling(optiling::Lists).SetCheckSupport(CheckSupported);
    this->AICore().AddConfig("ascend910b");
  }
};
OP_ADD(AttributesCustom);

}  // namespace ops

namespace ge {

// The output has as many elements as the first size of the input, twice.
IMPLEMT_COMMON_INFERFUNC(InferAttributes) {
  TensorDesc output = op.GetOutputDesc("y");
  output.SetShape(Shape({2 * op.GetInputDesc("x").GetShape().GetDim(0)}));
  output.SetDataType(op.GetInputDesc(0).GetDataType());
  return op.UpdateOutputDesc("y", output);
}
IMPLEMT_VERIFIER(AttributesCustom, VerifyAttributes) { return op.GetInputsSize() == 1 ? GRAPH_SUCCESS : GRAPH_FAILED; }
COMMON_INFER_FUNC_REG(AttributesCustom, InferAttributes);
VERIFY_FUNC_REG(AttributesCustom, VerifyAttributes);

}  // namespace ge
