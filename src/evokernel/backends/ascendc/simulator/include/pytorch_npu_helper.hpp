// EXEC_NPU_CMD: calls the operator from a binding. On the device the aclnn function gets each argument unconverted, so its C++ type matters.
#pragma once
#include <memory>

#include "torch/extension.h"

// The aclnn types that the helper header of op-plugin converts to.
struct aclIntArray {
  std::vector<int64_t> values;
};
struct aclScalar {
  at::Scalar value;
};

namespace simulator {

// Keeps a converted value until the library is unloaded, as the device does until the call is done.
template <class T>
const std::unique_ptr<T>& keptValue(T value) {
  static std::vector<std::unique_ptr<T>> all;
  all.push_back(std::make_unique<T>(std::move(value)));
  return all.back();
}

}  // namespace simulator

inline aclIntArray* ConvertType(const at::IntArrayRef& list) { return simulator::keptValue(aclIntArray{list.vec()}).get(); }
inline aclScalar* ConvertType(const at::Scalar& value) { return simulator::keptValue(aclScalar{value}).get(); }
// The value of a tensor with one element, on the host.
inline aclScalar* ConvertTensorToAclScaler(const at::Tensor& tensor) {
  bool isFloat = at::isFloatingType(tensor.scalar_type());
  return ConvertType(isFloat ? at::Scalar(tensor.item<double>()) : at::Scalar(tensor.item<int64_t>()));
}

namespace simulator {

Operand commandOperand(const at::Tensor& tensor);
inline Operand commandOperand(const std::optional<at::Tensor>& tensor) { return tensor ? commandOperand(*tensor) : Operand(); }
inline Operand commandOperand(const at::Scalar& value) { return value.isFloatingPoint() ? operandOf(value.toDouble()) : operandOf(value.toLong()); }
inline Operand commandOperand(const char* text) { return operandOf(text); }
inline Operand commandOperand(const std::string& text) { return operandOf(text); }
inline Operand commandOperand(std::nullptr_t) { return Operand(); }
inline Operand commandOperand(std::nullopt_t) { return Operand(); }
inline Operand commandOperand(const std::vector<int64_t>& list) {
  Operand made;
  made.kind = Operand::INTEGERS;
  made.shape = list;
  return made;
}
inline Operand commandOperand(const at::IntArrayRef& list) { return commandOperand(list.vec()); }
inline Operand commandOperand(const at::ArrayRef<at::Scalar>& list) {
  Operand made;
  made.kind = Operand::NUMBERS;
  for (const at::Scalar& one : list) made.numbers.push_back(one.toDouble());
  return made;
}
inline Operand commandOperand(const std::vector<at::Scalar>& list) { return commandOperand(at::ArrayRef<at::Scalar>(list)); }
inline Operand commandOperand(const aclIntArray* list) { return list ? commandOperand(list->values) : Operand(); }
inline Operand commandOperand(const aclScalar* value) { return value ? commandOperand(value->value) : Operand(); }
inline Operand commandOperand(const std::vector<double>& list) {
  Operand made;
  made.kind = Operand::NUMBERS;
  made.numbers = list;
  return made;
}
inline Operand commandOperand(const std::vector<float>& list) { return commandOperand(std::vector<double>(list.begin(), list.end())); }
inline Operand commandOperand(const at::ArrayRef<double>& list) { return commandOperand(list.vec()); }
inline Operand commandOperand(const std::vector<at::Tensor>& list) {
  Operand made;
  made.kind = Operand::TENSORS;
  for (const at::Tensor& one : list) made.items.push_back(commandOperand(one));
  return made;
}
inline Operand commandOperand(const at::TensorList& list) { return commandOperand(list.vec()); }
template <class T>
std::enable_if_t<std::is_arithmetic<T>::value, Operand> commandOperand(T value) {
  Operand made = operandOf(value);
  made.bytes = sizeof(T);
  return made;
}

// CANN's macro takes its arguments by reference, so that a literal or another temporary does not compile there.
template <class... T> std::bool_constant<(std::is_lvalue_reference<T>::value && ...)> areVariables(T&&...);

template <class... T>
void command(const char* name, const T&... arguments) {
  runCommand(name, {commandOperand(arguments)...});
}

}  // namespace simulator

#define EXEC_NPU_CMD(api, ...)                                                                                                  \
  do {                                                                                                                          \
    static_assert(decltype(::simulator::areVariables(__VA_ARGS__))::value,                                                      \
                  "EXEC_NPU_CMD takes variables only: assign a literal or the result of a call to a variable first, a double for " \
                  "a Float attribute, an int64_t for an Int attribute");                                                        \
    ::simulator::command(#api, ##__VA_ARGS__);                                                                                  \
  } while (false)
