// The part of pybind11 that bindings use: m.def names a function, and the simulator calls it by that name with the model's arguments.
#pragma once
#include <functional>
#include <type_traits>

#include "torch/library.h"

namespace simulator {

using Results = std::vector<at::Tensor>;
using BoundFunction = std::function<Results(const std::vector<Operand>&)>;
void addBound(const char* name, BoundFunction function, std::vector<std::string> parameters, std::vector<Operand> defaults);
[[noreturn]] void wrongArgument(const char* wanted, const Operand& given);
at::Tensor tensorOf(const Operand& given);
std::vector<at::Tensor> tensorsOf(const Operand& given);

template <class T>
Operand operandOf(const T& value);

// Converts one argument to the type that the function declares.
template <class T, class = void>
struct Argument;

template <>
struct Argument<at::Tensor> {
  static std::string type() { return "Tensor"; }
  static at::Tensor get(const Operand& given) { return tensorOf(given); }
};
template <>
struct Argument<at::Scalar> {
  static std::string type() { return "Scalar"; }
  static at::Scalar get(const Operand& given) {
    return given.kind == Operand::NUMBER ? at::Scalar(given.number) : at::Scalar(given.integer);
  }
};
template <class T>
struct Argument<T, std::enable_if_t<std::is_arithmetic<T>::value>> {
  static std::string type() { return std::is_same<T, bool>::value ? "bool" : std::is_floating_point<T>::value ? "float" : "int"; }
  static T get(const Operand& given) {
    if (given.kind == Operand::NUMBER && std::is_floating_point<T>::value) return static_cast<T>(given.number);
    if (given.kind != Operand::INTEGER && given.kind != Operand::BOOLEAN) wrongArgument(type().c_str(), given);
    return static_cast<T>(given.integer);
  }
};
template <>
struct Argument<at::IntArrayRef> {
  static std::string type() { return "int[]"; }
  static at::IntArrayRef get(const Operand& given) {
    if (given.kind == Operand::INTEGER) return at::IntArrayRef(given.integer);
    if (given.kind != Operand::INTEGERS) wrongArgument("int[]", given);
    return at::IntArrayRef(given.shape);
  }
};
template <>
struct Argument<std::vector<int64_t>> {
  static std::string type() { return "int[]"; }
  static std::vector<int64_t> get(const Operand& given) { return Argument<at::IntArrayRef>::get(given).vec(); }
};
template <>
struct Argument<std::vector<double>> {
  static std::string type() { return "float[]"; }
  static std::vector<double> get(const Operand& given) {
    if (given.kind == Operand::INTEGERS) return {given.shape.begin(), given.shape.end()};
    if (given.kind != Operand::NUMBERS) wrongArgument("float[]", given);
    return given.numbers;
  }
};
template <class T>
struct Argument<std::vector<T>, std::enable_if_t<std::is_arithmetic<T>::value>> {
  static std::string type() { return std::is_floating_point<T>::value ? "float[]" : "int[]"; }
  static std::vector<T> get(const Operand& given) {
    if constexpr (std::is_floating_point<T>::value) {
      std::vector<double> wide = Argument<std::vector<double>>::get(given);
      return {wide.begin(), wide.end()};
    } else {
      std::vector<int64_t> wide = Argument<at::IntArrayRef>::get(given).vec();
      return {wide.begin(), wide.end()};
    }
  }
};
template <>
struct Argument<std::vector<at::Tensor>> {
  static std::string type() { return "Tensor[]"; }
  static std::vector<at::Tensor> get(const Operand& given) { return tensorsOf(given); }
};
template <class T>
struct Argument<at::ArrayRef<T>> {
  static std::string type() { return Argument<std::vector<T>>::type(); }
  static at::ArrayRef<T> get(const Operand& given) { return Argument<std::vector<T>>::get(given); }
};
template <>
struct Argument<std::string> {
  static std::string type() { return "str"; }
  static std::string get(const Operand& given) {
    if (given.kind != Operand::TEXT) wrongArgument("str", given);
    return given.text;
  }
};
template <>
struct Argument<const char*> {  // the text lives as long as the operands
  static std::string type() { return "str"; }
  static const char* get(const Operand& given) {
    if (given.kind != Operand::TEXT) wrongArgument("str", given);
    return given.text.c_str();
  }
};
template <class T>
struct Argument<std::optional<T>> {
  static std::string type() { return Argument<T>::type() + "?"; }
  static std::optional<T> get(const Operand& given) {
    if (given.kind == Operand::ABSENT) return std::nullopt;
    return Argument<T>::get(given);
  }
};

inline Results resultsOf(at::Tensor result) { return {std::move(result)}; }
inline Results resultsOf(std::vector<at::Tensor> results) { return results; }
template <class... T>
Results resultsOf(const std::tuple<T...>& results) {
  return std::apply([](const auto&... each) { return Results{each...}; }, results);
}

// Calls a function with operands converted to its arguments.
template <class Result, class... T>
struct Bound {
  std::function<Result(T...)> function;
  static std::vector<std::string> parameters() { return {Argument<std::decay_t<T>>::type()...}; }

