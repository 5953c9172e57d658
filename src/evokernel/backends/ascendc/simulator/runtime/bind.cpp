// Calls from the loader, directly to the operator or through the binding of a project.
#include "bind.h"

#include <map>

#include "diagnose.h"
#include "launch.h"
#include "parts.h"
#include "graph/utils/type_utils.h"
#include "pytorch_npu_helper.hpp"
#include "tensor_memory.h"

namespace simulator {

namespace {

const ge::DataType TYPES[] = {ge::DT_BOOL,  ge::DT_UINT8,   ge::DT_INT8, ge::DT_INT16, ge::DT_INT32,
                              ge::DT_INT64, ge::DT_FLOAT16, ge::DT_BF16, ge::DT_FLOAT, ge::DT_DOUBLE, ge::DT_COMPLEX64};

const std::pair<ge::DataType, at::ScalarType> SCALAR_TYPES[] = {
    {ge::DT_BOOL, at::kBool},   {ge::DT_UINT8, at::kByte},   {ge::DT_INT8, at::kChar},     {ge::DT_INT16, at::kShort},
    {ge::DT_INT32, at::kInt},   {ge::DT_INT64, at::kLong},   {ge::DT_FLOAT16, at::kHalf},  {ge::DT_BF16, at::kBFloat16},
    {ge::DT_FLOAT, at::kFloat}, {ge::DT_DOUBLE, at::kDouble}, {ge::DT_COMPLEX64, at::kComplexFloat}};

at::ScalarType scalarType(ge::DataType type) {
  for (const auto& pair : SCALAR_TYPES) {
    if (pair.first == type) return pair.second;
  }
  return at::ScalarType::Undefined;
}

ge::DataType dataType(at::ScalarType type) {
  for (const auto& pair : SCALAR_TYPES) {
    if (pair.second == type) return pair.first;
  }
  return ge::DT_UNDEFINED;
}

struct BoundEntry {
  BoundFunction function;
  std::vector<std::string> parameters;
  std::vector<Operand> defaults;  // defaults of the last parameters
};

std::map<std::string, BoundEntry>& boundFunctions() {
  static std::map<std::string, BoundEntry> all;
  return all;
}

std::string lastError;

Operand operand(const SimulatorArgument& given) {
  Operand made;
  made.kind = static_cast<Operand::Kind>(given.kind);
  made.type = TYPES[given.dtype];
  made.shape.assign(given.dims, given.dims + given.rank);
  made.data = given.data;
  made.isCopy = (given.flags & 1) != 0;
  made.isOnHost = (given.flags & 2) != 0;
  made.integer = given.integer;
  made.number = given.number;
  size_t length = static_cast<size_t>(given.integer);
  switch (made.kind) {
    case Operand::INTEGERS:
      made.shape.assign(static_cast<const int64_t*>(given.data), static_cast<const int64_t*>(given.data) + length);
      break;
    case Operand::NUMBERS:
      made.numbers.assign(static_cast<const double*>(given.data), static_cast<const double*>(given.data) + length);
      break;
    case Operand::TEXT:
      made.text.assign(static_cast<const char*>(given.data), length);
      break;
    case Operand::TENSORS:
      for (size_t i = 0; i < length; i++) made.items.push_back(operand(static_cast<const SimulatorArgument*>(given.data)[i]));
      break;
    default:
      break;
  }
  return made;
}

std::vector<Operand> operands(const SimulatorArgument* given, int count) {
  std::vector<Operand> made;
  for (int i = 0; i < count; i++) made.push_back(operand(given[i]));
  return made;
}

const BoundEntry& boundEntry(const std::string& name) {
  auto found = boundFunctions().find(name);
  if (found != boundFunctions().end()) return found->second;
  std::string known;
  for (const auto& one : boundFunctions()) known += (known.empty() ? "" : ", ") + one.first;
  endRun("E-BIND-ARGS", "the model calls '%s', but PYBIND11_MODULE defines %s", name.c_str(), known.empty() ? "nothing" : known.c_str());
}

// Missing arguments take their defaults; a missing optional argument is absent.
std::vector<Operand> completed(const std::string& name, const BoundEntry& entry, std::vector<Operand> given) {
  size_t wanted = entry.parameters.size(), without = wanted - std::min(wanted, entry.defaults.size());
  size_t had = given.size();
  for (size_t i = had; i < wanted; i++) {
    bool isOptional = entry.parameters[i].back() == '?';
    if (i >= without) given.push_back(entry.defaults[i - without]);
    else if (isOptional) given.push_back(Operand());
    else break;
  }
  if (given.size() == wanted) return given;
  std::string list;
  for (const std::string& type : entry.parameters) list += (list.empty() ? "" : ", ") + type;
  endRun("E-BIND-ARGS", "%s(%s) is called with %zu arguments", name.c_str(), list.c_str(), had);
}

void copyResult(const std::string& name, size_t index, const at::Tensor& result, const Operand& output) {
  int64_t count = 1;
  for (int64_t size : output.shape) count *= size;
  if (!result.defined()) endRun("E-BIND-RESULT", "result %zu of %s is not a tensor", index, name.c_str());
  if (result.numel() != count || dataType(result.scalar_type()) != output.type)
    endRun("E-BIND-RESULT", "result %zu of %s is %s %s, but must be %s %s", index, name.c_str(), at::toString(result.scalar_type()),
         joined(result.sizes()).c_str(), at::toString(scalarType(output.type)), joined(at::IntArrayRef(output.shape)).c_str());
  at::Tensor plain = result.contiguous();
  if (choice().isWhole()) memcpy(output.data, plain.simulatorData(), plain.nbytes());
  else copyWritten(output.data, plain.simulatorData(), plain.nbytes());
}

void callBound(const std::string& name, std::vector<Operand> arguments, const std::vector<Operand>& outputs) {
  const BoundEntry& entry = boundEntry(name);
  ExpectedOutputs expected(outputs);
  Results results = entry.function(completed(name, entry, std::move(arguments)));
  if (results.size() != outputs.size())
    endRun("E-BIND-RESULT", "%s returns %zu tensors, but must return %zu", name.c_str(), results.size(), outputs.size());
  for (size_t i = 0; i < results.size(); i++) copyResult(name, i, results[i], outputs[i]);
}

template <class Body>
int runAndRecordError(Body body) {
  lastError.clear();
  clearViolations();
  try {
    body();
    rethrowViolation();
    return 0;
  } catch (const Stop& stopped) {
    lastError = stopped.what();
  } catch (const c10::Error& error) {
    lastError = std::string("E-BIND-CHECK\t\tTORCH_CHECK failed: ") + error.what();
  } catch (const std::bad_alloc&) {
    lastError = "E-MEMORY\t\tthe host code requests more memory than is available";
  } catch (const std::exception& error) {
    lastError = std::string("E-HOST-RAISED\t\tthe host code threw an exception: ") + error.what();
  } catch (...) {
    lastError = "E-HOST-RAISED\t\tthe host code threw an exception that is not a std::exception";
  }
  return 1;
}

}  // namespace

void addBound(const char* name, BoundFunction function, std::vector<std::string> parameters, std::vector<Operand> defaults) {
  boundFunctions()[name] = {std::move(function), std::move(parameters), std::move(defaults)};
}

void wrongArgument(const char* wanted, const Operand& given) {
  static const char* const KINDS[] = {"nothing", "a tensor", "an int", "a float", "a bool", "a list of ints", "a text", "a list of tensors", "a list of floats"};
  endRun("E-BIND-ARGS", "the bound function takes %s, but gets %s", wanted, KINDS[given.kind]);
}

at::Tensor tensorOf(const Operand& given) {
  if (given.kind == Operand::ABSENT) return at::Tensor();
  if (given.kind != Operand::TENSOR) wrongArgument("a tensor", given);
  at::Tensor made = at::Tensor::simulatorOver(given.data, given.shape, scalarType(given.type));
  return given.isOnHost ? made.cpu() : made;
}

Operand commandOperand(const at::Tensor& tensor) {
  Operand made;
  if (!tensor.defined()) return made;
  if (!tensor.is_privateuseone()) endRun("E-BIND-DEVICE", "EXEC_NPU_CMD gets a tensor on the CPU, but takes only tensors on the device");
  if (!tensor.is_contiguous())
    endRun("E-BIND-LAYOUT", "EXEC_NPU_CMD gets a tensor that is not contiguous, so its kernel would read the values in another order: call contiguous()");
  made.kind = Operand::TENSOR;
  made.type = dataType(tensor.scalar_type());
  made.shape = tensor.sizes().vec();
  made.data = tensor.simulatorData();
  return made;
}

std::vector<at::Tensor> tensorsOf(const Operand& given) {
  std::vector<at::Tensor> made;
  if (given.kind == Operand::TENSOR) return {tensorOf(given)};
  if (given.kind != Operand::TENSORS) wrongArgument("a list of tensors", given);
  for (const Operand& one : given.items) made.push_back(tensorOf(one));
  return made;
}

}  // namespace simulator

