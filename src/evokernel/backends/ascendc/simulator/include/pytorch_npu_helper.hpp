// EXEC_NPU_CMD: calls the operator from a binding. On the device the aclnn function gets each argument unconverted, so its C++ type matters.
#pragma once
#include "torch/extension.h"

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
inline Operand commandOperand(const at::TensorList&) {
  Operand made;
  made.kind = Operand::TENSORS;
  return made;
}
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
