// The host side: checks arguments against the operator's definition, calls its tiling function and launches the kernel.
#include <cstdio>
#include <cstring>
#include <map>

#include "diagnose.h"
#include "launch.h"
#include "parts.h"
#include "registry.h"
#include "tensor_memory.h"
#include "register/op_def.h"
#include "graph/utils/type_utils.h"

namespace simulator {

namespace {

constexpr uint32_t MOST_BLOCKS = 65535;
constexpr uint64_t MOST_VALUES = 4096;  // bytes of an input that host code may read, such as shapes
const char* const SOC = "ascend910b";

std::map<std::string, MakeOperator>& makers() {
  static std::map<std::string, MakeOperator> all;
  return all;
}

std::map<std::string, HostFunctions>& implementations() {
  static std::map<std::string, HostFunctions> all;
  return all;
}

// Actions of the current tiling function, for messages.
struct Watch {
  char nullAnswer[160] = "";
  size_t saved = 0;
  std::string savedBy;
};
Watch watch;

// Tiling data whose fields are in a buffer of the context.
struct PlacedTiling {
  void* buffer;
  size_t bytes;
  std::string name;
};
std::map<const void*, PlacedTiling> placedTilings;

void storePlaced(const void* object, const PlacedTiling& placed) {
  memcpy(placed.buffer, object, placed.bytes);
  watch.saved = placed.bytes;
  watch.savedBy = placed.name;
}

template <class Entries>
std::string names(const Entries& entries) {
  std::string list;
  for (const auto& one : entries) list += (list.empty() ? "" : ", ") + one->simulatorName();
  return entries.empty() ? "none" : std::to_string(entries.size()) + " (" + list + ")";
}

ops::OpDef& definition(const std::string& type) {
  static std::map<std::string, std::unique_ptr<ops::OpDef>> made;
  auto found = made.find(type);
  if (found != made.end()) return *found->second;
  auto maker = makers().find(type);
  if (maker == makers().end()) {
    std::string known;
    for (const auto& one : makers()) known += (known.empty() ? "" : ", ") + one.first;
    endRun("E-OP-NAME", "the operator '%s' is not defined: OP_ADD names %s", type.c_str(), known.empty() ? "none" : known.c_str());
  }
  return *(made[type] = std::unique_ptr<ops::OpDef>(maker->second(type.c_str())));
}

const ops::OpAICoreConfig& configuration(const ops::OpDef& op) {
  for (const ops::OpAICoreConfig& config : op.simulatorAICore().simulatorConfigs()) {
    if (config.simulatorName() == SOC) return config;
  }
  endRun("E-OP-SOC", "%s has no configuration for this chip: write this->AICore().AddConfig(\"%s\")", op.simulatorType().c_str(), SOC);
}

// A chip configuration may override the element types of a parameter.
const ops::OpParamDef& inForce(const ops::OpParamDef& general, const ops::Entries<ops::OpParamDef>& special) {
  for (const auto& one : special) {
    if (one->simulatorName() == general.simulatorName()) return *one;
  }
  return general;
}

using Operands = std::vector<std::vector<Operand>>;  // the operands of each parameter

[[noreturn]] void wrongCount(const ops::OpDef& op, size_t given, const char* what, const std::string& defined) {
  endRun("E-OP-ARGS", "%s is called with %zu %s, but its OpDef has %s", op.simulatorType().c_str(), given, what, defined.c_str());
}

// Assigns operands to parameters. Lists have equal lengths; trailing optional operands may be omitted.
Operands grouped(const ops::OpDef& op, const ops::Entries<ops::OpParamDef>& parameters, const std::vector<Operand>& operands, const char* what) {
  size_t lists = 0, least = parameters.size();
  for (const auto& one : parameters) lists += one->simulatorOption() == ops::DYNAMIC;
  while (least && parameters[least - 1]->simulatorOption() == ops::OPTIONAL) least--;
  size_t single = parameters.size() - lists, each = 1;
  if (lists && operands.size() > parameters.size()) {
    each = (operands.size() - single) / lists;
    if ((operands.size() - single) % lists)
      endRun("E-OP-DYNAMIC", "%s has %zu lists among its %s, but %zu tensors cannot be split into lists of equal length", op.simulatorType().c_str(), lists, what,
           operands.size() - single);
  } else if (operands.size() > parameters.size() || operands.size() < least) {
    wrongCount(op, operands.size(), what, names(parameters));
  }
  Operands found;
  size_t next = 0;
  for (const auto& one : parameters) {
    size_t count = one->simulatorOption() == ops::DYNAMIC ? each : 1;
    found.emplace_back();
    for (size_t i = 0; i < count; i++) found.back().push_back(next < operands.size() ? operands[next++] : Operand());
  }
  return found;
}

// The operands of EXEC_NPU_CMD: one for each parameter, a list for each list.
Operands splitLists(const std::vector<Operand>& operands) {
  Operands found;
  for (const Operand& one : operands) found.push_back(one.kind == Operand::TENSORS ? one.items : std::vector<Operand>{one});
  return found;
}

// An output that has the name of an input is the same tensor. An operator without outputs writes to its inputs.
bool isInPlace(const ops::OpDef& op, const ops::OpParamDef& input) {
  if (op.simulatorOutputs().empty()) return true;
  for (const auto& output : op.simulatorOutputs())
    if (output->simulatorName() == input.simulatorName()) return true;
  return false;
}

const ops::OpParamDef* sameInput(const ops::OpDef& op, const ops::OpParamDef& output, size_t& index) {
  for (index = 0; index < op.simulatorInputs().size(); index++)
    if (op.simulatorInputs()[index]->simulatorName() == output.simulatorName()) return op.simulatorInputs()[index].get();
  return nullptr;
}

// The outputs of EXEC_NPU_CMD: it does not pass those that are inputs too.
Operands completedOutputs(const ops::OpDef& op, const Operands& inputs, const std::vector<Operand>& given) {
  std::vector<Operand> separate = given;
  Operands outputs, passed = splitLists(separate);
  size_t next = 0, index = 0;
  for (const auto& output : op.simulatorOutputs()) outputs.push_back(sameInput(op, *output, index) ? inputs[index] : passed[next++]);
  return outputs;
}

size_t separateOutputs(const ops::OpDef& op) {
  size_t count = 0, index = 0;
  for (const auto& output : op.simulatorOutputs()) count += !sameInput(op, *output, index);
  return count;
}

bool isValue(const Operand& operand) {
  return operand.kind == Operand::INTEGER || operand.kind == Operand::NUMBER || operand.kind == Operand::BOOLEAN || operand.kind == Operand::INTEGERS ||
         operand.kind == Operand::NUMBERS;
}

// Whether the n-th types of the parameters are those of the tensors.
bool fitsColumn(const ops::Entries<ops::OpParamDef>& parameters, const Operands& given, size_t column) {
  for (size_t i = 0; i < given.size() && i < parameters.size(); i++) {
    const auto& types = parameters[i]->simulatorTypes();
    for (const Operand& operand : given[i])
      if (operand.kind == Operand::TENSOR && !(column < types.size() && types[column] == operand.type)) return false;
  }
  return true;
}

// The type of a value: that of the first column of DataType that fits the tensors.
ge::DataType typeOfValue(const ops::OpDef& op, const Operands& inputs, const Operands& outputs, size_t index) {
  const auto& types = op.simulatorInputs()[index]->simulatorTypes();
  for (size_t column = 0; column < types.size(); column++)
    if (fitsColumn(op.simulatorInputs(), inputs, column) && fitsColumn(op.simulatorOutputs(), outputs, column)) return types[column];
  return types.empty() ? ge::DT_FLOAT : types[0];
}

// aclnn takes numbers for inputs that the OpDef declares with Scalar(), ScalarList() or ValueDepend, and gives the kernel a tensor of them.
Operands withTensorsOfValues(const ops::OpDef& op, Operands inputs, const Operands& outputs, std::vector<std::shared_ptr<void>>& memory) {
  for (size_t i = 0; i < inputs.size(); i++) {
    if (inputs[i].size() != 1 || !isValue(inputs[i][0])) continue;
    const ops::OpParamDef& parameter = *op.simulatorInputs()[i];
    if (!parameter.simulatorTakesValues() && !parameter.simulatorNeedsValues())
      endRun("E-OP-ARGS", "input '%s' of %s is not a tensor: aclnn takes a number only if the OpDef declares it with Scalar(), ScalarList() or ValueDepend",
           parameter.simulatorName().c_str(), op.simulatorType().c_str());
    const Operand& given = inputs[i][0];
    std::vector<double> values = given.numbers;
    if (given.kind == Operand::INTEGERS) values.assign(given.shape.begin(), given.shape.end());
    if (given.kind == Operand::NUMBER) values = {given.number};
    if (given.kind == Operand::INTEGER || given.kind == Operand::BOOLEAN) values = {static_cast<double>(given.integer)};
    memory.emplace_back();
    inputs[i][0] = tensorOfValues(values, typeOfValue(op, inputs, outputs, i), memory.back());
  }
  return inputs;
}

// Trailing optional attributes may be omitted too.
std::vector<Operand> completed(const ops::OpDef& op, std::vector<Operand> attributes) {
  const auto& defined = op.simulatorAttributes();
  size_t given = attributes.size();
  while (attributes.size() < defined.size() && defined[attributes.size()]->simulatorIsOptional()) attributes.emplace_back();
  if (attributes.size() != defined.size()) wrongCount(op, given, "attributes", names(defined));
  return attributes;
}

std::string listed(const std::vector<ge::DataType>& types) {
  std::string list;
  for (ge::DataType type : types) list += std::string(list.empty() ? "" : ", ") + ge::simulatorTypeName(type);
  return list.empty() ? "none" : list;
}

void checkType(const ops::OpDef& op, const ops::OpParamDef& parameter, const char* role, ge::DataType type) {
  for (ge::DataType known : parameter.simulatorTypes()) {
    if (known == type) return;
  }
  endRun("E-OP-DTYPE", "%s '%s' of %s is %s, but its OpDef allows %s (aclnn 161002)", role, parameter.simulatorName().c_str(), op.simulatorType().c_str(),
       ge::simulatorTypeName(type), listed(parameter.simulatorTypes()).c_str());
}

// Element types are columns: the n-th entries of all inputs and outputs belong together.
void checkColumn(const ops::OpDef& op, const std::vector<std::pair<const ops::OpParamDef*, ge::DataType>>& used) {
  size_t columns = 0;
  for (const auto& one : used) columns = std::max(columns, one.first->simulatorTypes().size());
  for (size_t column = 0; column < columns; column++) {
    bool fits = true;
    for (const auto& one : used) {
      const auto& types = one.first->simulatorTypes();
      fits = fits && column < types.size() && types[column] == one.second;
    }
    if (fits) return;
  }
  std::string given;
  for (const auto& one : used) given += (given.empty() ? "" : ", ") + one.first->simulatorName() + " " + ge::simulatorTypeName(one.second);
  if (!used.empty()) endRun("E-OP-DTYPE", "no column of DataType in the OpDef of %s matches %s (aclnn 161002)", op.simulatorType().c_str(), given.c_str());
}

gert::Tensor described(const Operand& operand, bool withValues) {
  gert::Shape shape;
  for (int64_t size : operand.shape) shape.AppendDim(size);
  return gert::Tensor(shape, operand.type, withValues ? operand.data : nullptr);
}

uint64_t bytesOf(const Operand& operand) {
  int64_t count = ge::GetSizeByDataType(operand.type);
  for (int64_t size : operand.shape) count *= size;
  return static_cast<uint64_t>(count);
}

using Used = std::vector<std::pair<const ops::OpParamDef*, ge::DataType>>;

Buffer buffer(const Operand& operand, const std::string& name, bool writable) {
  return {operand.data, bytesOf(operand), name, writable, operand.shape};
}

void checkInput(const ops::OpDef& op, const ops::OpParamDef& parameter, const Operand& operand, bool needsValues) {
  const char* name = parameter.simulatorName().c_str();
  if (operand.kind == Operand::ABSENT && parameter.simulatorOption() != ops::OPTIONAL)
    endRun("E-OP-ARGS", "input '%s' of %s is required, but the call does not pass it (aclnn 161001)", name, op.simulatorType().c_str());
  if (operand.kind != Operand::ABSENT && operand.kind != Operand::TENSOR)
    endRun("E-OP-ARGS", "input '%s' of %s is not a tensor", name, op.simulatorType().c_str());
  if (operand.kind == Operand::TENSOR && needsValues && bytesOf(operand) > MOST_VALUES)
    endRun("E-OP-VALUES", "the host code reads the values of input '%s' of %s, %llu bytes, but may read at most %llu", name, op.simulatorType().c_str(),
         static_cast<unsigned long long>(bytesOf(operand)), static_cast<unsigned long long>(MOST_VALUES));
}

void checkListLength(const ops::OpDef& op, const ops::OpParamDef& parameter, size_t count) {
  if (count == 1 || parameter.simulatorOption() == ops::DYNAMIC) return;
  endRun("E-OP-ARGS", "'%s' of %s is one tensor, but the call passes a list of %zu: set ParamType(DYNAMIC) in its OpDef", parameter.simulatorName().c_str(),
       op.simulatorType().c_str(), count);
}

// An operator in place changes the tensor it gets, but the inputs of a call must keep their values.
void requireOwn(const ops::OpDef& op, const ops::OpParamDef& parameter, const Operand& operand) {
  for (const void* data : call().inputs)
    if (data == operand.data)
      endRun("E-GM-READONLY", "%s writes to its input '%s', which is an input of the model: pass a copy, as in x.clone()", op.simulatorType().c_str(),
           parameter.simulatorName().c_str());
}

void addInputs(const ops::OpDef& op, const Operands& inputs, bool isCommand, Node& node, Launch& launch, Used& used) {
  const auto& special = configuration(op).simulatorInputs();
  for (size_t i = 0; i < inputs.size(); i++) {
    const ops::OpParamDef& parameter = inForce(*op.simulatorInputs()[i], special);
    bool needsValues = parameter.simulatorNeedsValues() || implementation(op.simulatorType().c_str()).valueInputs.count(int32_t(i));
    bool writable = isInPlace(op, parameter) && isCommand;
    Buffer list{nullptr, 0, parameter.simulatorName(), writable};
    node.inputLists.emplace_back(node.inputs.size(), inputs[i].size());
    checkListLength(op, parameter, inputs[i].size());
    for (const Operand& operand : inputs[i]) {
      checkInput(op, parameter, operand, needsValues);
      bool present = operand.kind == Operand::TENSOR;
      if (present && writable) requireOwn(op, parameter, operand);
      if (present) {
        checkType(op, parameter, "input", operand.type);
        used.emplace_back(&parameter, operand.type);
        list.parts.push_back(buffer(operand, parameter.simulatorName(), writable));
        list.bytes += bytesOf(operand);
      }
      node.present.push_back(present);
      node.inputs.push_back(present ? described(operand, needsValues) : gert::Tensor());
    }
    bool isList = parameter.simulatorOption() == ops::DYNAMIC;
    launch.arguments.push_back(isList || list.parts.empty() ? list : list.parts[0]);
  }
}

void addOutputs(const ops::OpDef& op, const Operands& outputs, Node& node, Launch& launch, Used& used) {
  const auto& special = configuration(op).simulatorOutputs();
  for (size_t i = 0; i < outputs.size(); i++) {
    const ops::OpParamDef& parameter = inForce(*op.simulatorOutputs()[i], special);
    Buffer list{nullptr, 0, parameter.simulatorName(), true};
    node.outputLists.emplace_back(node.outputs.size(), outputs[i].size());
    checkListLength(op, parameter, outputs[i].size());
    for (const Operand& operand : outputs[i]) {
      if (operand.kind != Operand::TENSOR) endRun("E-OP-ARGS", "output '%s' of %s is not a tensor", parameter.simulatorName().c_str(), op.simulatorType().c_str());
      checkType(op, parameter, "output", operand.type);
      used.emplace_back(&parameter, operand.type);
      if (parameter.simulatorHasInitial()) clearOutput(operand.data, bytesOf(operand));
      node.outputs.push_back(described(operand, false));
      list.parts.push_back(buffer(operand, parameter.simulatorName(), true));
      list.bytes += bytesOf(operand);
    }
    launch.arguments.push_back(parameter.simulatorOption() == ops::DYNAMIC ? list : list.parts[0]);
  }
}

// The device passes a value with its C++ type: a float that is read as a double has a wrong value.
void checkAttributeType(const ops::OpDef& op, const ops::OpAttrDef& attribute, const Operand& operand) {
  using Value = gert::AttributeValue;
  const char* name = attribute.simulatorName().c_str();
  const char* type = op.simulatorType().c_str();
  Value::Kind kind = attribute.simulatorValue().kind;
  bool isNumber = operand.kind == Operand::NUMBER, isInteger = operand.kind == Operand::INTEGER || operand.kind == Operand::BOOLEAN;
  if (kind == Value::FLOAT && !isNumber && !isInteger) endRun("E-OP-ARGS", "attribute '%s' of %s is a float, but the call passes another type", name, type);
  if ((kind == Value::INT || kind == Value::BOOL) && !isInteger)
    endRun("E-OP-ARGS", "attribute '%s' of %s is %s, but the call passes another type", name, type, kind == Value::INT ? "an int" : "a bool");
  bool isText = operand.kind == Operand::TEXT, isIntegers = operand.kind == Operand::INTEGERS, isNumbers = operand.kind == Operand::NUMBERS;
  if (kind == Value::STRING && !isText) endRun("E-OP-ARGS", "attribute '%s' of %s is a string, but the call passes another type", name, type);
  if ((kind == Value::LIST_INT || kind == Value::LIST_BOOL) && !isIntegers)
    endRun("E-OP-ARGS", "attribute '%s' of %s is a list of integers, but the call passes another type", name, type);
  if (kind == Value::LIST_LIST_INT)
    endRun("E-OP-ARGS", "attribute '%s' of %s is a list of lists, which a call cannot pass: give it a default in the OpDef", name, type);
  if (kind == Value::LIST_FLOAT && !isNumbers && !isIntegers)
    endRun("E-OP-ARGS", "attribute '%s' of %s is a list of floats, but the call passes another type", name, type);
  if (!operand.bytes) return;
  if (kind == Value::FLOAT && !(isNumber && operand.bytes == sizeof(double)))
    reportViolation("E-BIND-TYPE", "attribute '%s' of %s is a float: aclnn takes a double, but the binding passes another type", name, type);
  if (kind == Value::INT && operand.bytes != sizeof(int64_t))
    reportViolation("E-BIND-TYPE", "attribute '%s' of %s is an int: aclnn takes an int64_t, but the binding passes %u bytes", name, type, operand.bytes);
}

void addAttributes(const ops::OpDef& op, const std::vector<Operand>& attributes, Node& node) {
  std::vector<gert::AttributeValue> values;
  for (size_t i = 0; i < attributes.size(); i++) {
    const ops::OpAttrDef& attribute = *op.simulatorAttributes()[i];
    const Operand& operand = attributes[i];
    gert::AttributeValue value = attribute.simulatorValue();
    if (operand.kind == Operand::ABSENT) {
      if (!attribute.simulatorIsOptional()) endRun("E-OP-ARGS", "attribute '%s' of %s is required, but the call does not pass it", attribute.simulatorName().c_str(), op.simulatorType().c_str());
    } else {
      checkAttributeType(op, attribute, operand);
      bool isMisread = value.kind == gert::AttributeValue::FLOAT && operand.bytes && !(operand.kind == Operand::NUMBER && operand.bytes == sizeof(double));
      if (isMisread) value.set(0.0);  // the bits of a float are the lower half of a double, which is then nearly 0
      else if (operand.kind == Operand::NUMBER) value.set(operand.number);
      else value.set(operand.integer);
      value.integers = operand.shape;
      value.numbers.assign(operand.numbers.begin(), operand.numbers.end());
      if (value.kind == gert::AttributeValue::LIST_FLOAT && operand.kind == Operand::INTEGERS) value.numbers.assign(operand.shape.begin(), operand.shape.end());
      value.text = operand.text;
    }
    values.push_back(std::move(value));
  }
  node.attributes.simulatorSet(std::move(values));
}

struct HostCall {
  TilingFunction function;
  gert::TilingContext* context;
  ge::graphStatus status;
};

void callTiling(void* given) {
  auto* call = static_cast<HostCall*>(given);
  call->status = call->function(call->context);
}

// Reports a crash in the tiling function, with the null result that most likely caused it.
ge::graphStatus guardedTiling(TilingFunction function, gert::TilingContext* context) {
  HostCall call{function, context, ge::GRAPH_FAILED};
  try {
    guarded(callTiling, &call);
  } catch (const Stop& stopped) {
    std::string text = stopped.what();
    std::string addresses = text.substr(std::min(text.size(), text.find('\t')));
    if (text.rfind("E-DIVIDE\t", 0) == 0) throw Stop("E-TILING-CRASH" + addresses + " in the tiling function");
    if (text.rfind("E-CRASH\t", 0) != 0 && text.rfind("E-GM-GUARD\t", 0) != 0) throw;
    addresses = addresses.substr(0, addresses.find('\t', 1) + 1);
    if (!watch.nullAnswer[0]) throw Stop("E-TILING-CRASH" + addresses + "the tiling function reads or writes memory outside its own");
    throw Stop("E-TILING-NULL" + addresses + "the tiling function uses a null pointer: " + watch.nullAnswer);
  }
  return call.status;
}

void checkTiling(const ops::OpDef& op, const Tiling& tiling, ge::graphStatus status) {
  const char* type = op.simulatorType().c_str();
  if (status != ge::GRAPH_SUCCESS) {
    std::string hint = watch.nullAnswer[0] ? std::string("; before the failure, ") + watch.nullAnswer : "";
    endRun("E-TILING-FAIL", "the tiling function of %s returned failure (aclnn 561002)%s", type, hint.c_str());
  }
  if (!tiling.blockDimIsSet) endRun("E-TILING-BLOCKS", "the tiling function of %s does not call SetBlockDim", type);
  if (tiling.blockDim == 0 || tiling.blockDim > MOST_BLOCKS)
    endRun("E-TILING-BLOCKS", "SetBlockDim(%u) in %s: the number of blocks must be 1 to %u", tiling.blockDim, type, MOST_BLOCKS);
  size_t dataSize = tiling.data.GetDataSize();
  if (dataSize > tiling.data.GetCapacity()) endRun("E-TILING-SIZE", "SetDataSize(%zu) in %s exceeds the capacity of %zu bytes", dataSize, type, tiling.data.GetCapacity());
  if (watch.saved && !dataSize) endRun("E-TILING-SIZE", "%s saves %zu bytes of tiling data, but does not call SetDataSize", type, watch.saved);
  if (watch.saved && dataSize != watch.saved)
    endRun("E-TILING-SIZE", "%s calls SetDataSize(%zu), but %s has %zu bytes", type, dataSize, watch.savedBy.c_str(), watch.saved);
}

HostFunctions functionsOf(const ops::OpDef& op) {
  HostFunctions functions = implementation(op.simulatorType().c_str());
  const HostFunctions& own = op.simulatorAICore().simulatorFunctions();
  if (own.tiling) functions.tiling = own.tiling;
  if (own.parse) functions.parse = own.parse;
  if (!functions.tiling) endRun("E-TILING-FAIL", "%s has no tiling function: write this->AICore().SetTiling(optiling::TilingFunc)", op.simulatorType().c_str());
  return functions;
}

void tile(const ops::OpDef& op, const Node& node, Tiling& tiling) {
  HostFunctions functions = functionsOf(op);
  std::shared_ptr<void> compileInfo;
  watch = Watch();
  if (functions.parse) {
    gert::TilingParseContext context(&node, &compileInfo);
    if (functions.parse(&context) != ge::GRAPH_SUCCESS)
      endRun("E-TILING-FAIL", "the SetTilingParse function of %s returned failure", op.simulatorType().c_str());
  }
  gert::TilingContext context(&node, &tiling, compileInfo.get());
  placedTilings.clear();
  ge::graphStatus status = guardedTiling(functions.tiling, &context);
  for (const auto& [object, placed] : placedTilings) storePlaced(object, placed);  // objects that outlive the function
  placedTilings.clear();
  checkTiling(op, tiling, status);
}

void checkKernel(const ops::OpDef& op, const Launch& launch) {
  size_t wanted = launch.arguments.size() + 2;
  int has = entry().parameters;
  if (has == 0 || size_t(has) == wanted) return;
  endRun("E-KERNEL-ARGS", "the kernel of %s has %d parameters, but needs %zu: inputs %s, outputs %s, workspace, tiling", op.simulatorType().c_str(), has,
       wanted, names(op.simulatorInputs()).c_str(), names(op.simulatorOutputs()).c_str());
}

}  // namespace

void addOperator(const char* type, MakeOperator make) { makers()[type] = make; }
HostFunctions& implementation(const char* type) { return implementations()[type]; }
fe::PlatFormInfos* platform() { return reinterpret_cast<fe::PlatFormInfos*>(&watch); }
bool kernelIsMixed() { return entry().isMix; }

void answeredNull(const char* call, size_t index, size_t count, const char* what) {
  if (index < count) snprintf(watch.nullAnswer, sizeof watch.nullAnswer, "%s(%zu) returned null, because that optional input is absent", call, index);
  else snprintf(watch.nullAnswer, sizeof watch.nullAnswer, "%s(%zu) returned null, because the index is out of range (%s: %zu)", call, index, what, count);
}

void noSuchDimension(size_t index, size_t count) {
  reportViolation("E-TILING-DIM", "GetDim(%zu) is outside a shape with %zu dimensions", index, count);
}

void savedTiling(size_t bytes, size_t capacity, const char* name) {
  if (bytes > capacity) endRun("E-TILING-SIZE", "SaveToBuffer of %s: %zu bytes do not fit into %zu", name, bytes, capacity);
  watch.saved = bytes;
  watch.savedBy = name;
}

void placeTiling(const void* object, void* buffer, size_t bytes, const char* name) { placedTilings[object] = {buffer, bytes, name}; }

void endTiling(const void* object) {
  if (placedTilings.empty()) return;
  auto found = placedTilings.find(object);
  if (found == placedTilings.end()) return;
  storePlaced(object, found->second);
  placedTilings.erase(found);
}

static void runGrouped(const ops::OpDef& op, const Operands& inputs, const std::vector<Operand>& attributes, const Operands& outputs, bool isCommand) {
  const std::string& type = op.simulatorType();
  Node node;
  node.type = type;
  Launch wanted;
  wanted.op = type;
  Used used;
  addInputs(op, inputs, isCommand, node, wanted, used);
  addAttributes(op, completed(op, attributes), node);
  addOutputs(op, outputs, node, wanted, used);
  checkColumn(op, used);
  checkKernel(op, wanted);
  callGraphFunctions(op, node);
  Tiling tiling;
  tile(op, node, tiling);
  auto* bytes = static_cast<const uint8_t*>(tiling.data.GetData());
  wanted.tiling.assign(bytes, bytes + tiling.data.GetDataSize());
  for (size_t workspace : tiling.workspaces) wanted.workspaceBytes += workspace;
  wanted.blockDim = tiling.blockDim;
  wanted.tilingKey = tiling.key;
  launch(wanted);
}

void runOperator(const std::string& type, const std::vector<Operand>& inputs, const std::vector<Operand>& attributes,
                 const std::vector<Operand>& outputs) {
  ops::OpDef& op = definition(type);
  runGrouped(op, grouped(op, op.simulatorInputs(), inputs, "inputs"), attributes, grouped(op, op.simulatorOutputs(), outputs, "outputs"), false);
}

void runCommand(const char* command, const std::vector<Operand>& operands) {
  const char prefix[] = "aclnn";
  if (strncmp(command, prefix, sizeof prefix - 1)) endRun("E-OP-NAME", "EXEC_NPU_CMD(%s): the name must be aclnn followed by the operator type", command);
  const ops::OpDef& op = definition(command + sizeof prefix - 1);
  size_t inputs = op.simulatorInputs().size(), attributes = op.simulatorAttributes().size(), outputs = separateOutputs(op);
  if (operands.size() != inputs + attributes + outputs)
    endRun("E-OP-ARGS", "EXEC_NPU_CMD(%s) passes %zu arguments, but its OpDef has inputs %s, attributes %s, outputs %s", command, operands.size(),
         names(op.simulatorInputs()).c_str(), names(op.simulatorAttributes()).c_str(), names(op.simulatorOutputs()).c_str());
  auto first = operands.begin();
  std::vector<std::shared_ptr<void>> memory;
  Operands passed = splitLists({first, first + inputs});
  Operands results = completedOutputs(op, passed, {first + inputs + attributes, operands.end()});
  Operands given = withTensorsOfValues(op, passed, results, memory);
  runGrouped(op, given, {first + inputs, first + inputs + attributes}, results, true);
}

}  // namespace simulator
