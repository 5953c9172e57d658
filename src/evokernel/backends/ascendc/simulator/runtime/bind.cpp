// Calls from the judge, straight to the operator or through the bind that a project brings along.
#include "bind.h"

#include <map>

#include "diagnose.h"
#include "launch.h"
#include "graph/utils/type_utils.h"
#include "pytorch_npu_helper.hpp"
#include "tensor_memory.h"

namespace twin {

namespace {

const ge::DataType TYPES[] = {ge::DT_BOOL,  ge::DT_UINT8,   ge::DT_INT8, ge::DT_INT16, ge::DT_INT32,
                              ge::DT_INT64, ge::DT_FLOAT16, ge::DT_BF16, ge::DT_FLOAT, ge::DT_DOUBLE};

const std::pair<ge::DataType, at::ScalarType> SCALAR_TYPES[] = {
    {ge::DT_BOOL, at::kBool},   {ge::DT_UINT8, at::kByte},   {ge::DT_INT8, at::kChar},     {ge::DT_INT16, at::kShort},
    {ge::DT_INT32, at::kInt},   {ge::DT_INT64, at::kLong},   {ge::DT_FLOAT16, at::kHalf},  {ge::DT_BF16, at::kBFloat16},
    {ge::DT_FLOAT, at::kFloat}, {ge::DT_DOUBLE, at::kDouble}};

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
  std::vector<Operand> defaults;  // of the last parameters
};

std::map<std::string, BoundEntry>& boundFunctions() {
  static std::map<std::string, BoundEntry> all;
  return all;
}

std::string lastError;

Operand operand(const TwinArgument& given) {
  Operand made;
  made.kind = static_cast<Operand::Kind>(given.kind);
  made.type = TYPES[given.dtype];
  made.shape.assign(given.dims, given.dims + given.rank);
  made.data = given.data;
  made.integer = given.integer;
  made.number = given.number;
  return made;
}

std::vector<Operand> operands(const TwinArgument* given, int count) {
  std::vector<Operand> made;
  for (int i = 0; i < count; i++) made.push_back(operand(given[i]));
  return made;
}

const BoundEntry& boundEntry(const std::string& name) {
  auto found = boundFunctions().find(name);
  if (found != boundFunctions().end()) return found->second;
  std::string known;
  for (const auto& one : boundFunctions()) known += (known.empty() ? "" : ", ") + one.first;
  stop("E-BIND-ARGS", "the model calls '%s', and PYBIND11_MODULE names %s", name.c_str(), known.empty() ? "nothing" : known.c_str());
}

// Parameters that were not given take their defaults; an optional one is absent.
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
  stop("E-BIND-ARGS", "%s(%s) is called with %zu arguments", name.c_str(), list.c_str(), had);
}

void copyResult(const std::string& name, size_t index, const at::Tensor& result, const Operand& output) {
  int64_t count = 1;
  for (int64_t size : output.shape) count *= size;
  if (!result.defined()) stop("E-BIND-RESULT", "result %zu of %s is no tensor", index, name.c_str());
  if (result.numel() != count || dataType(result.scalar_type()) != output.type)
    stop("E-BIND-RESULT", "result %zu of %s is %s %s, and must be %s %s", index, name.c_str(), at::toString(result.scalar_type()),
         joined(result.sizes()).c_str(), at::toString(scalarType(output.type)), joined(at::IntArrayRef(output.shape)).c_str());
  at::Tensor plain = result.contiguous();
  memcpy(output.data, plain.twinData(), plain.nbytes());
}

void callBound(const std::string& name, std::vector<Operand> arguments, const std::vector<Operand>& outputs) {
  const BoundEntry& entry = boundEntry(name);
  ExpectedOutputs expected(outputs);
  Results results = entry.function(completed(name, entry, std::move(arguments)));
  if (results.size() != outputs.size())
    stop("E-BIND-RESULT", "%s returns %zu tensors, and must return %zu", name.c_str(), results.size(), outputs.size());
  for (size_t i = 0; i < results.size(); i++) copyResult(name, i, results[i], outputs[i]);
}

