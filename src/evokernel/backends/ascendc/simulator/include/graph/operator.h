// ge::Operator: an operator of a graph, with its inputs, outputs and attributes by name. Functions that check whether an operator
// supports a call, and older functions that infer shapes, take it.
#pragma once
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "exe_graph/runtime/runtime_attrs.h"
#include "graph/ascend_string.h"
#include "graph/tensor.h"

namespace ge {

class Operator {
 public:
  Operator() = default;
  explicit Operator(const char* type) : type_(type) {}
  Operator(const char* name, const char* type) : type_(type), name_(name) {}

  std::string GetOpType() const { return type_; }
  graphStatus GetOpType(AscendString& type) const { return assign(type, type_); }
  std::string GetName() const { return name_.empty() ? type_ : name_; }
  graphStatus GetName(AscendString& name) const { return assign(name, GetName()); }
  size_t GetInputsSize() const { return inputs_.size(); }
  size_t GetOutputsSize() const { return outputs_.size(); }

  // An unknown name or index gives an empty description, as in CANN.
  template <class Key> TensorDesc GetInputDesc(const Key& key) const { return described(inputs_, key); }
  template <class Key> TensorDesc GetOutputDesc(const Key& key) const { return described(outputs_, key); }
  TensorDesc GetInputDescByName(const char* name) const { return described(inputs_, name); }
  TensorDesc GetOutputDescByName(const char* name) const { return described(outputs_, name); }
  TensorDesc GetDynamicInputDesc(const char* name, uint32_t index) const { return described(inputs_, name + std::to_string(index)); }
  TensorDesc GetDynamicOutputDesc(const char* name, uint32_t index) const { return described(outputs_, name + std::to_string(index)); }
  int GetDynamicInputNum(const char* name) const { return countList(inputs_, name); }
  int GetDynamicOutputNum(const char* name) const { return countList(outputs_, name); }
  template <class Key> graphStatus TryGetInputDesc(const Key& key, TensorDesc& description) const {
    const Entry* entry = find(inputs_, key);
    if (!entry) return GRAPH_FAILED;
    description = entry->description;
    return GRAPH_SUCCESS;
  }
  template <class Key> graphStatus UpdateInputDesc(const Key& key, const TensorDesc& description) { return update(inputs_, key, description); }
  template <class Key> graphStatus UpdateOutputDesc(const Key& key, const TensorDesc& description) { return update(outputs_, key, description); }
  // The values of inputs with ValueDepend.
  template <class Key> graphStatus GetInputConstData(const Key& key, Tensor& data) const {
    const Entry* entry = find(inputs_, key);
    if (!entry || !entry->hasData) return GRAPH_FAILED;
    data = entry->data;
    return GRAPH_SUCCESS;
  }

  // Fails if there is no attribute with this name and type.
  template <class T> graphStatus GetAttr(const std::string& name, T& value) const {
    auto found = attributes_.find(name);
    return found != attributes_.end() && read(found->second, value) ? GRAPH_SUCCESS : GRAPH_FAILED;
  }
  template <class T> Operator& SetAttr(const std::string& name, const T& value) {
    write(attributes_[name], value);
    return *this;
  }

  void simulatorInput(const std::string& name, TensorDesc description) { inputs_.push_back({name, std::move(description), {}, false}); }
  void simulatorOutput(const std::string& name, TensorDesc description) { outputs_.push_back({name, std::move(description), {}, false}); }
  void simulatorValues(const uint8_t* data, size_t bytes) {
    inputs_.back().data = Tensor(inputs_.back().description, data, bytes);
    inputs_.back().hasData = true;
  }
  void simulatorAttribute(const std::string& name, gert::AttributeValue value) { attributes_[name] = std::move(value); }

 private:
  using Value = gert::AttributeValue;
  struct Entry {
    std::string name;
    TensorDesc description;
    Tensor data;
    bool hasData;
  };

  template <class Entries, class Key> static auto find(Entries& entries, const Key& key) -> decltype(&entries[0]) {
    if constexpr (std::is_integral<Key>::value) {
      return static_cast<size_t>(key) < entries.size() ? &entries[static_cast<size_t>(key)] : nullptr;
    } else {
      for (auto& entry : entries)
        if (entry.name == key) return &entry;
      return nullptr;
    }
  }
  template <class Key> static TensorDesc described(const std::vector<Entry>& entries, const Key& key) {
    const Entry* entry = find(entries, key);
    return entry ? entry->description : TensorDesc();
  }
  template <class Key> static graphStatus update(std::vector<Entry>& entries, const Key& key, const TensorDesc& description) {
    Entry* entry = find(entries, key);
    if (!entry) return GRAPH_FAILED;
    entry->description = description;
    return GRAPH_SUCCESS;
  }
  static int countList(const std::vector<Entry>& entries, const std::string& name) {
    int count = 0;
    while (find(entries, name + std::to_string(count))) count++;
    return count;
  }
  static graphStatus assign(AscendString& to, const std::string& from) {
    to = AscendString(from.c_str());
    return GRAPH_SUCCESS;
  }

  template <class T> static bool read(const Value& from, T& value) {
    if constexpr (std::is_same<T, bool>::value) return from.kind == Value::BOOL && (value = from.boolean, true);
    else if constexpr (std::is_integral<T>::value) return from.kind == Value::INT && (value = static_cast<T>(from.integer), true);
    else if constexpr (std::is_floating_point<T>::value) return from.kind == Value::FLOAT && (value = static_cast<T>(from.number), true);
    else return from.kind == Value::STRING && (value = T(from.text.c_str()), true);
  }
  template <class T> static bool read(const Value& from, std::vector<T>& values) {
    if constexpr (std::is_floating_point<T>::value) {
      values.assign(from.numbers.begin(), from.numbers.end());
      return from.kind == Value::LIST_FLOAT;
    } else {
      values.assign(from.integers.begin(), from.integers.end());
      return from.kind == (std::is_same<T, bool>::value ? Value::LIST_BOOL : Value::LIST_INT);
    }
  }
  static bool read(const Value& from, std::vector<std::vector<int64_t>>& values) {
    values = from.integerLists;
    return from.kind == Value::LIST_LIST_INT;
  }
  template <class T> static void write(Value& into, const T& value) {
    if constexpr (std::is_same<T, bool>::value) into.kind = Value::BOOL, into.set(static_cast<int64_t>(value));
    else if constexpr (std::is_integral<T>::value) into.kind = Value::INT, into.set(static_cast<int64_t>(value));
    else if constexpr (std::is_floating_point<T>::value) into.kind = Value::FLOAT, into.set(static_cast<double>(value));
    else into.kind = Value::STRING, into.text = value;
  }
  template <class T> static void write(Value& into, const std::vector<T>& values) {
    constexpr bool isFloat = std::is_floating_point<T>::value;
    into.kind = isFloat ? Value::LIST_FLOAT : std::is_same<T, bool>::value ? Value::LIST_BOOL : Value::LIST_INT;
    if constexpr (isFloat) into.numbers.assign(values.begin(), values.end());
    else into.integers.assign(values.begin(), values.end());
  }

  std::string type_, name_;
  std::vector<Entry> inputs_, outputs_;
  std::map<std::string, Value> attributes_;
};

}  // namespace ge