namespace simulator {

static uint64_t bytesOf(const Operand& tensor) {
  uint64_t bytes = static_cast<uint64_t>(ge::GetSizeByDataType(tensor.type));
  for (int64_t size : tensor.shape) bytes *= static_cast<uint64_t>(size);
  return bytes;
}

static void begin(const std::vector<Operand>& given, const std::vector<Operand>& outputs) {
  startCall();
  call().number++;
  call().bytes.clear();
  call().inputs.clear();
  for (const Operand& one : given) {
    if (one.kind == Operand::TENSOR && !one.isCopy) call().inputs.push_back(one.data);
    for (const Operand& item : one.items)
      if (!item.isCopy) call().inputs.push_back(item.data);
  }
  for (const std::vector<Operand>* list : {&given, &outputs})
    for (const Operand& one : *list) {
      if (one.kind == Operand::TENSOR) call().bytes.push_back(bytesOf(one));
      for (const Operand& item : one.items) call().bytes.push_back(bytesOf(item));
    }
}

}  // namespace simulator

int simulator_run(const char* op, const SimulatorArgument* inputs, int inputCount, const SimulatorArgument* attributes, int attributeCount,
             const SimulatorArgument* outputs, int outputCount) {
  return simulator::runAndRecordError([&] {
    std::vector<simulator::Operand> given = simulator::operands(inputs, inputCount), made = simulator::operands(outputs, outputCount);
    simulator::begin(given, made);
    simulator::runOperator(op, given, simulator::operands(attributes, attributeCount), made);
  });
}

int simulator_call(const char* function, const SimulatorArgument* arguments, int argumentCount, const SimulatorArgument* outputs, int outputCount) {
  return simulator::runAndRecordError([&] {
    std::vector<simulator::Operand> given = simulator::operands(arguments, argumentCount), made = simulator::operands(outputs, outputCount);
    simulator::begin(given, made);
    simulator::callBound(function, given, made);
  });
}

const char* simulator_error() { return simulator::lastError.c_str(); }