template <class Body>
int told(Body body) {
  lastError.clear();
  startAnew();
  try {
    body();
    remember();
    return 0;
  } catch (const Stop& stopped) {
    lastError = stopped.what();
  } catch (const c10::Error& error) {
    lastError = std::string("E-BIND-CHECK\t\tTORCH_CHECK failed: ") + error.what();
  } catch (const std::bad_alloc&) {
    lastError = "E-MEMORY\t\tthe host side asks for more memory than there is";
  } catch (const std::exception& error) {
    lastError = std::string("E-HOST-RAISED\t\tthe host code raised ") + error.what();
  } catch (...) {
    lastError = "E-HOST-RAISED\t\tthe host code raised something that is no std::exception";
  }
  return 1;
}

}  // namespace

void addBound(const char* name, BoundFunction function, std::vector<std::string> parameters, std::vector<Operand> defaults) {
  boundFunctions()[name] = {std::move(function), std::move(parameters), std::move(defaults)};
}

void wrongArgument(const char* wanted, const Operand& given) {
  static const char* const KINDS[] = {"nothing", "a tensor", "an int", "a float", "a bool", "a list of ints", "a text", "a list of tensors"};
  stop("E-BIND-ARGS", "the bound function takes %s, and is given %s", wanted, KINDS[given.kind]);
}

at::Tensor tensorOf(const Operand& given) {
  if (given.kind == Operand::ABSENT) return at::Tensor();
  if (given.kind != Operand::TENSOR) wrongArgument("a tensor", given);
  return at::Tensor::twinOver(given.data, given.shape, scalarType(given.type));
}

Operand commandOperand(const at::Tensor& tensor) {
  Operand made;
  if (!tensor.defined()) return made;
  if (!tensor.is_privateuseone()) stop("E-BIND-DEVICE", "EXEC_NPU_CMD is given a tensor on the CPU: only the device's own can be used");
  if (!tensor.is_contiguous())
    stop("E-BIND-LAYOUT", "EXEC_NPU_CMD is given a tensor that is not contiguous: its kernel would see the values in another order; call contiguous()");
  made.kind = Operand::TENSOR;
  made.type = dataType(tensor.scalar_type());
  made.shape = tensor.sizes().vec();
  made.data = tensor.twinData();
  return made;
}

}  // namespace twin

namespace twin {

static void begin(const std::vector<Operand>& given, const std::vector<Operand>& outputs) {
  call().number++;
  call().bytes.clear();
  for (const std::vector<Operand>* list : {&given, &outputs})
    for (const Operand& one : *list) {
      if (one.kind != Operand::TENSOR) continue;
      uint64_t bytes = static_cast<uint64_t>(ge::GetSizeByDataType(one.type));
      for (int64_t size : one.shape) bytes *= static_cast<uint64_t>(size);
      call().bytes.push_back(bytes);
    }
}

}  // namespace twin

int twin_run(const char* op, const TwinArgument* inputs, int inputCount, const TwinArgument* attributes, int attributeCount,
             const TwinArgument* outputs, int outputCount) {
  return twin::told([&] {
    std::vector<twin::Operand> given = twin::operands(inputs, inputCount), made = twin::operands(outputs, outputCount);
    twin::begin(given, made);
    twin::runOperator(op, given, twin::operands(attributes, attributeCount), made);
  });
}

int twin_call(const char* function, const TwinArgument* arguments, int argumentCount, const TwinArgument* outputs, int outputCount) {
  return twin::told([&] {
    std::vector<twin::Operand> given = twin::operands(arguments, argumentCount), made = twin::operands(outputs, outputCount);
    twin::begin(given, made);
    twin::callBound(function, given, made);
  });
}

const char* twin_error() { return twin::lastError.c_str(); }