  Results operator()(const std::vector<Operand>& given) const { return call(given, std::index_sequence_for<T...>{}); }

 private:
  template <size_t... I>
  Results call(const std::vector<Operand>& given, std::index_sequence<I...>) const {
    std::tuple<std::decay_t<T>...> arguments{Argument<std::decay_t<T>>::get(given[I])...};
    if constexpr (std::is_void<Result>::value) {
      function(std::get<I>(arguments)...);
      return {};
    } else {
      return resultsOf(function(std::get<I>(arguments)...));
    }
  }
};

template <class Result, class... T>
Bound<Result, T...> bound(Result (*function)(T...)) {
  return {function};
}
template <class Result, class Owner, class... T>
Bound<Result, T...> boundMember(Result (Owner::*)(T...) const, Owner function) {
  return {function};
}
template <class Function>
auto bound(Function function) -> decltype(boundMember(&Function::operator(), function)) {
  return boundMember(&Function::operator(), function);
}

}  // namespace simulator

namespace pybind11 {

struct none {};
struct arg_v {
  simulator::Operand value;
};
struct arg {
  explicit arg(const char* name) : name(name) {}
  template <class T>
  arg_v operator=(const T& value) const {
    return {simulator::operandOf(value)};
  }
  arg& noconvert() { return *this; }
  const char* name;
};
namespace literals {
inline arg operator""_a(const char* name, size_t) { return arg(name); }
}  // namespace literals
template <class T>
struct call_guard {};
struct gil_scoped_release {};

class module_ {
 public:
  template <class Function, class... Extra>
  module_& def(const char* name, Function function, const Extra&... extra) {
    std::vector<simulator::Operand> defaults;
    (void)std::initializer_list<int>{(keep(defaults, extra), 0)...};
    auto callable = simulator::bound(function);
    simulator::addBound(name, callable, callable.parameters(), defaults);
    return *this;
  }
  std::string& doc() { return doc_; }

 private:
  static void keep(std::vector<simulator::Operand>& defaults, const arg_v& given) { defaults.push_back(given.value); }
  template <class Other>
  static void keep(std::vector<simulator::Operand>&, const Other&) {}
  std::string doc_;
};
using module = module_;

}  // namespace pybind11
namespace py = pybind11;

template <class T>
simulator::Operand simulator::operandOf(const T& value) {
  Operand made;
  if constexpr (std::is_same<T, bool>::value) {
    made.kind = Operand::BOOLEAN;
    made.integer = value;
  } else if constexpr (std::is_integral<T>::value) {
    made.kind = Operand::INTEGER;
    made.integer = static_cast<int64_t>(value);
  } else if constexpr (std::is_floating_point<T>::value) {
    made.kind = Operand::NUMBER;
    made.number = value;
  } else if constexpr (std::is_convertible<T, std::string>::value) {
    made.kind = Operand::TEXT;
    made.text = value;
  }  // none, nullopt: absent
  return made;
}

#define TORCH_EXTENSION_NAME custom_ops_lib
#define PYBIND11_MODULE(name, m)                                        \
  static void simulatorModule(::pybind11::module_& m);                       \
  [[maybe_unused]] static const bool simulatorModuleIsRead = [] {            \
    ::pybind11::module_ made;                                           \
    simulatorModule(made);                                                   \
    return true;                                                        \
  }();                                                                  \
  static void simulatorModule([[maybe_unused]] ::pybind11::module_& m)
