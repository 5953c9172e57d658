// The host side: from arguments through the operator's definition and its tiling function to a launch.
#include <cstdio>
#include <cstring>
#include <map>

#include "diagnose.h"
#include "launch.h"
#include "registry.h"
#include "register/op_def.h"
#include "graph/utils/type_utils.h"

namespace twin {

namespace {

constexpr uint32_t MOST_BLOCKS = 65535;
constexpr uint64_t MOST_VALUES = 4096;  // bytes of an input that the host side may read: shapes and the like
const char* const SOC = "ascend910b";

std::map<std::string, MakeOperator>& makers() {
  static std::map<std::string, MakeOperator> all;
  return all;
}

std::map<std::string, HostFunctions>& implementations() {
  static std::map<std::string, HostFunctions> all;
  return all;
}

// What the tiling function in progress did, for messages.
struct Watch {
  char nullAnswer[160] = "";
  size_t saved = 0;
  std::string savedBy;
};
Watch watch;

template <class Entries>
std::string names(const Entries& entries) {
  std::string list;
  for (const auto& one : entries) list += (list.empty() ? "" : ", ") + one->twinName();
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
    stop("E-OP-NAME", "no operator '%s' is defined: OP_ADD names %s", type.c_str(), known.empty() ? "none" : known.c_str());
  }
  return *(made[type] = std::unique_ptr<ops::OpDef>(maker->second(type.c_str())));
}

const ops::OpAICoreConfig& configuration(const ops::OpDef& op) {
  for (const ops::OpAICoreConfig& config : op.twinAICore().twinConfigs()) {
    if (config.twinName() == SOC) return config;
  }
  stop("E-OP-SOC", "%s has no configuration for this chip: write this->AICore().AddConfig(\"%s\")", op.twinType().c_str(), SOC);
}

// A configuration may give a parameter other element types than the operator does.
const ops::OpParamDef& inForce(const ops::OpParamDef& general, const ops::Entries<ops::OpParamDef>& special) {
  for (const auto& one : special) {
    if (one->twinName() == general.twinName()) return *one;
  }
  return general;
}

using Operands = std::vector<std::vector<Operand>>;  // those of each parameter

[[noreturn]] void wrongCount(const ops::OpDef& op, size_t given, const char* what, const std::string& defined) {
  stop("E-OP-ARGS", "%s is called with %zu %s, its OpDef has %s", op.twinType().c_str(), given, what, defined.c_str());
}

// Which operands belong to which parameter. Lists are equally long; optional ones at the end may be left out.
Operands grouped(const ops::OpDef& op, const ops::Entries<ops::OpParamDef>& parameters, const std::vector<Operand>& operands, const char* what) {
  size_t lists = 0, least = parameters.size();
  for (const auto& one : parameters) lists += one->twinOption() == ops::DYNAMIC;
  while (least && parameters[least - 1]->twinOption() == ops::OPTIONAL) least--;
  size_t single = parameters.size() - lists, each = 1;
  if (lists && operands.size() > parameters.size()) {
    each = (operands.size() - single) / lists;
    if ((operands.size() - single) % lists)
      stop("E-OP-DYNAMIC", "%s has %zu lists among its %s, and %zu tensors do not make lists of one length", op.twinType().c_str(), lists, what,
           operands.size() - single);
  } else if (operands.size() > parameters.size() || operands.size() < least) {
    wrongCount(op, operands.size(), what, names(parameters));
  }
  Operands found;
  size_t next = 0;
  for (const auto& one : parameters) {
    size_t count = one->twinOption() == ops::DYNAMIC ? each : 1;
    found.emplace_back();
    for (size_t i = 0; i < count; i++) found.back().push_back(next < operands.size() ? operands[next++] : Operand());
  }
  return found;
}

// Optional attributes at the end may be left out as well.
std::vector<Operand> completed(const ops::OpDef& op, std::vector<Operand> attributes) {
  const auto& defined = op.twinAttributes();
  size_t given = attributes.size();
  while (attributes.size() < defined.size() && defined[attributes.size()]->twinIsOptional()) attributes.emplace_back();
  if (attributes.size() != defined.size()) wrongCount(op, given, "attributes", names(defined));
  return attributes;
}

std::string listed(const std::vector<ge::DataType>& types) {
  std::string list;
  for (ge::DataType type : types) list += std::string(list.empty() ? "" : ", ") + ge::twinTypeName(type);
  return list.empty() ? "none" : list;
}

void checkType(const ops::OpDef& op, const ops::OpParamDef& parameter, const char* role, ge::DataType type) {
  for (ge::DataType known : parameter.twinTypes()) {
    if (known == type) return;
  }
  stop("E-OP-DTYPE", "%s '%s' of %s is %s, its OpDef allows %s (aclnn 161002)", role, parameter.twinName().c_str(), op.twinType().c_str(),
       ge::twinTypeName(type), listed(parameter.twinTypes()).c_str());
}

// Element types are columns: the n-th of every input and output go together.
void checkColumn(const ops::OpDef& op, const std::vector<std::pair<const ops::OpParamDef*, ge::DataType>>& used) {
  size_t columns = 0;
  for (const auto& one : used) columns = std::max(columns, one.first->twinTypes().size());
  for (size_t column = 0; column < columns; column++) {
    bool fits = true;
    for (const auto& one : used) {
      const auto& types = one.first->twinTypes();
      fits = fits && column < types.size() && types[column] == one.second;
    }
    if (fits) return;
  }
  std::string given;
  for (const auto& one : used) given += (given.empty() ? "" : ", ") + one.first->twinName() + " " + ge::twinTypeName(one.second);
  if (!used.empty()) stop("E-OP-DTYPE", "no column of DataType in %s fits %s (aclnn 161002)", op.twinType().c_str(), given.c_str());
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

void checkInput(const ops::OpDef& op, const ops::OpParamDef& parameter, const Operand& operand) {
  const char* name = parameter.twinName().c_str();
  if (operand.kind == Operand::TENSORS)
    stop("E-OP-DYNAMIC", "input '%s' of %s is a list of tensors, which the twin takes from no binding", name, op.twinType().c_str());
  if (operand.kind == Operand::ABSENT && parameter.twinOption() != ops::OPTIONAL)
    stop("E-OP-ARGS", "input '%s' of %s is required and was not given (aclnn 161001)", name, op.twinType().c_str());
  if (operand.kind != Operand::ABSENT && operand.kind != Operand::TENSOR)
    stop("E-OP-ARGS", "input '%s' of %s is no tensor", name, op.twinType().c_str());
  if (operand.kind == Operand::TENSOR && parameter.twinNeedsValues() && bytesOf(operand) > MOST_VALUES)
    stop("E-OP-VALUES", "the host side asks for the values of input '%s' of %s, %llu bytes: it may read %llu", name, op.twinType().c_str(),
         static_cast<unsigned long long>(bytesOf(operand)), static_cast<unsigned long long>(MOST_VALUES));
}

void addInputs(const ops::OpDef& op, const Operands& inputs, Node& node, Launch& launch, Used& used) {
  const auto& special = configuration(op).twinInputs();
  for (size_t i = 0; i < inputs.size(); i++) {
    const ops::OpParamDef& parameter = inForce(*op.twinInputs()[i], special);
    Buffer list{nullptr, 0, parameter.twinName(), false};
    node.inputLists.emplace_back(node.inputs.size(), inputs[i].size());
    for (const Operand& operand : inputs[i]) {
      checkInput(op, parameter, operand);
      bool present = operand.kind == Operand::TENSOR;
      if (present) {
        checkType(op, parameter, "input", operand.type);
        used.emplace_back(&parameter, operand.type);
        list.parts.push_back(buffer(operand, parameter.twinName(), false));
        list.bytes += bytesOf(operand);
      }
      node.present.push_back(present);
      node.inputs.push_back(present ? described(operand, parameter.twinNeedsValues()) : gert::Tensor());
    }
    bool isList = parameter.twinOption() == ops::DYNAMIC;
    launch.arguments.push_back(isList || list.parts.empty() ? list : list.parts[0]);
  }
}

void addOutputs(const ops::OpDef& op, const Operands& outputs, Node& node, Launch& launch, Used& used) {
  const auto& special = configuration(op).twinOutputs();
  for (size_t i = 0; i < outputs.size(); i++) {
    const ops::OpParamDef& parameter = inForce(*op.twinOutputs()[i], special);
    Buffer list{nullptr, 0, parameter.twinName(), true};
    node.outputLists.emplace_back(node.outputs.size(), outputs[i].size());
    for (const Operand& operand : outputs[i]) {
      if (operand.kind != Operand::TENSOR) stop("E-OP-ARGS", "output '%s' of %s is no tensor", parameter.twinName().c_str(), op.twinType().c_str());
      checkType(op, parameter, "output", operand.type);
      used.emplace_back(&parameter, operand.type);
      if (parameter.twinHasInitial()) memset(operand.data, 0, bytesOf(operand));
      node.outputs.push_back(described(operand, false));
      list.parts.push_back(buffer(operand, parameter.twinName(), true));
      list.bytes += bytesOf(operand);
    }
    launch.arguments.push_back(parameter.twinOption() == ops::DYNAMIC ? list : list.parts[0]);
  }
}

// On the device the value is passed as the C++ type it has: a float where a double is read is garbage.
void checkAttributeType(const ops::OpDef& op, const ops::OpAttrDef& attribute, const Operand& operand) {
  using Value = gert::AttributeValue;
  const char* name = attribute.twinName().c_str();
  const char* type = op.twinType().c_str();
  Value::Kind kind = attribute.twinValue().kind;
  bool isNumber = operand.kind == Operand::NUMBER, isInteger = operand.kind == Operand::INTEGER || operand.kind == Operand::BOOLEAN;
  if (kind == Value::FLOAT && !isNumber && !isInteger) stop("E-OP-ARGS", "attribute '%s' of %s is a float, and is given something else", name, type);
  if ((kind == Value::INT || kind == Value::BOOL) && !isInteger)
    stop("E-OP-ARGS", "attribute '%s' of %s is %s, and is given something else", name, type, kind == Value::INT ? "an int" : "a bool");
  if (!operand.bytes) return;
  if (kind == Value::FLOAT && !(isNumber && operand.bytes == sizeof(double)))
    broken("E-BIND-TYPE", "attribute '%s' of %s is a float: aclnn takes a double, the bind passes another type", name, type);
  if (kind == Value::INT && operand.bytes != sizeof(int64_t))
    broken("E-BIND-TYPE", "attribute '%s' of %s is an int: aclnn takes an int64_t, the bind passes %u bytes", name, type, operand.bytes);
}

void addAttributes(const ops::OpDef& op, const std::vector<Operand>& attributes, Node& node) {
  std::vector<gert::AttributeValue> values;
  for (size_t i = 0; i < attributes.size(); i++) {
    const ops::OpAttrDef& attribute = *op.twinAttributes()[i];
    const Operand& operand = attributes[i];
    gert::AttributeValue value = attribute.twinValue();
    if (operand.kind == Operand::ABSENT) {
      if (!attribute.twinIsOptional()) stop("E-OP-ARGS", "attribute '%s' of %s is required and was not given", attribute.twinName().c_str(), op.twinType().c_str());
    } else {
      checkAttributeType(op, attribute, operand);
      if (operand.kind == Operand::NUMBER) value.set(operand.number);
      else value.set(operand.integer);
      if (operand.kind == Operand::INTEGERS) value.integers = operand.shape;
      value.text = operand.text;
    }
    values.push_back(std::move(value));
  }
  node.attributes.twinSet(std::move(values));
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

// A crash in the tiling function is told as one, with the null answer it most likely came from.
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
    if (!watch.nullAnswer[0]) throw Stop("E-TILING-CRASH" + addresses + "the tiling function reads or writes memory that is none of its own");
    throw Stop("E-TILING-NULL" + addresses + "the tiling function uses a null pointer: " + watch.nullAnswer);
  }
  return call.status;
}

void checkTiling(const ops::OpDef& op, const Tiling& tiling, ge::graphStatus status) {
  const char* type = op.twinType().c_str();
  if (status != ge::GRAPH_SUCCESS) {
    std::string hint = watch.nullAnswer[0] ? std::string("; before that ") + watch.nullAnswer : "";
    stop("E-TILING-FAIL", "the tiling function of %s returned failure (aclnn 561002)%s", type, hint.c_str());
  }
  if (!tiling.blockDimIsSet) stop("E-TILING-BLOCKS", "the tiling function of %s does not call SetBlockDim", type);
  if (tiling.blockDim == 0 || tiling.blockDim > MOST_BLOCKS)
    stop("E-TILING-BLOCKS", "SetBlockDim(%u) in %s: 1 to %u blocks are possible", tiling.blockDim, type, MOST_BLOCKS);
  size_t told = tiling.data.GetDataSize();
  if (told > tiling.data.GetCapacity()) stop("E-TILING-SIZE", "SetDataSize(%zu) in %s is more than the %zu bytes there are", told, type, tiling.data.GetCapacity());
  if (watch.saved && !told) stop("E-TILING-SIZE", "%s saves %zu bytes of tiling data and does not call SetDataSize", type, watch.saved);
  if (watch.saved && told != watch.saved)
    stop("E-TILING-SIZE", "%s calls SetDataSize(%zu), and %s has %zu bytes", type, told, watch.savedBy.c_str(), watch.saved);
}

HostFunctions functionsOf(const ops::OpDef& op) {
  HostFunctions functions = implementation(op.twinType().c_str());
  const HostFunctions& own = op.twinAICore().twinFunctions();
  if (own.tiling) functions.tiling = own.tiling;
  if (own.parse) functions.parse = own.parse;
  if (!functions.tiling) stop("E-TILING-FAIL", "%s has no tiling function: write this->AICore().SetTiling(optiling::TilingFunc)", op.twinType().c_str());
  return functions;
}

void tile(const ops::OpDef& op, const Node& node, Tiling& tiling) {
  HostFunctions functions = functionsOf(op);
  std::shared_ptr<void> compileInfo;
  watch = Watch();
  if (functions.parse) {
    gert::TilingParseContext context(&node, &compileInfo);
    if (functions.parse(&context) != ge::GRAPH_SUCCESS)
      stop("E-TILING-FAIL", "the function that SetTilingParse names for %s returned failure", op.twinType().c_str());
  }
  gert::TilingContext context(&node, &tiling, compileInfo.get());
  checkTiling(op, tiling, guardedTiling(functions.tiling, &context));
}

void checkKernel(const ops::OpDef& op, const Launch& launch) {
  size_t wanted = launch.arguments.size() + 2;
  int has = entry().parameters;
  if (has == 0 || size_t(has) == wanted) return;
  stop("E-KERNEL-ARGS", "the kernel of %s takes %d parameters, and needs %zu: inputs %s, outputs %s, workspace, tiling", op.twinType().c_str(), has,
       wanted, names(op.twinInputs()).c_str(), names(op.twinOutputs()).c_str());
}

}  // namespace

