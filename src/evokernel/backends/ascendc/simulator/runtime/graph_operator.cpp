// Functions of an operator that only graphs use. aclnn does not call them, so what they reject is noted and the call continues.
#include "diagnose.h"
#include "registry.h"
#include "graph/utils/type_utils.h"
#include "register/op_def.h"

namespace simulator {

namespace {

ge::TensorDesc description(const gert::Tensor& tensor) {
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < tensor.GetStorageShape().GetDimNum(); i++) sizes.push_back(tensor.GetStorageShape().GetDim(i));
  return ge::TensorDesc(ge::Shape(sizes), tensor.GetStorageFormat(), tensor.GetDataType());
}

// The tensors of a list have the name of their parameter and a number.
template <class Add>
void addTensors(const ops::Entries<ops::OpParamDef>& parameters, const std::vector<gert::AnchorInstanceInfo>& lists, Add add) {
  for (size_t i = 0; i < parameters.size() && i < lists.size(); i++) {
    bool isList = parameters[i]->simulatorOption() == ops::DYNAMIC;
    for (size_t j = 0; j < lists[i].GetInstanceNum(); j++)
      add(parameters[i]->simulatorName() + (isList ? std::to_string(j) : ""), lists[i].GetInstanceStart() + j);
  }
}

ge::Operator graphOperator(const ops::OpDef& op, const Node& node) {
  ge::Operator made(op.simulatorType().c_str());
  addTensors(op.simulatorInputs(), node.inputLists, [&](const std::string& name, size_t index) {
    if (!node.present[index]) return;
    const gert::Tensor& tensor = node.inputs[index];
    made.simulatorInput(name, description(tensor));
    if (tensor.GetAddr()) made.simulatorValues(static_cast<const uint8_t*>(tensor.GetAddr()), tensor.GetSize());
  });
  addTensors(op.simulatorOutputs(), node.outputLists,
             [&](const std::string& name, size_t index) { made.simulatorOutput(name, description(node.outputs[index])); });
  for (size_t i = 0; i < op.simulatorAttributes().size(); i++)
    made.simulatorAttribute(op.simulatorAttributes()[i]->simulatorName(), *node.attributes.simulatorAt(i));
  return made;
}

std::string joined(const std::vector<int64_t>& sizes) {
  std::string text;
  for (int64_t size : sizes) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

void checkSupport(const ops::OpDef& op, const ge::Operator& described, SupportFunction support) {
  ge::AscendString answer;
  bool isRefused = support(described, answer) != ge::GRAPH_SUCCESS;
  std::string text = answer.GetString();
  if (isRefused || text.find("\"False\"") != std::string::npos)
    addNote("W-OP-GRAPH", "the function of SetCheckSupport rejects this call of %s: %s", op.simulatorType().c_str(), text.c_str());
}

void compareOutputs(const ops::OpDef& op, const ge::Operator& inferred, const ge::Operator& actual) {
  for (size_t i = 0; i < actual.GetOutputsSize(); i++) {
    ge::TensorDesc found = inferred.GetOutputDesc(i), wanted = actual.GetOutputDesc(i);
    std::vector<int64_t> sizes = found.GetShape().GetDims();
    bool isUnknown = false;
    for (int64_t size : sizes) isUnknown = isUnknown || size < 0;
    if (!isUnknown && sizes != wanted.GetShape().GetDims())
      addNote("W-OP-GRAPH", "the inference function of %s gives output %zu the shape %s, but the call passes %s", op.simulatorType().c_str(), i,
              joined(sizes).c_str(), joined(wanted.GetShape().GetDims()).c_str());
    if (found.GetDataType() != wanted.GetDataType())
      addNote("W-OP-GRAPH", "the inference function of %s gives output %zu the type %s, but the call passes %s", op.simulatorType().c_str(), i,
              ge::simulatorTypeName(found.GetDataType()), ge::simulatorTypeName(wanted.GetDataType()));
  }
}

}  // namespace

void callGraphFunctions(const ops::OpDef& op, const Node& node) {
  HostFunctions functions = implementation(op.simulatorType().c_str());
  if (!functions.support) functions.support = op.simulatorAICore().simulatorFunctions().support;
  if (!functions.support && !functions.verifyGraph && !functions.inferGraph) return;
  const ge::Operator actual = graphOperator(op, node);
  if (functions.support) checkSupport(op, actual, functions.support);
  ge::Operator changed = actual;
  if (functions.verifyGraph && functions.verifyGraph(changed) != ge::GRAPH_SUCCESS)
    addNote("W-OP-GRAPH", "the verification function of %s rejects this call", op.simulatorType().c_str());
  if (!functions.inferGraph) return;
  for (size_t i = 0; i < changed.GetOutputsSize(); i++) changed.UpdateOutputDesc(i, ge::TensorDesc());
  if (functions.inferGraph(changed) != ge::GRAPH_SUCCESS)
    addNote("W-OP-GRAPH", "the inference function of %s returns failure", op.simulatorType().c_str());
  else
    compareOutputs(op, changed, actual);
}

}  // namespace simulator