void addOperator(const char* type, MakeOperator make) { makers()[type] = make; }
HostFunctions& implementation(const char* type) { return implementations()[type]; }
fe::PlatFormInfos* platform() { return reinterpret_cast<fe::PlatFormInfos*>(&watch); }
bool kernelIsMixed() { return entry().isMix; }

void answeredNull(const char* call, size_t index, size_t count, const char* what) {
  if (index < count) snprintf(watch.nullAnswer, sizeof watch.nullAnswer, "%s(%zu) answered null, as that optional input was not given", call, index);
  else snprintf(watch.nullAnswer, sizeof watch.nullAnswer, "%s(%zu) answered null, as there are %zu %s", call, index, count, what);
}

void noSuchDimension(size_t index, size_t count) {
  broken("E-TILING-DIM", "GetDim(%zu) of a shape with %zu dimensions", index, count);
}

void savedTiling(size_t bytes, size_t capacity, const char* name) {
  if (bytes > capacity) stop("E-TILING-SIZE", "SaveToBuffer of %s: %zu bytes into %zu", name, bytes, capacity);
  watch.saved = bytes;
  watch.savedBy = name;
}

void runOperator(const std::string& type, const std::vector<Operand>& inputs, const std::vector<Operand>& attributes,
                 const std::vector<Operand>& outputs) {
  ops::OpDef& op = definition(type);
  Node node;
  node.type = type;
  Launch wanted;
  wanted.op = type;
  Used used;
  addInputs(op, grouped(op, op.twinInputs(), inputs, "inputs"), node, wanted, used);
  addAttributes(op, completed(op, attributes), node);
  addOutputs(op, grouped(op, op.twinOutputs(), outputs, "outputs"), node, wanted, used);
  checkColumn(op, used);
  checkKernel(op, wanted);
  Tiling tiling;
  tile(op, node, tiling);
  auto* bytes = static_cast<const uint8_t*>(tiling.data.GetData());
  wanted.tiling.assign(bytes, bytes + tiling.data.GetDataSize());
  for (size_t workspace : tiling.workspaces) wanted.workspaceBytes += workspace;
  wanted.blockDim = tiling.blockDim;
  wanted.tilingKey = tiling.key;
  launch(wanted);
}

void runCommand(const char* command, const std::vector<Operand>& operands) {
  const char prefix[] = "aclnn";
  if (strncmp(command, prefix, sizeof prefix - 1)) stop("E-OP-NAME", "EXEC_NPU_CMD(%s): the name is aclnn and the operator's type", command);
  const ops::OpDef& op = definition(command + sizeof prefix - 1);
  size_t inputs = op.twinInputs().size(), attributes = op.twinAttributes().size(), outputs = op.twinOutputs().size();
  if (operands.size() != inputs + attributes + outputs)
    stop("E-OP-ARGS", "EXEC_NPU_CMD(%s) passes %zu arguments; its OpDef has inputs %s, attributes %s, outputs %s", command, operands.size(),
         names(op.twinInputs()).c_str(), names(op.twinAttributes()).c_str(), names(op.twinOutputs()).c_str());
  auto first = operands.begin();
  runOperator(op.twinType(), {first, first + inputs}, {first + inputs, first + inputs + attributes}, {first + inputs + attributes, operands.end()});
}

}  // namespace twin
